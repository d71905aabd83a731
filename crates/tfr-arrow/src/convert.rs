//! [`convert`]: converts an array to another type exactly, or returns the first value that the type cannot represent.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Decimal256Type, DecimalType};
use arrow_array::{Array, ArrayRef, GenericListArray, MapArray, OffsetSizeTrait, StructArray, new_null_array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::cmp::distinct;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, TimeUnit};

use crate::kinds::{is_binary, is_number, is_scalar_with_text, is_text};
use crate::nested::{item, key_and_value, struct_fields, value_type};
use crate::visible::{masked, without_null_ranges};

/// A value that a type cannot represent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfitValue {
    /// The row in the array, from 0.
    pub row: usize,
    /// The value as text.
    pub value: String,
    /// Its type.
    pub found: DataType,
    /// The wanted type.
    pub expected: DataType,
}

impl fmt::Display for UnfitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} value {} is not exact as {}", self.found, self.value, self.expected)
    }
}

impl std::error::Error for UnfitValue {}

/// Why one value, or an array of them, cannot be converted.
enum Failure {
    Unfit { value: String, found: DataType, expected: DataType },
    Arrow(ArrowError),
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

/// Whether [`convert`] supports converting `found` to `wanted`. Individual values may still not fit.
///
/// Fields of structs are matched by name. A wanted field that is not in `found` becomes null, and must be nullable. A
/// struct may have no field in common, see [`shares_fields`].
pub fn can_convert(found: &DataType, wanted: &DataType) -> bool {
    use DataType::{Dictionary, Map, Null, RunEndEncoded, Struct};
    if found == wanted {
        return true;
    }
    match (found, wanted) {
        (Null, _) => true,
        (RunEndEncoded(_, values), _) => can_convert(values.data_type(), wanted),
        (Dictionary(_, values), _) => can_convert(values, wanted),
        (_, Dictionary(_, values)) => !values.is_nested() && can_convert(found, values),
        (Struct(found), Struct(wanted)) => wanted.iter().all(|field| match found.find(field.name()) {
            Some((_, part)) => can_convert(part.data_type(), field.data_type()),
            None => field.is_nullable(),
        }),
        (Map(found, _), Map(wanted, _)) => match (found.data_type(), wanted.data_type()) {
            (Struct(found), Struct(wanted)) => {
                found.len() == 2
                    && wanted.len() == 2
                    && found
                        .iter()
                        .zip(wanted)
                        .all(|(found, wanted)| can_convert(found.data_type(), wanted.data_type()))
            }
            _ => false,
        },
        _ => match (item(found), item(wanted)) {
            (Some(found), Some(wanted)) => can_convert(found.data_type(), wanted.data_type()),
            _ => can_convert_scalar(found, wanted),
        },
    }
}

/// Whether each struct of `wanted` has a field of the struct that it is converted from. Where columns are declared,
/// another name is more likely an error than a field that is null everywhere.
pub fn shares_fields(found: &DataType, wanted: &DataType) -> bool {
    let (found, wanted) = (value_type(found), value_type(wanted));
    if let (Some(found), Some(wanted)) = (key_and_value(found), key_and_value(wanted)) {
        let pairs = [(found.0, wanted.0), (found.1, wanted.1)];
        return pairs.iter().all(|(found, wanted)| shares_fields(found.data_type(), wanted.data_type()));
    }
    if let (Some(found), Some(wanted)) = (struct_fields(found), struct_fields(wanted)) {
        let mut shared = wanted.iter().filter_map(|field| Some((found.find(field.name())?.1, field))).peekable();
        return shared.peek().is_some()
            && shared.all(|(found, wanted)| shares_fields(found.data_type(), wanted.data_type()));
    }
    match (item(found), item(wanted)) {
        (Some(found), Some(wanted)) => shares_fields(found.data_type(), wanted.data_type()),
        _ => true,
    }
}

fn can_convert_scalar(found: &DataType, wanted: &DataType) -> bool {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    match (found, wanted) {
        (Timestamp(_, found), Timestamp(_, wanted)) => found.is_some() == wanted.is_some(),
        (Date32 | Date64, Date32 | Date64 | Timestamp(_, None)) | (Timestamp(_, None), Date32 | Date64) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) | (Duration(_), Duration(_)) => true,
        _ if is_number(found) && is_number(wanted) => true,
        _ if is_binary(found) && (is_binary(wanted) || is_text(wanted)) => true,
        _ if is_text(found) && (is_text(wanted) || is_binary(wanted)) => {
            !matches!(wanted, DataType::FixedSizeBinary(_))
        }
        _ => is_scalar_with_text(found) && is_text(wanted),
    }
}

/// Converts the values of `array` to `wanted`, each exactly.
///
/// # Errors
/// A value has no exact equivalent in the wanted type, or the conversion is not supported; see [`can_convert`].
/// Values under a null of a struct, list or map are ignored.
pub fn convert(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, UnfitValue> {
    let failure = match converted(array, wanted) {
        Ok(converted) => return Ok(converted),
        Err(failure) => failure,
    };
    let fails = |row: usize| converted(&array.slice(row, 1), wanted).err();
    let (row, failure) = (0..array.len()).find_map(|row| Some((row, fails(row)?))).unwrap_or((0, failure));
    Err(match failure {
        Failure::Unfit { value, found, expected } => UnfitValue { row, value, found, expected },
        Failure::Arrow(error) => UnfitValue {
            row,
            value: format!("{} ({error})", text_of(array, row)),
            found: array.data_type().clone(),
            expected: wanted.clone(),
        },
    })
}

fn text_of(array: &dyn Array, row: usize) -> String {
    if row >= array.len() {
        return String::new();
    }
    let options = FormatOptions::new().with_display_error(true).with_null("NULL");
    let text = ArrayFormatter::try_new(array, &options).map(|formatter| formatter.value(row).to_string());
    text.unwrap_or_else(|error| error.to_string())
}

fn converted(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Failure> {
    use DataType::{Dictionary, LargeList, LargeListView, List, Map, Null, RunEndEncoded, Struct};
    let found = array.data_type();
    if found == wanted {
        return Ok(Arc::clone(array));
    }
    match (found, wanted) {
        (Null, _) => Ok(new_null_array(wanted, array.len())),
        (RunEndEncoded(_, values), _) => converted(&plain_cast(array, values.data_type())?, wanted),
        (Dictionary(_, values), _) => converted(&plain_cast(array, values)?, wanted),
        (_, Dictionary(_, values)) => plain_cast(&converted(array, values)?, wanted),
        (Struct(_), Struct(fields)) => converted_struct(array.as_struct(), fields),
        (Map(..), Map(entries, sorted)) => converted_map(array, entries, *sorted),
        _ => match (item(found), item(wanted)) {
            (Some(found_item), Some(wanted_item)) => {
                let list = match found {
                    List(_) => converted_list::<i32>(array, wanted_item)?,
                    LargeList(_) => converted_list::<i64>(array, wanted_item)?,
                    LargeListView(_) => {
                        converted_list::<i64>(&plain_cast(array, &LargeList(Arc::clone(found_item)))?, wanted_item)?
                    }
                    _ => converted_list::<i32>(&plain_cast(array, &List(Arc::clone(found_item)))?, wanted_item)?,
                };
                match list.data_type() == wanted {
                    true => Ok(list),
                    false => plain_cast(&list, wanted),
                }
            }
            _ => converted_scalar(array, wanted),
        },
    }
}

/// Casts only the representation; values do not change.
fn plain_cast(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Failure> {
    Ok(cast_with_options(array, wanted, &CastOptions { safe: false, ..CastOptions::default() })?)
}

fn converted_struct(array: &StructArray, fields: &Fields) -> Result<ArrayRef, Failure> {
    let nulls = array.nulls();
    let columns = fields.iter().map(|field| match array.column_by_name(field.name()) {
        Some(part) if part.data_type() == field.data_type() => Ok(Arc::clone(part)),
        // The fields of a null struct may contain arbitrary values.
        Some(part) => converted(&masked(part, nulls)?, field.data_type()),
        None => Ok(new_null_array(field.data_type(), array.len())),
    });
    let columns = columns.collect::<Result<_, Failure>>()?;
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls.cloned(), array.len())?))
}

fn converted_list<O: OffsetSizeTrait>(list: &ArrayRef, item: &FieldRef) -> Result<ArrayRef, Failure> {
    let list = without_null_ranges(list)?;
    let list = list.as_list::<O>();
    let (offsets, items) = visible_items(list.offsets(), list.values());
    let items = converted(&items, item.data_type())?;
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, items, list.nulls().cloned())?))
}

/// Returns the items from the first to the last offset, with the offsets into them.
fn visible_items<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, items: &ArrayRef) -> (OffsetBuffer<O>, ArrayRef) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let visible = items.slice(first.as_usize(), (last - first).as_usize());
    let moved: ScalarBuffer<O> = offsets.iter().map(|offset| *offset - first).collect();
    (OffsetBuffer::new(moved), visible)
}

fn converted_map(array: &ArrayRef, entries: &FieldRef, sorted: bool) -> Result<ArrayRef, Failure> {
    let DataType::Struct(parts) = entries.data_type() else {
        return Err(ArrowError::CastError("a map without keys and values".to_owned()).into());
    };
    let array = without_null_ranges(array)?;
    let array = array.as_map();
    let found: ArrayRef = Arc::new(array.entries().clone());
    let (offsets, found) = visible_items(array.offsets(), &found);
    let columns = found.as_struct().columns().iter().zip(parts).map(|(part, field)| converted(part, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, Failure>>()?;
    let found = StructArray::try_new_with_length(parts.clone(), columns, None, found.len())?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, found, array.nulls().cloned(), sorted)?))
}

fn converted_scalar(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Failure> {
    use DataType::{Date32, Date64, Timestamp};
    let found = array.data_type();
    match (found, wanted) {
        // The engine multiplies days without an overflow check.
        (Date32, Timestamp(unit, None)) if *unit != TimeUnit::Second => {
            return converted_scalar(&exact_cast(array, &Timestamp(TimeUnit::Second, None))?, wanted);
        }
        (Date64, Timestamp(unit, None)) if *unit != TimeUnit::Millisecond => {
            return converted_scalar(&exact_cast(array, &Timestamp(TimeUnit::Millisecond, None))?, wanted);
        }
        (DataType::FixedSizeBinary(_), _) if !matches!(wanted, DataType::Binary) => {
            return converted(&plain_cast(array, &DataType::Binary)?, wanted);
        }
        // A value may have more digits than its declared type, but still fit into the wanted type.
        (DataType::Decimal128(_, scale), DataType::Decimal128(precision, wanted)) if scale == wanted => {
            if let Some(decimals) = with_precision::<Decimal128Type>(array, *precision) {
                return Ok(decimals);
            }
        }
        (DataType::Decimal256(_, scale), DataType::Decimal256(precision, wanted)) if scale == wanted => {
            if let Some(decimals) = with_precision::<Decimal256Type>(array, *precision) {
                return Ok(decimals);
            }
        }
        _ => {}
    }
    match is_total(found, wanted) {
        true => plain_cast(array, wanted),
        false => exact_cast(array, wanted),
    }
}

/// Whether every value of `found` has an exact equivalent in `wanted`, so that the engine's cast needs no check.
pub(crate) fn is_total(found: &DataType, wanted: &DataType) -> bool {
    use DataType::{Boolean, Float16, Float32, Float64};
    match (found, wanted) {
        _ if is_widening(found, wanted) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Boolean, wanted) => is_text(wanted),
        _ => is_number(found) && is_text(wanted),
    }
}

/// Whether every value of `found` has an exact equivalent in `wanted`, in the same order: integers in a wider type,
/// and text.
pub fn is_widening(found: &DataType, wanted: &DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    match (wanted, found) {
        (Int16, Int8 | UInt8)
        | (Int32, Int8 | Int16 | UInt8 | UInt16)
        | (Int64, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32)
        | (UInt16, UInt8)
        | (UInt32, UInt8 | UInt16)
        | (UInt64, UInt8 | UInt16 | UInt32) => true,
        _ => is_text(found) && is_text(wanted),
    }
}

/// Declares the same decimals with another number of digits, if no value has more.
fn with_precision<T: DecimalType + ArrowPrimitiveType>(array: &ArrayRef, precision: u8) -> Option<ArrayRef> {
    let decimals = array.as_primitive::<T>();
    decimals.validate_decimal_precision(precision).ok()?;
    let declared = decimals.clone().with_precision_and_scale(precision, decimals.scale()).ok()?;
    Some(Arc::new(declared))
}

/// Casts with the engine and back. A value that differs afterwards has no exact equivalent in the wanted type.
fn exact_cast(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Failure> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let there = cast_with_options(array, wanted, &options)?;
    let back = cast_with_options(&there, array.data_type(), &options)?;
    let Some(row) = distinct(&back, array)?.values().set_indices().next() else { return Ok(there) };
    Err(Failure::Unfit { value: text_of(array, row), found: array.data_type().clone(), expected: wanted.clone() })
}

#[cfg(test)]
mod tests;
