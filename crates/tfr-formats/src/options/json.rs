//! The options of JSON.

use super::{boolean, compression, encoding, invalid, number_or_all};
use crate::csv::Types;
use crate::error::Result;
use crate::json::JsonOptions;

pub(super) const KEYS: &[&str] = &["encoding", "compression", "types", "infer_rows", "newlines_in_values"];

/// Sets an option of JSON; `false` if it has no such option.
pub(super) fn set(json: &mut JsonOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "encoding" => json.encoding = encoding(value)?,
        "compression" => json.compression = compression(value)?,
        "types" => {
            json.types = match value {
                "infer" => Types::Infer,
                "string" => Types::String,
                _ => return Err(invalid("types", value, "infer or string").into()),
            }
        }
        "infer_rows" => {
            json.infer_rows = number_or_all("infer_rows", value, "a number of rows or all")?.unwrap_or(usize::MAX);
        }
        "newlines_in_values" => json.newlines_in_values = Some(boolean("newlines_in_values", value)?),
        _ => return Ok(false),
    }
    Ok(true)
}
