//! IN lists combined by AND and OR.
//!
//! The engine's simplification treats two IN lists of one value as sets. It overlooks that a list may contain NULL or
//! a column, and that the value may be NULL: `x NOT IN (1) OR x NOT IN (2)` became true, `x IN (a) AND x IN (b)`
//! false. This rule runs earlier and leaves no expression that the engine would simplify incorrectly.
//!
//! Upstream: apache/datafusion#24258. Held by `tests/slt/answers.slt`: A list has no answer for NULL.

use std::collections::HashSet;

use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator, lit};

/// Merges IN lists by SQL's three-valued logic.
#[derive(Debug, Default)]
pub struct MergeInLists;

impl OptimizerRule for MergeInLists {
    fn name(&self) -> &str {
        "merge_in_lists"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(merge(expr, &schema)?.update_data(|expr| name.restore(expr)))
        })
    }
}

/// Merges the lists in an expression.
fn merge(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !expr.exists(|expr| Ok(matches!(expr, Expr::InList(_) | Expr::Not(_) | Expr::BinaryExpr(_))))? {
        return Ok(Transformed::no(expr));
    }
    expr.transform_up(|expr| match expr {
        Expr::Not(inner) if has_list(&inner)? => negated(*inner, schema),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => and(*left, *right, schema),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => or(*left, *right, schema),
        other => Ok(Transformed::no(other)),
    })
}

/// Whether lists are combined outside the operands of other operators.
fn has_list(expr: &Expr) -> Result<bool> {
    Ok(match expr {
        Expr::InList(_) => true,
        Expr::Not(inner) => has_list(inner)?,
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            has_list(left)? || has_list(right)?
        }
        _ => false,
    })
}

/// Negates an expression by negating its lists.
fn negated(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let not = |expr: Expr| -> Result<Expr> {
        if has_list(&expr)? { Ok(negated(expr, schema)?.data) } else { Ok(Expr::Not(Box::new(expr))) }
    };
    Ok(Transformed::yes(match expr {
        Expr::InList(InList { expr, list, negated }) => Expr::InList(InList { expr, list, negated: !negated }),
        Expr::Not(inner) => *inner,
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => or(not(*left)?, not(*right)?, schema)?.data,
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => and(not(*left)?, not(*right)?, schema)?.data,
        other => Expr::Not(Box::new(other)),
    }))
}

fn and(left: Expr, right: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (one, other) = match pair(left, right, Operator::And) {
        Pair::Values(one, other) => (one, other),
        Pair::Other(expr) => return Ok(expr),
    };
    let merged = match (one.negated, other.negated) {
        (false, false) => filtered(one, |value, values| values.contains(value), &other),
        (true, true) => {
            let list = other.list.into_iter().filter(|value| !one.list.contains(value)).collect::<Vec<_>>();
            InList { list: one.list.into_iter().chain(list).collect(), ..one }
        }
        (false, true) => filtered(one, |value, values| !values.contains(value), &other),
        (true, false) => filtered(other, |value, values| !values.contains(value), &one),
    };
    let of_nothing = |expr: Expr| expr.is_null().and(unknown());
    in_list_or(merged, schema, of_nothing, false)
}

fn or(left: Expr, right: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    // The engine converts equal columns as well, and the lists would then meet in an AND above.
    if let (Some(one), Some(other)) = (column_list(&left), column_list(&right))
        && one.expr == other.expr
    {
        let list = other.list.into_iter().filter(|value| !one.list.contains(value)).collect::<Vec<_>>();
        let list = one.list.into_iter().chain(list).collect();
        return Ok(Transformed::yes(Expr::InList(InList { expr: one.expr, list, negated: false })));
    }
    let (one, other) = match pair(left, right, Operator::Or) {
        Pair::Values(one, other) => (one, other),
        Pair::Other(expr) => return Ok(expr),
    };
    if !(one.negated && other.negated) {
        return Ok(Transformed::no(binary(Expr::InList(one), Operator::Or, Expr::InList(other))));
    }
    let merged = filtered(one, |value, values| values.contains(value), &other);
    let of_nothing = |expr: Expr| expr.is_not_null().or(unknown());
    in_list_or(merged, schema, of_nothing, true)
}

/// Returns a list, or its value if it has become empty: `otherwise` if the value is NULL, and `if_not_null` if it
/// cannot be.
fn in_list_or(
    list: InList,
    schema: &DFSchema,
    otherwise: impl FnOnce(Expr) -> Expr,
    if_not_null: bool,
) -> Result<Transformed<Expr>> {
    if !list.list.is_empty() {
        return Ok(Transformed::yes(Expr::InList(list)));
    }
    Ok(Transformed::yes(if list.expr.nullable(schema).unwrap_or(true) {
        otherwise(*list.expr)
    } else {
        lit(if_not_null)
    }))
}

/// The operands of an AND or OR.
enum Pair {
    /// Lists to merge.
    Values(InList, InList),
    /// Anything else, reassembled.
    Other(Transformed<Expr>),
}

/// Returns two lists to merge, if they contain only literals other than NULL and test the same value. Otherwise
/// returns their AND or OR, without lists that the engine would merge.
fn pair(left: Expr, right: Expr, op: Operator) -> Pair {
    match (left, right) {
        (Expr::InList(one), Expr::InList(other)) if one.expr == other.expr => {
            if one.expr.is_volatile() {
                return Pair::Other(Transformed::no(binary(Expr::InList(one), op, Expr::InList(other))));
            }
            if has_values(&one) && has_values(&other) {
                return Pair::Values(one, other);
            }
            Pair::Other(Transformed::yes(binary(comparisons(one), op, comparisons(other))))
        }
        (left, right) => Pair::Other(Transformed::no(binary(left, op, right))),
    }
}

fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) })
}

fn unknown() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

fn has_values(list: &InList) -> bool {
    list.list.iter().all(|value| matches!(value, Expr::Literal(value, _) if !value.is_null()))
}

/// Converts `x IN (a, b)` to `x = a OR x = b`, unless the list contains only values.
fn comparisons(list: InList) -> Expr {
    if has_values(&list) {
        return Expr::InList(list);
    }
    let InList { expr, list, negated } = list;
    let (compare, join) = match negated {
        true => (Operator::NotEq, Operator::And),
        false => (Operator::Eq, Operator::Or),
    };
    let parts = list.into_iter().map(|value| binary((*expr).clone(), compare, value));
    parts.reduce(|all, part| binary(all, join, part)).unwrap_or_else(|| lit(negated))
}

fn filtered(list: InList, keep: impl Fn(&Expr, &HashSet<&Expr>) -> bool, other: &InList) -> InList {
    let values: HashSet<&Expr> = other.list.iter().collect();
    InList { list: list.list.into_iter().filter(|value| keep(value, &values)).collect(), ..list }
}

/// Returns `c = 1` and `c IN (1, 2)` as a list, if `c` is a column.
fn column_list(expr: &Expr) -> Option<InList> {
    match expr {
        Expr::InList(list) if !list.negated && matches!(*list.expr, Expr::Column(_)) => Some(list.clone()),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => match (left.as_ref(), right.as_ref()) {
            (Expr::Column(_), value @ Expr::Literal(..)) => {
                Some(InList { expr: left.clone(), list: vec![value.clone()], negated: false })
            }
            (value @ Expr::Literal(..), Expr::Column(_)) => {
                Some(InList { expr: right.clone(), list: vec![value.clone()], negated: false })
            }
            _ => None,
        },
        _ => None,
    }
}
