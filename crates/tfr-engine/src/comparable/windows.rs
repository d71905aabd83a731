//! Windows ordered by intervals or durations.

use arrow_schema::DataType;
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, plan_err};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable as _, LogicalPlan, WindowFrameUnits};

use super::is_of_intervals;

/// Whether the values of an expression are intervals or durations.
fn is_length(expr: &Expr, schema: &DFSchema) -> bool {
    is_of_intervals(expr, schema) || matches!(expr.get_type(schema), Ok(DataType::Duration(_)))
}

/// Rejects window frames with ranges of intervals or durations, before the engine's type coercion fails to find a type
/// for the bounds.
#[derive(Debug, Default)]
pub struct NoRangesOfIntervals;

impl AnalyzerRule for NoRangesOfIntervals {
    fn name(&self) -> &str {
        "no_ranges_of_intervals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            let LogicalPlan::Window(window) = node else { return Ok(TreeNodeRecursion::Continue) };
            let schema = merge_schema(&[&window.input]);
            for expr in &window.window_expr {
                expr.apply(|expr| match expr {
                    Expr::WindowFunction(function)
                        if function.params.window_frame.units == WindowFrameUnits::Range
                            && function.params.order_by.iter().any(|key| is_length(&key.expr, &schema)) =>
                    {
                        plan_err!(
                            "a window with ORDER BY an interval or a difference of timestamps is not supported: order by \
                             extract(epoch FROM x), or give the frame in ROWS"
                        )
                    }
                    _ => Ok(TreeNodeRecursion::Continue),
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}
