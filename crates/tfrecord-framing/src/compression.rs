//! Compression of TFRecord files: [`Compression`], [`Level`], and the division into gzip members.

use std::{fmt, io::Write, str::FromStr};

use flate2::GzBuilder;

use crate::{HEADER_LEN, frame::Header};

/// Framed bytes after which a gzip member ends: 1 MiB.
///
/// A gzip file is a sequence of members, each of which contains whole records. A member ends at the first record
/// boundary at or past `GZIP_BLOCK_LEN` framed bytes since its start. So members can be compressed in parallel and read
/// one by one, and the file's bytes do not depend on how the records were passed in. A file without records is one
/// empty member.
pub const GZIP_BLOCK_LEN: usize = 1 << 20;

/// The compression of a TFRecord file, by TensorFlow's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Uncompressed frames.
    #[default]
    None,
    /// Gzip (RFC 1952), with any number of members.
    Gzip,
    /// One zlib stream (RFC 1950).
    Zlib,
}

impl Compression {
    /// Returns the suffix of file names: nothing, `.gz` or `.deflate`, as Hadoop and Spark call a zlib stream. They read
    /// any other suffix as an uncompressed file.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Zlib => ".deflate",
        }
    }

    /// Detects the compression of a TFRecord file from its first bytes; [`HEADER_LEN`] bytes are enough.
    ///
    /// An intact record header or an empty file means no compression; otherwise the magic bytes decide. Returns `None`
    /// if `start` matches neither: the file is not a TFRecord file, or its first bytes are damaged.
    pub fn detect(start: &[u8]) -> Option<Self> {
        if start.is_empty() {
            return Some(Self::None);
        }
        if start.first_chunk::<HEADER_LEN>().is_some_and(|header| Header::parse(header).is_intact()) {
            return Some(Self::None);
        }
        match *start {
            // RFC 1952, section 2.3.1: ID1, ID2, CM = deflate
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            // RFC 1950, section 2.2: CM = deflate, CINFO at most 7, no preset dictionary, FCHECK
            [cmf, flags, ..]
                if cmf & 0x0f == 8
                    && cmf >> 4 <= 7
                    && flags & 0x20 == 0
                    && u16::from_be_bytes([cmf, flags]).is_multiple_of(31) =>
            {
                Some(Self::Zlib)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
        })
    }
}

impl FromStr for Compression {
    type Err = UnknownCompression;

    /// Parses `none`, `gzip` or `zlib`, ignoring case. The empty string means none, as in TensorFlow. Spark's names are
    /// accepted too: `uncompressed`, `deflate`, and the classes `GzipCodec`, `DefaultCodec` and `DeflateCodec` of Hadoop,
    /// with or without `org.apache.hadoop.io.compress.`.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let lower = name.to_ascii_lowercase();
        match lower.strip_prefix("org.apache.hadoop.io.compress.").unwrap_or(&lower) {
            "" | "none" | "uncompressed" => Ok(Self::None),
            "gzip" | "gzipcodec" => Ok(Self::Gzip),
            "zlib" | "deflate" | "defaultcodec" | "deflatecodec" => Ok(Self::Zlib),
            _ => Err(UnknownCompression(name.into())),
        }
    }
}

/// A name that is not a valid [`Compression`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown compression {0:?}, expected none, gzip or zlib")]
pub struct UnknownCompression(String);

/// The compression level, from 0 (none) to 9. The default is 6, as in zlib and TensorFlow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u32);

impl Level {
    /// Returns the level as a number from 0 to 9.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl Default for Level {
    fn default() -> Self {
        Self(6)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for Level {
    type Error = InvalidLevel;

    fn try_from(level: u32) -> Result<Self, Self::Error> {
        if level <= 9 { Ok(Self(level)) } else { Err(InvalidLevel(level)) }
    }
}

impl From<Level> for flate2::Compression {
    fn from(level: Level) -> Self {
        Self::new(level.0)
    }
}

/// A number that is not a valid [`Level`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compression level is {0}, expected 0 to 9")]
pub struct InvalidLevel(u32);

/// Appends one gzip member containing `block` to `out`.
///
/// The header has neither a time nor a name, so the same block and level give the same bytes.
pub fn gzip_member(block: &[u8], level: Level, out: &mut Vec<u8>) {
    let mut encoder = GzBuilder::new().write(out, level.into());
    let written = encoder.write_all(block).and_then(|()| encoder.try_finish());
    debug_assert!(written.is_ok(), "a Vec takes every byte");
}

#[cfg(test)]
mod tests;
