//! [`CheckedFormats`]: refuses formats of dates that have no field.

use arrow_schema::DataType;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, Result, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan};

/// Refuses `to_char` and its alias `date_format` with a literal format that has no field of strftime.
///
/// The result would be the format itself in every row: `date_format(d, 'yyyy-MM-dd')`, as Spark and Hive write it, is
/// the text `yyyy-MM-dd`.
#[derive(Debug, Default)]
pub(crate) struct CheckedFormats;

impl AnalyzerRule for CheckedFormats {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    if let Expr::ScalarFunction(call) = expr {
                        check(call, &schema)?;
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "checked_formats"
    }
}

fn check(call: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    let [value, Expr::Literal(format, _)] = call.args.as_slice() else { return Ok(()) };
    // Formats of durations are words.
    if matches!(value.get_type(schema), Ok(DataType::Duration(_))) {
        return Ok(());
    }
    match format.try_as_str().flatten() {
        Some(format) if call.func.name() == "to_char" && !format.is_empty() && !format.contains('%') => plan_err!(
            "the format '{format}' has no field: fields of dates and times begin with %, as in '%Y-%m-%d %H:%M:%S'"
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn a_format_of_spark_is_refused() -> Result<()> {
        let state = crate::exact(SessionStateBuilder::new().with_default_features()).build();
        let context = SessionContext::new_with_state(state);
        for call in ["date_format(d, 'yyyy-MM-dd')", "to_char(d, 'YYYY')", "upper(to_char(d, 'dd.MM.'))"] {
            let sql = format!("SELECT 1 WHERE EXISTS (SELECT {call} FROM (SELECT DATE '2024-03-15' AS d) AS t)");
            let outcome = match context.sql(&sql).await {
                Ok(plan) => plan.collect().await.map(drop),
                Err(error) => Err(error),
            };
            let message = outcome.expect_err(call).to_string();
            assert!(message.contains("has no field"), "{message}");
        }
        let rows = context.sql("SELECT to_char(DATE '2024-03-15', '%d.%m.') AS x").await?.collect().await?;
        let text = arrow::util::pretty::pretty_format_batches(&rows)?.to_string();
        assert!(text.contains("| 15.03. |"), "{text}");
        Ok(())
    }
}
