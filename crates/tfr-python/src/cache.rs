//! [`Cache`]: parts of remote files in a local directory, which several processes share.
//!
//! A part is a file whose name has a hash of the store, the key and the version of the object, and the number of the part.
//! So a part that exists is whole, and never of another version:
//!
//! - Bytes are written to a temporary file, which is renamed when all of them are there.
//! - Whoever writes a temporary file has locked it. Others wait for the lock, and then find the part.
//! - A killed process loses its lock. The next one writes the file from its start.
//! - The parts that were used longest ago are removed. Whoever has opened one reads it to its end.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// The ending of a temporary file.
const UNFINISHED: &str = ".unfinished";

/// The number of hexadecimal digits in the name of a part, before its number.
const HASH_LEN: usize = 64;

/// The file that is locked while parts are counted and removed.
const LOCK: &str = ".lock";

/// How often a wait for another process looks again.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long a temporary file that nobody writes is kept.
const KEPT: Duration = Duration::from_secs(60);

/// A directory of parts.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    /// Most bytes of all parts.
    size: u64,
}

/// A part that is in the cache, or is to be written.
pub(crate) enum Part {
    Found(File),
    Missing(NewPart),
}

/// A part that is being written, and is locked.
pub(crate) struct NewPart {
    file: File,
    unfinished: PathBuf,
    path: PathBuf,
    is_written: bool,
}

impl Cache {
    /// Opens a cache, and creates its directory. Its owner alone can read it.
    pub(crate) fn open(directory: &Path, size: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Ok(Self { directory: directory.to_owned(), size })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns a part of `len` bytes, or a place to write it. Waits while another thread or process writes it, until
    /// `is_stopped`.
    pub(crate) fn part(&self, name: &str, len: u64, is_stopped: &dyn Fn() -> bool) -> io::Result<Part> {
        let path = self.directory.join(name);
        let unfinished = self.directory.join(format!("{name}{UNFINISHED}"));
        loop {
            if let Some(found) = opened(&path, len)? {
                return Ok(Part::Found(found));
            }
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&unfinished)?;
            if !lock(&file, is_stopped)? {
                return Err(stopped());
            }
            // It may have become the part meanwhile, or was removed.
            if !is_at(&file, &unfinished)? {
                continue;
            }
            if let Some(found) = opened(&path, len)? {
                fs::remove_file(&unfinished)?;
                return Ok(Part::Found(found));
            }
            let new = NewPart { file, unfinished, path, is_written: false };
            self.make_room(len, &new, is_stopped)?;
            return Ok(Part::Missing(new));
        }
    }

    /// Removes parts until there is room for `len` more bytes, and reserves them for a new part.
    fn make_room(&self, len: u64, new: &NewPart, is_stopped: &dyn Fn() -> bool) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let one = options.write(true).create(true).truncate(false).mode(0o600).open(self.directory.join(LOCK))?;
        if !lock(&one, is_stopped)? {
            return Err(stopped());
        }
        let mut parts = Vec::new();
        let mut total = len;
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            // Another process may have renamed it.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let Some(is_unfinished) = unfinished_part(&path).filter(|_| metadata.is_file() && path != new.unfinished)
            else {
                continue;
            };
            let used = metadata.modified()?;
            if is_unfinished && remove_left(&path, used)? {
                continue;
            }
            total = total.saturating_add(metadata.len());
            if !is_unfinished {
                parts.push((used, path, metadata.len()));
            }
        }
        parts.sort();
        for (_, path, removed) in parts {
            if total <= self.size {
                break;
            }
            remove(&path)?;
            total -= removed;
        }
        // Others count its length.
        new.file.set_len(0)?;
        new.file.set_len(len)
    }
}

impl NewPart {
    /// Writes the part, and returns it.
    pub(crate) fn write(mut self, bytes: &[u8]) -> io::Result<File> {
        self.file.write_all(bytes)?;
        fs::rename(&self.unfinished, &self.path)?;
        self.is_written = true;
        // Whoever waits for the lock finds the part.
        self.file.unlock()?;
        self.file.try_clone()
    }
}

impl Drop for NewPart {
    fn drop(&mut self) {
        if !self.is_written {
            // It is still locked. Whoever waits creates another one.
            let _left = fs::remove_file(&self.unfinished);
        }
    }
}

/// Opens a part that exists, which is now the one that was used last. One of another length was damaged, and is removed.
fn opened(path: &Path, len: u64) -> io::Result<Option<File>> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if file.metadata()?.len() != len {
        remove(path)?;
        return Ok(None);
    }
    file.set_modified(SystemTime::now())?;
    Ok(Some(file))
}

/// Whether the file at `path` is this one.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let file = file.metadata()?;
    Ok(fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino())))
}

/// Whether a part is a temporary file; `None` for files of others, which stay.
fn unfinished_part(path: &Path) -> Option<bool> {
    let name = path.file_name()?.to_str()?;
    let part = name.strip_suffix(UNFINISHED);
    let (hash, number) = part.unwrap_or(name).split_once('-')?;
    let is_hash = hash.len() == HASH_LEN && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(part.is_some())
}

/// Removes a temporary file if it is that of a process that has ended.
fn remove_left(path: &Path, used: SystemTime) -> io::Result<bool> {
    let is_old = SystemTime::now().duration_since(used).is_ok_and(|age| age > KEPT);
    let Some(file) = is_old.then(|| File::open(path).ok()).flatten() else { return Ok(false) };
    // Whoever waits for the lock then finds that it was removed.
    let is_left = file.try_lock().is_ok();
    if is_left {
        remove(path)?;
    }
    Ok(is_left)
}

/// Removes a file that another process may have removed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Waits for the lock of a file; false if stopped before.
fn lock(file: &File, is_stopped: &dyn Fn() -> bool) -> io::Result<bool> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if is_stopped() => return Ok(false),
            Err(TryLockError::WouldBlock) => thread::sleep(INTERVAL),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("stopped")
}
