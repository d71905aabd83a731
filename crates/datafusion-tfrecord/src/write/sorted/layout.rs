//! [`PlannedShards`]: the shards of the set, once all records are known.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;
use tfrecord_shards::sort::{GroupTotals, ShardPlan, SortedRecords};
use tfrecord_shards::{PlannedNames, PlannedSet, ShardGroup, Sharding};

use super::Sorting;
use super::arrangement::{GroupRule, SplitRule, sharding_of};
use crate::error::{ErrorKind, shards_error, unknown_split};
use crate::write::metrics::SortMetrics;
use crate::write::options::WriteOptions;

/// All shards of the set, which the partitions write together.
#[derive(Debug)]
pub(super) struct PlannedShards {
    pub(super) set: Arc<PlannedSet>,
    /// Number of shards that all partitions together write at the same time.
    pub(super) lanes: usize,
    /// Memory for the plan, and for reading it.
    _memory: MemoryReservation,
}

impl PlannedShards {
    /// Ends the sorter's inputs, and cuts the records into shards. CPU-bound: runs on the calling thread's pool.
    pub(super) fn new(sorting: &Sorting, metrics: &SortMetrics) -> Result<Self> {
        let (sorted, memory) = sorting.inputs.finish(sorting.reading_bytes, metrics)?;
        let (plan, names) = cut(sorted, &sorting.arrangement.groups, sorting.groups.all(), &sorting.options)?;
        Ok(Self { set: Arc::new(PlannedSet::new(plan, names)), lanes: sorting.lanes, _memory: memory })
    }
}

/// Cuts sorted records into the shards of the set. `seen` are the groups that columns determine, by their numbers.
pub(super) fn cut(
    sorted: SortedRecords,
    rule: &GroupRule,
    seen: Vec<ShardGroup>,
    options: &WriteOptions,
) -> Result<(ShardPlan, PlannedNames)> {
    let names = match rule {
        GroupRule::All => PlannedNames::Groups(vec![ShardGroup::default()]),
        GroupRule::Columns { splits, .. } => {
            if matches!(splits, Some(SplitRule::Column(_))) {
                check_split_names(&seen, options)?;
            }
            PlannedNames::Groups(seen)
        }
        GroupRule::Rows(splits) => {
            let group = |name: &str| ShardGroup { split: Some(name.to_owned()), ..ShardGroup::default() };
            let groups: Vec<_> = splits.names().map(group).collect();
            let rows = sorted.groups().iter().map(|totals| totals.rows).sum();
            let sizes = splits.sizes(rows).map_err(|source| ErrorKind::RowSplitSizes { source })?;
            let parts = sizes.into_iter().zip(&groups).map(|(rows, group)| (rows, sharding_of(group, options)));
            let plan = sorted.cut_parts(&parts.collect::<Vec<_>>()).map_err(shards_error)?;
            return Ok((plan, PlannedNames::Groups(groups)));
        }
        GroupRule::Shards(shards) => PlannedNames::Shards(*shards),
    };
    let plan = sorted.cut(|totals| sharding_rule(&names, options, totals)).map_err(shards_error)?;
    Ok((plan, names))
}

/// Checks the names of splits that a column has.
///
/// # Errors
/// Two names differ only in case, which some file systems ignore, or a number of shards is given for another split.
fn check_split_names(seen: &[ShardGroup], options: &WriteOptions) -> Result<()> {
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    for name in seen.iter().filter_map(|group| group.split.as_deref()) {
        if let Some(other) = names.insert(name.to_lowercase(), name)
            && other != name
        {
            let (first, second) = (other.min(name).to_owned(), other.max(name).to_owned());
            return Err(ErrorKind::SplitCase { first, second }.into());
        }
    }
    let is_known = |split: &&String| names.values().any(|name| name == split);
    match options.split_shards.keys().find(|split| !is_known(split)) {
        Some(split) => {
            let known: Vec<_> = names.into_values().map(str::to_owned).collect();
            Err(unknown_split(split, &known).into())
        }
        None => Ok(()),
    }
}

/// Returns how the rows of a group are divided into shards.
fn sharding_rule(names: &PlannedNames, options: &WriteOptions, totals: &GroupTotals) -> Sharding {
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
