//! Converts values that are equal in SQL to the same bits.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow_schema::{DataType, FieldRef, IntervalUnit};
use datafusion::arrow::datatypes::{
    Float16Type, Float32Type, Float64Type, IntervalDayTime, IntervalDayTimeType, IntervalMonthDayNano,
    IntervalMonthDayNanoType,
};
use datafusion_common::{DataFusionError, Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion_expr::interval_arithmetic::Interval;
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tfr_arrow::nested::{item, map_array};

use crate::opaque;

const DAYS_OF_MONTH: i128 = 30;
const NANOSECONDS_OF_DAY: i128 = 86_400_000_000_000;
const MILLISECONDS_OF_DAY: i64 = 86_400_000;

/// Whether the engine compares values of a type differently from SQL.
pub fn may_be_misread(data_type: &DataType) -> bool {
    data_type.is_floating() || is_interval(data_type)
}

/// Whether a type is a list whose items the engine compares differently from SQL.
pub fn items_may_be_misread(data_type: &DataType) -> bool {
    item(data_type).is_some_and(|item| may_be_misread(item.data_type()))
}

/// Whether the engine compares values differently from SQL that are in lists of any depth.
pub fn leaves_may_be_misread(data_type: &DataType) -> bool {
    item(data_type).map_or_else(|| may_be_misread(data_type), |item| leaves_may_be_misread(item.data_type()))
}

/// Whether a type is an interval with two or three parts. The engine compares the first parts first.
pub fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(IntervalUnit::MonthDayNano | IntervalUnit::DayTime))
}

/// Numbers with several representations of equal values.
pub trait OneOfEquals: Copy {
    /// Returns the representative of all equal values: 0 for -0, and one NaN for all.
    fn one_of_equals(self) -> Self;
}

macro_rules! one_of_equals {
    ($($float:ty: $nan:expr, $zero:expr;)*) => {
        $(impl OneOfEquals for $float {
            fn one_of_equals(self) -> Self {
                if self.is_nan() { $nan } else { self + $zero }
            }
        })*
    };
}

one_of_equals! {
    f64: Self::NAN, 0.0;
    f32: Self::NAN, 0.0;
    half::f16: Self::NAN, Self::ZERO;
}

/// Returns the representative of all equal values: 0 for -0, and one NaN for all.
pub fn comparable<T: OneOfEquals>(value: T) -> T {
    value.one_of_equals()
}

/// Returns the length of an interval in nanoseconds. A month has 30 days, a day 24 hours.
pub fn length(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * DAYS_OF_MONTH + i128::from(interval.days);
    days * NANOSECONDS_OF_DAY + i128::from(interval.nanoseconds)
}

/// Returns the interval of the same length with at least 0 and less than 30 days, and at least 0 and less than 24
/// hours. Such intervals sort by length when months are compared first.
fn of_length(interval: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let length = length(interval);
    let (days, nanoseconds) = (length.div_euclid(NANOSECONDS_OF_DAY), length.rem_euclid(NANOSECONDS_OF_DAY));
    let (months, days) = (days.div_euclid(DAYS_OF_MONTH), days.rem_euclid(DAYS_OF_MONTH));
    match (months.try_into(), days.try_into(), nanoseconds.try_into()) {
        (Ok(months), Ok(days), Ok(nanoseconds)) => Ok(IntervalMonthDayNano { months, days, nanoseconds }),
        _ => Err(out_of_range(format_args!("{interval:?}"))),
    }
}

fn of_length_in_days(interval: IntervalDayTime) -> Result<IntervalDayTime> {
    let milliseconds = i64::from(interval.milliseconds);
    let days = i64::from(interval.days) + milliseconds.div_euclid(MILLISECONDS_OF_DAY);
    match (days.try_into(), milliseconds.rem_euclid(MILLISECONDS_OF_DAY).try_into()) {
        (Ok(days), Ok(milliseconds)) => Ok(IntervalDayTime { days, milliseconds }),
        _ => Err(out_of_range(format_args!("{interval:?}"))),
    }
}

fn out_of_range(interval: std::fmt::Arguments<'_>) -> DataFusionError {
    DataFusionError::Execution(format!("interval out of range: {interval} cannot be compared"))
}

/// Converts values so that equal values have the same bits.
///
/// # Errors
/// If the type needs no conversion, or if an interval has too many months.
pub fn comparable_array(values: &ArrayRef) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType<Native: OneOfEquals>>(values: &ArrayRef) -> ArrayRef {
        Arc::new(values.as_primitive::<T>().unary::<_, T>(comparable))
    }
    fn try_of<T: ArrowPrimitiveType>(
        values: &ArrayRef,
        of: impl Fn(T::Native) -> Result<T::Native>,
    ) -> Result<ArrayRef> {
        let values: PrimitiveArray<T> = values.as_primitive::<T>().try_unary(of)?;
        Ok(Arc::new(values))
    }
    match values.data_type() {
        list if list.is_list() => map_array(values, comparable_array),
        DataType::Float64 => Ok(of::<Float64Type>(values)),
        DataType::Float32 => Ok(of::<Float32Type>(values)),
        DataType::Float16 => Ok(of::<Float16Type>(values)),
        DataType::Interval(IntervalUnit::MonthDayNano) => try_of::<IntervalMonthDayNanoType>(values, of_length),
        DataType::Interval(IntervalUnit::DayTime) => try_of::<IntervalDayTimeType>(values, of_length_in_days),
        other => {
            exec_err!("{} is for floating point numbers, intervals and lists of these, not {other}", Comparable::NAME)
        }
    }
}

/// Converts values, or the items of lists of any depth, if their type needs it.
///
/// # Errors
/// If an interval has too many months.
pub fn comparable_leaves(values: &ArrayRef) -> Result<ArrayRef> {
    match leaves_may_be_misread(values.data_type()) {
        true => comparable_array(values),
        false => Ok(Arc::clone(values)),
    }
}

/// Gives equal values the same bits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Comparable(Signature);

impl Comparable {
    /// The function name in plans.
    pub const NAME: &str = "comparable";

    /// Returns the function.
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self(Signature::any(1, Volatility::Immutable))))
    }
}

impl ScalarUDFImpl for Comparable {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{}: return_field_from_args is called instead", Self::NAME)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [argument] if may_be_misread(argument.data_type()) || items_may_be_misread(argument.data_type()) => {
                Ok(Arc::clone(argument))
            }
            _ => plan_err!("{} takes a floating point number, an interval or a list of these", Self::NAME),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        opaque::unbounded(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match args.args.as_slice() {
            [ColumnarValue::Array(values)] => ColumnarValue::Array(comparable_array(values)?),
            [ColumnarValue::Scalar(value)] => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&comparable_array(&value.to_array()?)?, 0)?)
            }
            _ => return exec_err!("{} takes one argument", Self::NAME),
        })
    }
}
