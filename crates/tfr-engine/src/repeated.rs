//! Rows that are computed twice, and differ.
//!
//! The engine computes a common table expression or view wherever its name is. With `random()` in it, one row was in
//! both halves of a split, or in none. So such rows may be used once only. `random() BETWEEN a AND b` and `coalesce` of
//! such a value are two calls in the engine, and refused too.
//!
//! Upstream: unreported. Held by `tests/slt/scopes.slt`: Rows that vary are computed once, so they are used once.

use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Result, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Between, Distinct, Expr, LogicalPlan, RecursiveQuery, SubqueryAlias};

use crate::orders::{depends_on_order, is_ordered};

/// Functions that the engine replaces by `CASE WHEN x IS NOT NULL THEN x ...`.
const REPEATING: &[&str] = &["coalesce", "nvl", "ifnull", "nvl2"];

/// Rejects varying rows and values that would be computed twice. Runs before all rules that copy the plan.
#[derive(Debug, Default)]
pub struct NoRepeatedVariation;

impl AnalyzerRule for NoRepeatedVariation {
    fn name(&self) -> &str {
        "no_repeated_variation"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        // Each use of a common table expression or view is an equal plan under its name.
        let mut varying = Vec::new();
        plan.apply_with_subqueries(|plan| {
            check_expressions(plan)?;
            match plan {
                LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
                    if let Some(reason) = variation_below(input)? {
                        if varying.contains(plan) {
                            return refuse(&format!(
                                "{alias} is used twice, and its rows may differ each time because of {reason}"
                            ));
                        }
                        varying.push(plan.clone());
                    }
                }
                LogicalPlan::RecursiveQuery(RecursiveQuery { name, recursive_term, .. }) => {
                    check_recursive(name, recursive_term)?;
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }
}

/// Returns why the rows of a plan may differ each time.
fn variation_below(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut found = None;
    plan.apply_with_subqueries(|plan| {
        found = variation(plan)?;
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Returns why the rows of an operator may differ each time, although those of its inputs do not.
fn variation(plan: &LogicalPlan) -> Result<Option<String>> {
    let mut found = None;
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            if part.is_volatile_node() {
                found = Some(part.to_string());
            }
            Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    if found.is_some() || !depends_on_order(plan) || plan.inputs().into_iter().all(is_ordered) {
        return Ok(found);
    }
    Ok(match plan {
        LogicalPlan::Limit(_) => Some("LIMIT without ORDER BY".to_owned()),
        LogicalPlan::Window(_) => Some("a window without ORDER BY".to_owned()),
        LogicalPlan::Distinct(Distinct::On(on)) if on.sort_expr.is_none() => {
            Some("DISTINCT ON without ORDER BY".to_owned())
        }
        LogicalPlan::Aggregate(_) => Some("an aggregate without ORDER BY, such as first_value or array_agg".to_owned()),
        _ => None,
    })
}

/// Rejects a varying table in the term of a recursive query that runs many times.
fn check_recursive(name: &str, term: &LogicalPlan) -> Result<()> {
    term.apply_with_subqueries(|plan| {
        let LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) = plan else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let is_work_table =
            |below: &LogicalPlan| Ok(matches!(below, LogicalPlan::TableScan(scan) if scan.table_name.table() == name));
        match variation_below(input)? {
            Some(reason) if !input.exists(is_work_table)? => refuse(&format!(
                "{alias} is used in each step of the recursive query {name}, and its rows may differ each time because of {reason}"
            )),
            _ => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    Ok(())
}

fn check_expressions(plan: &LogicalPlan) -> Result<()> {
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            let repeated = match part {
                Expr::Between(Between { expr, .. }) => expr.is_volatile().then_some(("BETWEEN", expr.as_ref())),
                Expr::ScalarFunction(ScalarFunction { func, args }) if REPEATING.contains(&func.name()) => {
                    args.iter().find(|value| value.is_volatile()).map(|value| (func.name(), value))
                }
                _ => None,
            };
            match repeated {
                Some((name, value)) => plan_err!(
                    "{value} in {name} would be computed twice, and may differ; compute it in a subquery: SELECT ... FROM \
                     (SELECT {value} AS x, ... FROM ...)"
                ),
                None => Ok(TreeNodeRecursion::Continue),
            }
        })
    })?;
    Ok(())
}

fn refuse<T>(what: &str) -> Result<T> {
    plan_err!(
        "{what}; write its rows to a table first and read that, use ORDER BY a unique key where an order is missing, or choose \
         rows by a hash of a key, as tf_split does, in place of random(); for other rows each time, write it twice, under two names"
    )
}
