//! The options of ORC.

use super::timestamp_unit;
use crate::error::Result;
use crate::orc::OrcOptions;

pub(super) const KEYS: &[&str] = &["timestamps"];

/// Sets an option of ORC; `false` if it has no such option.
pub(super) fn set(orc: &mut OrcOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "timestamps" => orc.timestamps = timestamp_unit(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}
