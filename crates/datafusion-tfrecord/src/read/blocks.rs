//! [`Blocks`]: reads a part of a file in large blocks.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStore};

/// Length of the first block: often enough for a few rows, or for the schema.
const FIRST_LEN: u64 = 512 << 10;

/// Length of later blocks. The latency of a request to a remote store is about the transfer time of some megabytes.
const MAX_LEN: u64 = 4 << 20;

/// Reads a part of a file in blocks. From the second block on, reads one block ahead.
///
/// Every request requires that the file has not changed since it was listed, as far as the store can detect that. At
/// most two blocks, 8 MiB, are held. If the store returns a local file, the file is opened once and read directly,
/// into at most three reused blocks of memory, 12 MiB.
#[derive(Debug)]
pub struct Blocks {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    name: Arc<str>,
    /// The range not requested yet.
    rest: Range<u64>,
    len: u64,
    /// The requested block and its range.
    ahead: Option<(Range<u64>, Task)>,
    file: Option<Arc<LocalFile>>,
    /// The last blocks returned from a local file, reused once the caller has dropped them.
    given: [Bytes; 2],
}

/// The result of a request.
#[derive(Debug)]
enum Block {
    Bytes(Bytes),
    /// The opened file, and its path as reported by the store.
    File(File, PathBuf),
}

impl Blocks {
    /// Creates a reader of a range of a listed file; errors call the file `name`.
    pub fn new(store: Arc<dyn ObjectStore>, meta: ObjectMeta, name: Arc<str>, range: Range<u64>) -> Self {
        let given = [Bytes::new(), Bytes::new()];
        Self { store, meta, name, rest: range, len: FIRST_LEN, ahead: None, file: None, given }
    }

    /// Returns the next block; `None` at the end. Must be awaited on a tokio runtime.
    ///
    /// # Errors
    /// The file cannot be read, or has changed since it was listed.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let is_first = self.ahead.is_none() && self.file.is_none() && self.len == FIRST_LEN;
        let Some((range, block)) = self.ahead.take().or_else(|| self.request()) else { return Ok(None) };
        let block = match self.answer(block).await? {
            Block::Bytes(block) => block,
            Block::File(file, path) => {
                let file = LocalFile::new(file, path).map_err(|error| self.read_error(error))?;
                let task = read(self.file.insert(Arc::new(file)), &range, BytesMut::new());
                match self.answer(task).await? {
                    Block::Bytes(block) => block,
                    Block::File(..) => Bytes::new(),
                }
            }
        };
        if block.len() as u64 != range.end - range.start {
            let kind = tfr_files::ErrorKind::Changed { file: self.name.to_string(), source: None };
            return Err(tfr_files::Error::from(kind).into());
        }
        if !is_first {
            self.ahead = self.request();
        }
        if self.file.is_some() {
            self.given.rotate_left(1);
            self.given[1] = block.clone();
        }
        Ok(Some(block))
    }

    async fn answer(&self, task: Task) -> Result<Block> {
        let answer = task.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        answer.map_err(|error| self.read_error(error))
    }

    fn request(&mut self) -> Option<(Range<u64>, Task)> {
        let len = self.len.min(self.rest.end.saturating_sub(self.rest.start));
        if len == 0 {
            return None;
        }
        let range = self.rest.start..self.rest.start + len;
        self.rest.start = range.end;
        if let Some(file) = &self.file {
            let used = std::mem::take(&mut self.given[0]);
            let buffer = used.try_into_mut().unwrap_or_default();
            let task = read(file, &range, buffer);
            return Some((range, task));
        }
        self.len = MAX_LEN;
        let (store, path) = (Arc::clone(&self.store), self.meta.location.clone());
        let wanted = Some(range.clone().into());
        let options = GetOptions { range: wanted, if_match: strong_tag(&self.meta), ..GetOptions::default() };
        let task = SpawnedTask::spawn(async move {
            let found = store.get_opts(&path, options).await?;
            match found.payload {
                GetResultPayload::File(file, path) => Ok(Block::File(file, path)),
                GetResultPayload::Stream(_) => Ok(Block::Bytes(found.bytes().await?)),
            }
        });
        Some((range, task))
    }

    fn read_error(&self, error: object_store::Error) -> DataFusionError {
        let file = self.name.to_string();
        match error {
            error @ object_store::Error::Precondition { .. } => {
                tfr_files::Error::from(tfr_files::ErrorKind::Changed { file, source: Some(error) }).into()
            }
            error => error.into(),
        }
    }
}

type Task = SpawnedTask<object_store::Result<Block>>;

/// An open local file.
#[derive(Debug)]
struct LocalFile {
    file: File,
    path: PathBuf,
    /// Modification time when the file was opened.
    modified: Option<SystemTime>,
}

impl LocalFile {
    fn new(file: File, path: PathBuf) -> object_store::Result<Self> {
        let mut file = Self { file, path, modified: None };
        file.modified = file.modified()?;
        Ok(file)
    }

    /// Returns the modification time; `None` if the system does not report it.
    fn modified(&self) -> object_store::Result<Option<SystemTime>> {
        Ok(self.file.metadata().map_err(|error| self.error(error))?.modified().ok())
    }

    /// Reads `range` into a buffer, overwriting its contents. Returns fewer bytes if the file is shorter or was
    /// modified.
    fn read(&self, range: &Range<u64>, mut buffer: BytesMut) -> object_store::Result<Bytes> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        buffer.resize(len, 0);
        let mut file = &self.file;
        let found = file.seek(SeekFrom::Start(range.start)).and_then(|_| file.read_exact(&mut buffer));
        match found {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Bytes::new()),
            found => found.map_err(|error| self.error(error))?,
        }
        if self.modified()? != self.modified {
            return Ok(Bytes::new());
        }
        Ok(buffer.freeze())
    }

    fn error(&self, error: io::Error) -> object_store::Error {
        let error = io::Error::new(error.kind(), format!("{}: {error}", self.path.display()));
        object_store::Error::Generic { store: "LocalFileSystem", source: error.into() }
    }
}

/// Reads on a blocking thread.
fn read(file: &Arc<LocalFile>, range: &Range<u64>, buffer: BytesMut) -> Task {
    let (file, range) = (Arc::clone(file), range.clone());
    SpawnedTask::spawn_blocking(move || file.read(&range, buffer).map(Block::Bytes))
}

/// Returns the entity tag if it is strong. Weak tags cannot be used in conditions (RFC 9110, section 13.1.1).
pub(super) fn strong_tag(meta: &ObjectMeta) -> Option<String> {
    meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
}
