//! LATERAL subqueries evaluated for all values of their outer columns.
//!
//! The engine moves conditions on outer columns from anywhere in the subquery to the join. As a result, windows
//! numbered the rows of all outer rows together, `HAVING` over aggregates without groups kept rows that it should
//! drop, `DISTINCT` returned copies, and a LEFT JOIN in a subquery lost rows.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion_common::Column;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::utils::{conjunction, split_conjunction_owned};
use datafusion_expr::{Aggregate, Join, Projection, Subquery, SubqueryAlias};

use super::aggregates::key;
use super::correlation::{PullUp, evaluate};
use super::outer::{outer_columns, uses_any};
use super::plans::{with_inputs, with_names_of};
use super::{FreshNames, in_place};

/// Whether the right side of `join` is a LATERAL subquery that the engine would compute incorrectly or reject.
pub fn is_misread(join: &Join) -> Result<bool> {
    let Some(subquery) = lateral(join) else { return Ok(false) };
    let outer = outer_columns(&subquery, join.left.schema())?;
    let mut pull_up = PullUp { outer: &outer, names: &mut FreshNames::default(), duplicates: true };
    if let Some(Aggregate { input, .. }) = aggregate(&subquery, &outer) {
        let pulled = pull_up.pull_up(input)?;
        // The rows are grouped by the columns of the conditions.
        let by_groups =
            pulled.map(|pulled| pulled.conditions.iter().all(|condition| key(condition, &join.left).is_some()));
        return Ok(!by_groups.unwrap_or_default());
    }
    Ok(pull_up.pull_up(&subquery)?.is_none())
}

/// Returns the aggregation whose rows the subquery returns, if it refers to outer columns only below it.
fn aggregate<'a>(mut plan: &'a LogicalPlan, outer: &[Column]) -> Option<&'a Aggregate> {
    loop {
        match plan {
            // The engine makes constants NULL where no row was aggregated.
            LogicalPlan::Projection(Projection { expr, input, .. })
                if expr.iter().all(|expr| expr.any_column_refs() && !uses_any(expr, outer)) =>
            {
                plan = input;
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => plan = input,
            LogicalPlan::Aggregate(aggregate) => {
                let mut exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
                let is_other = |expr: &Expr| matches!(expr, Expr::GroupingSet(_)) || uses_any(expr, outer);
                return (!exprs.any(is_other)).then_some(aggregate);
            }
            _ => return None,
        }
    }
}

/// Evaluates the LATERAL subquery of `join` for all values of its outer columns.
pub fn rewrite(join: &Join, names: &mut FreshNames) -> Result<LogicalPlan> {
    let Some(subquery) = lateral(join) else { return Ok(LogicalPlan::Join(join.clone())) };
    if let Some(rows) = in_place::rewrite(join, &subquery, names)? {
        return Ok(rows);
    }
    let (right, same) = evaluate(&join.left, &subquery, names)?;
    let on = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let filter = conjunction(same.into_iter().chain(on));
    let joined = with_inputs(&Join { filter, ..join.clone() }, join.left.as_ref().clone(), right)?;
    let joined = LogicalPlan::Join(joined);
    let columns = join.schema.columns();
    let positions: Result<Vec<_>> = columns.iter().map(|column| joined.schema().index_of_column(column)).collect();
    with_names_of(joined, &join.schema, &positions?)
}

/// Returns the columns to which the LATERAL subqueries left to the engine in `plan` refer.
pub fn outer_columns_of_all(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Join(join) = plan
            && let Some(subquery) = lateral(join)
        {
            columns.extend(outer_columns(&subquery, join.left.schema())?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// Returns the LATERAL subquery of a join, under its alias.
fn lateral(join: &Join) -> Option<LogicalPlan> {
    match join.right.as_ref() {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => Some(subquery.as_ref().clone()),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => match input.as_ref() {
            LogicalPlan::Subquery(Subquery { subquery, .. }) => {
                SubqueryAlias::try_new(Arc::clone(subquery), alias.clone()).ok().map(LogicalPlan::SubqueryAlias)
            }
            _ => None,
        },
        _ => None,
    }
}
