//! Window frames in `RANGE`: of values without distances, and with distances that their type cannot represent.

use std::sync::Arc;

use arrow_schema::{DECIMAL256_MAX_PRECISION, DECIMAL256_MAX_SCALE, DataType, IntervalUnit, TimeUnit};
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue, internal_err, plan_err};
use datafusion_expr::expr::WindowFunctionParams;
use datafusion_expr::utils::generate_sort_key;
use datafusion_expr::{
    Expr, ExprSchemable as _, LogicalPlan, Projection, Window, WindowFrame, WindowFrameBound, WindowFrameUnits, cast,
};
use tfr_arrow::nested::value_type;
use tfr_arrow::sql::sql_type;

use super::is_of_intervals;
use crate::expressions::{columns_of, rewrite_expressions};

/// A decimal type that holds any integer plus any distance of that size, and distances with ten digits after the point.
const NUMBERS: DataType = DataType::Decimal128(38, 10);

/// Converts window frames in `RANGE` of values that the engine's type coercion has no type for: without a distance, they
/// are the same in `GROUPS`. With one they are rejected.
///
/// If there is a distance, integers are ordered as decimals. With integers, the engine ignores a distance that is too great for
/// their type, and a bound beyond the type is NULL. Distances that the type of a key cannot represent are rejected, because
/// the engine rounds them.
#[derive(Debug, Default)]
pub struct FramesOfGroups;

impl AnalyzerRule for FramesOfGroups {
    fn name(&self) -> &str {
        "frames_of_groups"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            if !matches!(plan, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(plan));
            }
            let schema = columns_of(&plan)?;
            let mut has_wider = false;
            let plan = rewrite_expressions(plan, |expr| match expr {
                Expr::WindowFunction(mut function) if !has_no_distance(&function.params, &schema) => {
                    let widened = with_exact_distances(&mut function.params, &schema)?;
                    has_wider |= widened;
                    Ok(Transformed::new_transformed(Expr::WindowFunction(function), widened))
                }
                Expr::WindowFunction(mut function) => {
                    let WindowFrame { start_bound, end_bound, .. } = function.params.window_frame;
                    if is_distance(&start_bound) || is_distance(&end_bound) {
                        return plan_err!(
                            "a RANGE of an interval, a time, a difference of timestamps, a BINARY value, a list or a struct is \
                             not supported: order by extract(epoch FROM x), or give the frame in ROWS or GROUPS"
                        );
                    }
                    let frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start_bound, end_bound);
                    function.params.window_frame = frame;
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                expr => Ok(Transformed::no(expr)),
            })?;
            match plan.data {
                LogicalPlan::Window(window) if has_wider => separated(window).map(Transformed::yes),
                data => Ok(Transformed { data, ..plan }),
            }
        })?;
        Ok(plan.data)
    }
}

/// Separates the functions of a node by the keys that they sort by, which must be the same in a node.
fn separated(window: Window) -> Result<LogicalPlan> {
    let mut groups: Vec<(_, Vec<Expr>)> = Vec::new();
    for expr in &window.window_expr {
        let Expr::WindowFunction(function) = expr.clone().unalias() else {
            return internal_err!("a window computes {expr}");
        };
        let key = generate_sort_key(&function.params.partition_by, &function.params.order_by)?;
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, exprs)) => exprs.push(expr.clone()),
            None => groups.push((key, vec![expr.clone()])),
        }
    }
    if groups.len() == 1 {
        return Ok(LogicalPlan::Window(window));
    }
    let mut plan = window.input;
    for (_, exprs) in groups {
        plan = Arc::new(LogicalPlan::Window(Window::try_new(exprs, plan)?));
    }
    let columns = window.schema.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
}

/// Whether the frame is a range of values of a type without distances.
fn has_no_distance(params: &WindowFunctionParams, schema: &DFSchema) -> bool {
    let has_none = |key_type: &DataType| {
        let is_time = matches!(key_type, DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_));
        is_time || key_type.is_binary() || key_type.is_nested()
    };
    let is_key = |key: &Expr| match key.get_type(schema) {
        Ok(DataType::Dictionary(_, values)) => has_none(&values),
        Ok(key_type) => has_none(&key_type),
        Err(_) => false,
    };
    params.window_frame.units == WindowFrameUnits::Range
        && params.order_by.iter().any(|key| is_of_intervals(&key.expr, schema) || is_key(&key.expr))
}

/// Converts an integer key to a decimal if the frame has a distance. Returns whether it did. Rejects distances that the type
/// of the key cannot represent.
fn with_exact_distances(params: &mut WindowFunctionParams, schema: &DFSchema) -> Result<bool> {
    let WindowFrame { units, start_bound, end_bound, .. } = &params.window_frame;
    let Some(key) = params.order_by.first_mut().filter(|_| *units == WindowFrameUnits::Range) else { return Ok(false) };
    let Ok(key_type) = key.expr.get_type(schema) else { return Ok(false) };
    let key_type = value_type(&key_type);
    let (mut widened, mut compared) = (false, key_type.clone());
    if key_type.is_integer() && (is_distance(start_bound) || is_distance(end_bound)) {
        key.expr = cast(std::mem::take(&mut key.expr), NUMBERS);
        (widened, compared) = (true, NUMBERS);
    }
    for bound in [start_bound, end_bound] {
        let (WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance)) = bound else { continue };
        // The parser leaves distances as texts.
        let Some(text) = distance.try_as_str().flatten() else { continue };
        if !represents(&compared, text) {
            let name = sql_type(key_type).map_or_else(|| key_type.to_string(), |(name, _)| name);
            let is_number = text.parse::<f64>().is_ok();
            return match key_type {
                DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => plan_err!(
                    "RANGE {text}: {name}, the type of the ORDER BY, cannot represent this distance; write ORDER BY CAST(x AS \
                     TIMESTAMP)"
                ),
                _ if is_number => plan_err!(
                    "RANGE {text}: {name}, the type of the ORDER BY, cannot represent this distance; write ORDER BY CAST(x AS \
                     DECIMAL(76, 20))"
                ),
                _ => plan_err!("RANGE {text}: the distance of {name}, the type of the ORDER BY, is a number"),
            };
        }
    }
    Ok(widened)
}

/// Whether the distance, a text, is exact in the type in which the engine computes with keys of a type.
fn represents(key: &DataType, distance: &str) -> bool {
    const WIDE: DataType = DataType::Decimal256(DECIMAL256_MAX_PRECISION, DECIMAL256_MAX_SCALE / 2);
    let parse = |data_type: &DataType| ScalarValue::try_from_string(distance.to_owned(), data_type);
    let unit = match key {
        key if key.is_decimal() => {
            let [narrow, wide] = [parse(key).and_then(|value| value.cast_to(&WIDE)), parse(&WIDE)];
            return matches!((narrow, wide), (Ok(narrow), Ok(wide)) if narrow == wide);
        }
        DataType::Date32 | DataType::Date64 => 24 * 60 * 60 * 1_000_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => return true,
    };
    match parse(&DataType::Interval(IntervalUnit::MonthDayNano)) {
        Ok(ScalarValue::IntervalMonthDayNano(Some(interval))) => interval.nanoseconds % unit == 0,
        // The engine refuses it.
        _ => true,
    }
}

fn is_distance(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => !distance.is_null(),
        WindowFrameBound::CurrentRow => false,
    }
}
