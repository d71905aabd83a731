//! Removes the calls by which expressions beside `unnest` have names of their own: see `clauses/unnest.rs`.
//!
//! Upstream: unreported. Held by `tests/slt/answers.slt`: What is beside unnest is not taken for a column of its name.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{Expr, LogicalPlan, ScalarUDF};

use crate::expressions::rewrite_expressions;
use crate::opaque;

/// The name of the function.
pub const NAME: &str = "beside_unnest";

/// Returns the function, which returns its first argument.
pub fn function() -> Arc<ScalarUDF> {
    opaque::first_argument(NAME)
}

/// Removes the calls of the function.
#[derive(Debug, Default)]
pub struct BesideUnnest;

impl AnalyzerRule for BesideUnnest {
    fn name(&self) -> &str {
        "beside_unnest"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            rewrite_expressions(plan, |expr| {
                Ok(match expr {
                    Expr::ScalarFunction(ScalarFunction { func, mut args })
                        if func.name() == NAME && !args.is_empty() =>
                    {
                        Transformed::yes(args.swap_remove(0))
                    }
                    other => Transformed::no(other),
                })
            })
        })?;
        Ok(plan.data)
    }
}
