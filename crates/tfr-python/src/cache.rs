//! [`Cache`]: parts of remote files in a local directory, which several processes share.
//!
//! A part is a file whose name has a hash of the store, the key and the version of the object, and the number of the part.
//! So a part that exists is whole, and never of another version:
//!
//! - Bytes are written to a temporary file, which is renamed when all of them are there.
//! - Whoever writes a temporary file has locked it. Others wait for the lock, and then find the part.
//! - A killed process loses its lock. The next one writes the file from its start.
//! - A forked process has the files open that its parent has locked. So locks are released, not left to the end of the file.
//! - The directory is of this user alone, since whoever writes in it could put other bytes in the place of a part.
//! - The parts that were used longest ago are removed. Whoever has opened one reads it to its end.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use crate::error::{Failure, Result};

/// The ending of a temporary file.
const UNFINISHED: &str = ".unfinished";

/// The number of hexadecimal digits in the name of a part, before its number.
const HASH_LEN: usize = 64;

/// The file that is locked while parts are counted and removed.
const LOCK: &str = ".lock";

/// How often a wait for another process looks again.
const INTERVAL: Duration = Duration::from_millis(5);

/// The permissions that let others write.
const OF_OTHERS: u32 = 0o022;

/// What to do about a directory that cannot be used.
pub(crate) const CACHE_HINT: &str = "Pass cache= with a directory of a local disk that has room for cache_size=.";

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
    lock: Lock,
    unfinished: PathBuf,
    path: PathBuf,
    is_written: bool,
}

impl Cache {
    /// Opens a cache, and creates its directory. Its owner alone can read it. Refuses one that others can write to.
    pub(crate) fn open(directory: &Path, size: u64) -> Result<Self> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        let checked = created.and_then(|()| problem(directory));
        match checked.map_err(|error| Failure::io(directory, "create the cache", error).with_hint(CACHE_HINT))? {
            None => Ok(Self { directory: directory.to_owned(), size }),
            Some(problem) => {
                let text = format!("{}: not used as the cache: {problem}", directory.display());
                let hint = "Pass cache= with a new directory, or one that nobody else may write to (chmod go-w).";
                Err(Failure::usage(text).with_hint(hint))
            }
        }
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
            // It may become the part meanwhile, or be removed.
            let Some(lock) = Lock::wait(&unfinished, is_stopped)? else { continue };
            if let Some(found) = opened(&path, len)? {
                fs::remove_file(&unfinished)?;
                return Ok(Part::Found(found));
            }
            let new = NewPart { lock, unfinished, path, is_written: false };
            self.make_room(len, &new, is_stopped)?;
            return Ok(Part::Missing(new));
        }
    }

    /// Removes parts until there is room for `len` more bytes, and reserves them for a new part.
    fn make_room(&self, len: u64, new: &NewPart, is_stopped: &dyn Fn() -> bool) -> io::Result<()> {
        let path = self.directory.join(LOCK);
        let _one = loop {
            // It may be removed meanwhile.
            if let Some(lock) = Lock::wait(&path, is_stopped)? {
                break lock;
            }
        };
        let mut parts = Vec::new();
        let mut total = len;
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            // Another process may have renamed it.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
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
        new.lock.0.set_len(0)?;
        new.lock.0.set_len(len)
    }
}

impl NewPart {
    /// Writes the part, and returns it.
    pub(crate) fn write(mut self, bytes: &[u8]) -> io::Result<File> {
        (&self.lock.0).write_all(bytes)?;
        // After a loss of power, a file that was renamed can lack its bytes, and have its length.
        self.lock.0.sync_data()?;
        fs::rename(&self.unfinished, &self.path)?;
        self.is_written = true;
        // Whoever waits for the lock, which ends now, finds the part.
        self.lock.0.try_clone()
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

/// A file that is locked.
struct Lock(File);

impl Lock {
    /// Opens and locks the file at a path, which need not exist. Waits while another thread or process has locked it, until
    /// `is_stopped`. `None` if the file is no longer there then.
    fn wait(path: &Path, is_stopped: &dyn Fn() -> bool) -> io::Result<Option<Self>> {
        let file = options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        loop {
            match file.try_lock() {
                Ok(()) => {
                    let lock = Self(file);
                    return Ok(is_at(&lock.0, path)?.then_some(lock));
                }
                Err(TryLockError::WouldBlock) if is_stopped() => return Err(stopped()),
                Err(TryLockError::WouldBlock) if !is_at(&file, path)? => return Ok(None),
                Err(TryLockError::WouldBlock) => thread::sleep(INTERVAL),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A process that was forked meanwhile has the file open, too, and would keep the lock.
        let _released = self.0.unlock();
    }
}

/// Returns options that follow no link.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Returns why a directory is not that of a cache: others can write to it.
fn problem(directory: &Path) -> io::Result<Option<String>> {
    let metadata = fs::metadata(directory)?;
    if metadata.mode() & OF_OTHERS != 0 {
        return Ok(Some(format!("other users may write to it (mode {:03o})", metadata.mode() & 0o777)));
    }
    // Whom files of this process belong to, also where the file system has other users than the process.
    let mut options = options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let user = options.open(directory.join(LOCK))?.metadata()?.uid();
    let owner = metadata.uid();
    Ok((owner != user).then(|| format!("it belongs to the user {owner}, and files of this process to {user}")))
}

/// Opens a part that exists, which is now the one that was used last. One of another length was damaged, and is removed.
fn opened(path: &Path, len: u64) -> io::Result<Option<File>> {
    let file = match options().read(true).write(true).open(path) {
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
    Ok(fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino())))
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
    let Some(file) = is_old.then(|| options().read(true).open(path).ok()).flatten() else { return Ok(false) };
    if file.try_lock().is_err() {
        return Ok(false);
    }
    let lock = Lock(file);
    // It may have become a part meanwhile, and another process may write a new one.
    let is_left = is_at(&lock.0, path)?;
    if is_left {
        // Whoever waits for the lock then finds that it was removed.
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

fn stopped() -> io::Error {
    io::Error::other("stopped")
}
