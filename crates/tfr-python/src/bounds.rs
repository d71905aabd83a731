//! [`Bounds`]: where the records of a file are, to read them by number.

use std::io::SeekFrom;
use std::ops::Range;
use std::path::Path;

use tfrecord_framing::array_record::Footer;
use tfrecord_framing::{Container, HEADER_LEN, Position, frame_len};
use tfrecord_shards::{IndexName, Progress, ReadSeek, array_record_footer, record_bounds};

use crate::dataset::Shard;
use crate::error::{Failure, Result};
use crate::files::Files;

/// Where the records of a file are.
pub(crate) enum Bounds {
    /// The bounds of the frames, in bytes.
    Frames(Vec<u64>),
    /// The chunks of an ArrayRecord file, and the number of records before each of them.
    Chunks(Footer, Vec<u64>),
}

/// A file whose records are read.
pub(crate) struct OpenBounds<'a> {
    bounds: &'a Bounds,
    path: &'a Path,
    file: Box<dyn ReadSeek>,
    /// The records in frames of the chunk that was read last.
    chunk: Option<(usize, Vec<u8>)>,
}

impl Bounds {
    /// Finds the bounds of the records of a file.
    pub(crate) fn of(shard: &Shard, files: &Files, progress: &Progress) -> Result<Self> {
        let path = &shard.path;
        let container = shard.container();
        if container == Container::ArrayRecord {
            let footer = array_record_footer(path, &mut shard.open(files, 0)?)?;
            if footer.records() != shard.rows {
                return Err(other_number(shard, footer.records()));
            }
            let records = footer.chunks.iter().map(|chunk| chunk.records);
            let before = records
                .scan(0_u64, |next, records| Some(std::mem::replace(next, next.saturating_add(records))))
                .collect();
            return Ok(Self::Chunks(footer, before));
        }
        if !container.is_plain() {
            let problem = format!("{}: {container}, expected an uncompressed file", path.display());
            return Err(Failure::usage(format!("random access: {problem}"))
                .with_hint("Read the file in order with Loader, or write an uncompressed copy."));
        }
        if let Some(bounds) = indexed(shard, files) {
            return Ok(Self::Frames(bounds));
        }
        let bounds = record_bounds(path, shard.open(files, shard.len)?, progress)?;
        if bounds.len() as u64 != shard.rows + 1 || bounds.last() != Some(&shard.len) {
            return Err(other_number(shard, bounds.len() as u64 - 1));
        }
        Ok(Self::Frames(bounds))
    }
}

fn other_number(shard: &Shard, found: u64) -> Failure {
    let expected = shard.rows;
    let problem = format!("expected {expected} records in {} bytes, found {found} records", shard.len);
    Failure::data(&shard.path, found.min(expected), None, &problem)
}

impl<'a> OpenBounds<'a> {
    pub(crate) fn open(bounds: &'a Bounds, shard: &'a Shard, files: &Files) -> Result<Self> {
        Ok(Self { bounds, path: &shard.path, file: shard.open(files, 0)?, chunk: None })
    }

    /// Appends the frame of a record to `frames`. Returns its position in the file; of a record in a chunk, that of the
    /// chunk.
    pub(crate) fn append(&mut self, record: u64, frames: &mut Vec<u8>) -> Result<Position> {
        let none = || Failure::data(self.path, record, None, "no record");
        match self.bounds {
            Bounds::Frames(bounds) => {
                let found = usize::try_from(record).ok().and_then(|at| bounds.get(at..at + 2));
                let Some(&[start, end]) = found else { return Err(none()) };
                self.read(start..end, frames)?;
                Ok(Position { record, byte: start })
            }
            Bounds::Chunks(footer, before) => {
                // A chunk without records has as many before it as the next.
                let number = before.partition_point(|before| *before <= record).saturating_sub(1);
                let (Some(entry), Some(first)) = (footer.chunks.get(number), before.get(number)) else {
                    return Err(none());
                };
                let position = Position { record, byte: entry.position };
                let records = match self.chunk.take() {
                    Some((read, records)) if read == number => records,
                    _ => {
                        let (mut bytes, mut records) = (Vec::new(), Vec::new());
                        self.read(entry.position..footer.end_of(number), &mut bytes)?;
                        Footer::decode_chunk(entry, &bytes, &mut records).map_err(|source| {
                            let error = tfrecord_framing::ErrorKind::ArrayRecord { position, source };
                            Failure::record(self.path, &tfrecord_framing::Error::from(error).into())
                        })?;
                        records
                    }
                };
                let mut frame = 0..0;
                for _ in *first..=record {
                    let header = records.get(frame.end..).and_then(|rest| rest.first_chunk::<HEADER_LEN>());
                    let len = frame_len(header.ok_or_else(none)?, position);
                    let len = len.map_err(|error| Failure::record(self.path, &error.into()))?;
                    frame = frame.end..frame.end + len;
                }
                frames.extend_from_slice(records.get(frame).ok_or_else(none)?);
                self.chunk = Some((number, records));
                Ok(position)
            }
        }
    }

    /// Appends bytes of the file.
    fn read(&mut self, range: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let first = out.len();
        out.resize(first + (range.end - range.start) as usize, 0);
        let room = out.get_mut(first..).unwrap_or_default();
        let read = self.file.seek(SeekFrom::Start(range.start)).and_then(|_| self.file.read_exact(room));
        read.map_err(|error| Failure::io(self.path, "read", error))
    }
}

/// Returns the bounds in the index next to a local file. `None` if there is no index, or it is not that of the file.
fn indexed(shard: &Shard, files: &Files) -> Option<Vec<u64>> {
    if shard.object.is_some() {
        return None;
    }
    let mut text = String::new();
    files.open(&IndexName::Idx.find(&shard.path), None, 0).ok()?.read_to_string(&mut text).ok()?;
    let mut bounds = vec![0];
    let mut end = 0;
    for line in text.lines() {
        let (start, len) = line.split_once(' ')?;
        if start.parse() != Ok(end) {
            return None;
        }
        end = len.parse::<u64>().ok()?.checked_add(end)?;
        bounds.push(end);
    }
    (end == shard.len && bounds.len() as u64 == shard.rows + 1).then_some(bounds)
}
