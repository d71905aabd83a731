//! What can be wrong with a TFRecord stream, and where: [`Error`], [`ErrorKind`], [`Position`].

use std::{fmt, io};

use crate::{Compression, HEADER_LEN};

/// The result of reading or writing records.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A place in a TFRecord stream: the record, counted from 0, and the byte its frame starts at.
///
/// Bytes are those of the framed records. In a compressed file that is the offset after decompression, not the offset
/// in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Number of records before this place.
    pub record: u64,
    /// Number of framed, uncompressed bytes before this place.
    pub byte: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} at byte {}", self.record, self.byte)
    }
}

/// Why a TFRecord stream could not be read or written.
///
/// The text names the place in the stream; which file it was, the caller knows.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// What went wrong, by value.
    pub fn into_kind(self) -> ErrorKind {
        *self.0
    }

    /// The record that could not be read or written.
    pub fn position(&self) -> Position {
        match *self.0 {
            ErrorKind::Io { position, .. }
            | ErrorKind::LengthCrc { position, .. }
            | ErrorKind::DataCrc { position, .. }
            | ErrorKind::Truncated { position, .. }
            | ErrorKind::RecordTooLong { position, .. }
            | ErrorKind::Compression { position, .. }
            | ErrorKind::WrongCompression { position, .. } => position,
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The underlying reader or writer failed.
    #[error("{position}: input/output failed")]
    Io {
        /// The record that was being read or written.
        position: Position,
        /// The failure, as the reader or writer reported it.
        source: io::Error,
    },

    /// A header's length does not match its checksum. Where the next record starts is unknown.
    #[error("{position}: length {len} has the checksum {found:#010x}, expected {expected:#010x}")]
    LengthCrc {
        /// The damaged record.
        position: Position,
        /// The length found, not to be trusted.
        len: u64,
        /// The masked checksum found.
        found: u32,
        /// The masked checksum of `len`.
        expected: u32,
    },

    /// A payload does not match its checksum.
    #[error("{position}: payload of {len} bytes has the checksum {found:#010x}, expected {expected:#010x}")]
    DataCrc {
        /// The damaged record.
        position: Position,
        /// Length of the payload in bytes.
        len: usize,
        /// The masked checksum found.
        found: u32,
        /// The masked checksum of the payload.
        expected: u32,
    },

    /// The stream ends inside a frame.
    #[error("{position}: truncated, expected {expected} bytes of {}, found {found}", frame_part(*.expected))]
    Truncated {
        /// The record that is cut off.
        position: Position,
        /// The whole frame's length in bytes, or [`HEADER_LEN`] when even the header is cut.
        expected: usize,
        /// Bytes of the frame, or of its header, that are there.
        found: usize,
    },

    /// A record is longer than allowed, by [`MAX_RECORD_LEN`](crate::MAX_RECORD_LEN) unless the reader was told
    /// otherwise.
    #[error("{position}: record of {len} bytes, expected at most {max}")]
    RecordTooLong {
        /// The long record.
        position: Position,
        /// Its payload's length in bytes.
        len: u64,
        /// The longest payload allowed, in bytes.
        max: usize,
    },

    /// A compressed stream is damaged, or not of this compression.
    #[error("{position}: invalid {compression} stream")]
    Compression {
        /// The record being read when the damage was met. It can lie some records before the damaged bytes.
        position: Position,
        /// The compression expected.
        compression: Compression,
        /// What is wrong: of kind [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) when the stream is cut short.
        source: io::Error,
    },

    /// The file is a TFRecord file, to judge by its first bytes, of another compression than expected.
    #[error("{position}: expected compression {expected}, found {found}")]
    WrongCompression {
        /// The start of the file.
        position: Position,
        /// The compression that was named.
        expected: Compression,
        /// The compression that [`Compression::detect`] tells from the content.
        found: Compression,
    },
}

/// A frame is longer than its header, so the length alone tells which was cut.
fn frame_part(expected: usize) -> &'static str {
    if expected == HEADER_LEN { "a record header" } else { "a framed record" }
}

#[cfg(test)]
mod tests;
