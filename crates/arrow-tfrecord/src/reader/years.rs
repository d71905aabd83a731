//! Parses dates and times with signed years from the text that the writer produces.
//!
//! The format is Arrow's: ISO 8601, where years before 0 and after 9999 have a sign and as many digits as needed, such
//! as `+33658-09-27T00:00:00`. Arrow itself parses it for `Date32` only.

use arrow_array::builder::LargeStringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray};
use arrow_schema::{DataType, TimeUnit};

use super::mismatch::Mismatch;
use crate::dtype::retyped;

/// The Gregorian cycle in years, after which weekdays and leap days repeat, and its length in seconds.
const CYCLE: i64 = 400;
const CYCLE_SECONDS: i64 = 146_097 * 24 * 60 * 60;

/// A four-digit year that starts a cycle, which represents all others.
const FIRST_YEAR: i64 = 2000;

/// Replaces signed years by unsigned ones, and returns the texts with the cycles to add to each. `None` if no text or
/// type needs this.
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

/// Adds cycles to dates or times.
pub(super) fn later(array: &ArrayRef, cycles: &[i64], text: &LargeStringArray) -> Result<ArrayRef, Mismatch> {
    let data_type = array.data_type();
    let cycle_ticks = ticks_per_second(data_type).and_then(|ticks| ticks.checked_mul(CYCLE_SECONDS));
    let plain = retyped(array, &DataType::Int64)?;
    let mut ticks = Vec::with_capacity(cycles.len());
    for (element, (value, cycles)) in plain.as_primitive::<Int64Type>().values().iter().zip(cycles).enumerate() {
        let shift = if *cycles == 0 { Some(0) } else { cycle_ticks.and_then(|ticks| ticks.checked_mul(*cycles)) };
        let later = shift.and_then(|shift| value.checked_add(shift));
        ticks.push(later.ok_or_else(|| Mismatch::value(element, format!("{:?}", text.value(element))))?);
    }
    Ok(retyped(&Int64Array::new(ticks.into(), array.nulls().cloned()), data_type)?)
}

/// The ticks per second of types that Arrow parses with four-digit years only.
fn ticks_per_second(data_type: &DataType) -> Option<i64> {
    Some(match data_type {
        DataType::Date64 | DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1_000_000_000,
        _ => return None,
    })
}
