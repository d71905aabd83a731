//! [`TaskReports`]: what attempts of tasks have staged.

use std::collections::BTreeSet;

use chrono::{DateTime, SubsecRound, Utc};
use datafusion_common::Result;
use datafusion_execution::TaskContext;
use tfrecord_shards::objects::AttemptChoice;
use tfrecord_shards::{AttemptId, StagingArea, TaskReport, sound_reports};

use super::attempt_store::AttemptStore;
use super::options::WriteOptions;
use super::shared::SharedWrite;
use crate::error::{ErrorKind, shards_error};

/// What attempts of tasks have staged so far.
pub(super) struct TaskReports<'a> {
    attempts: Box<dyn AttemptStore + 'a>,
    rows: Option<StagingArea>,
}

impl<'a> TaskReports<'a> {
    /// Joins a run.
    ///
    /// # Errors
    /// The set is published or abandoned.
    pub(super) async fn open(at: &'a SharedWrite, options: &'a WriteOptions, context: &'a TaskContext) -> Result<Self> {
        let scratch = at.scratch.as_ref().map(|scratch| StagingArea::join(scratch, AttemptId::new()));
        let attempts = at.attempts(options, context)?;
        let directory = attempts.open().await?;
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
