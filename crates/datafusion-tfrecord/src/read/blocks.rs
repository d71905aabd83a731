//! [`Blocks`]: the bytes of a part of a file, a large block at a time.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use object_store::{GetOptions, ObjectMeta, ObjectStore};

use crate::error::ErrorKind;

/// Length of the first block: often enough for a few rows, or for the schema.
const FIRST_LEN: u64 = 512 << 10;

/// Length of later blocks. A store's own stream would give 8 KiB at a time of a local file; a request to a remote
/// store takes about as long to begin as some megabytes take to arrive.
const MAX_LEN: u64 = 4 << 20;

/// Reads a part of a file in blocks, from the second on one block ahead of its user.
///
/// Every block is asked for under the condition that the file is still the one that was listed, as far as the store
/// can tell. At most two blocks, 8 MiB, are held.
#[derive(Debug)]
pub struct Blocks {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    name: Arc<str>,
    /// What has not been asked for.
    rest: Range<u64>,
    len: u64,
    /// The length of the block that was asked for, and the block.
    ahead: Option<(u64, SpawnedTask<object_store::Result<Bytes>>)>,
}

impl Blocks {
    /// A part of the file that was listed so; errors call it `name`.
    pub fn new(store: Arc<dyn ObjectStore>, meta: ObjectMeta, name: Arc<str>, range: Range<u64>) -> Self {
        Self { store, meta, name, rest: range, len: FIRST_LEN, ahead: None }
    }

    /// The next block; `None` at the end. To be awaited on a runtime of tokio.
    ///
    /// # Errors
    /// The file cannot be read, or is no longer the one that was listed.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let is_first = self.len == FIRST_LEN;
        let Some((len, block)) = self.ahead.take().or_else(|| self.request()) else { return Ok(None) };
        let block = block.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        let block = block.map_err(|error| self.read_error(error))?;
        if block.len() as u64 != len {
            return Err(ErrorKind::Changed { file: self.name.to_string(), source: None }.into());
        }
        if !is_first {
            self.ahead = self.request();
        }
        Ok(Some(block))
    }

    fn request(&mut self) -> Option<(u64, SpawnedTask<object_store::Result<Bytes>>)> {
        let len = self.len.min(self.rest.end.saturating_sub(self.rest.start));
        if len == 0 {
            return None;
        }
        let range = self.rest.start..self.rest.start + len;
        self.rest.start = range.end;
        self.len = MAX_LEN;
        let (store, path) = (Arc::clone(&self.store), self.meta.location.clone());
        let options =
            GetOptions { range: Some(range.into()), if_match: strong_tag(&self.meta), ..GetOptions::default() };
        Some((len, SpawnedTask::spawn(async move { store.get_opts(&path, options).await?.bytes().await })))
    }

    fn read_error(&self, error: object_store::Error) -> DataFusionError {
        let file = self.name.to_string();
        match error {
            error @ object_store::Error::Precondition { .. } => ErrorKind::Changed { file, source: Some(error) }.into(),
            error => error.into(),
        }
    }
}

/// The tag by which a store tells whether a file is the same. Weak ones cannot be asked for (RFC 9110, section 13.1.1).
pub(super) fn strong_tag(meta: &ObjectMeta) -> Option<String> {
    meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
}
