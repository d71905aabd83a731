//! Windows ordered by intervals, durations or binary values.

use arrow_schema::DataType;
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, plan_err};
use datafusion_expr::expr::WindowFunctionParams;
use datafusion_expr::{Expr, ExprSchemable as _, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits};

use super::is_of_intervals;
use crate::expressions::{columns_of, rewrite_expressions};

/// Converts window frames in `RANGE` of values that the engine's type coercion has no type for: without a distance, they
/// are the same in `GROUPS`. With one they are rejected.
#[derive(Debug, Default)]
pub struct FramesOfGroups;

impl AnalyzerRule for FramesOfGroups {
    fn name(&self) -> &str {
        "frames_of_groups"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            if !matches!(plan, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(plan));
            }
            let schema = columns_of(&plan)?;
            rewrite_expressions(plan, |expr| match expr {
                Expr::WindowFunction(mut function) if has_no_distance(&function.params, &schema) => {
                    let WindowFrame { start_bound, end_bound, .. } = function.params.window_frame;
                    if is_distance(&start_bound) || is_distance(&end_bound) {
                        return plan_err!(
                            "a RANGE of an interval, a difference of timestamps or a BINARY value is not supported: order by \
                             extract(epoch FROM x), or give the frame in ROWS or GROUPS"
                        );
                    }
                    let frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start_bound, end_bound);
                    function.params.window_frame = frame;
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                expr => Ok(Transformed::no(expr)),
            })
        })?;
        Ok(plan.data)
    }
}

/// Whether the frame is a range of values of a type without distances.
fn has_no_distance(params: &WindowFunctionParams, schema: &DFSchema) -> bool {
    let is_key = |key: &Expr| match key.get_type(schema) {
        Ok(DataType::Dictionary(_, values)) => values.is_binary(),
        Ok(key_type) => key_type.is_binary() || matches!(key_type, DataType::Duration(_)),
        Err(_) => false,
    };
    params.window_frame.units == WindowFrameUnits::Range
        && params.order_by.iter().any(|key| is_of_intervals(&key.expr, schema) || is_key(&key.expr))
}

fn is_distance(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => !distance.is_null(),
        WindowFrameBound::CurrentRow => false,
    }
}
