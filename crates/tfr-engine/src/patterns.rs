//! Patterns: `SIMILAR TO`, and regular expressions by PostgreSQL's rules for newlines and replacements.
//!
//! [`MatchesOfAny`] corrects regular expressions that match any text. The engine simplifies `s ~ '.*'` to `s IS NOT NULL`, which is false if `s` is NULL (apache/datafusion#24379). The
//! empty pattern matches the same texts, and is not simplified.
//!
//! Upstream: apache/datafusion#24379, #24380. Held by `tests/slt/answers.slt`: A pattern that matches any text says nothing of NULL

mod functions;
mod groups;
mod rule;
mod similar;

use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};

use crate::expressions::{columns_of, rewrite_expressions};
pub(crate) use functions::functions;
pub(crate) use groups::match_function;
pub(crate) use rule::ExactPatterns;

/// Replaces `.*` by the empty pattern.
#[derive(Debug, Default)]
pub struct MatchesOfAny;

impl OptimizerRule for MatchesOfAny {
    fn name(&self) -> &str {
        "matches_of_any"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let schema = columns_of(&plan)?;
        rewrite_expressions(plan, |expr| match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, mut right })
                if matches!(op, Operator::RegexMatch | Operator::RegexIMatch) =>
            {
                let changed = empty_if_any(&mut right, &schema)?;
                Ok(Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed))
            }
            Expr::ScalarFunction(mut call) if call.func.name() == "regexp_like" => {
                let changed = call.args.get_mut(1).map_or(Ok(false), |pattern| empty_if_any(pattern, &schema))?;
                Ok(Transformed::new_transformed(Expr::ScalarFunction(call), changed))
            }
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Replaces a constant pattern `.*` by the empty one. Returns whether it did.
fn empty_if_any(pattern: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let value = match &*pattern {
        Expr::Literal(value, _) => value.clone(),
        other if other.any_column_refs() || other.is_volatile() => return Ok(false),
        // The engine evaluates constants before it inspects patterns.
        other => {
            let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
            let simplified = simplifier.coerce(other.clone(), schema).and_then(|expr| simplifier.simplify(expr));
            let Ok(Expr::Literal(value, _)) = simplified else { return Ok(false) };
            value
        }
    };
    let is_any = value.try_as_str().flatten() == Some(".*");
    if is_any {
        *pattern = lit(ScalarValue::from("").cast_to(&value.data_type())?);
    }
    Ok(is_any)
}
