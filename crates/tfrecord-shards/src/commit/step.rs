//! The steps of a publication, and what they answer.

use std::fmt;

use crate::set::manifest::Manifest;

/// A directory that a publication deals with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Where shards are written.
    Staging,
    /// Where what the set replaces is kept until the set is there.
    Replaced,
    /// Where readers look.
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

/// One step of publishing. Directories in a place are told by their paths from it, outer ones before inner ones.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Write a file in the staging directory and sync it.
    Write {
        /// Its name.
        name: String,
        /// What it holds.
        content: Vec<u8>,
    },
    /// Make these directories, as far as they are not there, and tell which were not.
    MakeDirectories {
        /// Where.
        place: Place,
        /// Their paths.
        directories: Vec<String>,
    },
    /// Rename.
    Move {
        /// What is there.
        from: Spot,
        /// Where it goes. Nothing is there but, maybe, an empty directory.
        to: Spot,
    },
    /// Let staging directory and target change places at once.
    Exchange,
    /// Make durable the names in a directory and in these below it.
    Sync {
        /// The directory.
        place: Place,
        /// The ones below it.
        directories: Vec<String>,
    },
    /// Make the target's own name durable.
    SyncName,
    /// Wait until no other run publishes at the target, if there is a set, and keep others out until this publication ends.
    Lock,
    /// See what the target holds now, and refuse what must not be replaced.
    Inspect,
    /// See that the target's manifest is still the one that [`Inspect`](Self::Inspect) found, where a file system has no
    /// locks.
    Confirm,
    /// Put the manifest from the staging directory in the place of the target's, at once.
    ReplaceManifest,
    /// Remove from the staging directory what is not of the set: shards that were given up.
    Discard {
        /// The shards of the set, by their staged names.
        except: Vec<String>,
    },
    /// Remove these files of a directory, what killed runs have left in it, the directories of partitions, and the
    /// directory, unless something else is there.
    RemoveFiles {
        /// The directory.
        place: Place,
        /// The files.
        files: Vec<String>,
    },
    /// Remove these files of the target, which its manifest does not list any more.
    RemoveStale {
        /// Their paths.
        files: Vec<String>,
    },
    /// Remove these directories, inner ones first, as far as they are empty.
    RemoveDirectories {
        /// Where.
        place: Place,
        /// Their paths.
        directories: Vec<String>,
    },
    /// Remove the staging directory and everything in it.
    RemoveStaging,
    /// Remove what killed runs have left.
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
            Self::ReplaceManifest => f.write_str("replace the manifest"),
            Self::Discard { .. } => f.write_str("discard what is not of the set"),
            Self::RemoveFiles { place, .. } => write!(f, "remove the files of {place}"),
            Self::RemoveStale { files } => write!(f, "remove {} of the target", files.join(", ")),
            Self::RemoveDirectories { place, .. } => write!(f, "remove empty directories of {place}"),
            Self::RemoveStaging => f.write_str("remove staging"),
            Self::RemoveLeftovers => f.write_str("remove leftovers"),
        }
    }
}

/// How a step went, when it did not fail.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The store cannot do it, and nothing has changed. Only [`Step::Exchange`] may be answered so.
    Unsupported,
    /// The directories that [`Step::MakeDirectories`] has made.
    Made(Vec<String>),
    /// What [`Step::Inspect`] found, if it may be replaced or added to.
    Found(Target),
}

/// What is where the set goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// Nothing, or an empty directory.
    Vacant,
    /// Files of ours, which may be replaced.
    Occupied {
        /// The manifest of the set, if there is one.
        manifest: Option<Box<Manifest>>,
        /// Their paths from the directory.
        files: Vec<String>,
        /// Directories of partitions.
        directories: Vec<String>,
    },
    /// A whole set, which may be added to.
    Standing(Box<Manifest>),
}
