//! Projections over equal ones: `SELECT i + 1 AS i FROM (SELECT i + 1 AS i FROM ...)`.
//!
//! The engine's rule drops a projection if its input has the same expressions, although they refer to other columns
//! there: this query added 1 once (apache/datafusion#24686, fixed after version 55). The rule also compares
//! projections that it has just merged. While it runs, each projection that is the input of another therefore has a
//! unique marker.
//!
//! Upstream: apache/datafusion#24686. Held by `tests/slt/answers.slt`: A projection over an equal one computes too

use std::sync::Arc;

use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::Result;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_expr::expr::Alias;
use datafusion_expr::{Expr, LogicalPlan, Projection};

/// Prefix of the marker names.
const MARK: &str = "\0projection ";

/// Runs the engine's rule with no two equal projections in a chain.
#[derive(Debug, Default)]
pub struct UnequalProjections(OptimizeProjections);

impl OptimizerRule for UnequalProjections {
    fn name(&self) -> &str {
        "unequal_projections"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut marks = 0;
        let marked = plan.transform_down_with_subqueries(|plan| mark_input(plan, &mut marks))?.data;
        let optimized = self.0.rewrite(marked, config)?;
        if marks == 0 {
            return Ok(optimized);
        }
        optimized.map_data(|plan| Ok(plan.transform_up_with_subqueries(without_marks)?.data))
    }
}

/// Marks the input of a projection if it is a projection that computes something.
fn mark_input(plan: LogicalPlan, marks: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(outer) = &plan else { return Ok(Transformed::no(plan)) };
    let LogicalPlan::Projection(inner) = outer.input.as_ref() else { return Ok(Transformed::no(plan)) };
    let Some(computed) = inner.expr.iter().position(|expr| !matches!(expr, Expr::Column(_))) else {
        return Ok(Transformed::no(plan));
    };
    let mut expr = inner.expr.clone();
    expr[computed] = marked(expr[computed].clone(), *marks);
    *marks += 1;
    let inner = Projection::try_new_with_schema(expr, Arc::clone(&inner.input), Arc::clone(&inner.schema))?;
    let input = Arc::new(LogicalPlan::Projection(inner));
    let outer = Projection::try_new_with_schema(outer.expr.clone(), input, Arc::clone(&outer.schema))?;
    Ok(Transformed::yes(LogicalPlan::Projection(outer)))
}

fn marked(expr: Expr, mark: usize) -> Expr {
    let mark = format!("{MARK}{mark}");
    match expr {
        Expr::Alias(Alias { expr, relation, name, metadata }) => {
            Expr::Alias(Alias { expr: Box::new(expr.alias(mark)), relation, name, metadata })
        }
        expr => {
            let name = expr.schema_name().to_string();
            expr.alias(mark).alias(name)
        }
    }
}

fn without_marks(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(|expr| {
        expr.transform_down(|expr| {
            let Expr::Alias(Alias { expr: inner, relation, name, metadata }) = expr else {
                return Ok(Transformed::no(expr));
            };
            match *inner {
                Expr::Alias(mark) if mark.name.starts_with(MARK) => {
                    let bare = metadata.is_none() && relation.is_none() && mark.expr.schema_name().to_string() == name;
                    let expr = if bare {
                        *mark.expr
                    } else {
                        Expr::Alias(Alias { expr: mark.expr, relation, name, metadata })
                    };
                    Ok(Transformed::yes(expr))
                }
                inner => Ok(Transformed::no(Expr::Alias(Alias { expr: Box::new(inner), relation, name, metadata }))),
            }
        })
    })
}
