//! Parses durations from the text that the writer produces.
//!
//! The format is Arrow's: ISO 8601 with seconds only, `PT5400S`, `-PT0.25S`, `P0D`. Arrow itself does not parse it.

use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray};
use arrow_schema::{DataType, TimeUnit};

use super::mismatch::Mismatch;
use crate::dtype::retyped;

/// Parses texts as durations of `data_type`, whose unit is `unit`.
pub(super) fn durations(text: &LargeStringArray, data_type: &DataType, unit: TimeUnit) -> Result<ArrayRef, Mismatch> {
    let digits = match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let mut ticks = Vec::with_capacity(text.len());
    for element in 0..text.len() {
        let value = if text.is_valid(element) { text.value(element) } else { "P0D" };
        ticks.push(parse(value, digits).ok_or_else(|| Mismatch::value(element, format!("{value:?}")))?);
    }
    let ticks = Int64Array::new(ticks.into(), text.nulls().cloned());
    Ok(retyped(&ticks, data_type)?)
}

/// Parses a duration in units of `10^-digits` seconds. `None` if it is not a whole number of units.
fn parse(text: &str, digits: usize) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    if text == "P0D" {
        return Some(0);
    }
    let text = text.strip_prefix("PT")?.strip_suffix('S')?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i128>().ok())?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > digits {
        return None;
    }
    let fraction = number(&format!("{fraction:0<digits$}0"))? / 10;
    let seconds = number(seconds)?.checked_mul(10_i128.pow(digits as u32))?;
    i64::try_from(sign * seconds.checked_add(fraction)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_parser_accepts_whole_units_in_range() {
        assert_eq!(parse("PT5400S", 0), Some(5400));
        assert_eq!(parse("-PT0.25S", 3), Some(-250));
        assert_eq!(parse("P0D", 9), Some(0));
        assert_eq!(parse("-PT9223372036.854775808S", 9), Some(i64::MIN));
        assert_eq!(parse("PT9223372036.854775808S", 9), None);
        assert_eq!(parse("PT1.5S", 0), None);
        for text in ["", "PT", "PTS", "PT+1S", "PT1.-5S", "P1D", "PT1H", "1", "--PT1S", "PT1S "] {
            assert_eq!(parse(text, 9), None, "{text}");
        }
    }
}
