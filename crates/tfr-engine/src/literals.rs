//! Moves literals in comparisons to the right, before filters are pushed down.
//!
//! The engine then merges the conditions that several filters put on a column: `x > 1 AND x > 2` is `x > 2`. It
//! interprets `1 = x AND x = 1` as two different values of `x`, and so as false, and misinterprets `1 < x AND x >= 1`.
//! In filters, the engine's own simplification has moved literals to the right. In join conditions, which become
//! filters, it has not.
//!
//! Upstream: unreported. Held by `tests/slt/answers.slt`: Two filters above an aggregation that have no row in common.

use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_expr::{BinaryExpr, Expr, LogicalPlan};

/// Moves the literals of comparisons to the right in join conditions and filters.
#[derive(Debug, Default)]
pub struct LiteralsOnTheRight;

impl OptimizerRule for LiteralsOnTheRight {
    fn name(&self) -> &str {
        "literals_on_the_right"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(_) | LogicalPlan::Join(_) => {
                plan.map_expressions(|expr| expr.transform_up(|expr| Ok(with_literal_on_the_right(expr))))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn with_literal_on_the_right(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(*left, Expr::Literal(..)) && !matches!(*right, Expr::Literal(..)) =>
        {
            match op.swap() {
                Some(swapped) if op.supports_propagation() => {
                    Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: right, op: swapped, right: left }))
                }
                _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        other => Transformed::no(other),
    }
}
