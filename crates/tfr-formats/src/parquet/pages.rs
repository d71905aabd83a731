//! [`Pages`]: checks the sizes of pages before the library allocates memory for them, and finds wrong checksums.
//!
//! A page is decompressed as a whole, into as many bytes as its header specifies: 4 kB of Brotli may specify 2 GiB.
//!
//! The library verifies checksums, but does not name the page. So a page is looked for after a failure. To skip
//! checksums, they are removed from the headers.

use std::ops::Range;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;

use super::thrift::{PageHeader, page_header, remove_crc};

/// A page is longer than the session allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageTooLong {
    column: String,
    row_group: usize,
    offset: u64,
    bytes: u64,
    bound: u64,
}

impl std::fmt::Display for PageTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { column, row_group, offset, bytes, bound } = self;
        write!(
            f,
            "row group {row_group}, column \"{column}\": the page at byte {offset} has {bytes} bytes when decompressed, more than \
             the memory limit of {bound} bytes"
        )
    }
}

impl std::error::Error for PageTooLong {}

/// Checks fetched bytes of column chunks.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    bound: u64,
    /// Whether the library must not verify checksums.
    skip_crc: bool,
    /// The chunks in order of their offsets.
    chunks: Vec<Chunk>,
}

#[derive(Debug, Clone, Copy)]
struct Chunk {
    start: u64,
    end: u64,
    row_group: usize,
    column: usize,
}

impl Pages {
    /// Creates a check for pages of at most `bound` bytes.
    pub(super) fn new(metadata: &ParquetMetaData, bound: u64, skip_crc: bool) -> Self {
        let groups = metadata.row_groups().iter().enumerate();
        let chunks = groups.flat_map(|(row_group, group)| {
            group.columns().iter().enumerate().map(move |(column, chunk)| {
                let first = chunk.dictionary_page_offset().unwrap_or(i64::MAX).min(chunk.data_page_offset());
                let start = u64::try_from(first).unwrap_or_default();
                let length = u64::try_from(chunk.compressed_size()).unwrap_or_default();
                Chunk { start, end: start.saturating_add(length), row_group, column }
            })
        });
        let mut chunks: Vec<_> = chunks.collect();
        chunks.sort_by_key(|chunk| chunk.start);
        Self { bound, skip_crc, chunks }
    }

    /// Checks the pages in `bytes`, which were fetched from `start` on. Returns the bytes for the library.
    pub(super) fn checked(&self, metadata: &ParquetMetaData, start: u64, bytes: Bytes) -> Result<Bytes> {
        let Some(chunk) = self.chunk_at(start) else { return Ok(bytes) };
        let mut with_crc = Vec::new();
        for (at, header) in pages(&bytes, chunk.end.saturating_sub(start)) {
            if header.decompressed > self.bound {
                let column = metadata.row_group(chunk.row_group).column(chunk.column).column_path().string();
                let (row_group, bytes) = (chunk.row_group, header.decompressed);
                let found = PageTooLong { column, row_group, offset: start + at as u64, bytes, bound: self.bound };
                return Err(ParquetError::External(Box::new(found)));
            }
            if self.skip_crc && header.crc.is_some() {
                with_crc.push(at..at + header.length);
            }
        }
        if with_crc.is_empty() {
            return Ok(bytes);
        }
        let mut bytes = Vec::from(bytes);
        for header in with_crc {
            bytes.get_mut(header).and_then(remove_crc);
        }
        Ok(bytes.into())
    }

    fn chunk_at(&self, start: u64) -> Option<&Chunk> {
        let next = self.chunks.partition_point(|chunk| chunk.start <= start);
        self.chunks.get(next.checked_sub(1)?)
    }

    /// Returns the byte ranges of the chunks of some columns, given by index of their leaves, in order of the file.
    pub(super) fn chunks_of(&self, leaves: &[usize]) -> impl Iterator<Item = (usize, usize, Range<u64>)> {
        let chunks = self.chunks.iter().filter(|chunk| leaves.contains(&chunk.column));
        chunks.map(|chunk| (chunk.row_group, chunk.column, chunk.start..chunk.end))
    }
}

/// Returns the offset of the first page in a chunk whose checksum is wrong, with the checksums that it has and that its
/// header specifies.
pub(super) fn wrong_crc(chunk: &[u8]) -> Option<(u64, u32, u32)> {
    pages(chunk, chunk.len() as u64).find_map(|(at, header)| {
        let data =
            usize::try_from(header.stored).ok().and_then(|stored| chunk.get(at + header.length..)?.get(..stored));
        let (data, expected) = data.zip(header.crc)?;
        let mut crc = flate2::Crc::new();
        crc.update(data);
        (crc.sum() != expected).then_some((at as u64, crc.sum(), expected))
    })
}

/// Iterates over the offsets and headers of the pages in the first `len` bytes. Ends at bytes that are not a valid
/// header: the library does not find a page there either.
fn pages(bytes: &[u8], len: u64) -> impl Iterator<Item = (usize, PageHeader)> {
    let end = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
    let mut at = 0;
    std::iter::from_fn(move || {
        let header = page_header(bytes.get(at..end)?).filter(|_| at < end)?;
        let found = at;
        let stored = usize::try_from(header.stored).unwrap_or(usize::MAX);
        at = at.saturating_add(header.length).saturating_add(stored);
        Some((found, header))
    })
}
