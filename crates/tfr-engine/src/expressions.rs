//! Rewrites expressions of plans where the types of their operands are known.
//!
//! Upstream: ours (shared by other modules).

use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{Column, DFSchema, Result};
use datafusion_expr::expr_rewriter::NamePreserver;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, LogicalPlan, Operator};

/// Returns the columns that the expressions of a plan may refer to: those of its inputs, and of the table that it
/// scans.
pub fn columns_of(plan: &LogicalPlan) -> Result<DFSchema> {
    let mut columns = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = plan {
        columns.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    Ok(columns)
}

/// Rewrites the expressions of a plan, but not of its inputs, bottom-up. Columns keep their names.
pub fn rewrite_expressions(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(&mut rewrite)?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })
}

/// Rewrites the expressions of a plan, its inputs and its subqueries. The rewrite may change their types.
pub fn rewrite_types(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    rewrite_types_and_plans(plan, rewrite, |plan| Ok(Transformed::no(plan)))
}

/// Like [`rewrite_types`], and then rewrites each plan whose inputs and expressions have been rewritten.
pub fn rewrite_types_and_plans(
    plan: LogicalPlan,
    rewrite: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
    rewrite_plan: impl Fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|plan| {
        let columns = columns_of(&plan)?;
        let plan = rewrite_expressions(plan, |expr| rewrite(expr, &columns))?;
        changed |= plan.transformed;
        let plan = if changed && !matches!(plan.data, LogicalPlan::Subquery(_)) {
            plan.map_data(LogicalPlan::recompute_schema)?
        } else {
            plan
        };
        let plan = plan.transform_data(&rewrite_plan)?;
        changed |= plan.transformed;
        Ok(plan)
    })?;
    Ok(plan.data)
}

/// Returns an expression as text, without the names of tables: that of a file is its path.
pub fn shown(expr: &Expr) -> String {
    let unqualified = expr.clone().transform(|expr| {
        Ok(match expr {
            Expr::Column(column) if column.relation.is_some() => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            other => Transformed::no(other),
        })
    });
    unqualified.map_or_else(|_| expr.to_string(), |expr| expr.data.to_string())
}

/// Whether an operator compares the order of its operands.
pub fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}
