//! Parses values that the metadata of tables has as text.

use arrow_schema::{DataType, TimeUnit};
use chrono::{DateTime, NaiveDate, NaiveDateTime};
use datafusion_common::ScalarValue;

/// Parses a value. An empty text is null, by the protocol of Delta. `None` if the text is not a value of the type, or a
/// partition column cannot have it.
pub(crate) fn parse(text: Option<&str>, data_type: &DataType) -> Option<ScalarValue> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return ScalarValue::try_from(data_type).ok() };
    Some(match data_type {
        DataType::Utf8 => ScalarValue::Utf8(Some(text.to_owned())),
        // Spark writes the bytes as if they were UTF-8.
        DataType::Binary => ScalarValue::Binary(Some(text.as_bytes().to_vec())),
        DataType::Int64 => ScalarValue::Int64(Some(text.parse().ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(text.parse().ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(text.parse().ok()?)),
        DataType::Int8 => ScalarValue::Int8(Some(text.parse().ok()?)),
        DataType::Float32 => {
            ScalarValue::Float32(Some(text.parse().ok().filter(|number: &f32| is_float(text, number.is_infinite()))?))
        }
        DataType::Float64 => {
            ScalarValue::Float64(Some(text.parse().ok().filter(|number: &f64| is_float(text, number.is_infinite()))?))
        }
        DataType::Boolean if text.eq_ignore_ascii_case("true") => ScalarValue::Boolean(Some(true)),
        DataType::Boolean if text.eq_ignore_ascii_case("false") => ScalarValue::Boolean(Some(false)),
        DataType::Date32 => {
            let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
            let days = date.signed_duration_since(NaiveDate::from_ymd_opt(1970, 1, 1)?).num_days();
            ScalarValue::Date32(Some(i32::try_from(days).ok()?))
        }
        DataType::Decimal128(precision, scale) => {
            ScalarValue::Decimal128(Some(decimal(text, *precision, *scale)?), *precision, *scale)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let time = match zone {
                Some(_) => instant(text)?,
                None => local(text)?,
            };
            (time.and_utc().timestamp_subsec_nanos() % 1000 == 0).then_some(())?;
            ScalarValue::TimestampMicrosecond(Some(time.and_utc().timestamp_micros()), zone.clone())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let time = match zone {
                Some(_) => instant(text)?,
                None => local(text)?,
            };
            ScalarValue::TimestampNanosecond(Some(time.and_utc().timestamp_nanos_opt()?), zone.clone())
        }
        _ => return None,
    })
}

/// Whether a text is an instant without a time zone.
pub(crate) fn lacks_zone(text: &str) -> bool {
    local(text).is_some()
}

/// Whether digits made a number, which is not out of range.
fn is_float(text: &str, is_infinite: bool) -> bool {
    !(is_infinite && text.contains(|c: char| c.is_ascii_digit()))
}

fn local(text: &str) -> Option<NaiveDateTime> {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok()
}

/// Parses an instant: with a zone, or in UTC.
fn instant(text: &str) -> Option<NaiveDateTime> {
    let zoned = match text.strip_suffix('Z') {
        Some(rest) => format!("{rest}+00:00"),
        None => text.to_owned(),
    };
    let parsed = DateTime::parse_from_str(&zoned, "%Y-%m-%dT%H:%M:%S%.f%:z").map(|time| time.naive_utc());
    parsed.ok().or_else(|| local(text))
}

/// Parses a decimal exactly: `5.50`, `-1E-18`, `0E-18`.
fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => (-1, number),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    // The number is `digits` with this many zeros, or without this many digits.
    let shift = exponent.checked_add(i32::from(scale))?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scaled = match usize::try_from(shift) {
        Ok(zeros) if significant.len() + zeros <= usize::from(precision) => {
            format!("{significant}{}", "0".repeat(zeros))
        }
        Ok(_) => return None,
        Err(_) => {
            let (kept, cut) =
                significant.split_at_checked(significant.len().checked_sub(shift.unsigned_abs() as usize)?)?;
            cut.bytes().all(|byte| byte == b'0').then(|| kept.to_owned())?
        }
    };
    (scaled.len() <= usize::from(precision)).then_some(())?;
    Some(sign * scaled.parse::<i128>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTANT: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

    #[test]
    fn delta_partition_values_are_exact() {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let micros = |micros| ScalarValue::TimestampMicrosecond(Some(micros), None);
        let in_utc = |micros| ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into()));
        let decimal = |value| ScalarValue::Decimal128(Some(value), 38, 18);
        let wide = DataType::Decimal128(38, 18);
        for (text, data_type, expected) in [
            ("-1E-18", &wide, decimal(-1)),
            ("0E-18", &wide, decimal(0)),
            ("5.50", &wide, decimal(5_500_000_000_000_000_000)),
            ("1E+19", &wide, decimal(10_i128.pow(37))),
            ("1.0E20", &DataType::Float64, ScalarValue::Float64(Some(1e20))),
            ("-Infinity", &DataType::Float32, ScalarValue::Float32(Some(f32::NEG_INFINITY))),
            ("+10000-01-02", &DataType::Date32, ScalarValue::Date32(Some(2_932_898))),
            ("1969-12-31T23:59:59.500001Z", &utc, in_utc(-499_999)),
            ("1970-01-01T01:00:00+01:00", &utc, in_utc(0)),
            ("1969-12-31 23:59:58.5", &utc, in_utc(-1_500_000)),
            ("1970-01-02 00:00:00.000001", &INSTANT, micros(86_400_000_001)),
            ("a b", &DataType::Binary, ScalarValue::Binary(Some(b"a b".to_vec()))),
        ] {
            assert_eq!(parse(Some(text), data_type), Some(expected), "{text}");
        }
        let zero = parse(Some("-0.0"), &DataType::Float64).unwrap();
        assert!(matches!(zero, ScalarValue::Float64(Some(zero)) if zero.is_sign_negative()));
        assert!(parse(Some(""), &DataType::Utf8).unwrap().is_null() && parse(None, &wide).unwrap().is_null());
    }

    #[test]
    fn delta_partition_values_out_of_their_type_are_refused() {
        for (text, data_type) in [
            ("1E-19", DataType::Decimal128(38, 18)),
            ("1E+20", DataType::Decimal128(38, 18)),
            ("100.00", DataType::Decimal128(4, 2)),
            ("1.5", DataType::Int32),
            ("128", DataType::Int8),
            ("1e400", DataType::Float64),
            ("yes", DataType::Boolean),
            ("2026-02-30", DataType::Date32),
            ("1970-01-01T00:00:00Z", INSTANT),
            ("1970-01-01 00:00:00.0000001", INSTANT),
        ] {
            assert_eq!(parse(Some(text), &data_type), None, "{text}");
        }
    }
}
