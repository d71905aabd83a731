//! [`SpillDirectory`]: the temporary files of a run.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::{Error, Result};

/// Prefix of the directory names.
const PREFIX: &str = "tfr-sql-";

/// The file that a run keeps locked. The system releases the lock when the run dies.
const LOCK: &str = "lock";

/// Its name before it is locked.
const UNLOCKED: &str = "unlocked";

/// The directory for the engine's files.
const LIVE: &str = "live";

/// Its name after the run has ended.
const GONE: &str = "gone";

/// The copy of standard input. Messages show this name.
const STANDARD_INPUT: &str = "standard input";

/// Prefix of the names of copies of pipes.
const PIPE: &str = "pipe ";

/// A table file that is uploaded when complete.
const TABLE: &str = "table";

/// A temporary directory of one run. It is removed when the run ends, even if tasks of the engine are still running.
///
/// The engine removes its files when the last task that uses them ends, and after Ctrl-C or an error tasks are not
/// waited for. The next run with the same parent directory removes the leftovers of killed runs.
#[derive(Debug)]
pub struct SpillDirectory {
    dir: TempDir,
    /// `None` where the file system does not support locks. No other run then considers the directory dead.
    _lock: Option<File>,
    /// Closed before directories are listed for removal, in case no more files can be opened.
    reserved: Vec<File>,
}

/// Depth of the directories: this one, the engine's, and those that the engine creates there.
const DEPTH: usize = 3;

impl SpillDirectory {
    /// Creates the directory in `parent`, which must exist, or in the system's temporary directory. Removes the
    /// leftovers of killed runs.
    pub fn create(parent: Option<&Path>) -> Result<Self> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let dir = match fs::metadata(&parent) {
            Ok(metadata) if !metadata.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
            Ok(_) => tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent),
            Err(error) => Err(error),
        };
        let made = dir.and_then(|dir| {
            let locked = lock(dir.path()).and_then(|lock| {
                let reserved = (0..DEPTH).map(|_| File::open(dir.path())).collect::<io::Result<_>>()?;
                Ok((lock, reserved))
            });
            match locked {
                Ok((lock, reserved)) => Ok(Self { dir, _lock: lock, reserved }),
                Err(error) => {
                    // Removed by name, without a listing, so that it works even if no more files can be opened.
                    for name in [UNLOCKED, LOCK] {
                        let _unremoved = fs::remove_file(dir.path().join(name));
                    }
                    let _unremoved = fs::remove_dir(dir.path());
                    Err(error)
                }
            }
        });
        let made = made.map_err(|source| Error::SpillDirectory { path: parent.clone(), source })?;
        remove_leftovers(&parent, made.dir.path());
        Ok(made)
    }

    /// Returns the directory for the engine's files.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join(LIVE)
    }

    /// Returns the path for a table file that is uploaded later.
    pub fn table(&self) -> PathBuf {
        self.dir.path().join(TABLE)
    }

    /// Returns the path for the copy of a pipe, or of standard input. It contains the pipe's name, because messages show
    /// it.
    pub fn input(&self, pipe: Option<&Path>) -> PathBuf {
        let name = match pipe {
            None => STANDARD_INPUT.to_owned(),
            Some(pipe) => format!("{PIPE}{}", pipe.display().to_string().trim_start_matches('/').replace('/', "-")),
        };
        self.dir.path().join(name)
    }
}

impl Drop for SpillDirectory {
    fn drop(&mut self) {
        self.reserved.clear();
        // After the rename, no task can add a file during the removal. It fails if nothing was spilled.
        let _ = fs::rename(self.path(), self.dir.path().join(GONE));
    }
}

/// Locks a new directory. The lock file gets its final name only after it is locked, so that no other run finds it
/// unlocked.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let unnamed = dir.join(UNLOCKED);
    let file = File::create_new(&unnamed)?;
    match file.try_lock() {
        Ok(()) => fs::rename(unnamed, dir.join(LOCK)).map(|()| Some(file)),
        Err(_) => Ok(None),
    }
}

/// Removes the leftovers of killed runs in `parent`, except for `own`. Errors are ignored, since leftovers do no harm.
fn remove_leftovers(parent: &Path, own: &Path) {
    let (Ok(entries), Ok(mine)) = (fs::read_dir(parent), fs::symlink_metadata(own)) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if !entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) || path == own {
            continue;
        }
        let is_mine = |found: fs::Metadata| found.is_dir() && found.uid() == mine.uid();
        if fs::symlink_metadata(&path).is_ok_and(is_mine) && remove_if_dead(&path).unwrap_or(false) {
            log::info!("{}: removed, left by a run that was killed", path.display());
        }
    }
}

/// Removes the directory of a run if the run created it, locked it and is dead.
fn remove_if_dead(dir: &Path) -> io::Result<bool> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    let is_ours = |name: &OsStr| {
        [LOCK, LIVE, GONE, STANDARD_INPUT, TABLE].iter().any(|ours| name == *ours)
            || name.as_encoded_bytes().starts_with(PIPE.as_bytes())
    };
    if !names.iter().all(|name| is_ours(name)) || !names.iter().any(|name| name == LOCK) {
        return Ok(false);
    }
    let lock = File::open(dir.join(LOCK))?;
    if lock.try_lock().is_err() {
        return Ok(false);
    }
    // The lock file is removed last: if this run is killed meanwhile, the next run still recognizes the rest.
    for name in names.iter().filter(|name| *name != LOCK) {
        let path = dir.join(name);
        if fs::symlink_metadata(&path)?.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    fs::remove_file(dir.join(LOCK))?;
    fs::remove_dir(dir)?;
    Ok(true)
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
        let mut file = File::create_new(held.path().join("rows")).unwrap();
        drop(spill);
        file.write_all(b"more").unwrap();
        assert!(File::create_new(held.path().join("more rows")).is_err());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_the_dead_have_left_goes_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[&str]| {
            let dir = parent.path().join(name);
            for file in files {
                let file = dir.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "x").unwrap();
            }
        };
        make("tfr-sql-dead00", &["lock", "live/datafusion-x/rows", "standard input", "pipe dev-fd-5"]);
        make("tfr-sql-dead01", &["lock", "gone/rows"]);
        make("tfr-sql-dead02", &["lock"]);
        // Not known to have been locked, with files of others, of another name.
        make("tfr-sql-backup", &["live/rows"]);
        make("tfr-sql-notes0", &["lock", "notes.txt"]);
        make("other", &["lock"]);
        let alive = SpillDirectory::create(Some(parent.path())).unwrap();
        let names = || -> Vec<_> {
            let entries = fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().path());
            let mut names: Vec<_> = entries.filter(|path| path != alive.dir.path()).collect();
            names.sort();
            names
        };
        let expected = ["other", "tfr-sql-backup", "tfr-sql-notes0"].map(|name| parent.path().join(name));
        assert_eq!(names(), expected);
        let another = SpillDirectory::create(Some(parent.path())).unwrap();
        assert!(alive.dir.path().join(LOCK).exists());
        drop(another);
        assert_eq!(names(), expected);
    }
}
