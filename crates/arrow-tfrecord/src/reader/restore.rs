//! Converts values of features to Arrow arrays: the inverse of the writer's conversion.

use std::sync::Arc;

use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Int8Type, Int16Type, Int32Type, UInt8Type,
    UInt16Type, UInt32Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, Float16Array,
    Float32Array, Float64Array, GenericBinaryArray, GenericStringArray, Int32Array, Int64Array, LargeStringArray,
    OffsetSizeTrait, PrimitiveArray, StringViewArray, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::CastOptions;
use arrow_schema::DataType;
use half::f16;

use super::decimal;
use super::duration::durations;
use super::mismatch::Mismatch;
use super::values::{Blobs, DecodedValues};
use super::years;
use crate::dtype::retyped;
use crate::mapping::{Conversion, Rescale};
use crate::vocabulary::Ranks;

/// Converts `values` to an array of `data_type`, which must not be nested. Values under nulls are unspecified.
pub(super) fn restore(
    values: DecodedValues,
    nulls: Option<NullBuffer>,
    conversion: &Conversion,
    data_type: &DataType,
) -> Result<ArrayRef, Mismatch> {
    match values {
        DecodedValues::Int64(values) => match conversion {
            Conversion::Bool => booleans(&values, nulls),
            Conversion::Index(ranks) => ranked(&values, nulls, ranks, data_type),
            Conversion::Unsigned { wrap } => unsigned(values, nulls, *wrap),
            Conversion::Float64Bits => {
                let bits = ScalarBuffer::from(values).into_inner();
                Ok(Arc::new(Float64Array::new(bits.into(), nulls)))
            }
            Conversion::Rescaled(rescale) => integers(original_unit(values, *rescale)?, nulls, data_type),
            Conversion::DecimalUnscaled => match data_type {
                DataType::Decimal32(..) => decimal::unscaled::<Decimal32Type>(&values, nulls, data_type),
                DataType::Decimal64(..) => decimal::unscaled::<Decimal64Type>(&values, nulls, data_type),
                DataType::Decimal128(..) => decimal::unscaled::<Decimal128Type>(&values, nulls, data_type),
                _ => decimal::unscaled::<Decimal256Type>(&values, nulls, data_type),
            },
            _ => integers(values, nulls, data_type),
        },
        DecodedValues::Float(values) => match data_type {
            DataType::Float32 => Ok(Arc::new(Float32Array::new(values.into(), nulls))),
            DataType::Float64 => Ok(Arc::new(Float64Array::new(values.into_iter().map(f64::from).collect(), nulls))),
            DataType::Float16 => halves(&values, nulls),
            DataType::Decimal32(..) => decimal::nearest::<Decimal32Type>(&values, nulls, data_type),
            DataType::Decimal64(..) => decimal::nearest::<Decimal64Type>(&values, nulls, data_type),
            DataType::Decimal128(..) => decimal::nearest::<Decimal128Type>(&values, nulls, data_type),
            _ => decimal::nearest::<Decimal256Type>(&values, nulls, data_type),
        },
        DecodedValues::Bytes(values) if *conversion == Conversion::Text => parsed(values, nulls, data_type),
        DecodedValues::Bytes(values) => bytes(values, nulls, data_type),
    }
}

fn first_mismatch<T: Copy + ToString>(values: &[T], fits: impl Fn(T) -> bool) -> Result<(), Mismatch> {
    // A single fast pass if all values fit.
    if values.iter().fold(true, |all, value| all & fits(*value)) {
        return Ok(());
    }
    match values.iter().enumerate().find(|(_, value)| !fits(**value)) {
        Some((element, value)) => Err(Mismatch::value(element, value.to_string())),
        None => Ok(()),
    }
}

fn booleans(values: &[i64], nulls: Option<NullBuffer>) -> Result<ArrayRef, Mismatch> {
    first_mismatch(values, |value| value & !1 == 0)?;
    let bits = BooleanBuffer::collect_bool(values.len(), |element| values[element] == 1);
    Ok(Arc::new(BooleanArray::new(bits, nulls)))
}

/// Looks up values of a vocabulary by rank.
fn ranked(
    values: &[i64],
    nulls: Option<NullBuffer>,
    ranks: &Ranks,
    data_type: &DataType,
) -> Result<ArrayRef, Mismatch> {
    let mut texts = Blobs::default();
    for (element, rank) in values.iter().enumerate() {
        let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(element));
        match ranks.value(*rank) {
            Some(value) => texts.push(value.as_bytes()),
            None if is_null => texts.push(&[]),
            None => return Err(Mismatch::value(element, format!("{rank}, which is not a rank in its vocabulary,"))),
        }
    }
    bytes(texts, nulls, data_type)
}

fn unsigned(values: Vec<i64>, nulls: Option<NullBuffer>, wrap: bool) -> Result<ArrayRef, Mismatch> {
    if !wrap {
        first_mismatch(&values, |value| value >= 0)?;
    }
    let bits = ScalarBuffer::from(values).into_inner();
    Ok(Arc::new(UInt64Array::new(bits.into(), nulls)))
}

/// Converts values back to the unit of their type, if the writer used another unit.
fn original_unit(values: Vec<i64>, rescale: Rescale) -> Result<Vec<i64>, Mismatch> {
    match rescale {
        Rescale::Multiply(factor) => {
            first_mismatch(&values, |value| value % factor == 0)?;
            Ok(values.into_iter().map(|value| value / factor).collect())
        }
        Rescale::Divide(divisor) => {
            first_mismatch(&values, |value| value.checked_mul(divisor).is_some())?;
            Ok(values.into_iter().map(|value| value.wrapping_mul(divisor)).collect())
        }
    }
}

/// Builds an array of any type that is stored as an integer.
fn integers(values: Vec<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, Mismatch> {
    fn narrow<T>(values: &[i64], nulls: Option<NullBuffer>) -> Result<ArrayRef, Mismatch>
    where
        T: ArrowPrimitiveType<Native: TryFrom<i64>>,
    {
        first_mismatch(values, |value| T::Native::try_from(value).is_ok())?;
        let values = values.iter().map(|value| T::Native::try_from(*value).unwrap_or_default());
        Ok(Arc::new(PrimitiveArray::<T>::new(values.collect(), nulls)))
    }
    match data_type {
        DataType::Int8 => narrow::<Int8Type>(&values, nulls),
        DataType::Int16 => narrow::<Int16Type>(&values, nulls),
        DataType::Int32 => narrow::<Int32Type>(&values, nulls),
        DataType::UInt8 => narrow::<UInt8Type>(&values, nulls),
        DataType::UInt16 => narrow::<UInt16Type>(&values, nulls),
        DataType::UInt32 => narrow::<UInt32Type>(&values, nulls),
        DataType::Int64 => Ok(Arc::new(Int64Array::new(values.into(), nulls))),
        // Dates and times of either width.
        narrow_time if narrow_time.primitive_width() == Some(size_of::<i32>()) => {
            first_mismatch(&values, |value| i32::try_from(value).is_ok())?;
            let values: ScalarBuffer<i32> = values.iter().map(|value| *value as i32).collect();
            Ok(retyped(&Int32Array::new(values, nulls), data_type)?)
        }
        _ => Ok(retyped(&Int64Array::new(values.into(), nulls), data_type)?),
    }
}

/// Converts to the nearest float16. Fails if that is infinite and the value is not.
fn halves(values: &[f32], nulls: Option<NullBuffer>) -> Result<ArrayRef, Mismatch> {
    first_mismatch(values, |value| !value.is_finite() || f16::from_f32(value).is_finite())?;
    Ok(Arc::new(Float16Array::new(values.iter().map(|value| f16::from_f32(*value)).collect(), nulls)))
}

/// Parses values from text, with Arrow's cast where one exists.
fn parsed(values: Blobs, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, Mismatch> {
    let text = string::<i64>(values, nulls)?;
    if let DataType::Duration(unit) = data_type {
        return durations(&text, data_type, *unit);
    }
    match data_type {
        DataType::Decimal32(_, ..0) => return decimal::whole::<Decimal32Type>(&text, data_type),
        DataType::Decimal64(_, ..0) => return decimal::whole::<Decimal64Type>(&text, data_type),
        DataType::Decimal128(_, ..0) => return decimal::whole::<Decimal128Type>(&text, data_type),
        DataType::Decimal256(_, ..0) => return decimal::whole::<Decimal256Type>(&text, data_type),
        _ => {}
    }
    match years::without_signs(&text, data_type) {
        Some((plain, cycles)) => years::later(&cast(&plain, &text, data_type)?, &cycles, &text),
        None => cast(&text, &text, data_type),
    }
}

/// Casts texts to a type. An error reports the invalid value as it is in `original`.
fn cast(text: &LargeStringArray, original: &LargeStringArray, data_type: &DataType) -> Result<ArrayRef, Mismatch> {
    let options = CastOptions { safe: false, ..Default::default() };
    match arrow_cast::cast_with_options(text, data_type, &options) {
        Ok(array) => Ok(array),
        Err(error) => {
            let parsed = arrow_cast::cast(text, data_type)?;
            match (0..text.len()).find(|element| text.is_valid(*element) && parsed.is_null(*element)) {
                Some(element) => Err(Mismatch::value(element, format!("{:?}", original.value(element)))),
                None => Err(error.into()),
            }
        }
    }
}

fn bytes(values: Blobs, nulls: Option<NullBuffer>, data_type: &DataType) -> Result<ArrayRef, Mismatch> {
    Ok(match data_type {
        DataType::Utf8 => Arc::new(string::<i32>(values, nulls)?) as ArrayRef,
        DataType::LargeUtf8 => Arc::new(string::<i64>(values, nulls)?),
        DataType::Utf8View => Arc::new(StringViewArray::from(&string::<i64>(values, nulls)?)),
        DataType::LargeBinary => Arc::new(binary::<i64>(values, nulls)?),
        DataType::BinaryView => Arc::new(BinaryViewArray::from(&binary::<i64>(values, nulls)?)),
        DataType::FixedSizeBinary(width) => fixed_size_binary(&values, nulls, *width)?,
        _ => Arc::new(binary::<i32>(values, nulls)?),
    })
}

pub(super) fn offsets<O: OffsetSizeTrait>(ends: &[usize]) -> Result<OffsetBuffer<O>, Mismatch> {
    let last = ends.last().copied().unwrap_or_default();
    O::from_usize(last).ok_or(Mismatch::TooMany)?;
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(O::usize_as(0));
    offsets.extend(ends.iter().map(|end| O::usize_as(*end)));
    Ok(OffsetBuffer::new(offsets.into()))
}

fn string<O: OffsetSizeTrait>(values: Blobs, nulls: Option<NullBuffer>) -> Result<GenericStringArray<O>, Mismatch> {
    let offsets = offsets(&values.ends)?;
    let data = Buffer::from_vec(values.data);
    match GenericStringArray::try_new(offsets.clone(), data.clone(), nulls) {
        Ok(array) => Ok(array),
        Err(error) => {
            let value = |pair: &[O]| data.get(pair[0].as_usize()..pair[1].as_usize()).unwrap_or_default();
            match offsets.windows(2).position(|pair| str::from_utf8(value(pair)).is_err()) {
                Some(element) => Err(Mismatch::value(element, "a value that is not UTF-8")),
                None => Err(error.into()),
            }
        }
    }
}

fn binary<O: OffsetSizeTrait>(values: Blobs, nulls: Option<NullBuffer>) -> Result<GenericBinaryArray<O>, Mismatch> {
    Ok(GenericBinaryArray::try_new(offsets(&values.ends)?, Buffer::from_vec(values.data), nulls)?)
}

fn fixed_size_binary(values: &Blobs, nulls: Option<NullBuffer>, width: i32) -> Result<ArrayRef, Mismatch> {
    let len = usize::try_from(width).unwrap_or_default();
    let mut data = Vec::with_capacity(values.data.len());
    for element in 0..values.ends.len() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(element)) {
            data.resize(data.len() + len, 0);
            continue;
        }
        let value = values.get(element);
        if value.len() != len {
            return Err(Mismatch::value(element, format!("a value of {} bytes", value.len())));
        }
        data.extend_from_slice(value);
    }
    let rows = values.ends.len();
    Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(width, data.into(), nulls, rows)?))
}
