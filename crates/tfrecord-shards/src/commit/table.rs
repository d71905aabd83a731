//! [`TableCommit`]: a table in another format on its way to a local file or directory.
//!
//! As with shard sets, files are staged in `.tfr-<run>-<name>` next to the target, a directory that is locked while the run lives,
//! until one rename or exchange makes them visible. There is no manifest: what an earlier run wrote is known by its names.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::commit::leftovers::{leftovers, remove_leftovers};
use crate::commit::publication::Leftover;
use crate::commit::save_mode::SaveMode;
use crate::commit::settling::Settling;
use crate::commit::staging::{self, MadeDirectories, is_unsupported, keep_permissions};
use crate::commit::staging_names;
use crate::commit::target::{NAMES_SHOWN, guarded, is_hidden, resolve};
use crate::error::{AtPath, Error, ErrorKind, Result};
use crate::set::SUCCESS_NAME;
use crate::set::names::{RunId, is_table_part};

/// The files of a table, and where they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableFiles {
    /// One file.
    File(PathBuf),
    /// A directory of files `part-00003-of-00016.parquet`, and an empty `_SUCCESS`.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the names of the files end in, without a leading dot: `parquet`, `csv.gz`.
        suffix: String,
    },
}

impl TableFiles {
    /// The file or directory.
    pub fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Directory { path, .. } => path,
        }
    }
}

/// The staging of a table until it is published.
///
/// Dropping it before that removes the staged files, and the parent directories that it has created if they are empty. A
/// directory that was [shown](Self::show) and not [kept](Self::keep) is withdrawn.
///
/// [`leftovers`] and [`remove_leftovers`] find the staging directory if the run is killed.
///
/// ```
/// use std::fs;
/// use tfrecord_shards::{RunId, SaveMode, TableCommit, TableFiles};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let out = dir.path().join("table.csv");
/// let commit = TableCommit::begin(TableFiles::File(out.clone()), SaveMode::Error, RunId::new(), &[], |_leftover| {})?;
/// let (staged, _shown) = commit.file(0, 1);
/// fs::write(staged, "id\n1\n")?;
/// assert!(!out.exists());
/// commit.publish()?;
/// assert_eq!(fs::read_to_string(out)?, "id\n1\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TableCommit {
    files: TableFiles,
    mode: SaveMode,
    run: RunId,
    /// The target's path without links.
    out: PathBuf,
    /// The staging directory.
    dir: PathBuf,
    /// Where the old table is moved if directories cannot be exchanged.
    replaced: PathBuf,
    made: MadeDirectories,
    /// How the directory became visible, until it is kept.
    shown: Option<Shown>,
    /// The lock that shows that this run lives.
    _lock: File,
}

/// A directory that is visible and can be withdrawn.
#[derive(Debug)]
struct Shown {
    by: Renaming,
    /// The device and inode of the directory.
    identity: (u64, u64),
}

/// How the staging directory took the place of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renaming {
    /// There was nothing.
    Onto,
    /// It was exchanged with the old table.
    Exchange,
    /// The old table was moved aside.
    MovedAside,
}

impl TableCommit {
    /// Checks that the target may be written to, and makes the staging directory. `inputs` are what the rows come from.
    /// `found` is called with what earlier runs have left behind, and what others are writing, also if the target is refused.
    ///
    /// # Errors
    /// If the target is protected or overlaps an input, contains something that `mode` does not replace
    /// ([`ErrorKind::AlreadyThere`], [`ErrorKind::ForeignFiles`]) or is of another kind ([`ErrorKind::OtherKind`]), or if nothing
    /// can be written there. Nothing is left behind then.
    pub fn begin(
        files: TableFiles,
        mode: SaveMode,
        run: RunId,
        inputs: &[PathBuf],
        found: impl FnMut(Leftover),
    ) -> Result<Self> {
        const ACTION: &str = "make staging directory";
        let out = guarded(files.path(), inputs)?;
        leftovers(&out)?.into_iter().for_each(found);
        inspect(&out, &files, mode)?;
        let (out, missing) = resolve(&out)?;
        let (Some(parent), Some(name)) = (out.parent(), out.file_name()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput)).at(ACTION, &out);
        };
        let mut made = MadeDirectories::default();
        for parent in missing {
            made.create(&parent)?;
        }
        let dir = staging_names::path_beside(parent, name, &run);
        let replaced = staging_names::replaced_beside(parent, name, &run);
        let lock = staging::create(&dir).at(ACTION, &dir)?;
        Ok(Self { files, mode, run, out, dir, replaced, made, shown: None, _lock: lock })
    }

    /// Checks that the target may be written to, as [`begin`](Self::begin) does, and makes nothing.
    ///
    /// # Errors
    /// As `begin`, for the target.
    pub fn check(files: &TableFiles, mode: SaveMode, inputs: &[PathBuf]) -> Result<()> {
        inspect(&guarded(files.path(), inputs)?, files, mode).map(drop)
    }

    /// The run that writes the table.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The path at which file `index` of `total` is to be created, and its final path, for messages.
    pub fn file(&self, index: usize, total: usize) -> (PathBuf, PathBuf) {
        match &self.files {
            TableFiles::File(path) => (self.staged_file(), path.clone()),
            TableFiles::Directory { path, suffix } => {
                let name = format!("part-{index:05}-of-{total:05}.{suffix}");
                (self.dir.join(&name), path.join(name))
            }
        }
    }

    fn staged_file(&self) -> PathBuf {
        self.dir.join(self.out.file_name().unwrap_or_default())
    }

    /// Makes the table visible. All its files are closed and synced before.
    ///
    /// # Errors
    /// If the target has changed meanwhile, or the file system fails. The target is as before then. What fails after the
    /// table is there is a warning in the log.
    pub fn publish(mut self) -> Result<()> {
        let _settling = Settling::begin();
        self.put_in_place()?;
        // The table is there, whatever fails from here on.
        if let Err(error) = self.sync_names() {
            staging::warn_after_commit(self.files.path(), &error);
        }
        self.keep();
        Ok(())
    }

    /// Makes the table visible and durable, and retains the old one. If this is dropped without
    /// [`keep`](Self::keep), a directory is withdrawn: the target is then as before, unless another run has replaced it
    /// meanwhile. A table of one file is not.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and if its name cannot be synced.
    pub fn show(&mut self) -> Result<()> {
        let _settling = Settling::begin();
        self.put_in_place()?;
        self.sync_names()
    }

    fn put_in_place(&mut self) -> Result<()> {
        match &self.files {
            TableFiles::File(_) => self.publish_file()?,
            TableFiles::Directory { .. } => {
                let identity = identity(&self.dir).or_else(|error| self.failed(error))?;
                self.shown = Some(Shown { by: self.publish_directory()?, identity });
            }
        }
        Ok(())
    }

    /// Ends the table that is [visible](Self::show), and removes the old one.
    pub fn keep(mut self) {
        let _settling = Settling::begin();
        self.shown = None;
        if let Err(error) = self.remove_files().and_then(|()| self.remove_leftovers()) {
            log::warn!(
                "{}: written, but not all replaced files could be removed: {}",
                self.files.path().display(),
                error.with_sources()
            );
        }
    }

    /// Moves the directory back to where it was staged, and the old table to the target.
    fn withdraw(&self, Shown { by, identity: ours }: &Shown) -> io::Result<()> {
        if identity(&self.out)? != *ours {
            return Err(io::Error::other("another run has replaced it"));
        }
        match by {
            Renaming::Onto => fs::rename(&self.out, &self.dir),
            Renaming::Exchange => Ok(renameat_with(CWD, &self.dir, CWD, &self.out, RenameFlags::EXCHANGE)?),
            Renaming::MovedAside => {
                fs::rename(&self.out, &self.dir)?;
                fs::rename(&self.replaced, &self.out)
            }
        }
    }

    fn publish_file(&self) -> Result<()> {
        let staged = self.staged_file();
        if self.mode == SaveMode::Overwrite {
            keep_permissions(&self.out, &staged)
                .and_then(|()| fs::rename(&staged, &self.out))
                .or_else(|error| self.failed(error))?;
            return Ok(());
        }
        // Somebody may have made it since it was inspected.
        match renameat_with(CWD, &staged, CWD, &self.out, RenameFlags::NOREPLACE) {
            Err(rustix::io::Errno::EXIST) => Err(self.refused()),
            Err(error) if is_unsupported(error) => {
                inspect(&self.out, &self.files, self.mode)?;
                fs::rename(&staged, &self.out).or_else(|error| self.failed(error))
            }
            renamed => renamed.or_else(|error| self.failed(error.into())),
        }
    }

    fn publish_directory(&self) -> Result<Renaming> {
        let prepared = File::create_new(self.dir.join(SUCCESS_NAME))
            .and_then(|file| file.sync_all())
            .and_then(|()| File::open(&self.dir)?.sync_all());
        prepared.or_else(|error| self.failed(error))?;
        let replaces = inspect(&self.out, &self.files, self.mode)?;
        keep_permissions(&self.out, &self.dir).or_else(|error| self.failed(error))?;
        if !replaces {
            return match fs::rename(&self.dir, &self.out) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Err(self.refused()),
                renamed => renamed.map(|()| Renaming::Onto).or_else(|error| self.failed(error)),
            };
        }
        // After the exchange the staging directory contains the old table.
        match renameat_with(CWD, &self.dir, CWD, &self.out, RenameFlags::EXCHANGE) {
            Err(error) if is_unsupported(error) => {
                self.replace_by_two_renames().map(|()| Renaming::MovedAside).or_else(|error| self.failed(error))
            }
            exchanged => exchanged.map(|()| Renaming::Exchange).or_else(|error| self.failed(error.into())),
        }
    }

    fn replace_by_two_renames(&self) -> io::Result<()> {
        fs::rename(&self.out, &self.replaced)?;
        if let Err(error) = fs::rename(&self.dir, &self.out) {
            fs::rename(&self.replaced, &self.out)?;
            return Err(error);
        }
        Ok(())
    }

    fn failed<T>(&self, source: io::Error) -> Result<T> {
        Err(source).at("publish", self.files.path())
    }

    fn refused(&self) -> Error {
        ErrorKind::AlreadyThere { path: self.files.path().to_owned() }.into()
    }

    /// Makes durable the name of the target and those of its parents that were made.
    fn sync_names(&self) -> Result<()> {
        let parents = self.made.paths().iter().chain([&self.out]).filter_map(|path| path.parent());
        parents.into_iter().try_for_each(|dir| File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir))
    }

    /// Removes what killed runs have left, if the table replaces the old one.
    fn remove_leftovers(&self) -> Result<()> {
        match self.mode {
            SaveMode::Overwrite => remove_leftovers(&self.out).map(drop),
            _ => Ok(()),
        }
    }

    /// Removes the files of tables in the staging directory and in the old table that was moved aside, then both directories if
    /// nothing else is in them.
    fn remove_files(&self) -> Result<()> {
        let name = || self.out.file_name().and_then(OsStr::to_str).map(str::to_owned);
        // An empty one is removed without being listed, so also if no more files can be opened.
        for dir in [&self.dir, &self.replaced].into_iter().filter(|dir| fs::remove_dir(dir).is_err() && dir.exists()) {
            staging::remove_files(dir, name())?;
        }
        Ok(())
    }
}

impl Drop for TableCommit {
    fn drop(&mut self) {
        let _settling = Settling::begin();
        if let Some(shown) = self.shown.take() {
            if let Err(error) = self.withdraw(&shown) {
                log::warn!("{}: cannot be withdrawn: {error}", self.files.path().display());
                // The old table, if it is there, stays for whoever reads the warning.
                return;
            }
            let _unsynced = self.sync_names();
        }
        // Nobody is left to report to; the next run reports what could not be removed.
        let _unremoved = self.remove_files();
    }
}

fn identity(dir: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(dir).map(|found| (found.dev(), found.ino()))
}

/// Inspects the target, and returns whether it contains something that will be replaced.
fn inspect(out: &Path, target: &TableFiles, mode: SaveMode) -> Result<bool> {
    const ACTION: &str = "inspect";
    let path = || target.path().to_owned();
    let metadata = match fs::metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        metadata => metadata.at(ACTION, target.path())?,
    };
    let found = match metadata.file_type() {
        found if found.is_dir() => "a directory",
        found if found.is_file() => "a file",
        _ => "something else",
    };
    let expected = if matches!(target, TableFiles::Directory { .. }) { "a directory" } else { "a file" };
    if found != expected {
        return Err(ErrorKind::OtherKind { path: path(), expected, found }.into());
    }
    if metadata.is_dir() {
        let names = names_in(out).at(ACTION, target.path())?;
        if names.is_empty() {
            return Ok(false);
        }
        let mut files: Vec<_> = names.into_iter().filter(|name| !is_table_part(name)).collect();
        if mode == SaveMode::Overwrite && !files.is_empty() {
            files.sort_by_key(|name| is_hidden(name));
            files.truncate(NAMES_SHOWN);
            return Err(ErrorKind::ForeignFiles { path: path(), files }.into());
        }
    }
    match mode {
        SaveMode::Overwrite => Ok(true),
        _ => Err(ErrorKind::AlreadyThere { path: path() }.into()),
    }
}

fn names_in(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<_> = entries.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests;
