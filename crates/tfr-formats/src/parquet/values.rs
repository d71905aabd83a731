//! Converts values that the library returns as bytes: INT96 timestamps and intervals.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowTimestampType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, FixedSizeBinaryArray, FixedSizeListArray, LargeListArray, ListArray, MapArray, PrimitiveArray,
    StructArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};

use super::schema::WIDE;

const DAY: i128 = 86_400_000_000_000;

/// The Julian day of 1970-01-01.
const EPOCH: i128 = 2_440_588;

/// A value that is out of range for its column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub(super) value: String,
    pub(super) expected: DataType,
    pub(super) reason: Reason,
}

/// Why a type cannot represent a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is beyond the range of the type.
    Beyond,
    /// It is more precise than the type.
    Finer,
    /// It is invalid: an INT96 with more nanoseconds than a day.
    Malformed,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} does not fit into {}", self.value, self.expected)
    }
}

impl std::error::Error for Mismatch {}

/// Why decoded bytes cannot be converted.
#[derive(Debug)]
pub(super) enum Failure {
    Mismatch(Mismatch),
    Arrow(ArrowError),
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(mismatch)
    }
}

/// Returns the type to which values of a file are converted for a column of the table, if necessary. It is the file's
/// own type, with timestamps and intervals instead of their bytes.
pub(super) fn converted_type(file: &DataType, table: &DataType) -> Option<DataType> {
    use DataType::{FixedSizeBinary, FixedSizeList, Interval, LargeList, List, Map, Struct, Timestamp};
    let item = |file: &FieldRef, table: &FieldRef| {
        converted_type(file.data_type(), table.data_type()).map(|item| with_type(file, item))
    };
    match (file, table) {
        (FixedSizeBinary(WIDE), Timestamp(_, None) | Interval(IntervalUnit::MonthDayNano)) => Some(table.clone()),
        (Struct(file), Struct(table)) => {
            let found = file.iter().map(|field| {
                let (_, of_table) = table.find(field.name())?;
                item(field, of_table)
            });
            converted_fields(file, found).map(Struct)
        }
        (List(file), List(table) | LargeList(table) | FixedSizeList(table, _)) => item(file, table).map(List),
        (LargeList(file), List(table) | LargeList(table) | FixedSizeList(table, _)) => item(file, table).map(LargeList),
        (FixedSizeList(file, size), List(table) | LargeList(table) | FixedSizeList(table, _)) => {
            item(file, table).map(|item| FixedSizeList(item, *size))
        }
        (Map(file, sorted), Map(table, _)) => {
            let (Struct(of_file), Struct(of_table)) = (file.data_type(), table.data_type()) else { return None };
            let found = of_file.iter().zip(of_table).map(|(file, table)| item(file, table));
            converted_fields(of_file, found).map(|fields| Map(with_type(file, Struct(fields)), *sorted))
        }
        _ => None,
    }
}

fn with_type(field: &Field, data_type: DataType) -> FieldRef {
    Arc::new(field.clone().with_data_type(data_type))
}

/// Replaces the fields that need conversion, if there are any.
fn converted_fields(fields: &Fields, found: impl Iterator<Item = Option<FieldRef>>) -> Option<Fields> {
    let found: Vec<_> = found.collect();
    let is_any = found.iter().any(Option::is_some);
    let of_file = fields.iter().cloned();
    is_any.then(|| of_file.zip(found).map(|(field, found)| found.unwrap_or(field)).collect())
}

/// Converts an array to the result of [`converted_type`] for its type.
pub(super) fn convert(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Failure> {
    convert_masked(array, wanted, None)
}

/// Like [`convert`], but ignores values in rows that are null in `mask`, since they are inside a null.
fn convert_masked(array: &ArrayRef, wanted: &DataType, mask: Option<&NullBuffer>) -> Result<ArrayRef, Failure> {
    match (array.data_type(), wanted) {
        (found, wanted) if found == wanted => Ok(Arc::clone(array)),
        (DataType::FixedSizeBinary(WIDE), DataType::Timestamp(unit, None)) => match unit {
            TimeUnit::Second => timestamps::<TimestampSecondType>(array, 1_000_000_000, mask),
            TimeUnit::Millisecond => timestamps::<TimestampMillisecondType>(array, 1_000_000, mask),
            TimeUnit::Microsecond => timestamps::<TimestampMicrosecondType>(array, 1_000, mask),
            TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(array, 1, mask),
        },
        (DataType::FixedSizeBinary(WIDE), DataType::Interval(IntervalUnit::MonthDayNano)) => intervals(array, mask),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let values = array.as_struct();
            let mask = NullBuffer::union(mask, values.nulls());
            let parts = values.columns().iter().zip(fields);
            let parts = parts.map(|(part, field)| convert_masked(part, field.data_type(), mask.as_ref()));
            let (parts, nulls) = (parts.collect::<Result<_, _>>()?, values.nulls().cloned());
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), parts, nulls, values.len())?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let lists = array.as_list::<i32>();
            let mask = mask_of_items(lists.nulls(), mask, lists.values().len(), lists.offsets());
            let items = convert_masked(lists.values(), item.data_type(), mask.as_ref())?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), lists.offsets().clone(), items, lists.nulls().cloned())?))
        }
        (DataType::LargeList(_), DataType::LargeList(item)) => {
            let lists = array.as_list::<i64>();
            let mask = mask_of_items(lists.nulls(), mask, lists.values().len(), lists.offsets());
            let items = convert_masked(lists.values(), item.data_type(), mask.as_ref())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, items, nulls)?))
        }
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, size)) => {
            let lists = array.as_fixed_size_list();
            let mask = NullBuffer::union(mask, lists.nulls());
            let mask = mask.map(|mask| mask.expand(usize::try_from(*size).unwrap_or_default()));
            let items = convert_masked(lists.values(), item.data_type(), mask.as_ref())?;
            let nulls = lists.nulls().cloned();
            let length = lists.len();
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, items, nulls, length)?))
        }
        (DataType::Map(..), DataType::Map(field, sorted)) => {
            let maps = array.as_map();
            let mask = mask_of_items(maps.nulls(), mask, maps.entries().len(), maps.offsets());
            let entries: ArrayRef = Arc::new(maps.entries().clone());
            let entries = convert_masked(&entries, field.data_type(), mask.as_ref())?.as_struct().clone();
            let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *sorted)?))
        }
        (found, wanted) => Err(ArrowError::CastError(format!("{found} is not stored for {wanted}")).into()),
    }
}

/// Returns which items of lists count: those in a list that is not null.
fn mask_of_items<O: Copy + Into<i64>>(
    nulls: Option<&NullBuffer>,
    mask: Option<&NullBuffer>,
    items: usize,
    offsets: &[O],
) -> Option<NullBuffer> {
    let nulls = NullBuffer::union(mask, nulls);
    let is_whole = offsets.first().is_some_and(|first| (*first).into() == 0)
        && offsets.last().is_some_and(|last| (*last).into() == items as i64);
    if nulls.as_ref().is_none_or(|nulls| nulls.null_count() == 0) && is_whole {
        return None;
    }
    let mut matters = vec![false; items];
    for (row, pair) in offsets.windows(2).enumerate() {
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            let range = pair[0].into() as usize..pair[1].into() as usize;
            matters.get_mut(range).into_iter().flatten().for_each(|matters| *matters = true);
        }
    }
    Some(NullBuffer::new(BooleanBuffer::from(matters)))
}

/// Converts the values that are not null; ignored ones become zeros.
fn values<T, E>(
    array: &ArrayRef,
    mask: Option<&NullBuffer>,
    value: impl Fn(&[u8; 12]) -> Result<T, E>,
) -> Result<(Vec<T>, Option<NullBuffer>), Failure>
where
    T: Default,
    Failure: From<E>,
{
    let bytes: &FixedSizeBinaryArray = array.as_fixed_size_binary();
    let matters = |row: usize| bytes.is_valid(row) && mask.is_none_or(|mask| mask.is_valid(row));
    let found = (0..bytes.len()).map(|row| match bytes.value(row).first_chunk() {
        Some(bytes) if matters(row) => value(bytes),
        _ => Ok(T::default()),
    });
    Ok((found.collect::<Result<_, E>>()?, bytes.nulls().cloned()))
}

fn timestamps<T: ArrowTimestampType>(
    array: &ArrayRef,
    nanoseconds: i128,
    mask: Option<&NullBuffer>,
) -> Result<ArrayRef, Failure> {
    let mismatch = |value: String, reason| Mismatch { value, expected: T::DATA_TYPE, reason };
    let (found, nulls) = values(array, mask, |bytes| {
        let (day, time) = split(bytes);
        // Spark counts from the end of the day in the distant past.
        if !(1 - DAY..DAY).contains(&time) {
            return Err(mismatch(format!("an INT96 of {time} nanoseconds on Julian day {day}"), Reason::Malformed));
        }
        let since_1970 = nanoseconds_since_1970(bytes);
        let exact = (since_1970 % nanoseconds == 0).then(|| i64::try_from(since_1970 / nanoseconds).ok()).flatten();
        exact.ok_or_else(|| {
            let (seconds, fraction) = (since_1970 / 1_000_000_000, (since_1970 % 1_000_000_000).abs());
            let sign = if since_1970 < 0 && seconds == 0 { "-" } else { "" };
            let is_beyond = i64::try_from(since_1970.div_euclid(nanoseconds)).is_err();
            let reason = if is_beyond { Reason::Beyond } else { Reason::Finer };
            mismatch(format!("{sign}{seconds}.{fraction:09} seconds since 1970"), reason)
        })
    })?;
    Ok(Arc::new(PrimitiveArray::<T>::try_new(found.into(), nulls)?))
}

/// Splits a value into the Julian day and the nanoseconds of the day.
fn split(bytes: &[u8; 12]) -> (i128, i128) {
    let [a, b, c, d, e, f, g, h, day @ ..] = *bytes;
    (i32::from_le_bytes(day).into(), i64::from_le_bytes([a, b, c, d, e, f, g, h]).into())
}

fn nanoseconds_since_1970(bytes: &[u8; 12]) -> i128 {
    let (day, time) = split(bytes);
    (day - EPOCH) * DAY + time
}

fn intervals(array: &ArrayRef, mask: Option<&NullBuffer>) -> Result<ArrayRef, Failure> {
    let (found, nulls) = values(array, mask, |bytes| {
        let part = |at: usize| bytes[at..].first_chunk().copied().map(u32::from_le_bytes).unwrap_or_default();
        let (months, days, milliseconds) = (part(0), part(4), part(8));
        match (i32::try_from(months), i32::try_from(days)) {
            (Ok(months), Ok(days)) => Ok(IntervalMonthDayNano::new(months, days, i64::from(milliseconds) * 1_000_000)),
            _ => Err(Mismatch {
                value: format!("an interval of {months} months and {days} days"),
                expected: DataType::Interval(IntervalUnit::MonthDayNano),
                reason: Reason::Beyond,
            }),
        }
    })?;
    Ok(Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::try_new(found.into(), nulls)?))
}
