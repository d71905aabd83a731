//! The options of Parquet.

use super::timestamp_unit;
use crate::error::Result;
use crate::parquet::ParquetOptions;

pub(super) const KEYS: &[&str] = &["timestamps", "binary"];

/// Sets an option of Parquet; `false` if it has no such option.
pub(super) fn set(parquet: &mut ParquetOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "timestamps" => parquet.timestamps = timestamp_unit(value)?,
        "binary" => parquet.binary.extend(value.split(',').map(|column| column.trim().to_owned())),
        _ => return Ok(false),
    }
    Ok(true)
}
