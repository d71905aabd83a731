//! [`UploadAttempts`]: attempts of tasks whose shards are uploads that are not completed.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use datafusion_common::{DataFusionError, Result, exec_err};
use datafusion_execution::TaskContext;
use futures::{StreamExt, TryStreamExt, stream};
use tfrecord_shards::objects::{AttemptChoice, ControlName, SharedUploads};
use tfrecord_shards::{AttemptError, AttemptId, Manifest, StagedShard, StagingArea, TaskReport};

use super::target::{MOST_AT_ONCE, UploadTarget};
use super::{ControlArea, UploadSet};
use crate::error::shards_error;
use crate::write::attempt_store::{AttemptStore, ReadReport, ResumedRun};
use crate::write::options::WriteOptions;
use crate::write::running::Running;
use crate::write::shards::Shards;
use crate::write::staging::Staging;
use crate::write::target::WriteTarget;
use crate::write::task_staging::NewAttempt;

/// Attempts in an object store.
pub(crate) struct UploadAttempts<'a> {
    control: ControlArea,
    at: &'a SharedUploads,
    options: &'a WriteOptions,
    context: &'a TaskContext,
}

impl<'a> UploadAttempts<'a> {
    /// Finds the control objects of a run.
    ///
    /// # Errors
    /// The session has no uploads to this store.
    pub(crate) fn new(at: &'a SharedUploads, options: &'a WriteOptions, context: &'a TaskContext) -> Result<Self> {
        let out = &options.out;
        let WriteTarget::Store(location) = out else { return exec_err!("{out} is not in an object store") };
        let place = UploadTarget::find(location, &context.runtime_env(), context.session_config())?;
        // A set that is added to changes in place.
        let place = if at.current.is_none() { place.shared(&at.run)? } else { place };
        Ok(Self { control: ControlArea::new(place, at.run.clone()), at, options, context })
    }

    /// Begins an attempt. With `created`, the time when the publication began, it publishes the set.
    async fn join(&self, id: AttemptId, created: Option<DateTime<Utc>>, running: Running) -> Result<Arc<UploadSet>> {
        UploadSet::join(self.control.clone(), self.at, (id, created), self.options, self.context, running).await
    }
}

#[async_trait]
impl AttemptStore for UploadAttempts<'_> {
    async fn begin(&self, id: AttemptId, running: Running) -> Result<NewAttempt> {
        let set = self.join(id, None, running).await?;
        Ok(NewAttempt { shards: Shards::Uploads(Arc::clone(&set)), attempt: set, directory: None })
    }

    async fn open(&self) -> Result<Option<StagingArea>> {
        self.at.check_format().map_err(shards_error)?;
        self.control.check_open().await.map(|()| None)
    }

    async fn complete(&self) -> Result<Vec<(u32, AttemptId)>> {
        let complete = self.control.list().await?.into_iter().filter_map(|name| match name {
            ControlName::Report { partition, attempt } => Some((partition, attempt)),
            _ => None,
        });
        Ok(complete.collect())
    }

    async fn read(&self, attempts: Vec<(u32, AttemptId)>) -> Result<Vec<ReadReport>> {
        let control = &self.control;
        let read = |(partition, attempt)| async move {
            let name = ControlName::Report { partition, attempt };
            let path = control.path(name);
            let report = match control.get(name).await? {
                Some(json) => TaskReport::from_uploads(&json, &path, &control.run, partition, attempt),
                None => Err(AttemptError::NoReport { path }.into()),
            };
            Ok::<_, DataFusionError>((partition, report))
        };
        stream::iter(attempts).map(read).buffered(MOST_AT_ONCE).try_collect().await
    }

    async fn choose(&self, choice: AttemptChoice) -> Result<AttemptChoice> {
        let Self { control, .. } = self;
        let json = serde_json::to_vec(&choice).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let found = control.place.put_new_file(&ControlName::Choice.path(&control.run), json).await?;
        control.parse(ControlName::Choice, &found)
    }

    async fn published(&self) -> Result<Option<Manifest>> {
        let found = self.control.published().await?;
        Ok(found.filter(|(_, is_complete)| *is_complete).map(|(current, _)| current.manifest))
    }

    async fn resume(&self) -> Result<Box<dyn ResumedRun + '_>> {
        Ok(Box::new(ResumedUploads(self)))
    }

    async fn end(&self, completed: &BTreeSet<String>) -> Result<()> {
        self.control.end(completed).await
    }

    async fn abandon(&self) -> Result<()> {
        self.at.check_format().map_err(shards_error)?;
        self.control.end(&BTreeSet::new()).await
    }
}

/// A run in an object store. There is nothing to lock: each step of its publication can be repeated by any process.
struct ResumedUploads<'a>(&'a UploadAttempts<'a>);

#[async_trait]
impl ResumedRun for ResumedUploads<'_> {
    /// The store has compared the checksums of the parts when they were uploaded.
    async fn verify(&self, _: &[TaskReport]) -> Result<tfrecord_shards::Result<()>> {
        Ok(Ok(()))
    }

    async fn adopt(
        self: Box<Self>,
        reports: Vec<TaskReport>,
        created: DateTime<Utc>,
        running: Running,
    ) -> Result<(Staging, Vec<StagedShard>)> {
        let set = self.0.join(AttemptId::new(), Some(created), running).await?;
        Ok((Staging::uploads(set), reports.into_iter().flat_map(|report| report.shards).collect()))
    }
}
