//! The function `date_bin`, for the full range of each unit.
//!
//! The engine computes in nanoseconds and returned NULL for what these cannot hold.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use chrono::{DateTime, Datelike as _, Months, NaiveDateTime};
use datafusion::functions::datetime;
use datafusion_common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{nanoseconds_of, units_per_second};

/// The engine's function for times of day, and ours for timestamps.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateBin {
    engines: Arc<ScalarUDF>,
    signature: Signature,
}

impl Default for DateBin {
    fn default() -> Self {
        Self { engines: datetime::date_bin(), signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DateBin {
    fn name(&self) -> &str {
        self.engines.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let stride = DataType::Interval(IntervalUnit::MonthDayNano);
        match types {
            [_, DataType::Timestamp(unit, zone)] => Ok(vec![stride, DataType::Timestamp(*unit, zone.clone())]),
            [_, source @ DataType::Timestamp(unit, zone), origin] => {
                let unit = match origin {
                    DataType::Timestamp(unit, _) => *unit,
                    // Texts are parsed in a unit that holds all years, unless the times are in nanoseconds.
                    _ => TimeUnit::Microsecond.max(*unit),
                };
                Ok(vec![stride, source.clone(), DataType::Timestamp(unit, zone.clone())])
            }
            _ => {
                let fields: Vec<_> = types
                    .iter()
                    .map(|data_type| Arc::new(arrow_schema::Field::new("", data_type.clone(), true)))
                    .collect();
                let fields = fields_with_udf(&fields, self.engines.as_ref())?;
                Ok(fields.iter().map(|field| field.data_type().clone()).collect())
            }
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engines.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (stride, times, origin) = match args.args.as_slice() {
            [stride, times] => (stride, times, None),
            [stride, times, origin] => (stride, times, Some(origin)),
            _ => return plan_err!("date_bin takes an interval, a time and an origin"),
        };
        if !matches!(times.data_type(), DataType::Timestamp(..)) {
            return self.engines.invoke_with_args(args);
        }
        let (ColumnarValue::Scalar(stride), None | Some(ColumnarValue::Scalar(_))) = (stride, origin) else {
            return exec_err!("the interval and the origin of date_bin must be constants");
        };
        let origin = match origin {
            Some(ColumnarValue::Scalar(origin)) => nanoseconds_of(origin),
            _ => Some(0),
        };
        let null = || Ok(ColumnarValue::Scalar(ScalarValue::try_from(times.data_type())?));
        let (Some(stride), Some(origin)) = (Stride::of(stride)?, origin) else { return null() };
        Ok(match times {
            ColumnarValue::Array(times) => ColumnarValue::Array(stride.bins(times, origin)?),
            ColumnarValue::Scalar(time) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&stride.bins(&time.to_array()?, origin)?, 0)?)
            }
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.engines.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engines.documentation()
    }
}

/// The width of the bins.
enum Stride {
    Months(i32),
    Nanoseconds(i128),
}

impl Stride {
    /// Reads an interval. Returns `None` for NULL.
    fn of(stride: &ScalarValue) -> Result<Option<Self>> {
        let ScalarValue::IntervalMonthDayNano(stride) = stride else {
            return exec_err!("date_bin takes an interval, not {}", stride.data_type());
        };
        let Some(stride) = stride else { return Ok(None) };
        let nanoseconds = i128::from(stride.days) * 86_400_000_000_000 + i128::from(stride.nanoseconds);
        match (stride.months, nanoseconds) {
            (0, 1..) => Ok(Some(Self::Nanoseconds(nanoseconds))),
            (months @ 1.., 0) => Ok(Some(Self::Months(months))),
            (0, _) | (_, 0) => exec_err!("the interval of date_bin must be greater than zero"),
            _ => exec_err!("the interval of date_bin has months and days or times: write one of them only"),
        }
    }

    fn bins(&self, times: &ArrayRef, origin: i128) -> Result<ArrayRef> {
        match times.data_type() {
            DataType::Timestamp(TimeUnit::Second, _) => self.bins_of_unit::<TimestampSecondType>(times, origin),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.bins_of_unit::<TimestampMillisecondType>(times, origin)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.bins_of_unit::<TimestampMicrosecondType>(times, origin)
            }
            _ => self.bins_of_unit::<TimestampNanosecondType>(times, origin),
        }
    }

    fn bins_of_unit<T: ArrowTimestampType>(&self, times: &ArrayRef, origin: i128) -> Result<ArrayRef> {
        let unit = 1_000_000_000 / i128::from(units_per_second(T::UNIT));
        let times = times.as_primitive::<T>();
        let bins: PrimitiveArray<T> = times.try_unary(|time| {
            let beginning = self.beginning(i128::from(time) * unit, origin);
            beginning
                .and_then(|beginning| i64::try_from(beginning.div_euclid(unit)).ok())
                .ok_or_else(|| exec_datafusion_err!("date_bin: the bin of {time} ({:?}) is out of range", T::UNIT))
        })?;
        Ok(Arc::new(bins.with_timezone_opt(times.timezone().map(Arc::from))))
    }

    /// Returns the start of the bin that contains a time. All are in nanoseconds since 1970.
    fn beginning(&self, time: i128, origin: i128) -> Option<i128> {
        match self {
            Self::Nanoseconds(stride) => Some(time - (time - origin).rem_euclid(*stride)),
            Self::Months(stride) => {
                let (time, origin) = (date_time(time)?, date_time(origin)?);
                let months = (time.year() - origin.year()) * 12 + time.month() as i32 - origin.month() as i32;
                let months = months.div_euclid(*stride).checked_mul(*stride)?;
                let mut beginning = plus_months(origin, months)?;
                if beginning > time {
                    beginning = plus_months(origin, months.checked_sub(*stride)?)?;
                }
                let beginning = beginning.and_utc();
                let nanoseconds = i128::from(beginning.timestamp_subsec_nanos());
                Some(i128::from(beginning.timestamp()) * 1_000_000_000 + nanoseconds)
            }
        }
    }
}

fn date_time(nanoseconds: i128) -> Option<NaiveDateTime> {
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?;
    let fraction = u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).ok()?;
    DateTime::from_timestamp(seconds, fraction).map(|time| time.naive_utc())
}

fn plus_months(time: NaiveDateTime, months: i32) -> Option<NaiveDateTime> {
    match u32::try_from(months) {
        Ok(months) => time.checked_add_months(Months::new(months)),
        Err(_) => time.checked_sub_months(Months::new(months.unsigned_abs())),
    }
}
