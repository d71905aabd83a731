//! `date_part` and `extract` of intervals and of timestamp differences, by the rules of PostgreSQL.
//!
//! A timestamp difference consists of days, hours, minutes and seconds. The engine returned the whole difference in
//! hours, in minutes and so on, and dropped the fractions of a second of an interval.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, Int32Array, Int64Array};
use arrow::compute::cast;
use arrow_schema::{DataType, FieldRef, IntervalUnit, TimeUnit};
use datafusion::arrow::datatypes::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, IntervalMonthDayNano,
    IntervalMonthDayNanoType,
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

/// Like the engine's `date_part`, except for intervals and durations.
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
        self.0.return_field_from_args(args)
    }

    fn preimage(&self, args: &[Expr], value: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.0.preimage(args, value, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [part, value] = take_function_args(self.name(), &mut args.args)?;
        let intervals = match value {
            ColumnarValue::Array(array) => intervals(array)?,
            ColumnarValue::Scalar(scalar) => intervals(&scalar.to_array()?)?,
        };
        let Some(intervals) = intervals else { return self.0.invoke_with_args(args) };
        let part = match part {
            ColumnarValue::Scalar(part) => part.try_as_str().flatten().and_then(below_a_minute),
            ColumnarValue::Array(_) => None,
        };
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let result = |array: ArrayRef| -> Result<ColumnarValue> {
            Ok(match is_scalar {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
                false => ColumnarValue::Array(array),
            })
        };
        match part {
            Some(part) => result(part.of(&intervals)),
            None => {
                *value = result(intervals)?;
                self.0.invoke_with_args(args)
            }
        }
    }
}

/// Parts for which the engine returns no correct numbers.
enum IntervalPart {
    /// A unit below the second. Includes the seconds of the minute.
    Fraction(i64),
    Nanosecond,
    Epoch,
}

/// Returns the part with this name, if it includes fractions of a second.
fn below_a_minute(name: &str) -> Option<IntervalPart> {
    let name = name.trim_matches(['\'', '"']).to_lowercase();
    Some(match name.as_str() {
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds" => {
            IntervalPart::Fraction(1_000_000)
        }
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds" => {
            IntervalPart::Fraction(1_000)
        }
        "ns" | "nsec" | "nsecs" | "nsecond" | "nseconds" | "nanosecond" | "nanoseconds" => IntervalPart::Nanosecond,
        "epoch" => IntervalPart::Epoch,
        _ => return None,
    })
}

impl IntervalPart {
    fn of(&self, intervals: &ArrayRef) -> ArrayRef {
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
        match self {
            // Less than 60,000,000: an i32.
            Self::Fraction(unit) => Arc::new(
                intervals
                    .map(|interval| interval.and_then(|it| i32::try_from(it.nanoseconds % MINUTE / unit).ok()))
                    .collect::<Int32Array>(),
            ),
            Self::Nanosecond => {
                Arc::new(intervals.map(|interval| interval.map(|it| it.nanoseconds % MINUTE)).collect::<Int64Array>())
            }
            Self::Epoch => Arc::new(intervals.map(|interval| interval.map(epoch)).collect::<Float64Array>()),
        }
    }
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
