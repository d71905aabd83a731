//! Staging directories: their names, their runs, and their removal.
//!
//! | directory | contents |
//! |---|---|
//! | `.tfr-<run>-<name>` next to target `<name>` | the files of the run; after an exchange, the files it replaced |
//! | `.tfr-<run>.replaced-<name>` | what the run is about to replace, where directories cannot be exchanged |
//! | `.tfr-<run>` in the target | the files of the run, and in `replaced` what it is about to replace |
//! | `.tfr-<run>` in one of these | what tasks in other processes stage for the run, and its lease |
//! | `.tfr.set` in one of these | the set of such a run while it is published; after an exchange, the set it replaced |
//!
//! A name that would be too long has the beginning of `<name>` and its checksum instead.
//!
//! A run holds a lock on its staging directory as long as it lives, and the system releases the lock when it dies. If a
//! run is carried out by several processes in turn, a lease counts as a lock until it expires.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::commit::directory_scan::{DirectoryScan, Ours};
use crate::commit::lease;
use crate::commit::publication::Leftover;
use crate::commit::staging_names::{
    PREFIX, REPLACED_NAME, SET_NAME, attempts, is_shard_name, path_beside, path_inside, run_beside, run_inside,
};
use crate::error::{AtPath, Error, Result};
use crate::set::manifest::Manifest;
use crate::set::names::{RunId, is_table_part};
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// Creates a staging directory and locks it. Meanwhile the parent is locked, so that no other run mistakes the unlocked
/// directory for that of a dead run.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let _parent = lock_parent(path);
    loop {
        fs::create_dir(path)?;
        let directory = File::open(path).inspect_err(|_| {
            // The directory is still empty.
            let _unremoved = fs::remove_dir(path);
        })?;
        // Another run may hold the lock for a moment to test it. On file systems without locks this fails at once, and
        // other runs assume that this run is live, which is the safe side.
        let _ = directory.lock();
        // The other run may have found the directory before it was locked, and removed it as a leftover.
        let is_ours = fs::metadata(path).is_ok_and(|found| {
            directory.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (found.dev(), found.ino()))
        });
        if is_ours {
            return Ok(directory);
        }
    }
}

/// Locks the parent of a new directory or file. Continues without a lock if the parent cannot be opened, has no locks,
/// or is locked by the user's own scripts.
fn lock_parent(path: &Path) -> Option<File> {
    File::open(path.parent()?).ok().filter(|parent| parent.try_lock_shared().is_ok())
}

/// Locks a staging directory or a hidden file; `None` if another process holds the lock.
fn lock(path: &Path) -> Option<File> {
    let file = File::open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// Locks a staging directory of a run that is not live; `None` if it is.
fn lock_dead(path: &Path, run: &str) -> Option<File> {
    lock(path).filter(|_| !has_lease(path, run))
}

/// Whether a run has a lease on its staging directory.
fn has_lease(staging: &Path, run: &str) -> bool {
    run.parse().is_ok_and(|run| lease::is_current(&attempts(staging, &run)))
}

/// Whether a live run has published the set at `target`, and still removes the one that it has replaced: the target is the
/// directory that it has locked.
fn has_published(target: &Path, run: &RunId) -> bool {
    let is_locked = |directory: File| matches!(directory.try_lock(), Err(TryLockError::WouldBlock));
    File::open(target).is_ok_and(is_locked)
        && Manifest::read(target).is_ok_and(|manifest| manifest.last_run() == run.as_str())
}

/// Whether the run of a staging directory or a hidden file is or may be live. An empty directory may be live while
/// another process creates one in the same parent.
pub(crate) fn is_live(path: &Path) -> bool {
    if lock(path).is_none() {
        return path.exists();
    }
    let is_empty = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) => fs::metadata(path).is_ok_and(|file| file.len() == 0),
    };
    let after_parent = || {
        let parent = File::open(path.parent()?).ok()?;
        let is_free = !matches!(parent.try_lock(), Err(TryLockError::WouldBlock));
        is_free.then(|| lock(path).is_none() && path.exists())
    };
    is_empty && after_parent().unwrap_or(true)
}

/// Creates and locks a file under a hidden name that [`hidden_run`] recognizes, so that other runs can test whether its
/// run is live.
pub(crate) fn create_hidden(path: &Path) -> io::Result<File> {
    let _parent = lock_parent(path);
    let file = File::create_new(path)?;
    // As for directories: without locks, its run is assumed to be live.
    let _ = file.try_lock();
    Ok(file)
}

/// Returns the leftovers of runs next to `out`, a resolved path.
pub(crate) fn beside(out: &Path) -> Result<Vec<Leftover>> {
    let (Some(parent), Some(target)) = (out.parent(), out.file_name()) else { return Ok(Vec::new()) };
    find(parent, |name| {
        let run = run_beside(name, target)?;
        let staging = path_beside(parent, target, &run);
        Some((run, staging, out.to_owned()))
    })
}

/// Returns the staging directories in `out`.
pub(crate) fn inside(out: &Path) -> Result<Vec<Leftover>> {
    find(out, |name| {
        let run = run_inside(name)?;
        let staging = path_inside(out, &run);
        Some((run, staging, out.to_owned()))
    })
}

/// Returns the leftovers in `dir` that are next to targets of any name.
pub(crate) fn beside_any(dir: &Path) -> Result<Vec<Leftover>> {
    find(dir, |name| {
        // The target's name may contain any characters, but a run id may not.
        let after_prefix = name.as_encoded_bytes().strip_prefix(PREFIX.as_bytes())?;
        let dash = after_prefix.iter().position(|&byte| byte == b'-')?;
        let target = OsStr::from_bytes(after_prefix.get(dash + 1..)?);
        let run = run_beside(name, target)?;
        let staging = path_beside(dir, target, &run);
        Some((run, staging, dir.join(target)))
    })
}

/// Finds the directories in `dir` that `run_of` assigns to a run. It also returns the run's staging directory, which
/// the run has locked, and its target.
fn find(dir: &Path, run_of: impl Fn(&OsStr) -> Option<(RunId, PathBuf, PathBuf)>) -> Result<Vec<Leftover>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // An unreadable directory contains nothing of ours.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error).at("list", dir),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.at("list", dir)?;
        let Some((run, staging, target)) = run_of(&entry.file_name()) else { continue };
        if entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
            // The replaced set has no lock of its own.
            let live = is_live(&staging) || has_lease(&staging, run.as_str()) || has_published(&target, &run);
            // Its run has just published or abandoned it.
            if !entry.path().exists() {
                continue;
            }
            found.push(Leftover { path: entry.path(), run: run.to_string(), live });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Returns what killed runs left behind next to and in `out`.
pub(crate) fn dead(out: &Path) -> Result<Vec<Leftover>> {
    let mut dead = all(out)?;
    dead.retain(|leftover| !leftover.live);
    Ok(dead)
}

/// Returns the leftovers of all runs next to and in `out`.
pub(crate) fn all(out: &Path) -> Result<Vec<Leftover>> {
    let mut found = beside(out)?;
    // A table may be a single file.
    if !out.is_file() {
        found.extend(inside(out)?);
    }
    Ok(found)
}

/// Whether a leftover directory, or one in it, contains a set of another run that was to be replaced.
pub(crate) fn keeps_replaced(leftover: &Leftover) -> bool {
    manifests(&leftover.path).any(|manifest| manifest.last_run() != leftover.run)
}

/// Returns the manifests of the sets in a leftover directory. A run killed while it wrote its manifest has published
/// nothing.
pub(crate) fn manifests(leftover: &Path) -> impl Iterator<Item = Manifest> {
    let inner = [REPLACED_NAME, SET_NAME].map(|name| leftover.join(name));
    [leftover.to_owned()].into_iter().chain(inner).filter_map(|dir| Manifest::read(dir).ok())
}

/// Whether a leftover directory is a table that was moved aside to be replaced.
pub(crate) fn keeps_replaced_table(leftover: &Leftover) -> bool {
    let Leftover { path, run, .. } = leftover;
    let aside = format!("{PREFIX}{run}.{REPLACED_NAME}-");
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(aside.as_bytes())) && !has_manifest(path)
}

fn has_manifest(dir: &Path) -> bool {
    dir.join(MANIFEST_NAME).symlink_metadata().is_ok()
}

/// Removes the leftovers of killed runs of `out`, after `run` has replaced it.
pub(crate) fn remove_dead(out: &Path, run: &RunId) -> Result<()> {
    dead(out)?
        .iter()
        .filter(|leftover| leftover.run != run.as_str())
        .try_for_each(|leftover| remove(out, leftover).map(drop))
}

/// Removes a leftover next to or in `out` of a run that is not live. Returns whether it is gone.
pub(crate) fn remove(out: &Path, leftover: &Leftover) -> Result<bool> {
    let Leftover { path, run, .. } = leftover;
    let Some(_lock) = lock_dead(path, run) else { return Ok(false) };
    if path.starts_with(out) {
        // Runs put only files of ours there.
        fs::remove_dir_all(path).at("remove", path)?;
    } else {
        let set = path.join(SET_NAME);
        if set.is_dir() {
            let listed = Manifest::read(&set).ok().map(|manifest| manifest.file_names());
            remove_files(&set, listed.unwrap_or_default())?;
        }
        // After an exchange this is the replaced set. Only the files that it lists are ours.
        match Manifest::read(path) {
            Ok(manifest) => remove_files(path, manifest.own_names())?,
            // A table of a single file is staged under its own name.
            Err(_) => remove_files(path, out.file_name().and_then(OsStr::to_str).map(str::to_owned))?,
        }
    }
    Ok(!path.exists())
}

/// Removes all shards but these from a staging directory.
pub(crate) fn discard(dir: &Path, except: &[String]) -> Result<()> {
    let except = Ours::listed(except.iter().cloned().collect());
    let given_up = DirectoryScan::of(dir, &except)?.foreign;
    given_up.iter().try_for_each(|name| remove_file(&dir.join(name)))
}

/// Removes these files from a directory, together with staged shards and table files, leftovers of killed runs, and the
/// directories of partitions. Other files and the directories that contain them are retained.
pub(crate) fn remove_files(dir: &Path, files: impl IntoIterator<Item = String>) -> Result<()> {
    let listed = files.into_iter().chain([MANIFEST_NAME, SUCCESS_NAME].map(str::to_owned)).collect();
    let ours = Ours { listed, has_manifest: true, runs: Vec::new() };
    let DirectoryScan { ours, foreign, directories } = DirectoryScan::of(dir, &ours)?;
    let is_table = !has_manifest(dir);
    let staged = foreign.iter().filter(|name| is_shard_name(name) || is_table && is_table_part(name));
    let files = ours.iter().chain(staged).filter(|name| *name != MANIFEST_NAME);
    files.map(|name| dir.join(name)).try_for_each(|path| remove_file(&path))?;
    remove_empty(dir, &directories);
    // The manifest last, so that a half-removed directory still specifies which files are ours.
    remove_file(&dir.join(MANIFEST_NAME))?;
    for Leftover { path, run, .. } in inside(dir)? {
        if let Some(_lock) = lock_dead(&path, &run) {
            fs::remove_dir_all(&path).at("remove", &path)?;
        }
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error).at("remove", dir),
        _ => Ok(()),
    }
}

pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).at("remove", path),
        _ => Ok(()),
    }
}

/// Removes directories that are still empty, innermost first.
pub(crate) fn remove_if_empty(made: &[PathBuf]) {
    for dir in made.iter().rev() {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

/// Directories created for a run, removed again if the run does not begin.
#[derive(Debug, Default)]
pub(crate) struct MadeDirectories(Vec<PathBuf>);

impl MadeDirectories {
    pub(crate) fn create(&mut self, dir: &Path) -> Result<()> {
        match fs::create_dir(dir) {
            Ok(()) => self.0.push(dir.to_owned()),
            // Another run created it first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).at("make directory", dir),
        }
        Ok(())
    }

    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.0
    }

    pub(crate) fn keep(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        remove_if_empty(&self.0);
    }
}

/// Waits until no other run publishes at `out`, and locks the set there. `None` if there is no set, or the file system
/// has no locks.
///
/// The manifest is locked, not the directory: NFS locks only files that can be opened for writing.
///
/// To replace the manifest, it must be opened by another name, `link`, which does not stay: before a network file system
/// replaces a file that is open by its name, it renames that file, so that there is none if the replacement fails.
pub(crate) fn lock_set(out: &Path, link: Option<&Path>) -> Option<File> {
    let path = out.join(MANIFEST_NAME);
    loop {
        // If the file system has no links, by its own name.
        let linked = link.filter(|link| fs::hard_link(&path, link).is_ok());
        let opened = open_for_lock(linked.unwrap_or(&path));
        if let Some(link) = linked {
            let _unremoved = fs::remove_file(link);
        }
        let manifest = opened.ok()?;
        while let Err(error) = manifest.lock() {
            if error.kind() != io::ErrorKind::Interrupted {
                return None;
            }
        }
        // The run that held the lock may have replaced the manifest.
        let (locked, found) = (manifest.metadata().ok()?, fs::metadata(&path).ok()?);
        if (locked.dev(), locked.ino()) == (found.dev(), found.ino()) {
            return Some(manifest);
        }
    }
}

pub(crate) fn open_for_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path).or_else(|_| File::open(path))
}

/// Removes empty directories below `dir`, innermost first.
pub(crate) fn remove_empty(dir: &Path, directories: &[String]) {
    for directory in directories.iter().rev() {
        // It is not empty, or another process removed it.
        let _unremoved = fs::remove_dir(dir.join(directory));
    }
}

/// Whether a kernel or a file system does not support a flag of `renameat2`.
pub(crate) fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::INVAL | Errno::NOTSUP)
}

/// Renames a file to a path that does not exist.
pub(crate) fn rename_file(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(error) if is_unsupported(error) => match to.symlink_metadata() {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        renamed => Ok(renamed?),
    }
}

/// Gives `new` the permissions of `old`, if that exists.
pub(crate) fn keep_permissions(old: &Path, new: &Path) -> io::Result<()> {
    match fs::metadata(old) {
        Ok(old) => fs::set_permissions(new, old.permissions()),
        Err(_) => Ok(()),
    }
}

/// Reports a failure after a set or a table was published. It is not an error: whoever repeated the run would write the rows
/// twice.
pub(crate) fn warn_after_commit(out: &Path, error: &Error) {
    log::warn!("{}: written completely, but finishing up failed: {}", out.display(), error.with_sources());
}
