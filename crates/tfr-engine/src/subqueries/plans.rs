//! Rebuilds plans with other inputs or names.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion_common::{Column, DFSchema};
use datafusion_expr::Join;

/// Rebuilds `join` with other inputs, which have its columns and perhaps more.
pub fn with_inputs(join: &Join, left: LogicalPlan, right: LogicalPlan) -> Result<Join> {
    Join::try_new(
        Arc::new(left),
        Arc::new(right),
        join.on.clone(),
        join.filter.clone(),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )
}

/// Returns the columns of `plan` at these positions, under the names of `schema`.
pub fn with_names_of(plan: LogicalPlan, schema: &DFSchema, positions: &[usize]) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    let wanted = schema.columns();
    let same = positions.len() == columns.len() && columns == wanted;
    if same {
        return Ok(plan);
    }
    let mut exprs = Vec::with_capacity(wanted.len());
    for (position, name) in positions.iter().zip(wanted) {
        let Some(column) = columns.get(*position) else {
            return datafusion_common::internal_err!("column {position} of {} is missing", plan.display());
        };
        exprs.push(renamed(column, name));
    }
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}

fn renamed(column: &Column, name: Column) -> Expr {
    if *column == name {
        return Expr::Column(name);
    }
    Expr::Column(column.clone()).alias_qualified(name.relation, name.name)
}
