//! Decimals from unscaled integers, from text and from floats.

use std::sync::Arc;

use arrow_array::types::DecimalType;
use arrow_array::{Array, ArrayRef, LargeStringArray, PrimitiveArray};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::DataType;

use super::mismatch::Mismatch;

/// Decimals from their unscaled integers.
pub(super) fn unscaled<T: DecimalType<Native: Unscaled>>(
    values: &[i64],
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, Mismatch> {
    decimals::<T, _>(values, nulls, data_type, |value, precision, _| {
        T::Native::from_i256(i256::from(value)).filter(|value| T::is_valid_decimal_precision(*value, precision))
    })
}

/// Decimals of negative scale from the text of whole numbers, which Arrow does not parse. Texts of nulls are ignored.
pub(super) fn whole<T: DecimalType<Native: Unscaled>>(
    texts: &LargeStringArray,
    data_type: &DataType,
) -> Result<ArrayRef, Mismatch> {
    let values: Vec<_> = texts.iter().map(|text| text.unwrap_or("0")).collect();
    decimals::<T, _>(&values, texts.nulls().cloned(), data_type, |text, precision, scale| {
        let power = i256::from_i128(10).checked_pow(u32::from(scale.unsigned_abs()))?;
        let value = i256::from_string(text).filter(|value| value.checked_rem(power) == Some(i256::ZERO))?;
        T::Native::from_i256(value.checked_div(power)?).filter(|value| T::is_valid_decimal_precision(*value, precision))
    })
}

/// Restores a decimal that narrows to each float: the one with the fewest digits. This recovers any decimal of up to
/// six digits. If no decimal of the scale narrows to the float, returns the nearest decimal.
pub(super) fn nearest<T: DecimalType<Native: Unscaled>>(
    values: &[f32],
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, Mismatch> {
    decimals::<T, _>(values, nulls, data_type, |value, precision, scale| {
        let unscaled = match few_digits(value, scale) {
            Some(unscaled) => i256::from(unscaled),
            None => all_digits(value, scale).or_else(|| largest(value, precision, scale))?,
        };
        let fits = |value: &T::Native| T::is_valid_decimal_precision(*value, precision);
        T::Native::from_i256(unscaled)
            .filter(fits)
            .or_else(|| T::Native::from_i256(largest(value, precision, scale)?).filter(fits))
    })
}

fn decimals<T: DecimalType, V: Copy + ToString>(
    values: &[V],
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    decimal: impl Fn(V, u8, i8) -> Option<T::Native>,
) -> Result<ArrayRef, Mismatch> {
    let (DataType::Decimal32(precision, scale)
    | DataType::Decimal64(precision, scale)
    | DataType::Decimal128(precision, scale)
    | DataType::Decimal256(precision, scale)) = *data_type
    else {
        return Err(Mismatch::TooMany);
    };
    let mut decimals = Vec::with_capacity(values.len());
    for (element, value) in values.iter().enumerate() {
        decimals.push(decimal(*value, precision, scale).ok_or_else(|| Mismatch::value(element, value.to_string()))?);
    }
    let array = PrimitiveArray::<T>::new(decimals.into(), nulls);
    Ok(Arc::new(array.with_precision_and_scale(precision, scale)?))
}

/// The unscaled integer, if it has at most six digits and narrows to this float. No two decimals of six digits narrow
/// to the same float, so these are the shortest digits.
fn few_digits(value: f32, scale: i8) -> Option<i64> {
    let power = u8::try_from(scale).ok().filter(|scale| *scale <= 22).map(|scale| 10f64.powi(i32::from(scale)))?;
    let unscaled = (f64::from(value) * power).round();
    (unscaled.abs() < 1e6 && (unscaled / power) as f32 == value).then_some(unscaled as i64)
}

/// The shortest digits if the scale has room for all of them, otherwise the float itself, rounded once.
fn all_digits(value: f32, scale: i8) -> Option<i256> {
    /// The maximum number of significant digits of a float32.
    const ALL: usize = 112;

    if !value.is_finite() {
        return None;
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let (mut digits, exponent) = digits(&format!("{:e}", value.abs()))?;
    let shift = exponent + i32::from(scale);
    if let Ok(zeros) = usize::try_from(shift) {
        digits.extend(std::iter::repeat_n('0', zeros));
        return i256::from_string(&format!("{sign}{digits}"));
    }
    let (mut digits, exponent) = self::digits(&format!("{:.ALL$e}", value.abs()))?;
    let dropped = exponent.checked_add(i32::from(scale))?.unsigned_abs() as usize;
    let kept = digits.len().checked_sub(dropped);
    let up = kept.and_then(|kept| digits.as_bytes().get(kept)).is_some_and(|digit| *digit >= b'5');
    digits.truncate(kept.unwrap_or_default());
    let whole = i256::from_string(&format!("{sign}0{digits}"))?;
    match (up, sign) {
        (false, _) => Some(whole),
        (true, "") => whole.checked_add(i256::ONE),
        (true, _) => whole.checked_sub(i256::ONE),
    }
}

/// The digits of text such as `1.5e-3`, and the power of ten of the last digit.
fn digits(text: &str) -> Option<(String, i32)> {
    let (mantissa, exponent) = text.split_once('e')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().ok()?;
    Some((format!("{whole}{fraction}"), exponent - i32::try_from(fraction.len()).ok()?))
}

/// The largest decimal of the precision, with the sign of `value`, if it narrows to this float. Rounding then left the
/// type's range, and this was the original value.
fn largest(value: f32, precision: u8, scale: i8) -> Option<i256> {
    let nines = "9".repeat(usize::from(precision));
    let float: f32 = format!("{nines}e{}", -i32::from(scale)).parse().ok()?;
    let largest = i256::from_string(&nines).filter(|_| float == value.abs())?;
    if value < 0.0 { largest.checked_neg() } else { Some(largest) }
}

/// The native integer of a decimal.
pub(super) trait Unscaled: Sized {
    fn from_i256(value: i256) -> Option<Self>;
}

impl Unscaled for i32 {
    fn from_i256(value: i256) -> Option<Self> {
        value.to_i128()?.try_into().ok()
    }
}

impl Unscaled for i64 {
    fn from_i256(value: i256) -> Option<Self> {
        value.to_i128()?.try_into().ok()
    }
}

impl Unscaled for i128 {
    fn from_i256(value: i256) -> Option<Self> {
        value.to_i128()
    }
}

impl Unscaled for i256 {
    fn from_i256(value: i256) -> Option<Self> {
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Decimal32Type, Decimal128Type};

    #[test]
    fn decimal_round_trips_through_float() {
        for scale in [-2, 0, 2, 10, 30] {
            let texts = ["0", "999999", "-999999", "123456", "-1", "100001", "7"];
            let floats: Vec<f32> = texts.map(|text| format!("{text}e{}", -scale).parse().unwrap()).into();
            let array = nearest::<Decimal128Type>(&floats, None, &DataType::Decimal128(38, scale)).unwrap();
            let back: Vec<_> = array.as_primitive::<Decimal128Type>().values().iter().map(i128::to_string).collect();
            assert_eq!(back, texts, "scale {scale}");
        }
    }

    #[test]
    fn whole_numbers_are_decimals_of_negative_scale() {
        let data_type = DataType::Decimal32(3, -2);
        let texts = LargeStringArray::from(vec![Some("1200"), None, Some("-99900"), Some("0")]);
        let array = whole::<Decimal32Type>(&texts, &data_type).unwrap();
        let values = [Some(12), None, Some(-999), Some(0)];
        assert_eq!(array.as_primitive::<Decimal32Type>().iter().collect::<Vec<_>>(), values);
        for text in ["1250", "100000", "1.2e3", "x", ""] {
            let texts = LargeStringArray::from(vec![text]);
            assert!(whole::<Decimal32Type>(&texts, &data_type).is_err(), "{text}");
        }
    }

    #[test]
    fn floats_of_many_digits_are_rounded_to_the_scale() {
        let floats = vec![1.005, 16_777_216.0, 0.049_999, 0.05, -0.05, 1e-30];
        let array = nearest::<Decimal128Type>(&floats, None, &DataType::Decimal128(38, 1)).unwrap();
        assert_eq!(array.as_primitive::<Decimal128Type>().values(), &[10, 167_772_160, 0, 1, -1, 0]);
    }

    #[test]
    fn decimal_rounded_out_of_range_becomes_the_largest_value() {
        let data_type = DataType::Decimal32(9, 2);
        let array = nearest::<Decimal32Type>(&[1e7, -1e7], None, &data_type).unwrap();
        assert_eq!(array.as_primitive::<Decimal32Type>().values(), &[999_999_999, -999_999_999]);
        for beyond in [1.1e7, f32::NAN, f32::INFINITY] {
            assert!(nearest::<Decimal32Type>(&[beyond], None, &data_type).is_err(), "{beyond}");
        }
        assert_eq!(nearest::<Decimal32Type>(&[], None, &data_type).unwrap().len(), 0);
    }
}
