//! The compressions of text files.

use std::fmt;

use flate2::{Decompress, FlushDecompress};

/// Bytes of text per piece from a decompressor.
pub(super) const CHUNK_LEN: usize = 64 * 1024;

/// The compression of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// gzip, with any number of members.
    Gzip,
    /// bzip2, with any number of streams.
    Bzip2,
    /// xz, with any number of streams.
    Xz,
    /// Zstandard, with any number of frames.
    Zstd,
    /// zlib, with any number of streams; Hadoop calls it deflate.
    Zlib,
}

impl Compression {
    /// Parses a name or a file extension.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "none" | "uncompressed" => Self::None,
            "gzip" | "gz" => Self::Gzip,
            "bzip2" | "bz2" => Self::Bzip2,
            "xz" => Self::Xz,
            "zstd" | "zst" => Self::Zstd,
            "zlib" | "deflate" => Self::Zlib,
            _ => return None,
        })
    }

    /// Detects the compression from the first bytes; `None` if there is no magic number.
    pub fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Some(Self::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ if begins_zlib(head) => Some(Self::Zlib),
            _ => None,
        }
    }
}

impl Compression {
    /// Returns its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "not",
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Zlib => "zlib",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the bytes look like the start of a zlib stream. Text never does.
pub(super) fn begins_zlib(head: &[u8]) -> bool {
    // RFC 1950: deflate with a window of 32 KiB, no dictionary, and a check of 5 bits.
    let [0x78, flags, ..] = head else { return false };
    let is_header = (0x7800 | u16::from(*flags)).is_multiple_of(31) && flags & 0x20 == 0;
    let is_text = || {
        let text = match std::str::from_utf8(head) {
            Ok(text) => text,
            // The end may split a character.
            Err(error) if error.error_len().is_none() => {
                head.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok()).unwrap_or_default()
            }
            Err(_) => return false,
        };
        !text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{1}'..='\u{8}'))
    };
    is_header
        && !is_text()
        && Decompress::new(true).decompress(head, &mut [0; CHUNK_LEN], FlushDecompress::None).is_ok()
}
