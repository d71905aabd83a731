//! [`SegmentReader`]: decodes records of a file, one range after another.

use std::io::{self, SeekFrom};
use std::ops::Range;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_tfrecord::{Decoder, ReaderBuilder};
use tfrecord_framing::{CrcPolicy, ErrorKind, HEADER_LEN, Position, RecordDecoder, frame_len};
use tfrecord_shards::ReadSeek;

use crate::columns::Columns;
use crate::dataset::{DataSet, Shard};
use crate::error::{Failure, Result};
use crate::files::Files;

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

/// Where a frame of a file begins among frames that were copied.
pub(crate) struct Place<'a> {
    pub(crate) path: &'a Path,
    /// Its position in the file.
    pub(crate) position: Position,
    pub(crate) start: usize,
}

impl Decoding {
    /// Returns the builder of a decoder with batches for about `rows` records.
    fn reader(&self, data: &DataSet, rows: u64) -> ReaderBuilder {
        ReaderBuilder::new(data.schema.clone())
            .with_mapping(data.mapping.clone())
            .with_projection(self.projection.clone())
            .with_batch_size(rows.clamp(256, CHUNK_ROWS) as usize)
            .with_batch_bytes(CHUNK_BYTES)
    }

    /// Creates a decoder of uncompressed frames, from this position on, with batches of at most `rows` rows.
    fn decoder(
        &self,
        data: &DataSet,
        crc: CrcPolicy,
        position: Position,
        rows: u64,
    ) -> arrow_tfrecord::Result<Decoder> {
        let framing = RecordDecoder::new().with_crc_policy(crc).with_position(position);
        self.reader(data, rows).build_decoder_over(framing)
    }

    /// Decodes frames that were copied from several places, of which there is one at least.
    pub(crate) fn decode_frames(
        &self,
        data: &DataSet,
        crc: CrcPolicy,
        frames: &[u8],
        places: &[Place<'_>],
    ) -> Result<Vec<RecordBatch>> {
        let Some(first) = places.first() else { return Ok(Vec::new()) };
        let all = self.decode_run(data, crc, frames, places.len(), first.path, Position::default());
        all.or_else(|failure| {
            // The positions of an error are those in the file.
            for (at, Place { path, position, start }) in places.iter().enumerate() {
                let end = places.get(at + 1).map_or(frames.len(), |next| next.start);
                self.decode_run(data, crc, frames.get(*start..end).unwrap_or_default(), 1, path, *position)?;
            }
            Err(failure)
        })
    }

    /// Decodes `count` frames.
    fn decode_run(
        &self,
        data: &DataSet,
        crc: CrcPolicy,
        frames: &[u8],
        count: usize,
        path: &Path,
        position: Position,
    ) -> Result<Vec<RecordBatch>> {
        let in_file = |error: arrow_tfrecord::Error| failure(data, path, &error);
        let mut decoder = self.decoder(data, crc, position, count as u64).map_err(in_file)?;
        let (mut rest, mut parts, mut before) = (frames, Vec::new(), 0);
        loop {
            let taken = decoder.decode(rest).map_err(in_file)?;
            rest = rest.get(taken..).unwrap_or_default();
            if taken == 0 || decoder.capacity() == 0 {
                let Some(batch) = decoder.flush().map_err(in_file)? else { return Ok(parts) };
                let rows = batch.num_rows() as u64;
                parts.push(self.columns.convert(&batch, path, position.record + before)?);
                before += rows;
            }
        }
    }
}

/// Returns the error for a record of a file that cannot be decoded.
fn failure(data: &DataSet, path: &Path, error: &arrow_tfrecord::Error) -> Failure {
    let failure = Failure::record(path, error);
    if data.inferred && error.column().is_some() {
        return failure.with_hint(
            "The columns were inferred from the first records. Pass schema= with the columns of all records.",
        );
    }
    failure
}

fn too_short(shard: &Shard, found: u64) -> Failure {
    let problem = format!("expected {} records, found {found}", shard.rows);
    Failure::data(&shard.path, found, None, &problem)
}

fn too_long(shard: &Shard) -> Failure {
    let problem = format!("more records than before: expected {}", shard.rows);
    Failure::data(&shard.path, shard.rows, None, &problem)
}

/// Reads a file in blocks.
struct Blocks<'a> {
    path: &'a Path,
    file: Box<dyn ReadSeek>,
    /// The offset in the file after the block.
    end: u64,
    block: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl<'a> Blocks<'a> {
    fn open(files: &Files, shard: &'a Shard, range: Range<u64>, block: usize) -> Result<Self> {
        let path = &shard.path;
        let start = range.start;
        let mut file = shard.open(files, range.end)?;
        let len = file.seek(SeekFrom::End(0)).map_err(|error| Failure::io(path, "inspect", error))?;
        if len != shard.len {
            let problem = format!("the file has changed: expected {} bytes, found {len}", shard.len);
            return Err(Failure::data(path, 0, None, &problem));
        }
        file.seek(SeekFrom::Start(start)).map_err(|error| Failure::io(path, "read", error))?;
        Ok(Self { path, file, end: start, block: vec![0; block], taken: 0, filled: 0 })
    }

    fn rest(&self) -> &[u8] {
        self.block.get(self.taken..self.filled).unwrap_or_default()
    }

    /// Returns bytes that were not taken yet; none at the end of the file.
    fn fill(&mut self) -> Result<&[u8]> {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            self.read()?;
        }
        Ok(self.rest())
    }

    /// Reads more bytes behind those of the block, which has room; false at the end of the file.
    fn read(&mut self) -> Result<bool> {
        loop {
            match self.file.read(self.block.get_mut(self.filled..).unwrap_or_default()) {
                Ok(read) => {
                    self.filled += read;
                    self.end += read as u64;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::io(self.path, "read", error)),
            }
        }
    }

    /// Returns the header of the frame that begins with the next byte; `None` if the file ends before.
    fn header(&mut self) -> Result<Option<[u8; HEADER_LEN]>> {
        if self.rest().len() < HEADER_LEN {
            self.block.copy_within(self.taken..self.filled, 0);
            (self.taken, self.filled) = (0, self.filled - self.taken);
            while self.filled < HEADER_LEN {
                if !self.read()? {
                    return Ok(None);
                }
            }
        }
        Ok(self.rest().first_chunk().copied())
    }

    /// Continues at this offset in the file. What was read is kept if it is after it.
    fn seek(&mut self, offset: u64) -> Result<()> {
        let start = self.end - self.filled as u64;
        if (start..=self.end).contains(&offset) {
            self.taken = (offset - start) as usize;
            return Ok(());
        }
        self.file.seek(SeekFrom::Start(offset)).map_err(|error| Failure::io(self.path, "read", error))?;
        (self.end, self.taken, self.filled) = (offset, 0, 0);
        Ok(())
    }
}

/// An open file, of which ranges of records are decoded in ascending order.
pub(crate) struct SegmentReader<'a> {
    shard: &'a Shard,
    data: &'a DataSet,
    decoding: &'a Decoding,
    blocks: Blocks<'a>,
    source: Source,
}

enum Source {
    Framed {
        framing: RecordDecoder,
        /// Decodes the frames of consecutive records.
        decoder: Option<Decoder>,
    },
    /// What is damaged cannot be skipped by lengths, so all records are decoded.
    PastDamage {
        decoder: Decoder,
        /// Decoded rows that may be wanted, and the record of the first.
        rows: Option<RecordBatch>,
        first: u64,
    },
}

impl<'a> SegmentReader<'a> {
    /// Opens the file of a shard for these records, or some of them. It is read in blocks of this length.
    pub(crate) fn open(
        data: &'a DataSet,
        decoding: &'a Decoding,
        (files, shard): (&Files, &'a Shard),
        records: Range<u64>,
        block: usize,
    ) -> Result<Self> {
        if shard.damage.is_some() {
            let reader = decoding.reader(data, CHUNK_ROWS).with_container(shard.container());
            let decoder = reader.with_damaged_skipped(true).build_decoder();
            let decoder = decoder.map_err(|error| Failure::record(&shard.path, &error))?;
            let source = Source::PastDamage { decoder, rows: None, first: 0 };
            return Ok(Self {
                shard,
                data,
                decoding,
                blocks: Blocks::open(files, shard, 0..shard.len, block)?,
                source,
            });
        }
        let start = shard.start_before(records.start);
        let end = shard.end_after(records.end);
        let position = Position { record: start.record, byte: start.framed };
        let framing =
            RecordDecoder::with_container(shard.container()).with_crc_policy(decoding.crc).with_position(position);
        let source = Source::Framed { framing, decoder: None };
        Ok(Self { shard, data, decoding, blocks: Blocks::open(files, shard, start.file..end, block)?, source })
    }

    /// Decodes these records, and sends them in batches; they are after those of the call before. Returns early if `send`
    /// returns false.
    pub(crate) fn read(&mut self, wanted: &[Range<u64>], send: &mut dyn FnMut(RecordBatch) -> bool) -> Result<()> {
        match (&self.source, wanted) {
            (Source::PastDamage { .. }, _) => {
                for range in wanted {
                    self.read_past_damage(range.clone(), send)?;
                }
            }
            (_, [range]) => self.read_run(range.clone(), send)?,
            _ => self.gather(wanted, send)?,
        }
        // After the last row of a file its end is checked.
        if wanted.last().is_some_and(|last| last.end == self.shard.rows) { self.check_end() } else { Ok(()) }
    }

    /// Decodes consecutive records where they were read.
    fn read_run(&mut self, range: Range<u64>, send: &mut dyn FnMut(RecordBatch) -> bool) -> Result<()> {
        self.skip_to(range.start)?;
        let Self { shard, data, decoding, blocks, source } = self;
        let Source::Framed { framing, decoder } = source else { return Ok(()) };
        let in_file = |error: arrow_tfrecord::Error| failure(data, &shard.path, &error);
        // One that has decoded the records before continues.
        let continued = decoder.take().filter(|decoder| decoder.position().record == range.start);
        let mut current = match continued {
            Some(decoder) => decoder,
            None => {
                let rows = range.end - range.start;
                decoding.decoder(data, CrcPolicy::Skip, framing.position(), rows).map_err(in_file)?
            }
        };
        let (mut next, mut sent) = (range.start, range.start);
        let mut flush = |decoder: &mut Decoder| -> Result<bool> {
            let Some(batch) = decoder.flush().map_err(in_file)? else { return Ok(true) };
            let converted = decoding.columns.convert(&batch, &shard.path, sent)?;
            sent += batch.num_rows() as u64;
            Ok(send(converted))
        };
        while next < range.end {
            let limit = usize::try_from(range.end - next).unwrap_or(usize::MAX);
            let bytes = blocks.fill()?;
            let mut rest = bytes;
            let found = framing.decode_frames(&mut rest, limit);
            let frames = found.map_err(|error| Failure::record(&shard.path, &error.into()))?;
            let (is_end, taken) = (bytes.is_empty() && frames.is_empty(), bytes.len() - rest.len());
            next += frames.len() as u64;
            let mut input = frames.bytes();
            while !input.is_empty() {
                let decoded = current.decode(input).map_err(in_file)?;
                input = input.get(decoded..).unwrap_or_default();
                if current.capacity() == 0 && !flush(&mut current)? {
                    return Ok(());
                }
            }
            blocks.taken += taken;
            if is_end {
                framing.finish().map_err(|error| Failure::record(&shard.path, &error.into()))?;
                return Err(too_short(shard, next));
            }
        }
        flush(&mut current)?;
        *decoder = Some(current);
        Ok(())
    }

    /// Copies records together, and decodes them.
    fn gather(&mut self, wanted: &[Range<u64>], send: &mut dyn FnMut(RecordBatch) -> bool) -> Result<()> {
        let (mut copied, mut places) = (Vec::new(), Vec::new());
        let mut left: u64 = wanted.iter().map(|range| range.end - range.start).sum();
        for range in wanted {
            self.skip_to(range.start)?;
            let Self { shard, data, decoding, blocks, source } = self;
            let Source::Framed { framing, decoder } = source else { return Ok(()) };
            *decoder = None;
            let mut next = range.start;
            while next < range.end {
                let room = CHUNK_ROWS.saturating_sub(places.len() as u64).min(range.end - next);
                let bytes = blocks.fill()?;
                let mut rest = bytes;
                let found = framing.decode_frames(&mut rest, room as usize);
                let frames = found.map_err(|error| Failure::record(&shard.path, &error.into()))?;
                let (is_end, taken) = (bytes.is_empty() && frames.is_empty(), bytes.len() - rest.len());
                for (frame, position) in frames.frames() {
                    places.push(Place { path: &shard.path, position, start: copied.len() });
                    copied.extend_from_slice(frame);
                }
                (next, left) = (next + frames.len() as u64, left - frames.len() as u64);
                blocks.taken += taken;
                if is_end {
                    framing.finish().map_err(|error| Failure::record(&shard.path, &error.into()))?;
                    return Err(too_short(shard, next));
                }
                if left == 0 || places.len() as u64 == CHUNK_ROWS || copied.len() >= CHUNK_BYTES {
                    // Their checksums were checked.
                    for batch in decoding.decode_frames(data, CrcPolicy::Skip, &copied, &places)? {
                        if !send(batch) {
                            return Ok(());
                        }
                    }
                    copied.clear();
                    places.clear();
                }
            }
        }
        Ok(())
    }

    fn read_past_damage(&mut self, range: Range<u64>, send: &mut dyn FnMut(RecordBatch) -> bool) -> Result<()> {
        let mut next = range.start;
        while next < range.end {
            let Some((batch, first)) = self.rows_past_damage()? else { return Err(too_short(self.shard, next)) };
            let rows = batch.num_rows() as u64;
            let wanted = next.max(first)..range.end.min(first + rows);
            if wanted.start < wanted.end {
                let batch = batch.slice((wanted.start - first) as usize, (wanted.end - wanted.start) as usize);
                next = wanted.end;
                if !send(self.decoding.columns.convert(&batch, &self.shard.path, wanted.start)?) {
                    return Ok(());
                }
            }
            if let Source::PastDamage { rows, first: after, .. } = &mut self.source
                && first + batch_len(rows) <= range.end
            {
                (*after, *rows) = (first + batch_len(rows), None);
            }
        }
        Ok(())
    }

    /// Returns the decoded rows, or decodes the next ones, and the record of the first; `None` at the end of the file.
    fn rows_past_damage(&mut self) -> Result<Option<(RecordBatch, u64)>> {
        let Source::PastDamage { decoder, rows, first } = &mut self.source else { return Ok(None) };
        while rows.is_none() {
            let bytes = self.blocks.fill()?;
            let is_end = bytes.is_empty();
            let decoded = decoder.decode(bytes);
            let decoded = decoded.map_err(|error| failure(self.data, &self.shard.path, &error))?;
            self.blocks.taken += decoded;
            if is_end || decoder.capacity() == 0 {
                *rows = decoder.flush().map_err(|error| failure(self.data, &self.shard.path, &error))?;
                if rows.is_none() && is_end {
                    return Ok(None);
                }
            }
        }
        Ok(rows.clone().map(|rows| (rows, *first)))
    }

    /// Goes on to a record. The content of those before is not checked: their damage concerns other readers.
    fn skip_to(&mut self, record: u64) -> Result<()> {
        let Self { shard, decoding, blocks, source, .. } = self;
        let Source::Framed { framing, .. } = source else { return Ok(()) };
        let in_file = |error: tfrecord_framing::Error| Failure::record(&shard.path, &error.into());
        if framing.position().record >= record {
            return Ok(());
        }
        if shard.container().is_plain() {
            let mut position = framing.position();
            blocks.seek(position.byte)?;
            while position.record < record {
                let Some(header) = blocks.header()? else { return Err(too_short(shard, position.record)) };
                let len = frame_len(&header, position).map_err(in_file)?;
                (position.record, position.byte) = (position.record + 1, position.byte + len as u64);
                blocks.seek(position.byte)?;
            }
            *framing = RecordDecoder::new().with_crc_policy(decoding.crc).with_position(position);
            return Ok(());
        }
        while framing.position().record < record {
            let skip = usize::try_from(record - framing.position().record).unwrap_or(usize::MAX);
            let bytes = blocks.fill()?;
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
        Ok(())
    }

    /// Checks that the file ends here.
    fn check_end(&mut self) -> Result<()> {
        if let Source::PastDamage { .. } = self.source {
            return self.rows_past_damage()?.map_or(Ok(()), |_| Err(too_long(self.shard)));
        }
        let Self { shard, blocks, source, .. } = self;
        let Source::Framed { framing, .. } = source else { return Ok(()) };
        let in_file = |error: tfrecord_framing::Error| Failure::record(&shard.path, &error.into());
        loop {
            let bytes = blocks.fill()?;
            let mut rest = bytes;
            if !framing.decode_frames(&mut rest, 1).map_err(in_file)?.is_empty() {
                return Err(too_long(shard));
            }
            let (is_end, taken) = (bytes.is_empty(), bytes.len() - rest.len());
            if is_end {
                return framing.finish().map_err(in_file);
            }
            blocks.taken += taken;
        }
    }
}

fn batch_len(rows: &Option<RecordBatch>) -> u64 {
    rows.as_ref().map_or(0, |rows| rows.num_rows() as u64)
}
