//! Converts columns of any type to the three kinds: int64, float32, bytes.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float16Type, Float32Type, Float64Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, StringArray};
use arrow_buffer::{ArrowNativeType, OffsetBuffer, ScalarBuffer};
use arrow_cast::CastOptions;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use tfr_arrow::integers;
use tfr_arrow::text::{find_without_text, positions_without_text};

use super::tensor;
use super::values::{BytesValues, Values, bytes, mismatch};
use crate::dtype::value_type;
use crate::error::{ErrorKind, Result};
use crate::mapping::{Conversion, Rescale};

/// Parses the value that replaces nulls of a part of this type. Fails if the text is not a valid value of the type, or
/// its feature cannot represent it.
pub(crate) fn default_values(text: &str, data_type: &DataType, conversion: &Conversion, path: &str) -> Result<Values> {
    let value_type = value_type(data_type);
    let array: ArrayRef = Arc::new(StringArray::from_iter_values([text]));
    let value = arrow_cast::can_cast_types(array.data_type(), value_type)
        .then(|| arrow_cast::cast(&array, value_type).ok())
        .flatten()
        .filter(|value| value.is_valid(0));
    let converted = value.map(|value| convert(conversion, path, &value)).transpose()?;
    converted.filter(|converted| converted.mismatches.is_empty()).map(|converted| converted.values).ok_or_else(|| {
        let (column, data_type, value) = (path.to_owned(), data_type.clone(), text.to_owned());
        ErrorKind::InvalidDefault { column, data_type, value }.into()
    })
}

/// Converted values, and the ascending positions of those that their feature cannot represent. A position is an error
/// only if a non-null row has it: values under nulls are unspecified.
pub(super) struct Converted {
    pub(super) values: Values,
    pub(super) mismatches: Vec<usize>,
}

impl From<Values> for Converted {
    fn from(values: Values) -> Self {
        Self { values, mismatches: Vec::new() }
    }
}

/// Converts the values of `array`, a part of `column`.
pub(super) fn convert(conversion: &Conversion, column: &str, array: &ArrayRef) -> Result<Converted> {
    Ok(match conversion {
        Conversion::Nothing => Values::Int64(ScalarBuffer::from(Vec::new())).into(),
        Conversion::Bool => Values::Int64(array.as_boolean().values().iter().map(i64::from).collect()).into(),
        Conversion::Integer => Values::Int64(integers(array)).into(),
        Conversion::Unsigned { wrap } => unsigned(array.as_primitive(), *wrap),
        Conversion::Rescaled(rescale) => rescaled(&integers(array), *rescale),
        Conversion::Float16 => {
            Values::Float(array.as_primitive::<Float16Type>().values().iter().map(|value| value.to_f32()).collect())
                .into()
        }
        Conversion::Float32 => Values::Float(array.as_primitive::<Float32Type>().values().clone()).into(),
        Conversion::NarrowedFloat64 => narrowed(array.as_primitive()),
        Conversion::Float64Bits => {
            let values = array.as_primitive::<Float64Type>().values();
            Values::Int64(ScalarBuffer::new(values.inner().clone(), 0, values.len())).into()
        }
        Conversion::DecimalFloat => match array.data_type() {
            DataType::Decimal32(_, scale) => decimal_floats::<Decimal32Type>(array.as_primitive(), *scale),
            DataType::Decimal64(_, scale) => decimal_floats::<Decimal64Type>(array.as_primitive(), *scale),
            DataType::Decimal128(_, scale) => decimal_floats::<Decimal128Type>(array.as_primitive(), *scale),
            DataType::Decimal256(_, scale) => decimal_floats::<Decimal256Type>(array.as_primitive(), *scale),
            _ => return Err(mismatch(array)),
        },
        Conversion::DecimalUnscaled => match array.data_type() {
            DataType::Decimal32(..) => unscaled::<Decimal32Type>(array.as_primitive()),
            DataType::Decimal64(..) => unscaled::<Decimal64Type>(array.as_primitive()),
            DataType::Decimal128(..) => unscaled::<Decimal128Type>(array.as_primitive()),
            DataType::Decimal256(..) => unscaled::<Decimal256Type>(array.as_primitive()),
            _ => return Err(mismatch(array)),
        },
        Conversion::Bytes => Values::Bytes(bytes(array)?).into(),
        Conversion::Index(ranks) => {
            let values = bytes(array)?;
            let rank = |position| ranks.of(values.get(position)).ok_or(position);
            let found: Vec<Result<i64, usize>> = (0..array.len()).map(rank).collect();
            Converted {
                values: Values::Int64(found.iter().map(|rank| rank.unwrap_or_default()).collect()),
                mismatches: found.into_iter().filter_map(Result::err).collect(),
            }
        }
        Conversion::Tensor(shape) => {
            let (blobs, mismatches) = tensor::serialize(array, shape).ok_or_else(|| mismatch(array))?;
            let offsets = OffsetBuffer::from_lengths(blobs.lengths);
            let values = Values::Bytes(BytesValues::Offsets64 { offsets, data: blobs.data.into() });
            Converted { values, mismatches: mismatches.into_iter().map(|(element, _)| element).collect() }
        }
        Conversion::Text if matches!(array.data_type(), DataType::Union(..)) => {
            let mismatches = union_positions_without_text(array);
            let text = display(array, &mismatches).map_err(|source| ErrorKind::Text {
                column: column.to_owned(),
                data_type: array.data_type().clone(),
                source,
            })?;
            Converted { values: Values::Bytes(bytes(&text)?), mismatches }
        }
        Conversion::Text => {
            let mismatches = positions_without_text(array);
            let text = text(&with_nulls(array, &mismatches)).map_err(|source| ErrorKind::Text {
                column: column.to_owned(),
                data_type: array.data_type().clone(),
                source,
            })?;
            Converted { values: Values::Bytes(bytes(&text)?), mismatches }
        }
    })
}

/// Sets nulls in `array` at ascending positions.
fn with_nulls(array: &ArrayRef, positions: &[usize]) -> ArrayRef {
    if positions.is_empty() {
        return Arc::clone(array);
    }
    let is_null: BooleanArray = (0..array.len()).map(|at| Some(positions.binary_search(&at).is_ok())).collect();
    // Cannot fail: both have the same length, and the types are primitive.
    arrow_select::nullif::nullif(array, &is_null).unwrap_or_else(|_| Arc::clone(array))
}

/// Casts values to text with Arrow.
fn text(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: false, ..Default::default() };
    let texts = arrow_cast::cast_with_options(array, &DataType::Utf8, &options)?;
    let DataType::Timestamp(unit, Some(_)) = array.data_type() else { return Ok(texts) };
    // Offsets are written in hours and minutes. Some until 1972 had seconds, which readers could not recover.
    let ticks_per_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let seconds = |text: &str| text.split_once('T')?.1.get("00:00:".len().."00:00:00".len())?.parse::<i64>().ok();
    let has_seconds = |text: Option<&str>, ticks: &i64| {
        text.and_then(seconds).is_some_and(|seconds| seconds != ticks.div_euclid(ticks_per_second).rem_euclid(60))
    };
    let texts = texts.as_string::<i32>();
    let ticks = integers(array);
    if !texts.iter().zip(&ticks).any(|(text, ticks)| has_seconds(text, ticks)) {
        return Ok(Arc::new(texts.clone()));
    }
    let in_utc = arrow_cast::cast(array, &DataType::Timestamp(*unit, Some("UTC".into())))?;
    let in_utc = arrow_cast::cast_with_options(&in_utc, &DataType::Utf8, &options)?;
    let texts = texts.iter().zip(in_utc.as_string::<i32>()).zip(&ticks);
    let texts = texts.map(|((text, in_utc), ticks)| if has_seconds(text, ticks) { in_utc } else { text });
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// The positions of values of a union without a text form.
fn union_positions_without_text(array: &ArrayRef) -> Vec<usize> {
    match find_without_text(array) {
        Some(_) => (0..array.len()).filter(|at| find_without_text(&array.slice(*at, 1)).is_some()).collect(),
        None => Vec::new(),
    }
}

/// Formats values of a type that Arrow cannot cast to text, with Arrow's display. Null at the positions of values
/// without a text form.
fn display(array: &ArrayRef, without_text: &[usize]) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::default().with_display_error(false);
    let formatter = ArrayFormatter::try_new(array, &options)?;
    let texts = (0..array.len()).map(|element| match without_text.binary_search(&element) {
        Ok(_) => Ok(None),
        Err(_) => formatter.value(element).try_to_string().map(Some),
    });
    Ok(Arc::new(texts.collect::<Result<StringArray, _>>()?))
}

fn unsigned(array: &PrimitiveArray<UInt64Type>, wrap: bool) -> Converted {
    let values = array.values();
    let mismatches = if wrap { Vec::new() } else { positions(values, |value| i64::try_from(*value).is_err()) };
    Converted { values: Values::Int64(ScalarBuffer::new(values.inner().clone(), 0, values.len())), mismatches }
}

fn rescaled(values: &[i64], rescale: Rescale) -> Converted {
    match rescale {
        Rescale::Multiply(factor) => Converted {
            values: Values::Int64(values.iter().map(|value| value.wrapping_mul(factor)).collect()),
            mismatches: positions(values, |value| value.checked_mul(factor).is_none()),
        },
        Rescale::Divide(divisor) => {
            Values::Int64(values.iter().map(|value| value.div_euclid(divisor)).collect()).into()
        }
    }
}

fn narrowed(array: &PrimitiveArray<Float64Type>) -> Converted {
    let values = array.values();
    Converted {
        values: Values::Float(values.iter().map(|value| *value as f32).collect()),
        mismatches: positions(values, |value| value.is_finite() && (*value as f32).is_infinite()),
    }
}

/// The float32 nearest to each decimal's value, ties to even.
fn decimal_floats<T: DecimalType<Native: DecimalNative>>(array: &PrimitiveArray<T>, scale: i8) -> Converted {
    // Powers of ten up to 10^22 are exact as float64, so the quotient is rounded once. Its rounding to float32 is wrong
    // only if it is exactly halfway between two float32 values without being the exact value.
    let power = u8::try_from(scale).ok().filter(|scale| *scale <= 22).map(|scale| 10f64.powi(i32::from(scale)));
    let mut digits = String::new();
    let values: ScalarBuffer<f32> = array
        .values()
        .iter()
        .map(|value| {
            match (power, value.as_exact_f64()) {
                (Some(power), Some(unscaled)) if !is_between_floats(unscaled / power) => (unscaled / power) as f32,
                _ => {
                    digits.clear();
                    // Writing to a string cannot fail, and these digits always parse.
                    let _ = write!(digits, "{value}e{}", -i32::from(scale));
                    digits.parse().unwrap_or(f32::NAN)
                }
            }
        })
        .collect();
    let mut mismatches = positions(&values, |value| !value.is_finite());
    merge(&mut mismatches, beyond_precision(array));
    Converted { values: Values::Float(values), mismatches }
}

/// The positions of decimals with more digits than their type's precision. Arrow does not check this, and some files
/// contain them.
pub(super) fn beyond_precision(array: &dyn Array) -> Vec<usize> {
    fn beyond<T: DecimalType>(array: &dyn Array, precision: u8) -> Vec<usize> {
        positions(array.as_primitive::<T>().values(), |value| !T::is_valid_decimal_precision(*value, precision))
    }

    match array.data_type() {
        DataType::Decimal32(precision, _) => beyond::<Decimal32Type>(array, *precision),
        DataType::Decimal64(precision, _) => beyond::<Decimal64Type>(array, *precision),
        DataType::Decimal128(precision, _) => beyond::<Decimal128Type>(array, *precision),
        DataType::Decimal256(precision, _) => beyond::<Decimal256Type>(array, *precision),
        _ => Vec::new(),
    }
}

/// Merges ascending positions into others.
fn merge(mismatches: &mut Vec<usize>, more: Vec<usize>) {
    mismatches.extend(more);
    mismatches.sort_unstable();
    mismatches.dedup();
}

/// Whether a float64 of normal float32 magnitude is exactly halfway between two float32 values.
fn is_between_floats(value: f64) -> bool {
    // The 29 bits by which the mantissas differ.
    value.to_bits() & ((1 << 29) - 1) == 1 << 28
}

/// The native integer of a decimal.
trait DecimalNative: std::fmt::Display + ArrowNativeType {
    fn as_i128(&self) -> Option<i128>;

    /// The value as float64, if that is exact.
    fn as_exact_f64(&self) -> Option<f64> {
        let value = i64::try_from(self.as_i128()?).ok()?;
        (value.unsigned_abs() <= 1 << 53).then_some(value as f64)
    }
}

impl DecimalNative for i32 {
    fn as_i128(&self) -> Option<i128> {
        Some(i128::from(*self))
    }
}

impl DecimalNative for i64 {
    fn as_i128(&self) -> Option<i128> {
        Some(i128::from(*self))
    }
}

impl DecimalNative for i128 {
    fn as_i128(&self) -> Option<i128> {
        Some(*self)
    }
}

impl DecimalNative for arrow_buffer::i256 {
    fn as_i128(&self) -> Option<i128> {
        self.to_i128()
    }
}

fn unscaled<T: DecimalType<Native: DecimalNative>>(array: &PrimitiveArray<T>) -> Converted {
    let fit = |value: &T::Native| value.as_i128().and_then(|value| i64::try_from(value).ok());
    let mut mismatches = positions(array.values(), |value| fit(value).is_none());
    merge(&mut mismatches, beyond_precision(array));
    Converted {
        values: Values::Int64(array.values().iter().map(|value| fit(value).unwrap_or_default()).collect()),
        mismatches,
    }
}

/// The positions of values that fail. A single fast pass if none does.
fn positions<T>(values: &[T], fails: impl Fn(&T) -> bool) -> Vec<usize> {
    if !values.iter().fold(false, |any, value| any | fails(value)) {
        return Vec::new();
    }
    values.iter().enumerate().filter(|(_, value)| fails(value)).map(|(position, _)| position).collect()
}
