//! [`Layout`]: the shards of the set, once all records are known.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;
use tfrecord_shards::sort::GroupTotals;
use tfrecord_shards::{PlannedNames, PlannedSet, Sharding};

use super::Sorting;
use super::arrangement::{GroupRule, sharding_of};
use crate::error::shards_error;
use crate::write::metrics::SortMetrics;
use crate::write::options::WriteOptions;

/// All shards of the set, which the partitions write together.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) set: Arc<PlannedSet>,
    /// Number of shards that all partitions together write at the same time.
    pub(super) lanes: usize,
    /// Memory for the plan, and for reading it.
    _memory: MemoryReservation,
}

impl Layout {
    /// Ends the sorter's inputs, and cuts the records into shards. CPU-bound: runs on the calling thread's pool.
    pub(super) fn new(sorting: &Sorting, metrics: &SortMetrics) -> Result<Self> {
        let (sorted, memory) = sorting.inputs.finish(sorting.reading_bytes, metrics)?;
        let names = match &sorting.arrangement.groups {
            GroupRule::All => PlannedNames::Groups(vec![Default::default()]),
            GroupRule::Columns { .. } => PlannedNames::Groups(sorting.groups.all()),
            GroupRule::Shards(shards) => PlannedNames::Shards(*shards),
        };
        let plan = sorted.cut(|totals| sharding_rule(&names, &sorting.options, totals)).map_err(shards_error)?;
        Ok(Self { set: Arc::new(PlannedSet::new(plan, names)), lanes: sorting.lanes, _memory: memory })
    }
}

/// Returns how the rows of a group are divided into shards.
pub(super) fn sharding_rule(names: &PlannedNames, options: &WriteOptions, totals: &GroupTotals) -> Sharding {
    let PlannedNames::Groups(groups) = names else { return Sharding::Count(NonZeroUsize::MIN) };
    let group = groups.get(totals.group as usize);
    let sharding = group.map_or(options.sharding, |group| sharding_of(group, options));
    match sharding.resolve(totals.bytes) {
        // In a directory, no shard is empty.
        Sharding::Count(shards) if group.is_some_and(|group| !group.partition_values.is_empty()) => {
            let rows = usize::try_from(totals.rows).unwrap_or(usize::MAX);
            Sharding::Count(NonZeroUsize::new(rows).map_or(shards, |rows| rows.min(shards)))
        }
        other => other,
    }
}
