//! [`SpillFiles`]: the temporary files of the engine, which are compared with what was written when they are read.
//!
//! The engine takes a spilled file that was cut between two batches for a complete one, and does not notice bytes that
//! have changed. A full disk can do both to a file although every write has succeeded, for example over NFS.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result as EngineResult};
use datafusion::execution::disk_manager::DEFAULT_MAX_TEMP_DIRECTORY_SIZE;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::{Stream, stream};
use tempfile::NamedTempFile;
use tfrecord_framing::crc32c_append;

use super::checksums::{BLOCK, Checksums};
use super::place::SpillPlace;
use crate::error::{Error, Result};

/// Creates the temporary files of a session. Register it as an extension of the session's configuration as well.
pub struct SpillFiles {
    place: Arc<SpillPlace>,
    space: Arc<Space>,
}

impl SpillFiles {
    /// Creates files in the directory of a run.
    pub(super) fn new(place: Arc<SpillPlace>) -> Self {
        let (directory, limit) = (place.parent().to_owned(), DEFAULT_MAX_TEMP_DIRECTORY_SIZE.into());
        Self { place, space: Arc::new(Space { directory, limit, used: AtomicU64::new(0) }) }
    }

    /// Limits the bytes of all files together.
    pub fn set_limit(&self, bytes: u64) {
        self.space.limit.store(bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for SpillFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillFiles").field("space", &self.space).finish_non_exhaustive()
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _description: &str) -> EngineResult<Arc<dyn SpillFile>> {
        let create = || {
            let file = NamedTempFile::new_in(self.place.live()?);
            file.map_err(|source| self.space.failed("write", source))
        };
        let file = create().map_err(external)?;
        let spilled = Spilled { file, space: Arc::clone(&self.space), written: Mutex::default() };
        Ok(Arc::new(SpilledFile(Arc::new(spilled))))
    }
}

/// The space that files may use.
#[derive(Debug)]
struct Space {
    /// The name in messages.
    directory: PathBuf,
    /// In bytes.
    limit: AtomicU64,
    /// In bytes.
    used: AtomicU64,
}

impl Space {
    /// Reserves space for bytes.
    fn reserve(&self, len: u64) -> Result<()> {
        let limit = self.limit.load(Ordering::Relaxed);
        if self.used.fetch_add(len, Ordering::Relaxed) + len > limit {
            self.used.fetch_sub(len, Ordering::Relaxed);
            return Err(Error::SpillLimit { directory: self.directory.clone(), limit });
        }
        Ok(())
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::Spill { directory: self.directory.clone(), action, source }
    }

    fn damaged(&self, problem: String) -> Error {
        Error::SpillDamaged { directory: self.directory.clone(), problem }
    }
}

/// A temporary file, which is removed with the last reference to it.
struct SpilledFile(Arc<Spilled>);

struct Spilled {
    file: NamedTempFile,
    space: Arc<Space>,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    checksums: Checksums,
    /// Whether nothing is written any more.
    finished: bool,
}

impl Spilled {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, bytes: &[u8]) -> Result<()> {
        self.space.reserve(bytes.len() as u64)?;
        // The file is written by one writer. Readers wait for the checksums only.
        let at = self.written().checksums.len();
        match self.file.as_file().write_all_at(bytes, at) {
            Ok(()) => {
                self.written().checksums.append(bytes);
                Ok(())
            }
            Err(source) => {
                self.space.used.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
                Err(self.space.failed("write", source))
            }
        }
    }

    /// Compares the length of the file with the number of bytes written.
    fn finish(&self) -> Result<()> {
        let found = self.file.as_file().metadata().map_err(|source| self.space.failed("write", source))?.len();
        let mut written = self.written();
        let expected = written.checksums.len();
        if found != expected {
            return Err(self.space.damaged(format!("a file has {found} bytes of the {expected} that were written")));
        }
        written.finished = true;
        Ok(())
    }
}

impl Drop for Spilled {
    fn drop(&mut self) {
        let len = self.written().checksums.len();
        self.space.used.fetch_sub(len, Ordering::Relaxed);
    }
}

impl SpillFile for SpilledFile {
    fn path(&self) -> Option<&Path> {
        Some(self.0.file.path())
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.written().checksums.len())
    }

    fn read_stream(&self) -> EngineResult<Pin<Box<dyn Stream<Item = EngineResult<Bytes>> + Send>>> {
        let reader = Reader { file: Arc::clone(&self.0), at: 0, checksum: 0 };
        Ok(Box::pin(stream::try_unfold(reader, |mut reader| async move {
            let read = SpawnedTask::spawn_blocking(move || reader.next().map(|next| next.map(|bytes| (bytes, reader))));
            let read = read.join().await.map_err(|stopped| DataFusionError::ExecutionJoin(Box::new(stopped)))?;
            read.map_err(external)
        })))
    }

    fn open_writer(&self) -> EngineResult<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer(Arc::clone(&self.0))))
    }
}

/// Reads a file from its start. An exchange also reads files that are still being written.
struct Reader {
    file: Arc<Spilled>,
    at: u64,
    /// The checksum of the bytes before `at` in the same block.
    checksum: u32,
}

impl Reader {
    /// Returns the rest of a block, as far as it has been written. `None` at the end of the file.
    fn next(&mut self) -> Result<Option<Bytes>> {
        let space = &self.file.space;
        let (end, expected) = {
            let written = self.file.written();
            match written.checksums.block(self.at) {
                Some(block) => block,
                None if written.finished => return Ok(None),
                // The engine reads batches that are complete.
                None => return Err(space.damaged("a file was read before it was complete".to_owned())),
            }
        };
        let mut bytes = vec![0; usize::try_from(end - self.at).unwrap_or(usize::MAX)];
        self.file.file.as_file().read_exact_at(&mut bytes, self.at).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => space.damaged(format!("a file ends before byte {end}")),
            _ => space.failed("read", source),
        })?;
        self.checksum = crc32c_append(self.checksum, &bytes);
        if self.checksum != expected {
            let problem = format!("bytes {} to {end} of a file are not those that were written", self.at);
            return Err(space.damaged(problem));
        }
        self.at = end;
        if end.is_multiple_of(BLOCK) {
            self.checksum = 0;
        }
        Ok(Some(bytes.into()))
    }
}

/// Appends to a file.
struct Writer(Arc<Spilled>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.append(bytes) {
            Ok(()) => Ok(bytes.len()),
            Err(error) => Err(into_io(error)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> EngineResult<()> {
        self.0.finish().map_err(external)
    }
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn into_io(error: Error) -> io::Error {
    let kind = match &error {
        Error::Spill { source, .. } => source.kind(),
        Error::SpillLimit { .. } => io::ErrorKind::QuotaExceeded,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests;
