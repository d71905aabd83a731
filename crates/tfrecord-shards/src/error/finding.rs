//! [`Finding`]: one defect of a file or directory.

use std::fmt;
use std::path::{Path, PathBuf};

use tfrecord_framing::{Container, Damage};

use super::{Error, ErrorKind};
use crate::set::difference::{FormDifference, ShardFigures};
use crate::set::parts::MissingParts;
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// Maximum number of features listed in the text of a finding.
const MOST_FEATURES: usize = 5;

/// One defect of a file or directory. Its text is one line:
/// |`shards/a.tfrecord: record 3 at byte 64: truncated, 7 bytes lost`.
///
/// Byte offsets are those of the framed records: in a compressed file, offsets after decompression.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The file or directory.
    pub path: PathBuf,
    /// The defect.
    pub kind: FindingKind,
}

/// The kinds of [`Finding`].
#[derive(Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// A range of the file contains no intact record.
    Damage(Damage),
    /// The file has more damage than is recorded for one file.
    MoreDamage {
        /// Number of further damaged ranges.
        stretches: u64,
        /// Their total length in bytes.
        bytes: u64,
    },
    /// The manifest, or else the file name, specifies another compression or format than the content has. The file was
    /// read by its content.
    WrongContainer {
        /// The container that the manifest or the name specifies.
        expected: Container,
        /// The container detected from the content.
        found: Container,
    },
    /// A file, a directory or a manifest cannot be read.
    Unreadable(Error),
    /// The manifest records other figures for a shard than were found. Reported for a file without damage, or one
    /// whose length changed.
    Figures {
        /// The figures in the manifest.
        expected: ShardFigures,
        /// The figures found.
        found: ShardFigures,
    },
    /// The records have another record format than those of another input, so the new set records none.
    MixedForms(FormDifference),
    /// Records have features that map to no column of the manifest. Either the manifest was changed, or the records
    /// belong to another set.
    UnmappedFeatures {
        /// The features: `feature "x"`, `feature list "x"`.
        features: Vec<String>,
    },
    /// The manifest was changed after it was written.
    ChangedManifest {
        /// The CRC-32C recorded in it.
        expected: u32,
        /// The CRC-32C of its content.
        found: u32,
    },
    /// A shard has another length than the manifest lists.
    Length {
        /// The length in the manifest, in bytes.
        expected: u64,
        /// The length of the file.
        found: u64,
    },
    /// Files are missing, as the names of the others tell: `part-00000-of-00030.tfrecord`.
    MissingParts(MissingParts),
    /// The metadata of a saved dataset of `tf.data` records another number of elements than its files have.
    SavedElements {
        /// The number of elements in the metadata.
        elements: u64,
        /// The number of records of each element.
        components: u64,
        /// The number of records in the files.
        found: u64,
    },
    /// A shard listed in the manifest is missing.
    MissingShard,
    /// The directory contains a shard that the manifest does not list.
    UnlistedShard,
    /// A sidecar listed in the manifest is missing.
    MissingSidecar,
    /// A sidecar differs from the one listed in the manifest.
    ChangedSidecar,
    /// A directory has a manifest but no `_SUCCESS`.
    NoSuccess,
    /// A run has not published its set here. It was killed or is still running.
    Unpublished {
        /// The run.
        run: String,
    },
    /// A file or directory that a killed run left behind.
    Leftover {
        /// The run.
        run: String,
    },
}

impl Finding {
    /// Makes a finding about `path`.
    pub fn new(path: &Path, kind: FindingKind) -> Self {
        Self { path: path.to_owned(), kind }
    }

    /// Whether records may be missing that the files present cannot account for.
    pub fn is_gap(&self) -> bool {
        matches!(
            self.kind,
            FindingKind::Unreadable(_)
                | FindingKind::ChangedManifest { .. }
                | FindingKind::Length { .. }
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
            // The error includes the path.
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
            Self::WrongContainer { expected, found } => f.write_str(&expected.expected_but(*found)),
            Self::Unreadable(error) => error.fmt(f),
            Self::Figures { expected, found } => expected.compare(found, f),
            Self::MixedForms(difference) => write!(f, "{difference}; the new set does not record types"),
            Self::UnmappedFeatures { features } => {
                let (shown, more) = features.split_at(features.len().min(MOST_FEATURES));
                let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
                let shown = shown.join(", ");
                write!(f, "its records have {shown}{more}, which no column in {MANIFEST_NAME} is read from")
            }
            Self::ChangedManifest { expected, found } => f.write_str(&changed(*expected, *found)),
            Self::Length { expected, found } => {
                write!(f, "{MANIFEST_NAME} lists {expected} bytes, and the file has {found}")
            }
            Self::MissingParts(missing) => missing.fmt(f),
            Self::SavedElements { elements, components, found } => {
                let expected = elements.saturating_mul(*components);
                write!(
                    f,
                    "records {elements} elements, which are {expected} records, and its files have {found} records"
                )
            }
            Self::MissingShard => write!(f, "missing, although {MANIFEST_NAME} lists it"),
            Self::UnlistedShard => write!(f, "not part of the set: {MANIFEST_NAME} does not list it"),
            Self::MissingSidecar => {
                write!(f, "missing, although {MANIFEST_NAME} lists it")
            }
            Self::ChangedSidecar => {
                write!(f, "differs from its entry in {MANIFEST_NAME}: it may belong to another set")
            }
            Self::NoSuccess => write!(f, "{SUCCESS_NAME} is missing"),
            Self::Unpublished { run } => write!(f, "run {run} has not published its shards"),
            Self::Leftover { run } => write!(f, "left behind by run {run}, which was killed"),
        }
    }
}

/// The text for a manifest whose checksum does not match.
pub(super) fn changed(expected: u32, found: u32) -> String {
    format!(
        "changed after it was written: it records the CRC-32C {expected:08x}, and that of its content is {found:08x}"
    )
}
