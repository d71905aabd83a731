//! [`TaskStaging`]: where an attempt of a task stages its shards and sorted rows.

use std::sync::Arc;

use datafusion_common::Result;
use tfrecord_shards::sort::DirectorySpill;
use tfrecord_shards::{AttemptId, RunId, StagedShard, StagingArea, TaskAttempt, TaskReport};

use super::shards::Shards;
use crate::error::{ErrorKind, shards_error};

/// An attempt of a task that has begun.
pub(crate) struct NewAttempt {
    pub(super) shards: Shards,
    pub(super) attempt: Arc<dyn TaskAttempt>,
    /// The directory of the attempt, if it is in one.
    pub(super) directory: Option<StagingArea>,
}

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
    /// Describes an attempt that has begun. Its sorted rows are in `scratch` or, without it, next to its shards.
    pub(super) fn new(run: RunId, id: AttemptId, begun: NewAttempt, scratch: Option<StagingArea>) -> (Shards, Self) {
        let NewAttempt { shards, attempt, directory } = begun;
        let rows = scratch.clone().or(directory);
        (shards, Self { attempt, rows, scratch, run, id })
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
