//! [`OrdersAroundSubqueries`]: the order of a derived table below a filter or projection with a subquery.
//!
//! `SELECT * FROM (SELECT v FROM t ORDER BY k) x WHERE v IN (SELECT v FROM u)` becomes a join, which has no order. The
//! keys of the sort are therefore carried through the filter, and its rows are sorted by them again.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{Column, Result};
use datafusion_expr::expr::Sort as SortExpr;
use datafusion_expr::{Expr, Filter, Limit, LogicalPlan, Projection, Sort, SubqueryAlias};

use super::is_ordered;

/// Sorts the rows of operators with subqueries as their inputs are sorted.
#[derive(Debug, Default)]
pub struct OrdersAroundSubqueries;

impl AnalyzerRule for OrdersAroundSubqueries {
    fn name(&self) -> &str {
        "orders_around_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(sorted_again)?.data)
    }
}

/// Sorts the rows of an operator if it has a subquery, and an input with an order.
fn sorted_again(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let sorted = match &plan {
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) && is_ordered(&filter.input) => {
            with_keys(&plan)?
        }
        LogicalPlan::Projection(projection)
            if projection.expr.iter().any(has_subquery) && is_ordered(&projection.input) =>
        {
            with_keys(&plan)?
        }
        _ => None,
    };
    let Some((with_keys, keys)) = sorted else { return Ok(Transformed::no(plan)) };
    let sorted = LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(with_keys), fetch: None });
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(sorted))?)))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        let found =
            matches!(expr, Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_));
        Ok(found)
    };
    expr.exists(is_subquery).unwrap_or(true)
}

/// Returns the plan with the keys of the sort below it as further columns, and the order by them. `None` if an operator
/// does not return each row once.
fn with_keys(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Vec<SortExpr>)>> {
    if let LogicalPlan::Sort(sort) = plan {
        let mut columns: Vec<_> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let mut keys = Vec::with_capacity(sort.expr.len());
        for (number, key) in sort.expr.iter().enumerate() {
            let name = format!("__order_{number}");
            keys.push(SortExpr { expr: Expr::Column(Column::from_name(&name)), ..key.clone() });
            columns.push(key.expr.clone().alias(name));
        }
        let projection = Projection::try_new(columns, Arc::new(plan.clone()))?;
        return Ok(Some((LogicalPlan::Projection(projection), keys)));
    }
    let input = match plan {
        LogicalPlan::SubqueryAlias(alias) => &alias.input,
        LogicalPlan::Projection(projection) => &projection.input,
        LogicalPlan::Filter(filter) => &filter.input,
        LogicalPlan::Limit(limit) => &limit.input,
        _ => return Ok(None),
    };
    let Some((input, mut keys)) = with_keys(input)? else { return Ok(None) };
    let input = Arc::new(input);
    let plan = match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            for key in &mut keys {
                if let Expr::Column(column) = &mut key.expr {
                    column.relation = Some(alias.alias.clone());
                }
            }
            LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias.clone())?)
        }
        LogicalPlan::Projection(projection) => {
            let columns = projection.expr.iter().cloned().chain(keys.iter().map(|key| key.expr.clone()));
            LogicalPlan::Projection(Projection::try_new(columns.collect(), input)?)
        }
        LogicalPlan::Filter(filter) => LogicalPlan::Filter(Filter::try_new(filter.predicate.clone(), input)?),
        LogicalPlan::Limit(limit) => LogicalPlan::Limit(Limit { input, ..limit.clone() }),
        _ => return Ok(None),
    };
    Ok(Some((plan, keys)))
}
