//! [`SharedStaging`]: what another process must know to stage shards of a set.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::commit::publication::Staging;
use crate::commit::{lease, staging, staging_names};
use crate::error::{AtPath, AttemptError, Result};
use crate::set::names::RunId;

/// The format of what processes exchange: this value, and reports.
pub(crate) const SHARED_FORMAT: u32 = 1;

/// What another process must know to stage shards of a set, and to publish them. A small value that can be serialized.
///
/// All processes must see the target's parent directory under the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedStaging {
    pub(crate) format: u32,
    /// The target, with links resolved.
    pub(crate) out: PathBuf,
    pub(crate) run: RunId,
    pub(crate) staging: Staging,
    /// Parents created for the staging directory, outermost first.
    pub(crate) made: Vec<PathBuf>,
}

impl SharedStaging {
    /// Returns the run that writes the set.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the target, and the parents that were created for it.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.out).chain(&self.made).map(PathBuf::as_path)
    }

    /// Returns the target's path with links resolved.
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Creates a directory in `dir`, an existing directory, for the sorted rows of a run whose shards are staged
    /// elsewhere. As for shards, processes [join](crate::StagingArea::join) it, and it has a lease.
    ///
    /// # Errors
    /// If there is no such directory, or the file system fails.
    pub fn create_scratch(dir: &Path, run: RunId) -> Result<Self> {
        let out = fs::canonicalize(dir).at("open", dir)?;
        let shared = Self { format: SHARED_FORMAT, out, run, staging: Staging::Inside, made: Vec::new() };
        let (staging, _) = shared.directories()?;
        let _lock = staging::create(&staging).at("make directory", &staging)?;
        let attempts = staging_names::attempts(&staging, &shared.run);
        let fill = || {
            fs::create_dir(&attempts)?;
            lease::extend(&attempts)?;
            [&attempts, &staging, &shared.out].into_iter().try_for_each(|dir| File::open(dir)?.sync_all())
        };
        if let Err(error) = fill() {
            // What cannot be removed either has an expired lease one day.
            let _unremoved = fs::remove_dir_all(&staging);
            return Err(error).at("write to", &staging);
        }
        Ok(shared)
    }

    /// Removes a directory that [`create_scratch`](Self::create_scratch) has made, if it exists. From now on no process
    /// can join it.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn remove_scratch(&self) -> Result<()> {
        let (staging, _) = self.directories()?;
        // Under another name first, so that no attempt creates files in it while it is removed.
        let closed = staging_names::path_inside(&self.out, &RunId::new());
        match fs::rename(&staging, &closed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => {
                renamed.at("rename", &staging)?;
                fs::remove_dir_all(&closed).at("remove", &closed)
            }
        }
    }

    pub(crate) fn check_format(&self) -> Result<()> {
        match self.format {
            SHARED_FORMAT => Ok(()),
            found => Err(AttemptError::Format { expected: SHARED_FORMAT, found }.into()),
        }
    }

    /// Returns the staging directory, and the directory that holds the replaced set. Their names follow from the target
    /// and the run, so that a forged value cannot name any other directory.
    pub(crate) fn directories(&self) -> Result<(PathBuf, PathBuf)> {
        let Self { out, run, .. } = self;
        match (self.staging, out.parent(), out.file_name()) {
            (Staging::Beside, Some(parent), Some(name)) => {
                let dir = staging_names::path_beside(parent, name, run);
                Ok((dir, staging_names::replaced_beside(parent, name, run)))
            }
            (Staging::Beside, ..) => {
                Err(io::Error::from(io::ErrorKind::InvalidInput)).at("find staging directory of", out)
            }
            (Staging::Inside, ..) => {
                let dir = staging_names::path_inside(out, run);
                let replaced = dir.join(staging_names::REPLACED_NAME);
                Ok((dir, replaced))
            }
        }
    }
}
