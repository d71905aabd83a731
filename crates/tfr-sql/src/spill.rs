//! [`SpillDirectory`]: the place on disk for what does not fit into memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::{Error, Result};

/// A directory of this run alone, which goes with it, whatever the engine's tasks still do.
///
/// The engine removes its files when the last task that knows them ends, and after Ctrl-C or an error tasks are not
/// waited for.
#[derive(Debug)]
pub struct SpillDirectory {
    dir: TempDir,
}

impl SpillDirectory {
    /// Makes the directory in `parent`, which must be there, or where the system puts such things.
    pub fn create(parent: Option<&Path>) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let dir = match fs::metadata(&parent) {
            Ok(metadata) if !metadata.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
            Ok(_) => tempfile::Builder::new().prefix("tfr-sql-").tempdir_in(&parent),
            Err(error) => Err(error),
        };
        dir.map(|dir| Self { dir }).map_err(|source| Error::SpillDirectory { path: parent, source })
    }

    /// Where the engine may put files.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("live")
    }

    /// Where a copy of standard input may be put; its name is what messages say of it.
    pub fn standard_input(&self) -> PathBuf {
        self.dir.path().join("standard input")
    }
}

impl Drop for SpillDirectory {
    fn drop(&mut self) {
        // Under another name no task can add a file while the directory is being removed. Nothing was spilled if there is
        // none.
        let _ = fs::rename(self.path(), self.dir.path().join("gone"));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_task_that_goes_on_keeps_nothing_there() {
        let parent = tempfile::tempdir().unwrap();
        let spill = SpillDirectory::create(Some(parent.path())).unwrap();
        fs::create_dir(spill.path()).unwrap();
        // As the engine's: a directory that a task holds, with a file that is being written.
        let held = TempDir::new_in(spill.path()).unwrap();
        let mut file = fs::File::create_new(held.path().join("rows")).unwrap();
        drop(spill);
        file.write_all(b"more").unwrap();
        assert!(fs::File::create_new(held.path().join("more rows")).is_err());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
