//! Removes the temporary directories of runs that were killed.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::names::{GONE, LIVE, LOCK, PIPE, PREFIX, STANDARD_INPUT, TABLE, UNLOCKED};
use super::place::{remove_contents, remove_lock};

/// The age from which a directory without a lock is dead. A run locks its directory right after creating it, and
/// removes the lock right before removing it.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// Removes the leftovers of killed runs in `parent`. Errors are ignored, since leftovers do no harm.
pub fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let is_named = |name: &OsString| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
    let found: Vec<PathBuf> =
        entries.flatten().filter(|entry| is_named(&entry.file_name())).map(|entry| entry.path()).collect();
    if found.is_empty() {
        return;
    }
    // A new file has this run's user and the time of the file system, which may differ from that of this machine.
    let Ok(new) = tempfile::tempfile_in(parent).and_then(|file| file.metadata()) else { return };
    for path in found {
        if remove_if_dead(&path, &new).unwrap_or(false) {
            log::info!("{}: removed, left by a run that was killed", path.display());
        }
    }
}

/// Removes the directory of a run if a run of this user created it and is dead.
fn remove_if_dead(dir: &Path, new: &Metadata) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(dir)?;
    if !metadata.is_dir() || metadata.uid() != new.uid() {
        return Ok(false);
    }
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    let is = |name: &OsString, ours: &[&str]| ours.iter().any(|ours| name == *ours);
    let is_ours = |name: &OsString| {
        is(name, &[LOCK, UNLOCKED, LIVE, GONE, STANDARD_INPUT, TABLE])
            || name.as_encoded_bytes().starts_with(PIPE.as_bytes())
    };
    if !names.iter().all(is_ours) {
        return Ok(false);
    }
    let _locked = if names.iter().any(|name| is(name, &[LOCK])) {
        let lock = File::open(dir.join(LOCK))?;
        if lock.try_lock().is_err() {
            return Ok(false);
        }
        Some(lock)
    } else {
        // A run that cannot lock has the directory for the engine's files until it ends.
        let age = age(&metadata, new.modified()?);
        if names.iter().any(|name| is(name, &[LIVE])) || age.is_none_or(|age| age < DEAD_AFTER) {
            return Ok(false);
        }
        None
    };
    remove_contents(dir)?;
    remove_lock(dir)?;
    Ok(true)
}

/// Returns how long nothing was added or removed; `None` if that is not past.
fn age(directory: &Metadata, now: SystemTime) -> Option<Duration> {
    now.duration_since(directory.modified().ok()?).ok()
}
