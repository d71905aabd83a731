//! Parses cells like the primitive types of LazySimpleSerDe.

use std::borrow::Cow;

use arrow_schema::TimeUnit;

use super::types::MaxChars;
use crate::csv::is_float;

/// A value, and whether it is exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Read<T> {
    pub(super) value: T,
    /// A fraction, digits or characters were cut off.
    pub(super) is_cut: bool,
}

impl<T> Read<T> {
    fn whole(value: T) -> Self {
        Self { value, is_cut: false }
    }
}

/// Parses `true` or `false`, in any case.
pub(super) fn boolean(cell: &[u8]) -> Option<bool> {
    match cell {
        _ if cell.eq_ignore_ascii_case(b"true") => Some(true),
        _ if cell.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

/// Parses digits after an optional sign. Digits after a decimal point are cut off.
pub(super) fn integer(cell: &[u8]) -> Option<Read<i64>> {
    let digits = cell.strip_prefix(b"-").or_else(|| cell.strip_prefix(b"+")).unwrap_or(cell);
    let is_negative = cell.first() == Some(&b'-');
    let whole = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fraction = match &digits[whole..] {
        [] => &[][..],
        [b'.', fraction @ ..] if fraction.iter().all(u8::is_ascii_digit) => fraction,
        _ => return None,
    };
    if whole + fraction.len() == 0 {
        return None;
    }
    let mut value = 0_i64;
    for byte in &digits[..whole] {
        let digit = i64::from(byte - b'0');
        value = value.checked_mul(10)?.checked_add(if is_negative { -digit } else { digit })?;
    }
    Some(Read { value, is_cut: fraction.iter().any(|byte| *byte != b'0') })
}

/// Parses a number like Java: with spaces around it, an `f` or `d` after it, `NaN` and `Infinity`. Numbers out of range
/// become infinite or zero. An integer with too many digits for the type is rounded.
fn float<T>(cell: &[u8], special: impl Fn(f64) -> T, to_f64: impl Fn(&T) -> f64) -> Option<Read<T>>
where
    T: std::str::FromStr,
{
    let text = std::str::from_utf8(trimmed(cell)).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match unsigned {
        "NaN" => return Some(Read::whole(special(f64::NAN))),
        "Infinity" => return Some(Read::whole(special(sign * f64::INFINITY))),
        _ => {}
    }
    let text = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    // Rejects names of infinities and NaN that Rust accepts and Java does not.
    if !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) {
        return None;
    }
    let value: T = text.parse().ok()?;
    let is_cut = !is_float(text, to_f64(&value));
    Some(Read { value, is_cut })
}

pub(super) fn float32(cell: &[u8]) -> Option<Read<f32>> {
    float(cell, |value| value as f32, |value: &f32| f64::from(*value))
}

pub(super) fn float64(cell: &[u8]) -> Option<Read<f64>> {
    float(cell, |value| value, |value: &f64| *value)
}

/// Maximum number of digits of a decimal, and of those behind its point.
const MAX_DIGITS: u32 = 38;

/// Parses a decimal as an integer at `scale`, rounding half away from zero.
///
/// Like Hive (`FastHiveDecimalImpl.fastSetFromBytes`), first rounds to 38 digits, then to the scale. An exponent of more
/// than two digits is invalid.
pub(super) fn decimal(cell: &[u8], precision: u8, scale: i8) -> Option<Read<i128>> {
    let cell = trimmed(cell);
    let number = cell.strip_prefix(b"-").or_else(|| cell.strip_prefix(b"+")).unwrap_or(cell);
    let mantissa_len = number.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(number.len());
    let (mantissa, exponent) = number.split_at(mantissa_len);
    let exponent = match exponent {
        [] => 0,
        [_, digits @ ..] => {
            let exponent = std::str::from_utf8(digits).ok()?.parse::<i32>().ok()?;
            Some(exponent).filter(|exponent| exponent.abs() < 100)?
        }
    };
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = (&mantissa[..point], mantissa.get(point + 1..).unwrap_or_default());
    if whole.len() + fraction.len() == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let whole = &whole[whole.iter().position(|byte| *byte != b'0').unwrap_or(whole.len())..];
    // The digits behind the point that remain.
    let kept = MAX_DIGITS.checked_sub(u32::try_from(whole.len()).ok()?)?;
    let (fraction, rest) = fraction.split_at(fraction.len().min(kept as usize));
    let digits = whole.iter().chain(fraction);
    let mut unscaled = digits.fold(0_u128, |unscaled, byte| unscaled * 10 + u128::from(byte - b'0'));
    let mut is_cut = rest.iter().any(|byte| *byte != b'0');
    unscaled += u128::from(rest.first().is_some_and(|byte| *byte >= b'5'));
    // At most 38 digits behind the point, and an exponent of two digits.
    let mut found = fraction.len() as i32 - exponent;
    for wanted in [MAX_DIGITS as i32, i32::from(scale)] {
        if found > wanted {
            let divisor = 10_u128.checked_pow((found - wanted) as u32);
            let (quotient, rest) = divisor.map_or((0, unscaled), |divisor| (unscaled / divisor, unscaled % divisor));
            is_cut |= rest != 0;
            // The divisor is even.
            unscaled = quotient + u128::from(divisor.is_some_and(|divisor| rest >= divisor / 2));
            found = wanted;
        }
    }
    if unscaled != 0 {
        unscaled = unscaled.checked_mul(10_u128.checked_pow((i32::from(scale) - found).unsigned_abs())?)?;
    }
    let value = i128::try_from(unscaled).ok().filter(|_| unscaled < limit(precision))?;
    Some(Read { value: if cell.starts_with(b"-") { -value } else { value }, is_cut })
}

/// Returns the smallest number with more than `precision` digits.
fn limit(precision: u8) -> u128 {
    10_u128.pow(u32::from(precision).min(38))
}

/// Parses `YYYY-MM-DD` as days since the epoch, with a year of four digits. Whatever follows is cut off, unless it is
/// another digit.
pub(super) fn date(cell: &[u8]) -> Option<Read<i32>> {
    let cell = trimmed(cell);
    let unsigned = cell.strip_prefix(b"-").unwrap_or(cell);
    if unsigned.iter().position(|byte| *byte == b'-') != Some(4) {
        return None;
    }
    let (days, rest) = day(cell)?;
    let value = i32::try_from(days).ok()?;
    match rest {
        [] => Some(Read::whole(value)),
        [b'0'..=b'9', ..] => None,
        [b' ' | b'T', rest @ ..] => Some(Read { value, is_cut: time(rest) != Some((0, 0)) }),
        _ => Some(Read { value, is_cut: true }),
    }
}

/// Parses `YYYY-MM-DD hh:mm:ss.fffffffff`, a time without zone, as units since the epoch. Digits beyond the unit are
/// cut off. A date without a time is not a timestamp.
pub(super) fn timestamp(cell: &[u8], unit: TimeUnit) -> Option<Read<i64>> {
    let (days, rest) = day(trimmed(cell))?;
    let [b' ' | b'T' | b't', rest @ ..] = rest else { return None };
    let (seconds, nanos) = time(rest)?;
    let (per_second, nanos_each) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    let value = (days * 86_400 + seconds).checked_mul(per_second)?.checked_add(nanos / nanos_each)?;
    Some(Read { value, is_cut: nanos % nanos_each != 0 })
}

/// Parses the date at the start of a text as a day since the epoch; also returns the rest. A year has up to nine digits
/// and may be negative.
fn day(text: &[u8]) -> Option<(i64, &[u8])> {
    let (year, text) = match text {
        [b'-', text @ ..] => number(text, 9).filter(|(year, _)| *year > 0).map(|(year, rest)| (-year, rest))?,
        text => number(text, 9)?,
    };
    let (month, text) = number(text.strip_prefix(b"-")?, 2)?;
    let (day, text) = number(text.strip_prefix(b"-")?, 2)?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=last).contains(&day) {
        return None;
    }
    // Years begin in March here, so that the leap day comes last. 0000-03-01 is 719,468 days before the epoch.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some((year * 365 + leaps + (month * 153 + 2) / 5 + day - 1 - 719_468, text))
}

/// Parses all of `hh:mm:ss.fffffffff` as seconds and nanoseconds.
fn time(text: &[u8]) -> Option<(i64, i64)> {
    let (hour, text) = number(text, 2)?;
    let (minute, text) = number(text.strip_prefix(b":")?, 2)?;
    let (second, text) = number(text.strip_prefix(b":")?, 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanos = match text {
        [] => 0,
        [b'.', fraction @ ..] => {
            let (nanos, rest) = number(fraction, 9)?;
            if !rest.is_empty() {
                return None;
            }
            nanos * 10_i64.pow(9 - fraction.len() as u32)
        }
        _ => return None,
    };
    Some((hour * 3600 + minute * 60 + second, nanos))
}

/// Parses the number of one to `max` digits at the start of a text; also returns the rest.
fn number(text: &[u8], max: usize) -> Option<(i64, &[u8])> {
    let len = text.iter().take(max).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(len);
    let value = digits.iter().fold(0, |value, byte| value * 10 + i64::from(byte - b'0'));
    (len > 0).then_some((value, rest))
}

/// Decodes base64 in the alphabet and padding of Java's basic decoder, in which the padding may be missing; otherwise
/// returns the cell unchanged, like Hive 4. Hive 2 decoded more cells.
pub(super) fn binary(cell: &[u8]) -> Cow<'_, [u8]> {
    let sextet = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let unpadded = cell.iter().rposition(|byte| *byte != b'=').map_or(&[][..], |last| &cell[..=last]);
    let is_padded = matches!((unpadded.len() % 4, cell.len() - unpadded.len()), (0, 0) | (2, 0 | 2) | (3, 0 | 1));
    if !is_padded {
        return Cow::Borrowed(cell);
    }
    let mut bytes = Vec::with_capacity(unpadded.len() / 4 * 3 + 2);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in unpadded {
        let Some(sextet) = sextet(*byte) else { return Cow::Borrowed(cell) };
        bits = bits << 6 | u32::from(sextet);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Cow::Owned(bytes)
}

/// Returns the first characters of a text, up to its type's maximum.
pub(super) fn text(cell: &str, max: Option<MaxChars>) -> Read<&str> {
    let Some(MaxChars { count, padded }) = max else { return Read::whole(cell) };
    let cut = cell.char_indices().nth(count).map_or(cell, |(end, _)| &cell[..end]);
    match padded {
        true => Read { value: cut.trim_end_matches(' '), is_cut: !cell[cut.len()..].trim_end_matches(' ').is_empty() },
        false => Read { value: cut, is_cut: cut.len() < cell.len() },
    }
}

/// Removes the bytes at both ends that Java's `trim` removes.
fn trimmed(cell: &[u8]) -> &[u8] {
    let Some(start) = cell.iter().position(|byte| *byte > b' ') else { return &[] };
    let end = cell.iter().rposition(|byte| *byte > b' ').map_or(start, |last| last + 1);
    &cell[start..end]
}

#[cfg(test)]
mod tests;
