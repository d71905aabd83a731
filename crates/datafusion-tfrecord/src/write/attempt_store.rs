//! [`AttemptStore`]: where attempts of tasks stage the shards of a set and leave their reports, a directory or an object
//! store.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use datafusion_common::Result;
use tfrecord_shards::objects::AttemptChoice;
use tfrecord_shards::{
    AttemptId, ErrorKind, LocalCommit, Manifest, SharedStaging, StagedShard, StagingArea, TaskReport,
};
use tfrecord_sidecars::SidecarKind;

use super::options::WriteOptions;
use super::running::{Running, blocking};
use super::shards::Shards;
use super::staging::Staging;
use super::task_staging::NewAttempt;
use crate::error::shards_error;

/// Where attempts of tasks stage the shards of a set and leave their reports.
#[async_trait]
pub(crate) trait AttemptStore: Send + Sync {
    /// Begins an attempt of a task.
    ///
    /// # Errors
    /// The set is published or abandoned.
    async fn begin(&self, id: AttemptId, running: Running) -> Result<NewAttempt>;

    /// Checks that the set is neither published nor abandoned. Returns the directory of the attempts, if they are in one.
    ///
    /// # Errors
    /// It is published or abandoned.
    async fn open(&self) -> Result<Option<StagingArea>>;

    /// Returns the attempts that are complete, in the order of tasks and attempts.
    async fn complete(&self) -> Result<Vec<(u32, AttemptId)>>;

    /// Reads the reports of attempts, in their order. The inner errors are those of reports.
    async fn read(&self, attempts: Vec<(u32, AttemptId)>) -> Result<Vec<ReadReport>>;

    /// Records which attempts are published, unless that is decided. Returns what is decided.
    async fn choose(&self, choice: AttemptChoice) -> Result<AttemptChoice>;

    /// Returns the manifest of the set, if a process has published it completely.
    async fn published(&self) -> Result<Option<Manifest>>;

    /// Begins to publish the set. Undoes what a process that failed to publish it has done, where that is in the way.
    ///
    /// # Errors
    /// The set is published or abandoned, or another process publishes it.
    async fn resume(&self) -> Result<Box<dyn ResumedRun + '_>>;

    /// Removes what is left of a set that is published. `completed` are the ids of its uploads.
    async fn end(&self, completed: &BTreeSet<String>) -> Result<()>;

    /// Removes everything that attempts have staged. Does nothing if the set is published or abandoned.
    ///
    /// # Errors
    /// Another process goes on with the run, or the file system or the store fails.
    async fn abandon(&self) -> Result<()>;
}

/// A run that this process publishes.
#[async_trait]
pub(crate) trait ResumedRun: Send + Sync {
    /// Compares the checksums of staged shards with their reports. The inner error is that of a shard.
    async fn verify(&self, reports: &[TaskReport]) -> Result<tfrecord_shards::Result<()>>;

    /// Takes over the shards of these attempts, to be published. `created` is when the publication began.
    async fn adopt(
        self: Box<Self>,
        reports: Vec<TaskReport>,
        created: DateTime<Utc>,
        running: Running,
    ) -> Result<(Staging, Vec<StagedShard>)>;
}

/// A task, and the report of one of its attempts.
pub(crate) type ReadReport = (u32, tfrecord_shards::Result<TaskReport>);

/// Attempts in a directory that all processes see.
pub(super) struct AttemptDirectory<'a> {
    at: &'a SharedStaging,
    options: &'a WriteOptions,
    /// To read what others have staged.
    reader: OnceLock<StagingArea>,
}

impl<'a> AttemptDirectory<'a> {
    pub(super) fn new(at: &'a SharedStaging, options: &'a WriteOptions) -> Self {
        Self { at, options, reader: OnceLock::new() }
    }

    fn reader(&self) -> Result<&StagingArea> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let reader = StagingArea::join(self.at, AttemptId::new()).map_err(shards_error)?;
        Ok(self.reader.get_or_init(|| reader))
    }
}

#[async_trait]
impl AttemptStore for AttemptDirectory<'_> {
    async fn begin(&self, id: AttemptId, _: Running) -> Result<NewAttempt> {
        let area = StagingArea::join(self.at, id).map_err(shards_error)?;
        let area = area.with_indexes(self.options.emit.has(SidecarKind::Index));
        let shards = Shards::Files(Arc::new(area.clone()));
        Ok(NewAttempt { shards, attempt: Arc::new(area.clone()), directory: Some(area) })
    }

    async fn open(&self) -> Result<Option<StagingArea>> {
        self.reader().cloned().map(Some)
    }

    async fn complete(&self) -> Result<Vec<(u32, AttemptId)>> {
        self.reader()?.complete_attempts().map_err(shards_error)
    }

    async fn read(&self, attempts: Vec<(u32, AttemptId)>) -> Result<Vec<ReadReport>> {
        let reader = self.reader()?;
        Ok(attempts.into_iter().map(|(task, attempt)| (task, reader.report_of(task, attempt))).collect())
    }

    /// A directory is locked by the process that publishes it, so no other one can have decided.
    async fn choose(&self, choice: AttemptChoice) -> Result<AttemptChoice> {
        Ok(choice)
    }

    async fn published(&self) -> Result<Option<Manifest>> {
        let at = self.at.clone();
        blocking(move || LocalCommit::published(&at).map_err(shards_error)).await
    }

    async fn resume(&self) -> Result<Box<dyn ResumedRun + '_>> {
        let (at, mode) = (self.at.clone(), self.options.mode);
        let commit = blocking(move || LocalCommit::resume(&at, mode).map_err(shards_error)).await?;
        Ok(Box::new(ResumedDirectory { commit, options: self.options }))
    }

    /// Nothing is left, since the files themselves were published.
    async fn end(&self, _: &BTreeSet<String>) -> Result<()> {
        Ok(())
    }

    async fn abandon(&self) -> Result<()> {
        let (at, mode) = (self.at.clone(), self.options.mode);
        let abandon = move || match LocalCommit::resume(&at, mode) {
            Err(error) if !matches!(error.kind(), ErrorKind::Ended) => Err(shards_error(error)),
            commit => {
                drop(commit.map(LocalCommit::abort));
                Ok(())
            }
        };
        blocking(abandon).await
    }
}

/// A run whose directory this process has locked.
struct ResumedDirectory<'a> {
    commit: LocalCommit,
    options: &'a WriteOptions,
}

#[async_trait]
impl ResumedRun for ResumedDirectory<'_> {
    async fn verify(&self, reports: &[TaskReport]) -> Result<tfrecord_shards::Result<()>> {
        let (commit, reports) = (self.commit.clone(), reports.to_vec());
        blocking(move || Ok(commit.verify(&reports))).await
    }

    async fn adopt(
        self: Box<Self>,
        reports: Vec<TaskReport>,
        _: DateTime<Utc>,
        _: Running,
    ) -> Result<(Staging, Vec<StagedShard>)> {
        let Self { commit, options } = *self;
        let options = options.clone();
        blocking(move || {
            let shards = commit.adopt(&reports).map_err(shards_error)?;
            Ok((Staging::local(commit, &options), shards))
        })
        .await
    }
}
