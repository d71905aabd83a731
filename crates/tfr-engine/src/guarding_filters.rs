//! [`ProjectionsAboveFilters`]: expressions are computed for the rows that pass a filter only.
//!
//! The engine moves a projection below a filter if the projection keeps the columns of the filter and has fewer columns
//! than its input. Its expressions were then computed for all rows: `SELECT b, a / b + c FROM t WHERE b <> 0` failed
//! with a division by zero. Columns and fields of structs may still move.
//!
//! Upstream: unreported. Held by `tests/slt/matrix.slt`: What the matrix found: expressions below filters

use std::fmt;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Result, internal_err};

/// The engine's rule, over filters that let no computed expression pass.
#[derive(Debug, Default)]
pub(crate) struct ProjectionsAboveFilters(ProjectionPushdown);

impl PhysicalOptimizerRule for ProjectionsAboveFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let guarded = plan.transform_up(|plan| {
            if plan.is::<FilterExec>() {
                Ok(Transformed::yes(Arc::new(GuardedFilter(plan)) as Arc<dyn ExecutionPlan>))
            } else {
                Ok(Transformed::no(plan))
            }
        })?;
        let pushed = self.0.optimize(guarded.data, config)?;
        let plan = pushed.transform_up(|plan| match plan.downcast_ref::<GuardedFilter>() {
            Some(guarded) => Ok(Transformed::yes(Arc::clone(&guarded.0))),
            None => Ok(Transformed::no(plan)),
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// A filter while the rule runs.
#[derive(Debug)]
struct GuardedFilter(Arc<dyn ExecutionPlan>);

impl DisplayAs for GuardedFilter {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(t, f)
    }
}

impl ExecutionPlan for GuardedFilter {
    fn name(&self) -> &str {
        "GuardedFilter"
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

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self(replace_children_if_necessary(Arc::clone(&self.0), children)?)))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("the filter is guarded only while projections are pushed down")
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if projection.expr().iter().all(|projected| cannot_fail(&projected.expr)) {
            self.0.try_swapping_with_projection(projection)
        } else {
            Ok(None)
        }
    }
}

/// Whether an expression is a column, a literal or a field of these.
fn cannot_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_field = expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| call.fun().name() == "get_field");
    expr.is::<Column>() || expr.is::<Literal>() || is_field && expr.children().into_iter().all(cannot_fail)
}
