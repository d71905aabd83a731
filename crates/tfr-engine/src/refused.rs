//! [`RefusedConstructs`]: rejects constructs that the engine would compute incorrectly.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/refused_clauses.slt`: Clauses, modifiers and arguments that the engine would ignore, refused by name.

use arrow_schema::DataType;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DFSchema, JoinConstraint, JoinType, Result, ScalarValue, not_impl_err, plan_err};
use datafusion_expr::expr::{Cast, Exists, InSubquery, NullTreatment, ScalarFunction, SetComparison, WindowFunction};
use datafusion_expr::utils::merge_schema;
use datafusion_expr::{Expr, ExprSchemable, Join, LogicalPlan};

use crate::numbers::literals::literal;
use crate::opaque;
use crate::zone_offsets::parse_zone;

/// Rejects, by name:
///
/// * RIGHT and FULL JOIN with USING, and NATURAL ones: the key would be the left side's column, which is NULL where
///   only the right side has a row.
/// * `array_sort` with an order that is not constant: the order of the first row would apply to all rows.
/// * `min` and `max` of structs and lists: to the engine, a NULL in them is less than all values.
/// * `array_slice` with a negative step: the engine has places of its own for the ends.
/// * `bit_xor(DISTINCT x)`: in groups the engine would also count the copies.
/// * `to_char` and its alias `date_format` with a literal format without strftime fields. The result would be the
///   format itself: `date_format(d, 'yyyy-MM-dd')`, as written in Spark and Hive, returns the text `yyyy-MM-dd`.
/// * An aggregate in a subquery over columns of the outer query alone: SQL computes it in the outer query, the engine
///   in the subquery.
/// * `nth_value` of row 0, which would be NULL.
/// * `lead(x, n) IGNORE NULLS` of another row than the next: to the engine, rows at the end have none. `lead(x, NULL)`, which
///   would be `x`.
/// * `from_unixtime` with a second argument that is not a time zone: a format, as written in Spark and Hive.
#[derive(Debug, Default)]
pub(crate) struct RefusedConstructs;

impl AnalyzerRule for RefusedConstructs {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Join(join) = node {
                check_join(join)?;
            }
            if let LogicalPlan::Aggregate(aggregate) = node {
                let columns = aggregate.input.schema();
                aggregate.aggr_expr.iter().try_for_each(|expr| check_level(expr, columns))?;
            }
            let schema = merge_schema(&node.inputs());
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    match expr {
                        Expr::ScalarFunction(call) if call.func.name() == "to_char" => check_format(call, &schema)?,
                        Expr::ScalarFunction(call) if call.func.name() == "array_sort" => check_order(call)?,
                        Expr::WindowFunction(window) if window.fun.name() == "nth_value" => {
                            check_row_number(&window.params.args)?;
                        }
                        Expr::WindowFunction(window) if matches!(window.fun.name(), "lead" | "lag") => {
                            check_shift(window)?;
                        }
                        Expr::AggregateFunction(call) if call.func.name() == "nth_value" => {
                            check_row_number(&call.params.args)?;
                        }
                        Expr::ScalarFunction(call) if call.func.name() == "from_unixtime" => check_zone(call)?,
                        Expr::ScalarFunction(call) if call.func.name() == "array_slice" => check_step(call)?,
                        Expr::AggregateFunction(call) if matches!(call.func.name(), "min" | "max") => {
                            check_comparable(call.func.name(), &call.params.args, &schema)?;
                        }
                        Expr::WindowFunction(window) if matches!(window.fun.name(), "min" | "max") => {
                            check_comparable(window.fun.name(), &window.params.args, &schema)?;
                        }
                        Expr::AggregateFunction(call) if call.func.name() == "bit_xor" && call.params.distinct => {
                            return not_impl_err!(
                                "bit_xor(DISTINCT x); write bit_xor(x) over a subquery with DISTINCT"
                            );
                        }
                        _ => {}
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "refused_constructs"
    }
}

/// Rejects a step of a slice that is not a positive literal.
fn check_step(call: &ScalarFunction) -> Result<()> {
    let step = call.args.get(3).map(literal);
    match step {
        None | Some(Some(ScalarValue::Int64(None | Some(1..)))) => Ok(()),
        _ => {
            plan_err!("array_slice with a step that is not a positive literal; write array_reverse for the other order")
        }
    }
}

/// Rejects a call of `lead` that ignores nulls and is not of the next row. A `lag` by a negative number is one.
fn check_shift(window: &WindowFunction) -> Result<()> {
    let params = &window.params;
    let is_lag = window.fun.name() == "lag";
    let Some(rows) = params.args.get(1) else { return Ok(()) };
    let is_near = match offset(rows) {
        // To the engine it is 0.
        Some(ScalarValue::Int64(None)) => return plan_err!("{}(x, NULL) has no row; write NULL", window.fun.name()),
        Some(ScalarValue::Int64(Some(rows))) if is_lag => rows >= -1,
        Some(ScalarValue::Int64(Some(rows))) => rows <= 1,
        _ => false,
    };
    match params.null_treatment {
        Some(NullTreatment::IgnoreNulls) if !is_near => {
            let (name, far) = if is_lag { ("lag", "n < -1") } else { ("lead", "n > 1") };
            plan_err!(
                "{name}(x, n) IGNORE NULLS for {far}, or an n that is not a literal, is not supported; write nth_value(x, n) IGNORE \
                 NULLS OVER (... ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
            )
        }
        _ => Ok(()),
    }
}

/// Returns a literal, which may be cast, as a BIGINT.
fn offset(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Cast(Cast { expr, .. }) => offset(expr),
        Expr::ScalarFunction(call) if call.func.name() == opaque::CAST => call.args.first().and_then(offset),
        Expr::Literal(value, _) => value.cast_to(&DataType::Int64).ok(),
        _ => None,
    }
}

fn check_comparable(name: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let [value] = args else { return Ok(()) };
    let values = match value.get_type(schema) {
        Ok(DataType::Struct(_)) => "structs",
        Ok(data_type) if data_type.is_list() => "lists",
        _ => return Ok(()),
    };
    let order = if name == "max" { "x DESC NULLS LAST" } else { "x" };
    plan_err!("{name} of {values} is not supported; write first_value(x ORDER BY {order})")
}

fn check_join(join: &Join) -> Result<()> {
    let kind = match (join.join_constraint, join.join_type) {
        (JoinConstraint::Using, JoinType::Right) => "RIGHT",
        (JoinConstraint::Using, JoinType::Full) => "FULL",
        _ => return Ok(()),
    };
    let keys: Vec<_> = join.on.iter().map(|(left, right)| format!("coalesce({left}, {right})")).collect();
    let same: Vec<_> = join.on.iter().map(|(left, right)| format!("{left} = {right}")).collect();
    not_impl_err!(
        "{kind} JOIN with USING or NATURAL; write ON {}, and {} in the place of the key",
        same.join(" AND "),
        keys.join(", ")
    )
}

/// Rejects an aggregate that belongs to an outer query. `columns` are those of its own query.
fn check_level(aggregate: &Expr, columns: &DFSchema) -> Result<()> {
    let mut outer = None;
    let mut is_inner = false;
    aggregate.apply(|part| {
        match part {
            Expr::OuterReferenceColumn(_, column) => outer = Some(column.clone()),
            Expr::Column(_) => is_inner = true,
            Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. })
            | Expr::SetComparison(SetComparison { subquery, .. }) => {
                for reference in &subquery.outer_ref_columns {
                    if let Expr::OuterReferenceColumn(_, column) = reference {
                        match columns.has_column(column) {
                            true => is_inner = true,
                            false => outer = Some(column.clone()),
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    match outer {
        Some(column) if !is_inner => not_impl_err!(
            "an aggregate in a subquery over {} alone, a column of the query around it, where SQL computes the aggregate; compute it there: SELECT ... FROM (SELECT sum(x) AS s FROM t) a, ...",
            column.flat_name()
        ),
        _ => Ok(()),
    }
}

fn check_order(call: &ScalarFunction) -> Result<()> {
    for order in call.args.iter().skip(1) {
        let varies = order.is_volatile()
            || order.exists(|part| {
                Ok(matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_)))
            })?;
        if varies {
            return plan_err!(
                "the order of array_sort must be a constant, found {order}; write CASE WHEN {order} = 'DESC' \
                 THEN array_sort(x, 'DESC') ELSE array_sort(x, 'ASC') END"
            );
        }
    }
    Ok(())
}

fn check_row_number(args: &[Expr]) -> Result<()> {
    match args {
        [value, Expr::Literal(number, _)] if number.to_string() == "0" => {
            plan_err!("nth_value({value}, 0): rows are numbered from 1; write first_value for the first row")
        }
        _ => Ok(()),
    }
}

fn check_zone(call: &ScalarFunction) -> Result<()> {
    let [seconds, Expr::Literal(zone, _)] = call.args.as_slice() else { return Ok(()) };
    match zone.try_as_str().flatten() {
        Some(zone) if parse_zone(zone).is_err() => plan_err!(
            "the second argument of from_unixtime is a time zone such as 'Europe/Berlin', found '{zone}'; for a text \
             write to_char(from_unixtime({seconds}), '%Y-%m-%d %H:%M:%S')"
        ),
        _ => Ok(()),
    }
}

fn check_format(call: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    let [value, Expr::Literal(format, _)] = call.args.as_slice() else { return Ok(()) };
    // Formats of durations are words.
    if matches!(value.get_type(schema), Ok(DataType::Duration(_))) {
        return Ok(());
    }
    match format.try_as_str().flatten() {
        Some(format) if !format.is_empty() && !format.contains('%') => plan_err!(
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
