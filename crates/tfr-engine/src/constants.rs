//! Constants below outer joins and unions.
//!
//! A column that is constant on one side of an outer join is NULL in rows without a match. The engine treats it as
//! constant above the join, too. `LEFT JOIN (SELECT DISTINCT key, true AS found ...) ... ORDER BY found` was not
//! sorted, and windows in such an order had wrong peers.
//!
//! A column with a different constant in each input of a union is left out of the sort of each input. With a LIMIT,
//! the inputs share the bounds found for the other columns, and rows of the input that comes first were dropped.
//!
//! This rule hides such columns from the engine.
//!
//! Upstream: apache/datafusion#23528. Held by `tests/slt/answers.slt`: A constant of one side of an outer join is NULL where there is no match.

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

/// Hides constants on the sides of outer joins that may have no match, and union constants that differ between the
/// inputs.
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
    /// Returns a union without constants that differ between its inputs, or `None` if there are none. It is enough to
    /// hide them in one input.
    fn hide_in_union(&self, union: &UnionExec, config: &Arc<ConfigOptions>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let equivalences = &union.properties().eq_properties;
        let schema = union.schema();
        let differs = |column: &Arc<dyn PhysicalExpr>| {
            // Inputs may have other names.
            let column = column.downcast_ref::<Column>().map(|column| {
                Arc::new(Column::new(schema.field(column.index()).name(), column.index())) as Arc<dyn PhysicalExpr>
            });
            column
                .and_then(|column| equivalences.is_expr_constant(&column))
                .is_some_and(|constant| constant == AcrossPartitions::Heterogeneous)
        };
        let mut parts: Vec<_> = union.children().into_iter().cloned().collect();
        let Some(first) = parts.first_mut() else { return Ok(None) };
        let Some(hidden) = self.hide(first, config, differs)? else { return Ok(None) };
        *first = hidden;
        UnionExec::try_new(parts).map(Some)
    }

    /// Hides some constants of a side. Returns `None` if it has none of them.
    fn hide(
        &self,
        side: &Arc<dyn ExecutionPlan>,
        config: &Arc<ConfigOptions>,
        is_hidden: impl Fn(&Arc<dyn PhysicalExpr>) -> bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (schema, equivalences) = (side.schema(), side.equivalence_properties());
        let mut hidden = false;
        let columns = schema.fields().iter().enumerate().map(|(index, field)| {
            let mut column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
            if equivalences.is_expr_constant(&column).is_some() && is_hidden(&column) {
                hidden = true;
                column = unordered(&self.0, column, &schema, config)?;
            }
            Ok((column, field.name().clone()))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(if hidden { Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(side))?)) } else { None })
    }
}
