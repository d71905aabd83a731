//! The function `date_trunc`, for the full range of each unit.

use std::sync::Arc;

use arrow::array::temporal_conversions::as_datetime;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use chrono::{
    Datelike as _, Days, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset as _, TimeDelta, TimeZone as _,
    Timelike as _,
};
use datafusion::functions::datetime;
use datafusion_common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The engine's function, which computes in nanoseconds, except for timestamps in other units.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateTrunc {
    engines: Arc<ScalarUDF>,
}

impl Default for DateTrunc {
    fn default() -> Self {
        Self { engines: datetime::date_trunc() }
    }
}

impl ScalarUDFImpl for DateTrunc {
    fn name(&self) -> &str {
        self.engines.name()
    }

    fn aliases(&self) -> &[String] {
        self.engines.aliases()
    }

    fn signature(&self) -> &Signature {
        self.engines.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.engines.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.engines.return_field_from_args(args)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let period = match args.args.as_slice() {
            [ColumnarValue::Scalar(name), _] => name.try_as_str().flatten().and_then(Period::named),
            _ => None,
        };
        match (period, args.args.get(1)) {
            (Some(period), Some(ColumnarValue::Array(times))) if is_ours(times.data_type()) => {
                Ok(ColumnarValue::Array(truncate(times, period)?))
            }
            (Some(period), Some(ColumnarValue::Scalar(time))) if is_ours(&time.data_type()) => {
                let truncated = truncate(&time.to_array()?, period)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&truncated, 0)?))
            }
            // For a scalar, the engine's function rounds milliseconds and microseconds toward 1970. For a column it
            // does not.
            (Some(_), Some(ColumnarValue::Scalar(time @ ScalarValue::TimestampNanosecond(..)))) => {
                args.args[1] = ColumnarValue::Array(time.to_array()?);
                args.number_rows = 1;
                let truncated = self.engines.invoke_with_args(args)?.to_array(1)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&truncated, 0)?))
            }
            _ => self.engines.invoke_with_args(args),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.engines.output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engines.documentation()
    }
}

fn is_ours(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond, _))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Period {
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "microsecond" => Self::Microsecond,
            "millisecond" => Self::Millisecond,
            "second" => Self::Second,
            "minute" => Self::Minute,
            "hour" => Self::Hour,
            "day" => Self::Day,
            "week" => Self::Week,
            "month" => Self::Month,
            "quarter" => Self::Quarter,
            "year" => Self::Year,
            _ => return None,
        })
    }

    /// Returns the start of the period that contains a local time. Weeks begin on Monday.
    fn beginning(self, time: NaiveDateTime) -> Option<NaiveDateTime> {
        let date = time.date();
        let first_of = |month| NaiveDate::from_ymd_opt(date.year(), month, 1);
        let date = match self {
            Self::Week => date.checked_sub_days(Days::new(u64::from(date.weekday().num_days_from_monday())))?,
            Self::Month => first_of(date.month())?,
            Self::Quarter => first_of((date.month0() / 3) * 3 + 1)?,
            Self::Year => first_of(1)?,
            _ => date,
        };
        let clock = time.time();
        let nanosecond = match self {
            Self::Microsecond => clock.nanosecond() / 1_000 * 1_000,
            Self::Millisecond => clock.nanosecond() / 1_000_000 * 1_000_000,
            _ => 0,
        };
        let seconds = clock.num_seconds_from_midnight();
        let seconds = match self {
            Self::Microsecond | Self::Millisecond | Self::Second => seconds,
            Self::Minute => seconds / 60 * 60,
            Self::Hour => seconds / 3600 * 3600,
            _ => 0,
        };
        Some(date.and_time(NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanosecond)?))
    }

    /// Returns the start of the period that contains an instant, by the local time of a zone.
    fn beginning_in(self, zone: Tz, time: NaiveDateTime) -> Option<NaiveDateTime> {
        let moment = zone.from_utc_datetime(&time);
        let beginning = self.beginning(moment.naive_local())?;
        let moment = match zone.from_local_datetime(&beginning) {
            LocalResult::Single(moment) => moment,
            // Clocks were set back: use the occurrence with the offset of the instant itself.
            LocalResult::Ambiguous(first, second) if first.offset().fix() != moment.offset().fix() => second,
            LocalResult::Ambiguous(first, _) => first,
            // Clocks were set forward over the start: the period begins with the next hour that exists.
            LocalResult::None => {
                let earlier = beginning.checked_sub_signed(TimeDelta::hours(3))?;
                zone.from_local_datetime(&earlier).single()?.checked_add_signed(TimeDelta::hours(3))?
            }
        };
        Some(moment.naive_utc())
    }
}

fn truncate(times: &ArrayRef, period: Period) -> Result<ArrayRef> {
    match times.data_type() {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            truncate_unit::<TimestampSecondType>(times, zone.as_ref(), period)
        }
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            truncate_unit::<TimestampMillisecondType>(times, zone.as_ref(), period)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            truncate_unit::<TimestampMicrosecondType>(times, zone.as_ref(), period)
        }
        other => exec_err!("date_trunc: no timestamp in seconds, milliseconds or microseconds, but {other}"),
    }
}

fn truncate_unit<T: ArrowTimestampType>(
    times: &dyn Array,
    zone: Option<&Arc<str>>,
    period: Period,
) -> Result<ArrayRef> {
    let parsed_zone = zone.map(|name| name.parse::<Tz>()).transpose()?;
    let truncated: PrimitiveArray<T> = times.as_primitive::<T>().try_unary(|time| {
        let moment = as_datetime::<T>(time);
        let beginning = moment.and_then(|moment| match parsed_zone {
            Some(zone) => period.beginning_in(zone, moment),
            None => period.beginning(moment),
        });
        beginning
            .and_then(|beginning| T::from_naive_datetime(beginning, None))
            .ok_or_else(|| exec_datafusion_err!("date_trunc: the timestamp {time} ({:?}) is out of range", T::UNIT))
    })?;
    Ok(Arc::new(truncated.with_timezone_opt(zone.cloned())))
}
