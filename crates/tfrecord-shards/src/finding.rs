//! [`Finding`]: one thing that is wrong with a file or a directory.

use std::fmt;
use std::path::{Path, PathBuf};

use tfrecord_framing::{Compression, Damage};

use crate::error::{Error, ErrorKind};
use crate::form::FormDifference;
use crate::manifest::ShardEntry;
use crate::names::{MANIFEST_NAME, SUCCESS_NAME};

/// Features that the text of a finding names.
const MOST_FEATURES: usize = 5;

/// One thing that is wrong with a file or a directory. Its text is one line:
/// `shards/a.tfrecord: record 3 at byte 64: truncated, 7 bytes lost`.
///
/// Bytes are those of the framed records: in a compressed file, those after decompression.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub kind: FindingKind,
}

/// The kinds of [`Finding`].
#[derive(Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// A stretch of the file holds no sound record.
    Damage(Damage),
    /// There is more damage than is kept for one file.
    MoreDamage {
        /// How many more stretches.
        stretches: u64,
        /// Bytes in them.
        bytes: u64,
    },
    /// The manifest, or else the file's name, tells another compression than the content, by which the file was read.
    WrongCompression {
        /// What the manifest or the name tells.
        expected: Compression,
        /// What the content tells.
        found: Compression,
    },
    /// A file, a directory or a manifest cannot be read.
    Unreadable(Error),
    /// The manifest tells other figures of a shard than were found. Told of a file without damage, or one that is
    /// longer or shorter than it was.
    Figures {
        /// What the manifest tells.
        expected: ShardFigures,
        /// What was found.
        found: ShardFigures,
    },
    /// The records do not have the form of those of another input; so the new set tells none.
    MixedForms(FormDifference),
    /// Records have features that are not those of the manifest's columns: it was changed, or the records are of another set.
    UnmappedFeatures {
        /// The features: `feature "x"`, `feature list "x"`.
        features: Vec<String>,
    },
    /// The manifest is not as it was written.
    ChangedManifest {
        /// The CRC-32C that it states.
        expected: u32,
        /// That of its content.
        found: u32,
    },
    /// A shard that the manifest lists is not there.
    MissingShard,
    /// The manifest does not list a shard that is there.
    UnlistedShard,
    /// A file beside the shards that the manifest lists is not there.
    MissingSidecar,
    /// A file beside the shards is not the one that the manifest lists.
    ChangedSidecar,
    /// A directory has a manifest and no `_SUCCESS`.
    NoSuccess,
    /// A run has not published the set that it was to write here; it was killed, or is still going on.
    Unpublished {
        /// The run.
        run: String,
    },
    /// What a killed run has left behind.
    Leftover {
        /// The run.
        run: String,
    },
}

/// What a manifest tells of a shard and a look at the file too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardFigures {
    /// Number of records; of those found, of sound ones.
    pub rows: u64,
    /// Bytes of these records with their frames, before compression.
    pub framed_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// CRC-32C of the file, not masked.
    pub crc32c: u32,
}

impl From<&ShardEntry> for ShardFigures {
    fn from(shard: &ShardEntry) -> Self {
        let ShardEntry { rows, framed_bytes, file_bytes, crc32c, .. } = *shard;
        Self { rows, framed_bytes, file_bytes, crc32c }
    }
}

impl Finding {
    pub(crate) fn new(path: &Path, kind: FindingKind) -> Self {
        Self { path: path.to_owned(), kind }
    }

    /// Whether it may be that records are missing which no look at the files that are there can tell.
    pub(crate) fn is_gap(&self) -> bool {
        matches!(
            self.kind,
            FindingKind::Unreadable(_)
                | FindingKind::MissingShard
                | FindingKind::NoSuccess
                | FindingKind::Unpublished { .. }
        )
    }

    pub(crate) fn into_error(self) -> Error {
        match self.kind {
            FindingKind::Unreadable(error) => error,
            _ => ErrorKind::NotWhole(self).into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            // The error names the path itself.
            FindingKind::Unreadable(error) => error.fmt(f)?,
            kind => write!(f, "{}: {kind}", self.path.display())?,
        }
        let mut source = self.kind.error().and_then(std::error::Error::source);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl FindingKind {
    fn error(&self) -> Option<&Error> {
        if let Self::Unreadable(error) = self { Some(error) } else { None }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage(damage) => damage.fmt(f),
            Self::MoreDamage { stretches, bytes } => {
                write!(f, "damaged in {stretches} more places, {bytes} bytes lost there")
            }
            Self::WrongCompression { expected, found } => {
                write!(f, "expected compression {expected}, found {found}")
            }
            Self::Unreadable(error) => error.fmt(f),
            Self::Figures { expected, found } => expected.compare(found, f),
            Self::MixedForms(difference) => write!(f, "{difference}; the new set tells no types"),
            Self::UnmappedFeatures { features } => {
                let (shown, more) = features.split_at(features.len().min(MOST_FEATURES));
                let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
                let shown = shown.join(", ");
                write!(f, "its records have {shown}{more}, and no column of {MANIFEST_NAME} is read from there")
            }
            Self::ChangedManifest { expected, found } => {
                write!(
                    f,
                    "changed after it was written: it states the CRC-32C {expected:08x}, and that of its content is {found:08x}"
                )
            }
            Self::MissingShard => write!(f, "missing, though {MANIFEST_NAME} lists it"),
            Self::UnlistedShard => write!(f, "not of the set: {MANIFEST_NAME} does not list it"),
            Self::MissingSidecar => {
                write!(f, "missing, though {MANIFEST_NAME} lists it; tfr-sql describe writes it again")
            }
            Self::ChangedSidecar => {
                write!(f, "not as {MANIFEST_NAME} tells: it may be of another set; tfr-sql describe writes it again")
            }
            Self::NoSuccess => write!(f, "{SUCCESS_NAME} is missing"),
            Self::Unpublished { run } => write!(f, "run {run} has not published its shards"),
            Self::Leftover { run } => write!(f, "left behind by run {run}, which was killed"),
        }
    }
}

impl ShardFigures {
    /// Says what of these figures, of the manifest, is not as found.
    fn compare(&self, found: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows != found.rows || self.file_bytes != found.file_bytes {
            let Self { rows, file_bytes, .. } = self;
            write!(f, "expected {rows} records in {file_bytes} bytes by {MANIFEST_NAME}, found ")?;
            return write!(f, "{} in {}", found.rows, found.file_bytes);
        }
        if self.framed_bytes != found.framed_bytes {
            let Self { framed_bytes, .. } = self;
            return write!(f, "expected {framed_bytes} framed bytes by {MANIFEST_NAME}, found {}", found.framed_bytes);
        }
        write!(f, "expected the CRC-32C {:08x} by {MANIFEST_NAME}, found {:08x}", self.crc32c, found.crc32c)
    }
}
