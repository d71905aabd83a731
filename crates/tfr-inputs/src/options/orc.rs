//! The options of ORC.

use super::invalid;
use crate::error::Result;
use crate::orc::{OrcOptions, TimestampUnit};

pub(super) const KEYS: &[&str] = &["timestamps"];

/// Sets an option of ORC; `false` if it has no such option.
pub(super) fn set(orc: &mut OrcOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "timestamps" => {
            orc.timestamps = match value.to_ascii_lowercase().as_str() {
                "auto" => None,
                "ns" => Some(TimestampUnit::Nanosecond),
                "us" => Some(TimestampUnit::Microsecond),
                _ => return Err(invalid("timestamps", value, "auto, ns or us").into()),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}
