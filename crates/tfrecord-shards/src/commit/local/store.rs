//! Performs the steps of a publication as system calls.

use std::fs::{self, File};
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::StagedSet;
use crate::commit::leftovers;
use crate::commit::publication::{Staging, Store};
use crate::commit::save_mode::SaveMode;
use crate::commit::staging::{is_unsupported, keep_permissions, lock_set, open_for_lock, remove_empty, rename_file};
use crate::commit::staging_names::lock_name;
use crate::commit::step::{Outcome, Place, Spot, Step};
use crate::commit::{staging, target};
use crate::error::{AtPath, ErrorKind, Result};
use crate::set::MANIFEST_NAME;
use crate::set::manifest::Manifest;

/// Maximum number of directories synced at the same time. They wait for the disk, not for cores.
const MOST_SYNCING: usize = 16;

/// For this many directories, starting a thread costs more than it saves.
const FEW_DIRECTORIES: usize = 16;

impl StagedSet {
    fn place(&self, place: Place) -> &Path {
        match place {
            Place::Staging => &self.dir,
            Place::Replaced => &self.replaced,
            Place::Target => &self.out,
        }
    }

    fn path(&self, spot: &Spot) -> PathBuf {
        let dir = self.place(spot.place);
        match &spot.name {
            Some(name) => dir.join(name),
            None => dir.to_owned(),
        }
    }

    /// Creates missing directories, all or none, and returns them.
    fn make_directories(&self, place: Place, directories: &[String]) -> Result<Vec<String>> {
        let dir = self.place(place);
        if place == Place::Replaced {
            fs::create_dir_all(dir).at("make directory", dir)?;
        }
        let mut made = Vec::new();
        for directory in directories {
            let path = dir.join(directory);
            match fs::create_dir(&path) {
                Ok(()) => made.push(directory.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => {
                    remove_empty(dir, &made);
                    return Err(error).at("make directory", &path);
                }
            }
        }
        Ok(made)
    }

    fn rename(&self, from: &Spot, to: &Spot) -> Result<()> {
        let becomes_target = *to == Spot { place: Place::Target, name: None };
        let is_file = to.name.is_some();
        if to.place == Place::Replaced && is_file {
            fs::create_dir_all(&self.replaced).at("make directory", &self.replaced)?;
        }
        if becomes_target {
            keep_permissions(&self.out, &self.dir).at("set permissions of", &self.dir)?;
        }
        let (from, to) = (self.path(from), self.path(to));
        let renamed = if is_file { rename_file(&from, &to) } else { fs::rename(&from, &to) };
        match renamed {
            Err(error) if becomes_target && error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                // Another process added files since the target was inspected.
                Err(match self.mode {
                    mode if mode.keeps_set() => ErrorKind::Superseded { path: to },
                    _ => ErrorKind::NotEmpty { found: target::some_names(&to)?, path: to },
                }
                .into())
            }
            renamed => renamed.at("rename to", &to),
        }
    }

    fn exchange(&self) -> Result<Outcome> {
        // Before the target is moved by either method.
        keep_permissions(&self.out, &self.dir).at("set permissions of", &self.dir)?;
        if !self.capabilities.exchange {
            return Ok(Outcome::Unsupported);
        }
        match renameat_with(CWD, &self.dir, CWD, &self.out, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if is_unsupported(error) => Ok(Outcome::Unsupported),
            Err(error) => Err(error).at("replace", &self.out),
        }
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.dir.join(name);
        let write = || {
            let mut file = File::create_new(&path)?;
            file.write_all(content)?;
            file.sync_all()
        };
        write().at("write", &path)
    }

    /// Syncs a directory and these subdirectories, several at a time, because file systems write them together.
    fn sync(&self, place: Place, directories: &[String]) -> Result<()> {
        let dir = self.place(place);
        let sync_some =
            |directories: &[String]| directories.iter().try_for_each(|directory| sync(&dir.join(directory)));
        let some = directories.len().div_ceil(MOST_SYNCING).max(FEW_DIRECTORIES);
        let mut chunks = directories.chunks(some);
        let first = chunks.next().unwrap_or_default();
        thread::scope(|scope| {
            let others: Vec<_> = chunks.map(|chunk| scope.spawn(move || sync_some(chunk))).collect();
            let synced = sync_some(first);
            others.into_iter().fold(synced, |synced, other| {
                let other = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                synced.and(other)
            })
        })?;
        sync(dir)
    }

    /// Syncs the directories on the path to the target that contain a new name.
    fn sync_names(&self) -> Result<()> {
        let renamed = (self.staging == Staging::Beside).then_some(&self.out);
        for path in self.made.iter().chain(renamed) {
            path.parent().map_or(Ok(()), sync)?;
        }
        Ok(())
    }

    /// Compares the lengths of the prepared files with these.
    fn check_files(&self, files: &[(String, u64)]) -> Result<()> {
        for (name, expected) in files {
            let (path, expected) = (self.dir.join(name), *expected);
            let found = fs::symlink_metadata(&path).at("inspect", &path)?.len();
            if found != expected {
                return Err(ErrorKind::ShardLength { path, expected, found }.into());
            }
        }
        Ok(())
    }

    /// Locks the existing set by its manifest.
    fn lock_target(&self) {
        let link = self.home.join(lock_name(&self.run));
        self.claim().extend(lock_set(&self.out, Some(&link)));
    }

    fn lock_manifest(&self) {
        let manifest = open_for_lock(&self.dir.join(MANIFEST_NAME)).ok();
        self.claim().extend(manifest.filter(|manifest| manifest.try_lock().is_ok()));
    }

    /// Whether the target's manifest is no longer that of this run, which has added to the set there.
    fn has_lost_set(&self) -> bool {
        self.adds_to().is_some() && Manifest::read(&self.out).is_ok_and(|found| found.last_run() != self.run.as_str())
    }

    fn claim(&self) -> MutexGuard<'_, Vec<File>> {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows other runs to publish.
    pub(super) fn release(&self) {
        self.claim().clear();
    }

    fn confirm(&self) -> Result<()> {
        match Manifest::read(&self.out) {
            Ok(found) if Some(&found) == self.current.as_deref() => Ok(()),
            Ok(_) => Err(ErrorKind::Superseded { path: self.out.clone() }.into()),
            Err(error) if matches!(error.kind(), ErrorKind::NoManifest { .. }) => {
                Err(ErrorKind::Superseded { path: self.out.clone() }.into())
            }
            Err(error) => Err(error),
        }
    }

    fn remove_leftovers(&self) -> Result<()> {
        if self.mode != SaveMode::OverwritePartitions || self.current.is_none() {
            return staging::remove_dead(&self.out, &self.run);
        }
        let is_locked = !self.claim().is_empty();
        leftovers::remove_from_set(&self.out, is_locked)
    }

    fn replace_manifest(&self) -> Result<()> {
        let (from, to) = (self.dir.join(MANIFEST_NAME), self.out.join(MANIFEST_NAME));
        if let Ok(old) = fs::metadata(&to) {
            fs::set_permissions(&from, old.permissions()).at("set permissions of", &from)?;
        }
        fs::rename(&from, &to).at("rename to", &to)
    }
}

impl Store for StagedSet {
    fn perform(&self, step: &Step) -> Result<Outcome> {
        match step {
            Step::Write { name, content } => self.write(name, content)?,
            Step::MakeDirectories { place, directories } => {
                return self.make_directories(*place, directories).map(Outcome::Made);
            }
            Step::Move { from, to } => self.rename(from, to)?,
            Step::Exchange => return self.exchange(),
            Step::Sync { place, directories } => self.sync(*place, directories)?,
            Step::SyncName => self.sync_names()?,
            Step::Lock => self.lock_target(),
            Step::Inspect => return target::inspect(&self.out, self.mode, Some(&self.run)).map(Outcome::Found),
            Step::Confirm => self.confirm()?,
            Step::LockManifest => self.lock_manifest(),
            Step::ReplaceManifest => self.replace_manifest()?,
            Step::CheckFiles { files } => self.check_files(files)?,
            Step::Discard { except } => staging::discard(&self.dir, except)?,
            Step::RemoveReplaced { files } => {
                files.iter().try_for_each(|file| staging::remove_file(&self.out.join(file)))?;
            }
            // The remaining steps come after the set is published or abandoned. The next run reports what cannot be
            // removed now as a leftover.
            Step::RemoveFiles { place, files } => {
                let dir = self.place(*place);
                warn_unremoved(dir, staging::remove_files(dir, files.iter().cloned()));
            }
            // Without locks, another run may have replaced the set.
            Step::RemoveStale { .. } | Step::RemoveLeftovers if self.has_lost_set() => {}
            Step::RemoveStale { files } => {
                for file in files {
                    warn_unremoved(&self.out, staging::remove_file(&self.out.join(file)));
                }
            }
            Step::RemoveDirectories { place, directories } => remove_empty(self.place(*place), directories),
            Step::RemoveStaging => {
                // A network file system keeps a file in the directory as long as the lock is open.
                self.release();
                warn_unremoved(&self.home, fs::remove_dir_all(&self.home).at("remove", &self.home));
            }
            Step::RemoveLeftovers => {
                warn_unremoved(&self.out, self.remove_leftovers());
            }
        }
        Ok(Outcome::Done)
    }
}

/// The set is published, even if parts of the replaced one remain.
pub(super) fn warn_unremoved(dir: &Path, removed: Result<()>) {
    if let Err(error) = removed {
        log::warn!(
            "{}: the set is published, but not all replaced files could be removed: {}",
            dir.display(),
            error.with_sources()
        );
    }
}

fn sync(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir)
}
