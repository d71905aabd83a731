//! The option of the formats whose files record in which calendar their dates are, or fail to.

use super::invalid;
use crate::calendar::{CalendarOption, WriterZone};
use crate::error::Result;

pub(super) const KEYS: &[&str] = &["calendar"];

/// Sets an option of them; `false` if they have no such option.
pub(super) fn set(calendar: &mut CalendarOption, key: &str, value: &str) -> Result<bool> {
    if key != "calendar" {
        return Ok(false);
    }
    let hybrid = |zone: &str| WriterZone::parse(zone).map(CalendarOption::Hybrid);
    let parsed = match value.split_once(':') {
        None if value.eq_ignore_ascii_case("auto") => Some(CalendarOption::Unknown),
        None if value.eq_ignore_ascii_case("proleptic") => Some(CalendarOption::Proleptic),
        None if value.eq_ignore_ascii_case("hybrid") => hybrid("UTC"),
        Some((name, zone)) if name.eq_ignore_ascii_case("hybrid") => hybrid(zone),
        _ => None,
    };
    let expected = "auto, proleptic, hybrid, or hybrid with a time zone: hybrid:America/Los_Angeles";
    *calendar = parsed.ok_or_else(|| invalid("calendar", value, expected))?;
    Ok(true)
}
