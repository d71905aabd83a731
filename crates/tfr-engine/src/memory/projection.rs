//! [`HalvingProjectionExec`]: a projection that processes fewer rows at a time if function results get long.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::Projector;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, Statistics, StatisticsArgs,
};
use datafusion_common::internal_err;
use datafusion_common::tree_node::TreeNodeRecursion;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::functions::ResultTooLarge;

/// A projection whose functions may reject a batch with [`ResultTooLarge`]. It is then computed in halves.
#[derive(Debug)]
pub struct HalvingProjectionExec(Arc<ProjectionExec>);

impl HalvingProjectionExec {
    pub fn new(projection: ProjectionExec) -> Self {
        Self(Arc::new(projection))
    }
}

impl DisplayAs for HalvingProjectionExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(t, f)
    }
}

impl ExecutionPlan for HalvingProjectionExec {
    fn name(&self) -> &'static str {
        "HalvingProjectionExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.0.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.0.benefits_from_input_partitioning()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => {
                Ok(Arc::new(Self::new(ProjectionExec::try_new(self.0.expr().to_vec(), input)?)))
            }
            _ => internal_err!("HalvingProjectionExec has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.0.input().execute(partition, context)?;
        let projector = Arc::new(self.0.projection_expr().make_projector(&input.schema())?);
        let batches = input
            .map_ok(move |batch| {
                let steps = Steps { projector: Arc::clone(&projector), left: vec![batch] };
                stream::iter(steps)
            })
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches.boxed())))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.0.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.0.statistics_from_inputs(inputs, args)
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.0.gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(child_pushdown_result))
    }
}

/// Computes a batch, in halves if necessary.
struct Steps {
    projector: Arc<Projector>,
    /// The remaining rows, in reverse order.
    left: Vec<RecordBatch>,
}

impl Iterator for Steps {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let batch = self.left.pop()?;
            let projected = self.projector.project_batch(&batch);
            let rows = batch.num_rows();
            if rows <= 1 || !projected.as_ref().is_err_and(is_too_large) {
                return Some(projected);
            }
            self.left.push(batch.slice(rows / 2, rows - rows / 2));
            self.left.push(batch.slice(0, rows / 2));
        }
    }
}

fn is_too_large(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::External(source) => source.is::<ResultTooLarge>(),
        root => root.source().is_some_and(|source| source.is::<ResultTooLarge>()),
    }
}
