//! [`ShardWriter`]: writes one shard from framed records.

use std::io::{self, Write};
use std::ops::Range;

use arrow_tfrecord::RecordBuffer;
use rayon::prelude::*;
use tfrecord_framing::array_record::{ArrayRecordWriter, ChunkCodec, ChunkEncoder};
use tfrecord_framing::{Compression, Framing, GZIP_BLOCK_LEN, Level, RecordWriter, crc32c_append, gzip_member};

use crate::error::Result;
use crate::set::manifest::{OFFSET_INTERVAL, RecordOffset};
use crate::set::sidecar::StagedIndex;
use crate::write::index_writer::{IndexFile, IndexWriter};
use crate::write::sharding::partition_point;

/// Blocks of at least this many bytes are written directly; a copy would cost more than a separate write.
const DIRECT_LEN: usize = 64 << 10;

/// Smaller blocks are buffered up to this many bytes.
const COALESCE_LEN: usize = 256 << 10;

/// Chunks that a thread compresses before they are written: enough to pay for a job if each is one record.
const CHUNKS_AT_ONCE: usize = 256;

/// The figures of a finished shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShardStats {
    /// Number of records.
    pub rows: u64,
    /// Length in bytes of the records with the frames of TFRecord, before compression. In every format, so that shards
    /// that end at a length have the same records.
    pub framed_bytes: u64,
    /// Bytes written to the sink.
    pub file_bytes: u64,
    /// CRC-32C of the bytes written to the sink, not masked.
    pub crc32c: u32,
    /// Positions other than the start where a reader can start: the first record start, or gzip member start, at or
    /// past each multiple of [`OFFSET_INTERVAL`] framed bytes. Empty if the shard is a zlib stream, or has an index of its
    /// own, as ArrayRecord files have.
    pub offsets: Vec<RecordOffset>,
    /// The index of the shard, if one was requested.
    pub index: Option<StagedIndex>,
}

/// Writes one shard from framed records, counting and checksumming it. This is where records become a file: frames
/// are written as they are, or taken away for another [format](Framing).
///
/// The bytes depend on the records and the framing, not on how the records were passed in. A shard without records is
/// an empty file, or an empty compressed stream.
///
/// Complete gzip members and compressed chunks are compressed in parallel, on the caller's rayon pool.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
/// use tfrecord_framing::{Compression, Level};
/// use tfrecord_shards::ShardWriter;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef)])?;
/// let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default())?;
/// let mut records = RecordBuffer::default();
/// Encoder::new(Arc::new(mapping)).encode(&batch, &mut records)?;
///
/// let mut shard = ShardWriter::new(Vec::new(), (Compression::None, Level::default()));
/// shard.append(&records, 0..2)?;
/// let (file, stats) = shard.finish()?;
/// assert_eq!(file, records.slice(0..2));
/// assert_eq!(stats.rows, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ShardWriter<W: Write> {
    encoding: Encoding<W>,
    /// Position after the last record.
    end: ShardPosition,
    offsets: Offsets,
    index: Option<IndexWriter>,
}

/// A position in a shard: the number of records before it, and their length in bytes with their frames.
#[derive(Debug, Clone, Copy, Default)]
struct ShardPosition {
    record: u64,
    framed: u64,
}

/// How framed bytes are encoded in the file.
#[derive(Debug)]
enum Encoding<W: Write> {
    /// `pending` is buffered: less than `direct_len` bytes.
    None {
        sink: Sink<W>,
        pending: Vec<u8>,
        direct_len: usize,
    },
    /// `pending` is the start of an incomplete member, which starts at `start`.
    Gzip {
        sink: Sink<W>,
        pending: Vec<u8>,
        start: ShardPosition,
        level: Level,
    },
    Zlib(Box<RecordWriter<Sink<W>>>),
    ArrayRecord(Box<ArrayRecordWriter<Sink<W>>>),
}

impl<W: Write> ShardWriter<W> {
    /// Creates an empty shard.
    pub fn new(sink: W, framing: impl Into<Framing>) -> Self {
        let sink = Sink { inner: sink, bytes: 0, crc32c: 0 };
        let pending = Vec::new();
        let encoding = match framing.into() {
            Framing::TfRecord(Compression::None, _) => Encoding::None { sink, pending, direct_len: DIRECT_LEN },
            Framing::TfRecord(Compression::Gzip, level) => {
                Encoding::Gzip { sink, pending, start: ShardPosition::default(), level }
            }
            Framing::TfRecord(Compression::Zlib, level) => {
                Encoding::Zlib(Box::new(RecordWriter::with_compression(sink, Compression::Zlib, level)))
            }
            Framing::ArrayRecord(chunks) => Encoding::ArrayRecord(Box::new(ArrayRecordWriter::new(sink, chunks))),
        };
        Self { encoding, end: ShardPosition::default(), offsets: Offsets::default(), index: None }
    }

    /// Disables buffering, for sinks that handle small writes as well as large ones, such as memory.
    #[must_use]
    pub fn without_collecting(mut self) -> Self {
        if let Encoding::None { direct_len, .. } = &mut self.encoding {
            *direct_len = 0;
        }
        self
    }

    /// Also writes the index of the shard to a file, which is created if missing and must be empty. The index lists
    /// each record's offset and the length of its frame. Only an uncompressed TFRecord shard has one.
    #[must_use]
    pub fn with_index(mut self, file: impl Into<IndexFile>) -> Self {
        if let Encoding::None { .. } = &self.encoding {
            self.index = Some(IndexWriter::new(file.into()));
        }
        self
    }

    /// Returns the approximate maximum memory of one open shard, for callers that reserve it.
    pub fn memory(framing: impl Into<Framing>) -> usize {
        match framing.into() {
            Framing::TfRecord(Compression::None, _) => COALESCE_LEN,
            Framing::TfRecord(Compression::Gzip, _) => GZIP_BLOCK_LEN,
            // The state of a deflate stream, according to zlib's documentation (zconf.h): 256 KiB.
            Framing::TfRecord(Compression::Zlib, _) => 256 << 10,
            // A buffer, and the footer of 64 Ki chunks.
            Framing::ArrayRecord(_) => COALESCE_LEN + (1 << 20),
        }
    }

    /// Appends some of the records of a buffer.
    ///
    /// # Errors
    /// If the sink fails. The shard is then unusable.
    pub fn append(&mut self, framed: &RecordBuffer, records: Range<usize>) -> Result<()> {
        let bytes = framed.slice(records.clone());
        let run = AppendedRecords { framed, records: records.clone(), start: self.end };
        match &mut self.encoding {
            Encoding::None { sink, pending, direct_len } => {
                self.offsets.note_records(&run);
                let direct = bytes.len() >= *direct_len;
                if direct || pending.len() + bytes.len() > COALESCE_LEN {
                    sink.write_all(pending)?;
                    pending.clear();
                }
                if direct {
                    sink.write_all(bytes)?;
                } else {
                    pending.reserve_exact(COALESCE_LEN - pending.len());
                    pending.extend_from_slice(bytes);
                }
            }
            Encoding::Gzip { sink, pending, start, level } => {
                append_members(sink, pending, start, *level, &run, &mut self.offsets)?;
            }
            Encoding::Zlib(stream) => stream.write_framed(bytes)?,
            Encoding::ArrayRecord(file) => append_chunks(file, &run)?,
        }
        self.end = run.place(records.end);
        if let Some(index) = &mut self.index {
            index.append(framed, records)?;
        }
        Ok(())
    }

    /// Returns the number of records so far.
    pub fn rows(&self) -> u64 {
        self.end.record
    }

    /// Returns the length in bytes of the records so far with their frames, before compression.
    pub fn framed_bytes(&self) -> u64 {
        self.end.framed
    }

    /// Writes the buffered bytes and returns the flushed sink.
    ///
    /// # Errors
    /// If the sink fails.
    pub fn finish(mut self) -> Result<(W, ShardStats)> {
        let mut sink = match self.encoding {
            Encoding::None { mut sink, pending, .. } => {
                sink.write_all(&pending)?;
                sink
            }
            Encoding::Gzip { mut sink, pending, start, level } => {
                if !pending.is_empty() || sink.bytes == 0 {
                    let mut member = Vec::new();
                    gzip_member(&pending, level, &mut member);
                    self.offsets.note(start, sink.bytes);
                    sink.write_all(&member)?;
                }
                sink
            }
            Encoding::Zlib(stream) => stream.finish()?,
            Encoding::ArrayRecord(file) => file.finish()?,
        };
        sink.flush()?;
        let Sink { inner, bytes: file_bytes, crc32c } = sink;
        let (ShardPosition { record: rows, framed: framed_bytes }, offsets) = (self.end, self.offsets.found);
        let index = self.index.map(IndexWriter::finish).transpose()?;
        Ok((inner, ShardStats { rows, framed_bytes, file_bytes, crc32c, offsets, index }))
    }
}

/// Records to append at a position.
struct AppendedRecords<'a> {
    framed: &'a RecordBuffer,
    records: Range<usize>,
    start: ShardPosition,
}

impl AppendedRecords<'_> {
    /// Returns the position in the shard of a record of the buffer.
    fn place(&self, record: usize) -> ShardPosition {
        let bytes = self.framed.record_start(record) - self.framed.record_start(self.records.start);
        ShardPosition {
            record: self.start.record + (record - self.records.start) as u64,
            framed: self.start.framed + bytes as u64,
        }
    }
}

/// The offsets found so far.
#[derive(Debug)]
struct Offsets {
    interval: u64,
    found: Vec<RecordOffset>,
}

impl Default for Offsets {
    fn default() -> Self {
        Self { interval: OFFSET_INTERVAL, found: Vec::new() }
    }
}

impl Offsets {
    /// Framed bytes that must precede the next offset.
    fn due(&self) -> u64 {
        self.found.last().map_or(self.interval, |last| (last.framed / self.interval + 1) * self.interval)
    }

    /// Adds a position where a reader can start.
    fn note(&mut self, ShardPosition { record, framed }: ShardPosition, file: u64) {
        if framed >= self.due() {
            self.found.push(RecordOffset { record, framed, file });
        }
    }

    /// Adds records, at each of which a reader can start.
    fn note_records(&mut self, run: &AppendedRecords<'_>) {
        loop {
            let due = self.due();
            let first = partition_point(run.records.clone(), |record| run.place(record).framed < due);
            if first == run.records.end {
                return;
            }
            let place = run.place(first);
            self.note(place, place.framed);
        }
    }
}

/// Writes the gzip members that these records complete. A member ends at the first record boundary at or past
/// [`GZIP_BLOCK_LEN`] framed bytes since its start.
fn append_members<W: Write>(
    sink: &mut Sink<W>,
    pending: &mut Vec<u8>,
    pending_start: &mut ShardPosition,
    level: Level,
    run: &AppendedRecords<'_>,
    offsets: &mut Offsets,
) -> Result<()> {
    let AppendedRecords { framed, records, .. } = run;
    let mut blocks = Vec::new();
    let mut starts = vec![*pending_start];
    let mut start = records.start;
    let mut start_byte = framed.record_start(start);
    let mut needed = GZIP_BLOCK_LEN.saturating_sub(pending.len());
    for record in records.clone() {
        if framed.record_end(record) - start_byte >= needed {
            blocks.push(framed.slice(start..record + 1));
            start = record + 1;
            starts.push(run.place(start));
            start_byte = framed.record_end(record);
            needed = GZIP_BLOCK_LEN;
        }
    }
    let mut blocks = blocks.into_iter();
    if let Some(first) = blocks.next() {
        pending.extend_from_slice(first);
        let blocks: Vec<_> = std::iter::once(pending.as_slice()).chain(blocks).collect();
        let mut starts = starts.into_iter();
        // At most one block per thread at a time, which bounds the memory for compressed blocks.
        for blocks in blocks.chunks(rayon::current_num_threads().max(1)) {
            let compress = |block: &&[u8]| {
                let mut member = Vec::new();
                gzip_member(block, level, &mut member);
                member
            };
            let members: Vec<_> = blocks.par_iter().map(compress).collect();
            for (member, start) in members.iter().zip(&mut starts) {
                offsets.note(start, sink.bytes);
                sink.write_all(member)?;
            }
        }
        pending.clear();
        *pending_start = run.place(start);
    }
    pending.extend_from_slice(framed.slice(start..records.end));
    Ok(())
}

/// Writes the records as chunks. If these are compressed, whole ones are compressed in parallel.
fn append_chunks<W: Write>(file: &mut ArrayRecordWriter<W>, run: &AppendedRecords<'_>) -> Result<()> {
    let AppendedRecords { framed, records, .. } = run;
    let (codec, group_size) = (file.options().codec, file.options().group_size.get() as usize);
    let mut rest = records.clone();
    if codec != ChunkCodec::None {
        while !rest.is_empty() && !file.is_at_chunk() {
            file.write_record(framed.payload(rest.start))?;
            rest.start += 1;
        }
        // Some for each thread at a time, which bounds the memory for compressed chunks.
        let at_once = CHUNKS_AT_ONCE * rayon::current_num_threads().max(1);
        while rest.len() >= group_size {
            let groups = (rest.len() / group_size).min(at_once);
            let group = |at: usize| rest.start + at * group_size..rest.start + (at + 1) * group_size;
            let encode =
                |encoder: &mut ChunkEncoder, at: usize| encoder.encode(group(at).map(|record| framed.payload(record)));
            let chunks: Vec<_> = (0..groups).into_par_iter().map_init(|| ChunkEncoder::new(codec), encode).collect();
            chunks.into_iter().try_for_each(|chunk| file.write_chunk(chunk?))?;
            rest.start += groups * group_size;
        }
    }
    rest.try_for_each(|record| file.write_record(framed.payload(record)))?;
    Ok(())
}

/// Counts and checksums the bytes written.
#[derive(Debug)]
struct Sink<W> {
    inner: W,
    bytes: u64,
    crc32c: u32,
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.crc32c = crc32c_append(self.crc32c, bytes.get(..written).unwrap_or(bytes));
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests;
