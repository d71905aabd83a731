//! [`PartitionReport`]: what a write partition has done, which it leaves with its [`Run`](super::run::Run).

use tfrecord_shards::sort::SharedRuns;
use tfrecord_shards::{ShardGroup, StagedShard};
use tfrecord_sidecars::stats::Statistics;

/// The result of one write partition.
#[derive(Debug, Default)]
pub(super) struct PartitionReport {
    /// Number of records of the rows read from the input.
    pub(super) rows: u64,
    /// The staged shards.
    pub(super) shards: Vec<StagedShard>,
    /// Statistics of the rows, if sidecar files need them.
    pub(super) statistics: Option<Statistics>,
    /// The sorted rows of a task that writes no shards, and their groups by number.
    pub(super) sorted: Option<(SharedRuns, Vec<ShardGroup>)>,
}
