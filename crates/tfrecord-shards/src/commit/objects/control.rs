//! Control objects: what the processes that upload a set together record under its prefix, next to the shards.
//!
//! | object in `.tfr-<run>/` | put by | content |
//! |---|---|---|
//! | `open` | who starts the run | nothing: as long as it exists, attempts of tasks may upload |
//! | `<attempt>.begun` | an attempt, first | nothing: its age shows how long ago |
//! | `<task>-<sequence>.<attempt>.upload` | an attempt, before the first part of an upload | [`UploadIntent`] |
//! | `<task>-<sequence>.<attempt>.staged.idx` | an attempt | the index of a shard |
//! | `<task>.<attempt>.report` | an attempt, last | [`TaskReport`](crate::TaskReport) |
//! | `choice` | who publishes the set | [`AttemptChoice`] |
//!
//! An upload cannot be found without its id, so its id is recorded before the first byte is sent. Then the attempt checks
//! that the run is still open. Who ends the run removes `open` before it lists the other objects: so every upload is
//! either in that list, or ended by its own attempt.
//!
//! Readers and other runs skip these objects, because the name of their directory begins with a dot.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{ObjectStep, ObjectVersion};
use crate::commit::attempt_id::AttemptId;
use crate::commit::lease::LEASE_HOURS;
use crate::commit::shared_staging::SHARED_FORMAT;
use crate::commit::staging_names::{self, PREFIX};
use crate::error::{AttemptError, Result};
use crate::set::MANIFEST_NAME;
use crate::set::manifest::Manifest;
use crate::set::names::{RunId, run_id_in};

/// The name of a control object in the directory of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControlName {
    /// The run is neither published nor abandoned.
    Open,
    /// The attempts whose shards are published.
    Choice,
    /// An attempt has begun.
    Begun {
        /// The attempt.
        attempt: AttemptId,
    },
    /// An upload has begun, or is about to.
    Upload {
        /// The write partition of the shard.
        partition: u32,
        /// Its number within the partition.
        sequence: u32,
        /// The attempt.
        attempt: AttemptId,
    },
    /// The index of a shard.
    Index {
        /// The write partition of the shard.
        partition: u32,
        /// Its number within the partition.
        sequence: u32,
        /// The attempt.
        attempt: AttemptId,
    },
    /// An attempt is complete.
    Report {
        /// The task.
        partition: u32,
        /// The attempt.
        attempt: AttemptId,
    },
}

const OPEN: &str = "open";
const CHOICE: &str = "choice";
const BEGUN_SUFFIX: &str = ".begun";
const UPLOAD_SUFFIX: &str = ".upload";

impl ControlName {
    /// Returns the path of the object, relative to the prefix of the set.
    pub fn path(&self, run: &RunId) -> String {
        format!("{}/{self}", control_directory(run))
    }
}

impl fmt::Display for ControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Open => f.write_str(OPEN),
            Self::Choice => f.write_str(CHOICE),
            Self::Begun { attempt } => write!(f, "{attempt}{BEGUN_SUFFIX}"),
            Self::Upload { partition, sequence, attempt } => {
                write!(f, "{partition:05}-{sequence:05}.{attempt}{UPLOAD_SUFFIX}")
            }
            Self::Index { partition, sequence, attempt } => {
                f.write_str(&staging_names::attempt_index_name(partition, sequence, attempt))
            }
            Self::Report { partition, attempt } => f.write_str(&staging_names::report_name(partition, attempt)),
        }
    }
}

/// A text that is not the name of a control object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a control object")]
pub struct ParseControlNameError(String);

impl FromStr for ControlName {
    type Err = ParseControlNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let shard = |stem: &str| {
            let (numbers, attempt) = stem.split_once('.')?;
            let (partition, sequence) = numbers.split_once('-')?;
            Some((partition.parse().ok()?, sequence.parse().ok()?, attempt.parse().ok()?))
        };
        let parse = || {
            let parsed = if name == OPEN {
                Self::Open
            } else if name == CHOICE {
                Self::Choice
            } else if let Some(attempt) = name.strip_suffix(BEGUN_SUFFIX) {
                Self::Begun { attempt: attempt.parse().ok()? }
            } else if let Some(stem) = name.strip_suffix(UPLOAD_SUFFIX) {
                let (partition, sequence, attempt) = shard(stem)?;
                Self::Upload { partition, sequence, attempt }
            } else if let Some(stem) = name.strip_suffix(staging_names::STAGED_INDEX_SUFFIX) {
                let (partition, sequence, attempt) = shard(stem)?;
                Self::Index { partition, sequence, attempt }
            } else {
                let (partition, attempt) = staging_names::parse_report_name(name)?;
                Self::Report { partition, attempt }
            };
            // Rejects other notations of the numbers.
            (parsed.to_string() == name).then_some(parsed)
        };
        parse().ok_or_else(|| ParseControlNameError(name.to_owned()))
    }
}

/// Returns the directory of a run's control objects, relative to the prefix of the set.
pub fn control_directory(run: &RunId) -> String {
    format!("{PREFIX}{run}")
}

/// Returns the run of a control object, and the object's name, given its path relative to the prefix of the set.
pub fn control_object(path: &str) -> Option<(RunId, &str)> {
    let (directory, name) = path.split_once('/')?;
    let run = directory.strip_prefix(PREFIX).filter(|run| RunId::is_generated(run))?;
    Some((run.parse().ok()?, name))
}

/// Whether a run may be live, whose control objects were last put at `newest`. It is if that was in the last 24 hours.
pub fn may_be_live(newest: DateTime<Utc>) -> bool {
    Utc::now() - newest < TimeDelta::hours(LEASE_HOURS)
}

/// An upload that an attempt has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadIntent {
    /// The path of the shard, relative to the prefix of the set.
    pub path: String,
    /// The store's id of the upload.
    pub id: String,
}

/// The attempts whose shards are published. It is decided once, so that any process can continue a publication that
/// another one has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptChoice {
    /// When the publication began.
    pub created: DateTime<Utc>,
    /// The tasks with their attempts.
    pub attempts: Vec<(u32, AttemptId)>,
}

/// What another process must know to upload shards of a set, and to publish them, apart from the location of the set. A
/// small value that can be serialized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedUploads {
    format: u32,
    /// The run.
    pub run: RunId,
    /// Whether the names of shards contain the run.
    pub own_names: bool,
    /// The manifest of the set that is appended to.
    #[serde(rename = "standing")]
    pub current: Option<ObjectVersion>,
}

impl SharedUploads {
    /// Describes a run.
    pub fn new(run: RunId, own_names: bool, current: Option<ObjectVersion>) -> Self {
        Self { format: SHARED_FORMAT, run, own_names, current }
    }

    /// Checks that this release knows the format.
    ///
    /// # Errors
    /// [`AttemptError::Format`].
    pub fn check_format(&self) -> Result<()> {
        match self.format {
            SHARED_FORMAT => Ok(()),
            found => Err(AttemptError::Format { expected: SHARED_FORMAT, found }.into()),
        }
    }
}

/// Returns the steps that remove what an unfinished publication of `run` has made visible. `current` is the current
/// manifest, and `uploads` are the paths of all shards that the run may have completed.
///
/// They must not be performed if the set of `run` is complete.
pub fn withdrawal(run: &RunId, current: Option<&Manifest>, uploads: BTreeSet<String>) -> Vec<ObjectStep> {
    let is_ours = current.is_some_and(|manifest| manifest.last_run() == run.as_str());
    let listed = current.map(Manifest::file_names).unwrap_or_default();
    let files: Vec<_> = match is_ours {
        true => uploads.into_iter().chain(listed).filter(|path| path != MANIFEST_NAME).collect(),
        // Names without the run may be those of other files by now; shards under such names follow the manifest.
        false => {
            let is_own = |path: &String| run_id_in(path) == Some(run.as_str()) && !listed.contains(path);
            uploads.into_iter().filter(is_own).collect()
        }
    };
    let files = (!files.is_empty()).then_some(ObjectStep::Remove { files });
    // The manifest last: until then it shows that the set is incomplete, and whose it is.
    let manifest = is_ours.then(|| ObjectStep::Remove { files: vec![MANIFEST_NAME.to_owned()] });
    files.into_iter().chain(manifest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_names_round_trip() {
        let (run, attempt) = (RunId::new(), AttemptId::new());
        let (partition, sequence) = (7, 123_456);
        for name in [
            ControlName::Open,
            ControlName::Choice,
            ControlName::Begun { attempt },
            ControlName::Upload { partition, sequence, attempt },
            ControlName::Index { partition, sequence, attempt },
            ControlName::Report { partition, attempt },
        ] {
            let path = name.path(&run);
            let (found_run, found) = control_object(&path).unwrap();
            assert_eq!((found_run, found.parse()), (run.clone(), Ok(name)), "{path}");
        }
        for other in ["7-1.upload", "00007-00001.upload", "opened", &format!("7-00001.{attempt}.upload"), ""] {
            assert!(other.parse::<ControlName>().is_err(), "{other}");
        }
        for path in
            ["part-00000-of-00001.tfrecord", ".tfr-/open", ".tfr-nightly/open", &format!(".tfr-{run}"), "_x/open"]
        {
            assert_eq!(control_object(path), None, "{path}");
        }
    }

    #[test]
    fn control_names_count_as_live_for_a_day() {
        assert!(may_be_live(Utc::now() - TimeDelta::hours(23)));
        assert!(!may_be_live(Utc::now() - TimeDelta::hours(25)));
    }
}
