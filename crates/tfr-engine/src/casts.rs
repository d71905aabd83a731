//! Casts that the engine computes incorrectly. Their operands are replaced by operands that it casts correctly.
//!
//! Upstream: unreported. Held by `tests/slt/answers.slt`: Integers that a small decimal does not hold

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use datafusion::optimizer::AnalyzerRule;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::Transformed;
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::{BinaryExpr, Expr, ExprSchemable as _, LogicalPlan, Operator, ScalarUDF, cast, lit};

use crate::expressions::{columns_of, rewrite_expressions};
use crate::numbers::doubles::{DecimalToDouble, is_rounded_twice};
use crate::numbers::literals;
use crate::opaque;
use crate::time_zones::AtTimeZone;
use crate::timestamps::date_trunc;
use crate::zone_offsets::{DEFAULT_ZONE, InZoneTable};

/// Functions that cast their first argument. The optimizer replaces some of them by casts later.
const CASTS: [&str; 8] = [
    "arrow_cast",
    "arrow_try_cast",
    "to_date",
    "to_local_time",
    "to_time",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_seconds",
];

/// A decimal type that holds any integer.
const INTEGERS: DataType = DataType::Decimal128(20, 0);

/// Makes casts exact:
///
/// * Timestamps with a zone are converted to their local time, without a zone. The engine casts that to dates and
///   times. For a timestamp with a zone, it would use the time in UTC, or a summer time that ends in 2099.
/// * Where the engine computes with the local times of a zone, it refuses those after 2099 that it does not know.
/// * Timestamps without a zone are converted to the instant of their local time. The engine does the same, but compares
///   such a cast with a literal as if the zone were UTC.
/// * Timestamps are converted to a coarser unit by rounding down. The engine rounds times before 1970 up.
/// * Integers are converted to small decimals, or cause an error. The engine wraps them around.
/// * Number literals are converted by their digits: see [`literals`].
/// * Decimals are converted to the nearest double: see [`doubles`](crate::numbers::doubles).
/// * Casts that change values, or their order, are passed to a function. The engine would compare the operand instead, which
///   is right only for casts that are exact and total: it took `CAST(x AS INT) = 1` for `x = 1`. And it believes that
///   casts to TIME keep the order, also of bounds.
#[derive(Debug)]
pub struct ExactCasts {
    at_time_zone: Arc<ScalarUDF>,
    date_trunc: Arc<ScalarUDF>,
    to_double: Arc<ScalarUDF>,
    opaque: Arc<ScalarUDF>,
}

impl Default for ExactCasts {
    fn default() -> Self {
        Self {
            at_time_zone: Arc::new(ScalarUDF::new_from_impl(AtTimeZone::default())),
            date_trunc: date_trunc(),
            to_double: DecimalToDouble::function(),
            opaque: opaque::cast_function(),
        }
    }
}

impl AnalyzerRule for ExactCasts {
    fn name(&self) -> &str {
        "exact_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|plan| {
            let columns = columns_of(&plan)?;
            rewrite_expressions(plan, |expr| self.rewrite(expr, &columns))
        })?;
        Ok(plan.data)
    }
}

impl ExactCasts {
    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        if let Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) = &expr
            && let Some(Ok(value)) =
                literals::literal(expr).and_then(|value| literals::cast_by_digits(&value, field.data_type()))
        {
            return Ok(Transformed::yes(lit(value)));
        }
        if let Expr::ScalarFunction(call) = &expr
            && call.func == self.opaque
            && let Some(Expr::ScalarFunction(inner)) = call.args.first()
            && inner.func == self.opaque
        {
            // The plan is analyzed again.
            return Ok(Transformed::yes(Expr::ScalarFunction(inner.clone())));
        }
        let changes = self.is_changing_cast(&expr, schema);
        let exact = self.exact(expr, schema)?;
        Ok(match changes {
            true => Transformed::yes(self.opaque.call(vec![exact.data])),
            false => exact,
        })
    }

    /// Returns the type of an expression. The engine makes the names of all arguments to find the type of a call, which takes
    /// long for casts of casts.
    fn type_of(&self, expr: &Expr, schema: &DFSchema) -> Result<DataType> {
        match expr {
            Expr::ScalarFunction(call) if call.func == self.opaque => match call.args.as_slice() {
                [Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. })] => {
                    Ok(field.data_type().clone())
                }
                _ => expr.get_type(schema),
            },
            _ => expr.get_type(schema),
        }
    }

    /// Whether an expression is a cast that the engine must not compare by its operand.
    fn is_changing_cast(&self, expr: &Expr, schema: &DFSchema) -> bool {
        let (operand, to) = match expr {
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
                (expr.as_ref(), Ok(field.data_type().clone()))
            }
            Expr::ScalarFunction(call) if CASTS.contains(&call.func.name()) => match call.args.first() {
                Some(operand) => (operand, expr.get_type(schema)),
                None => return false,
            },
            _ => return false,
        };
        match (self.type_of(operand, schema), to) {
            (Ok(from), Ok(to)) => literals::literal(operand).is_none() && changes_values(&from, &to),
            _ => false,
        }
    }

    fn exact(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::Cast(Cast { expr, field }) => {
                let is_text = self.type_of(&expr, schema).is_ok_and(|source| source.is_string());
                let cast = self
                    .operand(*expr, field.data_type(), schema)
                    .update_data(|expr| Expr::Cast(Cast { expr: Box::new(expr), field }));
                match is_text {
                    true => cast.transform_data(|mut expr| {
                        let changed = check_zone(&mut expr, schema);
                        Ok(Transformed::new_transformed(expr, changed))
                    })?,
                    false => cast,
                }
            }
            Expr::TryCast(TryCast { expr, field }) => self
                .operand(*expr, field.data_type(), schema)
                .update_data(|expr| Expr::TryCast(TryCast { expr: Box::new(expr), field })),
            Expr::ScalarFunction(call) if CASTS.contains(&call.func.name()) => {
                let Ok(to) = Expr::ScalarFunction(call.clone()).get_type(schema) else {
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                };
                let ScalarFunction { func, mut args } = call;
                let changed = args.first_mut().is_some_and(|first| {
                    let operand = self.operand(std::mem::take(first), &to, schema);
                    *first = operand.data;
                    operand.transformed
                });
                Transformed::new_transformed(Expr::ScalarFunction(ScalarFunction { func, args }), changed)
            }
            Expr::ScalarFunction(mut call) if call.func.name() == "to_char" => {
                let changed = call.args.first_mut().is_some_and(|time| check_zone(time, schema));
                Transformed::new_transformed(Expr::ScalarFunction(call), changed)
            }
            Expr::BinaryExpr(BinaryExpr { mut left, op: op @ (Operator::Plus | Operator::Minus), mut right }) => {
                let is_interval = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
                let mut changed = false;
                if is_interval(&left) || is_interval(&right) {
                    changed |= check_zone(&mut left, schema);
                    changed |= check_zone(&mut right, schema);
                }
                let mut sum = Expr::BinaryExpr(BinaryExpr { left, op, right });
                if changed {
                    check_zone(&mut sum, schema);
                }
                Transformed::new_transformed(sum, changed)
            }
            other => Transformed::no(other),
        })
    }

    /// Returns the replacement for `expr` in a cast to `to`.
    fn operand(&self, expr: Expr, to: &DataType, schema: &DFSchema) -> Transformed<Expr> {
        let Ok(from) = self.type_of(&expr, schema) else { return Transformed::no(expr) };
        let (to_unit, to_zone) = match to {
            DataType::Timestamp(unit, zone) => (*unit, zone.as_ref()),
            DataType::Date64 => (TimeUnit::Millisecond, None),
            DataType::Date32 | DataType::Time32(_) | DataType::Time64(_) => (TimeUnit::Nanosecond, None),
            DataType::Decimal32(..) | DataType::Decimal64(..) if from.is_integer() => {
                return Transformed::yes(cast(expr, INTEGERS));
            }
            DataType::Float64 if is_rounded_twice(&from) => return Transformed::yes(self.to_double.call(vec![expr])),
            _ => return Transformed::no(expr),
        };
        let DataType::Timestamp(unit, zone) = from else { return Transformed::no(expr) };
        let moved = match (zone.as_ref(), to_zone) {
            (Some(zone), None) | (None, Some(zone)) if !matches!(zone.as_ref(), DEFAULT_ZONE | "+00:00" | "Z") => {
                let zone = Expr::Literal(ScalarValue::Utf8(Some(zone.to_string())), None);
                Transformed::yes(self.at_time_zone.call(vec![expr, zone]))
            }
            _ => Transformed::no(expr),
        };
        let period = match to_unit {
            _ if to_unit >= unit => return moved,
            TimeUnit::Second => "second",
            TimeUnit::Millisecond => "millisecond",
            TimeUnit::Microsecond | TimeUnit::Nanosecond => "microsecond",
        };
        Transformed::yes(self.date_trunc.call(vec![lit(period), moved.data]))
    }
}

/// Whether a cast changes some values, has none for them, or changes their order. Those that the engine does not compare by
/// their operands do not count.
fn changes_values(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Dictionary(_, from), to) => changes_values(from, to),
        (from, DataType::Dictionary(_, to)) => changes_values(from, to),
        (DataType::Timestamp(..), DataType::Time32(_) | DataType::Time64(_)) => true,
        (from, DataType::Boolean) => from.is_numeric(),
        (from, to) => match (numbers(from), numbers(to)) {
            (Some((least, most, scale)), Some((to_least, to_most, to_scale))) => {
                least < to_least || most > to_most || scale > to_scale
            }
            _ => false,
        },
    }
}

/// Returns the least and the greatest number of an integer or decimal type, approximately, and its scale.
fn numbers(data_type: &DataType) -> Option<(f64, f64, i8)> {
    let signed = |bits: i32| Some((-2_f64.powi(bits - 1), 2_f64.powi(bits - 1), 0));
    let unsigned = |bits: i32| Some((0.0, 2_f64.powi(bits), 0));
    match data_type {
        DataType::Int8 => signed(8),
        DataType::Int16 => signed(16),
        DataType::Int32 => signed(32),
        DataType::Int64 => signed(64),
        DataType::UInt8 => unsigned(8),
        DataType::UInt16 => unsigned(16),
        DataType::UInt32 => unsigned(32),
        DataType::UInt64 => unsigned(64),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            let most = 10_f64.powi(i32::from(*precision) - i32::from(*scale));
            Some((-most, most, *scale))
        }
        _ => None,
    }
}

/// Replaces a timestamp in a zone with summer time by one that is refused if the engine does not know its local time.
/// Returns whether it did.
fn check_zone(expr: &mut Expr, schema: &DFSchema) -> bool {
    let Ok(data_type) = expr.get_type(schema) else { return false };
    match InZoneTable::check(expr.clone(), &data_type) {
        Some(checked) => {
            *expr = checked;
            true
        }
        None => false,
    }
}
