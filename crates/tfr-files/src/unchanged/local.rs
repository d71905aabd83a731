//! [`LocalFile`]: an open local file, compared with its listing at every read.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use datafusion_common_runtime::SpawnedTask;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, Result};
use tfr_stores::Change;

use crate::error::{Error, ErrorKind};

/// Bytes of a piece of a stream.
const PIECE: u64 = 1 << 20;

/// A local file that stays open while it is read. So a file that is replaced by renaming another one is read to its
/// end.
///
/// A file that is modified in place has another length or modification time. Both are compared after every read,
/// before the bytes are used. The inode is not compared: on some file systems it changes although the file does not.
#[derive(Debug)]
pub struct LocalFile {
    file: File,
    pub(super) location: Path,
    /// The name in messages.
    name: Arc<str>,
    size: u64,
    modified: SystemTime,
}

impl LocalFile {
    /// Takes a file that has been opened, with its metadata.
    ///
    /// # Errors
    /// The file has changed since it was listed.
    pub(super) fn new(file: File, found: &ObjectMeta, listed: &ObjectMeta, name: Arc<str>) -> Result<Self> {
        let (location, size) = (listed.location.clone(), listed.size);
        let file = Self { file, location, name, size, modified: listed.last_modified.into() };
        file.compare(found.size, Some(found.last_modified.into()))?;
        Ok(file)
    }

    fn check(&self) -> Result<()> {
        let metadata = self.file.metadata().map_err(|error| self.error(error))?;
        // Not every system has the time.
        self.compare(metadata.len(), metadata.modified().ok())
    }

    fn compare(&self, size: u64, modified: Option<SystemTime>) -> Result<()> {
        let change = match modified {
            _ if size != self.size => Change::Size { expected: self.size, found: size },
            Some(modified) if modified != self.modified => Change::Modified,
            _ => return Ok(()),
        };
        Err(changed(&self.location, &self.name, change))
    }

    /// Reads `range`, overwriting the contents of `buffer`. Blocks the thread.
    ///
    /// # Errors
    /// The file has changed since it was listed, ends before the range does, or cannot be read.
    pub fn read(&self, range: &Range<u64>, mut buffer: BytesMut) -> Result<Bytes> {
        let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        buffer.resize(len, 0);
        let read = self.file.read_exact_at(&mut buffer, range.start);
        // A file that was cut is a file that has changed.
        self.check()?;
        read.map_err(|error| self.error(error))?;
        Ok(buffer.freeze())
    }

    /// Reads `ranges` on a blocking thread.
    pub(super) async fn ranges(self: &Arc<Self>, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        let file = Arc::clone(self);
        let read = move || ranges.iter().map(|range| file.read(range, BytesMut::new())).collect();
        SpawnedTask::spawn_blocking(read).join().await.unwrap_or_else(|source| Err(source.into()))
    }

    /// Returns the bytes of `range` in pieces.
    pub(super) fn pieces(self: Arc<Self>, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let pieces = stream::try_unfold((self, range), |(file, range)| async move {
            let end = range.end.min(range.start.saturating_add(PIECE));
            if range.start >= end {
                return Ok(None);
            }
            let next = range.start..end;
            let piece = file.ranges(vec![next]).await?.pop().unwrap_or_default();
            Ok(Some((piece, (file, end..range.end))))
        });
        pieces.boxed()
    }

    /// Names the file, since an error of the system does not.
    fn error(&self, error: io::Error) -> object_store::Error {
        let error = io::Error::new(error.kind(), format!("{}: {error}", self.name));
        object_store::Error::Generic { store: "local", source: error.into() }
    }
}

/// Returns the error for a file that has changed.
pub(super) fn changed(location: &Path, name: &str, change: Change) -> object_store::Error {
    let source = Box::new(Error::from(ErrorKind::Changed { file: name.to_owned(), change }));
    object_store::Error::Precondition { path: location.to_string(), source }
}

/// Receives the open file with the answer to a request, if the file is local.
///
/// A reader that uses it reads into memory of its own. Others need not know where a file is.
#[derive(Debug, Clone, Default)]
pub struct OpenFile(Arc<OnceLock<Arc<LocalFile>>>);

impl OpenFile {
    /// Asks for the open file in addition to the bytes.
    pub fn ask(options: &mut GetOptions) -> Self {
        let open = Self::default();
        options.extensions.insert(open.clone());
        open
    }

    /// Returns the file, once the request has been answered.
    pub fn file(&self) -> Option<Arc<LocalFile>> {
        self.0.get().cloned()
    }

    pub(super) fn answer(options: &GetOptions, file: &Arc<LocalFile>) {
        if let Some(Self(open)) = options.extensions.get() {
            // It is answered once.
            let _ = open.set(Arc::clone(file));
        }
    }
}
