//! [`WholeWindows`]: frames that end before the row are computed over whole partitions.
//!
//! The engine computes a window while its rows arrive if it can. Where a frame in `RANGE` ends a distance before the row,
//! and the rows of a NULL, NaN or infinite key span batches, it ended the frame with the batch: of 23,000 rows with a NULL,
//! each batch had another count.
//!
//! Upstream: unreported. Held by `tests/slt/answers.slt`: The rows of a NULL are in one frame, however many they are.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_expr::{WindowFrameBound, WindowFrameUnits};

/// Replaces the engine's operator by the one that reads whole partitions. Runs after the rules that choose between them.
#[derive(Debug)]
pub(crate) struct WholeWindows;

impl PhysicalOptimizerRule for WholeWindows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            let whole = match plan.downcast_ref::<BoundedWindowAggExec>() {
                Some(window)
                    if window.input_order_mode == InputOrderMode::Sorted
                        && window.window_expr().iter().any(|window| ends_before(window.as_ref())) =>
                {
                    let can_repartition = !window.partition_keys().is_empty();
                    let input = Arc::clone(window.input());
                    WindowAggExec::try_new(window.window_expr().to_vec(), input, can_repartition)?
                }
                _ => return Ok(Transformed::no(plan)),
            };
            Ok(Transformed::yes(Arc::new(whole) as Arc<dyn ExecutionPlan>))
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "whole_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the frame of a window is in `RANGE` and ends a distance before the row.
fn ends_before(window: &dyn WindowExpr) -> bool {
    let frame = window.get_window_frame();
    let distance = match &frame.end_bound {
        WindowFrameBound::Preceding(distance) => distance,
        WindowFrameBound::CurrentRow | WindowFrameBound::Following(_) => return false,
    };
    frame.units == WindowFrameUnits::Range && !distance.is_null()
}
