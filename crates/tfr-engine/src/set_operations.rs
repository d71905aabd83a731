//! `EXCEPT ALL` and `INTERSECT ALL`.
//!
//! The engine plans them as anti and semi joins, which keep or drop all copies of a row at once. Numbering the copies
//! makes all rows distinct, so that the joins are correct: of three copies on the left and two on the right, EXCEPT
//! ALL keeps the third.
//!
//! Upstream: apache/datafusion#12955, #12956. Held by `tests/slt/answers.slt`: Copies of rows are counted.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{Column, JoinType, NullEquality, Result};
use datafusion_expr::expr::WindowFunction;
use datafusion_expr::{Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder, SubqueryAlias, WindowFunctionDefinition};

/// The column with the numbers.
const NUMBER: &str = "__copy";

/// Numbers the copies of equal rows.
#[derive(Debug, Default)]
pub struct NumberedCopies;

impl AnalyzerRule for NumberedCopies {
    fn name(&self) -> &str {
        "numbered_copies"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if is_set_operation(&join) => Ok(Transformed::yes(with_numbers(join)?)),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

/// Whether a join was planned from EXCEPT ALL or INTERSECT ALL: it compares all columns of both sides.
fn is_set_operation(join: &Join) -> bool {
    let (left, right) = (join.left.schema(), join.right.schema());
    let is_column = |expr: &Expr, schema: &datafusion_common::DFSchema, index: usize| match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column) == Some(index),
        _ => false,
    };
    matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == left.fields().len()
        && join.on.len() == right.fields().len()
        && join
            .on
            .iter()
            .enumerate()
            .all(|(index, (one, other))| is_column(one, left, index) && is_column(other, right, index))
        // After DISTINCT there are no copies to number.
        && !is_distinct(&join.left)
}

fn is_distinct(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Distinct(Distinct::All(_)) => true,
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => is_distinct(input),
        _ => false,
    }
}

fn with_numbers(join: Join) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let (left, right) = (numbered(join.left)?, numbered(join.right)?);
    let keys = |plan: &LogicalPlan| plan.schema().columns();
    let keys: (Vec<Column>, Vec<Column>) = (keys(&left), keys(&right));
    LogicalPlanBuilder::from(left)
        .join_detailed(right, join.join_type, keys, None, join.null_equality)?
        .project(columns)?
        .build()
}

/// Returns the rows of `plan`, each with its number among equal rows.
fn numbered(plan: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let mut number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), Vec::new());
    number.params.partition_by = plan.schema().columns().into_iter().map(Expr::Column).collect();
    LogicalPlanBuilder::from(plan).window([Expr::from(number).alias(NUMBER)])?.build()
}
