//! Hides group keys from operators that wrongly assume that each key is in one row only.
//!
//! A `GROUP BY` or `DISTINCT` returns one row for each key. The engine wrongly assumes the same in two places:
//!
//! - Above `unnest`, which returns several rows for one (apache/datafusion#24787).
//! - In groups above a join, where a row of one side matches several rows of the other. In `GROUP BY key, other`, `key`
//!   alone was assumed to be the key.
//!
//! As a result, `SELECT DISTINCT key` returned duplicates, and `ORDER BY key, other` and `GROUP BY key, other` ignored
//! the other column. The columns are therefore passed through [`no_key_function`] first.
//!
//! Upstream: apache/datafusion#24787. Held by `tests/slt/answers.slt`: A key is none beside what is unnested

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::config::ConfigOptions;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::TableFactor;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{Column, Result};
use datafusion_expr::{Distinct, Expr, LogicalPlan, Projection, ScalarUDF, Unnest};

use crate::opaque::no_key_function;

/// Hides the group keys of unnested rows.
#[derive(Debug, Default)]
pub struct HideUnnestedKeys;

impl AnalyzerRule for HideUnnestedKeys {
    fn name(&self) -> &str {
        "hide_unnested_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        hide_keys(plan)
    }
}

/// Hides the group keys of unnested rows in a plan.
pub fn hide_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    // The optimizer turns it into groups, whose columns are keys.
    let is_distinct = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Distinct(_)));
    without_keys(plan, |unnest| unnest.input.exists(is_distinct))
}

/// The planner adds columns that a key determines to `GROUP BY key`. So the keys of a subquery are also hidden from
/// the outer query.
impl RelationPlanner for HideUnnestedKeys {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        thread_local! {
            /// The planner calls back for the relation that it is to plan.
            static CAME_BACK: Cell<bool> = const { Cell::new(false) };
        }
        if CAME_BACK.take() || !matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { args: None, .. })
        {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        CAME_BACK.set(true);
        let plan = context.plan(relation);
        CAME_BACK.set(false);
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(without_keys(plan?, |_| Ok(false))?, None))))
    }
}

/// Hides the keys in the rows of an unnest. `will_have_keys` returns whether any column may become a key later.
fn without_keys(plan: LogicalPlan, will_have_keys: impl Fn(&Unnest) -> Result<bool>) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Unnest(unnest) => {
            let hidden: HashSet<usize> = match will_have_keys(&unnest)? {
                true => (0..unnest.input.schema().fields().len()).collect(),
                false => {
                    let known = unnest.input.schema().functional_dependencies();
                    known.iter().flat_map(|known| known.source_indices.iter().copied()).collect()
                }
            };
            if hidden.is_empty() {
                return match changed {
                    true => LogicalPlan::Unnest(unnest).recompute_schema().map(Transformed::yes),
                    false => Ok(Transformed::no(LogicalPlan::Unnest(unnest))),
                };
            }
            changed = true;
            hide(unnest, &hidden).map(Transformed::yes)
        }
        plan if changed && !matches!(plan, LogicalPlan::Subquery(_)) => plan.recompute_schema().map(Transformed::yes),
        plan => Ok(Transformed::no(plan)),
    })?;
    Ok(plan.data)
}

/// Hides the keys of joins from groups above them. Runs after the rule that converts subqueries to joins.
#[derive(Debug, Default)]
pub struct NoKeysOfJoins;

impl AnalyzerRule for NoKeysOfJoins {
    fn name(&self) -> &str {
        "no_keys_of_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut changed = false;
        let plan = plan.transform_up_with_subqueries(|plan| {
            let input = match &plan {
                LogicalPlan::Aggregate(aggregate) if !aggregate.group_expr.is_empty() => Some(&aggregate.input),
                LogicalPlan::Distinct(Distinct::All(input)) => Some(input),
                LogicalPlan::Distinct(Distinct::On(on)) => Some(&on.input),
                _ => None,
            };
            match input {
                Some(input) if joins_groups(input)? => {
                    changed = true;
                    let hidden = (0..input.schema().fields().len()).collect();
                    let input = without_keys_of(input, &hidden)?;
                    // `with_new_exprs` panics for `DISTINCT ON` with an order.
                    let plan = plan.map_children(|_| Ok(Transformed::yes(input.clone())))?.data;
                    plan.recompute_schema().map(Transformed::yes)
                }
                _ if changed && !matches!(plan, LogicalPlan::Subquery(_)) => {
                    plan.recompute_schema().map(Transformed::yes)
                }
                _ => Ok(Transformed::no(plan)),
            }
        })?;
        Ok(plan.data)
    }
}

/// Whether the plan contains a join, and an operator that has keys or will have them.
fn joins_groups(plan: &LogicalPlan) -> Result<bool> {
    let is_join = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Join(_)));
    let has_keys = |plan: &LogicalPlan| Ok(matches!(plan, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_)));
    Ok(plan.exists(is_join)? && (plan.exists(has_keys)? || !plan.schema().functional_dependencies().is_empty()))
}

fn hide(unnest: Unnest, hidden: &HashSet<usize>) -> Result<LogicalPlan> {
    let input = without_keys_of(&unnest.input, hidden)?;
    Ok(LogicalPlan::Unnest(Unnest::try_new(Arc::new(input), unnest.exec_columns, unnest.options)?))
}

/// Returns the plan with some of its columns hidden.
fn without_keys_of(plan: &Arc<LogicalPlan>, hidden: &HashSet<usize>) -> Result<LogicalPlan> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(no_key_function);
    let schema = plan.schema();
    let columns = schema.iter().enumerate().map(|(index, (relation, field))| {
        let column = Expr::Column(Column::from((relation, field)));
        match hidden.contains(&index) {
            true => FUNCTION.call(vec![column]).alias_qualified(relation.cloned(), field.name()),
            false => column,
        }
    });
    Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::clone(plan))?))
}
