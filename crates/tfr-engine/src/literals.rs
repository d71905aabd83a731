//! Comparisons with a literal, before filters are pushed down.
//!
//! The engine then merges what several filters say of a column: `x > 1 AND x > 2` is `x > 2`. It takes `1 = x AND x = 1` for two values
//! of `x`, and so for false, and misreads `1 < x AND x >= 1`. Filters have their literals on the right from the engine's simplification
//! on, but conditions of joins, of which filters are made, have not.

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
