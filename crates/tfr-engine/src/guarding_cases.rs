//! [`GuardingCases`]: a branch of a CASE is computed for the rows of the branch only.
//!
//! The engine makes a condition of a CASE whose values are conditions: `CASE WHEN k <> 0 THEN 10 / k > 4 ELSE false END`
//! became `k <> 0 AND 10 / k > 4`, and AND computes both sides. So it failed with a division by zero.
//!
//! Upstream: unreported. Held by `tests/slt/answers.slt`: A CASE guards its branches, which may be conditions.

use arrow_schema::DataType;
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{DFSchema, Result};
use datafusion_expr::{BinaryExpr, Case, Expr, ExprSchemable as _, LogicalPlan, lit};

use crate::expressions::{columns_of, rewrite_expressions};

/// Writes `CASE true WHEN a THEN b` for `CASE WHEN a THEN b` if `b` is a condition and a branch could fail. The engine keeps
/// that as it is.
#[derive(Debug, Default)]
pub(crate) struct GuardingCases;

impl AnalyzerRule for GuardingCases {
    fn name(&self) -> &str {
        "guarding_cases"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let columns = columns_of(&plan)?;
            rewrite_expressions(plan, |expr| match expr {
                Expr::Case(case) if case.expr.is_none() && is_condition(&case, &columns) && may_fail(&case) => {
                    Ok(Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), ..case })))
                }
                other => Ok(Transformed::no(other)),
            })
        })?;
        Ok(plan.data)
    }
}

fn is_condition(case: &Case, schema: &DFSchema) -> bool {
    case.when_then_expr
        .first()
        .is_some_and(|(_, then)| then.get_type(schema).is_ok_and(|then| then == DataType::Boolean))
}

/// Whether the CASE may guard a computation from an error.
fn may_fail(case: &Case) -> bool {
    let values = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    // The first condition is computed for all rows.
    let later = case.when_then_expr.iter().skip(1).map(|(when, _)| when);
    later.chain(values).any(|expr| expr.exists(|expr| Ok(!never_fails(expr))).unwrap_or(true))
}

/// Whether an operation has a value for all operands.
fn never_fails(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => op.is_logic_operator() || op.supports_propagation(),
        Expr::Column(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::Literal(..)
        | Expr::Alias(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::Between(_)
        | Expr::InList(_) => true,
        _ => false,
    }
}
