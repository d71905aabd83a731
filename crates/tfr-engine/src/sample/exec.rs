//! [`SampleExec`]: selects rows by a hash of their number.

use std::fmt;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow_schema::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput as _};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, PlanProperties,
};
use datafusion_common::internal_err;
use datafusion_common::tree_node::TreeNodeRecursion;
use futures::{StreamExt as _, TryStreamExt as _, stream};

/// Rows collected beyond the requested number before the rejected ones are removed.
const SLACK_ROWS: usize = 8192;

/// The size of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Each row with the same probability: the number of the 2^64 hashes that are selected, `None` for all.
    Share(Option<u64>),
    /// Exactly this number of rows, or all if there are fewer.
    Rows(usize),
}

impl Size {
    /// Selects each row with a probability of `percent` / 100.
    pub fn percent(percent: f64) -> Self {
        const HASHES: f64 = 18_446_744_073_709_551_616.0;
        let selected = percent / 100.0 * HASHES;
        Self::Share((selected < HASHES).then_some(selected as u64))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(None) => write!(f, "all rows"),
            Self::Share(Some(selected)) => write!(f, "{} percent", *selected as f64 / u64::MAX as f64 * 100.0),
            Self::Rows(rows) => write!(f, "{rows} rows"),
        }
    }
}

/// Selects rows of its input in their order, one input partition after the other.
#[derive(Debug)]
pub struct SampleExec {
    input: Arc<dyn ExecutionPlan>,
    size: Size,
    seed: u64,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SampleExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, size: Size, seed: u64) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            input.boundedness(),
        );
        Self { input, size, seed, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for SampleExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SampleExec: {}, seed {}", self.size, self.seed)
    }
}

impl ExecutionPlan for SampleExec {
    fn name(&self) -> &'static str {
        "SampleExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    /// An exchange below would change the order of the rows.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(Self::new(input, self.size, self.seed))),
            _ => internal_err!("SampleExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("SampleExec has no partition {partition}");
        }
        let input = Arc::clone(&self.input);
        let partitions = input.output_partitioning().partition_count();
        let pool = Arc::clone(context.memory_pool());
        let rows = stream::iter(0..partitions)
            .map(move |partition| input.execute(partition, Arc::clone(&context)))
            .try_flatten();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let seed = self.seed;
        let schema = self.schema();
        match self.size {
            Size::Share(share) => {
                let mut number = 0;
                let selected = rows.map(move |batch| {
                    let batch = select(&batch?, share, seed, &mut number)?;
                    Ok(batch.record_output(&metrics))
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, selected)))
            }
            Size::Rows(rows_wanted) => {
                let reservation = MemoryConsumer::new("SampleExec").register(&pool);
                let mut drawn = Drawn::new(self.schema(), rows_wanted, seed, reservation);
                let batch = async move {
                    let mut rows = std::pin::pin!(rows);
                    while let Some(batch) = rows.try_next().await? {
                        drawn.push(&batch)?;
                    }
                    Ok(drawn.finish()?.record_output(&metrics))
                };
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::once(batch))))
            }
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Returns the rows of `batch` whose hashes are below `share`. `number` is the number of the next row.
fn select(
    batch: &RecordBatch,
    share: Option<u64>,
    seed: u64,
    number: &mut u64,
) -> Result<RecordBatch, DataFusionError> {
    let first = *number;
    *number += batch.num_rows() as u64;
    let Some(share) = share else { return Ok(batch.clone()) };
    let selected: BooleanArray = (first..*number).map(|number| Some(hash(seed, number) < share)).collect();
    Ok(filter_record_batch(batch, &selected)?)
}

/// The rows with the lowest hashes.
#[derive(Debug)]
struct Drawn {
    schema: SchemaRef,
    wanted: usize,
    seed: u64,
    /// The number of the next row.
    number: u64,
    /// The highest hash that can still be selected.
    highest: u64,
    batches: Vec<RecordBatch>,
    /// The hash and number of each collected row.
    rows: Vec<(u64, u64)>,
    reservation: MemoryReservation,
}

impl Drawn {
    fn new(schema: SchemaRef, wanted: usize, seed: u64, reservation: MemoryReservation) -> Self {
        let (batches, rows) = (Vec::new(), Vec::new());
        Self { schema, wanted, seed, number: 0, highest: u64::MAX, batches, rows, reservation }
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.schema.fields().is_empty() {
            // Only the number of rows is requested.
            self.number += batch.num_rows() as u64;
            return Ok(());
        }
        let mut indices = Vec::new();
        for index in 0..batch.num_rows() as u64 {
            let hash = hash(self.seed, self.number);
            if self.wanted > 0 && hash <= self.highest {
                indices.push(index);
                self.rows.push((hash, self.number));
            }
            self.number += 1;
        }
        if !indices.is_empty() {
            let taken = take_record_batch(batch, &UInt64Array::from(indices))?;
            self.reservation.try_grow(taken.get_array_memory_size())?;
            self.batches.push(taken);
        }
        if self.rows.len() > self.wanted.saturating_mul(2).saturating_add(SLACK_ROWS) {
            self.reduce()?;
        }
        Ok(())
    }

    /// Removes rows that have been replaced by rows with lower hashes.
    fn reduce(&mut self) -> Result<()> {
        let collected = concat_batches(&self.schema, &self.batches)?;
        let mut order: Vec<_> = (0_u64..).zip(&self.rows).map(|(index, row)| (*row, index)).collect();
        if self.wanted < order.len() {
            let (_, highest, _) = order.select_nth_unstable(self.wanted);
            self.highest = highest.0.0;
            order.truncate(self.wanted);
        }
        order.sort_unstable_by_key(|((_, number), _)| *number);
        self.rows = order.iter().map(|(row, _)| *row).collect();
        let indices = UInt64Array::from_iter_values(order.into_iter().map(|(_, index)| index));
        let reduced = take_record_batch(&collected, &indices)?;
        self.batches.clear();
        self.reservation.try_resize(reduced.get_array_memory_size())?;
        self.batches.push(reduced);
        Ok(())
    }

    fn finish(mut self) -> Result<RecordBatch> {
        if self.schema.fields().is_empty() {
            let rows = usize::try_from(self.number).unwrap_or(usize::MAX).min(self.wanted);
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            return Ok(RecordBatch::try_new_with_options(self.schema, Vec::new(), &options)?);
        }
        self.reduce()?;
        Ok(concat_batches(&self.schema, &self.batches)?)
    }
}

/// Returns the hash of a row number.
fn hash(seed: u64, number: u64) -> u64 {
    mix(mix(seed).wrapping_add(number))
}

/// The finalizer of SplitMix64, after a step of its sequence.
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
