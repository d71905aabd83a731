//! [`AttemptStore`]: where attempts of tasks leave their reports, a directory or an object store.

use async_trait::async_trait;
use datafusion_common::Result;
use tfrecord_shards::objects::AttemptChoice;
use tfrecord_shards::{AttemptId, StagingArea, TaskReport};

use crate::error::shards_error;

/// Where attempts of tasks leave their reports.
#[async_trait]
pub(crate) trait AttemptStore: Send + Sync {
    /// Returns the attempts that are complete, in the order of tasks and attempts.
    async fn complete(&self) -> Result<Vec<(u32, AttemptId)>>;

    /// Reads the reports of attempts, in their order. The inner errors are those of reports.
    async fn read(&self, attempts: Vec<(u32, AttemptId)>) -> Result<Vec<ReadReport>>;

    /// Records which attempts are published, unless that is decided. Returns what is decided.
    async fn choose(&self, choice: AttemptChoice) -> Result<AttemptChoice>;
}

/// A task, and the report of one of its attempts.
pub(crate) type ReadReport = (u32, tfrecord_shards::Result<TaskReport>);

#[async_trait]
impl AttemptStore for StagingArea {
    async fn complete(&self) -> Result<Vec<(u32, AttemptId)>> {
        self.complete_attempts().map_err(shards_error)
    }

    async fn read(&self, attempts: Vec<(u32, AttemptId)>) -> Result<Vec<ReadReport>> {
        Ok(attempts.into_iter().map(|(task, attempt)| (task, self.report_of(task, attempt))).collect())
    }

    /// A directory is locked by the process that publishes it, so no other one can have decided.
    async fn choose(&self, choice: AttemptChoice) -> Result<AttemptChoice> {
        Ok(choice)
    }
}
