//! Converts values that the library returns as bytes: INT96 timestamps and intervals.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowTimestampType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, PrimitiveArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use tfr_arrow::nested::{Lists, child_arrays, children, item, with_children, with_item};

use super::schema::WIDE;

const DAY: i128 = 86_400_000_000_000;

/// The Julian day of 1970-01-01.
const EPOCH: i128 = 2_440_588;

/// A value that is out of range for its column's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mismatch {
    pub(super) value: String,
    pub(super) expected: DataType,
    pub(super) reason: MismatchReason,
}

/// Why a type cannot represent a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MismatchReason {
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
    use DataType::{FixedSizeBinary, Interval, Map, Struct, Timestamp};
    let part = |file: &FieldRef, table: &FieldRef| {
        converted_type(file.data_type(), table.data_type()).map(|item| with_type(file, item))
    };
    match (file, table) {
        (FixedSizeBinary(WIDE), Timestamp(_, None) | Interval(IntervalUnit::MonthDayNano)) => Some(table.clone()),
        (Struct(file), Struct(table)) => {
            let found = file.iter().map(|field| {
                let (_, of_table) = table.find(field.name())?;
                part(field, of_table)
            });
            converted_fields(file, found).map(Struct)
        }
        (Map(file, sorted), Map(table, _)) => {
            let (Struct(of_file), Struct(of_table)) = (file.data_type(), table.data_type()) else { return None };
            let found = of_file.iter().zip(of_table).map(|(file, table)| part(file, table));
            converted_fields(of_file, found).map(|fields| Map(with_type(file, Struct(fields)), *sorted))
        }
        _ => part(item(file)?, item(table)?).map(|item| with_item(file, item)),
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
    convert_masked(array, wanted, None, None)
}

/// As [`convert`], but cuts timestamps that are finer than their type; also returns their number.
pub(super) fn convert_cut(array: &ArrayRef, wanted: &DataType) -> Result<(ArrayRef, u64), Failure> {
    let cut = Cell::new(0);
    let array = convert_masked(array, wanted, None, Some(&cut))?;
    Ok((array, cut.get()))
}

/// Like [`convert`], but ignores values in rows that are null in `mask`, since they are inside a null. With `cut`,
/// timestamps are cut, and counted there.
fn convert_masked(
    array: &ArrayRef,
    wanted: &DataType,
    mask: Option<&NullBuffer>,
    cut: Option<&Cell<u64>>,
) -> Result<ArrayRef, Failure> {
    match (array.data_type(), wanted) {
        (found, wanted) if found == wanted => Ok(Arc::clone(array)),
        (DataType::FixedSizeBinary(WIDE), DataType::Timestamp(unit, None)) => match unit {
            TimeUnit::Second => timestamps::<TimestampSecondType>(array, 1_000_000_000, mask, cut),
            TimeUnit::Millisecond => timestamps::<TimestampMillisecondType>(array, 1_000_000, mask, cut),
            TimeUnit::Microsecond => timestamps::<TimestampMicrosecondType>(array, 1_000, mask, cut),
            TimeUnit::Nanosecond => timestamps::<TimestampNanosecondType>(array, 1, mask, cut),
        },
        (DataType::FixedSizeBinary(WIDE), DataType::Interval(IntervalUnit::MonthDayNano)) => intervals(array, mask),
        (found, wanted) if found.is_nested() && wanted.is_nested() => {
            let nulls = NullBuffer::union(mask, array.nulls());
            let mask = match Lists::of(array) {
                Some(lists) => lists.item_nulls(nulls.as_ref()),
                None => nulls,
            };
            let parts = child_arrays(array).into_iter().zip(children(wanted));
            let parts = parts.map(|(part, wanted)| convert_masked(&part, wanted, mask.as_ref(), cut));
            Ok(with_children(array, wanted, &parts.collect::<Result<Vec<_>, _>>()?)?)
        }
        (found, wanted) => Err(ArrowError::CastError(format!("{found} is not stored for {wanted}")).into()),
    }
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
    cut: Option<&Cell<u64>>,
) -> Result<ArrayRef, Failure> {
    let mismatch = |value: String, reason| Mismatch { value, expected: T::DATA_TYPE, reason };
    let (found, nulls) = values(array, mask, |bytes| {
        let (day, time) = split(bytes);
        // Spark counts from the end of the day in the distant past.
        if !(1 - DAY..DAY).contains(&time) {
            return Err(mismatch(
                format!("an INT96 of {time} nanoseconds on Julian day {day}"),
                MismatchReason::Malformed,
            ));
        }
        let since_1970 = nanoseconds_since_1970(bytes);
        let is_finer = since_1970 % nanoseconds != 0;
        let whole = i64::try_from(since_1970.div_euclid(nanoseconds)).ok();
        if let (true, Some(_), Some(cut)) = (is_finer, whole, cut) {
            cut.set(cut.get() + 1);
        }
        whole.filter(|_| !is_finer || cut.is_some()).ok_or_else(|| {
            let (seconds, fraction) = (since_1970 / 1_000_000_000, (since_1970 % 1_000_000_000).abs());
            let sign = if since_1970 < 0 && seconds == 0 { "-" } else { "" };
            let reason = if whole.is_none() { MismatchReason::Beyond } else { MismatchReason::Finer };
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
                reason: MismatchReason::Beyond,
            }),
        }
    })?;
    Ok(Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::try_new(found.into(), nulls)?))
}
