//! [`DealExec`]: assigns rows to shards round-robin, without hashing and independent of timing.
//!
//! Rows are distributed over exactly `N` shards. The shards must be balanced however skewed the inputs are, and
//! identical in every run.
//!
//! Input partition `p` cuts its rows into blocks by the rule of [`ShardDeal`], independent of batch boundaries. It
//! assigns the blocks to shards round-robin: in each round one block to every shard, starting with shard 0. Each of
//! `M = min(P, N)` output partitions owns a range of the shards. It reads the inputs' blocks for its shards in strict
//! rotation: round `r` of input 0, of input 1, and so on, skipping inputs that have ended. The rows of a shard and
//! their order thus follow from the rows of the input partitions, never from timing. Every input gives all shards the
//! same number of rows, to within one block.
//!
//! The cost is that inputs advance together: an input that yields few rows for much work delays the others until it
//! ends, because their blocks cannot overtake its block of the same round.

mod exchange;

use std::fmt;
use std::iter::repeat_n;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError};

use arrow_array::{RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, internal_datafusion_err, internal_err};
use datafusion_execution::TaskContext;
use datafusion_physical_expr::EquivalenceProperties;
use datafusion_physical_plan::execution_plan::{EmissionType, EvaluationType, SchedulingType};
use datafusion_physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream, validate_child_count,
};
use futures::StreamExt;
use tfrecord_shards::ShardDeal;

use exchange::{Exchange, Rotation, Unclaimed};

/// The name of the column that [`DealExec`] adds: the shard of the row, as an unsigned 32-bit integer. It is the last
/// column and is found by its position; the name is only for people who read plans.
pub const SHARD_COLUMN: &str = "__shard";

/// Assigns the rows of its input to shards round-robin. Outputs the rows with one more column, the shard.
///
/// All output partitions must be polled concurrently, as [`CoalescePartitionsExec`] does: they share bounded
/// channels, so an output that is not polled blocks the others.
///
/// [`CoalescePartitionsExec`]: datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec
#[derive(Debug)]
pub struct DealExec {
    input: Arc<dyn ExecutionPlan>,
    shards: NonZeroUsize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    unclaimed: Unclaimed,
}

impl DealExec {
    /// Creates a node that assigns the rows of `input` to `shards` shards.
    pub fn new(input: Arc<dyn ExecutionPlan>, shards: NonZeroUsize) -> Self {
        let schema = with_shard_column(&input.schema());
        let partitions = input.output_partitioning().partition_count().clamp(1, shards.get());
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            input.boundedness(),
        )
        .with_evaluation_type(EvaluationType::Eager)
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            input,
            shards,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            unclaimed: Unclaimed::default(),
        }
    }

    /// Returns the input plan.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> NonZeroUsize {
        self.shards
    }

    /// Assigns the rows of a single input, which needs no exchange.
    fn deal_directly(&self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(0, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, 0);
        let mut dealer = Dealer::new(self.shards, 1, self.schema());
        let batches = input.map(move |batch| Ok(dealer.deal_all(&batch?)?.record_output(&metrics)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    /// Returns output `partition` of the exchange. The first call starts the exchange.
    fn rotation(&self, partition: usize, context: Arc<TaskContext>) -> Result<Rotation> {
        let partitions = self.properties.output_partitioning().partition_count();
        let mut unclaimed = self.unclaimed.lock().unwrap_or_else(PoisonError::into_inner);
        if unclaimed.iter().all(Option::is_none) {
            let exchange = Exchange { shards: self.shards, schema: self.schema(), outputs: partitions };
            *unclaimed = exchange.start(&self.input, context, &self.unclaimed)?;
        }
        unclaimed.get_mut(partition).and_then(Option::take).ok_or_else(|| {
            internal_datafusion_err!("DealExec: partition {partition} of {partitions} is already running")
        })
    }
}

impl DisplayAs for DealExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(
                f,
                "DealExec: shards={}, partitions={}, input_partitions={}",
                self.shards,
                self.properties.output_partitioning().partition_count(),
                self.input.output_partitioning().partition_count()
            ),
            DisplayFormatType::TreeRender => write!(f, "shards={}", self.shards),
        }
    }
}

impl ExecutionPlan for DealExec {
    fn name(&self) -> &'static str {
        "DealExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::UnspecifiedDistribution])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // A round-robin exchange below would pass on batches as they come, and the shards would differ between runs.
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        validate_child_count!(self, children);
        Ok(Arc::new(Self::new(children.swap_remove(0), self.shards)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let inputs = self.input.output_partitioning().partition_count();
        if partition >= self.properties.output_partitioning().partition_count() {
            return internal_err!("DealExec has no partition {partition}");
        }
        if inputs == 1 {
            return self.deal_directly(context);
        }
        let rotation = self.rotation(partition, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = rotation.into_batches().map(move |batch| batch.record_output(&metrics));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Returns the input's schema with the shard column appended.
fn with_shard_column(input: &SchemaRef) -> SchemaRef {
    let mut fields: Vec<_> = input.fields().iter().map(Arc::clone).collect();
    fields.push(Arc::new(Field::new(SHARD_COLUMN, DataType::UInt32, false)));
    Arc::new(Schema::new_with_metadata(fields, input.metadata().clone()))
}

/// An input's rows for the shards of one output in one round, or the part of them in one batch.
#[derive(Debug)]
struct Turn {
    output: usize,
    /// A slice of the batch, with the shard column.
    rows: RecordBatch,
    /// Whether the turn ends with these rows.
    complete: bool,
}

/// Assigns the batches of one input.
struct Dealer {
    deal: ShardDeal,
    /// Schema of the outputs.
    schema: SchemaRef,
    /// For each output, the end of its range of shards (exclusive).
    shard_ends: Vec<usize>,
}

impl Dealer {
    fn new(shards: NonZeroUsize, outputs: usize, schema: SchemaRef) -> Self {
        let shard_ends = (1..=outputs).map(|output| shards.get() * output / outputs).collect();
        Self { deal: ShardDeal::new(shards), schema, shard_ends }
    }

    /// Cuts a batch at the ends of turns, without copying rows.
    fn deal(&mut self, batch: &RecordBatch) -> Result<Vec<Turn>> {
        let mut turns = Vec::new();
        let (mut start, mut end) = (0, 0);
        let mut shards = Vec::new();
        while end < batch.num_rows() {
            let block = self.deal.deal_block(batch.num_rows() - end);
            shards.extend(repeat_n(column_value(block.shard)?, block.rows));
            end += block.rows;
            let output = self.shard_ends.partition_point(|shard_end| *shard_end <= block.shard);
            let complete = block.complete && self.shard_ends.get(output) == Some(&(block.shard + 1));
            if complete || end == batch.num_rows() {
                let rows = self.with_shards(&batch.slice(start, end - start), mem::take(&mut shards))?;
                turns.push(Turn { output, rows, complete });
                start = end;
            }
        }
        Ok(turns)
    }

    /// Assigns a whole batch, if there is one output for all shards.
    fn deal_all(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut shards = Vec::with_capacity(batch.num_rows());
        for piece in self.deal.deal(batch.num_rows()) {
            shards.extend(repeat_n(column_value(piece.shard)?, piece.records.len()));
        }
        self.with_shards(batch, shards)
    }

    fn with_shards(&self, rows: &RecordBatch, shards: Vec<u32>) -> Result<RecordBatch> {
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(UInt32Array::from(shards)));
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Converts a shard number to the column's type.
fn column_value(shard: usize) -> Result<u32> {
    u32::try_from(shard).map_err(|_| internal_datafusion_err!("DealExec: shard {shard} is over 2^32"))
}
