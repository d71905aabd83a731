//! The steps of a publication and their outcomes.

use std::fmt;

use crate::set::manifest::Manifest;

/// A directory used by a publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The directory in which shards are written.
    Staging,
    /// The directory that holds the replaced set until the new set is published.
    Replaced,
    /// The directory that readers open.
    Target,
}

/// A file in one of the directories, or the directory itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The directory.
    pub place: Place,
    /// The path of the file in it, with `/`. The directory itself if `None`.
    pub name: Option<String>,
}

impl Spot {
    pub(crate) fn directory(place: Place) -> Self {
        Self { place, name: None }
    }

    pub(crate) fn file(place: Place, name: impl Into<String>) -> Self {
        Self { place, name: Some(name.into()) }
    }
}

/// One step of a publication. Directories in a place are given by their relative paths, parents first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Write a file in the staging directory and sync it.
    Write {
        /// Its name.
        name: String,
        /// Its content.
        content: Vec<u8>,
    },
    /// Create missing directories and return them.
    MakeDirectories {
        /// The place.
        place: Place,
        /// Their paths.
        directories: Vec<String>,
    },
    /// Rename.
    Move {
        /// The source.
        from: Spot,
        /// The destination, which is absent or an empty directory.
        to: Spot,
    },
    /// Exchange staging directory and target atomically.
    Exchange,
    /// Sync a directory and these subdirectories.
    Sync {
        /// The directory.
        place: Place,
        /// The subdirectories.
        directories: Vec<String>,
    },
    /// Sync the target's own name.
    SyncName,
    /// Wait until no other run publishes at the target, if it holds a set, and lock it until this publication ends.
    Lock,
    /// Inspect the target's contents, and fail on what must not be replaced.
    Inspect,
    /// Check that the target's manifest is still the one that [`Inspect`](Self::Inspect) found, for file systems
    /// without locks.
    Confirm,
    /// Lock the manifest of the staging directory too, so that the set stays locked when it is that of the target.
    LockManifest,
    /// Replace the target's manifest by that of the staging directory, atomically.
    ReplaceManifest,
    /// Compare the lengths of these files of the staging directory, in bytes: another program may have touched them.
    CheckFiles {
        /// Their paths and lengths.
        files: Vec<(String, u64)>,
    },
    /// Remove abandoned shards from the staging directory.
    Discard {
        /// The shards of the set, by their staged names.
        except: Vec<String>,
    },
    /// Remove these files of a directory, leftovers of killed runs in it, the directories of partitions, and the
    /// directory itself, unless it contains other files.
    RemoveFiles {
        /// The directory.
        place: Place,
        /// The files.
        files: Vec<String>,
    },
    /// Remove these files of the target, which an earlier run has replaced. Comes before the manifest that no longer names
    /// them, so a failure is one of the publication.
    RemoveReplaced {
        /// Their paths.
        files: Vec<String>,
    },
    /// Remove these files of the target, which its manifest no longer lists.
    RemoveStale {
        /// Their paths.
        files: Vec<String>,
    },
    /// Remove these directories if they are empty, innermost first.
    RemoveDirectories {
        /// The place.
        place: Place,
        /// Their paths.
        directories: Vec<String>,
    },
    /// Remove the staging directory and everything in it.
    RemoveStaging,
    /// Remove the leftovers of killed runs, next to the target and, if the set there stays, in it.
    RemoveLeftovers,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Staging => "staging",
            Self::Replaced => "replaced",
            Self::Target => "target",
        })
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}/{name}", self.place),
            None => self.place.fmt(f),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { name, .. } => write!(f, "write {name}"),
            Self::MakeDirectories { place, directories } => write!(f, "make {} in {place}", directories.join(", ")),
            Self::Move { from, to } => write!(f, "move {from} to {to}"),
            Self::Exchange => f.write_str("exchange"),
            Self::Sync { place, directories } if directories.is_empty() => write!(f, "sync {place}"),
            Self::Sync { place, directories } => write!(f, "sync {} in {place}, and {place}", directories.join(", ")),
            Self::SyncName => f.write_str("sync the target's name"),
            Self::Lock => f.write_str("lock the target"),
            Self::Inspect => f.write_str("inspect the target"),
            Self::Confirm => f.write_str("confirm that the target has not changed"),
            Self::LockManifest => f.write_str("lock the new manifest"),
            Self::ReplaceManifest => f.write_str("replace the manifest"),
            Self::CheckFiles { .. } => f.write_str("check the staged files"),
            Self::Discard { .. } => f.write_str("discard what is not of the set"),
            Self::RemoveFiles { place, .. } => write!(f, "remove the files of {place}"),
            Self::RemoveReplaced { files } => write!(f, "remove {}, which were replaced before", files.join(", ")),
            Self::RemoveStale { files } => write!(f, "remove {} of the target", files.join(", ")),
            Self::RemoveDirectories { place, .. } => write!(f, "remove empty directories of {place}"),
            Self::RemoveStaging => f.write_str("remove staging"),
            Self::RemoveLeftovers => f.write_str("remove leftovers"),
        }
    }
}

/// The outcome of a step that did not fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The store does not support it, and nothing changed. Valid for [`Step::Exchange`] only.
    Unsupported,
    /// The directories that [`Step::MakeDirectories`] created.
    Made(Vec<String>),
    /// The target that [`Step::Inspect`] found, if it may be replaced or appended to.
    Found(Target),
}

/// The contents of the target.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// Nothing, or an empty directory.
    Vacant,
    /// Files of ours, which may be replaced.
    Occupied {
        /// The manifest of the set, if there is one.
        manifest: Option<Box<Manifest>>,
        /// Their paths relative to the directory.
        files: Vec<String>,
        /// Directories of partitions.
        directories: Vec<String>,
    },
    /// A complete set, which may be appended to.
    Set(Box<Manifest>),
}
