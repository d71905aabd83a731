//! [`SpillStore`]: where runs go that do not fit in memory.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Makes temporary files.
pub trait SpillStore: Send + Sync + fmt::Debug {
    /// An empty file.
    ///
    /// # Errors
    /// When there is no place for one.
    fn create(&self) -> io::Result<Box<dyn SpillFile>>;

    /// Where files are made: for errors.
    fn path(&self) -> &Path;
}

/// A temporary file. Dropped, it is gone, and its room on the disk is free.
///
/// It is written first, from its start to its end, and then read, by several threads at once.
pub trait SpillFile: Send + Sync + fmt::Debug {
    /// Adds bytes at the end: about a MiB at a time. They can be read once this has returned.
    ///
    /// # Errors
    /// When not all of them could be written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Fills `bytes` from a place, counted from the start of the file.
    ///
    /// # Errors
    /// When the file cannot be read, or ends before.
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

/// Temporary files in a directory, which have no names there: they end with the process, whatever ends it.
#[derive(Debug, Clone)]
pub struct TempDirSpill(PathBuf);

impl TempDirSpill {
    /// Files in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }
}

impl Default for TempDirSpill {
    /// Files where the system has temporary files.
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

/// What has been spilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpillStats {
    /// Temporary files.
    pub files: u64,
    /// Runs in them.
    pub runs: u64,
    /// Bytes in them.
    pub bytes: u64,
}
