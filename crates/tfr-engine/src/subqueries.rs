//! Rewrites subqueries in expressions (`IN`, `EXISTS`, `ANY`, `ALL` and correlated scalar subqueries) as joins that
//! compute them exactly.
//!
//! The engine decorrelates such predicates only in `WHERE` and `HAVING`, ignores NULLs where it computes them as
//! values, and reports the rest as unsupported plans. [`Subqueries`] runs before the engine's own rules and leaves no
//! correlated subquery and no subquery predicate to them:
//!
//! - A predicate that is a conjunct of a filter becomes a semi or anti join.
//! - A predicate anywhere else becomes a mark join: the input of the expression gains a boolean column. `IN`, `ANY` and
//!   `ALL` have a second mark for the rows whose comparison is NULL. The value is then NULL where SQL's three-valued
//!   logic requires it.
//! - A correlated subquery is evaluated for all values of its outer columns at once. So is a LATERAL subquery that the
//!   engine would compute incorrectly.
//!
//! Upstream: apache/datafusion#5492. Held by `tests/slt/subqueries.slt`: Subqueries in expressions, with NULLs on either side.

mod aggregates;
mod correlation;
mod domain;
mod in_place;
mod lateral;
mod marks;
mod nodes;
mod outer;
mod plans;

use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_common::{Column, plan_err};
use datafusion_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion_expr::{FetchType, Operator, SkipType};

/// Rewrites subqueries in expressions as joins.
#[derive(Debug, Default)]
pub struct Subqueries;

impl AnalyzerRule for Subqueries {
    fn name(&self) -> &str {
        "subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = FreshNames::default();
        let mut changed = false;
        // Inner subqueries are rewritten first. Their references to queries further out stay outer references, now
        // inside a join.
        let plan = plan.transform_up_with_subqueries(|plan| {
            let rewritten = if nodes::has_subquery(&plan)? {
                changed = true;
                Transformed::yes(nodes::rewrite(plan, &mut names)?)
            } else {
                Transformed::no(plan)
            };
            // A column may be NULL now that could not be before.
            if changed && !matches!(rewritten.data, LogicalPlan::Subquery(_)) {
                rewritten.map_data(LogicalPlan::recompute_schema)
            } else {
                Ok(rewritten)
            }
        })?;
        let mut unresolved = None;
        if changed {
            let resolved = lateral::outer_columns_of_all(&plan.data)?;
            outer::for_each_outer(&plan.data, |column| {
                if !resolved.contains(column) {
                    unresolved = Some(column.clone());
                }
            })?;
        }
        match unresolved {
            Some(column) => refuse(&format!("a subquery cannot refer to {} from where it is", column.flat_name())),
            None => Ok(plan.data),
        }
    }
}

/// Creates names for the columns and relations that the rule adds.
#[derive(Debug, Default)]
struct FreshNames(usize);

impl FreshNames {
    fn next(&mut self, kind: &str) -> String {
        self.0 += 1;
        format!("__{kind}_{}", self.0)
    }
}

/// A predicate over the rows of a subquery.
#[derive(Debug)]
struct Predicate {
    subquery: LogicalPlan,
    /// The comparison that a row must satisfy, over the columns of the outer rows and of the subquery. `EXISTS` has
    /// none.
    comparison: Option<Expr>,
    negated: bool,
}

impl Predicate {
    /// Parses `expr` as a predicate, folding `NOT` around it. The subquery's value gets a unique name.
    fn new(expr: Expr, names: &mut FreshNames) -> Result<Result<Self, Expr>> {
        let (subquery, comparison, negated) = match expr {
            Expr::Not(inner) if is_predicate(&inner) => {
                return Ok(Self::new(*inner, names)?.map(|inner| Self { negated: !inner.negated, ..inner }));
            }
            Expr::Exists(Exists { subquery, negated }) => (without_limit(&subquery.subquery)?.clone(), None, negated),
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let (plan, value) = named_value(&subquery.subquery, names)?;
                (plan, Some(compare(*expr, Operator::Eq, value)), negated)
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let (plan, value) = named_value(&subquery.subquery, names)?;
                match quantifier {
                    SetQuantifier::Any => (plan, Some(compare(*expr, op, value)), false),
                    // x < ALL (..) is NOT x >= ANY (..).
                    SetQuantifier::All => {
                        let Some(opposite) = op.negate() else {
                            return plan_err!("the operator {op} has no opposite, which ALL (SELECT ...) needs");
                        };
                        (plan, Some(compare(*expr, opposite, value)), true)
                    }
                }
            }
            other => return Ok(Err(other)),
        };
        Ok(Ok(Self { subquery, comparison, negated }))
    }
}

/// Removes from `plan` a limit that leaves at least one row if there is one.
fn without_limit(plan: &LogicalPlan) -> Result<&LogicalPlan> {
    let LogicalPlan::Limit(limit) = plan else { return Ok(plan) };
    let skips = !matches!(limit.get_skip_type()?, SkipType::Literal(0));
    Ok(match limit.get_fetch_type()? {
        FetchType::Literal(Some(1..) | None) if !skips => &limit.input,
        _ => plan,
    })
}

/// Whether `expr` is a predicate over a subquery, perhaps under `NOT`.
fn is_predicate(expr: &Expr) -> bool {
    match expr {
        Expr::Not(inner) => is_predicate(inner),
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        _ => false,
    }
}

fn compare(left: Expr, op: Operator, right: Expr) -> Expr {
    datafusion::logical_expr::binary_expr(left, op, right)
}

/// Gives the only column of `plan` a unique name. Returns the plan and the column.
fn named_value(plan: &LogicalPlan, names: &mut FreshNames) -> Result<(LogicalPlan, Expr)> {
    if plan.schema().fields().len() != 1 {
        let columns = plan.schema().field_names().join(", ");
        return plan_err!("a subquery that is compared with one value must return one column, found {columns}");
    }
    let name = names.next("value");
    let value = Expr::Column(plan.schema().columns().remove(0)).alias(&name);
    let plan = LogicalPlanBuilder::from(plan.clone()).project([value])?.build()?;
    Ok((plan, Expr::Column(Column::new_unqualified(name))))
}

/// Whether two evaluations of `plan` may return different rows.
fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut volatile = false;
    plan.apply_with_subqueries(|plan| {
        volatile |= matches!(
            plan,
            LogicalPlan::Limit(_) | LogicalPlan::Distinct(datafusion_expr::Distinct::On(_)) | LogicalPlan::Window(_)
        );
        plan.apply_expressions(|expr| {
            volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(volatile)
}

/// Rejects a subquery that cannot be computed exactly, with another way to write it.
fn refuse<T>(what: &str) -> Result<T> {
    Err(DataFusionError::NotImplemented(format!(
        "{what}; write it as a join instead: LEFT JOIN (SELECT DISTINCT key, true AS found FROM ...) s ON s.key = ..., then \
         test s.found"
    )))
}
