//! [`Blocks`]: reads a part of a file in large blocks.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use object_store::{GetOptions, ObjectMeta, ObjectStore};
use tfr_files::{LocalFile, OpenFile};
use tfr_stores::Change;

/// Length of the first block: often enough for a few rows, or for the schema.
const FIRST_LEN: u64 = 512 << 10;

/// Length of later blocks. The latency of a request to a remote store is about the transfer time of some megabytes.
const MAX_LEN: u64 = 4 << 20;

/// Reads a part of a file in blocks. From the second block on, reads one block ahead.
///
/// At most two blocks, 8 MiB, are held. A local file is read directly, into at most three reused blocks of memory,
/// 12 MiB, if the store is one of [`UnchangedFiles`](tfr_files::UnchangedFiles).
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
    /// The opened file.
    File(Arc<LocalFile>),
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
    /// The file cannot be read, or is shorter than it was when it was listed.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let is_first = self.ahead.is_none() && self.file.is_none() && self.len == FIRST_LEN;
        let Some((range, block)) = self.ahead.take().or_else(|| self.request()) else { return Ok(None) };
        let block = match self.answer(block).await? {
            Block::Bytes(block) => block,
            Block::File(file) => {
                let task = read(self.file.insert(file), &range, BytesMut::new());
                match self.answer(task).await? {
                    Block::Bytes(block) => block,
                    Block::File(..) => Bytes::new(),
                }
            }
        };
        let found = range.start + block.len() as u64;
        if found != range.end {
            let (file, change) = (self.name.to_string(), Change::Size { expected: self.meta.size, found });
            return Err(tfr_files::Error::from(tfr_files::ErrorKind::Changed { file, change }).into());
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
        let mut options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
        let open = OpenFile::ask(&mut options);
        let task = SpawnedTask::spawn(async move {
            let found = store.get_opts(&path, options).await?;
            match open.file() {
                Some(file) => Ok(Block::File(file)),
                None => Ok(Block::Bytes(found.bytes().await?)),
            }
        });
        Some((range, task))
    }

    fn read_error(&self, error: object_store::Error) -> DataFusionError {
        tfr_files::Error::change_in(&error).map_or_else(|| error.into(), Into::into)
    }
}

type Task = SpawnedTask<object_store::Result<Block>>;

/// Reads on a blocking thread.
fn read(file: &Arc<LocalFile>, range: &Range<u64>, buffer: BytesMut) -> Task {
    let (file, range) = (Arc::clone(file), range.clone());
    SpawnedTask::spawn_blocking(move || file.read(&range, buffer).map(Block::Bytes))
}
