//! Finds the version of a table that was the newest at a time.

use chrono::{DateTime, NaiveDate, NaiveDateTime, SecondsFormat, Utc};
use datafusion_common::Result;

use super::actions::Metadata;
use super::log_files::LogFiles;
use super::snapshot::actions;
use crate::error::{Error, TableError};
use crate::table::Place;

const IS_ENABLED: &str = "delta.enableInCommitTimestamps";
const ENABLED_AT: &str = "delta.inCommitTimestampEnablementVersion";

/// Parses the value of the option `timestamp`, in UTC unless it has a zone.
pub(crate) fn parse(text: &str) -> Option<DateTime<Utc>> {
    let text = text.trim();
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    let local = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
    let time = local.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let date = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    time.or_else(date).map(|time| time.and_utc())
}

/// Returns the newest version that was there at a time. `metadata` is that of the newest version.
///
/// The time of a version is that in its commit, if the table records such times, else the modification time of its
/// commit's file. A time of a file that is earlier than that of the version before is raised, as Delta does.
///
/// # Errors
/// The time is before the oldest version, or after the newest.
pub(super) async fn version_at(
    place: &Place,
    log: &LogFiles,
    metadata: &Metadata,
    asked: DateTime<Utc>,
) -> Result<u64> {
    let is_enabled = metadata.property(IS_ENABLED).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let recorded_from = match metadata.property(ENABLED_AT).map(str::parse::<u64>) {
        _ if !is_enabled => u64::MAX,
        Some(Ok(version)) => version,
        _ => 0,
    };
    let mut times = Vec::with_capacity(log.commits.len());
    let mut latest = i64::MIN;
    for (version, meta) in log.commits.range(..recorded_from) {
        latest = latest.saturating_add(1).max(meta.last_modified.timestamp_millis());
        times.push((*version, latest));
    }
    for (version, meta) in log.commits.range(recorded_from..) {
        let info = actions(place, meta.clone()).await?.into_iter().find_map(|action| action.commit_info);
        let time = info.and_then(|info| info.in_commit_timestamp);
        let lacks = || place.damaged(place.name(&meta.location), "it has no time of its commit".to_owned());
        times.push((*version, time.ok_or_else(lacks)?));
    }
    let asked_millis = asked.timestamp_millis();
    let refused = |what: &str, time: i64| {
        let time = DateTime::from_timestamp_millis(time).unwrap_or_default();
        let time = time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let asked = asked.to_rfc3339_opts(SecondsFormat::Millis, true);
        let problem = format!("the Delta table has no version of {asked}: its {what} is of {time}");
        Error::from(TableError::unusable(place.table(), problem))
    };
    match (times.iter().rfind(|(_, time)| *time <= asked_millis), times.first(), times.last()) {
        (Some(_), _, Some((_, newest))) if asked_millis > *newest => Err(refused("newest version", *newest).into()),
        (Some((version, _)), ..) => Ok(*version),
        (None, Some((_, oldest)), _) => Err(refused("oldest version", *oldest).into()),
        (None, ..) => Err(refused("oldest version", 0).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delta_timestamp_is_in_utc_unless_it_has_a_zone() {
        let time = parse("2026-01-02T03:04:05Z").unwrap();
        for text in ["2026-01-02 03:04:05", "2026-01-02T03:04:05", "2026-01-02T04:04:05+01:00"] {
            assert_eq!(parse(text), Some(time), "{text}");
        }
        assert_eq!(parse("2026-01-02"), parse("2026-01-02 00:00:00"));
        assert_eq!(parse("yesterday"), None);
    }
}
