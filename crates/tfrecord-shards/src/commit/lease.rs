//! The lease of a run that no process has locked: until when its staging directory counts as live.
//!
//! A set whose tasks run on several machines has no process that lives from start to end. Whoever starts it, and every
//! task, extends the lease.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::commit::attempt_id::AttemptId;

/// Name of the lease in the directory of a run's attempts. It contains a time: `2026-11-26T09:30:00Z`.
pub(crate) const LEASE_NAME: &str = "lease";

/// How long a lease lasts after the last task has begun or ended.
pub(crate) const LEASE_HOURS: i64 = 24;

/// Extends the lease in `attempts`, or creates it.
pub(crate) fn extend(attempts: &Path) -> io::Result<()> {
    let until = Utc::now() + TimeDelta::hours(LEASE_HOURS);
    // Under another name first, because tasks extend it at the same time.
    let new = attempts.join(format!("{LEASE_NAME}.{}", AttemptId::new()));
    let mut file = File::create_new(&new)?;
    file.write_all(until.to_rfc3339_opts(SecondsFormat::Secs, true).as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, attempts.join(LEASE_NAME))
}

/// Extends the lease in `attempts`, if there is one. A run that holds a lock has none.
pub(crate) fn extend_if_any(attempts: &Path) -> io::Result<()> {
    if attempts.join(LEASE_NAME).try_exists()? { extend(attempts) } else { Ok(()) }
}

/// Whether `attempts` contains a lease that has not expired. One that cannot be read may not have.
pub(crate) fn is_current(attempts: &Path) -> bool {
    match fs::read_to_string(attempts.join(LEASE_NAME)) {
        Ok(until) => DateTime::parse_from_rfc3339(&until).is_ok_and(|until| until > Utc::now()),
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidData)
        }
    }
}
