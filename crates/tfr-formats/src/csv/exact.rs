//! Detects values that Arrow's cast from text would silently change.

use arrow_array::types::{Float16Type, Float32Type};
use arrow_cast::parse::Parser;
use arrow_schema::{DataType, TimeUnit};

use super::infer::{is_in_float_range, parse_float};

/// Every integer with at most this many digits is exact as a float64.
pub(crate) const EXACT_DIGITS: usize = 15;

/// Whether a column of `data_type` can represent the value of `cell` exactly, provided that Arrow can cast it at all.
///
/// Arrow rounds decimals to the scale, and truncates fractions of a second and times of day. It reads a leap second as
/// the next second, a number beyond a float's range as infinity, and an integer with too many digits as another one.
/// Rounding a decimal fraction to the nearest float is not counted as a change.
pub(crate) fn holds(data_type: &DataType, cell: &str) -> bool {
    match data_type {
        DataType::Float16 => Float16Type::parse(cell).is_some_and(|value| is_float(cell, value.into())),
        DataType::Float32 => Float32Type::parse(cell).is_some_and(|value| is_float(cell, value.into())),
        DataType::Float64 => parse_float(cell).is_some_and(|value| is_float(cell, value)),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => {
            let (digits, rest) = fraction(cell);
            rest.trim_end().is_empty() && i64::try_from(digits).is_ok_and(|digits| digits <= i64::from(*scale).max(0))
        }
        DataType::Date32 | DataType::Date64 => !cell.contains(':'),
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
            let (digits, _) = fraction(cell);
            digits <= unit_digits(*unit) && !cell.contains(":60")
        }
        _ => true,
    }
}

/// Whether `value`, parsed from `cell`, is within the range of its type and, if the cell is an integer written in full,
/// equal to it.
pub(crate) fn is_float(cell: &str, value: f64) -> bool {
    is_in_float_range(cell, value) && keeps_digits(cell, value)
}

fn keeps_digits(cell: &str, value: f64) -> bool {
    let digits = cell.strip_prefix(['-', '+']).unwrap_or(cell);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return true;
    }
    match digits.parse::<u64>() {
        Ok(number) if digits.len() <= EXACT_DIGITS => number as f64 == value.abs(),
        // Prints all digits of a float, however many there are.
        _ => value == 0.0 || format!("{:.0}", value.abs()) == digits.trim_start_matches('0'),
    }
}

/// Returns the number of digits after the decimal point, without trailing zeros, and the text after them.
fn fraction(cell: &str) -> (usize, &str) {
    let Some((_, behind)) = cell.split_once('.') else { return (0, "") };
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    let (digits, rest) = behind.split_at(end);
    (digits.trim_end_matches('0').len(), rest)
}

fn unit_digits(unit: TimeUnit) -> usize {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_exactness_check_accepts_only_lossless_cells() {
        use TimeUnit::{Microsecond, Nanosecond, Second};
        for (data_type, held, lost) in [
            (DataType::Decimal128(5, 2), &["1.23", "1.2300", "-7", ".5"][..], &["1.239", "1.5e3", "1.5000e3"][..]),
            (DataType::Decimal128(5, 0), &["7", "7.0"], &["7.5"]),
            (DataType::Float64, &["0.1", "1e308", "inf", "-0.0"], &["1e400", "-1e400", "1e-400"]),
            (
                DataType::Float64,
                &["-9007199254740992", "18446744073709551616", "00000000000000000001", "9007199254740993.0", "1e23"],
                &["9007199254740993", "-9007199254740993", "18446744073709551617", "100000000000000000000000"],
            ),
            (DataType::Float32, &["0.1", "1e38", "NaN"], &["1e39", "1e-60"]),
            (DataType::Float32, &["16777216", "-33554436", "16777217.0"], &["16777217", "-33554433"]),
            (DataType::Float16, &["2048"], &["2049"]),
            (DataType::Date32, &["2020-01-01"], &["2020-01-01 10:00:00", "2020-01-01T10:00"]),
            (
                DataType::Timestamp(Second, None),
                &["2020-01-01 00:00:01", "2020-01-01 00:00:01.000Z"],
                &["2020-01-01 00:00:00.9", "2016-12-31 23:59:60"],
            ),
            (DataType::Timestamp(Microsecond, None), &["2020-01-01 00:00:00.123456"], &["2020-01-01 00:00:00.1234567"]),
            (DataType::Time64(Nanosecond), &["01:02:03.123456789"], &["01:02:03.1234567891"]),
        ] {
            for cell in held {
                assert!(holds(&data_type, cell), "{data_type} {cell}");
            }
            for cell in lost {
                assert!(!holds(&data_type, cell), "{data_type} {cell}");
            }
        }
    }
}
