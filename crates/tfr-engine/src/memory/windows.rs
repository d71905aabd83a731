//! [`PartitionedWindowExec`]: computes window functions over a few partitions at a time.
//!
//! The engine's operator holds all rows of its input, twice, before it computes anything, and reserves no memory. Its
//! input is sorted by the keys of the partitions, so that the rows of complete partitions can be computed and passed on.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{concat, concat_batches};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties, Statistics,
    StatisticsArgs,
};
use datafusion_common::internal_err;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::utils::evaluate_partition_ranges;
use futures::{StreamExt as _, stream};

use super::size::compacted;

/// Window functions over rows that are sorted by the keys of the partitions. It shows itself as the engine's operator,
/// whose rows it returns.
#[derive(Debug)]
pub struct PartitionedWindowExec {
    window: Arc<WindowAggExec>,
    /// Bytes of rows at which complete partitions are computed.
    bytes: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl PartitionedWindowExec {
    pub(super) fn new(window: Arc<WindowAggExec>, bytes: usize) -> Self {
        Self { window, bytes, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for PartitionedWindowExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.window.fmt_as(t, f)
    }
}

impl ExecutionPlan for PartitionedWindowExec {
    fn name(&self) -> &str {
        self.window.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.window.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.window.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.window.maintains_input_order()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.window.required_input_ordering()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.window.input_distribution_requirements()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.window.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => {
                let can_repartition = !self.window.partition_keys().is_empty();
                let window = WindowAggExec::try_new(self.window.window_expr().to_vec(), input, can_repartition)?;
                Ok(Arc::new(Self::new(Arc::new(window), self.bytes)))
            }
            _ => internal_err!("{} has one input", self.name()),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new(format!("{}[{partition}]", self.name()));
        let windows = Windows {
            input: Some(self.window.input().execute(partition, Arc::clone(&context))?),
            schema: self.window.schema(),
            functions: self.window.window_expr().to_vec(),
            keys: self.window.partition_by_sort_keys()?,
            held: Vec::new(),
            held_bytes: 0,
            bytes: self.bytes,
            due: self.bytes,
            reservation: consumer.register(context.memory_pool()),
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = stream::try_unfold((windows, metrics), |(mut windows, metrics)| async move {
            let batch = windows.next(&metrics).await?;
            Ok(batch.map(|batch| (batch, (windows, metrics))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.window.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.window.statistics_from_inputs(inputs, args)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// The rows of a partition of the plan.
struct Windows {
    /// `None` after its end.
    input: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    functions: Vec<Arc<dyn WindowExpr>>,
    /// The keys of the partitions of all functions.
    keys: Vec<PhysicalSortExpr>,
    /// Rows that are not yet computed.
    held: Vec<RecordBatch>,
    held_bytes: usize,
    /// Bytes of rows at which complete partitions are computed.
    bytes: usize,
    /// The same, or more while a partition has more: looking for its end copies all rows that are held.
    due: usize,
    reservation: MemoryReservation,
}

impl Windows {
    /// Returns the rows of the next complete partitions; `None` at the end.
    async fn next(&mut self, metrics: &BaselineMetrics) -> Result<Option<RecordBatch>> {
        loop {
            let Some(input) = &mut self.input else { return Ok(None) };
            match input.next().await.transpose()? {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    let bytes = batch.get_array_memory_size();
                    // The rows are copied once to be next to each other.
                    self.reservation.try_grow(2 * bytes)?;
                    self.held_bytes += bytes;
                    self.held.push(batch);
                    if self.held_bytes >= self.due && !self.keys.is_empty() {
                        let _timer = metrics.elapsed_compute().timer();
                        if let Some(computed) = self.complete(false)? {
                            metrics.record_output(computed.num_rows());
                            return Ok(Some(computed));
                        }
                    }
                }
                None => {
                    // Releases the memory of the operators below before the rest is computed.
                    self.input = None;
                    let _timer = metrics.elapsed_compute().timer();
                    let computed = self.complete(true)?;
                    metrics.record_output(computed.as_ref().map_or(0, RecordBatch::num_rows));
                    return Ok(computed);
                }
            }
        }
    }

    /// Computes the partitions that are complete: all of them at the `end` of the input, else all but the last.
    fn complete(&mut self, end: bool) -> Result<Option<RecordBatch>> {
        let Some(first) = self.held.first() else { return Ok(None) };
        let rows = concat_batches(&first.schema(), &self.held)?;
        self.held.clear();
        let keys = self.keys.iter().map(|key| key.evaluate_to_sort_column(&rows)).collect::<Result<Vec<_>>>()?;
        let mut partitions = evaluate_partition_ranges(rows.num_rows(), &keys)?;
        let rest = if end { None } else { partitions.pop() };
        let computed = match partitions.last() {
            Some(last) => Some(self.compute(&rows.slice(0, last.end), &partitions)?),
            None => None,
        };
        if let Some(rest) = rest {
            self.held.push(compacted(rows.slice(rest.start, rest.len()))?);
        }
        self.held_bytes = self.held.iter().map(RecordBatch::get_array_memory_size).sum();
        self.due = self.bytes.max(2 * self.held_bytes);
        self.reservation.try_resize(2 * self.held_bytes)?;
        Ok(computed)
    }

    /// Appends the results of the functions to the rows of some partitions.
    fn compute(&self, rows: &RecordBatch, partitions: &[std::ops::Range<usize>]) -> Result<RecordBatch> {
        let parts: Vec<_> = partitions.iter().map(|part| rows.slice(part.start, part.len())).collect();
        let results = self.functions.iter().map(|function| {
            let results = parts.iter().map(|part| function.evaluate(part)).collect::<Result<Vec<_>>>()?;
            Ok(concat(&results.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)
        });
        let mut columns = rows.columns().to_vec();
        columns.extend(results.collect::<Result<Vec<ArrayRef>>>()?);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

#[cfg(test)]
mod tests;
