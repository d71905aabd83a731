//! The options of CSV.

use super::{boolean, byte, compression, encoding, invalid, number_or_all, optional_byte};
use crate::csv::{CsvOptions, MAX_RECORD_LIMIT, Types};
use crate::error::{ErrorKind, Result};

pub(super) const KEYS: &[&str] = &[
    "delimiter",
    "quote",
    "escape",
    "comment",
    "terminator",
    "header",
    "null",
    "encoding",
    "compression",
    "types",
    "infer_rows",
    "newlines_in_values",
    "skip_lines",
    "short_rows",
    "trim",
    "record_limit",
];

/// Sets an option of CSV; `false` if it has no such option.
pub(super) fn set(csv: &mut CsvOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "delimiter" => csv.delimiter = Some(byte("delimiter", value)?),
        "quote" => csv.quote = optional_byte("quote", value)?,
        "escape" => csv.escape = optional_byte("escape", value)?,
        "comment" => csv.comment = optional_byte("comment", value)?,
        "terminator" => csv.terminator = Some(byte("terminator", value)?),
        "header" | "has_header" => csv.header = boolean("header", value)?,
        "encoding" => csv.encoding = encoding(value)?,
        "compression" => csv.compression = compression(value)?,
        "null" | "null_value" => csv.nulls.get_or_insert_default().push(value.to_owned()),
        "types" => {
            csv.types = match value {
                "infer" => Types::Infer,
                "string" => Types::String,
                _ => return Err(invalid("types", value, "infer or string").into()),
            }
        }
        "infer_rows" => {
            csv.infer_rows = number_or_all("infer_rows", value, "a number of rows or all")?.unwrap_or(usize::MAX);
        }
        "skip_lines" => {
            csv.skip_lines = value.parse().map_err(|_| invalid("skip_lines", value, "a number of lines"))?;
        }
        "short_rows" => {
            csv.short_rows = match value.to_ascii_lowercase().as_str() {
                "null" => true,
                "error" => false,
                _ => return Err(invalid("short_rows", value, "null or error").into()),
            }
        }
        "trim" => csv.trim = boolean("trim", value)?,
        "record_limit" => csv.record_limit = record_limit(value)?,
        "newlines_in_values" => csv.newlines_in_values = boolean("newlines_in_values", value)?,
        _ => return Ok(false),
    }
    // The record splitter would take the rest of the file for a comment.
    if csv.comment.is_some() && csv.terminator.is_some() {
        return Err(ErrorKind::OptionsExclude { first: "comment", second: "terminator" }.into());
    }
    Ok(true)
}

/// A number of bytes, or of `KiB` or `MiB` of them.
fn record_limit(value: &str) -> Result<usize> {
    let (number, unit) = value.split_at(value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len()));
    let unit = match unit.trim_start() {
        "" | "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        _ => None,
    };
    let limit = number.parse::<usize>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    match limit {
        Some(limit) if (1..=MAX_RECORD_LIMIT).contains(&limit) => Ok(limit),
        _ => Err(invalid("record_limit", value, "a size up to 256MiB, such as 64MiB").into()),
    }
}
