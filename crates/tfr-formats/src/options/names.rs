//! The options of the formats whose columns have names.

use super::invalid;
use crate::error::Result;
use crate::names::NameMatching;

pub(super) const KEYS: &[&str] = &["names"];

/// Sets an option of them; `false` if they have no such option.
pub(super) fn set(names: &mut NameMatching, key: &str, value: &str) -> Result<bool> {
    if key != "names" {
        return Ok(false);
    }
    *names = match value.to_ascii_lowercase().as_str() {
        "exact" => NameMatching::Exact,
        "insensitive" => NameMatching::Insensitive,
        _ => return Err(invalid("names", value, "exact or insensitive").into()),
    };
    Ok(true)
}
