//! [`Container`]: how a file contains its records.

use std::fmt;

use crate::{Compression, HEADER_LEN, array_record};

/// How a file contains its records: in the frames of TFRecord, compressed or not, or in the chunks of ArrayRecord.
///
/// ```
/// use tfrecord_framing::{Compression, Container, RecordWriter, array_record::SIGNATURE};
///
/// # fn main() -> tfrecord_framing::Result<()> {
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"first")?;
/// assert_eq!(Container::detect(&writer.finish()?), Some(Container::TfRecord(Compression::None)));
/// assert_eq!(Container::detect(&SIGNATURE), Some(Container::ArrayRecord));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// Frames of TFRecord, compressed as a whole.
    TfRecord(Compression),
    /// Chunks of [ArrayRecord](crate::array_record), each of which may be compressed.
    ArrayRecord,
}

impl Container {
    /// Uncompressed TFRecord.
    pub const PLAIN: Self = Self::TfRecord(Compression::None);

    /// Detects the container from the first bytes of a file; [`HEADER_LEN`] bytes are enough.
    ///
    /// An empty file is uncompressed TFRecord. Returns `None` if `start` matches nothing: the file contains no records,
    /// or its first bytes are damaged.
    pub fn detect(start: &[u8]) -> Option<Self> {
        if start.len() >= HEADER_LEN && start[..HEADER_LEN] == array_record::SIGNATURE[..HEADER_LEN] {
            return Some(Self::ArrayRecord);
        }
        Compression::detect(start).map(Self::TfRecord)
    }

    /// Whether the bytes of the file are those of its frames: uncompressed TFRecord.
    pub fn is_plain(self) -> bool {
        self == Self::PLAIN
    }

    /// Describes a file that has another container than `self`: `expected compression none, found gzip`.
    ///
    /// ```
    /// use tfrecord_framing::{Compression, Container};
    ///
    /// let found = Container::PLAIN.expected_but(Container::ArrayRecord);
    /// assert_eq!(found, "expected TFRecord, found ArrayRecord");
    /// ```
    pub fn expected_but(self, found: Self) -> String {
        match (self, found) {
            (Self::TfRecord(expected), Self::TfRecord(found)) => {
                format!("expected compression {expected}, found {found}")
            }
            (expected, found) => format!("expected {expected}, found {found}"),
        }
    }

    /// Returns the compression of a TFRecord file.
    pub fn compression(self) -> Option<Compression> {
        match self {
            Self::TfRecord(compression) => Some(compression),
            Self::ArrayRecord => None,
        }
    }
}

/// Uncompressed TFRecord.
impl Default for Container {
    fn default() -> Self {
        Self::PLAIN
    }
}

impl From<Compression> for Container {
    fn from(compression: Compression) -> Self {
        Self::TfRecord(compression)
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TfRecord(Compression::None) => f.write_str("TFRecord"),
            Self::TfRecord(compression) => write!(f, "TFRecord with {compression}"),
            Self::ArrayRecord => f.write_str("ArrayRecord"),
        }
    }
}
