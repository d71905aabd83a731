//! Differences between a file, or the records of a set, and what a manifest records.

use std::fmt;
use std::path::PathBuf;

use crate::set::MANIFEST_NAME;

/// The figures of a shard that a manifest records and that can be measured from the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardFigures {
    /// Number of records; if measured, of intact ones.
    pub rows: u64,
    /// Length in bytes of these records with their frames, before compression.
    pub framed_bytes: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// CRC-32C of the file, not masked.
    pub crc32c: u32,
}

impl ShardFigures {
    /// Writes how these recorded figures differ from the figures found.
    pub(crate) fn compare(&self, found: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// A difference between the record formats of two sets, by their manifests: the schema, the mapping or the record type.
/// In one set, the records of both would look alike but mean different things.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormDifference {
    /// The other set, or a file that no manifest lists.
    pub other: PathBuf,
    /// The part that differs: `column "ts"`.
    pub part: String,
    /// Its value in the other set.
    pub expected: String,
    /// Its value in this set.
    pub found: String,
}

impl fmt::Display for FormDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { other, part, expected, found } = self;
        write!(f, "{part} is {found}, in {} it is {expected}", other.display())
    }
}
