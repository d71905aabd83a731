//! The options of Hive text, also under the names that Hive has for them.

use super::{compression, encoding, invalid};
use crate::error::{ErrorKind, Result};
use crate::hive_text::{HiveTextOptions, OnError};
use crate::text::Encoding;

pub(super) const KEYS: &[&str] = &[
    "delimiter",
    "collection_delimiter",
    "map_key_delimiter",
    "escape",
    "null",
    "skip_header",
    "skip_footer",
    "schema",
    "encoding",
    "compression",
    "on_error",
];

/// Hive holds no more lines back (`hive.file.max.footer`).
const MAX_FOOTER: usize = 100;

/// Sets an option of Hive text; `false` if it has no such option.
pub(super) fn set(hive: &mut HiveTextOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "delimiter" | "field.delim" | "serialization.format" => hive.delimiter = delimiter(value)?,
        // Hive itself misspelled the property for years.
        "collection_delimiter" | "collection.delim" | "colelction.delim" => {
            hive.collection_delimiter = byte("collection_delimiter", value)?;
        }
        "map_key_delimiter" | "mapkey.delim" => hive.map_key_delimiter = byte("map_key_delimiter", value)?,
        "escape" | "escape.delim" => {
            hive.escape = match value {
                "" | "none" => None,
                _ => Some(byte("escape", value)?),
            }
        }
        "null" | "null_value" | "serialization.null.format" => hive.null = value.to_owned(),
        "skip_header" | "skip.header.line.count" => hive.skip_header = number("skip_header", value)?,
        "skip_footer" | "skip.footer.line.count" => {
            hive.skip_footer = number("skip_footer", value)?;
            if hive.skip_footer > MAX_FOOTER {
                return Err(invalid("skip_footer", value, "a number of lines, at most 100").into());
            }
        }
        // Hive itself takes nothing else.
        "line.delim" => {
            if !matches!(value, "\n" | "\\n" | "\\012" | "\\x0a" | "10") {
                return Err(invalid("line.delim", value, "\\n: lines end with LF, CR or CR LF").into());
            }
        }
        "schema" => hive.columns = Some(value.parse()?),
        "encoding" | "serialization.encoding" => hive.encoding = encoding(value)?,
        "compression" => hive.compression = compression(value)?,
        "on_error" => {
            hive.on_error = match value.to_ascii_lowercase().as_str() {
                "null" => OnError::Null,
                "error" => OnError::Error,
                _ => return Err(invalid("on_error", value, "null or error").into()),
            }
        }
        _ => return Ok(false),
    }
    // Such a byte is a part of a character in UTF-8, once the text has been decoded.
    let marks = [hive.collection_delimiter, hive.map_key_delimiter];
    let of_cells = match hive.delimiter.as_slice() {
        [byte] => Some(*byte),
        // A text of several bytes is compared as UTF-8.
        _ => None,
    };
    let has_high = marks.into_iter().chain(hive.escape).chain(of_cells).any(|mark| !mark.is_ascii());
    if has_high && hive.encoding != Encoding::Utf8 {
        return Err(ErrorKind::OptionsExclude { first: "delimiter", second: "encoding" }.into());
    }
    Ok(true)
}

/// What stands between cells: a byte as Hive's declarations have it, or a text of several characters. In this, too, `\t`
/// and `\\` are characters.
fn delimiter(value: &str) -> Result<Vec<u8>> {
    let one = byte("delimiter", value);
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

/// A byte as Hive's declarations have it: a character, `\t`, `\001`, or a number; one above 127 as `\xfe` or `\376`.
fn byte(key: &'static str, value: &str) -> Result<u8> {
    let wrong = || invalid(key, value, "one ASCII character, \\t, \\001 or \\x01").into();
    let byte = match value {
        "tab" | "\\t" => Some(b'\t'),
        "\\\\" => Some(b'\\'),
        _ => match (value.as_bytes(), value.strip_prefix('\\')) {
            // Hive takes a digit for the number of a byte.
            ([digit @ b'0'..=b'9'], _) => Some(digit - b'0'),
            ([byte], _) => Some(*byte),
            (_, Some(number)) => match number.strip_prefix('x') {
                Some(hex) => u8::from_str_radix(hex, 16).ok(),
                None => u8::from_str_radix(number, 8).ok(),
            },
            // As Hive has it, from -128 to 127.
            _ => value.parse::<i8>().ok().map(|number| number as u8),
        },
    };
    match byte {
        // What ends a line.
        Some(b'\n' | b'\r') | None => Err(wrong()),
        Some(byte) => Ok(byte),
    }
}

fn number(key: &'static str, value: &str) -> Result<usize> {
    value.parse().map_err(|_| invalid(key, value, "a number of lines").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_hive_declares_them() -> Result<()> {
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
            ("\u{1}", 1),
            ("\\", b'\\'),
        ] {
            let mut hive = HiveTextOptions::default();
            assert!(set(&mut hive, "field.delim", value)?);
            assert_eq!(hive.delimiter, [expected], "{value:?}");
        }
        for (value, expected) in [("||", "||"), ("|+|", "|+|"), ("\\t|", "\t|"), ("@#@", "@#@"), ("a\\\\", "a\\")] {
            let mut hive = HiveTextOptions::default();
            assert!(set(&mut hive, "field.delim", value)?);
            assert_eq!(hive.delimiter, expected.as_bytes(), "{value:?}");
            assert!(set(&mut hive, "collection.delim", value).is_err(), "{value:?}");
        }
        for value in ["", "\\n", "\n", "é", "\\400", "200", "a\nb"] {
            assert!(set(&mut HiveTextOptions::default(), "delimiter", value).is_err(), "{value:?}");
        }
        Ok(())
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |pairs: &[(&str, &str)]| {
            let mut hive = HiveTextOptions::default();
            let errors = pairs.iter().filter_map(|(key, value)| set(&mut hive, key, value).err());
            errors.map(|error| error.to_string()).next()
        };
        for (pairs, message) in [
            (
                &[("schema", "a FOO")][..],
                "option schema=\"a FOO\": expected columns as Hive declares them, 'id BIGINT, tags ARRAY<STRING>': expected a type at \"FOO\"",
            ),
            (&[("skip_footer", "101")], "option skip_footer=\"101\": expected a number of lines, at most 100"),
            (
                &[("line.delim", "\\n"), ("line.delim", "|")],
                "option line.delim=\"|\": expected \\n: lines end with LF, CR or CR LF",
            ),
            (&[("on_error", "skip")], "option on_error=\"skip\": expected null or error"),
            (
                &[("delimiter", "\\xfe"), ("encoding", "latin1")],
                "options \"delimiter\" and \"encoding\" cannot be used together",
            ),
        ] {
            assert_eq!(refused(pairs).as_deref(), Some(message));
        }
    }
}
