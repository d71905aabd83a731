//! [`SharedStaging`]: what another process must know to stage shards of a set.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::commit::publication::Staging;
use crate::commit::staging_names;
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

    /// Returns the target's path with links resolved.
    pub fn out(&self) -> &Path {
        &self.out
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
