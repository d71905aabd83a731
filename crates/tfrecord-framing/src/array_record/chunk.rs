//! [`Part`]: finds chunks in consecutive bytes of a file.

use std::borrow::Cow;
use std::ops::Range;

use super::{
    BLOCK_HEADER_LEN, BLOCK_LEN, BlockHeader, CHUNK_HEADER_LEN, ChunkHeader, Defect, Error, add_block_headers,
    chunk_end,
};

/// The longest chunk that is read, in bytes, and the longest records of one, decompressed: 4 GiB - 1.
pub(super) const MAX_CHUNK_LEN: u64 = u32::MAX as u64;

/// A chunk with its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) header: ChunkHeader,
}

/// Consecutive bytes of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    bytes: &'a [u8],
    start: u64,
}

impl<'a> Part<'a> {
    /// Returns these bytes, the first of which is at `start` in the file.
    pub(super) fn new(bytes: &'a [u8], start: u64) -> Self {
        Self { bytes, start }
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn get(&self, range: Range<u64>) -> Option<&'a [u8]> {
        let offset = |byte: u64| usize::try_from(byte.checked_sub(self.start)?).ok();
        self.bytes.get(offset(range.start)?..offset(range.end)?)
    }

    /// Returns the block header at a multiple of [`BLOCK_LEN`], or `None` if these bytes end before it does.
    pub(super) fn block_header(&self, block: u64) -> Option<Result<BlockHeader, Error>> {
        let bytes = self.get(block..block.saturating_add(BLOCK_HEADER_LEN as u64))?.first_chunk()?;
        Some(BlockHeader::decode(bytes).map_err(|error| Error::at(block, error)))
    }

    /// Returns the chunk that begins at a position, or `None` if these bytes end before its header does. Only the hash
    /// of the header is checked.
    pub(super) fn chunk(&self, begin: u64) -> Result<Option<Chunk>, Error> {
        let mut header = [0; CHUNK_HEADER_LEN];
        match self.content(begin, CHUNK_HEADER_LEN as u64) {
            Some(bytes) => header.copy_from_slice(&bytes),
            None => return Ok(None),
        }
        let header = ChunkHeader::decode(&header).map_err(|error| Error::at(begin, error))?;
        let end = chunk_end(&header, begin);
        // The end has as many bytes more as there are records.
        let len = header.data_len.max(header.decoded_len).max(end - begin);
        if len > MAX_CHUNK_LEN {
            return Err(Error::at(begin, Defect::ChunkTooLong { len, max: MAX_CHUNK_LEN }));
        }
        Ok(Some(Chunk { begin, end, header }))
    }

    /// Checks the block headers that interrupt a chunk, all of which is in these bytes.
    pub(super) fn check_blocks(&self, chunk: &Chunk) -> Result<(), Error> {
        let mut block = chunk.begin.next_multiple_of(BLOCK_LEN);
        while block < chunk.end {
            let truncated = || Error::at(block, Defect::Truncated { expected: chunk.end, found: self.end() });
            let found = self.block_header(block).ok_or_else(truncated)??;
            let expected = BlockHeader { previous: block - chunk.begin, next: chunk.end - block };
            if found != expected {
                let defect = format!(
                    "block header is {} bytes after the beginning of a chunk and {} before its end, expected {} and {}",
                    found.previous, found.next, expected.previous, expected.next
                );
                return Err(Error::at(block, Defect::Structure(defect)));
            }
            block += BLOCK_LEN;
        }
        Ok(())
    }

    /// Returns the data of a chunk, all of which is in these bytes, after checking their hash.
    pub(super) fn data(&self, chunk: &Chunk) -> Result<Cow<'a, [u8]>, Error> {
        let begin = add_block_headers(chunk.begin, CHUNK_HEADER_LEN as u64);
        let truncated = || Error::at(chunk.begin, Defect::Truncated { expected: chunk.end, found: self.end() });
        let data = self.content(begin, chunk.header.data_len).ok_or_else(truncated)?;
        chunk.header.check_data(&data).map_err(|error| Error::at(chunk.begin, error))?;
        Ok(data)
    }

    /// Returns `len` bytes from `begin` on without the block headers between. They are copied if there are any.
    fn content(&self, begin: u64, len: u64) -> Option<Cow<'a, [u8]>> {
        let mut pieces = Vec::new();
        let (mut position, mut left) = (begin, len);
        loop {
            if position.is_multiple_of(BLOCK_LEN) && left > 0 {
                position = position.checked_add(BLOCK_HEADER_LEN as u64)?;
            }
            let piece = left.min(BLOCK_LEN - position % BLOCK_LEN);
            let bytes = self.get(position..position.checked_add(piece)?)?;
            left -= piece;
            if left == 0 && pieces.is_empty() {
                return Some(Cow::Borrowed(bytes));
            }
            pieces.extend_from_slice(bytes);
            if left == 0 {
                return Some(Cow::Owned(pieces));
            }
            position += piece;
        }
    }
}
