//! Constants below outer joins.
//!
//! A column that is a constant on one side of an outer join is NULL in rows without a match. The engine takes it for a constant above
//! the join, too: `LEFT JOIN (SELECT DISTINCT key, true AS found ...) ... ORDER BY found` was not sorted, and windows in such an order
//! had wrong peers. The columns are hidden from what is known of the side.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _, replace_children_if_necessary};
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{JoinType, Result};
use datafusion_expr::ScalarUDF;

use crate::unordered::{Unordered, unordered};

/// Hides constants of the sides of outer joins that may have no match.
#[derive(Debug)]
pub struct NoConstantsOfOuterJoins(Arc<ScalarUDF>);

impl Default for NoConstantsOfOuterJoins {
    fn default() -> Self {
        Self(Unordered::function())
    }
}

impl PhysicalOptimizerRule for NoConstantsOfOuterJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let config = Arc::new(config.clone());
        let plan = plan.transform_up(|plan| {
            let (left, right) = match join_type(plan.as_ref()) {
                Some(JoinType::Left) => (false, true),
                Some(JoinType::Right) => (true, false),
                Some(JoinType::Full) => (true, true),
                _ => return Ok(Transformed::no(plan)),
            };
            let mut changed = false;
            let sides = plan.children().into_iter().zip([left, right]).map(|(side, may_be_null)| {
                let hidden = if may_be_null { self.hide(side, &config)? } else { None };
                changed |= hidden.is_some();
                Ok(hidden.unwrap_or_else(|| Arc::clone(side)))
            });
            let sides = sides.collect::<Result<Vec<_>>>()?;
            Ok(Transformed::new_transformed(replace_children_if_necessary(plan, sides)?, changed))
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "no_constants_of_outer_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn join_type(plan: &dyn ExecutionPlan) -> Option<JoinType> {
    plan.downcast_ref::<HashJoinExec>()
        .map(|join| *join.join_type())
        .or_else(|| plan.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()))
        .or_else(|| plan.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type()))
}

impl NoConstantsOfOuterJoins {
    /// The rows of a side without constants; None if it has no constants.
    fn hide(
        &self,
        side: &Arc<dyn ExecutionPlan>,
        config: &Arc<ConfigOptions>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (schema, known) = (side.schema(), side.equivalence_properties());
        let mut hidden = false;
        let columns = schema.fields().iter().enumerate().map(|(index, field)| {
            let mut column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
            if known.is_expr_constant(&column).is_some() {
                hidden = true;
                column = unordered(&self.0, column, &schema, config)?;
            }
            Ok((column, field.name().clone()))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(if hidden { Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(side))?)) } else { None })
    }
}
