//! [`Beside`]: the directories that a run makes next to its target, in a store that renames directories.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::commit::staging_names::{self, PREFIX, REPLACED_NAME, SET_NAME};
use crate::set::names::RunId;

/// The names of the directories of a run, next to a target of this name. They are those of a [local](crate::LocalCommit) run.
///
/// ```
/// use tfrecord_shards::objects::Beside;
///
/// let names = Beside::new("train", &"nightly7".parse()?);
/// assert_eq!(names.staging, ".tfr-nightly7-train");
/// assert_eq!(names.set, ".tfr-nightly7-train/.tfr.set");
/// assert_eq!(Beside::of(&names.replaced, "train"), Some(names.clone()));
/// assert_eq!(Beside::of(".tfr-nightly7-test", "train"), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// The run.
    pub run: RunId,
    /// The directory of everything that the run stages.
    pub staging: String,
    /// The new set, in that directory. It is renamed to the target.
    pub set: String,
    /// What the run has moved aside to replace it.
    pub replaced: String,
}

impl Beside {
    /// Returns the names for a run that writes to `target`.
    pub fn new(target: &str, run: &RunId) -> Self {
        let name = |path: PathBuf| path.to_string_lossy().into_owned();
        let (parent, target) = (Path::new(""), OsStr::new(target));
        let staging = name(staging_names::path_beside(parent, target, run));
        let replaced = name(staging_names::replaced_beside(parent, target, run));
        Self { run: run.clone(), set: format!("{staging}/{SET_NAME}"), staging, replaced }
    }

    /// Returns the names of the run that a directory next to `target` is of.
    pub fn of(directory: &str, target: &str) -> Option<Self> {
        staging_names::run_beside(OsStr::new(directory), OsStr::new(target)).map(|run| Self::new(target, &run))
    }

    /// Whether `directory` is what this run has moved aside.
    pub fn is_replaced(&self, directory: &str) -> bool {
        let prefix = format!("{PREFIX}{}.{REPLACED_NAME}-", self.run);
        directory.starts_with(&prefix)
    }
}
