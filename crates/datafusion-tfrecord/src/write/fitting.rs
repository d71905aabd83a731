//! [`FittingRowsExec`]: passes on the rows that can be written, and rejects the others.

use std::fmt;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use arrow_tfrecord::{Encoder, Mapping};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DataFusionError, Result, exec_datafusion_err, internal_datafusion_err};
use datafusion_execution::TaskContext;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr,
    PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream, validate_child_count,
};
use futures::future::ready;
use futures::{Stream, StreamExt, TryStreamExt};

use super::rejects::{RejectCounts, Rejects, reject_batch, reject_schema};
use super::run::{Run, current_run};
use super::sorted::Arrangement;
use super::units::{PartitionPlace, RowsError};

/// Passes on the rows whose values their features can represent, in their order and partitions, and counts the others.
///
/// Below a [`TfRecordCommitExec`](super::TfRecordCommitExec) the others go to the table of rejected rows, and batches are
/// checked on the threads that encode. Elsewhere they are only counted.
#[derive(Debug)]
pub struct FittingRowsExec {
    input: Arc<dyn ExecutionPlan>,
    mapping: Arc<Mapping>,
    arrangement: Arrangement,
    rejects: Rejects,
    /// The columns of rejected rows.
    schema: SchemaRef,
    /// The counts of a plan without a run.
    counts: Arc<RejectCounts>,
    properties: Arc<PlanProperties>,
}

impl FittingRowsExec {
    /// Creates the node. `mapping` is that of the records, which the arrangement makes of the rows.
    ///
    /// # Errors
    /// The rows have a column of the name of one of the table's own.
    pub(super) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        mapping: Arc<Mapping>,
        arrangement: Arrangement,
        rejects: Rejects,
    ) -> Result<Self> {
        let schema = reject_schema(&input.schema())?;
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let (counts, properties) = (Arc::default(), Arc::new(properties));
        Ok(Self { input, mapping, arrangement, rejects, schema, counts, properties })
    }
}

impl DisplayAs for FittingRowsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.rejects.most;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, "FittingRowsExec: max_rejects={most}"),
            DisplayFormatType::TreeRender => write!(f, "max_rejects={most}"),
        }
    }
}

impl ExecutionPlan for FittingRowsExec {
    fn name(&self) -> &'static str {
        "FittingRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
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
        let (mapping, arrangement) = (Arc::clone(&self.mapping), self.arrangement.clone());
        Ok(Arc::new(Self::try_new(children.swap_remove(0), mapping, arrangement, self.rejects.clone())?))
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
        let partitions = self.properties.output_partitioning().partition_count();
        let run = current_run(&context).ok();
        let check = Arc::new(Check {
            encoder: Encoder::new(Arc::clone(&self.mapping)),
            arrangement: self.arrangement.clone(),
            schema: Arc::clone(&self.schema),
            place: PartitionPlace { partition: number, partitions },
        });
        let counts = run.as_ref().map_or_else(|| Arc::clone(&self.counts), |run| Arc::clone(&run.rejects));
        let recorder = Recorder { counts, rejects: self.rejects.clone(), place: check.place, run: run.clone() };
        let checked = checked(self.input.execute(partition, context)?, check, run);
        let fitting = checked.and_then(move |checked| recorder.clone().record(checked));
        let fitting = fitting.try_filter(|rows| ready(rows.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), fitting)))
    }
}

/// Checks batches, several at a time if there is a run, and returns them in order.
fn checked(
    rows: SendableRecordBatchStream,
    check: Arc<Check>,
    run: Option<Arc<Run>>,
) -> impl Stream<Item = Result<Checked>> + Send {
    let window = run.as_ref().map_or(1, |run| run.window(check.place.partitions));
    let mut rows_before = 0;
    rows.map_ok(move |rows| {
        let (first, check) = (rows_before, Arc::clone(&check));
        rows_before += rows.num_rows() as u64;
        let run = run.clone();
        async move {
            match run {
                Some(run) => run.compute(move |_| check.check(rows, first)).await,
                None => check.check(rows, first),
            }
        }
    })
    .try_buffered(window)
    .boxed()
}

/// Finds the rows of a partition that cannot be written.
struct Check {
    encoder: Encoder,
    arrangement: Arrangement,
    /// The columns of rejected rows.
    schema: SchemaRef,
    place: PartitionPlace,
}

/// A batch whose rows have been checked.
struct Checked {
    /// The rows that fit.
    rows: RecordBatch,
    /// The others, as rows of the table of rejected rows.
    rejected: Option<RecordBatch>,
    /// Why they do not fit.
    row_errors: Vec<arrow_tfrecord::Error>,
}

impl Check {
    fn check(&self, rows: RecordBatch, rows_before: u64) -> Result<Checked> {
        let place = self.place;
        let row_errors = self.encoder.row_errors(&self.arrangement.records(&rows)?);
        let row_errors = row_errors.map_err(|error| place.encode_error(RowsError::Encode(error), rows_before))?;
        if row_errors.is_empty() {
            return Ok(Checked { rows, rejected: None, row_errors });
        }
        let mut fits = vec![true; rows.num_rows()];
        for row_error in &row_errors {
            let row = row_error.row().and_then(|row| fits.get_mut(usize::try_from(row).ok()?));
            *row.ok_or_else(|| internal_datafusion_err!("a row that does not fit is not in its batch"))? = false;
        }
        let row_errors: Vec<_> =
            row_errors.into_iter().map(|row_error| row_error.with_row_offset(rows_before)).collect();
        let rejected = filter_record_batch(&rows, &fits.iter().map(|fits| Some(!fits)).collect::<BooleanArray>())?;
        let rejected = reject_batch(&self.schema, &rejected, &row_errors, place.partition)?;
        let rows = filter_record_batch(&rows, &BooleanArray::from(fits))?;
        Ok(Checked { rows, rejected: Some(rejected), row_errors })
    }
}

/// Counts the rows of a partition, and stores those that do not fit.
#[derive(Clone)]
struct Recorder {
    counts: Arc<RejectCounts>,
    rejects: Rejects,
    place: PartitionPlace,
    run: Option<Arc<Run>>,
}

impl Recorder {
    /// Returns the rows that fit.
    async fn record(self, checked: Checked) -> Result<RecordBatch> {
        let Self { counts, rejects, place, run } = self;
        let Checked { rows, rejected, row_errors } = checked;
        let all = (rows.num_rows() + row_errors.len()) as u64;
        counts.count(all, row_errors, place, rejects.most)?;
        if let (Some(rejected), Some(run)) = (rejected, run) {
            let added = run.wait_for_disk(move |_| rejects.table.add(place.partition, rejected));
            added.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        }
        Ok(rows)
    }
}
