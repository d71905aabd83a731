//! Constants below outer joins and unions.
//!
//! A column that is a constant on one side of an outer join is NULL in rows without a match. The engine takes it for a constant above
//! the join, too: `LEFT JOIN (SELECT DISTINCT key, true AS found ...) ... ORDER BY found` was not sorted, and windows in such an order
//! had wrong peers. A column that is another constant in each part of a union is left out of the sort of each part. With a LIMIT the
//! parts share what they have found of the other columns, and dropped rows of the part that comes first. The columns are hidden from
//! what is known of the side.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{AcrossPartitions, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _, replace_children_if_necessary};
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{JoinType, Result};
use datafusion_expr::ScalarUDF;

use crate::opaque::{unordered, unordered_function};

/// Hides constants of the sides of outer joins that may have no match, and constants of unions that are not the same in all parts.
#[derive(Debug)]
pub struct ConstantsOfOneSide(Arc<ScalarUDF>);

impl Default for ConstantsOfOneSide {
    fn default() -> Self {
        Self(unordered_function())
    }
}

impl PhysicalOptimizerRule for ConstantsOfOneSide {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let config = Arc::new(config.clone());
        let plan = plan.transform_up(|plan| {
            if let Some(union) = plan.downcast_ref::<UnionExec>() {
                let hidden = self.hide_in_union(union, &config)?;
                return Ok(hidden.map_or_else(|| Transformed::no(Arc::clone(&plan)), Transformed::yes));
            }
            let (left, right) = match join_type(plan.as_ref()) {
                Some(JoinType::Left) => (false, true),
                Some(JoinType::Right) => (true, false),
                Some(JoinType::Full) => (true, true),
                _ => return Ok(Transformed::no(plan)),
            };
            let mut changed = false;
            let sides = plan.children().into_iter().zip([left, right]).map(|(side, may_be_null)| {
                let hidden = if may_be_null { self.hide(side, &config, |_| true)? } else { None };
                changed |= hidden.is_some();
                Ok(hidden.unwrap_or_else(|| Arc::clone(side)))
            });
            let sides = sides.collect::<Result<Vec<_>>>()?;
            Ok(Transformed::new_transformed(replace_children_if_necessary(plan, sides)?, changed))
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "constants_of_one_side"
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

impl ConstantsOfOneSide {
    /// A union without constants that differ between its parts; None if it has none. One part without them is enough.
    fn hide_in_union(&self, union: &UnionExec, config: &Arc<ConfigOptions>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let known = &union.properties().eq_properties;
        let schema = union.schema();
        let differs = |column: &Arc<dyn PhysicalExpr>| {
            // Parts may have other names.
            let column = column.downcast_ref::<Column>().map(|column| {
                Arc::new(Column::new(schema.field(column.index()).name(), column.index())) as Arc<dyn PhysicalExpr>
            });
            column
                .and_then(|column| known.is_expr_constant(&column))
                .is_some_and(|constant| constant == AcrossPartitions::Heterogeneous)
        };
        let mut parts: Vec<_> = union.children().into_iter().cloned().collect();
        let Some(first) = parts.first_mut() else { return Ok(None) };
        let Some(hidden) = self.hide(first, config, differs)? else { return Ok(None) };
        *first = hidden;
        UnionExec::try_new(parts).map(Some)
    }

    /// The rows of a side without some of its constants; None if it has none of these.
    fn hide(
        &self,
        side: &Arc<dyn ExecutionPlan>,
        config: &Arc<ConfigOptions>,
        is_hidden: impl Fn(&Arc<dyn PhysicalExpr>) -> bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (schema, known) = (side.schema(), side.equivalence_properties());
        let mut hidden = false;
        let columns = schema.fields().iter().enumerate().map(|(index, field)| {
            let mut column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
            if known.is_expr_constant(&column).is_some() && is_hidden(&column) {
                hidden = true;
                column = unordered(&self.0, column, &schema, config)?;
            }
            Ok((column, field.name().clone()))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(if hidden { Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(side))?)) } else { None })
    }
}
