//! Operand types, where the engine's coercion loses values.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::config::ConfigOptions;
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::InList;
use datafusion_expr::{Between, BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator, cast};

use crate::expressions::rewrite_types;

/// Casts operands before the engine's coercion does:
///
/// * a date plus an interval with a time of day: the date becomes a timestamp, because the engine drops the time;
/// * a timestamp plus an interval with a finer unit: the timestamp gets that unit;
/// * a decimal and a double: the decimal becomes a double, because the engine converts both to decimals, which cannot
///   represent every double.
#[derive(Debug, Default)]
pub struct ExactOperands;

impl AnalyzerRule for ExactOperands {
    fn name(&self) -> &str {
        "exact_operands"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_types(plan, with_exact_operands)
    }
}

fn with_exact_operands(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let types = (type_of(&left, schema), type_of(&right, schema));
            let (left_as, right_as) = match &types {
                (Some(left_type), Some(right_type)) => operand_types((&left, left_type), op, (&right, right_type)),
                _ => (None, None),
            };
            let changed = left_as.is_some() || right_as.is_some();
            let binary =
                BinaryExpr { left: Box::new(cast_to(*left, left_as)), op, right: Box::new(cast_to(*right, right_as)) };
            Transformed::new_transformed(Expr::BinaryExpr(binary), changed)
        }
        Expr::Between(between) => {
            let operands = [between.expr.as_ref(), between.low.as_ref(), between.high.as_ref()];
            if !meet_as_doubles(&operands, schema) {
                return Ok(Transformed::no(Expr::Between(between)));
            }
            let Between { expr, negated, low, high } = between;
            let double = |expr: Expr| Box::new(cast_to(expr, Some(DataType::Float64)));
            Transformed::yes(Expr::Between(Between {
                expr: double(*expr),
                negated,
                low: double(*low),
                high: double(*high),
            }))
        }
        Expr::InList(list) => {
            let operands: Vec<&Expr> = std::iter::once(list.expr.as_ref()).chain(&list.list).collect();
            if !meet_as_doubles(&operands, schema) {
                return Ok(Transformed::no(Expr::InList(list)));
            }
            let InList { expr, list, negated } = list;
            let double = |expr: Expr| cast_to(expr, Some(DataType::Float64));
            let list = list.into_iter().map(double).collect();
            Transformed::yes(Expr::InList(InList { expr: Box::new(double(*expr)), list, negated }))
        }
        other => Transformed::no(other),
    })
}

fn cast_to(expr: Expr, data_type: Option<DataType>) -> Expr {
    match data_type {
        Some(data_type) => cast(expr, data_type),
        None => expr,
    }
}

/// Returns the type of an expression, if it is known here.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    expr.get_type(schema).ok()
}

type Operand<'a> = (&'a Expr, &'a DataType);

/// Returns the types to cast the operands to.
fn operand_types(left: Operand<'_>, op: Operator, right: Operand<'_>) -> (Option<DataType>, Option<DataType>) {
    let is_sum = matches!(op, Operator::Plus | Operator::Minus);
    if is_sum && let Some(finer) = with_room_for(left.1, right) {
        return (Some(finer), None);
    }
    if op == Operator::Plus
        && let Some(finer) = with_room_for(right.1, left)
    {
        return (None, Some(finer));
    }
    let is_arithmetic = is_sum || matches!(op, Operator::Multiply | Operator::Divide | Operator::Modulo);
    let is_comparison =
        op.supports_propagation() || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
    if is_arithmetic || is_comparison {
        let double = || Some(DataType::Float64);
        if is_decimal(left.1) && is_double(right) {
            return (double(), None);
        }
        if is_decimal(right.1) && is_double(left) {
            return (None, double());
        }
    }
    (None, None)
}

fn meet_as_doubles(operands: &[&Expr], schema: &DFSchema) -> bool {
    let types: Option<Vec<_>> = operands.iter().map(|expr| type_of(expr, schema)).collect();
    types.is_some_and(|types| {
        let doubles = operands.iter().zip(&types).any(|(expr, data_type)| is_double((expr, data_type)));
        doubles && types.iter().any(is_decimal)
    })
}

fn is_decimal(data_type: &DataType) -> bool {
    data_type.is_decimal()
}

/// Whether an operand is a double that may not fit into a decimal. A SQL number such as `1.5` is a double to the
/// engine, but a decimal to its author.
fn is_double((expr, data_type): Operand<'_>) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => !is_short(*value),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => !is_short(f64::from(*value)),
        Expr::Literal(..) => false,
        Expr::Negative(inner) => is_double((inner, data_type)),
        _ => data_type.is_floating(),
    }
}

/// Whether a number has at most 15 digits before and after its decimal point. The engine converts it to `DECIMAL(30,
/// 15)`.
fn is_short(value: f64) -> bool {
    const LARGEST: f64 = 1e15;
    let text = value.to_string();
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    value.is_finite() && value.abs() < LARGEST && decimals <= 15
}

/// Returns the timestamp type to which an interval can be added without loss, if the date or timestamp does not have
/// it.
fn with_room_for(time: &DataType, (interval, interval_type): Operand<'_>) -> Option<DataType> {
    let DataType::Interval(unit) = interval_type else { return None };
    let needed = match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => match value.nanoseconds {
            0 => return None,
            nanos if nanos % 1_000 == 0 => TimeUnit::Microsecond,
            _ => TimeUnit::Nanosecond,
        },
        Expr::Literal(ScalarValue::IntervalDayTime(Some(value)), _) if value.milliseconds == 0 => return None,
        _ => match unit {
            IntervalUnit::YearMonth => return None,
            IntervalUnit::DayTime => TimeUnit::Millisecond,
            IntervalUnit::MonthDayNano => TimeUnit::Nanosecond,
        },
    };
    match time {
        DataType::Date32 | DataType::Date64 => Some(DataType::Timestamp(needed.max(TimeUnit::Microsecond), None)),
        DataType::Timestamp(unit, zone) if *unit < needed && matches!(interval, Expr::Literal(..)) => {
            Some(DataType::Timestamp(needed, zone.clone()))
        }
        _ => None,
    }
}
