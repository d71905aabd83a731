//! Comparisons of rows: `(k, v) < (2, 8)`.
//!
//! The engine compares them as structs, for which a NULL is less than every value and equal to a NULL. In SQL a row
//! comparison is that of its values from left to right, and NULL where a NULL decides it.

use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, plan_err};
use datafusion_expr::expr::{InList, ScalarFunction};
use datafusion_expr::{Between, BinaryExpr, Case, Expr, LogicalPlan, Operator, binary_expr, lit, not};

use crate::expressions::{is_comparison, rewrite_types};

/// Replaces comparisons of rows by comparisons of their values.
#[derive(Debug, Default)]
pub struct RowComparisons;

impl AnalyzerRule for RowComparisons {
    fn name(&self) -> &str {
        "row_comparisons"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_types(plan, |expr, _| by_values(expr))
    }
}

fn by_values(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) => match (row(&left), row(&right)) {
            (Some(values), Some(others)) => Transformed::yes(compared(values, op, others)?),
            _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        },
        Expr::Between(Between { expr, negated, low, high }) => match (row(&expr), row(&low), row(&high)) {
            (Some(values), Some(low), Some(high)) => {
                let inside = compared(values, Operator::GtEq, low)?.and(compared(values, Operator::LtEq, high)?);
                Transformed::yes(if negated { not(inside) } else { inside })
            }
            _ => Transformed::no(Expr::Between(Between { expr, negated, low, high })),
        },
        Expr::InList(list) => match is_in(&list)? {
            Some(expr) => Transformed::yes(expr),
            None => Transformed::no(Expr::InList(list)),
        },
        Expr::Case(case) => match case.expr.as_deref().and_then(row) {
            Some(values) if case.when_then_expr.iter().all(|(when, _)| row(when).is_some()) => {
                let mut branches = Vec::with_capacity(case.when_then_expr.len());
                for (when, then) in &case.when_then_expr {
                    let others = row(when).unwrap_or_default();
                    branches.push((Box::new(compared(values, Operator::Eq, others)?), then.clone()));
                }
                check_stable(values)?;
                Transformed::yes(Expr::Case(Case::new(None, branches, case.else_expr)))
            }
            _ => Transformed::no(Expr::Case(case)),
        },
        other => Transformed::no(other),
    })
}

/// Returns the values of a row: `(a, b)`, `ROW(a, b)`, `struct(a, b)`.
fn row(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "struct" => Some(args),
        _ => None,
    }
}

fn compared(values: &[Expr], op: Operator, others: &[Expr]) -> Result<Expr> {
    if values.len() != others.len() {
        return plan_err!(
            "a row of {} values cannot be compared with a row of {}: both need equally many",
            values.len(),
            others.len()
        );
    }
    let pairs = values.iter().zip(others).map(|(value, other)| (value.clone(), other.clone()));
    let each = |op| pairs.clone().map(move |(value, other)| binary_expr(value, op, other));
    let strict = match op {
        Operator::Eq | Operator::IsNotDistinctFrom => return Ok(joined(each(op).collect(), Operator::And)),
        Operator::NotEq | Operator::IsDistinctFrom => return Ok(joined(each(op).collect(), Operator::Or)),
        Operator::LtEq => Operator::Lt,
        Operator::GtEq => Operator::Gt,
        op => op,
    };
    let mut pairs = pairs.rev();
    let Some((value, other)) = pairs.next() else { return Ok(lit(op != strict)) };
    let mut result = binary_expr(value, op, other);
    for (value, other) in pairs {
        check_stable([&value, &other])?;
        let is_equal = binary_expr(value.clone(), Operator::Eq, other.clone());
        result = binary_expr(value, strict, other).or(is_equal.and(result));
    }
    Ok(result)
}

fn is_in(list: &InList) -> Result<Option<Expr>> {
    let others: Option<Vec<_>> = list.list.iter().map(row).collect();
    let (Some(values), Some(others)) = (row(&list.expr), others) else { return Ok(None) };
    if others.len() > 1 {
        check_stable(values)?;
    }
    let (op, all) = if list.negated { (Operator::NotEq, Operator::And) } else { (Operator::Eq, Operator::Or) };
    let comparisons = others.into_iter().map(|other| compared(values, op, other)).collect::<Result<_>>()?;
    Ok(Some(joined(comparisons, all)))
}

/// Joins conditions by AND or OR, as a balanced tree.
fn joined(mut conditions: Vec<Expr>, op: Operator) -> Expr {
    while conditions.len() > 1 {
        let mut pairs = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut rest = conditions.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => binary_expr(left, op, right),
                None => left,
            });
        }
        conditions = pairs;
    }
    conditions.pop().unwrap_or_else(|| lit(op == Operator::And))
}

/// Rejects values that would be computed twice, and differ.
fn check_stable<'a>(values: impl IntoIterator<Item = &'a Expr>) -> Result<()> {
    match values.into_iter().find(|value| value.is_volatile()) {
        Some(value) => plan_err!(
            "{value} in a comparison of rows would be computed twice; compute it in a subquery: SELECT ... FROM (SELECT {value} \
             AS x, ...)"
        ),
        None => Ok(()),
    }
}
