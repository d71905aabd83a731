//! Detects values without a text form: times outside the day, dates and timestamps outside the calendar, durations that
//! are too long, and decimals with more digits than their type.
//!
//! Arrow's display and cast functions write some of these as `<invalid>` or `ERROR: ...`, truncate decimals, and format
//! some times outside the day as another time. Code that formats values as text checks for them first.

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::{
    as_datetime, date32_to_datetime, date64_to_datetime, try_duration_ms_to_duration, try_duration_s_to_duration,
};
use arrow_array::types::{
    ArrowTimestampType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, DurationMillisecondType, DurationSecondType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};

use crate::integers::integers;
use crate::nested::{Encoded, Lists, any_type};

/// A value without a text form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value} is not a valid {data_type}, so it cannot be written as text")]
pub struct NoText {
    /// The row of the array, from 0.
    pub row: usize,
    /// The stored integer.
    pub value: String,
    /// The type of the value, which may be nested in the array's type.
    pub data_type: DataType,
}

/// A value without a text form in a column of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column:?}, row {row}: {value} is not a valid {data_type}, so it cannot be written as text")]
pub struct NoTextError {
    /// The column.
    pub column: String,
    /// The row, from 0.
    pub row: u64,
    /// The stored integer.
    pub value: String,
    /// The type of the value, which may be nested in the column's type.
    pub data_type: DataType,
}

impl NoText {
    /// Converts to an error of `column`, adding `rows_before` to the row number.
    pub fn in_column(self, column: &str, rows_before: u64) -> NoTextError {
        let Self { row, value, data_type } = self;
        NoTextError { column: column.to_owned(), row: rows_before + row as u64, value, data_type }
    }
}

/// Whether a type, or one nested in it, has values without a text form.
pub fn may_lack_text(data_type: &DataType) -> bool {
    any_type(data_type, |data_type| match data_type {
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => true,
        DataType::Date32 | DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => true,
        // In nanoseconds every timestamp is within the calendar.
        DataType::Timestamp(unit, zone) => *unit != TimeUnit::Nanosecond || zone.is_some(),
        DataType::Duration(unit) => matches!(unit, TimeUnit::Second | TimeUnit::Millisecond),
        _ => false,
    })
}

/// Finds the first row with a value without a text form, at any depth. Values that no row refers to are ignored: those
/// under nulls, and those outside all lists and dictionary keys.
pub fn find_without_text(array: &dyn Array) -> Option<NoText> {
    find(array, Values::AnyWithoutText, &|_| true)
}

/// Finds the first row with a decimal of more digits than its type, at any depth, as [`find_without_text`] does.
pub fn find_beyond_precision(array: &dyn Array) -> Option<NoText> {
    find(array, Values::DecimalsBeyondPrecision, &|_| true)
}

/// The positions of all values without a text form, ascending, including those under nulls.
///
/// The array must be neither nested nor a dictionary.
pub fn positions_without_text(array: &dyn Array) -> Vec<usize> {
    let mut positions = Vec::new();
    let mut start = 0;
    while let Some(position) = first_at(array, Values::AnyWithoutText, start, &|_| true) {
        positions.push(position);
        start = position + 1;
    }
    positions
}

/// The kind of values to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    AnyWithoutText,
    DecimalsBeyondPrecision,
}

/// Finds the first visible row with such a value.
fn find(array: &dyn Array, values: Values, is_visible: &dyn Fn(usize) -> bool) -> Option<NoText> {
    if !may_lack_text(array.data_type()) {
        return None;
    }
    let is_visible = |row: usize| array.is_valid(row) && is_visible(row);
    if let Some(encoded) = Encoded::of(array) {
        return find_shared(encoded.values(), values, array.len(), |row| {
            is_visible(row).then(|| encoded.position(row)).flatten()
        });
    }
    if let Some(lists) = Lists::of(array) {
        // Both unreferenced items and values without a text form are rare.
        find(lists.items(), values, &|_| true)?;
        return (0..array.len()).filter(|row| is_visible(*row)).find_map(|row| {
            let found = find(&lists.row(row), values, &|_| true)?;
            Some(NoText { row, ..found })
        });
    }
    match array.data_type() {
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.filter_map(|column| find(column, values, &is_visible)).min_by_key(|found| found.row)
        }
        DataType::Union(fields, _) => {
            let union = array.as_union();
            let in_member = |id: i8| {
                let rows = |row: usize| (union.type_id(row) == id && is_visible(row)).then(|| union.value_offset(row));
                find_shared(union.child(id), values, union.len(), rows)
            };
            fields.iter().filter_map(|(id, _)| in_member(id)).min_by_key(|found| found.row)
        }
        data_type => {
            let row = first_at(array, values, 0, &is_visible)?;
            Some(NoText { row, value: stored(array, row), data_type: data_type.clone() })
        }
    }
}

/// Finds the first row with such a value. `position` maps a row to its position among the shared values.
fn find_shared(
    shared: &dyn Array,
    values: Values,
    rows: usize,
    position: impl Fn(usize) -> Option<usize>,
) -> Option<NoText> {
    find(shared, values, &|_| true)?;
    let mut used = vec![false; shared.len()];
    for row in 0..rows {
        if let Some(used) = position(row).and_then(|position| used.get_mut(position)) {
            *used = true;
        }
    }
    let is_used = |used: &[bool], position: usize| used.get(position).copied().unwrap_or_default();
    // Several values may lack text: report the one of the first row.
    let mut first: Option<NoText> = None;
    while let Some(found) = find(shared, values, &|position| is_used(&used, position)) {
        let row = (0..rows).find(|row| position(*row) == Some(found.row))?;
        if let Some(used) = used.get_mut(found.row) {
            *used = false;
        }
        if first.as_ref().is_none_or(|first| row < first.row) {
            first = Some(NoText { row, ..found });
        }
    }
    first
}

/// The first such value at or after `start`, in a non-nested array.
fn first_at(array: &dyn Array, values: Values, start: usize, is_visible: &dyn Fn(usize) -> bool) -> Option<usize> {
    fn first<T: ArrowPrimitiveType>(
        array: &dyn Array,
        start: usize,
        is_visible: &dyn Fn(usize) -> bool,
        lacks_text: impl Fn(T::Native) -> bool,
    ) -> Option<usize> {
        let numbers = array.as_primitive::<T>().values().get(start..)?;
        let places = numbers.iter().enumerate().filter(|(_, number)| lacks_text(**number));
        places.map(|(place, _)| place + start).find(|place| is_visible(*place))
    }
    fn first_time<T: ArrowPrimitiveType<Native: Into<i64>>>(
        array: &dyn Array,
        start: usize,
        is_visible: &dyn Fn(usize) -> bool,
        ticks_per_second: i64,
    ) -> Option<usize> {
        first::<T>(array, start, is_visible, |time| !(0..86_400 * ticks_per_second).contains(&time.into()))
    }
    fn first_timestamp<T: ArrowTimestampType>(
        array: &dyn Array,
        start: usize,
        is_visible: &dyn Fn(usize) -> bool,
        (ticks_per_second, has_zone): (i64, bool),
    ) -> Option<usize> {
        // Local time is within a day of UTC.
        let day = if has_zone { 86_400 * ticks_per_second } else { 0 };
        let is_in_calendar = |time: i64| as_datetime::<T>(time).is_some();
        first::<T>(array, start, is_visible, |time| {
            !(is_in_calendar(time.saturating_sub(day)) && is_in_calendar(time.saturating_add(day)))
        })
    }
    fn first_decimal<T: DecimalType>(
        array: &dyn Array,
        start: usize,
        is_visible: &dyn Fn(usize) -> bool,
        precision: u8,
    ) -> Option<usize> {
        first::<T>(array, start, is_visible, |number| !T::is_valid_decimal_precision(number, precision))
    }

    match array.data_type() {
        DataType::Decimal32(precision, _) => first_decimal::<Decimal32Type>(array, start, is_visible, *precision),
        DataType::Decimal64(precision, _) => first_decimal::<Decimal64Type>(array, start, is_visible, *precision),
        DataType::Decimal128(precision, _) => first_decimal::<Decimal128Type>(array, start, is_visible, *precision),
        DataType::Decimal256(precision, _) => first_decimal::<Decimal256Type>(array, start, is_visible, *precision),
        _ if values == Values::DecimalsBeyondPrecision => None,
        DataType::Date32 => first::<Date32Type>(array, start, is_visible, |day| date32_to_datetime(day).is_none()),
        DataType::Date64 => first::<Date64Type>(array, start, is_visible, |time| date64_to_datetime(time).is_none()),
        DataType::Time32(TimeUnit::Second) => first_time::<Time32SecondType>(array, start, is_visible, 1),
        DataType::Time32(_) => first_time::<Time32MillisecondType>(array, start, is_visible, 1_000),
        DataType::Time64(TimeUnit::Microsecond) => {
            first_time::<Time64MicrosecondType>(array, start, is_visible, 1_000_000)
        }
        DataType::Time64(_) => first_time::<Time64NanosecondType>(array, start, is_visible, 1_000_000_000),
        DataType::Timestamp(unit, zone) => {
            let has_zone = zone.is_some();
            match unit {
                TimeUnit::Second => first_timestamp::<TimestampSecondType>(array, start, is_visible, (1, has_zone)),
                TimeUnit::Millisecond => {
                    first_timestamp::<TimestampMillisecondType>(array, start, is_visible, (1_000, has_zone))
                }
                TimeUnit::Microsecond => {
                    first_timestamp::<TimestampMicrosecondType>(array, start, is_visible, (1_000_000, has_zone))
                }
                TimeUnit::Nanosecond => {
                    first_timestamp::<TimestampNanosecondType>(array, start, is_visible, (1_000_000_000, has_zone))
                }
            }
        }
        DataType::Duration(TimeUnit::Second) => {
            let is_too_long = |duration| try_duration_s_to_duration(duration).is_none();
            first::<DurationSecondType>(array, start, is_visible, is_too_long)
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            let is_too_long = |duration| try_duration_ms_to_duration(duration).is_none();
            first::<DurationMillisecondType>(array, start, is_visible, is_too_long)
        }
        _ => None,
    }
}

/// The stored integer of a value.
fn stored(array: &dyn Array, row: usize) -> String {
    fn number<T: ArrowPrimitiveType<Native: std::fmt::Display>>(array: &dyn Array, row: usize) -> String {
        array.as_primitive::<T>().values().get(row).map(T::Native::to_string).unwrap_or_default()
    }
    match array.data_type() {
        DataType::Decimal32(..) => number::<Decimal32Type>(array, row),
        DataType::Decimal64(..) => number::<Decimal64Type>(array, row),
        DataType::Decimal128(..) => number::<Decimal128Type>(array, row),
        DataType::Decimal256(..) => number::<Decimal256Type>(array, row),
        _ => integers(&array.slice(row, 1)).first().map(i64::to_string).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
