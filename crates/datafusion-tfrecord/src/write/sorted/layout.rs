//! [`Layout`]: which records are in which shard, once all are known.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::memory_pool::MemoryReservation;
use tfrecord_shards::sort::{GroupTotals, PlannedShard, ShardPlan};
use tfrecord_shards::{ShardGroup, ShardPlace, Sharding};

use super::super::metrics::SortMetrics;
use super::Sorting;
use super::arrangement::{GroupRule, sharding_of};
use crate::error::shards_error;

/// All shards of the set, and who writes which: whoever takes the next.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) plan: ShardPlan,
    names: ShardNames,
    next_task: AtomicUsize,
    /// Shards that are written at the same time, by all partitions.
    pub(super) lanes: usize,
    /// For what the plan holds, and what it takes to read it.
    _memory: MemoryReservation,
}

/// Where the shards of the plan stand in the set.
#[derive(Debug)]
enum ShardNames {
    /// The groups are those of the set, by their numbers.
    Groups(Vec<ShardGroup>),
    /// Every group of the plan is one of so many shards.
    Shards(NonZeroUsize),
}

impl Layout {
    /// How many chunks a lane holds at a time, about.
    pub(super) const CHUNKS_AT_ONCE: usize = 4;

    /// Ends what is to be sorted, and cuts it into shards. Computes for a while on the pool that the call runs in.
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

    /// A task that nobody has taken.
    pub(super) fn take_task(&self) -> Option<usize> {
        let task = self.next_task.fetch_add(1, Ordering::Relaxed);
        (task < self.plan.tasks()).then_some(task)
    }

    /// Where a shard of the plan stands in the set, and its number over all shards.
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
