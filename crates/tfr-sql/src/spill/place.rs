//! [`SpillPlace`]: the temporary directory of a run, which is created when the run needs it.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::TempDir;

use super::names::{GONE, LIVE, LOCK, PIPE, PREFIX, REJECTS, STANDARD_INPUT, TABLE, UNLOCKED};
use crate::error::{Error, Result};

/// Permissions of directories: only their user may look into them.
const PRIVATE_DIRECTORY: u32 = 0o700;

/// Permissions of files: only their user may read them.
const PRIVATE_FILE: u32 = 0o600;

/// The temporary directory of a run. Nothing is created before the run needs it, since most queries need none.
#[derive(Debug)]
pub struct SpillPlace {
    /// The parent directory, as the user named it.
    parent: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Nothing has needed the directory.
    Unused,
    Created(RunDirectory),
    /// The run has ended. Tasks of the engine may still be running.
    Ended,
}

impl SpillPlace {
    /// Describes a directory in `parent`.
    pub(super) fn new(parent: PathBuf) -> Self {
        Self { parent, state: Mutex::new(State::Unused) }
    }

    /// Returns the parent directory.
    pub(super) fn parent(&self) -> &Path {
        &self.parent
    }

    /// Returns the directory for the engine's files.
    pub(super) fn live(&self) -> Result<PathBuf> {
        Ok(self.directory()?.join(LIVE))
    }

    /// Returns the path for a table file that is uploaded later.
    pub(super) fn table(&self) -> Result<PathBuf> {
        Ok(self.directory()?.join(TABLE))
    }

    /// Creates the file for the copy of a pipe, or of standard input. Its path contains the pipe's name, because
    /// messages show it.
    pub fn create_input(&self, pipe: Option<&Path>) -> Result<(PathBuf, File)> {
        let name = match pipe {
            None => STANDARD_INPUT.to_owned(),
            Some(pipe) => format!("{PIPE}{}", pipe.display().to_string().trim_start_matches('/').replace('/', "-")),
        };
        let path = self.directory()?.join(name);
        let input = || pipe.map_or_else(|| STANDARD_INPUT.into(), Path::to_owned);
        let file = create_private(&path);
        let file = file.map_err(|source| Error::SpoolInput { input: input(), path: path.clone(), source })?;
        Ok((path, file))
    }

    /// Creates the file for the rejected rows of a partition.
    pub fn create_rejects(&self, partition: u32) -> Result<(PathBuf, File)> {
        let path = self.directory()?.join(format!("{REJECTS}{partition}"));
        match create_private(&path) {
            Ok(file) => Ok((path, file)),
            Err(source) => Err(Error::Write { path, source: source.into() }),
        }
    }

    /// Returns the directory, and creates it if necessary.
    pub(super) fn directory(&self) -> Result<PathBuf> {
        let mut state = self.state();
        let created = match &*state {
            State::Created(directory) => return Ok(directory.dir.path().to_owned()),
            State::Unused => RunDirectory::create(&self.parent),
            State::Ended => Err(io::Error::other("the run has ended")),
        };
        let directory = created.map_err(|source| Error::SpillDirectory { path: self.parent.clone(), source })?;
        let path = directory.dir.path().to_owned();
        *state = State::Created(directory);
        Ok(path)
    }

    /// Removes the directory. From here on, no task can create a file there.
    pub(super) fn end(&self) {
        if let State::Created(directory) = std::mem::replace(&mut *self.state(), State::Ended) {
            directory.remove();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory that exists.
#[derive(Debug)]
struct RunDirectory {
    dir: TempDir,
    /// `None` where the file system does not support locks. No other run then considers the directory dead.
    lock: Option<File>,
    /// Closed before directories are listed for removal, in case no more files can be opened.
    reserved: Vec<File>,
}

/// Number of files that are open while the directory is removed: itself, and the engine's directory twice.
const OPEN_AT_REMOVAL: usize = 3;

impl RunDirectory {
    fn create(parent: &Path) -> io::Result<Self> {
        if !fs::metadata(parent)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let permissions = Permissions::from_mode(PRIVATE_DIRECTORY);
        let dir = tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir_in(parent)?;
        let prepare = || {
            let lock = lock(dir.path())?;
            DirBuilder::new().mode(PRIVATE_DIRECTORY).create(dir.path().join(LIVE))?;
            let reserved = (0..OPEN_AT_REMOVAL).map(|_| File::open(dir.path())).collect::<io::Result<_>>()?;
            Ok((lock, reserved))
        };
        match prepare() {
            Ok((lock, reserved)) => Ok(Self { dir, lock, reserved }),
            Err(error) => {
                // Removed by name, without a listing, so that it works even if no more files can be opened.
                let _unremoved = fs::remove_dir(dir.path().join(LIVE));
                for name in [UNLOCKED, LOCK] {
                    let _unremoved = fs::remove_file(dir.path().join(name));
                }
                let _unremoved = fs::remove_dir(dir.path());
                Err(error)
            }
        }
    }

    /// Removes the directory. Whatever cannot be removed is left for the next run.
    fn remove(mut self) {
        self.reserved.clear();
        let path = self.dir.keep();
        // After the rename, no task can add a file during the removal.
        let removed = fs::rename(path.join(LIVE), path.join(GONE)).and_then(|()| remove_contents(&path));
        // Some file systems keep the file of an open lock, under another name.
        drop(self.lock);
        if removed.is_ok() {
            let _left = remove_lock(&path);
        }
    }
}

/// Removes everything but the lock. So if the removal is interrupted, the next run recognizes the rest.
pub(super) fn remove_contents(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if [LOCK, UNLOCKED].iter().any(|lock| entry.file_name() == *lock) {
            continue;
        }
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) }?;
    }
    Ok(())
}

/// Removes a directory that contains nothing but the lock.
pub(super) fn remove_lock(dir: &Path) -> io::Result<()> {
    for name in [LOCK, UNLOCKED] {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::remove_dir(dir)
}

/// Locks a new directory. The lock file gets its final name only after it is locked, so that no other run finds it
/// unlocked.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let unnamed = dir.join(UNLOCKED);
    let file = create_private(&unnamed)?;
    match file.try_lock() {
        Ok(()) => fs::rename(unnamed, dir.join(LOCK)).map(|()| Some(file)),
        Err(_) => Ok(None),
    }
}

/// Creates a file that only its user may read.
fn create_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(PRIVATE_FILE).open(path)
}
