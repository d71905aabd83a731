//! [`TableCommit`]: a table on its way to where readers look.
//!
//! As with shard sets (see `tfrecord_shards`), what is written lies in `.tfr-<run>-<name>` beside the target, a directory
//! that is locked while the run lives, until one rename makes it visible. There is no manifest; what an earlier run may
//! have written to a directory is known by its names.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tfrecord_shards::{Leftover, RunId, SUCCESS_NAME, SaveMode, guarded, leftovers};

use crate::cli::TableTarget;
use crate::error::{Error, Result};

/// Names that a message shows.
const NAMES_SHOWN: usize = 3;

/// A table on its way to where readers look. What is staged is removed when this is dropped.
#[derive(Debug)]
pub struct TableCommit {
    target: TableTarget,
    /// The target's path without links.
    out: PathBuf,
    mode: SaveMode,
    run: RunId,
    leftovers: Vec<Leftover>,
    staging: PathBuf,
    /// Directories made on the way to the staging directory, outermost first.
    made: Vec<PathBuf>,
    /// The lock that says that this run lives.
    _lock: File,
}

impl TableCommit {
    /// Checks that the target may be written to, and makes the staging directory. `inputs` are what the rows come from.
    pub fn begin(target: &TableTarget, mode: SaveMode, inputs: &[PathBuf]) -> Result<Self> {
        let out = guarded(&target.path, inputs)?;
        inspect(&out, target, mode)?;
        let leftovers = leftovers(&out)?;
        let run = RunId::new();
        let (Some(parent), Some(name)) = (out.parent(), out.file_name()) else {
            return Err(Error::Stage { path: out, source: io::ErrorKind::InvalidInput.into() });
        };
        let mut hidden = OsString::from(format!(".tfr-{run}-"));
        hidden.push(name);
        let staging = parent.join(hidden);
        let mut made = Vec::new();
        let lock = make_with_parents(&staging, &mut made).map_err(|source| {
            remove_if_empty(&made);
            Error::Stage { path: staging.clone(), source }
        })?;
        Ok(Self { target: target.clone(), out, mode, run, leftovers, staging, made, _lock: lock })
    }

    /// What earlier runs have left behind, and others are at.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.leftovers
    }

    /// The run that writes the table.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Where file `index` of `total` is to be created, and what it is called in messages.
    pub fn file(&self, index: usize, total: usize) -> (PathBuf, PathBuf) {
        if !self.target.is_directory {
            return (self.staging.join(self.file_name()), self.target.path.clone());
        }
        let name = format!("part-{index:05}-of-{total:05}.{}", self.target.suffix());
        (self.staging.join(&name), self.target.path.join(name))
    }

    fn file_name(&self) -> OsString {
        self.out.file_name().map(OsString::from).unwrap_or_default()
    }

    /// Lets readers see the table, all files of it closed and synced before.
    pub fn publish(self) -> Result<()> {
        let published = match self.target.is_directory {
            true => self.publish_directory(),
            false => self.publish_file(),
        };
        published.map_err(|failed| match failed {
            Failed::Refused(error) => error,
            Failed::Io(source) => Error::Publish { path: self.target.path.clone(), source },
        })?;
        if self.mode == SaveMode::Overwrite {
            for leftover in self.leftovers.iter().filter(|leftover| !leftover.live) {
                // What cannot be removed now is told of by the next run.
                let _unremoved = remove_ours(&leftover.path, &self.file_name());
            }
        }
        Ok(())
    }

    fn publish_file(&self) -> Result<(), Failed> {
        let staged = self.staging.join(self.file_name());
        match self.mode {
            SaveMode::Overwrite => {
                keep_permissions(&self.out, &staged)?;
                fs::rename(&staged, &self.out)?;
            }
            // Somebody may have made it since it was looked for.
            _ => match renameat_with(CWD, &staged, CWD, &self.out, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => return Err(self.refused()),
                Err(error) if is_unsupported(error) => {
                    inspect(&self.out, &self.target, self.mode).map_err(Failed::Refused)?;
                    fs::rename(&staged, &self.out)?;
                }
                renamed => renamed.map_err(io::Error::from)?,
            },
        }
        Ok(self.sync_names()?)
    }

    fn publish_directory(&self) -> Result<(), Failed> {
        File::create_new(self.staging.join(SUCCESS_NAME))?.sync_all()?;
        sync(&self.staging)?;
        let old = inspect(&self.out, &self.target, self.mode).map_err(Failed::Refused)?;
        keep_permissions(&self.out, &self.staging)?;
        if !old {
            return match fs::rename(&self.staging, &self.out) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Err(self.refused()),
                renamed => Ok(renamed.and_then(|()| self.sync_names())?),
            };
        }
        match renameat_with(CWD, &self.staging, CWD, &self.out, RenameFlags::EXCHANGE) {
            Err(error) if is_unsupported(error) => self.replace_by_two_renames()?,
            exchanged => exchanged.map_err(io::Error::from)?,
        }
        self.sync_names()?;
        // From here on the staging directory holds what was replaced. What cannot be removed is told of by the next run.
        let _unremoved = remove_ours(&self.staging, &self.file_name());
        Ok(())
    }

    /// Where directories cannot be exchanged.
    fn replace_by_two_renames(&self) -> io::Result<()> {
        let mut aside = OsString::from(format!(".tfr-{}.replaced-", self.run));
        aside.push(self.file_name());
        let aside = self.out.with_file_name(aside);
        fs::rename(&self.out, &aside)?;
        if let Err(error) = fs::rename(&self.staging, &self.out) {
            fs::rename(&aside, &self.out)?;
            return Err(error);
        }
        // Removed with the staging directory.
        fs::rename(&aside, &self.staging)
    }

    fn refused(&self) -> Failed {
        Failed::Refused(Error::OutputExists { path: self.target.path.clone() })
    }

    /// Syncs the directories that have come to hold a new name.
    fn sync_names(&self) -> io::Result<()> {
        self.made.iter().chain([&self.out]).filter_map(|path| path.parent()).try_for_each(sync)
    }
}

impl Drop for TableCommit {
    fn drop(&mut self) {
        // After an overwrite of a directory, only what is ours has been removed from what is there now.
        let _unremoved = remove_ours(&self.staging, &self.file_name());
        remove_if_empty(&self.made);
    }
}

/// Why a table was not published.
enum Failed {
    Refused(Error),
    Io(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Whether something is there that will be replaced.
fn inspect(out: &Path, target: &TableTarget, mode: SaveMode) -> Result<bool> {
    let at = |source| Error::Inspect { path: target.path.clone(), source };
    let metadata = match fs::metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        metadata => metadata.map_err(at)?,
    };
    let found = match metadata.file_type() {
        found if found.is_dir() => "a directory",
        found if found.is_file() => "a file",
        _ => "something else",
    };
    let expected = if target.is_directory { "a directory" } else { "a file" };
    if found != expected {
        return Err(Error::OtherKind { path: target.path.clone(), expected, found });
    }
    if target.is_directory {
        let names = names_in(out).map_err(at)?;
        if names.is_empty() {
            return Ok(false);
        }
        let mut foreign: Vec<_> = names.into_iter().filter(|name| !is_part_name(name)).collect();
        if mode == SaveMode::Overwrite && !foreign.is_empty() {
            foreign.truncate(NAMES_SHOWN);
            return Err(Error::ForeignFiles { path: target.path.clone(), files: foreign });
        }
    }
    match mode {
        SaveMode::Overwrite => Ok(true),
        _ => Err(Error::OutputExists { path: target.path.clone() }),
    }
}

fn names_in(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<_> = entries.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// Whether a file of this name in a directory is one that a run has put there: `part-00000-of-00004.parquet`.
fn is_part_name(name: &str) -> bool {
    let parse = || {
        let (index, rest) = name.strip_prefix("part-")?.split_once("-of-")?;
        let (total, suffix) = rest.split_once('.')?;
        let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_known = ["parquet", "csv", "json", "jsonl", "arrow"].contains(&suffix.trim_end_matches(".gz"));
        Some(is_number(index) && is_number(total) && is_known)
    };
    name == SUCCESS_NAME || parse().unwrap_or(false)
}

/// Removes from a directory what runs put into one, the file called `name` included, and the directory if that was all.
fn remove_ours(dir: &Path, name: &OsString) -> io::Result<()> {
    for found in fs::read_dir(dir)? {
        let found = found?;
        if found.file_name() == *name || found.file_name().to_str().is_some_and(is_part_name) {
            fs::remove_file(found.path())?;
        }
    }
    fs::remove_dir(dir)
}

/// Makes a staging directory, its parents where they are missing, and locks it.
fn make_with_parents(staging: &Path, made: &mut Vec<PathBuf>) -> io::Result<File> {
    let missing: Vec<_> = staging.ancestors().skip(1).take_while(|dir| !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        match fs::create_dir(dir) {
            // Another run was quicker.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result.map(|()| made.push(dir.to_owned()))?,
        }
    }
    fs::create_dir(staging)?;
    let lock = File::open(staging)?;
    // Where the file system has no locks, others will take this run for a live one, which errs on the safe side.
    let _ = lock.try_lock();
    Ok(lock)
}

/// Removes directories, innermost first, as far as nobody has put anything in them.
fn remove_if_empty(made: &[PathBuf]) {
    for dir in made.iter().rev() {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

/// Lets the new one be open to whom the old one was.
fn keep_permissions(old: &Path, new: &Path) -> io::Result<()> {
    match fs::metadata(old) {
        Ok(old) => fs::set_permissions(new, old.permissions()),
        Err(_) => Ok(()),
    }
}

/// What kernels and file systems answer that do not know a flag of `renameat2`.
fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::INVAL | Errno::NOTSUP)
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
