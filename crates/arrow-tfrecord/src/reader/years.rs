//! Dates and times of years that have a sign, from their text in the form that the writer gives them.
//!
//! That is Arrow's: ISO 8601, in which years before 0 and after 9999 have a sign and as many digits as they need, such as
//! `+33658-09-27T00:00:00`. Arrow itself parses it for `Date32` only.

use arrow_array::builder::LargeStringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray};
use arrow_schema::{DataType, TimeUnit};

use super::misfit::Misfit;
use crate::dtype::retyped;

/// Years after which weekdays and leap days are the same again, and the seconds of as many.
const CYCLE: i64 = 400;
const CYCLE_SECONDS: i64 = 146_097 * 24 * 60 * 60;

/// A year of four digits that stands for any of its cycle.
const FIRST_YEAR: i64 = 2000;

/// The texts with years that have no sign, and how many cycles later each is meant; none if there is nothing to do, by
/// the texts or by the type.
pub(super) fn without_signs(text: &LargeStringArray, data_type: &DataType) -> Option<(LargeStringArray, Vec<i64>)> {
    ticks_per_second(data_type)?;
    let is_signed = |text: &str| text.starts_with(['+', '-']);
    if !text.iter().flatten().any(is_signed) {
        return None;
    }
    let mut plain = LargeStringBuilder::new();
    let mut cycles = Vec::with_capacity(text.len());
    for text in text {
        let shifted = text.filter(|text| is_signed(text)).and_then(|text| {
            let (year, rest) = text[1..].split_once('-')?;
            let is_number = !year.is_empty() && year.bytes().all(|byte| byte.is_ascii_digit());
            let year: i64 = year.parse().ok().filter(|_| is_number)?;
            let year = if text.starts_with('-') { -year } else { year };
            Some((format!("{}-{rest}", FIRST_YEAR + year.rem_euclid(CYCLE)), (year - FIRST_YEAR).div_euclid(CYCLE)))
        });
        cycles.push(shifted.as_ref().map_or(0, |(_, cycles)| *cycles));
        plain.append_option(shifted.as_ref().map(|(text, _)| text.as_str()).or(text));
    }
    Some((plain.finish(), cycles))
}

/// The dates or times so many cycles later.
pub(super) fn later(array: &ArrayRef, cycles: &[i64], text: &LargeStringArray) -> Result<ArrayRef, Misfit> {
    let data_type = array.data_type();
    let cycle_ticks = ticks_per_second(data_type).and_then(|ticks| ticks.checked_mul(CYCLE_SECONDS));
    let plain = retyped(array, &DataType::Int64)?;
    let mut ticks = Vec::with_capacity(cycles.len());
    for (element, (value, cycles)) in plain.as_primitive::<Int64Type>().values().iter().zip(cycles).enumerate() {
        let shift = if *cycles == 0 { Some(0) } else { cycle_ticks.and_then(|ticks| ticks.checked_mul(*cycles)) };
        let later = shift.and_then(|shift| value.checked_add(shift));
        ticks.push(later.ok_or_else(|| Misfit::value(element, format!("{:?}", text.value(element))))?);
    }
    Ok(retyped(&Int64Array::new(ticks.into(), array.nulls().cloned()), data_type)?)
}

/// Of the types that Arrow parses with years of four digits only.
fn ticks_per_second(data_type: &DataType) -> Option<i64> {
    Some(match data_type {
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1_000_000_000,
        _ => return None,
    })
}
