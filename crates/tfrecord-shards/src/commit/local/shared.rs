//! A commit whose shards are staged by other processes, and a commit that several processes carry out in turn.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use tfrecord_framing::crc32c_append;

use super::interrupted::{Interrupted, lock};
use super::{Capabilities, LocalCommit, Phase, Removal, StagedSet};
use crate::commit::attempt_id::AttemptId;
use crate::commit::leftovers::leftovers;
use crate::commit::publication::StagedShard;
use crate::commit::report::{TaskReport, sound_reports};
use crate::commit::save_mode::SaveMode;
use crate::commit::shared_staging::{SHARED_FORMAT, SharedStaging};
use crate::commit::staging_names::SET_NAME;
use crate::commit::{lease, staging_names, target};
use crate::error::{AtPath, AttemptError, Error, ErrorKind, Result};
use crate::set::MANIFEST_NAME;
use crate::set::manifest::Manifest;
use crate::set::names::RunId;

/// Name of the manifest of the set that existed when the run began, in the directory of attempts.
const CURRENT_NAME: &str = "standing";

impl LocalCommit {
    /// Allows other processes to stage shards with [`StagingArea::join`](crate::StagingArea::join), as long as this
    /// commit exists.
    ///
    /// # Errors
    /// If the directory of attempts cannot be created, or the set is published or aborted.
    pub fn share(&self) -> Result<SharedStaging> {
        let set = &*self.set;
        let phase = set.phase();
        if !matches!(*phase, Phase::Staging { .. }) {
            return Err(ErrorKind::Ended.into());
        }
        if !set.shared.swap(true, Ordering::Relaxed) {
            let attempts = set.attempts();
            fs::create_dir(&attempts).at("make directory", &attempts)?;
        }
        let StagedSet { out, run, staging, made, .. } = set;
        let (out, run, made) = (out.clone(), run.clone(), made.clone());
        Ok(SharedStaging { format: SHARED_FORMAT, out, run, staging: *staging, made })
    }

    /// Ends the work of this process and retains the staging directory, so that any process can go on with
    /// [`resume`](Self::resume). Until then, a lease takes the place of the lock: for 24 hours from now, and from when a
    /// task begins or ends, other runs do not mistake the directory for that of a killed run.
    ///
    /// # Errors
    /// If shards are open, the set is published or aborted, or the file system fails.
    pub fn detach(self) -> Result<SharedStaging> {
        let shared = self.share()?;
        let set = &*self.set;
        let attempts = set.attempts();
        if let Some(current) = &set.current {
            keep_current(&set.out, current, &attempts.join(CURRENT_NAME))?;
        }
        lease::extend(&attempts).at("write a lease in", &attempts)?;
        for dir in [&attempts, &set.home] {
            File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir)?;
        }
        let mut phase = set.phase();
        match *phase {
            Phase::Staging { open: 0 } => *phase = Phase::Detached,
            Phase::Staging { open: count } => return Err(ErrorKind::OpenShards { count }.into()),
            _ => return Err(ErrorKind::Ended.into()),
        }
        drop(phase);
        if let Some(lock) = &set.lock {
            // Explicitly: a child process may have inherited the file.
            let _unlocked = lock.unlock();
        }
        Ok(shared)
    }

    /// Goes on with a run that was [detached](Self::detach), and locks its staging directory again. If a process was killed
    /// or failed while it published the set, what it did is undone first. Only [`abort`](Self::abort) discards the run:
    /// if the commit is dropped or cannot be published, the run can be resumed again.
    ///
    /// # Errors
    /// If the set is [published](Self::published) or aborted ([`ErrorKind::Ended`]), another process goes on with the run
    /// ([`ErrorKind::Busy`]), another release shared it, or the file system fails.
    pub fn resume(at: &SharedStaging, mode: SaveMode) -> Result<Self> {
        Self::resume_with(at, mode, Capabilities::ALL)
    }

    /// Same as [`resume`](Self::resume), for a file system with fewer capabilities.
    #[doc(hidden)]
    pub fn resume_with(at: &SharedStaging, mode: SaveMode, capabilities: Capabilities) -> Result<Self> {
        at.check_format()?;
        let SharedStaging { out, run, staging, made, .. } = at.clone();
        target::guard(&out, &[])?;
        let (home, replaced) = at.directories()?;
        let lock = lock(&home, &run)?;
        let attempts = staging_names::attempts(&home, &run);
        if !attempts.try_exists().at("inspect", &attempts)? {
            return Err(ErrorKind::Ended.into());
        }
        let interrupted = Interrupted::new(at)?;
        if interrupted.was_published()? {
            interrupted.end(lock);
            return Err(ErrorKind::Ended.into());
        }
        interrupted.undo()?;
        let current = read_current(&attempts.join(CURRENT_NAME))?;
        let mut leftovers = leftovers(&out)?;
        leftovers.retain(|leftover| leftover.run != run.as_str());
        let set = StagedSet {
            out,
            mode,
            run,
            capabilities,
            leftovers,
            staging,
            dir: home.join(SET_NAME),
            home,
            replaced,
            made,
            current,
            claim: Mutex::default(),
            lock,
            shared: AtomicBool::new(true),
            phase: Mutex::new(Phase::Staging { open: 0 }),
            uncached: Arc::default(),
            removal: Removal::default(),
        };
        Ok(Self { set: Arc::new(set), indexed: false })
    }

    /// Reads the reports of all complete attempts, and checks them against the files of their attempts. One that is damaged
    /// does not count if its task has another.
    ///
    /// # Errors
    /// If a report cannot be read, or no attempt of a task has staged what it has reported
    /// ([`AttemptError::DamagedTask`]).
    pub fn reports(&self) -> Result<Vec<TaskReport>> {
        let complete = TaskReport::list(&self.set.attempts())?.into_iter();
        sound_reports(complete.map(|(task, attempt)| (task, self.report(task, attempt))))
    }

    /// Reads the report of one attempt, and checks it against the files of the attempt.
    ///
    /// # Errors
    /// If the attempt is not complete, or as [`reports`](Self::reports).
    pub fn report(&self, partition: u32, attempt: AttemptId) -> Result<TaskReport> {
        TaskReport::read(&self.set.attempts(), &self.set.run, partition, attempt)
    }

    /// Reads the shards and indexes of these attempts, and compares their checksums with the reports.
    ///
    /// # Errors
    /// If a file has another checksum ([`AttemptError::DamagedTask`] with [`AttemptError::Checksum`]), or cannot be read.
    pub fn verify(&self, reports: &[TaskReport]) -> Result<()> {
        let attempts = self.set.attempts();
        let shards: Vec<_> = reports.iter().flat_map(|report| &report.shards).collect();
        shards.into_par_iter().try_for_each(|shard| {
            let compare = || {
                check_sum(attempts.join(&shard.staged), shard.crc32c)?;
                let index = shard.index.as_ref().map(|index| check_sum(index.path.clone(), index.crc32c));
                index.unwrap_or(Ok(()))
            };
            compare().map_err(|error: Error| match error.kind() {
                ErrorKind::Attempt(AttemptError::Checksum { .. }) => {
                    AttemptError::DamagedTask { task: shard.partition, source: Box::new(error) }.into()
                }
                _ => error,
            })
        })
    }

    /// Takes over the shards of these attempts, to be published. Those of all others are discarded when the set is
    /// published, and what running attempts still write is then lost.
    ///
    /// # Errors
    /// If a report is not what its attempt has staged; then nothing changes. Or if the file system fails; then the set
    /// can be published only if the run is [resumed](Self::resume) again.
    pub fn adopt(&self, reports: &[TaskReport]) -> Result<Vec<StagedShard>> {
        let set = &*self.set;
        let attempts = set.attempts();
        if !matches!(*set.phase(), Phase::Staging { .. }) {
            return Err(ErrorKind::Ended.into());
        }
        reports.iter().try_for_each(|report| report.check(&attempts, &set.run))?;
        let from = match set.is_resumed() {
            true => {
                fs::create_dir(&set.dir).at("make directory", &set.dir)?;
                attempts
            }
            false => set.move_attempts_aside()?,
        };
        let mut adopted = Vec::new();
        for shard in reports.iter().flat_map(|report| &report.shards) {
            let mut shard = shard.clone();
            take_over(&from, &set.dir, &shard.staged)?;
            if let Some(index) = &mut shard.index {
                let name = index.path.file_name().unwrap_or_default().to_owned();
                take_over(&from, &set.dir, &name)?;
                index.path = set.dir.join(name);
            }
            adopted.push(shard);
        }
        if !set.is_resumed() {
            fs::remove_dir_all(&from).at("remove", &from)?;
        }
        Ok(adopted)
    }
}

impl StagedSet {
    /// Returns the directory of the attempts of other processes.
    pub(super) fn attempts(&self) -> PathBuf {
        staging_names::attempts(&self.home, &self.run)
    }

    /// Renames the directory of attempts. From then on, no attempt can create a file.
    fn move_attempts_aside(&self) -> Result<PathBuf> {
        let attempts = self.attempts();
        // The name of a staging directory, so that it is removed with the staging directory that it is in.
        let closed = staging_names::path_inside(&self.home, &RunId::new());
        match fs::rename(&attempts, &closed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ErrorKind::Ended.into()),
            renamed => renamed.at("rename", &attempts).map(|()| closed),
        }
    }

    /// Discards what other processes have staged and what was not taken over, if the set is prepared next to it. That of
    /// a resumed run is retained until the set is published.
    pub(super) fn close_attempts(&self) -> Result<()> {
        if self.is_resumed() { Ok(()) } else { self.discard_attempts() }
    }

    /// Discards what other processes have staged, and prevents that they stage more.
    pub(super) fn discard_attempts(&self) -> Result<()> {
        if !self.shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.move_attempts_aside() {
            Ok(closed) => fs::remove_dir_all(&closed).at("remove", &closed),
            Err(error) if matches!(error.kind(), ErrorKind::Ended) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn check_sum(path: PathBuf, expected: u32) -> Result<()> {
    let read = || {
        let (mut file, mut buffer, mut found) = (File::open(&path)?, vec![0; 1 << 20], 0);
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok::<u32, io::Error>(found),
                read => found = crc32c_append(found, buffer.get(..read).unwrap_or_default()),
            }
        }
    };
    match read().at("read", &path)? {
        found if found == expected => Ok(()),
        found => Err(AttemptError::Checksum { path, expected, found }.into()),
    }
}

/// Moves a file from one directory to another.
fn take_over(from: &Path, to: &Path, name: impl AsRef<Path>) -> Result<()> {
    let to = to.join(&name);
    fs::rename(from.join(&name), &to).at("rename to", &to)
}

/// Keeps a copy of the manifest that the run began with, to which that of the target is compared at the end.
fn keep_current(out: &Path, current: &Manifest, to: &Path) -> Result<()> {
    if to.try_exists().at("inspect", to)? {
        // Kept when the run was detached before.
        return Ok(());
    }
    let path = out.join(MANIFEST_NAME);
    let superseded = || ErrorKind::Superseded { path: out.to_owned() };
    let json = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(superseded().into()),
        json => json.at("read", &path)?,
    };
    // The bytes themselves, because numbers that are written again may be parsed as others.
    if Manifest::from_json(&json, &path)? != *current {
        return Err(superseded().into());
    }
    let write = || {
        let mut file = File::create_new(to)?;
        file.write_all(&json)?;
        file.sync_all()
    };
    write().at("write", to)
}

fn read_current(path: &Path) -> Result<Option<Box<Manifest>>> {
    match fs::read(path) {
        Ok(json) => Ok(Some(Box::new(Manifest::from_json(&json, path)?))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).at("read", path),
    }
}
