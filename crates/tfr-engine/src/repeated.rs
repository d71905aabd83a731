//! Rows that are computed twice, and differ.
//!
//! The engine computes a common table expression or view wherever its name is. With `random()` in it, one row was in
//! both halves of a split, or in none. So such rows may be used once only. `random() BETWEEN a AND b` and `coalesce` of
//! such a value are two calls in the engine, and refused too.

use std::collections::{HashMap, HashSet};

use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{TreeNode as _, TreeNodeRecursion, TreeNodeVisitor};
use datafusion_common::{Result, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Between, Distinct, Expr, LogicalPlan, RecursiveQuery, SubqueryAlias};

use crate::orders::{depends_on_order, is_ordered};

/// Functions that the engine replaces by `CASE WHEN x IS NOT NULL THEN x ...`.
const REPEATING: &[&str] = &["coalesce", "nvl", "ifnull", "nvl2"];

/// Rejects varying rows and values that would be computed twice. Runs before all rules that copy the plan: until then,
/// the uses of a common table expression or view share their inputs.
#[derive(Debug, Default)]
pub struct NoRepeatedVariation;

impl AnalyzerRule for NoRepeatedVariation {
    fn name(&self) -> &str {
        "no_repeated_variation"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.visit_with_subqueries(&mut Uses::default())?;
        Ok(plan)
    }
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

/// The operators of a plan that were visited.
#[derive(Debug, Default)]
struct Uses {
    /// Operators whose rows vary, by the addresses of their inputs.
    varying: HashMap<Vec<usize>, Vec<LogicalPlan>>,
    /// The inputs of aliases.
    aliased: HashSet<usize>,
    /// The aliases around the visited operator, and whether each was visited before.
    aliases: Vec<(String, bool)>,
}

fn address(plan: &LogicalPlan) -> usize {
    std::ptr::from_ref(plan).addr()
}

impl TreeNodeVisitor<'_> for Uses {
    type Node = LogicalPlan;

    fn f_down(&mut self, plan: &LogicalPlan) -> Result<TreeNodeRecursion> {
        check_expressions(plan)?;
        if let LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) = plan {
            let is_repeated = !self.aliased.insert(address(input));
            self.aliases.push((alias.to_string(), is_repeated));
        }
        if let LogicalPlan::RecursiveQuery(RecursiveQuery { name, recursive_term, .. }) = plan {
            check_recursive(name, recursive_term)?;
        }
        let Some(reason) = variation(plan)? else { return Ok(TreeNodeRecursion::Continue) };
        let mut inputs: Vec<_> = plan.inputs().into_iter().map(address).collect();
        if inputs.is_empty() {
            inputs.push(address(plan));
        }
        let same = self.varying.entry(inputs).or_default();
        if same.contains(plan) {
            let repeated = self.aliases.iter().find(|(_, is_repeated)| *is_repeated).or(self.aliases.last());
            let name = repeated.map_or("a subquery", |(name, _)| name);
            return refuse(&format!("{name} is used twice, and its rows may differ each time because of {reason}"));
        }
        same.push(plan.clone());
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, plan: &LogicalPlan) -> Result<TreeNodeRecursion> {
        if matches!(plan, LogicalPlan::SubqueryAlias(_)) {
            self.aliases.pop();
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Rejects a varying table in the term of a recursive query that runs many times.
fn check_recursive(name: &str, term: &LogicalPlan) -> Result<()> {
    term.apply_with_subqueries(|plan| {
        let LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) = plan else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let (mut reason, mut is_work_table) = (None, false);
        input.apply_with_subqueries(|below| {
            is_work_table |= matches!(below, LogicalPlan::TableScan(scan) if scan.table_name.table() == name);
            if reason.is_none() {
                reason = variation(below)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        match reason {
            Some(reason) if !is_work_table => refuse(&format!(
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
         rows by a hash of a key, as tf_split does, in place of random()"
    )
}
