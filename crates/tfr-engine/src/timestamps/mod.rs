//! Timestamps in other units than nanoseconds, whose range ends in the year 2262: comparisons and differences with
//! other units and with dates, the start of periods, and conversions of numbers and texts.
//!
//! The engine converts both sides to the finest unit, usually nanoseconds. It therefore cannot compare a column that
//! contains 9999-12-31, a common "no end" value, with a literal, nor any column with such a literal. Numbers beyond
//! the range became the time at its end, and a time of the query beyond it NULL.
//!
//! Upstream: unreported. Held by `tests/slt/timestamps.slt`: Literals are compared with columns of any unit.

mod date_bin;
mod date_trunc;
mod instant;
mod numbers;

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow_schema::{DataType, TimeUnit};
use chrono::Utc;
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{Transformed, TreeNode as _};
use datafusion_common::{DFSchema, Result, ScalarValue};
use datafusion_expr::expr::{Cast, InList, ScalarFunction, TryCast};
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable as _, LogicalPlan, Operator, ScalarUDF, cast, lit,
};

use crate::comparable::qualified;
use crate::expressions::{is_comparison, rewrite_types};
use crate::zone_offsets::is_in_table;
use instant::Instant;
use numbers::{CastKind, exact_conversion, operand_of_cast};

/// Functions that return the time of the query.
const NOW: [&str; 2] = ["now", "current_date"];

/// Functions that return one of their arguments.
const CHOICES: [&str; 5] = ["coalesce", "nvl", "nullif", "greatest", "least"];

/// Functions whose second argument the engine converts to nanoseconds if it is a date or a text.
const OF_TIMESTAMPS: [&str; 3] = ["date_trunc", "date_bin", "date_part"];

/// Converts time operands to one unit where that loses nothing, before the engine's coercion would choose another:
///
/// * a SQL literal that nanoseconds cannot represent becomes a timestamp in microseconds;
/// * literals and `now()` get the unit of the columns that they are combined with;
/// * columns in nanoseconds are compared with columns in another unit by [`Instant`].
#[derive(Debug)]
pub(crate) struct ExactTimestamps {
    instant: Arc<ScalarUDF>,
}

impl Default for ExactTimestamps {
    fn default() -> Self {
        Self { instant: Arc::new(ScalarUDF::from(Instant::default())) }
    }
}

/// Returns the functions that sessions must register: some that the rules insert into plans, and some that replace the
/// engine's.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions =
        vec![ExactTimestamps::default().instant, date_trunc(), Arc::new(ScalarUDF::from(date_bin::DateBin::default()))];
    functions.extend(numbers::functions());
    functions
}

/// Returns the function `date_trunc`.
pub(crate) fn date_trunc() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(date_trunc::DateTrunc::default()))
}

impl AnalyzerRule for ExactTimestamps {
    fn name(&self) -> &str {
        "exact_timestamps"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_types(plan, |expr, columns| self.rewrite(expr, columns, config))
    }
}

impl ExactTimestamps {
    fn rewrite(&self, expr: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::Cast(Cast { expr, field }) => match far_literal(&expr, field.data_type()) {
                Some(literal) => Transformed::yes(lit(literal)),
                None => operand_of_cast(*expr, field.data_type(), CastKind::Cast, schema)?
                    .update_data(|expr| Expr::Cast(Cast { expr: Box::new(expr), field })),
            },
            Expr::TryCast(TryCast { expr, field }) => match far_literal(&expr, field.data_type()) {
                Some(literal) => Transformed::yes(lit(literal)),
                None => operand_of_cast(*expr, field.data_type(), CastKind::TryCast, schema)?
                    .update_data(|expr| Expr::TryCast(TryCast { expr: Box::new(expr), field })),
            },
            Expr::BinaryExpr(BinaryExpr { mut left, op: Operator::Minus, mut right }) => {
                let changed = self.align(&mut [&mut left, &mut right], schema, Use::Subtracted)?;
                Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }), changed)
            }
            Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
                let changed = self.align(&mut [&mut left, &mut right], schema, Use::Compared)?;
                Transformed::new_transformed(Expr::BinaryExpr(BinaryExpr { left, op, right }), changed)
            }
            Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
                let changed = self.align(&mut [&mut expr, &mut low, &mut high], schema, Use::Compared)?;
                Transformed::new_transformed(Expr::Between(Between { expr, negated, low, high }), changed)
            }
            Expr::InList(InList { mut expr, mut list, negated }) => {
                let mut operands: Vec<&mut Expr> = std::iter::once(expr.as_mut()).chain(&mut list).collect();
                let changed = self.align(&mut operands, schema, Use::Compared)?;
                Transformed::new_transformed(Expr::InList(InList { expr, list, negated }), changed)
            }
            Expr::Case(Case { expr, mut when_then_expr, mut else_expr }) => {
                let results = when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
                let mut operands: Vec<&mut Expr> = results.chain(else_expr.as_deref_mut()).collect();
                let changed = self.align(&mut operands, schema, Use::Returned)?;
                Transformed::new_transformed(Expr::Case(Case { expr, when_then_expr, else_expr }), changed)
            }
            Expr::ScalarFunction(mut call) if CHOICES.contains(&call.func.name()) => {
                let mut operands: Vec<&mut Expr> = call.args.iter_mut().collect();
                let changed = self.align(&mut operands, schema, Use::Returned)?;
                Transformed::new_transformed(Expr::ScalarFunction(call), changed)
            }
            Expr::ScalarFunction(mut call) if OF_TIMESTAMPS.contains(&call.func.name()) => {
                let aligned = match call.args.get(1) {
                    Some(time) if is_text_literal(time) => {
                        let time = text_of(time).and_then(|text| timestamp_of(text, None));
                        time.filter(|time| matches!(time, ScalarValue::TimestampMicrosecond(..))).map(lit)
                    }
                    Some(time) if call.func.name() != "date_part" && is_date(&time.get_type(schema)?) => {
                        Some(cast(time.clone(), DataType::Timestamp(TimeUnit::Microsecond, None)))
                    }
                    _ => None,
                };
                let changed = aligned.is_some();
                if let (Some(time), Some(aligned)) = (call.args.get_mut(1), aligned) {
                    *time = aligned;
                }
                Transformed::new_transformed(Expr::ScalarFunction(call), changed)
            }
            Expr::ScalarFunction(call) => exact_conversion(call, schema, config)?,
            other => Transformed::no(other),
        })
    }

    /// Converts time operands of one expression to types that the engine's coercion combines without loss. Returns
    /// whether it changed any.
    fn align(&self, operands: &mut [&mut Expr], schema: &DFSchema, used: Use) -> Result<bool> {
        let Some(mut types) = operands.iter().map(|expr| expr.get_type(schema).ok()).collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        let is_time = |data_type: &DataType| is_date(data_type) || matches!(data_type, DataType::Timestamp(..));
        let fits = |(expr, data_type): (&&mut Expr, &DataType)| {
            is_time(data_type) || data_type.is_null() || is_text_literal(expr)
        };
        let differ = types.iter().any(|data_type| *data_type != types[0]);
        let has_timestamp = types.iter().any(|data_type| matches!(data_type, DataType::Timestamp(..)));
        // A text beside a minus may be an interval.
        let may_be_interval = used == Use::Subtracted && operands.iter().any(|expr| is_text_literal(expr));
        if !differ || !has_timestamp || may_be_interval || !operands.iter().zip(&types).all(fits) {
            return Ok(false);
        }

        // Like the engine: the first zone counts for all.
        let zone = types.iter().find_map(|data_type| match data_type {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        });
        let constants: Vec<_> = operands.iter().map(|expr| Constant::of(expr, schema)).collect();
        let variables = types.iter().zip(&constants).filter(|(_, constant)| constant.is_none());
        let unit = variables.map(|(data_type, _)| unit_of(data_type)).max().unwrap_or(TimeUnit::Microsecond);
        let unit = if used == Use::Subtracted { unit.max(TimeUnit::Microsecond) } else { unit };
        let common = DataType::Timestamp(unit, zone.clone());

        let mut changed = false;
        for ((operand, data_type), constant) in operands.iter_mut().zip(&mut types).zip(constants) {
            let aligned = match constant {
                Some(Constant::Literal(value)) if !value.is_null() => in_unit(&value, &common).map(lit),
                Some(Constant::Now) => {
                    let zone = if let DataType::Timestamp(_, zone) = &*data_type { zone } else { &zone };
                    Some(cast(operand.clone(), DataType::Timestamp(unit.max(TimeUnit::Microsecond), zone.clone())))
                }
                None if is_date(data_type) && unit < TimeUnit::Nanosecond => {
                    Some(cast(operand.clone(), common.clone()))
                }
                _ => None,
            };
            if let Some(aligned) = aligned {
                *data_type = aligned.get_type(schema)?;
                **operand = aligned;
                changed = true;
            }
        }

        let in_nanoseconds = |data_type: &DataType| matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _));
        let mixed = types.iter().any(in_nanoseconds)
            && types.iter().any(|data_type| is_time(data_type) && !in_nanoseconds(data_type));
        if mixed && used == Use::Compared && types.iter().all(|data_type| is_time(data_type) || data_type.is_null()) {
            let DataType::Timestamp(_, zone) = &common else { return Ok(changed) };
            for (operand, data_type) in operands.iter_mut().zip(&types).filter(|(_, data_type)| is_time(data_type)) {
                let zoned = DataType::Timestamp(unit_of(data_type), zone.clone());
                let time = qualified(std::mem::take(*operand), schema);
                let time = if *data_type == zoned { time } else { cast(time, zoned) };
                **operand = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&self.instant), vec![time]));
            }
            changed = true;
        }
        Ok(changed)
    }
}

/// How the operands are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Compared,
    Returned,
    /// The unit is that of the difference.
    Subtracted,
}

fn is_date(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64)
}

/// The kinds of operands that have the same value in all rows.
enum Constant {
    Literal(ScalarValue),
    /// Depends on the time of the query, such as `now() - INTERVAL '7 days'`. Fractions of a microsecond are ignored.
    Now,
}

impl Constant {
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Self> {
        if let Expr::Literal(value, _) = expr {
            return Some(Self::Literal(value.clone()));
        }
        if expr.any_column_refs() || expr.is_volatile() {
            return None;
        }
        let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
        let simplified = simplifier.coerce(expr.clone(), schema).and_then(|expr| simplifier.simplify(expr)).ok()?;
        if let Expr::Literal(value, _) = simplified {
            return Some(Self::Literal(value));
        }
        let names_now = |expr: &Expr| Ok(matches!(expr, Expr::ScalarFunction(call) if NOW.contains(&call.func.name())));
        expr.exists(names_now).is_ok_and(|found| found).then_some(Self::Now)
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

fn is_text_literal(expr: &Expr) -> bool {
    text_of(expr).is_some()
}

fn units_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns the nanoseconds of a timestamp since 1970, unless it is NULL.
fn nanoseconds_of(time: &ScalarValue) -> Option<i128> {
    let (time, unit) = match time {
        ScalarValue::TimestampSecond(time, _) => (time, TimeUnit::Second),
        ScalarValue::TimestampMillisecond(time, _) => (time, TimeUnit::Millisecond),
        ScalarValue::TimestampMicrosecond(time, _) => (time, TimeUnit::Microsecond),
        ScalarValue::TimestampNanosecond(time, _) => (time, TimeUnit::Nanosecond),
        _ => return None,
    };
    time.map(|time| i128::from(time) * i128::from(1_000_000_000 / units_per_second(unit)))
}

/// Returns the unit that represents a time type without loss.
fn unit_of(data_type: &DataType) -> TimeUnit {
    match data_type {
        DataType::Timestamp(unit, _) => *unit,
        DataType::Date64 => TimeUnit::Millisecond,
        _ => TimeUnit::Second,
    }
}

/// Parses a text that is cast to nanoseconds as a timestamp in microseconds, if nanoseconds cannot represent it.
fn far_literal(expr: &Expr, target: &DataType) -> Option<ScalarValue> {
    let DataType::Timestamp(TimeUnit::Nanosecond, zone) = target else { return None };
    timestamp_of(text_of(expr)?, zone.as_ref()).filter(|value| matches!(value, ScalarValue::TimestampMicrosecond(..)))
}

/// Parses a text as a timestamp in nanoseconds, or in microseconds if nanoseconds cannot represent it.
fn timestamp_of(text: &str, zone: Option<&Arc<str>>) -> Option<ScalarValue> {
    let time = match zone {
        Some(name) => {
            let zone = name.parse::<Tz>().ok()?;
            let time = string_to_datetime(&zone, text).ok()?.with_timezone(&Utc);
            is_in_table(zone, time.naive_utc()).then_some(time)?
        }
        None => string_to_datetime(&Utc, text).ok()?,
    };
    let zone = zone.cloned();
    match time.timestamp_nanos_opt() {
        Some(nanos) => Some(ScalarValue::TimestampNanosecond(Some(nanos), zone)),
        None if time.timestamp_subsec_nanos() % 1_000 == 0 => {
            Some(ScalarValue::TimestampMicrosecond(Some(time.timestamp_micros()), zone))
        }
        None => None,
    }
}

/// Converts a time to another type, if that is exact. A text that does not fit is parsed as a timestamp instead.
fn in_unit(value: &ScalarValue, target: &DataType) -> Option<ScalarValue> {
    let DataType::Timestamp(_, zone) = target else { return None };
    let exact = |value: &ScalarValue| {
        let there = value.cast_to(target).ok()?;
        let back = there.cast_to(&value.data_type()).ok()?;
        (back == *value).then_some(there)
    };
    match value.try_as_str() {
        Some(text) => {
            let value = timestamp_of(text?, zone.as_ref())?;
            Some(exact(&value).unwrap_or(value))
        }
        None => exact(value),
    }
}
