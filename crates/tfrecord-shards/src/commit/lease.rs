//! The lease of a run that no process has locked: until when its staging directory counts as live.
//!
//! A set whose tasks run on several machines has no process that lives from start to end. Whoever starts it, and every
//! task, extends the lease.
//!
//! The time of a lease is by the clock of the file system, which all machines share. Their own clocks may be wrong.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

use crate::commit::attempt_id::AttemptId;

/// Name of the lease in the directory of a run's attempts. It contains a time: `2026-11-26T09:30:00Z`.
pub(crate) const LEASE_NAME: &str = "lease";

/// How long a lease lasts after the last task has begun or ended.
pub(crate) const LEASE_HOURS: i64 = 24;

/// Extends the lease in `attempts`, or creates it. A lease that lasts longer is left as it is: the clock of a file system
/// may be set back.
pub(crate) fn extend(attempts: &Path) -> io::Result<()> {
    // Under another name first, because tasks extend it at the same time.
    let new = attempts.join(format!("{LEASE_NAME}.{}", AttemptId::new()));
    let mut file = File::create_new(&new)?;
    let until = created(&file)? + TimeDelta::hours(LEASE_HOURS);
    if until_of(attempts).is_ok_and(|until_now| until_now.is_some_and(|until_now| until_now > until)) {
        drop(file);
        return fs::remove_file(&new);
    }
    file.write_all(until.to_rfc3339_opts(SecondsFormat::Secs, true).as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, attempts.join(LEASE_NAME))
}

/// Extends the lease in `attempts`, if there is one. A run that holds a lock has none.
pub(crate) fn extend_if_any(attempts: &Path) -> io::Result<()> {
    if attempts.join(LEASE_NAME).try_exists()? { extend(attempts) } else { Ok(()) }
}

/// Returns the time in `directory`: that of the machine if no file can be created there.
fn now(directory: &Path) -> DateTime<Utc> {
    tempfile::tempfile_in(directory).and_then(|file| created(&file)).unwrap_or_else(|_| Utc::now())
}

/// Returns the time at which a file was created that nothing has been written to.
fn created(file: &File) -> io::Result<DateTime<Utc>> {
    Ok(file.metadata()?.modified()?.into())
}

/// Returns until when the lease in `attempts` lasts, or `None` if it contains no time.
fn until_of(attempts: &Path) -> io::Result<Option<DateTime<Utc>>> {
    let until = fs::read_to_string(attempts.join(LEASE_NAME))?;
    Ok(DateTime::parse_from_rfc3339(&until).ok().map(|until| until.to_utc()))
}

/// Whether `attempts` contains a lease that has not expired. One that cannot be read may not have.
pub(crate) fn is_current(attempts: &Path) -> bool {
    match until_of(attempts) {
        Ok(until) => until.is_some_and(|until| until > now(attempts)),
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidData)
        }
    }
}
