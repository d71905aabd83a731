//! How a file or the records of a set differ from what a manifest records.

use std::fmt;
use std::path::PathBuf;

use crate::set::MANIFEST_NAME;

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

impl ShardFigures {
    /// Says what of these figures, of the manifest, is not as found.
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

/// What the manifests of two sets tell differently of their records: the schema, the mapping or the record type. In one
/// set the records of both would look alike and mean something else.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormDifference {
    /// The other set; a file, if no manifest lists it.
    pub other: PathBuf,
    /// What differs: `column "ts"`.
    pub part: String,
    /// What it is there.
    pub expected: String,
    /// What it is here.
    pub found: String,
}

impl fmt::Display for FormDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { other, part, expected, found } = self;
        write!(f, "{part} is {found}, in {} it is {expected}", other.display())
    }
}
