//! [`IndexWriter`]: writes the index of a shard along with the shard.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;

use crate::commit::uncached::{UncachedFile, UncachedStreams};
use crate::error::{AtPath, Result};
use crate::set::sidecar::{ContentSum, StagedIndex};
use crate::write::index_lines::IndexLines;

/// Length in bytes of the buffer of index lines.
const INDEX_BUFFER_LEN: usize = 32 << 10;

/// Number of lines formatted singly before the next attempt to format many.
const FEW_LINES: usize = 16;

/// The destination of a shard's index.
#[derive(Debug)]
pub struct IndexFile {
    path: PathBuf,
    streams: Option<Arc<UncachedStreams>>,
}

impl From<PathBuf> for IndexFile {
    fn from(path: PathBuf) -> Self {
        Self { path, streams: None }
    }
}

impl IndexFile {
    /// A file written past the page cache if a stream is available.
    pub(crate) fn uncached(path: PathBuf, streams: Arc<UncachedStreams>) -> Self {
        Self { path, streams: Some(streams) }
    }
}

/// Writes the index of a shard along with the shard. The result is that of [`index`](fn@crate::index).
#[derive(Debug)]
pub(crate) struct IndexWriter {
    path: PathBuf,
    /// `None` until a line is written.
    sink: Option<IndexSink>,
    streams: Option<Arc<UncachedStreams>>,
    lines: IndexLines,
    sum: ContentSum,
}

#[derive(Debug)]
enum IndexSink {
    Uncached(UncachedFile),
    /// The file is open only while lines are appended, so that it does not hold a handle while the shard is open.
    Reopened,
}

impl IndexWriter {
    pub(crate) fn new(IndexFile { path, streams }: IndexFile) -> Self {
        let lines = IndexLines::with_capacity(INDEX_BUFFER_LEN);
        Self { path, sink: None, streams, lines, sum: ContentSum::default() }
    }

    /// Appends some of the records of a buffer.
    pub(crate) fn append(&mut self, framed: &RecordBuffer, records: Range<usize>) -> Result<()> {
        let mut next = records.start;
        while next < records.end {
            if let Some(bounds) = framed.record_bounds(next..records.end) {
                next += self.append_between(bounds)?;
            }
            // Too few to be formatted together, or unusual records.
            let few = next..records.end.min(next + FEW_LINES);
            next = few.end;
            few.for_each(|record| self.lines.push((framed.record_end(record) - framed.record_start(record)) as u64));
            if self.lines.text().len() >= INDEX_BUFFER_LEN / 2 {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Appends some of the records between these bounds and returns their number. Formats their lines in the file's own
    /// buffer if it has one.
    fn append_between(&mut self, bounds: &[usize]) -> Result<usize> {
        let collects = match &mut self.sink {
            Some(IndexSink::Uncached(file)) => file.room(IndexLines::LONGEST_BLOCK).is_some(),
            Some(IndexSink::Reopened) | None => false,
        };
        if !collects {
            return Ok(self.lines.push_between(bounds));
        }
        if !self.lines.text().is_empty() {
            self.flush()?;
        }
        let mut records = 0;
        while let Some(IndexSink::Uncached(file)) = &mut self.sink
            && let Some(room) = file.room(IndexLines::LONGEST_BLOCK)
        {
            // Limited to what is still in the cache when the checksum is computed.
            let room_len = room.len().min(INDEX_BUFFER_LEN);
            let room = room.get_mut(..room_len).unwrap_or_default();
            let made = self.lines.put(bounds.get(records..).unwrap_or_default(), room);
            self.sum.add(room.get(..made.bytes).unwrap_or_default());
            file.advance(made.bytes).at("write", &self.path)?;
            records += made.records;
            if made.records == 0 {
                break;
            }
        }
        Ok(records)
    }

    fn flush(&mut self) -> Result<()> {
        let text = self.lines.text();
        self.sum.add(text);
        let sink = match self.sink.take() {
            Some(sink) => sink,
            None => match self.streams.take().and_then(|streams| streams.begin_beside()) {
                Some(stream) => IndexSink::Uncached(UncachedFile::new(open_to_append(&self.path)?, Some(stream))),
                None => IndexSink::Reopened,
            },
        };
        match self.sink.insert(sink) {
            IndexSink::Uncached(file) => file.write_all(text),
            IndexSink::Reopened => open_to_append(&self.path)?.write_all(text),
        }
        .at("write", &self.path)?;
        self.lines.clear();
        Ok(())
    }

    /// Writes the buffered lines and syncs the file.
    pub(crate) fn finish(mut self) -> Result<StagedIndex> {
        self.flush()?;
        match &mut self.sink {
            Some(IndexSink::Uncached(file)) => file.sync_all(),
            Some(IndexSink::Reopened) | None => open_to_append(&self.path)?.sync_all(),
        }
        .at("sync", &self.path)?;
        Ok(StagedIndex { path: self.path, file_bytes: self.sum.bytes, crc32c: self.sum.crc32c })
    }
}

fn open_to_append(path: &Path) -> Result<File> {
    OpenOptions::new().create(true).append(true).open(path).at("write", path)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use std::fs;

    use super::*;

    /// Some lines are formatted in the file's buffer and some are not: the first, those of long records, the last few
    /// of a buffer, and those before the buffer is written.
    #[test]
    fn index_longer_than_the_buffer_has_every_line() {
        let dir = tempfile::tempdir().unwrap();
        for (name, streams) in [("a.idx", Some(Arc::default())), ("b.idx", None)] {
            let path = dir.path().join(name);
            let mut writer = IndexWriter::new(IndexFile { path: path.clone(), streams });
            let (mut expected, mut start) = (String::new(), 0);
            for buffer in 0..150_usize {
                let mut records = RecordBuffer::default();
                for record in 0..[1, 15, 16, 17, 1000, 2000][buffer % 6] {
                    let len = if buffer % 7 == 3 && record % 300 == 5 { 12_345 } else { 16 + (buffer + record) % 200 };
                    records.push_frame(&vec![0; len]);
                    writeln!(expected, "{start} {len}").unwrap();
                    start += len;
                }
                let (first, rest) = (0..records.len() / 3, records.len() / 3..records.len());
                writer.append(&records, first).unwrap();
                writer.append(&records, rest).unwrap();
            }
            let staged = writer.finish().unwrap();
            let written = fs::read_to_string(&path).unwrap();
            assert!(written == expected, "{} bytes, {} expected", written.len(), expected.len());
            assert_eq!(
                staged,
                StagedIndex { path, file_bytes: expected.len() as u64, crc32c: crc32c::crc32c(expected.as_bytes()) }
            );
            assert!(expected.len() > 1 << 19, "{}", expected.len());
        }
    }
}
