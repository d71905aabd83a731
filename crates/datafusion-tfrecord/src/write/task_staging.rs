//! [`TaskStaging`]: where an attempt of a task stages its shards and sorted rows; [`TaskReports`]: what attempts have
//! staged.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, SubsecRound, Utc};
use datafusion_common::Result;
use datafusion_execution::TaskContext;
use futures::{StreamExt, TryStreamExt, stream};
use tfrecord_shards::objects::AttemptChoice;
use tfrecord_shards::sort::DirectorySpill;
use tfrecord_shards::{AttemptId, Manifest, RunId, SharedPlace, StagedShard, StagingArea, TaskAttempt, TaskReport};
use tfrecord_sidecars::SidecarKind;

use super::options::WriteOptions;
use super::running::Running;
use super::shards::Shards;
use super::shared::{SharedWrite, blocking, control_area};
use super::upload::{ControlArea, UploadSet};
use crate::error::{ErrorKind, shards_error};

/// Number of reports read at the same time.
const MOST_AT_ONCE: usize = 16;

/// Where one attempt of a task stages its shards and its sorted rows.
#[derive(Clone)]
pub(crate) struct TaskStaging {
    attempt: Arc<dyn TaskAttempt>,
    /// The directory of the sorted rows, if there is one.
    rows: Option<StagingArea>,
    /// The same, if it is not that of the shards.
    scratch: Option<StagingArea>,
    run: RunId,
    id: AttemptId,
}

impl TaskStaging {
    /// Begins a new attempt of a task.
    pub(super) async fn join(
        at: &SharedWrite,
        options: &WriteOptions,
        context: &TaskContext,
        running: Running,
    ) -> Result<(Shards, Self)> {
        let id = AttemptId::new();
        let scratch = at.scratch.as_ref().map(|scratch| StagingArea::join(scratch, id)).transpose();
        let scratch = scratch.map_err(shards_error)?;
        let (shards, attempt, directory): (_, Arc<dyn TaskAttempt>, _) = match &at.shards {
            SharedPlace::Directory(at) => {
                let area = StagingArea::join(at, id).map_err(shards_error)?;
                let area = area.with_indexes(options.emit.has(SidecarKind::Index));
                (Shards::Files(Arc::new(area.clone())), Arc::new(area.clone()), Some(area))
            }
            SharedPlace::Store(at) => {
                let control = control_area(&options.out, at, context)?;
                let set = UploadSet::join(control, at, (id, None), options, context, running).await?;
                (Shards::Uploads(Arc::clone(&set)), set, None)
            }
        };
        let rows = scratch.clone().or(directory);
        Ok((shards, Self { attempt, rows, scratch, run: at.run().clone(), id }))
    }

    /// Returns a store for the attempt's sorted rows, in which it also finds those of other attempts.
    ///
    /// # Errors
    /// There is no directory for them.
    pub(crate) fn runs(&self) -> Result<DirectorySpill> {
        Ok(self.rows.as_ref().ok_or(ErrorKind::NoScratch)?.runs())
    }

    /// Returns how the sorted rows are cut into shards, if that is decided.
    pub(super) fn cut(&self) -> Result<Option<Vec<u8>>> {
        self.rows.as_ref().map_or(Ok(None), |rows| rows.cut().map_err(shards_error))
    }

    /// Describes the attempt, whose shards these are, as complete.
    pub(super) fn report(&self, partition: u32, shards: Vec<StagedShard>) -> TaskReport {
        TaskReport::new(self.run.clone(), partition, self.id, shards)
    }

    /// Puts the report of the attempt, which makes it complete. Waits for the disk or for requests.
    pub(super) fn put_report(&self, report: &TaskReport) -> tfrecord_shards::Result<()> {
        self.scratch.as_ref().map_or(Ok(()), StagingArea::keep)?;
        self.attempt.put_report(report)
    }
}

/// What attempts of tasks have staged so far.
pub(super) struct TaskReports {
    reports: Reports,
    rows: Option<StagingArea>,
}

enum Reports {
    Directory(StagingArea),
    Store(Box<ControlArea>),
}

impl TaskReports {
    /// Joins a run.
    ///
    /// # Errors
    /// The set is published or abandoned.
    pub(super) async fn open(at: &SharedWrite, options: &WriteOptions, context: &TaskContext) -> Result<Self> {
        let reports = match &at.shards {
            SharedPlace::Directory(at) => {
                Reports::Directory(StagingArea::join(at, AttemptId::new()).map_err(shards_error)?)
            }
            SharedPlace::Store(at) => {
                at.check_format().map_err(shards_error)?;
                let control = control_area(&options.out, at, context)?;
                control.check_open().await?;
                Reports::Store(Box::new(control))
            }
        };
        let rows = match (&at.scratch, &reports) {
            (Some(scratch), _) => Some(StagingArea::join(scratch, AttemptId::new()).map_err(shards_error)?),
            (None, Reports::Directory(area)) => Some(area.clone()),
            (None, Reports::Store(_)) => None,
        };
        Ok(Self { reports, rows })
    }

    /// Returns the directory of the sorted rows.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn rows(&self) -> Result<&StagingArea> {
        Ok(self.rows.as_ref().ok_or(ErrorKind::NoScratch)?)
    }

    /// Returns how the sorted rows are cut into shards, if that is decided.
    pub(super) fn cut(&self) -> Result<Option<Vec<u8>>> {
        self.rows.as_ref().map_or(Ok(None), |rows| rows.cut().map_err(shards_error))
    }

    /// Returns the tasks that have a complete attempt. Those that write sorted rows have the numbers after the others.
    pub(super) async fn complete(&self) -> Result<BTreeSet<u32>> {
        let attempts = match &self.reports {
            Reports::Directory(area) => area.complete_attempts().map_err(shards_error)?,
            Reports::Store(control) => control.complete_attempts().await?,
        };
        Ok(attempts.into_iter().map(|(task, _)| task).collect())
    }

    /// Returns the reports of all complete attempts, in the order of tasks and attempts.
    pub(super) async fn all(&self) -> Result<Vec<TaskReport>> {
        self.sound().await?.map_err(shards_error)
    }

    /// As [`all`](Self::all). The inner error is that of reports in a directory.
    pub(super) async fn sound(&self) -> Result<Result<Vec<TaskReport>, tfrecord_shards::Error>> {
        match &self.reports {
            Reports::Directory(area) => Ok(area.reports()),
            Reports::Store(control) => control.reports().await.map(Ok),
        }
    }

    /// Returns the reports of these attempts, in their order.
    pub(super) async fn of(&self, attempts: impl IntoIterator<Item = (u32, AttemptId)>) -> Result<Vec<TaskReport>> {
        let read = async |(partition, attempt)| match &self.reports {
            Reports::Directory(area) => area.report_of(partition, attempt).map_err(shards_error),
            Reports::Store(control) => control.report_of(partition, attempt).await,
        };
        stream::iter(attempts).map(read).buffered(MOST_AT_ONCE).try_collect().await
    }

    /// Decides which attempts are published, and when the publication began: these and now, unless another process that
    /// began to publish the set has decided.
    pub(super) async fn choose(&self, reports: Vec<TaskReport>) -> Result<(Vec<TaskReport>, DateTime<Utc>)> {
        let created = Utc::now().trunc_subsecs(3);
        // A directory is locked by the process that publishes it.
        let Reports::Store(control) = &self.reports else { return Ok((reports, created)) };
        let attempts =
            |reports: &[TaskReport]| reports.iter().map(|report| (report.partition, report.attempt)).collect();
        let choice = AttemptChoice { created, attempts: attempts(&reports) };
        let chosen = control.choose(&choice).await?;
        let reports = if chosen.attempts == choice.attempts { reports } else { self.of(chosen.attempts).await? };
        Ok((reports, chosen.created))
    }
}

/// Returns the manifest of the set, if a process has published it completely.
pub(super) async fn published(
    at: &SharedWrite,
    options: &WriteOptions,
    context: &TaskContext,
) -> Result<Option<Manifest>> {
    let uploads = match &at.shards {
        SharedPlace::Directory(_) => {
            let at = at.clone();
            return blocking(move || at.published()).await;
        }
        SharedPlace::Store(uploads) => uploads,
    };
    let found = control_area(&options.out, uploads, context)?.published().await?;
    Ok(found.filter(|(_, is_complete)| *is_complete).map(|(standing, _)| standing.manifest))
}
