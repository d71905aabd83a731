//! [`Error`]: why an ArrayRecord file could not be read.

use std::io;

use super::LayoutError;

/// A defect of an ArrayRecord file, and where it is.
#[derive(Debug, thiserror::Error)]
#[error("at byte {byte} of the file: {defect}")]
pub struct Error {
    /// Where the damaged chunk, header or message begins: an offset in the file.
    pub byte: u64,
    /// The defect.
    pub defect: Defect,
}

impl Error {
    pub(super) fn at(byte: u64, defect: impl Into<Defect>) -> Self {
        Self { byte, defect: defect.into() }
    }
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Defect {
    /// A header, a hash or a message is not what the layout requires.
    #[error(transparent)]
    Layout(#[from] LayoutError),

    /// The file ends within a chunk.
    #[error("the file is truncated: it ends at byte {found}, expected a chunk up to byte {expected}")]
    Truncated {
        /// Where the chunk ends, or its header if that is truncated.
        expected: u64,
        /// Length of the file.
        found: u64,
    },

    /// The file ends without a postscript.
    #[error("the file ends without a postscript: it is truncated, or not an ArrayRecord file")]
    NoPostscript,

    /// A chunk is longer than any that is read.
    #[error("chunk of {len} bytes, expected at most {max}")]
    ChunkTooLong {
        /// Length of its data or of its records.
        len: u64,
        /// The longest that is read.
        max: u64,
    },

    /// A record is longer than any that is read.
    #[error("record of {len} bytes in a chunk, expected at most {max}")]
    RecordTooLong {
        /// Length of the record.
        len: u64,
        /// The longest that is read.
        max: u64,
    },

    /// A transposed chunk, which is not read.
    #[error("transposed chunk, expected a simple one: the file was written with the option transpose")]
    Transposed,

    /// The codec of a chunk is not known.
    #[error("codec {found:#04x}, expected none, brotli, snappy or zstd")]
    Codec {
        /// The byte of the codec; zero if the chunk has no data.
        found: u8,
    },

    /// The data of a chunk cannot be decompressed.
    #[error("cannot decompress the chunk with {codec}: {source}")]
    Decompress {
        /// The codec.
        codec: &'static str,
        /// The defect.
        source: io::Error,
    },

    /// Decompressed data have another length than the chunk records.
    #[error("{what} of {found} bytes, expected {expected}")]
    Len {
        /// The data.
        what: &'static str,
        /// Their length, or a lower bound if they are too long.
        found: u64,
        /// The recorded length.
        expected: u64,
    },

    /// The sizes of the records in a chunk are malformed, too few or too many.
    #[error("the sizes of the records do not have {expected} numbers")]
    Sizes {
        /// Number of records by the header of the chunk.
        expected: u64,
    },

    /// Chunks, block headers or the postscript are not where they should be, or chunks are of another kind.
    #[error("{0}")]
    Structure(String),

    /// The footer contradicts itself or the chunks of the file.
    #[error("{what} by the footer: {found}, expected {expected}")]
    Footer {
        /// What is counted.
        what: &'static str,
        /// The number in the footer.
        found: u64,
        /// The number that is there.
        expected: u64,
    },

    /// The chunks in the footer are not in order, or not those of the file.
    #[error("the chunks in the footer are not those of the file")]
    FooterChunks,
}
