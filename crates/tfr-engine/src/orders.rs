//! `ORDER BY` of a derived table, view or common table expression: `SELECT * FROM (SELECT v FROM t ORDER BY k) x`.
//!
//! The engine's planner dropped it unless there was a `LIMIT`. It is kept now up to the next operator that has no order:
//! a join, an aggregation, `DISTINCT` and set operations. Other sorts are dropped here. The physical plan keeps the order
//! by [`LimitsInPlace`](crate::limits::LimitsInPlace).
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/order.slt`: ORDER BY of derived tables, common table expressions and views.

mod around_subqueries;

use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNodeRewriter};
use datafusion_expr::expr::{AggregateFunction, WindowFunction};
use datafusion_expr::{Aggregate, Distinct, Expr, LogicalPlan, Window};

pub use around_subqueries::OrdersAroundSubqueries;

/// Aggregate functions whose value depends on the order of the rows.
pub const OF_AN_ORDER: &[&str] = &["array_agg", "first_value", "last_value", "nth_value", "string_agg"];

/// Whether the rows of a plan have an order: that of a sort, which the operators above it keep.
pub fn is_ordered(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Limit(limit) => is_ordered(&limit.input),
        _ if keeps_order(plan) => plan.inputs().into_iter().all(is_ordered),
        _ => false,
    }
}

/// Whether an operator returns rows in the order of its input.
fn keeps_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Unnest(_) => true,
        LogicalPlan::Window(window) => window.window_expr.iter().all(is_over_all_rows),
        _ => false,
    }
}

/// Whether a window has neither `PARTITION BY` nor `ORDER BY`.
fn is_over_all_rows(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_over_all_rows(&alias.expr),
        Expr::WindowFunction(function) => {
            let WindowFunction { params, .. } = function.as_ref();
            params.partition_by.is_empty() && params.order_by.is_empty()
        }
        _ => false,
    }
}

/// Whether the result of an operator depends on the order of its input.
pub fn depends_on_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Limit(_) | LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Window(Window { window_expr, .. }) => window_expr.iter().any(is_over_all_rows),
        LogicalPlan::Aggregate(Aggregate { aggr_expr, .. }) => aggr_expr.iter().any(is_of_an_order),
        _ => false,
    }
}

fn is_of_an_order(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_of_an_order(&alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            params.order_by.is_empty() && OF_AN_ORDER.contains(&func.name())
        }
        _ => false,
    }
}

/// Drops sorts whose order has no effect.
#[derive(Debug, Default)]
pub struct EffectiveSorts;

impl AnalyzerRule for EffectiveSorts {
    fn name(&self) -> &str {
        "effective_sorts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.rewrite_with_subqueries(&mut Dropping { wanted: vec![true] })?.data)
    }
}

/// Whether the order of the inputs has an effect, for each operator around the visited one.
struct Dropping {
    wanted: Vec<bool>,
}

impl TreeNodeRewriter for Dropping {
    type Node = LogicalPlan;

    fn f_down(&mut self, mut plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let wanted = self.wanted.last().copied().unwrap_or(true);
        let mut dropped = false;
        while !wanted
            && let LogicalPlan::Sort(sort) = &plan
            && sort.fetch.is_none()
        {
            plan = sort.input.as_ref().clone();
            dropped = true;
        }
        self.wanted.push(match &plan {
            LogicalPlan::Sort(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::Distinct(Distinct::All(_))
            | LogicalPlan::RecursiveQuery(_)
            | LogicalPlan::Subquery(_) => false,
            LogicalPlan::Aggregate(_) => depends_on_order(&plan),
            LogicalPlan::Window(_) => depends_on_order(&plan) || keeps_order(&plan) && wanted,
            plan if keeps_order(plan) => wanted,
            _ => true,
        });
        Ok(Transformed::new_transformed(plan, dropped))
    }

    fn f_up(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.wanted.pop();
        Ok(Transformed::no(plan))
    }
}
