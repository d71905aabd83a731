//! [`ChunkReader`]: reads the records of a file whose bytes arrive in pieces.

use std::collections::VecDeque;
use std::convert::Infallible;

use super::chunk::{Chunk, Part};
use super::footer::{Footer, is_footer, is_postscript, wrong_footer, wrong_kind};
use super::records::{ChunkRecords, Codecs};
use super::{
    BLOCK_LEN, CHUNK_HEADER_LEN, ChunkEntry, ChunkKind, Defect, Error, add_block_headers, hash, is_chunk_boundary,
};
use crate::append_record;
use crate::inflate::OUT_LEN;

/// Bytes of input that are stored at a time.
const PIECE_LEN: usize = 256 << 10;

/// The chunks at the end of a file that are no records of the user: the footer and the postscript.
const INDEX_CHUNKS: usize = 2;

/// Reads the bytes of an ArrayRecord file in order, and appends its records in frames of TFRecord.
///
/// Every hash is checked, and every number that is in the file twice is compared: the distances in block headers, the
/// chunks in the footer, the copies of the postscript. The footer is a chunk of records like any other, so the last two
/// chunks are kept until another one follows.
///
/// After an error, reading can continue with the next chunk: behind the damaged one if its header is intact, otherwise
/// where an intact block header shows one. Records behind an error are those of intact chunks.
#[derive(Debug)]
pub(crate) struct ChunkReader {
    /// Bytes of the file, from `start` on.
    window: Vec<u8>,
    start: u64,
    /// Where the next chunk begins.
    next: u64,
    mode: Mode,
    /// Intact chunks of records that were not decoded yet.
    kept: VecDeque<Chunk>,
    /// The chunk that is being returned.
    current: Option<ChunkRecords<'static>>,
    /// Where that chunk begins.
    current_begin: u64,
    /// Errors that are returned after the records before them.
    errors: VecDeque<Error>,
    /// Where the last returned error was found.
    error_at: u64,
    /// Whether an error was returned, after which no record was yet.
    resumes: bool,
    /// Whether no error was found.
    is_intact: bool,
    has_ended: bool,
    codecs: Codecs,
    index: Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A chunk begins at `next`.
    Chunks,
    /// As `Chunks`, but the block headers within this chunk are ignored, since one is damaged.
    PastBlockHeader,
    /// No chunk is known after `from`; the header of the block at `block` may show one.
    Search { from: u64, block: u64 },
}

/// The chunks that were read, to be compared with the footer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Index {
    chunks: u64,
    records: u64,
    digest: u64,
}

impl Index {
    fn add(&mut self, entry: ChunkEntry) {
        let ChunkEntry { position, decoded_len, records } = entry;
        self.chunks += 1;
        self.records = self.records.saturating_add(records);
        let mut bytes = [0; 32];
        let numbers = [self.digest, position, decoded_len, records];
        for (bytes, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        self.digest = hash(&bytes);
    }
}

impl ChunkReader {
    pub(crate) fn new() -> Self {
        Self {
            window: Vec::new(),
            start: 0,
            next: 0,
            mode: Mode::Chunks,
            kept: VecDeque::new(),
            current: None,
            current_begin: 0,
            errors: VecDeque::new(),
            error_at: 0,
            resumes: false,
            is_intact: true,
            has_ended: false,
            codecs: Codecs::default(),
            index: Index::default(),
        }
    }

    /// Reads some of `input` and appends records to `out`. If nothing is appended, all of `input` was consumed.
    pub(crate) fn unpack(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let before = out.len();
        loop {
            self.append_records(out, before + OUT_LEN);
            let is_full = out.len() - before >= OUT_LEN;
            if out.len() > before && (is_full || std::mem::take(&mut self.resumes)) {
                return Ok(());
            }
            if let Some(chunk) = self.due() {
                self.open(chunk);
            } else if !self.errors.is_empty() {
                if out.len() > before {
                    return Ok(());
                }
                return self.first_error();
            } else {
                match self.step() {
                    Ok(true) => {}
                    Ok(false) if input.is_empty() => return Ok(()),
                    Ok(false) => self.store(input),
                    Err(error) => self.errors.push_back(error),
                }
            }
        }
    }

    /// Ends the file: compares its chunks with its footer. If there is an error, appends the records that were kept.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        if std::mem::replace(&mut self.has_ended, true) {
            return self.first_error();
        }
        let ended = self.check_end();
        if self.is_intact && ended.is_ok() {
            return Ok(());
        }
        self.errors.extend(ended.err());
        while let Some(chunk) = self.due() {
            self.open(chunk);
            self.append_records(out, usize::MAX);
        }
        self.next = self.start + self.window.len() as u64;
        self.first_error()
    }

    /// Returns the offset of the last error in the file, or its end; and the start of the chunk whose records were
    /// returned last.
    pub(crate) fn taken(&self) -> (u64, u64) {
        (if self.has_ended { self.next } else { self.error_at }, self.current_begin)
    }

    fn first_error(&mut self) -> Result<(), Error> {
        let Some(error) = self.errors.pop_front() else { return Ok(()) };
        self.is_intact = false;
        self.resumes = true;
        self.error_at = error.byte;
        Err(error)
    }

    /// Appends records of the current chunk until `out` has `len` bytes.
    fn append_records(&mut self, out: &mut Vec<u8>, len: usize) {
        let Some(records) = &mut self.current else { return };
        while out.len() < len {
            let Some(record) = records.next_record() else {
                self.current = None;
                return;
            };
            let fill = |payload: &mut Vec<u8>| {
                payload.extend_from_slice(record);
                Ok::<_, Infallible>(())
            };
            let Ok(()) = append_record(out, fill);
        }
    }

    /// Returns the next chunk of records, if it is known to be one of the user.
    fn due(&mut self) -> Option<Chunk> {
        // Before damage, no more chunks may follow that show it.
        let is_damaged = !self.errors.is_empty() || (self.has_ended && !self.is_intact);
        while self.kept.len() > INDEX_CHUNKS || is_damaged {
            let chunk = self.kept.pop_front()?;
            if !is_damaged || !self.is_index(&chunk) {
                return Some(chunk);
            }
        }
        None
    }

    /// Decodes a chunk of records.
    fn open(&mut self, chunk: Chunk) {
        let Chunk { begin, header, .. } = chunk;
        self.index.add(ChunkEntry { position: begin, decoded_len: header.decoded_len, records: header.records });
        match self.records(&chunk) {
            Ok(records) => {
                self.current = Some(records);
                self.current_begin = begin;
            }
            Err(error) => self.errors.push_front(error),
        }
    }

    fn records(&mut self, chunk: &Chunk) -> Result<ChunkRecords<'static>, Error> {
        let data = Part::new(&self.window, self.start).data(chunk)?;
        let records = self.codecs.records(&chunk.header, &data);
        records.map(ChunkRecords::into_owned).map_err(|defect| Error::at(chunk.begin, defect))
    }

    /// Whether a chunk is a footer or a postscript, whatever file it is of.
    fn is_index(&mut self, chunk: &Chunk) -> bool {
        self.records(chunk).is_ok_and(is_footer) || self.records(chunk).is_ok_and(is_postscript)
    }

    /// Goes on to the next chunk. Returns false if that needs more input.
    fn step(&mut self) -> Result<bool, Error> {
        if let Mode::Search { from, block } = self.mode {
            return Ok(self.search(from, block));
        }
        let part = Part::new(&self.window, self.start);
        let search = Mode::Search {
            from: self.next,
            block: self.next.saturating_add(1).checked_next_multiple_of(BLOCK_LEN).unwrap_or(u64::MAX),
        };
        let chunk = match part.chunk(self.next) {
            Ok(Some(chunk)) if chunk.end <= part.end() => chunk,
            Ok(_) => return Ok(false),
            Err(error) => {
                self.mode = search;
                return Err(error);
            }
        };
        let is_past = std::mem::replace(&mut self.mode, Mode::Chunks) == Mode::PastBlockHeader;
        let blocks = part.check_blocks(&chunk);
        if !is_past && blocks.is_err() {
            self.mode = Mode::PastBlockHeader;
            return blocks.map(|()| true);
        }
        if let Err(error) = part.data(&chunk) {
            // Bytes may be missing, so that another chunk begins within this one.
            if blocks.is_err() {
                self.mode = search;
            } else {
                self.next = chunk.end;
            }
            return Err(error);
        }
        self.next = chunk.end;
        let (mark, records) = (chunk.header.kind.mark(), chunk.header.records);
        let defect = match chunk.header.kind {
            ChunkKind::Signature | ChunkKind::Metadata | ChunkKind::Padding if records == 0 => None,
            ChunkKind::Simple if chunk.begin > 0 => {
                self.kept.push_back(chunk);
                None
            }
            ChunkKind::Simple => Some(Defect::Structure(
                "the file begins with a chunk of records, expected the signature of a Riegeli/records file".to_owned(),
            )),
            ChunkKind::Transposed => Some(Defect::Transposed),
            _ => Some(wrong_kind(mark, records)),
        };
        defect.map_or(Ok(true), |defect| Err(Error::at(chunk.begin, defect)))
    }

    /// Looks for a chunk in the headers of blocks. Returns false if that needs more input.
    fn search(&mut self, from: u64, mut block: u64) -> bool {
        let part = Part::new(&self.window, self.start);
        while let Some(header) = part.block_header(block) {
            if let Ok(header) = header {
                // The chunk that the block interrupts, if it begins after the damage.
                let begin = block.checked_sub(header.previous);
                let begin = begin.filter(|begin| *begin > from && *begin >= self.start && is_chunk_boundary(*begin));
                self.next = begin.unwrap_or_else(|| block.saturating_add(header.next));
                self.mode = Mode::Chunks;
                return true;
            }
            block += BLOCK_LEN;
        }
        self.mode = Mode::Search { from, block };
        false
    }

    /// Stores some of the input, and drops what is not needed any more.
    fn store(&mut self, input: &mut &[u8]) {
        let needed = match (self.kept.front(), self.mode) {
            (Some(chunk), _) => chunk.begin,
            // A chunk may begin in the block before.
            (None, Mode::Search { from, block }) => from.max(block.saturating_sub(BLOCK_LEN)),
            (None, _) => self.next,
        };
        let unneeded = usize::try_from(needed - self.start).unwrap_or(usize::MAX).min(self.window.len());
        self.window.drain(..unneeded);
        self.start += unneeded as u64;
        // Bytes before the next chunk are not needed either, if it begins after the window.
        let skipped = match self.window.is_empty() {
            true => usize::try_from(needed - self.start).unwrap_or(usize::MAX).min(input.len()),
            false => 0,
        };
        *input = &input[skipped..];
        self.start += skipped as u64;
        let (piece, rest) = input.split_at(input.len().min(PIECE_LEN));
        self.window.extend_from_slice(piece);
        *input = rest;
    }

    /// Checks that the file ends after a postscript, and that its footer has the chunks that were read.
    fn check_end(&mut self) -> Result<(), Error> {
        let part = Part::new(&self.window, self.start);
        let found = part.end();
        if matches!(self.mode, Mode::Search { .. }) {
            // The damage was reported.
            return Ok(());
        }
        if self.next != found {
            let chunk = part.chunk(self.next).ok().flatten();
            let expected =
                chunk.map_or_else(|| add_block_headers(self.next, CHUNK_HEADER_LEN as u64), |chunk| chunk.end);
            return Err(Error::at(self.next, Defect::Truncated { expected, found }));
        }
        let [footer, postscript] = match self.kept.make_contiguous() {
            [footer, postscript] if postscript.begin + BLOCK_LEN == found => [*footer, *postscript],
            _ => return Err(Error::at(found, Defect::NoPostscript)),
        };
        let at = |chunk: Chunk| move |defect| Error::at(chunk.begin, defect);
        let position = Footer::of_postscript(&mut self.records(&postscript)?).map_err(at(postscript))?;
        if position != footer.begin {
            let defect = wrong_footer(position, footer.begin);
            return Err(Error::at(postscript.begin, defect));
        }
        let found = Footer::of_records(&mut self.records(&footer)?, footer.begin).map_err(at(footer))?;
        if !self.is_intact {
            return Ok(());
        }
        let mut index = Index::default();
        found.chunks.into_iter().for_each(|entry| index.add(entry));
        let counted = [("chunks", index.chunks, self.index.chunks), ("records", index.records, self.index.records)];
        if let Some((what, found, expected)) = counted.into_iter().find(|(_, found, expected)| found != expected) {
            return Err(Error::at(footer.begin, Defect::Footer { what, found, expected }));
        }
        if index == self.index { Ok(()) } else { Err(Error::at(footer.begin, Defect::FooterChunks)) }
    }
}
