//! [`BoundedConstants`]: limits the constants of a query.
//!
//! Planning computes calls of constants, and copies a constant wherever it copies an expression: seven times as measured.

use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan};

use super::functions::{Found, ResultTooLarge};
use super::rule::LONG_CONSTANT;

/// Rejects queries whose long constants together take more than an eighth of `limit` bytes.
#[derive(Debug)]
pub(super) struct BoundedConstants {
    pub limit: u64,
}

impl OptimizerRule for BoundedConstants {
    fn name(&self) -> &str {
        "bounded_constants"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut bytes = 0_u64;
        plan.apply_with_subqueries(|plan| {
            plan.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::Literal(value, _) = expr {
                        let size = value.size();
                        bytes = bytes.saturating_add(if size > LONG_CONSTANT { size as u64 } else { 0 });
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        match bytes > self.limit / 8 {
            true => Err(ResultTooLarge::new("", Found::Constants, bytes, self.limit).into()),
            false => Ok(Transformed::no(plan)),
        }
    }
}
