//! [`Blocks`]: the bytes of a part of a file, a large block at a time.

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

/// Length of later blocks: a request to a remote store takes about as long to begin as some megabytes take to arrive.
const MAX_LEN: u64 = 4 << 20;

/// Reads a part of a file in blocks, from the second on one block ahead of its user.
///
/// Every block is asked for under the condition that the file is still the one that was listed, as far as the store
/// can tell. At most two blocks, 8 MiB, are held. A store that gives a file of this machine is asked once; the file is
/// read directly then, into at most three blocks of memory, 12 MiB, that go round.
#[derive(Debug)]
pub struct Blocks {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    name: Arc<str>,
    /// What has not been asked for.
    rest: Range<u64>,
    len: u64,
    /// Which block was asked for, and the block.
    ahead: Option<(Range<u64>, Task)>,
    file: Option<Arc<LocalFile>>,
    /// The last blocks of the file, to be written over when their user has dropped them.
    given: [Bytes; 2],
}

/// What came of a request.
#[derive(Debug)]
enum Block {
    Bytes(Bytes),
    /// The file itself, opened, and where the store says that it is.
    File(File, PathBuf),
}

impl Blocks {
    /// A part of the file that was listed so; errors call it `name`.
    pub fn new(store: Arc<dyn ObjectStore>, meta: ObjectMeta, name: Arc<str>, range: Range<u64>) -> Self {
        let given = [Bytes::new(), Bytes::new()];
        Self { store, meta, name, rest: range, len: FIRST_LEN, ahead: None, file: None, given }
    }

    /// The next block; `None` at the end. To be awaited on a runtime of tokio.
    ///
    /// # Errors
    /// The file cannot be read, or is no longer the one that was listed.
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

/// A file of this machine that is open.
#[derive(Debug)]
struct LocalFile {
    file: File,
    path: PathBuf,
    /// When it was last written to, as found at the start.
    modified: Option<SystemTime>,
}

impl LocalFile {
    fn new(file: File, path: PathBuf) -> object_store::Result<Self> {
        let mut file = Self { file, path, modified: None };
        file.modified = file.modified()?;
        Ok(file)
    }

    /// When it was last written to; none where the system does not tell.
    fn modified(&self) -> object_store::Result<Option<SystemTime>> {
        Ok(self.file.metadata().map_err(|error| self.error(error))?.modified().ok())
    }

    /// Reads `range` into a buffer, whatever is in that. Fewer bytes where the file is shorter or was written to.
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

/// Reads on a thread that may block.
fn read(file: &Arc<LocalFile>, range: &Range<u64>, buffer: BytesMut) -> Task {
    let (file, range) = (Arc::clone(file), range.clone());
    SpawnedTask::spawn_blocking(move || file.read(&range, buffer).map(Block::Bytes))
}

/// The tag by which a store tells whether a file is the same. Weak ones cannot be asked for (RFC 9110, section 13.1.1).
pub(super) fn strong_tag(meta: &ObjectMeta) -> Option<String> {
    meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
}
