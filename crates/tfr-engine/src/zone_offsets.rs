//! Offsets of time zones, also after the year 2099.
//!
//! The table of time zones (`chrono-tz`) ends in 2099: from then on, no clock was set forward or back any more, and a
//! summer time in which 2099 ended lasted for ever. The rules of a zone name months, days and weekdays. A time after
//! the table therefore has the offset of the same month, day, weekday and clock in one of its last years. Each weekday
//! occurs on each day of 2089 to 2099, which follow the last years that are listed singly (those of Ramadan).
//!
//! Where the engine itself reads the table, [`InZoneTable`] refuses values for which the table is wrong.
//!
//! Upstream: unreported. Held by `tests/slt/times.slt`: Summer time goes on after 2099.

use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow::array::temporal_conversions::as_datetime;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::{Int64Type, TimestampSecondType};
use arrow_schema::{DataType, TimeUnit};
use chrono::{Datelike as _, LocalResult, NaiveDate, NaiveDateTime, Offset as _, TimeDelta, TimeZone as _};
use datafusion_common::utils::take_function_args;
use datafusion_common::{DataFusionError, Result, exec_err};
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The zone of `TIMESTAMP WITH TIME ZONE` in a session without a time zone setting.
pub const DEFAULT_ZONE: &str = "UTC";

/// Parses the name of a time zone.
pub fn parse_zone(zone: &str) -> Result<Tz> {
    zone.parse().map_err(|_| {
        DataFusionError::Plan(format!(
            "no time zone {zone:?}; use a name such as 'Europe/Berlin' or an offset such as '+02:00'"
        ))
    })
}

/// Whether a zone has one offset at all times, which its name states.
pub fn is_fixed(zone: &str) -> bool {
    zone.starts_with(['+', '-']) || matches!(zone, DEFAULT_ZONE | "Z")
}

/// The years whose offsets repeat.
const LAST_YEARS: std::ops::RangeInclusive<i32> = 2089..=2099;

/// Returns the offset of a zone from UTC at an instant, in seconds.
pub fn offset_at(zone: Tz, time: NaiveDateTime) -> Option<i64> {
    Some(seconds(&zone.offset_from_utc_datetime(&in_table(time)?)))
}

/// Returns the offset of a zone from UTC at a local time, in seconds. Where clocks were set forward or back, standard
/// time applies, as in PostgreSQL.
pub fn offset_of_local(zone: Tz, time: NaiveDateTime) -> Option<i64> {
    match offsets_of_local(zone, time)? {
        LocalResult::Single(offset) => Some(offset),
        // The time occurs twice, because clocks were set back: standard time is the second.
        LocalResult::Ambiguous(_, later) => Some(later),
        // The time does not occur, because clocks were set forward: use the offset before the change.
        LocalResult::None => offset_at(zone, time.checked_sub_signed(TimeDelta::days(1))?),
    }
}

/// Returns the offsets that a local time may have, in seconds.
pub fn offsets_of_local(zone: Tz, time: NaiveDateTime) -> Option<LocalResult<i64>> {
    Some(zone.offset_from_local_datetime(&in_table(time)?).map(|offset| seconds(&offset)))
}

/// Whether the table itself has the offset of an instant.
pub fn is_in_table(zone: Tz, time: NaiveDateTime) -> bool {
    time.year() <= *LAST_YEARS.end() || offset_at(zone, time) == Some(seconds(&zone.offset_from_utc_datetime(&time)))
}

fn seconds(offset: &<Tz as chrono::TimeZone>::Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc())
}

/// Returns a time with the same offset that the table covers.
fn in_table(time: NaiveDateTime) -> Option<NaiveDateTime> {
    if time.year() <= *LAST_YEARS.end() {
        return Some(time);
    }
    let date = time.date();
    // No clock is set on the last days of February.
    let date = if (date.month(), date.day()) == (2, 29) { date.pred_opt()? } else { date };
    let same_day = |year| NaiveDate::from_ymd_opt(year, date.month(), date.day());
    let same_weekday = |day: &NaiveDate| day.weekday() == date.weekday();
    Some(LAST_YEARS.filter_map(same_day).find(same_weekday)?.and_time(time.time()))
}

/// Returns timestamps with time zone unchanged, if the table has their offsets.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct InZoneTable(Signature);

impl Default for InZoneTable {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

impl InZoneTable {
    /// Returns the function.
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self::default()))
    }

    /// Returns a call of the function, unless the value is one, or has no zone with summer time.
    pub fn check(expr: Expr, data_type: &DataType) -> Option<Expr> {
        let is_checked = matches!(&expr, Expr::ScalarFunction(call) if call.func.inner().is::<Self>());
        match data_type {
            DataType::Timestamp(_, Some(zone)) if !is_fixed(zone) && !is_checked => {
                Some(Self::function().call(vec![expr]))
            }
            _ => None,
        }
    }
}

impl ScalarUDFImpl for InZoneTable {
    fn name(&self) -> &str {
        "in_zone_table"
    }

    /// Returns the name of the argument, so that columns keep their names.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [argument] = take_function_args(self.name(), args)?;
        Ok(argument.schema_name().to_string())
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [times] = take_function_args(self.name(), types)?;
        Ok(times.clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        /// 2100-01-01.
        const END: i64 = 4_102_444_800;
        let [times] = take_function_args(self.name(), args.args)?;
        let array: ArrayRef = match &times {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let DataType::Timestamp(_, Some(zone)) = array.data_type() else { return Ok(times) };
        let parsed = parse_zone(zone)?;
        let seconds = cast(&array, &DataType::Timestamp(TimeUnit::Second, Some(Arc::clone(zone))))?;
        let seconds = seconds.as_primitive::<TimestampSecondType>().reinterpret_cast::<Int64Type>();
        let far = seconds.iter().flatten().filter(|time| *time >= END);
        let mut far = far.filter_map(as_datetime::<TimestampSecondType>);
        match far.find(|time| !is_in_table(parsed, *time)) {
            Some(time) => exec_err!(
                "the local time of {time} UTC in {zone} is not known here, because the table of time zones ends in \
                 2099: write x AT TIME ZONE '{zone}' first"
            ),
            None => Ok(times),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> NaiveDateTime {
        text.parse().expect("a time")
    }

    /// The answers are PostgreSQL's.
    #[test]
    fn summer_time_goes_on_after_the_table() {
        let offset = |zone: &str, text| offset_at(zone.parse().expect("a zone"), time(text)).expect("an offset") / 60;
        assert_eq!(offset("Europe/Berlin", "2101-07-01T12:00:00"), 120);
        assert_eq!(offset("Europe/Berlin", "2101-03-27T00:59:59"), 60);
        assert_eq!(offset("Europe/Berlin", "2101-03-27T01:00:00"), 120);
        assert_eq!(offset("Europe/Berlin", "2104-02-29T12:00:00"), 60);
        assert_eq!(offset("Europe/Berlin", "9999-12-31T00:00:00"), 60);
        assert_eq!(offset("America/New_York", "2500-11-07T05:59:59"), -240);
        assert_eq!(offset("America/New_York", "2500-11-07T06:00:00"), -300);
        assert_eq!(offset("Australia/Sydney", "2100-06-01T00:00:00"), 600);
        assert_eq!(offset("Australia/Sydney", "9999-12-31T00:00:00"), 660);
        assert_eq!(offset("Asia/Tokyo", "2500-06-01T00:00:00"), 540);
        assert_eq!(offset("+02:00", "2500-06-01T00:00:00"), 120);
    }

    #[test]
    fn every_day_has_its_weekday_in_the_last_years() {
        let mut day = time("2100-01-01T00:00:00");
        while day.year() < 2141 {
            assert!(in_table(day).is_some(), "{day}");
            day += TimeDelta::days(1);
        }
    }

    #[test]
    fn local_times_of_changes_have_standard_time() {
        let berlin: Tz = "Europe/Berlin".parse().expect("a zone");
        assert_eq!(offset_of_local(berlin, time("2101-10-30T02:30:00")), Some(3600));
        assert_eq!(offset_of_local(berlin, time("2101-03-27T02:30:00")), Some(3600));
        assert_eq!(offset_of_local(berlin, time("2101-03-27T03:30:00")), Some(7200));
        assert!(!is_in_table(berlin, time("2101-07-01T00:00:00")));
        assert!(is_in_table(berlin, time("2101-12-01T00:00:00")));
    }
}
