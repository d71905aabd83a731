//! [`DealExec`]: every row finds its shard, without hashing and without regard to time.
//!
//! Rows have to be spread over exactly `N` shards that are balanced however skewed the inputs are, and spread the same
//! way in every run. Input partition `p` cuts its rows into blocks, by the rule of [`ShardDeal`] and regardless of where
//! batches end, and gives them to the shards in turn. Of `M = min(P, N)` output partitions, partition `w` owns the
//! shards `s` with `s mod M = w`. It takes the blocks of its shards from the inputs in strict rotation: in round `r` those
//! of input 0, of input 1, and so on, passing over inputs that have ended. So what a shard holds, and in which order,
//! follows from what the input partitions hold, never from who was faster; and every input gives all shards the same
//! number of rows but for one block.
//!
//! The price is that inputs advance together: one that yields few rows from much work holds the others back until it
//! has ended, as their blocks of the same round may not overtake its own.

mod exchange;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
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
use futures::{StreamExt, TryStreamExt};
use tfrecord_shards::ShardDeal;

use exchange::{Exchange, Rotation};

/// The name of the column that [`DealExec`] adds: the shard of the row, an unsigned 32-bit integer. It is the last
/// column and is found by its place; the name is for people who read plans.
pub const SHARD_COLUMN: &str = "__shard";

/// Deals the rows of its input to shards: the same rows, with one more column that tells the shard. Each batch belongs
/// to one shard.
///
/// All output partitions must be polled concurrently, as [`CoalescePartitionsExec`] does: they share bounded channels,
/// so an output that nobody takes stops the others.
///
/// [`CoalescePartitionsExec`]: datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec
#[derive(Debug)]
pub struct DealExec {
    input: Arc<dyn ExecutionPlan>,
    shards: NonZeroUsize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The outputs of the running exchange that have not been asked for yet.
    rotations: Mutex<Vec<Option<Rotation>>>,
}

impl DealExec {
    /// Deals the rows of `input` to `shards` shards.
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
            rotations: Mutex::default(),
        }
    }

    /// Where the rows come from.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Number of shards.
    pub fn shards(&self) -> NonZeroUsize {
        self.shards
    }

    /// A single input has nobody to take turns with: it is dealt as it comes.
    fn deal_directly(&self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(0, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, 0);
        let mut dealer = Dealer::new(self.shards, self.schema());
        let blocks = input.map_ok(move |batch| futures::stream::iter(dealer.deal(&batch)));
        let batches = blocks.try_flatten().map(move |block| Ok(block?.rows.record_output(&metrics)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    /// The exchange's output `partition`; the first one asked for starts the exchange.
    fn rotation(&self, partition: usize, context: Arc<TaskContext>) -> Result<Rotation> {
        let partitions = self.properties.output_partitioning().partition_count();
        let mut rotations = self.rotations.lock().unwrap_or_else(PoisonError::into_inner);
        if rotations.iter().all(Option::is_none) {
            let exchange = Exchange { shards: self.shards, schema: self.schema(), outputs: partitions };
            *rotations = exchange.start(&self.input, context)?.into_iter().map(Some).collect();
        }
        rotations.get_mut(partition).and_then(Option::take).ok_or_else(|| {
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
        // A round-robin exchange below would hand out batches as they come, and the shards would differ between runs.
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

/// The schema of an input with the shard's column behind it.
fn with_shard_column(input: &SchemaRef) -> SchemaRef {
    let mut fields: Vec<_> = input.fields().iter().map(Arc::clone).collect();
    fields.push(Arc::new(Field::new(SHARD_COLUMN, DataType::UInt32, false)));
    Arc::new(Schema::new_with_metadata(fields, input.metadata().clone()))
}

/// One block of rows, or the part of it that one batch holds.
#[derive(Debug)]
struct DealtRows {
    shard: usize,
    /// A slice of the batch, with the shard's column.
    rows: RecordBatch,
    /// Whether the block ends with these rows.
    ends_block: bool,
}

/// Deals the batches of one input.
struct Dealer {
    deal: ShardDeal,
    schema: SchemaRef,
    /// For each shard that has had rows, its column for the longest block, to take slices of.
    columns: Vec<Option<ArrayRef>>,
}

impl Dealer {
    fn new(shards: NonZeroUsize, schema: SchemaRef) -> Self {
        Self { deal: ShardDeal::new(shards), schema, columns: vec![None; shards.get()] }
    }

    /// Cuts a batch at the ends of blocks, without copying rows.
    fn deal(&mut self, batch: &RecordBatch) -> Vec<Result<DealtRows>> {
        let mut dealt = Vec::new();
        let mut start = 0;
        while start < batch.num_rows() {
            let block = self.deal.deal_block((batch.num_rows() - start).min(ShardDeal::MAX_BLOCK));
            let rows = self.with_shard(&batch.slice(start, block.rows), block.shard);
            dealt.push(rows.map(|rows| DealtRows { shard: block.shard, rows, ends_block: block.complete }));
            start += block.rows;
        }
        dealt
    }

    fn with_shard(&mut self, rows: &RecordBatch, shard: usize) -> Result<RecordBatch> {
        let Some(column) = self.columns.get_mut(shard) else {
            return internal_err!("DealExec: no shard {shard}");
        };
        let number =
            u32::try_from(shard).map_err(|_| internal_datafusion_err!("DealExec: shard {shard} is over 2^32"))?;
        let column = column
            .get_or_insert_with(|| Arc::new(UInt32Array::from_value(number, ShardDeal::MAX_BLOCK)))
            .slice(0, rows.num_rows());
        let mut columns = rows.columns().to_vec();
        columns.push(column);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
