//! Errors of TFRecord streams and their positions: [`Error`], [`ErrorKind`], [`Position`].

use std::{fmt, io};

use crate::{Compression, Container, HEADER_LEN, array_record};

/// The result of reading or writing records.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A position in a TFRecord stream: the record, counted from 0, and the byte at which its frame starts.
///
/// Bytes are those of the framed records. In a compressed file that is the offset after decompression, not the offset
/// in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Number of records before this position.
    pub record: u64,
    /// Number of framed, uncompressed bytes before this position.
    pub byte: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} at byte {}", self.record, self.byte)
    }
}

crate::boxed_error! {
    /// Why a TFRecord stream could not be read or written.
    ///
    /// The text includes the position in the stream. The caller adds the file's name.
    pub struct Error(Box<ErrorKind>);
}

impl Error {
    /// Returns the position of the record that could not be read or written.
    pub fn position(&self) -> Position {
        match *self.0 {
            ErrorKind::Io { position, .. }
            | ErrorKind::LengthCrc { position, .. }
            | ErrorKind::DataCrc { position, .. }
            | ErrorKind::Truncated { position, .. }
            | ErrorKind::RecordTooLong { position, .. }
            | ErrorKind::Compression { position, .. }
            | ErrorKind::ArrayRecord { position, .. }
            | ErrorKind::WrongContainer { position, .. } => position,
        }
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
        /// The error of the reader or writer.
        source: io::Error,
    },

    /// A header's length does not match its checksum. The start of the next record is unknown.
    #[error("{position}: length {len} has the checksum {found:#010x}, expected {expected:#010x}")]
    LengthCrc {
        /// The damaged record.
        position: Position,
        /// The stored length, which is not trustworthy.
        len: u64,
        /// The stored masked checksum.
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
        /// The stored masked checksum.
        found: u32,
        /// The masked checksum of the payload.
        expected: u32,
    },

    /// The stream ends inside a frame.
    #[error("{position}: truncated, expected {expected} bytes of {}, found {found}", frame_part(*.expected))]
    Truncated {
        /// The truncated record.
        position: Position,
        /// Length of the whole frame in bytes, or [`HEADER_LEN`] if even the header is truncated.
        expected: usize,
        /// Number of bytes of the frame, or of its header, that are present.
        found: usize,
    },

    /// A record exceeds the length limit: [`MAX_RECORD_LEN`](crate::MAX_RECORD_LEN), unless the reader sets another.
    #[error("{position}: record of {len} bytes, expected at most {max}")]
    RecordTooLong {
        /// The record.
        position: Position,
        /// Length of its payload in bytes.
        len: u64,
        /// The longest payload allowed, in bytes.
        max: usize,
    },

    /// A compressed stream is damaged, or has another compression.
    #[error("{position}: invalid {compression} stream")]
    Compression {
        /// The record being read when the damage was detected. It may precede the damaged bytes by some records.
        position: Position,
        /// The compression expected.
        compression: Compression,
        /// The defect. Its kind is [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) when the stream is truncated.
        source: io::Error,
    },

    /// An ArrayRecord file is damaged.
    #[error("record {}: invalid ArrayRecord file", position.record)]
    ArrayRecord {
        /// The record being read when the damage was detected. It may precede the damaged bytes by some records.
        position: Position,
        /// The defect, with its offset in the file.
        source: array_record::Error,
    },

    /// Judging by its first bytes, the file has another compression or format than expected.
    #[error("{position}: {}", expected.expected_but(*found))]
    WrongContainer {
        /// The start of the file.
        position: Position,
        /// The container that was specified.
        expected: Container,
        /// The container that [`Container::detect`] found.
        found: Container,
    },
}

/// Names the truncated part. A frame is longer than its header, so the length distinguishes the two.
fn frame_part(expected: usize) -> &'static str {
    if expected == HEADER_LEN { "a record header" } else { "a framed record" }
}

#[cfg(test)]
mod tests;
