//! References from a subquery to columns of the outer query.

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion_common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Column, DFSchema};

/// Returns the outer columns that `plan` refers to and `schema` contains.
pub fn outer_columns(plan: &LogicalPlan, schema: &DFSchema) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    for_each_outer(plan, |column| {
        if schema.has_column(column) && !columns.contains(column) {
            columns.push(column.clone());
        }
    })?;
    Ok(columns)
}

/// Whether `plan` refers to any column outside of it.
pub fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut correlated = false;
    for_each_outer(plan, |_| correlated = true)?;
    Ok(correlated)
}

/// Calls `f` for every outer reference in `plan`, including those in its subqueries.
pub fn for_each_outer(plan: &LogicalPlan, mut f: impl FnMut(&Column)) -> Result<()> {
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    f(column);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// Whether an operator of `plan` refers to one of the outer columns.
pub fn refers_to(plan: &LogicalPlan, outer: &[Column]) -> Result<bool> {
    let mut found = false;
    plan.apply(|plan| {
        plan.apply_expressions(|expr| {
            found |= uses_any(expr, outer);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// Whether `expr` refers to one of the outer columns.
pub fn uses_any(expr: &Expr, outer: &[Column]) -> bool {
    let mut found = false;
    let _ = expr.apply(|expr| {
        found |= matches!(expr, Expr::OuterReferenceColumn(_, column) if outer.contains(column));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
