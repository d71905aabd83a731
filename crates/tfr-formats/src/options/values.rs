//! Parsers of option values. Errors describe the accepted values.

use datafusion_tfrecord::options::values::one_of;

use crate::calendar::{CalendarOption, WriterZone};
use crate::error::ErrorKind;
use crate::hive_text::HiveColumns;
use crate::orc::TimestampUnit;
use crate::text::{Compression, Encoding};

/// Parses a compression; `None` to detect it.
pub(super) fn compression(value: &str) -> Result<Option<Compression>, String> {
    match Compression::parse(&value.to_ascii_lowercase()) {
        _ if value.eq_ignore_ascii_case("auto") => Ok(None),
        Some(compression) => Ok(Some(compression)),
        None => Err("auto, none, gzip, bzip2, xz, zstd or zlib".to_owned()),
    }
}

pub(super) fn encoding(value: &str) -> Result<Encoding, String> {
    Encoding::parse(value).ok_or_else(|| Encoding::EXPECTED.to_owned())
}

/// Parses columns in Hive's DDL.
pub(super) fn columns(value: &str) -> Result<HiveColumns, String> {
    HiveColumns::parse("", value).map_err(|error| match error.kind() {
        ErrorKind::OptionValue { expected, .. } => expected.clone(),
        _ => error.to_string(),
    })
}

/// Parses the calendar of dates in files that do not record it.
pub(super) fn calendar(value: &str) -> Result<CalendarOption, String> {
    let hybrid = |zone: &str| WriterZone::parse(zone).map(CalendarOption::Hybrid);
    let parsed = match value.split_once(':') {
        None if value.eq_ignore_ascii_case("auto") => Some(CalendarOption::Unknown),
        None if value.eq_ignore_ascii_case("proleptic") => Some(CalendarOption::Proleptic),
        None if value.eq_ignore_ascii_case("hybrid") => hybrid("UTC"),
        Some((name, zone)) if name.eq_ignore_ascii_case("hybrid") => hybrid(zone),
        _ => None,
    };
    let expected = "auto, proleptic, hybrid, or hybrid with a time zone: hybrid:America/Los_Angeles";
    parsed.ok_or_else(|| expected.to_owned())
}

/// Parses a unit of timestamps; `None` to determine it from the values.
pub(super) fn timestamp_unit(value: &str) -> Result<Option<TimestampUnit>, String> {
    let [ns, us, cut] =
        [TimestampUnit::Nanosecond, TimestampUnit::Microsecond, TimestampUnit::MicrosecondCut].map(Some);
    one_of(value, &[("auto", None), ("ns", ns), ("us", us), ("cut", cut)])
}

/// Parses a number of lines.
pub(super) fn lines(value: &str) -> Result<usize, String> {
    value.parse().map_err(|_| "a number of lines".to_owned())
}

/// Parses one ASCII character; some have names.
pub(super) fn character(value: &str) -> Result<u8, String> {
    let byte = match value {
        "tab" | "\\t" => Some(b'\t'),
        "\\n" => Some(b'\n'),
        "\\r" => Some(b'\r'),
        "\\0" => Some(0),
        _ => match value.strip_prefix("\\x").map(|hex| u8::from_str_radix(hex, 16)) {
            Some(Ok(byte)) => Some(byte),
            _ => <[u8; 1]>::try_from(value.as_bytes()).ok().map(|[byte]| byte),
        },
    };
    // A byte of a longer UTF-8 sequence would split characters.
    byte.filter(u8::is_ascii).ok_or_else(|| "one ASCII character, \\t or \\x01".to_owned())
}

/// Parses one ASCII character, or none.
pub(super) fn optional_character(value: &str) -> Result<Option<u8>, String> {
    optional(value, character)
}

/// Parses a byte in the syntax of Hive's declarations, or none.
pub(super) fn optional_byte(value: &str) -> Result<Option<u8>, String> {
    optional(value, byte)
}

fn optional(value: &str, parse: fn(&str) -> Result<u8, String>) -> Result<Option<u8>, String> {
    match value {
        "" | "none" => Ok(None),
        _ => parse(value).map(Some),
    }
}

/// Parses a cell delimiter: a byte in the syntax of Hive's declarations, or several characters. Among these, too, `\t`
/// and `\\` are escapes.
pub(super) fn delimiter(value: &str) -> Result<Vec<u8>, String> {
    let one = byte(value);
    let is_number = value.parse::<i64>().is_ok();
    if one.is_ok() || is_number || value.chars().count() < 2 {
        return one.map(|byte| vec![byte]);
    }
    let text = value.replace("\\t", "\t").replace("\\\\", "\\");
    match text.contains(['\n', '\r']) || text.contains('\\') && value.starts_with('\\') && !value.starts_with("\\\\") {
        true => one.map(|byte| vec![byte]),
        false => Ok(text.into_bytes()),
    }
}

/// Parses a byte in the syntax of Hive's declarations: a character, `\t`, `\001`, `\u0001`, `\;` or a number. Bytes above
/// 127 are written `\xfe` or `\376`.
pub(super) fn byte(value: &str) -> Result<u8, String> {
    let byte = match value {
        "tab" | "\\t" => Some(b'\t'),
        "\\\\" => Some(b'\\'),
        _ => match (value.as_bytes(), value.strip_prefix('\\')) {
            // Hive takes a digit for the number of a byte.
            ([digit @ b'0'..=b'9'], _) => Some(digit - b'0'),
            ([byte], _) => Some(*byte),
            (_, Some(escaped)) => match (escaped.as_bytes(), escaped.split_at_checked(1)) {
                ([sign], _) if sign.is_ascii_punctuation() => Some(*sign),
                (_, Some(("x", hex))) => u8::from_str_radix(hex, 16).ok(),
                (_, Some(("u", hex))) if hex.len() == 4 => {
                    u8::from_str_radix(hex, 16).ok().filter(|code| code.is_ascii())
                }
                _ => u8::from_str_radix(escaped, 8).ok(),
            },
            // Hive accepts -128 to 127.
            _ => value.parse::<i8>().ok().map(|number| number as u8),
        },
    };
    match byte {
        // Line ends.
        Some(b'\n' | b'\r') | None => Err("one ASCII character, \\t, \\001 or \\x01".to_owned()),
        Some(byte) => Ok(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_hive_declares_them() -> Result<(), String> {
        for (value, expected) in [
            ("|", b'|'),
            ("\\t", b'\t'),
            ("\\001", 1),
            ("\\x01", 1),
            ("1", 1),
            ("9", b'\t'),
            ("44", b','),
            ("-2", 0xfe),
            ("\\376", 0xfe),
            ("\\xfe", 0xfe),
            ("\\u0001", 1),
            ("\\u007C", b'|'),
            ("\\;", b';'),
            ("\\,", b','),
            ("\u{1}", 1),
            ("\\", b'\\'),
        ] {
            assert_eq!(delimiter(value)?, [expected], "{value:?}");
        }
        for (value, expected) in [("||", "||"), ("|+|", "|+|"), ("\\t|", "\t|"), ("@#@", "@#@"), ("a\\\\", "a\\")] {
            assert_eq!(delimiter(value)?, expected.as_bytes(), "{value:?}");
            assert!(byte(value).is_err(), "{value:?}");
        }
        for value in ["", "\\u00e9", "\\u1", "\\u000a", "\\n", "\n", "é", "\\400", "200", "a\nb"] {
            assert!(delimiter(value).is_err(), "{value:?}");
        }
        Ok(())
    }
}
