//! [`Sidecar`]: a file beside the shards that tells another reader of the set.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;
use serde::{Deserialize, Serialize};
use tfrecord_framing::{crc32c, crc32c_append};

use crate::error::{AtPath, ErrorKind, Result};
use crate::index::{IndexLines, IndexName};
use crate::local::lock_set;
use crate::manifest::{FORMAT_VERSION, Manifest, scalar};
use crate::names::{MANIFEST_NAME, RunId};
use crate::staging::{MadeDirectories, create_hidden, hidden_name};
use crate::target::resolve;
use crate::uncached::{UncachedFile, UncachedStreams};

/// Lines of an index that are kept back, in bytes, before they are written.
const INDEX_BUFFER_LEN: usize = 32 << 10;

/// Lines that are made one by one before it is tried again to make many.
const FEW_LINES: usize = 16;

/// Bytes of a file that are read at once.
const READ_LEN: usize = 64 << 10;

/// A file beside the shards that tells another reader of the set, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Its path from the set's directory, with `/`.
    pub path: String,
    /// What it holds.
    pub content: Vec<u8>,
}

/// What a manifest says of a file beside the shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarEntry {
    /// Its path from the set's directory, with `/`.
    pub path: String,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// CRC-32C of the file, not masked. Eight hexadecimal digits in JSON.
    #[serde(with = "scalar::hex")]
    pub crc32c: u32,
}

impl From<&Sidecar> for SidecarEntry {
    fn from(Sidecar { path, content }: &Sidecar) -> Self {
        Self { path: path.clone(), file_bytes: content.len() as u64, crc32c: crc32c(content) }
    }
}

impl SidecarEntry {
    /// Of a file in the directory of a set.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_file(dir: &Path, path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        let file = dir.join(&path);
        let content = File::open(&file).at("open", &file)?;
        Self::read(path, content).at("read", &file)
    }

    /// Of a file at `path` from the set's directory that has this content.
    pub(crate) fn read(path: impl Into<String>, mut content: impl Read) -> io::Result<Self> {
        let mut sum = ContentSum::default();
        let mut buffer = vec![0; READ_LEN];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(Self { path: path.into(), file_bytes: sum.bytes, crc32c: sum.crc32c }),
                Ok(len) => sum.add(buffer.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether it tells of one of these shards alone, so that it stays true when others are added.
    pub(crate) fn is_index_of<'a>(&self, mut shards: impl Iterator<Item = &'a str>) -> bool {
        shards.any(|shard| index_path(shard) == self.path)
    }
}

/// What is told of a file's content, as far as it has been passed.
#[derive(Debug, Default)]
struct ContentSum {
    bytes: u64,
    /// CRC-32C, not masked.
    crc32c: u32,
}

impl ContentSum {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32c = crc32c_append(self.crc32c, bytes);
    }
}

/// The path of a shard's index.
pub(crate) fn index_path(shard: &str) -> String {
    IndexName::Idx.beside(Path::new(shard)).to_string_lossy().into_owned()
}

/// An index that is written and synced, but not yet published with its shard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StagedIndex {
    /// The file.
    pub path: PathBuf,
    /// Bytes of it.
    pub file_bytes: u64,
    /// CRC-32C of it, not masked.
    pub crc32c: u32,
}

impl StagedIndex {
    /// What the manifest says of it, beside the shard of this path.
    pub(crate) fn entry(&self, shard: &str) -> SidecarEntry {
        SidecarEntry { path: index_path(shard), file_bytes: self.file_bytes, crc32c: self.crc32c }
    }
}

/// Where the index of a shard is to be written.
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
    /// A file that goes past the page cache if there is a stream for it.
    pub(crate) fn uncached(path: PathBuf, streams: Arc<UncachedStreams>) -> Self {
        Self { path, streams: Some(streams) }
    }
}

/// Writes the index of a shard while that is written: what [`index`](fn@crate::index) would find.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    path: PathBuf,
    /// Nothing when no line has been written.
    sink: Option<IndexSink>,
    streams: Option<Arc<UncachedStreams>>,
    lines: IndexLines,
    sum: ContentSum,
}

#[derive(Debug)]
enum IndexSink {
    Uncached(UncachedFile),
    /// The file is open only while lines are added, so that it takes no handle for as long as the shard does.
    Reopened,
}

impl IndexWriter {
    pub(crate) fn new(IndexFile { path, streams }: IndexFile) -> Self {
        let lines = IndexLines::with_capacity(INDEX_BUFFER_LEN);
        Self { path, sink: None, streams, lines, sum: ContentSum::default() }
    }

    /// Adds some of the records of a buffer.
    pub(crate) fn append(&mut self, framed: &RecordBuffer, records: Range<usize>) -> Result<()> {
        let mut next = records.start;
        while next < records.end {
            if let Some(bounds) = framed.record_bounds(next..records.end) {
                next += self.append_between(bounds)?;
            }
            // What is too little to be made together, or not as most records are.
            let few = next..records.end.min(next + FEW_LINES);
            next = few.end;
            few.for_each(|record| self.lines.push((framed.record_end(record) - framed.record_start(record)) as u64));
            if self.lines.text().len() >= INDEX_BUFFER_LEN / 2 {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Adds the records between these bounds, or some of them, and tells how many. Their lines are made right where the file
    /// collects them, if it does.
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
            // No more than the cache still holds when it is summed up.
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

    /// Writes what is left, and syncs the file.
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

/// Writes files beside the shards in `dir`, each in the place of one of its name, and lists them in the `manifest`, if
/// the directory has one: together with `indexes`, which are there already. What else the manifest lists stays.
///
/// All are written under hidden names before the first gets its own, the manifest last. The directory is made if it is
/// missing.
///
/// # Errors
/// When the manifest is not the one that was read ([`ErrorKind::Superseded`]), or a file cannot be written.
pub fn put_sidecars(
    dir: &Path,
    manifest: Option<&Manifest>,
    sidecars: &[Sidecar],
    indexes: Vec<SidecarEntry>,
) -> Result<()> {
    let _lock = manifest.and_then(|_| lock_set(dir));
    let mut all: Vec<(String, Vec<u8>)> =
        sidecars.iter().map(|sidecar| (sidecar.path.clone(), sidecar.content.clone())).collect();
    if let Some(manifest) = manifest {
        if Manifest::read(dir)? != *manifest {
            return Err(ErrorKind::Superseded { path: dir.to_owned() }.into());
        }
        let mut manifest = manifest.clone();
        let new: Vec<_> = sidecars.iter().map(SidecarEntry::from).chain(indexes).collect();
        manifest.sidecars.retain(|old| new.iter().all(|new| new.path != old.path));
        manifest.sidecars.extend(new);
        manifest.format_version = manifest.format_version.max(FORMAT_VERSION);
        manifest.refuse_contradiction(dir)?;
        all.push((MANIFEST_NAME.to_owned(), manifest.to_json()?));
    }
    // Removed again, unless something is put there.
    let mut made = MadeDirectories::default();
    for missing in resolve(dir)?.1 {
        made.create(&missing)?;
    }
    if !dir.exists() {
        made.create(dir)?;
    }
    let run = RunId::new();
    let mut hidden = Hidden(Vec::new());
    let mut locked = Vec::new();
    for (name, content) in &all {
        let path = dir.join(hidden_name(name, &run));
        hidden.0.push(path.clone());
        let mut file = create_hidden(&path).at("create", &path)?;
        file.write_all(content).and_then(|()| file.sync_all()).at("write", &path)?;
        locked.push(file);
    }
    for (from, (name, _)) in hidden.0.iter().zip(&all) {
        let to = dir.join(name);
        if let Ok(old) = fs::metadata(&to) {
            fs::set_permissions(from, old.permissions()).at("set permissions of", from)?;
        }
        fs::rename(from, &to).at("rename to", &to)?;
    }
    made.keep();
    File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir)
}

/// Files under hidden names, removed unless they have got their own.
struct Hidden(Vec<PathBuf>);

impl Drop for Hidden {
    fn drop(&mut self) {
        for path in &self.0 {
            // What has its name by now is not there; of the rest nobody is left to tell.
            let _unremoved = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Some lines are made where the file collects them, and some are not: the first, those of long records and of the
    /// last few of a buffer, and where what is collected is about to be written.
    #[test]
    fn indexes_longer_than_what_is_collected_hold_every_line() {
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
