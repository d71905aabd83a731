//! Comparisons of dictionaries with other values.
//!
//! The engine converts a plain value to the other side's dictionary. Joins by such keys failed: the converted key had
//! the name of the column, and a table of integer keys does not know dictionaries. Both sides are compared as plain
//! values instead, except with a literal, which file statistics are compared with.
//!
//! Upstream: unreported. Held by `tests/tests/it/array_forms.rs`.

use arrow_schema::DataType;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{DFSchema, JoinConstraint, Result};
use datafusion_expr::expr::Cast;
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, cast};

use crate::expressions::{columns_of, is_comparison, rewrite_expressions};

/// Compares dictionaries as plain values. Requires coerced types.
#[derive(Debug)]
pub(crate) struct PlainDictionaries;

impl AnalyzerRule for PlainDictionaries {
    fn name(&self) -> &str {
        "plain_dictionaries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let schema = columns_of(&plan)?;
            let plan = rewrite_expressions(plan, |expr| Ok(plain_comparison(expr, &schema)))?;
            plan.transform_data(|plan| match plan {
                LogicalPlan::Join(mut join) => {
                    let mut changed = false;
                    for (left, right) in &mut join.on {
                        changed |= make_plain(left, right, &schema);
                    }
                    // The keys of USING must be columns. Their names have been resolved by now.
                    if changed {
                        join.join_constraint = JoinConstraint::On;
                    }
                    Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        Ok(plan.data)
    }
}

fn plain_comparison(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
            let changed = make_plain(&mut left, &mut right, schema);
            Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed)
        }
        other => Transformed::no(other),
    }
}

/// Makes two dictionaries of one type plain, if one is a converted value, or if they hold numbers. Returns whether it
/// did.
fn make_plain(left: &mut Expr, right: &mut Expr, schema: &DFSchema) -> bool {
    let (Ok(DataType::Dictionary(_, values)), Ok(DataType::Dictionary(..))) =
        (left.get_type(schema), right.get_type(schema))
    else {
        return false;
    };
    let is_converted = |expr: &Expr| match expr {
        Expr::Cast(Cast { expr, .. }) => !matches!(expr.get_type(schema), Ok(DataType::Dictionary(..))),
        _ => false,
    };
    let is_column = |expr: &Expr| Ok(matches!(expr, Expr::Column(_) | Expr::OuterReferenceColumn(..)));
    let is_constant = |expr: &Expr| !expr.exists(is_column).unwrap_or(true);
    if is_constant(left) || is_constant(right) {
        return false;
    }
    if !is_converted(left) && !is_converted(right) && !values.is_integer() {
        return false;
    }
    for side in [left, right] {
        let value = match std::mem::take(side) {
            Expr::Cast(Cast { expr, .. }) if !matches!(expr.get_type(schema), Ok(DataType::Dictionary(..))) => *expr,
            other => other,
        };
        let is_plain = value.get_type(schema).is_ok_and(|data_type| data_type == *values);
        *side = if is_plain { value } else { cast(value, values.as_ref().clone()) };
    }
    true
}
