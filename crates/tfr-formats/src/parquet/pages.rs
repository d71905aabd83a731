//! [`PageSizes`]: checks the sizes of pages before the library allocates memory for them.
//!
//! A page is decompressed as a whole, into as many bytes as its header specifies: 4 kB of Brotli may specify 2 GiB.

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;

use super::thrift::page_header;

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
pub(super) struct PageSizes {
    bound: u64,
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

impl PageSizes {
    /// Creates a check for pages of at most `bound` bytes.
    pub(super) fn new(metadata: &ParquetMetaData, bound: u64) -> Self {
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
        Self { bound, chunks }
    }

    /// Checks the pages in `bytes`, which were fetched from `start` on.
    pub(super) fn check(&self, metadata: &ParquetMetaData, start: u64, bytes: &Bytes) -> Result<()> {
        let next = self.chunks.partition_point(|chunk| chunk.start <= start);
        let Some(chunk) = next.checked_sub(1).and_then(|last| self.chunks.get(last)) else { return Ok(()) };
        let end = chunk.end.saturating_sub(start).min(bytes.len() as u64);
        let mut at = 0;
        // If there is no valid header, the library does not find a page either.
        while at < end
            && let Some(header) = usize::try_from(at).ok().and_then(|at| page_header(bytes.get(at..)?))
        {
            if header.decompressed > self.bound {
                let column = metadata.row_group(chunk.row_group).column(chunk.column).column_path().string();
                let (row_group, bytes) = (chunk.row_group, header.decompressed);
                let found = PageTooLong { column, row_group, offset: start + at, bytes, bound: self.bound };
                return Err(ParquetError::External(Box::new(found)));
            }
            at = at.saturating_add(header.length as u64).saturating_add(header.stored);
        }
        Ok(())
    }
}
