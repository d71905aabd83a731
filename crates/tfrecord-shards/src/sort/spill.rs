//! [`SpillStore`]: storage for runs that do not fit in memory.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Creates temporary files.
pub trait SpillStore: Send + Sync + fmt::Debug {
    /// Creates an empty file.
    ///
    /// # Errors
    /// If there is no room for one.
    fn create(&self) -> io::Result<Box<dyn SpillFile>>;

    /// Returns the location of the files, for error messages.
    fn path(&self) -> &Path;
}

/// A temporary file. Dropping it deletes it and frees its disk space.
///
/// It is first written from start to end, and then read by several threads in parallel.
pub trait SpillFile: Send + Sync + fmt::Debug {
    /// Appends bytes, about a MiB at a time. They can be read once this has returned.
    ///
    /// # Errors
    /// If not all of them could be written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Fills `bytes` from an offset in the file.
    ///
    /// # Errors
    /// If the file cannot be read, or ends before.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

impl SpillFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }
}

/// Temporary files in a directory, without names there. They are deleted when the process ends for any reason.
#[derive(Debug, Clone)]
pub struct TempDirSpill(PathBuf);

impl TempDirSpill {
    /// Creates files in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }
}

impl Default for TempDirSpill {
    /// Creates files in the system's directory for temporary files.
    fn default() -> Self {
        Self(std::env::temp_dir())
    }
}

impl SpillStore for TempDirSpill {
    fn create(&self) -> io::Result<Box<dyn SpillFile>> {
        Ok(Box::new(tempfile::tempfile_in(&self.0)?))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

/// Totals of the spilled data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpillStats {
    /// Number of temporary files.
    pub files: u64,
    /// Number of runs in them.
    pub runs: u64,
    /// Number of bytes in them.
    pub bytes: u64,
}
