//! [`FragmentInput`]: the rows of other fragments, in place of an exchange.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    replace_children_if_necessary,
};
use futures::TryStreamExt as _;

/// How the rows of fragments get into another fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Each row goes to the partition that the hash of its key selects.
    Hash,
    /// All partitions become one.
    Gather,
    /// One partition, which all need.
    Share,
    /// The partitions of several fragments one after the other. No row moves.
    Union,
}

/// The first error of the exchanges that a partition reads.
///
/// An engine that runs lost tasks again must see its own error. The operators above an exchange wrap errors, and a write
/// replaces them, so the error goes past them.
#[derive(Clone, Debug, Default)]
pub struct ExchangeFailure(Arc<Mutex<Option<DataFusionError>>>);

impl ExchangeFailure {
    /// Keeps an error, and returns another one that stops the operators.
    fn keep(&self, error: DataFusionError) -> DataFusionError {
        let stop = DataFusionError::Execution(format!("cannot read exchanged rows: {error}"));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        stop
    }

    /// Takes the error, if an exchange failed.
    pub fn take(&self) -> Option<DataFusionError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The rows that another part of the engine has exchanged.
#[derive(Debug)]
pub struct FragmentInput {
    /// Reads the rows.
    rows: Arc<dyn ExecutionPlan>,
    /// The context for that.
    context: Arc<TaskContext>,
    /// The partition to compute, in the plan and in `rows`.
    partition: (usize, usize),
    failure: ExchangeFailure,
}

impl FragmentInput {
    /// Creates an input for the computation of one partition: the first number is that of the plan, the second that of
    /// `rows`, which may have only some of the partitions.
    /// Its errors go to `failure`.
    pub fn new(
        rows: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        partition: (usize, usize),
        failure: ExchangeFailure,
    ) -> Self {
        Self { rows, context, partition, failure }
    }

    /// Returns an operator to be used instead of `exchange`.
    pub(super) fn in_place_of(
        self,
        exchange: Arc<dyn ExecutionPlan>,
        kind: Exchange,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Self { rows, context, partition, failure } = self;
        match kind {
            Exchange::Hash | Exchange::Union => {
                let properties = Arc::clone(exchange.properties());
                Ok(Arc::new(FragmentInputExec { rows, context, properties, partition: Some(partition), failure }))
            }
            Exchange::Share => {
                let properties = Arc::clone(exchange.properties());
                let rows = gathered(rows);
                Ok(Arc::new(FragmentInputExec { rows, context, properties, partition: None, failure }))
            }
            // The operator itself merges the partitions: it may have to keep their order.
            Exchange::Gather => {
                let rows = gathered(rows);
                let [child] = exchange.children()[..] else { return internal_err!("an exchange has one input") };
                let (planned, found) = (child.properties(), rows.properties());
                let counts = [planned, found].map(|properties| properties.partitioning.partition_count());
                if counts[0] != counts[1] {
                    return internal_err!("expected {} partitions to gather, found {}", counts[0], counts[1]);
                }
                let properties = Arc::clone(planned);
                let input = FragmentInputExec { rows, context, properties, partition: None, failure };
                replace_children_if_necessary(exchange, vec![Arc::new(input)])
            }
        }
    }
}

/// Returns the partitions below an operator that engines know.
fn gathered(rows: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match rows.downcast_ref::<CoalescePartitionsExec>() {
        Some(gathered) => Arc::clone(gathered.input()),
        None => rows,
    }
}

/// Yields the rows of a [`FragmentInput`] as the operator in whose place it is would.
#[derive(Debug)]
struct FragmentInputExec {
    rows: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    properties: Arc<PlanProperties>,
    /// As in [`FragmentInput`], or `None` if all partitions are there under their own numbers.
    partition: Option<(usize, usize)>,
    failure: ExchangeFailure,
}

impl DisplayAs for FragmentInputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for FragmentInputExec {
    fn name(&self) -> &'static str {
        "FragmentInputExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    /// The plan's own context is not the one that reads the rows.
    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let local = match self.partition {
            None => partition,
            Some((planned, local)) if planned == partition => local,
            Some((planned, _)) => return internal_err!("partition {partition} was read for partition {planned}"),
        };
        let failure = self.failure.clone();
        let rows = self.rows.execute(local, Arc::clone(&self.context)).map_err(|error| failure.keep(error))?;
        let (schema, rows) = (rows.schema(), rows.map_err(move |error| failure.keep(error)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
