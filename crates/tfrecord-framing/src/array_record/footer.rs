//! [`Footer`]: the index at the end of a file.

use std::convert::Infallible;
use std::ops::Range;

use super::chunk::{Chunk, MAX_CHUNK_LEN, Part};
use super::records::{ChunkRecords, Codecs};
use super::{
    BLOCK_LEN, ChunkEntry, ChunkHeader, ChunkKind, Defect, Error, FooterMetadata, Postscript, SIGNATURE,
    is_chunk_boundary,
};

use crate::append_record;

/// Bytes that the frame of TFRecord adds to a record.
const FRAME_LEN: u64 = crate::frame::OVERHEAD as u64;

/// The most bytes of a footer in a file: a chunk, with the block headers in it and the padding after it.
const MAX_LEN: u64 = MAX_CHUNK_LEN + MAX_CHUNK_LEN / 2048 + 2 * BLOCK_LEN;

/// The index at the end of an ArrayRecord file: its chunks of records and their number, without reading them.
///
/// Everything in it that can be compared is: the hashes, the copies of the postscript, the order of the chunks and the
/// sum of their records. Whether the chunks are in the file, only reading them shows.
///
/// ```no_run
/// use tfrecord_framing::array_record::{BLOCK_LEN, Footer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let file = std::fs::read("train.array_record")?;
/// let last_block = &file[file.len().saturating_sub(BLOCK_LEN as usize)..];
/// let range = Footer::locate(last_block, file.len() as u64)?;
/// let footer = Footer::decode(&file[range.start as usize..range.end as usize], range.start)?;
/// println!("{} records", footer.records());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// Where it begins.
    pub position: u64,
    /// The chunks of records, in order.
    pub chunks: Vec<ChunkEntry>,
    records: u64,
    framed_len: u64,
}

impl Footer {
    /// Returns the range of a file with its footer, by its last block of [`BLOCK_LEN`] bytes.
    ///
    /// # Errors
    /// If there is no intact postscript, so that the file is truncated, damaged, or not an ArrayRecord file.
    pub fn locate(last_block: &[u8], file_len: u64) -> Result<Range<u64>, Error> {
        let Some(start) = file_len.checked_sub(BLOCK_LEN).filter(|start| *start > 0 && start.is_multiple_of(BLOCK_LEN))
        else {
            return Err(Error::at(file_len, Defect::NoPostscript));
        };
        let part = Part::new(last_block, start);
        // Any other chunk begins before the block, or the file was truncated there.
        if part.block_header(start).transpose()?.is_none_or(|header| header.previous != 0) {
            return Err(Error::at(file_len, Defect::NoPostscript));
        }
        let chunk = whole_chunk(&part, start)?;
        let data = part.data(&chunk)?;
        let mut records = simple(&chunk)
            .and_then(|()| Codecs::default().records(&chunk.header, &data))
            .map_err(|defect| Error::at(start, defect))?;
        let footer = Self::of_postscript(&mut records).map_err(|defect| Error::at(start, defect))?;
        match footer {
            footer if footer < start && start - footer <= MAX_LEN && is_chunk_boundary(footer) => Ok(footer..start),
            found => Err(Error::at(start, wrong_footer(found, start))),
        }
    }

    /// Decodes the bytes from [`locate`](Self::locate), which begin at `position`.
    ///
    /// # Errors
    /// If they are damaged, or do not agree with each other.
    pub fn decode(bytes: &[u8], position: u64) -> Result<Self, Error> {
        let part = Part::new(bytes, position);
        let chunk = whole_chunk(&part, position)?;
        let data = part.data(&chunk)?;
        simple(&chunk)
            .and_then(|()| Codecs::default().records(&chunk.header, &data))
            .and_then(|mut records| Self::of_records(&mut records, position))
            .map_err(|defect| Error::at(position, defect))
    }

    /// Returns the end of a chunk of this number: where the next one begins, or the footer.
    pub fn end_of(&self, chunk: usize) -> u64 {
        self.chunks.get(chunk + 1).map_or(self.position, |next| next.position)
    }

    /// Appends the records of a chunk to `frames`, each in a frame of TFRecord. `bytes` are those from its position to its
    /// [end](Self::end_of).
    ///
    /// # Errors
    /// If the chunk is damaged, or is not as `entry` describes it.
    pub fn decode_chunk(entry: &ChunkEntry, bytes: &[u8], frames: &mut Vec<u8>) -> Result<(), Error> {
        let position = entry.position;
        let part = Part::new(bytes, position);
        let chunk = whole_chunk(&part, position)?;
        let at = |defect| Error::at(position, defect);
        let ChunkHeader { decoded_len, records, .. } = chunk.header;
        if *entry != (ChunkEntry { position, decoded_len, records }) {
            return Err(at(Defect::FooterChunks));
        }
        let data = part.data(&chunk)?;
        let mut records = simple(&chunk).and_then(|()| Codecs::default().records(&chunk.header, &data)).map_err(at)?;
        while let Some(record) = records.next_record() {
            let fill = |payload: &mut Vec<u8>| {
                payload.extend_from_slice(record);
                Ok::<_, Infallible>(())
            };
            let Ok(()) = append_record(frames, fill);
        }
        Ok(())
    }

    /// Returns the number of records in the file.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Returns the length of all records of the file in frames of TFRecord.
    pub fn framed_len(&self) -> u64 {
        self.framed_len
    }

    /// Returns the position of the footer, by the records of the postscript.
    pub(super) fn of_postscript(records: &mut ChunkRecords<'_>) -> Result<u64, Defect> {
        let (mut footer, mut copies) = (None, 0);
        while let Some(record) = records.next_record() {
            let copy = Postscript::decode(record)?.footer;
            if *footer.get_or_insert(copy) != copy {
                return Err(copies_differ());
            }
            copies += 1;
        }
        footer.filter(|_| copies == Postscript::COPIES).ok_or_else(copies_differ)
    }

    /// Returns the footer in the records of its chunk.
    pub(super) fn of_records(records: &mut ChunkRecords<'_>, position: u64) -> Result<Self, Defect> {
        let metadata = FooterMetadata::decode(records.next_record().unwrap_or_default())?;
        let mut footer = Self { position, chunks: Vec::new(), records: 0, framed_len: 0 };
        let mut end = SIGNATURE.len() as u64;
        while let Some(record) = records.next_record() {
            let entry = ChunkEntry::decode(record)?;
            if entry.position < end || entry.position >= position || !is_chunk_boundary(entry.position) {
                return Err(Defect::FooterChunks);
            }
            end = entry.position + 1;
            footer.records = footer.records.saturating_add(entry.records);
            let framed_len = entry.decoded_len.saturating_add(entry.records.saturating_mul(FRAME_LEN));
            footer.framed_len = footer.framed_len.saturating_add(framed_len);
            footer.chunks.push(entry);
        }
        let counted =
            [("chunks", metadata.chunks, footer.chunks.len() as u64), ("records", metadata.records, footer.records)];
        match counted.into_iter().find(|(_, found, expected)| found != expected) {
            Some((what, found, expected)) => Err(Defect::Footer { what, found, expected }),
            None => Ok(footer),
        }
    }
}

/// Whether records are those of a footer, as far as that follows from each of them.
pub(super) fn is_footer(mut records: ChunkRecords<'_>) -> bool {
    if records.next_record().is_none_or(|first| FooterMetadata::decode(first).is_err()) {
        return false;
    }
    while let Some(record) = records.next_record() {
        if ChunkEntry::decode(record).is_err() {
            return false;
        }
    }
    true
}

/// Whether records are those of a postscript, as far as that follows from each of them.
pub(super) fn is_postscript(mut records: ChunkRecords<'_>) -> bool {
    let mut copies = 0;
    while let Some(record) = records.next_record() {
        if Postscript::decode(record).is_err() {
            return false;
        }
        copies += 1;
    }
    copies > 0
}

/// Returns the chunk at a position after checking that all of it is in these bytes, and the block headers in it.
fn whole_chunk(part: &Part<'_>, begin: u64) -> Result<Chunk, Error> {
    let truncated = |expected| Error::at(begin, Defect::Truncated { expected, found: part.end() });
    let chunk = part.chunk(begin)?.ok_or_else(|| truncated(begin + BLOCK_LEN))?;
    if chunk.end > part.end() {
        return Err(truncated(chunk.end));
    }
    part.check_blocks(&chunk)?;
    Ok(chunk)
}

fn simple(chunk: &Chunk) -> Result<(), Defect> {
    match chunk.header.kind {
        ChunkKind::Simple => Ok(()),
        kind => Err(wrong_kind(kind.mark(), chunk.header.records)),
    }
}

/// The defect of a chunk whose kind is not known, or that has records although its kind has none.
pub(super) fn wrong_kind(mark: u8, records: u64) -> Defect {
    Defect::Structure(format!(
        "chunk of the kind {mark:#04x} with {records} records, expected records only in simple chunks"
    ))
}

/// The defect of a postscript with another position of the footer.
pub(super) fn wrong_footer(found: u64, expected: u64) -> Defect {
    Defect::Structure(format!("the postscript has the footer at byte {found}, expected {expected}"))
}

fn copies_differ() -> Defect {
    Defect::Structure(format!("the postscript has not {} equal records", Postscript::COPIES))
}
