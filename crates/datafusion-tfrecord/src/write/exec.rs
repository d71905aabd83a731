//! [`TfRecordWriteExec`]: encodes every input partition into staged shards.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

use arrow_array::{RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_tfrecord::Mapping;
use datafusion_common::stats::Precision;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, exec_datafusion_err};
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_physical_expr::EquivalenceProperties;
use datafusion_physical_expr_common::sort_expr::OrderingRequirements;
use datafusion_physical_plan::execution_plan::{EmissionType, EvaluationType, SchedulingType};
use datafusion_physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream, StatisticsArgs, StatisticsContext, validate_child_count,
};
use futures::{FutureExt, stream};
use tfrecord_shards::{ShardRanges, ShardRule, Sharding};

use super::metrics::{SortMetrics, WriteMetrics};
use super::observe::RowEncoder;
use super::options::WriteOptions;
use super::partition::{PartitionWrite, RowRule, SharedShards};
use super::run::current_run;
use super::sorted::{Arrangement, RecordOrder, SortTask, SortedWrite, Sorting};
use super::task_staging::TaskStaging;
use super::units::PartitionPlace;

/// Encodes the rows of every input partition and stages them as shards. Yields one row for each partition, `count`: its
/// number of records. Nothing is visible until the [`TfRecordCommitExec`](super::TfRecordCommitExec) above has received
/// all of these rows.
///
/// When rows are assigned to a number of shards, all partitions write every shard together. When records are shuffled
/// or assigned to splits or directories, all partitions sort them together, and no shard is started before all rows
/// have been read. The partitions must then be polled concurrently, as
/// [`CoalescePartitionsExec`](datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec) does.
///
/// Metrics: `rows_written`, `bytes_written` (framed, before compression), `shards` (complete ones) and
/// `elapsed_compute`; when sorting, also `rows_encoded`, `spill_count` and `spilled_bytes`.
#[derive(Debug)]
pub struct TfRecordWriteExec {
    input: Arc<dyn ExecutionPlan>,
    options: Arc<WriteOptions>,
    mapping: Arc<Mapping>,
    assignment: ShardAssignment,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// How rows are assigned to shards.
#[derive(Debug, Clone)]
pub(super) enum ShardAssignment {
    /// Round-robin to a number of shards, by all partitions together.
    RoundRobin(NonZeroUsize),
    /// By each partition on its own: a shard ends at a size or number of rows.
    Cut,
    /// By all partitions together, after all rows have been read.
    Sorted {
        /// The sort order.
        arrangement: Arrangement,
        /// The order of the single partition's rows, if it must be preserved.
        ordering: Option<OrderingRequirements>,
    },
    /// By the single partition: rows keep their order, and are cut into ranges if a number of shards is given.
    InOrder {
        /// The order, if the engine must preserve it.
        ordering: Option<OrderingRequirements>,
        /// The number of rows, for ranges.
        rows: Option<u64>,
    },
}

impl TfRecordWriteExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        options: Arc<WriteOptions>,
        mapping: Arc<Mapping>,
        assignment: ShardAssignment,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&COUNT_SCHEMA)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Final,
            input.boundedness(),
        )
        .with_evaluation_type(EvaluationType::Eager)
        .with_scheduling_type(SchedulingType::Cooperative);
        let metrics = ExecutionPlanMetricsSet::new();
        Self { input, options, mapping, assignment, properties: Arc::new(properties), metrics }
    }

    /// Returns the mapping of columns to features.
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Returns the plan of the rows.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Returns the write options.
    pub fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// Returns the number of input partitions. Equal rows in the same number of partitions give equal shards. Returns
    /// 1 if the number does not matter.
    pub(super) fn source_partitions(&self) -> usize {
        if matches!(&self.assignment, ShardAssignment::Sorted { arrangement, .. } if arrangement.ignores_partitions()) {
            return 1;
        }
        self.input.output_partitioning().partition_count()
    }

    /// The number of rows that was planned for, if shards are ranges of rows.
    pub(super) fn expected_rows(&self) -> Option<u64> {
        match &self.assignment {
            ShardAssignment::InOrder { rows, .. } => *rows,
            ShardAssignment::RoundRobin(_) | ShardAssignment::Cut | ShardAssignment::Sorted { .. } => None,
        }
    }

    /// Whether write partitions write each other's rows.
    pub(super) fn writes_together(&self) -> bool {
        matches!(self.assignment, ShardAssignment::Sorted { .. } | ShardAssignment::RoundRobin(_))
    }

    /// Returns the order in which records are sorted, if they are. Tasks of several processes do not write shards
    /// together: round-robin assignment is then a sort, with the same result.
    pub(super) fn sort_order(&self, in_tasks: bool) -> Result<Option<Arrangement>> {
        match &self.assignment {
            ShardAssignment::Sorted { arrangement, .. } => Ok(Some(arrangement.clone())),
            ShardAssignment::RoundRobin(shards) if in_tasks => {
                let order = RecordOrder::RoundRobin { shards: *shards };
                Ok(Some(Arrangement::try_new(&self.input.schema(), &self.options, order)?.0))
            }
            ShardAssignment::RoundRobin(_) | ShardAssignment::Cut | ShardAssignment::InOrder { .. } => Ok(None),
        }
    }

    /// Returns the rule by which a partition that writes its own shards assigns its rows.
    fn rule(&self) -> ShardRule {
        match (&self.assignment, self.options.sharding) {
            (ShardAssignment::InOrder { rows: Some(rows), .. }, Sharding::Count(shards)) => {
                ShardRule::Ranges(ShardRanges::new(shards, *rows))
            }
            (_, sharding) => ShardRule::new(sharding),
        }
    }
}

/// The columns of the nodes of a write plan.
pub(super) static COUNT_SCHEMA: LazyLock<SchemaRef> =
    LazyLock::new(|| Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)])));

/// Returns the row of a node of a write plan: a number of records.
pub(super) fn count_batch(records: u64) -> Result<RecordBatch> {
    let count = UInt64Array::from(vec![records]);
    Ok(RecordBatch::try_new(Arc::clone(&COUNT_SCHEMA), vec![Arc::new(count)])?)
}

/// Describes the sharding for `EXPLAIN`.
fn describe(sharding: Sharding) -> String {
    match sharding {
        Sharding::Count(shards) => format!("shards={shards}"),
        Sharding::Bytes(bytes) => format!("shard_size={bytes}"),
        Sharding::Rows(rows) => format!("shard_rows={rows}"),
        Sharding::Hosts(hosts) => format!("hosts={hosts}"),
        other => format!("sharding={other:?}"),
    }
}

impl DisplayAs for TfRecordWriteExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sharding = describe(self.options.sharding);
        let record_type = self.mapping.record_type();
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, "TfRecordWriteExec: record_type={record_type}, {sharding}")?;
                match self.assignment {
                    ShardAssignment::InOrder { .. } => f.write_str(", in order")?,
                    ShardAssignment::RoundRobin(_) => f.write_str(", round-robin")?,
                    ShardAssignment::Cut | ShardAssignment::Sorted { .. } => {}
                }
                if let ShardAssignment::Sorted { arrangement, .. } = &self.assignment {
                    write!(f, ", {arrangement}")?;
                }
                write!(f, ", compression={}", self.options.framing().unwrap_or_default())
            }
            DisplayFormatType::TreeRender => write!(f, "{sharding}"),
        }
    }
}

impl ExecutionPlan for TfRecordWriteExec {
    fn name(&self) -> &'static str {
        "TfRecordWriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![match self.assignment {
            ShardAssignment::InOrder { .. } | ShardAssignment::Sorted { ordering: Some(_), .. } => {
                Distribution::SinglePartition
            }
            ShardAssignment::RoundRobin(_) | ShardAssignment::Cut | ShardAssignment::Sorted { .. } => {
                Distribution::UnspecifiedDistribution
            }
        }])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        // Without this the optimizer removes the user's ORDER BY as unused.
        vec![match &self.assignment {
            ShardAssignment::InOrder { ordering, .. } | ShardAssignment::Sorted { ordering, .. } => ordering.clone(),
            ShardAssignment::RoundRobin(_) | ShardAssignment::Cut => None,
        }]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        // Encoding has its own threads, and a round-robin exchange would make shards differ between runs.
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
        let (options, mapping) = (Arc::clone(&self.options), Arc::clone(&self.mapping));
        Ok(Arc::new(Self::new(children.swap_remove(0), options, mapping, self.assignment.clone())))
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
        let number = u32::try_from(partition).map_err(|_| exec_datafusion_err!("too many partitions: {partition}"))?;
        let run = current_run(&context)?;
        let partitions = self.properties.output_partitioning().partition_count();
        let place = PartitionPlace { partition: number, partitions };
        let encoder = RowEncoder::new(&self.mapping, &self.options)?;
        let reporting = Arc::clone(&run);
        let report = if let Some(arrangement) = self.sort_order(run.staging.task.is_some())? {
            let rows = exact_rows(&self.input)?;
            let shared = run.staging.task.as_ref().map(TaskStaging::runs).transpose()?;
            let options = Arc::clone(&self.options);
            let begin = || Sorting::new(arrangement, options, (partitions, rows), shared, &run, &context);
            let sorting = run.shared(begin)?;
            let metrics = WriteMetrics::new(&self.metrics, partition);
            let sort_metrics = SortMetrics::new(&self.metrics, partition);
            if run.staging.task.is_some() {
                let sort = SortTask { run, sorting, place, encoder, metrics, sort_metrics };
                sort.write(self.input.execute(partition, context)?).boxed()
            } else {
                let write = SortedWrite::new(run, sorting, place, encoder, metrics, sort_metrics);
                write.write(self.input.execute(partition, context)?).boxed()
            }
        } else {
            let memory = |name: String| MemoryConsumer::new(name).register(context.memory_pool());
            let records_per_row = encoder.records_per_row();
            let (shards, input) = match self.assignment {
                ShardAssignment::RoundRobin(shards) => {
                    let begin = || {
                        let metrics = (0..partitions).map(|partition| WriteMetrics::new(&self.metrics, partition));
                        let inputs = NonZeroUsize::new(partitions).unwrap_or(NonZeroUsize::MIN);
                        let rule = RowRule::RoundRobin { shards, partitions: inputs };
                        let memory = memory("TfRecordWriteExec".to_owned());
                        SharedShards::new(&run, partitions, rule, records_per_row, metrics.collect(), memory)
                    };
                    (run.shared(begin)?, partition)
                }
                _ => {
                    let shard_space = if matches!(self.options.sharding, Sharding::Count(_)) { 0 } else { number };
                    let rule = RowRule::Single { rule: self.rule(), shard_space };
                    let metrics = vec![WriteMetrics::new(&self.metrics, partition)];
                    let memory = memory(format!("TfRecordWriteExec[{partition}]"));
                    let shards = SharedShards::new(&run, partitions, rule, records_per_row, metrics, memory);
                    (Arc::new(shards), 0)
                }
            };
            let write = PartitionWrite::new(run, shards, input, place, encoder);
            write.write(self.input.execute(partition, context)?).boxed()
        };
        let count = stream::once(async move {
            let report = report.await?;
            let count = count_batch(report.rows);
            reporting.report(number, report);
            count
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&COUNT_SCHEMA), count)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Returns the number of rows, if it is known before they are read.
pub(super) fn exact_rows(input: &Arc<dyn ExecutionPlan>) -> Result<Option<u64>> {
    let rows = StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new())?.num_rows;
    Ok(if let Precision::Exact(rows) = rows { Some(rows as u64) } else { None })
}
