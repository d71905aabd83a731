//! [`ExactPatterns`]: gives the engine patterns and replacements that mean what they mean in PostgreSQL.

use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::expr::Like;
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};

use super::functions::PatternFunction;
use crate::expressions::rewrite_expressions;

/// Rewrites `SIMILAR TO`, patterns of regular expressions, and replacements. Runs before the engine's coercion.
#[derive(Debug, Default)]
pub(crate) struct ExactPatterns;

impl AnalyzerRule for ExactPatterns {
    fn name(&self) -> &str {
        "exact_patterns"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| rewrite_expressions(plan, rewrite)).map(|plan| plan.data)
    }
}

fn rewrite(expr: Expr) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::SimilarTo(Like { negated, expr, pattern, escape_char, case_insensitive: _ }) => {
            let escape = lit(escape_char.unwrap_or('\\').to_string());
            let right = Box::new(PatternFunction::Similar.of(vec![*pattern, escape])?);
            let op = if negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: expr, op, right }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(
                op,
                Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch
            ) && !PatternFunction::is_call(&right) =>
        {
            let right = Box::new(PatternFunction::Match.of(vec![*right])?);
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::ScalarFunction(mut call) => {
            let (flags, function) = match call.func.name() {
                "regexp_like" => (2, PatternFunction::Match),
                "regexp_match" => (2, PatternFunction::Search),
                "regexp_count" => (3, PatternFunction::Search),
                "regexp_instr" => (4, PatternFunction::Search),
                "regexp_replace" => (3, PatternFunction::Search),
                _ => return Ok(Transformed::no(Expr::ScalarFunction(call))),
            };
            if call.args.get(1).is_none_or(PatternFunction::is_call) {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            }
            let flags = call.args.get_mut(flags).map(|flags| {
                let written = std::mem::take(flags);
                *flags = PatternFunction::Flags.function().call(vec![written.clone()]);
                written
            });
            let Some(pattern) = call.args.get_mut(1) else { return Ok(Transformed::no(Expr::ScalarFunction(call))) };
            let args = std::iter::once(std::mem::take(pattern)).chain(flags);
            *pattern = function.of(args.collect())?;
            if let ("regexp_replace", Some(replacement)) = (call.func.name(), call.args.get_mut(2)) {
                *replacement = PatternFunction::Replacement.of(vec![std::mem::take(replacement)])?;
            }
            Transformed::yes(Expr::ScalarFunction(call))
        }
        other => Transformed::no(other),
    })
}

impl PatternFunction {
    /// Returns a call of the function. The optimizer evaluates calls with constants. Patterns that are wrong are
    /// reported now.
    fn of(self, args: Vec<Expr>) -> Result<Expr> {
        let texts: Option<Vec<&str>> = args
            .iter()
            .map(|arg| match arg {
                Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        if let Some(texts) = texts {
            self.translated(&texts)?;
        }
        Ok(self.function().call(args))
    }
}
