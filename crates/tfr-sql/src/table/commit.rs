//! [`TableCommit`]: stages and publishes a table.
//!
//! As with shard sets (see `tfrecord_shards`), files are written to the staging directory `.tfr-<run>-<name>` next to
//! the target. It is locked while the run lives, and one rename makes it visible. There is no manifest: the output of
//! an earlier run in a directory is recognized by file names.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tfrecord_shards::{
    Leftover, RunId, SUCCESS_NAME, SaveMode, TableStaging, guarded, is_table_part, leftovers, remove_leftovers,
};

use crate::cli::TableTarget;
use crate::error::{Error, Explanation, Result};

/// Maximum number of names in a message.
const NAMES_SHOWN: usize = 3;

/// A table that is not published yet. Dropping it removes the staged files.
#[derive(Debug)]
pub struct TableCommit {
    target: TableTarget,
    /// The target's path, with symbolic links resolved.
    out: PathBuf,
    mode: SaveMode,
    run: RunId,
    staging: TableStaging,
}

impl TableCommit {
    /// Checks that the target may be written, and creates the staging directory. `inputs` are the inputs of the query.
    /// `found` is called with the leftovers of earlier runs and the staging of concurrent runs, even if the target is
    /// rejected.
    pub fn begin(
        target: &TableTarget,
        mode: SaveMode,
        inputs: &[PathBuf],
        found: impl FnMut(Leftover),
    ) -> Result<Self> {
        let out = guarded(&target.path, inputs)?;
        leftovers(&out)?.into_iter().for_each(found);
        inspect(&out, target, mode)?;
        let run = RunId::new();
        let staging = TableStaging::create(&out, &run)?;
        Ok(Self { target: target.clone(), out, mode, run, staging })
    }

    /// Returns the run that writes the table.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the path of file `index` of `total`, and its name in messages.
    pub fn file(&self, index: usize, total: usize) -> (PathBuf, PathBuf) {
        if !self.target.is_directory {
            return (self.staging.path().join(self.file_name()), self.target.path.clone());
        }
        let name = format!("part-{index:05}-of-{total:05}.{}", self.target.suffix());
        (self.staging.path().join(&name), self.target.path.join(name))
    }

    fn file_name(&self) -> OsString {
        self.out.file_name().map(OsString::from).unwrap_or_default()
    }

    /// Publishes the table. All of its files must have been closed and synced.
    pub fn publish(self) -> Result<()> {
        let published = match self.target.is_directory {
            true => self.publish_directory(),
            false => self.publish_file(),
        };
        published.map_err(|failed| match failed {
            Failed::Refused(error) => error,
            Failed::Io(source) => Error::Publish { path: self.target.path.clone(), source },
        })?;
        // The table is published, even if a later step fails.
        let synced = self.staging.sync_names();
        if let Err(error) = self.staging.remove_files().and_then(|()| self.remove_leftovers()) {
            let error = Explanation::of(&error).causes.join(": ");
            log::warn!("{}: written, but not all that it replaces is gone: {error}", self.target.path.display());
        }
        synced.map_err(|source| Error::AfterPublish { path: self.target.path.clone(), source })
    }

    /// Removes the leftovers of killed runs, where the table replaces an earlier one.
    fn remove_leftovers(&self) -> tfrecord_shards::Result<()> {
        match self.mode {
            SaveMode::Overwrite => remove_leftovers(&self.out).map(drop),
            _ => Ok(()),
        }
    }

    fn publish_file(&self) -> Result<(), Failed> {
        let staged = self.staging.path().join(self.file_name());
        match self.mode {
            SaveMode::Overwrite => {
                keep_permissions(&self.out, &staged)?;
                fs::rename(&staged, &self.out)?;
            }
            // Another process may have created the target since it was checked.
            _ => match renameat_with(CWD, &staged, CWD, &self.out, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => return Err(self.refused()),
                Err(error) if is_unsupported(error) => {
                    inspect(&self.out, &self.target, self.mode).map_err(Failed::Refused)?;
                    fs::rename(&staged, &self.out)?;
                }
                renamed => renamed.map_err(io::Error::from)?,
            },
        }
        Ok(())
    }

    fn publish_directory(&self) -> Result<(), Failed> {
        let staging = self.staging.path();
        File::create_new(staging.join(SUCCESS_NAME))?.sync_all()?;
        File::open(staging)?.sync_all()?;
        let old = inspect(&self.out, &self.target, self.mode).map_err(Failed::Refused)?;
        keep_permissions(&self.out, staging)?;
        if !old {
            return match fs::rename(staging, &self.out) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Err(self.refused()),
                renamed => Ok(renamed?),
            };
        }
        // After the exchange, the staging directory contains the replaced files.
        match renameat_with(CWD, staging, CWD, &self.out, RenameFlags::EXCHANGE) {
            Err(error) if is_unsupported(error) => Ok(self.replace_by_two_renames()?),
            exchanged => Ok(exchanged.map_err(io::Error::from)?),
        }
    }

    /// For file systems that cannot exchange directories.
    fn replace_by_two_renames(&self) -> io::Result<()> {
        let aside = self.staging.replaced();
        fs::rename(&self.out, aside)?;
        if let Err(error) = fs::rename(self.staging.path(), &self.out) {
            fs::rename(aside, &self.out)?;
            return Err(error);
        }
        Ok(())
    }

    fn refused(&self) -> Failed {
        Failed::Refused(Error::OutputExists { path: self.target.path.clone() })
    }
}

/// The reason that a table was not published.
enum Failed {
    Refused(Error),
    Io(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Inspects the target. Returns whether an existing one will be replaced.
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
        let mut foreign: Vec<_> = names.into_iter().filter(|name| !is_table_part(name)).collect();
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

/// Copies the permissions of the old target to the new one.
fn keep_permissions(old: &Path, new: &Path) -> io::Result<()> {
    match fs::metadata(old) {
        Ok(old) => fs::set_permissions(new, old.permissions()),
        Err(_) => Ok(()),
    }
}

/// Whether the error means that the kernel or file system does not support a flag of `renameat2`.
fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::INVAL | Errno::NOTSUP)
}
