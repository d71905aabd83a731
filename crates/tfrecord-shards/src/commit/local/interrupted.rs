//! [`Interrupted`]: what a process that was killed, or failed, has done to publish a set whose tasks ran in other
//! processes.
//!
//! The set is prepared in a directory next to the attempts: shards are renamed into it, and a record of these names is
//! next to the attempts before the first gets its final name. The record and the attempts stay until the set is
//! published. So at every moment either the set is there, or the record leads back to the files of the attempts.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use super::store::warn_unremoved;
use super::{LocalCommit, StagedSet};
use crate::commit::leftovers::remove_leftovers;
use crate::commit::publication::{Publication, Staging, directories};
use crate::commit::settling::Settling;
use crate::commit::shared_staging::SharedStaging;
use crate::commit::staging::rename_file;
use crate::commit::staging::{self, remove_empty};
use crate::commit::staging_names::{self, SET_NAME, is_shard_name};
use crate::error::{AtPath, AttemptError, ErrorKind, Result};
use crate::set::manifest::Manifest;
use crate::set::names::{RunId, run_id_in};
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// Name of the record of renamed files in the directory of attempts: a JSON list of staged names and paths in the set.
const MOVES_NAME: &str = "moves";

impl LocalCommit {
    /// Returns the manifest at the target if the run has published its set, and removes what the run has left.
    ///
    /// # Errors
    /// If another release shared the run, or the manifest cannot be read.
    pub fn published(at: &SharedStaging) -> Result<Option<Manifest>> {
        at.check_format()?;
        let interrupted = Interrupted::new(at)?;
        let Some(manifest) = interrupted.published_manifest()? else { return Ok(None) };
        // If another process has locked the directory, it removes it.
        if let Ok(lock) = lock(&interrupted.home, &interrupted.run) {
            interrupted.end(lock);
        }
        // The process that has published it may have been killed before it removed what the set has replaced.
        if !manifest.replaced.is_empty() && manifest.last_run() == interrupted.run.as_str() {
            warn_unremoved(&at.out, remove_leftovers(&at.out).map(drop));
        }
        Ok(Some(manifest))
    }
}

impl StagedSet {
    /// Records which staged file gets which name, so that another process can undo that.
    pub(super) fn record_moves(&self, publication: &Publication) -> Result<()> {
        if !self.is_resumed() {
            return Ok(());
        }
        let attempts = self.attempts();
        let (path, new) = (attempts.join(MOVES_NAME), attempts.join(format!("{MOVES_NAME}.{}", RunId::new())));
        let moves: Vec<_> = publication.renamed().collect();
        let json = serde_json::to_vec(&moves)?;
        let write = || {
            let mut file = File::create_new(&new)?;
            file.write_all(&json)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&attempts)?.sync_all()
        };
        write().at("write", &path)
    }

    /// Removes the staging directory of a run that tasks have carried out, once its set is published.
    pub(super) fn end_resumed(&self) {
        if self.is_resumed() {
            warn_unremoved(&self.home, remove_attempts(&self.attempts(), &self.home));
            if let Some(lock) = &self.lock {
                let _unlocked = lock.unlock();
            }
            warn_unremoved(&self.home, remove_run(&self.out, &self.run));
        }
    }
}

/// Removes the attempts of a published set. First under another name, so that no task adds files meanwhile; if they cannot be
/// renamed, as they are, because their lease counts as a lock.
fn remove_attempts(attempts: &Path, home: &Path) -> Result<()> {
    let closed = staging_names::path_inside(home, &RunId::new());
    let removed = match fs::rename(attempts, &closed) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => fs::remove_dir_all(attempts),
        Ok(()) => fs::remove_dir_all(&closed),
    };
    removed.at("remove", attempts)
}

/// The directories of a run that another process may have begun to publish. The caller holds its lock.
pub(super) struct Interrupted {
    out: PathBuf,
    run: RunId,
    staging: Staging,
    home: PathBuf,
    attempts: PathBuf,
    set: PathBuf,
    replaced: PathBuf,
}

impl Interrupted {
    pub(super) fn new(at: &SharedStaging) -> Result<Self> {
        let SharedStaging { out, run, staging, .. } = at.clone();
        let (home, replaced) = at.directories()?;
        let (attempts, set) = (staging_names::attempts(&home, &run), home.join(SET_NAME));
        Ok(Self { out, run, staging, home, attempts, set, replaced })
    }

    /// Returns the manifest of the target, if the run has published its set there.
    fn published_manifest(&self) -> Result<Option<Manifest>> {
        if !self.out.join(SUCCESS_NAME).try_exists().unwrap_or(false) {
            return Ok(None);
        }
        let manifest = Manifest::find(&self.out)?;
        Ok(manifest.filter(|manifest| manifest.runs().any(|run| run == self.run.as_str())))
    }

    /// Whether the run has published its set, even if another run has replaced that since.
    pub(super) fn was_published(&self) -> Result<bool> {
        if self.published_manifest()?.is_some() {
            return Ok(true);
        }
        if self.moves()?.is_none() {
            return Ok(false);
        }
        // The prepared set is next to its record until it is renamed to the target. After an exchange, the set that it
        // has replaced is in its place.
        let is_gone = !exists(&self.set)?;
        // One that cannot be read was being written.
        let found = Manifest::read(&self.set).ok();
        Ok(is_gone || found.is_some_and(|manifest| manifest.last_run() != self.run.as_str()))
    }

    /// Removes what is left of a run that has published its set, and unlocks its directory.
    pub(super) fn end(&self, lock: Option<File>) {
        let _settling = Settling::begin();
        if exists(&self.attempts).unwrap_or(true) {
            warn_unremoved(&self.home, remove_attempts(&self.attempts, &self.home));
        }
        drop(lock);
        warn_unremoved(&self.home, remove_run(&self.out, &self.run));
    }

    /// Brings all files of the attempts back to their directory, and the target to its earlier state.
    ///
    /// Can be repeated after any of its steps.
    pub(super) fn undo(&self) -> Result<()> {
        let _settling = Settling::begin();
        // The target was moved aside, on a file system that cannot exchange directories.
        if self.staging == Staging::Beside && !exists(&self.out)? && exists(&self.replaced)? {
            fs::rename(&self.replaced, &self.out).at("rename to", &self.out)?;
        }
        if let Some(moves) = self.moves()? {
            for (staged, path) in &moves {
                self.bring_back(staged, path)?;
            }
            if self.staging == Staging::Inside {
                self.restore_target(&moves)?;
            }
            if moves.iter().any(|(_, path)| self.is_brought_by_file(path)) {
                remove_empty(&self.out, &made_directories(&moves));
            }
            let record = self.attempts.join(MOVES_NAME);
            fs::remove_file(&record).at("remove", &record)?;
        }
        if exists(&self.set)? {
            for name in names_in(&self.set)?.iter().filter(|name| is_shard_name(name)) {
                let (from, to) = (self.set.join(name), self.attempts.join(name));
                fs::rename(&from, &to).at("rename to", &to)?;
            }
            fs::remove_dir_all(&self.set).at("remove", &self.set)?;
        }
        Ok(())
    }

    /// Returns the record of renamed files, if there is one.
    fn moves(&self) -> Result<Option<Vec<(String, String)>>> {
        let path = self.attempts.join(MOVES_NAME);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            json => {
                let moves: Vec<(String, String)> = serde_json::from_slice(&json.at("read", &path)?)?;
                let is_below =
                    |name: &str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
                if let Some((staged, _)) = moves.iter().find(|(staged, to)| !is_shard_name(staged) || !is_below(to)) {
                    let problem = format!("expected a staged file, found {staged:?}");
                    return Err(AttemptError::Report { path, problem }.into());
                }
                Ok(Some(moves))
            }
        }
    }

    /// Whether a file is renamed to this path in the target. Otherwise the target is replaced as a whole, and may contain
    /// other files of the same names.
    fn is_brought_by_file(&self, path: &str) -> bool {
        self.staging == Staging::Inside || run_id_in(path) == Some(self.run.as_str())
    }

    /// Renames a file of an attempt back, wherever it is. It may be gone: then the report of its attempt does not hold.
    fn bring_back(&self, staged: &str, path: &str) -> Result<()> {
        let to = self.attempts.join(staged);
        if exists(&to)? {
            return Ok(());
        }
        let mut places = vec![self.set.join(path), self.set.join(staged)];
        if self.is_brought_by_file(path) {
            places.push(self.out.join(path));
        }
        for from in places {
            if exists(&from)? {
                return fs::rename(&from, &to).at("rename to", &to);
            }
        }
        Ok(())
    }

    /// Removes from the target what the run has moved there apart from shards, and moves what it has replaced back.
    fn restore_target(&self, moves: &[(String, String)]) -> Result<()> {
        // It is the last file that is prepared, so before it is there, the target was not touched.
        if !exists(&self.set.join(SUCCESS_NAME))? {
            return Ok(());
        }
        let is_ours = |manifest: &Manifest| manifest.last_run() == self.run.as_str();
        let manifest = [&self.set, &self.out].into_iter().find_map(|dir| Manifest::read(dir).ok().filter(is_ours));
        let is_shard = |name: &String| moves.iter().any(|(_, path)| path == name);
        let mut others = manifest.map(|manifest| manifest.file_names()).unwrap_or_default();
        others.retain(|name| !is_shard(name) && name != SUCCESS_NAME && name != MANIFEST_NAME);
        // The manifest last, because it specifies the others.
        for name in others.iter().map(String::as_str).chain([MANIFEST_NAME]) {
            let (here, there) = (self.set.join(name), self.out.join(name));
            if !exists(&here)? && exists(&there)? {
                fs::rename(&there, &here).at("rename to", &here)?;
            }
        }
        remove_empty(&self.out, &made_directories(moves));
        if exists(&self.replaced)? {
            let mut files = Vec::new();
            list(&self.replaced, "", &mut files)?;
            files.sort_by_key(|name| (name == SUCCESS_NAME, name == MANIFEST_NAME));
            for name in files {
                let (from, to) = (self.replaced.join(&name), self.out.join(&name));
                let parent = to.parent().unwrap_or(&self.out);
                fs::create_dir_all(parent).at("make directory", parent)?;
                rename_file(&from, &to).at("rename to", &to)?;
            }
            fs::remove_dir_all(&self.replaced).at("remove", &self.replaced)?;
        }
        Ok(())
    }
}

/// Locks the staging directory of a run. `None` if the file system has no locks.
pub(super) fn lock(dir: &Path, run: &RunId) -> Result<Option<File>> {
    let file = match File::open(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ErrorKind::Ended.into()),
        file => file.at("open", dir)?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(ErrorKind::Busy { path: dir.to_owned(), run: run.to_string() }.into()),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn made_directories(moves: &[(String, String)]) -> Vec<String> {
    directories(moves.iter().map(|(_, path)| path))
}

/// Removes what is left of a run that has ended.
fn remove_run(out: &Path, run: &RunId) -> Result<()> {
    let left = staging::all(out)?.into_iter().filter(|leftover| leftover.run == run.as_str());
    left.into_iter().try_for_each(|leftover| staging::remove(out, &leftover).map(drop))
}

/// Adds the files in `dir`, at any depth, by their paths.
fn list(dir: &Path, below: &str, files: &mut Vec<String>) -> Result<()> {
    for name in names_in(dir)? {
        let (path, below) = (dir.join(&name), format!("{below}{name}"));
        if path.symlink_metadata().at("inspect", &path)?.is_dir() {
            list(&path, &(below + "/"), files)?;
        } else {
            files.push(below);
        }
    }
    Ok(())
}

fn names_in(dir: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(dir).at("list", dir)?;
    let names = entries.map(|entry| Ok(entry.at("list", dir)?.file_name().to_string_lossy().into_owned()));
    names.collect()
}

fn exists(path: &Path) -> Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error).at("inspect", path),
    }
}
