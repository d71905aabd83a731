//! [`TaskStaging`]: where an attempt of a task stages its shards and sorted rows; [`TaskReports`]: what attempts have
//! staged.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, SubsecRound, Utc};
use datafusion_common::Result;
use datafusion_execution::TaskContext;
use tfrecord_shards::objects::AttemptChoice;
use tfrecord_shards::sort::DirectorySpill;
use tfrecord_shards::{
    AttemptId, Manifest, RunId, SharedPlace, StagedShard, StagingArea, TaskAttempt, TaskReport, sound_reports,
};
use tfrecord_sidecars::SidecarKind;

use super::attempt_store::AttemptStore;
use super::options::WriteOptions;
use super::running::Running;
use super::shards::Shards;
use super::shared::{SharedWrite, blocking, control_area};
use super::upload::UploadSet;
use crate::error::{ErrorKind, shards_error};

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
    attempts: Box<dyn AttemptStore>,
    rows: Option<StagingArea>,
}

impl TaskReports {
    /// Joins a run.
    ///
    /// # Errors
    /// The set is published or abandoned.
    pub(super) async fn open(at: &SharedWrite, options: &WriteOptions, context: &TaskContext) -> Result<Self> {
        let scratch = at.scratch.as_ref().map(|scratch| StagingArea::join(scratch, AttemptId::new()));
        let (attempts, directory): (Box<dyn AttemptStore>, _) = match &at.shards {
            SharedPlace::Directory(at) => {
                let area = StagingArea::join(at, AttemptId::new()).map_err(shards_error)?;
                (Box::new(area.clone()), Some(area))
            }
            SharedPlace::Store(at) => {
                at.check_format().map_err(shards_error)?;
                let control = control_area(&options.out, at, context)?;
                control.check_open().await?;
                (Box::new(control), None)
            }
        };
        Ok(Self { attempts, rows: scratch.transpose().map_err(shards_error)?.or(directory) })
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
        Ok(self.attempts.complete().await?.into_iter().map(|(task, _)| task).collect())
    }

    /// Returns the reports of all complete attempts, in the order of tasks and attempts.
    pub(super) async fn all(&self) -> Result<Vec<TaskReport>> {
        self.sound().await?.map_err(shards_error)
    }

    /// As [`all`](Self::all). The inner error is that of reports.
    pub(super) async fn sound(&self) -> Result<tfrecord_shards::Result<Vec<TaskReport>>> {
        Ok(sound_reports(self.attempts.read(self.attempts.complete().await?).await?))
    }

    /// Returns the reports of these attempts, in their order.
    pub(super) async fn of(&self, attempts: Vec<(u32, AttemptId)>) -> Result<Vec<TaskReport>> {
        let reports = self.attempts.read(attempts).await?.into_iter().map(|(_, report)| report);
        reports.collect::<tfrecord_shards::Result<_>>().map_err(shards_error)
    }

    /// Decides which attempts are published, and when the publication began: these and now, unless another process that
    /// began to publish the set has decided.
    pub(super) async fn choose(&self, reports: Vec<TaskReport>) -> Result<(Vec<TaskReport>, DateTime<Utc>)> {
        let attempts: Vec<_> = reports.iter().map(|report| (report.partition, report.attempt)).collect();
        let choice = AttemptChoice { created: Utc::now().trunc_subsecs(3), attempts: attempts.clone() };
        let chosen = self.attempts.choose(choice).await?;
        let reports = if chosen.attempts == attempts { reports } else { self.of(chosen.attempts).await? };
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
    Ok(found.filter(|(_, is_complete)| *is_complete).map(|(current, _)| current.manifest))
}
