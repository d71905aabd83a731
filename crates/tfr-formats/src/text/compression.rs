//! The compressions of text files.

use std::fmt;

/// How a text file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, any number of members.
    Gzip,
    /// bzip2, any number of streams.
    Bzip2,
    /// xz, any number of streams.
    Xz,
    /// Zstandard, any number of frames.
    Zstd,
    /// zlib, any number of streams: what Hadoop calls deflate.
    Zlib,
}

impl Compression {
    /// Reads a name or a file ending.
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

    /// Tells the compression from the first bytes; `None` if there is no magic number.
    pub fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Some(Self::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ if super::members::begins_zlib(head) => Some(Self::Zlib),
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "not",
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Zlib => "zlib",
        })
    }
}
