//! [`TableStaging`]: the staging directory of a table in another format.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::commit::staging::{self, MadeDirectories};
use crate::commit::staging_names;
use crate::commit::target::resolve;
use crate::error::{AtPath, Result};
use crate::set::names::RunId;

/// The locked directory next to a target in which the files of a table are written. One rename then makes them visible.
///
/// If the run is killed, [`leftovers`](crate::leftovers) and [`remove_leftovers`](crate::remove_leftovers) find it.
/// Dropping this removes the directory with the files that runs put there, and the parents created for it if they are
/// empty.
#[derive(Debug)]
pub struct TableStaging {
    out: PathBuf,
    dir: PathBuf,
    replaced: PathBuf,
    made: MadeDirectories,
    /// The lock that marks this run as live.
    _lock: File,
}

impl TableStaging {
    /// Creates the directory of `run` next to `out`, and the missing parents of `out`.
    ///
    /// # Errors
    /// If that fails. Nothing is then left behind.
    pub fn create(out: &Path, run: &RunId) -> Result<Self> {
        let (out, missing) = resolve(out)?;
        let (Some(parent), Some(name)) = (out.parent(), out.file_name()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput)).at("make staging directory", &out);
        };
        let mut made = MadeDirectories::default();
        for parent in missing {
            made.create(&parent)?;
        }
        let dir = staging_names::path_beside(parent, name, run);
        let replaced = staging_names::replaced_beside(parent, name, run);
        let lock = staging::create(&dir).at("make staging directory", &dir)?;
        Ok(Self { out, dir, replaced, made, _lock: lock })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the path to which an existing table is moved before it is replaced, where directories cannot be
    /// exchanged.
    pub fn replaced(&self) -> &Path {
        &self.replaced
    }

    /// Syncs the name of the target and those of its parents that were created.
    ///
    /// # Errors
    /// If a directory cannot be synced.
    pub fn sync_names(&self) -> Result<()> {
        let parents = self.made.paths().iter().chain([&self.out]).filter_map(|path| path.parent());
        parents.into_iter().try_for_each(|dir| File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir))
    }

    /// Removes the files of tables in the directory and in the replaced table, and then these directories if they are
    /// empty.
    ///
    /// # Errors
    /// If something cannot be listed or removed.
    pub fn remove_files(&self) -> Result<()> {
        let name = || self.out.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        // An empty directory is removed without listing it, which works even if no more files can be opened.
        for dir in [&self.dir, &self.replaced].into_iter().filter(|dir| fs::remove_dir(dir).is_err() && dir.exists()) {
            staging::remove_files(dir, name())?;
        }
        Ok(())
    }
}

impl Drop for TableStaging {
    fn drop(&mut self) {
        // An error cannot be reported here; the next run reports what was not removed.
        let _unremoved = self.remove_files();
    }
}
