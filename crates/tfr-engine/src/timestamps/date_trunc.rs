//! The function `date_trunc`, for the full range of each unit and the offsets of time zones after 2099.

use std::sync::Arc;

use arrow::array::temporal_conversions::as_datetime;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_schema::{DataType, FieldRef, TimeUnit};
use chrono::{Datelike as _, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike as _};
use datafusion::functions::datetime;
use datafusion_common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::units_per_second;
use crate::zone_offsets::parse_zone;
use crate::zone_offsets::{offset_at, offsets_of_local};

/// The engine's function, except for timestamps: it computes their periods in nanoseconds.
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let period = match args.args.as_slice() {
            [ColumnarValue::Scalar(name), _] => name.try_as_str().flatten().and_then(Period::named),
            _ => None,
        };
        match (period, args.args.get(1)) {
            (Some(period), Some(ColumnarValue::Array(times))) if is_timestamp(times.data_type()) => {
                Ok(ColumnarValue::Array(truncate(times, period)?))
            }
            (Some(period), Some(ColumnarValue::Scalar(time))) if is_timestamp(&time.data_type()) => {
                let truncated = truncate(&time.to_array()?, period)?;
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

fn is_timestamp(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Returns the length of periods that all have the same one, in nanoseconds.
    fn length(self) -> Option<i64> {
        const SECOND: i64 = 1_000_000_000;
        const DAY: i64 = 24 * 3600 * SECOND;
        Some(match self {
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => SECOND,
            Self::Minute => 60 * SECOND,
            Self::Hour => 3600 * SECOND,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month | Self::Quarter | Self::Year => return None,
        })
    }

    /// Returns the start of the period that contains a local time. Weeks begin on Monday.
    fn beginning(self, time: NaiveDateTime) -> Option<NaiveDateTime> {
        let date = time.date();
        let first_of = |month| NaiveDate::from_ymd_opt(date.year(), month, 1);
        let seconds = time.time().num_seconds_from_midnight();
        let (date, seconds) = match self {
            Self::Week => {
                let days = TimeDelta::days(i64::from(date.weekday().num_days_from_monday()));
                (date.checked_sub_signed(days)?, 0)
            }
            Self::Month => (first_of(date.month())?, 0),
            Self::Quarter => (first_of((date.month0() / 3) * 3 + 1)?, 0),
            Self::Year => (first_of(1)?, 0),
            Self::Day => (date, 0),
            Self::Hour => (date, seconds / 3600 * 3600),
            Self::Minute => (date, seconds / 60 * 60),
            Self::Second | Self::Millisecond | Self::Microsecond => (date, seconds),
        };
        Some(date.and_time(NaiveTime::from_num_seconds_from_midnight_opt(seconds, 0)?))
    }

    /// Returns the start of the period that contains an instant, by the local time of a zone.
    fn beginning_in(self, zone: Tz, time: NaiveDateTime) -> Option<NaiveDateTime> {
        let offset = offset_at(zone, time)?;
        let beginning = self.beginning(time.checked_add_signed(TimeDelta::seconds(offset))?)?;
        let offset = match offsets_of_local(zone, beginning)? {
            LocalResult::Single(offset) => offset,
            // Clocks were set back: use the occurrence with the offset of the instant itself.
            LocalResult::Ambiguous(_, second) if second == offset => second,
            LocalResult::Ambiguous(first, _) => first,
            // Clocks were set forward over the start: the period begins with the next hour that exists.
            LocalResult::None => {
                offsets_of_local(zone, beginning.checked_sub_signed(TimeDelta::hours(3))?)?.single()?
            }
        };
        beginning.checked_sub_signed(TimeDelta::seconds(offset))
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
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            truncate_unit::<TimestampNanosecondType>(times, zone.as_ref(), period)
        }
        other => exec_err!("date_trunc: no timestamp, but {other}"),
    }
}

fn truncate_unit<T: ArrowTimestampType>(
    times: &dyn Array,
    zone: Option<&Arc<str>>,
    period: Period,
) -> Result<ArrayRef> {
    let times = times.as_primitive::<T>();
    let out_of_range =
        |time: i64| exec_datafusion_err!("date_trunc: the timestamp {time} ({:?}) is out of range", T::UNIT);
    // Parts of seconds are the same in all zones.
    let is_utc = zone.is_none_or(|zone| matches!(zone.as_ref(), "UTC" | "Z" | "+00:00")) || period <= Period::Second;
    let truncated: PrimitiveArray<T> = match period.length() {
        Some(length) if is_utc => {
            // Zero if the period is shorter than the unit.
            let length = length / (1_000_000_000 / units_per_second(T::UNIT));
            // 1970-01-01 was a Thursday.
            let origin = if period == Period::Week { -3 * length / 7 } else { 0 };
            let beginning = |time: i64| time.checked_sub(time.checked_sub(origin)?.rem_euclid(length));
            match length {
                0 => times.clone(),
                _ => times.try_unary(|time| beginning(time).ok_or_else(|| out_of_range(time)))?,
            }
        }
        _ => {
            let zone = zone.map(|name| parse_zone(name)).transpose()?;
            times.try_unary(|time| {
                let moment = as_datetime::<T>(time);
                let beginning = moment.and_then(|moment| match zone {
                    Some(zone) => period.beginning_in(zone, moment),
                    None => period.beginning(moment),
                });
                beginning
                    .and_then(|beginning| T::from_naive_datetime(beginning, None))
                    .ok_or_else(|| out_of_range(time))
            })?
        }
    };
    Ok(Arc::new(truncated.with_timezone_opt(zone.cloned())))
}
