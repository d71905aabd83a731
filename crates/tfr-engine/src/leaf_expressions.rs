//! Struct fields computed close to the scan.
//!
//! Two rules of the engine copy an expression to the source of its columns. Each copy of a volatile expression has
//! another value, so a filter and the selected value differed (apache/datafusion#24678). The rules also fail if a
//! column has the name of one that they add (apache/datafusion#25414). Both rules only reduce reading, so such plans
//! are left unchanged.
//!
//! Upstream: apache/datafusion#24678, #25414, #24720. Held by `tests/slt/answers.slt`: A volatile field has one value in the filter and above it

use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion_expr::{Expr, LogicalPlan};

/// Applies one of the engine's rules to plans without volatile expressions.
#[derive(Debug)]
pub struct StableLeafExpressions<R>(pub R);

impl<R: OptimizerRule> OptimizerRule for StableLeafExpressions<R> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if has_volatile_expressions(&plan)? {
            return Ok(Transformed::no(plan));
        }
        Ok(self.0.rewrite(plan.clone(), config).unwrap_or_else(|_| Transformed::no(plan)))
    }
}

fn has_volatile_expressions(plan: &LogicalPlan) -> Result<bool> {
    let mut volatile = false;
    plan.apply_with_subqueries(|plan| {
        volatile |= plan.expressions().iter().any(Expr::is_volatile);
        Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(volatile)
}
