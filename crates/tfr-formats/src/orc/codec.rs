//! [`SectionCodec`]: the compression of ORC files. Bounds the unpacked length of a section before unpacking it.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use flate2::read::DeflateDecoder;
use orc_rust::ArrowReaderBuilder;
use orc_rust::compression::{Compression, Decompressor};
use prost::Message;

use super::proto::{Footer, PostScript, Type, kind};

/// The block length if a file does not specify it (ORC specification v1, "Compression").
const DEFAULT_BLOCK_LEN: u64 = 256 << 10;

/// The header of a block has 23 bits for its length.
const MAX_BLOCK_LEN: u64 = 1 << 23;

/// Maximum unpacked length of a block; a header that specifies more is invalid.
const MAX_EXPANDED: u64 = 1 << 28;

/// Deflate compresses at most 258 bytes into 2 bits.
const DEFLATE_RATIO: u64 = 1032;

/// Each further byte of a length in LZO adds 255 bytes.
const LZO_RATIO: u64 = 256;

/// Maximum content of a Zstandard block (RFC 8878, section 3.1.1.2.4).
const ZSTD_BLOCK_LEN: u64 = 128 << 10;

/// The compression of one file's sections.
#[derive(Debug, Clone)]
pub(super) struct SectionCodec {
    kind: CompressionKind,
    block_len: u64,
    /// The library's type, which can only be created from a postscript.
    compression: Option<Compression>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompressionKind {
    None,
    Zlib,
    Snappy,
    Lzo,
    Lz4,
    Zstd,
}

impl SectionCodec {
    /// Returns the compression that a postscript specifies. The error describes what is invalid.
    pub(super) fn try_new(postscript: &PostScript) -> Result<Self, String> {
        let kind = match postscript.compression {
            0 => CompressionKind::None,
            1 => CompressionKind::Zlib,
            2 => CompressionKind::Snappy,
            3 => CompressionKind::Lzo,
            4 => CompressionKind::Lz4,
            5 => CompressionKind::Zstd,
            other => return Err(format!("compression {other} is unknown")),
        };
        let block_len = postscript.compression_block_size.unwrap_or(DEFAULT_BLOCK_LEN);
        if kind != CompressionKind::None && !(1..=MAX_BLOCK_LEN).contains(&block_len) {
            return Err(format!("its compression blocks have {block_len} bytes"));
        }
        let mut codec = Self { kind, block_len, compression: None };
        if kind != CompressionKind::None {
            let root = Type { kind: kind::STRUCT, ..Type::default() };
            let footer = Footer { types: vec![root], ..Footer::default() };
            let empty = ArrowReaderBuilder::try_new(Bytes::from(codec.tail(&footer)));
            codec.compression = empty.map_err(|error| error.to_string())?.file_metadata().compression();
        }
        Ok(codec)
    }

    /// Encodes a footer and a postscript as the end of a file.
    pub(super) fn tail(&self, footer: &Footer) -> Vec<u8> {
        let mut tail = self.stored(&footer.encode_to_vec());
        let postscript = PostScript {
            footer_length: Some(tail.len() as u64),
            compression: self.kind as i32,
            compression_block_size: Some(self.block_len),
            metadata_length: Some(0),
            magic: Some("ORC".to_owned()),
            ..PostScript::default()
        };
        let footer_len = tail.len();
        postscript.encode_raw(&mut tail);
        // A postscript with these fields has about 30 bytes.
        tail.push((tail.len() - footer_len) as u8);
        tail
    }

    /// Stores the bytes uncompressed as a section, in blocks if sections have blocks.
    pub(super) fn stored(&self, section: &[u8]) -> Vec<u8> {
        if self.kind == CompressionKind::None {
            return section.to_vec();
        }
        let mut stored = Vec::with_capacity(section.len() + 3);
        for block in section.chunks(MAX_BLOCK_LEN as usize - 1) {
            let header = (block.len() as u32) << 1 | 1;
            stored.extend_from_slice(&header.to_le_bytes()[..3]);
            stored.extend_from_slice(block);
        }
        stored
    }

    /// Unpacks a section of metadata to at most `limit` bytes.
    pub(super) fn unpack(&self, section: &Bytes, limit: u64) -> Result<Vec<u8>, String> {
        self.expanded_len(section)?;
        let read = || {
            let mut unpacked = Vec::new();
            self.reader(section.clone()).take(limit + 1).read_to_end(&mut unpacked).map(|_| unpacked)
        };
        // The library panics if blocks cannot be unpacked.
        let unpacked = catch_unwind(AssertUnwindSafe(read)).map_err(|_| "a block cannot be unpacked".to_owned())?;
        let unpacked = unpacked.map_err(|error| error.to_string())?;
        match unpacked.len() as u64 > limit {
            true => Err(format!("a section of metadata has more than {limit} bytes")),
            false => Ok(unpacked),
        }
    }

    /// Returns the content of a section whose blocks were already checked.
    pub(super) fn reader(&self, section: Bytes) -> Decompressor {
        Decompressor::new(section, self.compression, Vec::new())
    }

    /// Returns the maximum unpacked length of a section in bytes, after checking all of its blocks.
    pub(super) fn expanded_len(&self, section: &Bytes) -> Result<u64, String> {
        if self.kind == CompressionKind::None {
            return Ok(section.len() as u64);
        }
        let mut expanded = 0_u64;
        let mut rest = section.as_ref();
        while !rest.is_empty() {
            let (header, behind) = rest.split_first_chunk::<3>().ok_or("a compression block has no header")?;
            let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
            let len = (header >> 1) as usize;
            let block = behind.get(..len).ok_or("a compression block ends behind its stream")?;
            let is_stored = header & 1 == 1;
            // The library takes an empty block for the end, and a null stream that ends for the absence of nulls.
            if block.is_empty() && !(is_stored && behind.is_empty() && expanded == 0) {
                return Err("a compression block has no content".to_owned());
            }
            expanded = expanded.saturating_add(if is_stored { len as u64 } else { self.expanded_block_len(block)? });
            rest = &behind[len..];
        }
        Ok(expanded)
    }

    fn expanded_block_len(&self, block: &[u8]) -> Result<u64, String> {
        let len = block.len() as u64;
        let expanded = match self.kind {
            CompressionKind::None => Some(len),
            CompressionKind::Zlib if len * DEFLATE_RATIO <= MAX_EXPANDED => {
                Some((len * DEFLATE_RATIO).min(MAX_EXPANDED))
            }
            CompressionKind::Zlib => inflated_len(block),
            CompressionKind::Snappy => snappy_len(block),
            CompressionKind::Lzo => Some(len * LZO_RATIO),
            // The decompressor gets a buffer of the block length.
            CompressionKind::Lz4 => Some(self.block_len),
            CompressionKind::Zstd => zstd_len(block),
        };
        match expanded {
            // No writer makes longer blocks, and the bound need not be sharp.
            Some(expanded) if expanded <= MAX_EXPANDED => Ok(expanded.min(self.block_len.max(len))),
            Some(_) => Err(format!("a compression block expands to more than {MAX_EXPANDED} bytes")),
            None => Err("a compression block is malformed".to_owned()),
        }
    }
}

/// Returns the unpacked length, counting only slightly beyond [`MAX_EXPANDED`].
fn inflated_len(block: &[u8]) -> Option<u64> {
    std::io::copy(&mut DeflateDecoder::new(block).take(MAX_EXPANDED + 1), &mut std::io::sink()).ok()
}

/// Returns the length at the start of a Snappy block.
fn snappy_len(block: &[u8]) -> Option<u64> {
    let mut len = 0;
    for (index, byte) in block.iter().take(5).enumerate() {
        len |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some(len);
        }
    }
    None
}

/// Returns the maximum content by the headers of frames and blocks.
fn zstd_len(mut rest: &[u8]) -> Option<u64> {
    const FRAME: u32 = 0xfd2f_b528;
    const SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184d_2a50..=0x184d_2a5f;
    let mut expanded = 0_u64;
    while !rest.is_empty() {
        let (magic, behind) = rest.split_first_chunk::<4>()?;
        let magic = u32::from_le_bytes(*magic);
        if SKIPPABLE.contains(&magic) {
            let (len, behind) = behind.split_first_chunk::<4>()?;
            rest = behind.get(u32::from_le_bytes(*len) as usize..)?;
            continue;
        }
        if magic != FRAME {
            return None;
        }
        let descriptor = *behind.first()?;
        let is_single = descriptor & 0x20 != 0;
        let size_len = match descriptor >> 6 {
            0 => usize::from(is_single),
            flag => 1 << flag,
        };
        let dictionary_len = [0, 1, 2, 4][usize::from(descriptor & 3)];
        rest = behind.get(1 + usize::from(!is_single) + dictionary_len + size_len..)?;
        loop {
            let (header, behind) = rest.split_first_chunk::<3>()?;
            let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
            let len = header >> 3;
            let (content, stored) = match header >> 1 & 3 {
                0 => (u64::from(len), len),
                1 => (u64::from(len), 1),
                2 => (ZSTD_BLOCK_LEN, len),
                _ => return None,
            };
            expanded = expanded.saturating_add(content);
            rest = behind.get(stored as usize..)?;
            if header & 1 == 1 {
                break;
            }
        }
        if descriptor & 4 != 0 {
            rest = rest.get(4..)?;
        }
    }
    Some(expanded)
}
