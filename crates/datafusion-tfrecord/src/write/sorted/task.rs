//! Sorting in several processes: [`SortTask`] sorts the rows of one partition, [`SetCut`] divides those of all.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_execution::SendableRecordBatchStream;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use tfrecord_shards::sort::{
    DirectorySpill, EqualRecords, RecordSorter, ShardPlan, SharedPlan, SharedRuns, SorterOptions,
};
use tfrecord_shards::{AttemptError, AttemptId, PlannedNames, PlannedSet, ShardGroup, StagedShard, TaskReport};

use super::Sorting;
use super::arrangement::{Arrangement, RecordOrder};
use super::drain::write_lane;
use super::fill::Fill;
use super::groups::order_of;
use super::layout::cut;
use crate::error::shards_error;
use crate::write::metrics::{SortMetrics, WriteMetrics};
use crate::write::observe::RowEncoder;
use crate::write::options::WriteOptions;
use crate::write::report::PartitionReport;
use crate::write::run::Run;
use crate::write::units::PartitionPlace;

/// Sorts the rows of one write partition for other processes, and writes no shards.
pub(in crate::write) struct SortTask {
    pub(in crate::write) run: Arc<Run>,
    pub(in crate::write) sorting: Arc<Sorting>,
    pub(in crate::write) place: PartitionPlace,
    pub(in crate::write) encoder: RowEncoder,
    pub(in crate::write) metrics: WriteMetrics,
    pub(in crate::write) sort_metrics: SortMetrics,
}

impl SortTask {
    /// Sorts all rows of `input`, and reports where they are.
    pub(in crate::write) async fn write(self, input: SendableRecordBatchStream) -> Result<PartitionReport> {
        let Self { run, sorting, place, encoder, metrics, sort_metrics } = self;
        let observer = encoder.observer();
        let fill = Fill::new(Arc::clone(&sorting), place, encoder, metrics, sort_metrics.clone());
        let rows = fill.run(&run, input).await?;
        let statistics = observer.map(|observer| observer.finish(rows)).transpose()?;
        let runs = {
            let sorting = Arc::clone(&sorting);
            run.compute(move |_| sorting.inputs.share(&sort_metrics)).await?
        };
        let sorted = Some((runs, sorting.groups.all()));
        Ok(PartitionReport { rows, shards: Vec::new(), statistics, sorted })
    }
}

/// How the sorted rows of all tasks are divided into shards, and these into tasks that write them.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::write) struct SetCut {
    /// The attempt of each task whose rows are in the shards, in order.
    pub(in crate::write) sorted: Vec<AttemptId>,
    names: CutNames,
    /// Tasks of the plan for each task that writes shards, in order.
    pub(in crate::write) tasks: Vec<Range<usize>>,
}

/// [`PlannedNames`] to be stored.
#[derive(Debug, Serialize, Deserialize)]
enum CutNames {
    Groups(Vec<ShardGroup>),
    Shards(NonZeroUsize),
}

impl SetCut {
    /// Reads the keys of all sorted rows, and decides where shards begin. `reports` has one report for each task, in
    /// order. Returns the bytes for [`parse`](Self::parse). CPU-bound: runs on the calling thread's pool.
    pub(in crate::write) fn decide(
        spill: DirectorySpill,
        reports: &[TaskReport],
        arrangement: &Arrangement,
        options: &WriteOptions,
    ) -> Result<Vec<u8>> {
        let equal = match arrangement.order {
            RecordOrder::Shuffled { seed } => EqualRecords::Spread { seed },
            RecordOrder::Kept | RecordOrder::RoundRobin { .. } => EqualRecords::Keep,
        };
        let groups: BTreeSet<_> = reports.iter().flat_map(|report| &report.groups).map(order_of).collect();
        let groups: Vec<_> = groups.into_iter().collect();
        let sorter = RecordSorter::new(SorterOptions::new(Arc::new(spill)).with_equal(equal).shared());
        for report in reports {
            let bytes = report.runs.as_deref().unwrap_or_default();
            let runs = SharedRuns::from_bytes(bytes).map_err(shards_error)?;
            let number = |group| groups.binary_search(&order_of(group)).map_or(u32::MAX, |number| number as u32);
            let numbers: Vec<_> = report.groups.iter().map(number).collect();
            sorter.add_runs(&runs, &numbers).map_err(shards_error)?;
        }
        let group = |&(values, split): &(&[(String, Option<String>)], Option<&str>)| ShardGroup {
            partition_values: values.to_vec(),
            split: split.map(str::to_owned),
        };
        let sorted = sorter.finish().map_err(shards_error)?;
        let (plan, names) = cut(sorted, &arrangement.groups, groups.iter().map(group).collect(), options)?;
        let tasks = divide(&plan, reports.len());
        let names = match names {
            PlannedNames::Groups(groups) => CutNames::Groups(groups),
            PlannedNames::Shards(shards) => CutNames::Shards(shards),
        };
        let cut = Self { sorted: reports.iter().map(|report| report.attempt).collect(), names, tasks };
        let mut bytes = serde_json::to_vec(&cut).map_err(|error| DataFusionError::External(Box::new(error)))?;
        bytes.push(b'\n');
        bytes.extend(plan.share().and_then(|plan| plan.to_bytes()).map_err(shards_error)?);
        Ok(bytes)
    }

    /// Reads a cut, and the plan that it divides.
    pub(in crate::write) fn parse(bytes: &[u8]) -> Result<(Self, SharedPlan)> {
        let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (json, plan) = bytes.split_at(end);
        let cut: Self =
            serde_json::from_slice(json).map_err(|source| shards_error(AttemptError::CutSyntax { source }.into()))?;
        let plan = SharedPlan::from_bytes(plan.get(1..).unwrap_or_default()).map_err(shards_error)?;
        Ok((cut, plan))
    }

    /// Writes the shards of one of its tasks, and returns them. Their partition is `partition`.
    pub(in crate::write) async fn write(
        self,
        plan: &SharedPlan,
        task: usize,
        (run, partition): (&Arc<Run>, u32),
        metrics: &WriteMetrics,
    ) -> Result<Vec<StagedShard>> {
        let Some(tasks) = self.tasks.get(task).cloned() else { return Ok(Vec::new()) };
        let Some(staging) = &run.staging.task else { return Ok(Vec::new()) };
        let plan = plan.open(&staging.runs()?).map_err(shards_error)?;
        let names = match self.names {
            CutNames::Groups(groups) => PlannedNames::Groups(groups),
            CutNames::Shards(shards) => PlannedNames::Shards(shards),
        };
        let set = Arc::new(PlannedSet::of_tasks(plan, names, tasks));
        let lanes = run.threads();
        let write = |_| write_lane(run, &set, (partition, lanes), || Ok(()), metrics);
        Ok(try_join_all((0..lanes).map(write)).await?.concat())
    }
}

/// Divides the tasks of a plan among at most `most` writers, by bytes.
fn divide(plan: &ShardPlan, most: usize) -> Vec<Range<usize>> {
    let bytes_of = |task| {
        let shards = plan.shards().get(plan.task_shards(task)).unwrap_or_default();
        shards.iter().map(|shard| u128::from(shard.bytes)).sum::<u128>()
    };
    let total: u128 = (0..plan.tasks()).map(bytes_of).sum();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut before = 0;
    for task in 0..plan.tasks() {
        // By the middle of the task, so that each writer gets its share on average.
        let middle = before + bytes_of(task) / 2;
        let writer = (middle * most.max(1) as u128).checked_div(total).unwrap_or(0);
        let begun = ranges.len() as u128;
        match ranges.last_mut() {
            Some(last) if begun > writer => last.end = task + 1,
            _ => ranges.push(task..task + 1),
        }
        before += bytes_of(task);
    }
    ranges
}
