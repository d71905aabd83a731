//! [`Layout`]: assigns records to shards, once all records are known.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::memory_pool::MemoryReservation;
use tfrecord_shards::sort::{GroupTotals, PlannedShard, ShardPlan};
use tfrecord_shards::{ShardGroup, ShardPlace, Sharding};

use super::Sorting;
use super::arrangement::{GroupRule, sharding_of};
use crate::error::shards_error;
use crate::write::metrics::SortMetrics;

/// All shards of the set, and the tasks to write them. A partition takes the next task when it is free.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) plan: ShardPlan,
    names: ShardNames,
    next_task: AtomicUsize,
    /// Number of shards that all partitions together write at the same time.
    pub(super) lanes: usize,
    /// Memory for the plan, and for reading it.
    _memory: MemoryReservation,
}

/// How the plan's shards map to shards of the set.
#[derive(Debug)]
enum ShardNames {
    /// The plan's groups are groups of the set, by their numbers.
    Groups(Vec<ShardGroup>),
    /// Every group of the plan is one of this many shards.
    Shards(NonZeroUsize),
}

impl Layout {
    /// Approximate number of chunks that a lane holds at a time.
    pub(super) const CHUNKS_AT_ONCE: usize = 4;

    /// Ends the sorter's inputs, and cuts the records into shards. CPU-bound: runs on the calling thread's pool.
    pub(super) fn new(sorting: &Sorting, metrics: &SortMetrics) -> Result<Self> {
        let lanes = sorting.lanes;
        let needed = lanes * (sorting.chunk_bytes * Self::CHUNKS_AT_ONCE + sorting.shard_bytes);
        let (sorted, memory) = sorting.inputs.finish(needed, metrics)?;
        let names = match &sorting.arrangement.groups {
            GroupRule::All => ShardNames::Groups(vec![ShardGroup::default()]),
            GroupRule::Columns { .. } => ShardNames::Groups(sorting.groups.all()),
            GroupRule::Shards(shards) => ShardNames::Shards(*shards),
        };
        let sharding = |totals: &GroupTotals| match &names {
            ShardNames::Groups(groups) => {
                let group = groups.get(totals.group as usize);
                let sharding = group.map_or(sorting.options.sharding, |group| sharding_of(group, &sorting.options));
                match sharding.resolve(totals.bytes) {
                    // In a directory, no shard is empty.
                    Sharding::Count(shards) if group.is_some_and(|group| !group.partition_values.is_empty()) => {
                        let rows = usize::try_from(totals.rows).unwrap_or(usize::MAX);
                        Sharding::Count(NonZeroUsize::new(rows).map_or(shards, |rows| rows.min(shards)))
                    }
                    other => other,
                }
            }
            ShardNames::Shards(_) => Sharding::Count(NonZeroUsize::MIN),
        };
        let plan = sorted.cut(sharding).map_err(shards_error)?;
        Ok(Self { plan, names, next_task: AtomicUsize::new(0), lanes, _memory: memory })
    }

    /// Takes the next task.
    pub(super) fn take_task(&self) -> Option<usize> {
        let task = self.next_task.fetch_add(1, Ordering::Relaxed);
        (task < self.plan.tasks()).then_some(task)
    }

    /// Returns the place of one of the plan's shards in the set, and its number over all shards.
    pub(super) fn place(&self, shard: usize) -> Result<(usize, ShardPlace<'_>)> {
        static WHOLE_SET: ShardGroup = ShardGroup { partition_values: Vec::new(), split: None };
        let unknown = || internal_datafusion_err!("shard {shard} is not planned");
        let PlannedShard { group, index, of, .. } = self.plan.shards().get(shard).ok_or_else(unknown)?;
        match &self.names {
            ShardNames::Groups(groups) => {
                let group = groups.get(*group as usize).ok_or_else(unknown)?;
                Ok((shard, ShardPlace { group, index: *index as usize, total: *of as usize }))
            }
            ShardNames::Shards(shards) => {
                let index = *group as usize;
                Ok((index, ShardPlace { group: &WHOLE_SET, index, total: shards.get() }))
            }
        }
    }
}
