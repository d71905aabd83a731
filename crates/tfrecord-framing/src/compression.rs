//! How a TFRecord file is compressed: [`Compression`], [`Level`], and the gzip members it is cut into.

use std::{fmt, io::Write, str::FromStr};

use flate2::GzBuilder;

use crate::{HEADER_LEN, frame::Header};

/// Framed bytes, 1 MiB, after which a gzip member ends with the record that reaches it.
///
/// A gzip file is a chain of members, each holding whole records: a member ends with the first record boundary at or
/// past `GZIP_BLOCK_LEN` framed bytes since the member's start. So members can be compressed in parallel and read one
/// by one, and the file's bytes do not depend on how records were handed over. A file without records is one empty
/// member.
pub const GZIP_BLOCK_LEN: usize = 1 << 20;

/// The compression of a TFRecord file, by TensorFlow's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Frames as they are.
    #[default]
    None,
    /// Gzip (RFC 1952), in as many members as the writer liked.
    Gzip,
    /// One zlib stream (RFC 1950).
    Zlib,
}

impl Compression {
    /// What file names end in: nothing, `.gz` or `.zlib`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Zlib => ".zlib",
        }
    }

    /// The compression of a TFRecord file that begins with `start`, of which [`HEADER_LEN`] bytes are enough.
    ///
    /// An intact record header means none, as does an empty file; else the magic bytes tell. `None` is returned for
    /// what looks like neither: not a TFRecord file, or one whose first bytes are damaged.
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

    /// Reads `none`, `gzip` or `zlib` in any case. The empty string means none, as it does to TensorFlow.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "" | "none" => Ok(Self::None),
            "gzip" => Ok(Self::Gzip),
            "zlib" => Ok(Self::Zlib),
            _ => Err(UnknownCompression(name.into())),
        }
    }
}

/// A name that is no [`Compression`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown compression {0:?}, expected none, gzip or zlib")]
pub struct UnknownCompression(String);

/// How hard to compress: 0 (not at all) to 9, by default 6, as in zlib and TensorFlow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u32);

impl Level {
    /// The level as a number from 0 to 9.
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

/// A number that is no [`Level`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compression level is {0}, expected 0 to 9")]
pub struct InvalidLevel(u32);

/// Appends one whole gzip member holding `block` to `out`.
///
/// The header has neither time nor name, so the same block and level give the same bytes.
pub fn gzip_member(block: &[u8], level: Level, out: &mut Vec<u8>) {
    let mut encoder = GzBuilder::new().write(out, level.into());
    let written = encoder.write_all(block).and_then(|()| encoder.try_finish());
    debug_assert!(written.is_ok(), "a Vec takes every byte");
}

#[cfg(test)]
mod tests;
