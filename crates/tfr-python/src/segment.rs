//! [`SegmentReader`]: decodes consecutive records of a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use arrow_array::RecordBatch;
use arrow_tfrecord::{Decoder, ReaderBuilder};
use tfrecord_framing::{CrcPolicy, ErrorKind, Position, RecordDecoder};

use crate::columns::Columns;
use crate::dataset::{DataSet, Segment, Shard};
use crate::error::{Failure, Result};

/// Bytes read at once.
const BLOCK_LEN: usize = 1 << 20;

/// Limits of a decoded batch.
const CHUNK_ROWS: u64 = 4096;
const CHUNK_BYTES: usize = 4 << 20;

/// What is read of every record.
#[derive(Debug, Clone)]
pub(crate) struct Decoding {
    pub(crate) projection: Vec<usize>,
    pub(crate) columns: Columns,
    pub(crate) crc: CrcPolicy,
}

impl Decoding {
    /// Creates a decoder of the next `rows` records that `framing` finds.
    pub(crate) fn decoder(&self, data: &DataSet, framing: RecordDecoder, rows: u64) -> arrow_tfrecord::Result<Decoder> {
        self.reader(data, rows).build_decoder_over(framing)
    }

    /// Returns the builder of a decoder that reads `rows` records.
    fn reader(&self, data: &DataSet, rows: u64) -> ReaderBuilder {
        // Batches of equal size, so that few records after the last one are decoded.
        let batches = rows.div_ceil(CHUNK_ROWS).max(1);
        let batch_size = usize::try_from(rows.div_ceil(batches)).unwrap_or(usize::MAX);
        ReaderBuilder::new(data.schema.clone())
            .with_mapping(data.mapping.clone())
            .with_projection(self.projection.clone())
            .with_batch_size(batch_size)
            .with_batch_bytes(CHUNK_BYTES)
    }
}

/// Reads a file in blocks.
struct Blocks {
    file: File,
    block: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Blocks {
    fn open(shard: &Shard, start: u64) -> Result<Self> {
        let path = &shard.path;
        let mut file = File::open(path).map_err(|error| Failure::io(path, "open", error))?;
        let len = file.metadata().map_err(|error| Failure::io(path, "inspect", error))?.len();
        if len != shard.len {
            let problem = format!("the file has changed: expected {} bytes, found {len}", shard.len);
            return Err(Failure::data(path, 0, None, &problem));
        }
        file.seek(SeekFrom::Start(start)).map_err(|error| Failure::io(path, "read", error))?;
        Ok(Self { file, block: vec![0; BLOCK_LEN], taken: 0, filled: 0 })
    }

    /// Returns bytes that were not taken yet; none at the end of the file.
    fn fill(&mut self) -> io::Result<&[u8]> {
        while self.taken == self.filled {
            match self.file.read(&mut self.block) {
                Ok(read) => {
                    (self.taken, self.filled) = (0, read);
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.block.get(self.taken..self.filled).unwrap_or_default())
    }
}

/// Decodes the records of a segment, in batches.
pub(crate) struct SegmentReader<'a> {
    shard: &'a Shard,
    data: &'a DataSet,
    decoding: &'a Decoding,
    blocks: Blocks,
    decoder: Decoder,
    /// The next record, and the number of records left.
    next: u64,
    left: u64,
    /// Whether the segment ends with the file.
    is_last: bool,
    /// The number of decoded records to leave out before the next one.
    left_out: u64,
}

impl<'a> SegmentReader<'a> {
    pub(crate) fn open(data: &'a DataSet, decoding: &'a Decoding, segment: Segment) -> Result<Option<Self>> {
        let Segment { shard, first, rows } = segment;
        let Some(shard) = data.shards.get(shard) else { return Ok(None) };
        let is_last = first + rows == shard.rows;
        if shard.damage.is_some() {
            // What is damaged cannot be skipped by lengths, so all records before the first one are decoded.
            let reader = decoding.reader(data, rows).with_container(shard.container()).with_damaged_skipped(true);
            let decoder = reader.build_decoder().map_err(|error| Failure::record(&shard.path, &error))?;
            let blocks = Blocks::open(shard, 0)?;
            return Ok(Some(Self {
                shard,
                data,
                decoding,
                blocks,
                decoder,
                next: first,
                left: rows,
                is_last,
                left_out: first,
            }));
        }
        let start = shard.start_before(first);
        let mut blocks = Blocks::open(shard, start.file)?;
        let position = Position { record: start.record, byte: start.framed };
        let mut framing =
            RecordDecoder::with_container(shard.container()).with_crc_policy(decoding.crc).with_position(position);
        let in_file = |error: tfrecord_framing::Error| Failure::record(&shard.path, &error.into());
        // The records before the first one are not decoded, and their damage concerns other readers.
        while framing.position().record < first {
            let skip = usize::try_from(first - framing.position().record).unwrap_or(usize::MAX);
            let bytes = blocks.fill().map_err(|error| Failure::io(&shard.path, "read", error))?;
            let mut rest = bytes;
            let is_none = match framing.decode_frames(&mut rest, skip) {
                Ok(frames) => frames.is_empty(),
                Err(error) if matches!(error.kind(), ErrorKind::DataCrc { .. }) => false,
                Err(error) => return Err(in_file(error)),
            };
            let (is_end, taken) = (bytes.is_empty(), bytes.len() - rest.len());
            blocks.taken += taken;
            if is_end && is_none {
                framing.finish().map_err(in_file)?;
                return Err(too_short(shard, framing.position().record));
            }
        }
        let decoder = decoding.decoder(data, framing, rows).map_err(|error| Failure::record(&shard.path, &error))?;
        Ok(Some(Self { shard, data, decoding, blocks, decoder, next: first, left: rows, is_last, left_out: 0 }))
    }

    /// Returns the next rows; `None` after the last.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>> {
        // After the last row of a file its end is checked.
        while self.left > 0 || self.is_last {
            let bytes = self.blocks.fill().map_err(|error| Failure::io(&self.shard.path, "read", error))?;
            let is_end = bytes.is_empty();
            let decoded = self.decoder.decode(bytes);
            self.blocks.taken += decoded.as_ref().copied().unwrap_or(bytes.len());
            let is_full = self.decoder.capacity() == 0;
            if decoded.is_ok() && !is_end && !is_full {
                continue;
            }
            let batch = self.decoder.flush().map_err(|error| self.failure(&error))?;
            let rows = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
            if let Err(error) = decoded {
                // The rows before the damage are enough, or they are not returned.
                if rows < self.left || self.is_last {
                    return Err(self.failure(&error));
                }
            }
            let Some(batch) = batch else {
                self.is_last = false;
                if self.left > 0 {
                    return Err(too_short(self.shard, self.next));
                }
                break;
            };
            let left_out = self.left_out.min(rows);
            self.left_out -= left_out;
            let (batch, rows) = (batch.slice(left_out as usize, (rows - left_out) as usize), rows - left_out);
            if rows == 0 {
                continue;
            }
            if self.is_last && rows > self.left {
                let (expected, record) = (self.shard.rows, self.next + self.left);
                let problem = format!("more records than before: expected {expected}");
                return Err(Failure::data(&self.shard.path, record, None, &problem));
            }
            let wanted = rows.min(self.left);
            let batch = batch.slice(0, wanted as usize);
            let converted = self.decoding.columns.convert(&batch, &self.shard.path, self.next)?;
            self.next += wanted;
            self.left -= wanted;
            return Ok(Some(converted));
        }
        Ok(None)
    }

    fn failure(&self, error: &arrow_tfrecord::Error) -> Failure {
        let failure = Failure::record(&self.shard.path, error);
        if self.data.inferred && error.column().is_some() {
            return failure.with_hint(
                "The columns were inferred from the first records. Pass schema= with the columns of all records.",
            );
        }
        failure
    }
}

fn too_short(shard: &Shard, found: u64) -> Failure {
    let problem = format!("expected {} records, found {found}", shard.rows);
    Failure::data(&shard.path, found, None, &problem)
}
