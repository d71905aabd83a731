//! `date_part` and `extract`, by the rules of PostgreSQL: of intervals and of timestamp differences, fractions of
//! seconds, and local times after 2099.
//!
//! A timestamp difference consists of days, hours, minutes and seconds. The engine returned the whole difference in
//! hours, in minutes and so on. It dropped the fractions of seconds: those of 10.998 seconds were 10.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/local_times.slt`: A difference of timestamps is days, and hours, minutes and seconds below them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Float64Array};
use arrow::compute::cast;
use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::arrow::datatypes::{
    Decimal128Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use datafusion::functions::datetime::date_part;
use datafusion_common::utils::take_function_args;
use datafusion_common::{DataFusionError, Result, ScalarValue};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::planner::{ExprPlanner, PlannerResult};
use datafusion_expr::preimage::PreimageResult;
use datafusion_expr::simplify::SimplifyContext;
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::numbers::literals::DoubleLiteral;
use crate::time_zones::local_times;
use crate::zone_offsets::is_fixed;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const DAY: i64 = 24 * 60 * MINUTE;

/// Plans `extract` as a call of [`DatePart`], and numbers with an exponent as literals.
#[derive(Debug)]
pub struct Extract(Arc<ScalarUDF>);

impl Default for Extract {
    fn default() -> Self {
        Self(Arc::new(ScalarUDF::new_from_impl(DatePart::default())))
    }
}

impl ExprPlanner for Extract {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match DoubleLiteral::plan(args) {
            PlannerResult::Original(args) => {
                PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&self.0), args }))
            }
            number => number,
        })
    }
}

/// Like the engine's `date_part`, except for intervals, durations and fractions of seconds.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DatePart(Arc<ScalarUDF>);

impl Default for DatePart {
    fn default() -> Self {
        Self(date_part())
    }
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.0.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let part = match args.scalar_arguments {
            [Some(part), _] => part.try_as_str().flatten().and_then(Part::named),
            _ => None,
        };
        match (part, args.arg_fields) {
            (Some(Part::Seconds(digits)), [_, value]) => match decimal(value.data_type(), digits) {
                Some(decimal) => Ok(Arc::new(Field::new(self.name(), decimal, value.is_nullable()))),
                None => self.0.return_field_from_args(args),
            },
            _ => self.0.return_field_from_args(args),
        }
    }

    fn preimage(&self, args: &[Expr], value: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        // The engine's table of time zones does not cover local years after 2099.
        let is_far = matches!(value, Expr::Literal(ScalarValue::Int32(Some(year)), _) if *year >= 2099);
        let is_zoned = match args.get(1).map(|time| info.get_data_type(time)).transpose()? {
            Some(DataType::Timestamp(_, Some(zone))) => !is_fixed(&zone),
            _ => false,
        };
        if is_far && is_zoned {
            return Ok(PreimageResult::None);
        }
        Ok(match self.0.preimage(args, value, info)? {
            // The year begins or ends beyond what the type of the timestamps holds.
            PreimageResult::Range { interval, .. } if interval.lower().is_null() || interval.upper().is_null() => {
                PreimageResult::None
            }
            preimage => preimage,
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [part, value] = take_function_args(self.name(), &mut args.args)?;
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let values = match value {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let part = match part {
            ColumnarValue::Scalar(part) => part.try_as_str().flatten().and_then(Part::named),
            ColumnarValue::Array(_) => None,
        };
        let result = |array: ArrayRef| -> Result<ColumnarValue> {
            Ok(match is_scalar {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
                false => ColumnarValue::Array(array),
            })
        };
        let intervals = intervals(&values)?;
        match (part, intervals) {
            (Some(Part::Seconds(digits)), intervals) if decimal(values.data_type(), digits).is_some() => {
                let times = match intervals {
                    Some(intervals) => intervals,
                    None => local_times(&values)?,
                };
                result(seconds(values.data_type(), &times, digits)?)
            }
            (Some(Part::Seconds(digits)), Some(intervals)) => {
                let unit = 10_i64.pow(u32::from(9 - digits));
                let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
                // Less than 60,000,000: an i32.
                let number = |interval: IntervalMonthDayNano| i32::try_from(interval.nanoseconds % MINUTE / unit).ok();
                result(Arc::new(intervals.unary_opt::<_, Int32Type>(number)))
            }
            (Some(Part::Nanosecond), Some(intervals)) => {
                let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
                result(Arc::new(intervals.unary::<_, Int64Type>(|interval| interval.nanoseconds % MINUTE)))
            }
            (Some(Part::Epoch), Some(intervals)) => {
                let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
                result(Arc::new(intervals.iter().map(|interval| interval.map(epoch)).collect::<Float64Array>()))
            }
            // Seconds since 1970 do not depend on the zone.
            (Some(Part::Epoch), None) => self.0.invoke_with_args(args),
            (_, intervals) => {
                *value = result(match intervals {
                    Some(intervals) => intervals,
                    None => local_times(&values)?,
                })?;
                self.0.invoke_with_args(args)
            }
        }
    }
}

/// Parts for which the engine returns no correct numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The seconds of the minute, in units of a second with this number of digits.
    Seconds(u8),
    Nanosecond,
    Epoch,
}

impl Part {
    fn named(name: &str) -> Option<Self> {
        let name = name.trim_matches(['\'', '"']).to_lowercase();
        Some(match name.as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => Self::Seconds(0),
            "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => Self::Seconds(3),
            "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => Self::Seconds(6),
            "ns" | "nsec" | "nsecs" | "nsecond" | "nseconds" | "nanosecond" | "nanoseconds" => Self::Nanosecond,
            "epoch" => Self::Epoch,
            _ => return None,
        })
    }
}

/// Returns the number of digits of the fractions of a second that a type holds.
fn digits_of(data_type: &DataType) -> Option<u8> {
    use DataType::{Duration, Interval, Time32, Time64, Timestamp};
    Some(match data_type {
        Timestamp(unit, _) | Time32(unit) | Time64(unit) | Duration(unit) => match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        },
        Interval(IntervalUnit::YearMonth) => 0,
        Interval(IntervalUnit::DayTime) => 3,
        Interval(IntervalUnit::MonthDayNano) => 9,
        _ => return None,
    })
}

/// Returns the type of the seconds of a minute, in units with this number of digits, if a type holds fractions of
/// these.
fn decimal(data_type: &DataType, digits: u8) -> Option<DataType> {
    let fraction = digits_of(data_type)?.saturating_sub(digits);
    let scale = i8::try_from(fraction).ok().filter(|scale| *scale > 0)?;
    Some(DataType::Decimal128(2 + digits + fraction, scale))
}

/// Returns the seconds of the minute, of times in `data_type` or of the intervals of their durations.
fn seconds(data_type: &DataType, times: &ArrayRef, digits: u8) -> Result<ArrayRef> {
    let seconds: Decimal128Array = match times.data_type() {
        DataType::Interval(_) => {
            let unit = 10_i64.pow(u32::from(9 - digits_of(data_type).unwrap_or(9)));
            let intervals = times.as_primitive::<IntervalMonthDayNanoType>();
            intervals.unary::<_, Decimal128Type>(|interval| i128::from(interval.nanoseconds % MINUTE / unit))
        }
        _ => {
            let minute = 60 * 10_i64.pow(u32::from(digits_of(data_type).unwrap_or_default()));
            let numbers = match data_type {
                DataType::Time32(_) => cast(&cast(times, &DataType::Int32)?, &DataType::Int64)?,
                _ => cast(times, &DataType::Int64)?,
            };
            let numbers = numbers.as_primitive::<Int64Type>();
            numbers.unary::<_, Decimal128Type>(|time| i128::from(time.rem_euclid(minute)))
        }
    };
    Ok(match decimal(data_type, digits) {
        Some(decimal) => Arc::new(seconds.with_data_type(decimal)),
        None => Arc::new(seconds),
    })
}

/// Returns the seconds of an interval. A year has 365.25 days, as in PostgreSQL.
#[expect(clippy::cast_precision_loss, reason = "microseconds of years are exact, and the result is a double")]
fn epoch(interval: IntervalMonthDayNano) -> f64 {
    const MONTHS: i32 = 12;
    let quarters_of_days = i128::from(interval.months / MONTHS) * (365 * 4 + 1)
        + i128::from(interval.months % MONTHS) * (30 * 4)
        + i128::from(interval.days) * 4;
    let nanoseconds = quarters_of_days * i128::from(DAY / 4) + i128::from(interval.nanoseconds);
    let seconds = i128::from(SECOND);
    (nanoseconds / seconds) as f64 + (nanoseconds % seconds) as f64 / SECOND as f64
}

/// Converts intervals of other units, and durations, to intervals of months, days and nanoseconds.
fn intervals(array: &ArrayRef) -> Result<Option<ArrayRef>> {
    Ok(Some(match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => Arc::clone(array),
        DataType::Interval(_) => cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?,
        DataType::Duration(TimeUnit::Second) => of_durations::<DurationSecondType>(array, SECOND)?,
        DataType::Duration(TimeUnit::Millisecond) => of_durations::<DurationMillisecondType>(array, 1_000_000)?,
        DataType::Duration(TimeUnit::Microsecond) => of_durations::<DurationMicrosecondType>(array, 1_000)?,
        DataType::Duration(TimeUnit::Nanosecond) => of_durations::<DurationNanosecondType>(array, 1)?,
        _ => return Ok(None),
    }))
}

/// Converts durations to days, and nanoseconds below a day with the same sign.
fn of_durations<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef, nanoseconds: i64) -> Result<ArrayRef> {
    let per_day = DAY / nanoseconds;
    let intervals = array.as_primitive::<T>().try_unary::<_, IntervalMonthDayNanoType, _>(|value| {
        let days = i32::try_from(value / per_day)
            .map_err(|_| DataFusionError::Execution(format!("date_part: the duration {value} has too many days")))?;
        Ok::<_, DataFusionError>(IntervalMonthDayNano { months: 0, days, nanoseconds: value % per_day * nanoseconds })
    })?;
    Ok(Arc::new(intervals))
}
