//! [`SpillStore`]: storage for runs that do not fit in memory.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Creates temporary files.
pub trait SpillStore: Send + Sync + fmt::Debug {
    /// Creates an empty file.
    ///
    /// # Errors
    /// If there is no room for one.
    fn create(&self) -> io::Result<Box<dyn SpillFile>>;

    /// Opens a file that another process [shared](SpillFile::share), for reading. Dropping it does not delete it.
    ///
    /// # Errors
    /// If there is no file of this name and length, or the store's files cannot be shared.
    fn open(&self, name: &str, len: u64) -> io::Result<Box<dyn SpillFile>> {
        let _ = (name, len);
        Err(io::ErrorKind::Unsupported.into())
    }

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

    /// Makes sure that other processes can read the file, also after this process has ended. Returns its name in the
    /// store.
    ///
    /// # Errors
    /// If not all bytes can be stored, or the store's files cannot be shared.
    fn share(&self) -> io::Result<&str> {
        Err(io::ErrorKind::Unsupported.into())
    }
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

/// Named files in a directory that several processes read. They are kept until somebody removes them.
#[derive(Debug)]
pub struct DirectorySpill {
    dir: PathBuf,
    prefix: String,
    next: AtomicU32,
}

/// A file of a [`DirectorySpill`].
#[derive(Debug)]
struct NamedFile {
    file: File,
    name: String,
}

impl DirectorySpill {
    /// Creates files in this directory, named `<prefix>-<number>.run`. No other process may use the same prefix.
    pub fn new(dir: impl Into<PathBuf>, prefix: impl Into<String>) -> Self {
        Self { dir: dir.into(), prefix: prefix.into(), next: AtomicU32::new(0) }
    }
}

impl SpillStore for DirectorySpill {
    fn create(&self) -> io::Result<Box<dyn SpillFile>> {
        let name = format!("{}-{:05}.run", self.prefix, self.next.fetch_add(1, Ordering::Relaxed));
        let file = File::options().create_new(true).read(true).write(true).open(self.dir.join(&name))?;
        Ok(Box::new(NamedFile { file, name }))
    }

    fn open(&self, name: &str, len: u64) -> io::Result<Box<dyn SpillFile>> {
        // The name is from a file, and must not lead out of the directory.
        if Path::new(name).file_name() != Some(name.as_ref()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name:?} is not the name of a file")));
        }
        let of_file = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
        let file = File::open(self.dir.join(name)).map_err(of_file)?;
        let found = file.metadata()?.len();
        if found != len {
            let problem = format!("{name}: expected {len} bytes, found {found}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        Ok(Box::new(NamedFile { file, name: name.to_owned() }))
    }

    fn path(&self) -> &Path {
        &self.dir
    }
}

impl SpillFile for NamedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&self.file, bytes, offset)
    }

    fn share(&self) -> io::Result<&str> {
        self.file.sync_all()?;
        Ok(&self.name)
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
