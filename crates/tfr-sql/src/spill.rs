//! The temporary files of a run.

mod checksums;
mod copy;
mod files;
mod leftovers;
mod names;
mod place;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use copy::copy_pipe;
pub use files::SpillFiles;
pub use place::SpillPlace;

use tfr_stores::Door;

use crate::error::{Error, Result};

/// The temporary directory of one run. It is removed when the run ends, even if tasks of the engine are still running.
///
/// The engine removes its files when the last task that uses them ends, and after Ctrl-C or an error tasks are not
/// waited for. The next run with the same parent directory removes the leftovers of killed runs.
#[derive(Debug)]
pub struct SpillDirectory(Arc<SpillPlace>);

impl SpillDirectory {
    /// Describes a directory in `parent`, or in the system's temporary directory. Removes the leftovers of killed runs.
    ///
    /// The directory is created when something needs it. But a `parent` that cannot be used is an error at once, since
    /// the user has named it, and so is one that the door does not allow: the query could need it after hours.
    pub fn create(parent: Option<&Path>, door: &Door) -> Result<Self> {
        let named = parent.map_or_else(system_directory, Path::to_owned);
        if door.check_path(&named).is_err() {
            return Err(Error::SpillOutside { path: named });
        }
        let place = SpillPlace::new(named);
        leftovers::remove_leftovers(place.parent());
        if parent.is_some() {
            place.directory()?;
        }
        Ok(Self(Arc::new(place)))
    }

    /// Describes the directory of a run that has no temporary files.
    pub fn none() -> Self {
        let place = SpillPlace::new(system_directory());
        place.end();
        Self(Arc::new(place))
    }

    /// Returns the parent directory.
    pub fn parent(&self) -> &Path {
        self.0.parent()
    }

    /// Returns the place for copies of pipes.
    pub fn place(&self) -> &Arc<SpillPlace> {
        &self.0
    }

    /// Returns the temporary files for the engine of a session.
    pub fn files(&self) -> SpillFiles {
        SpillFiles::new(Arc::clone(&self.0))
    }

    /// Returns the path for a table file that is uploaded later.
    pub fn table(&self) -> Result<PathBuf> {
        self.0.table()
    }
}

impl Drop for SpillDirectory {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Returns the system's directory for temporary files. An empty `TMPDIR` counts as none.
pub fn system_directory() -> PathBuf {
    let directory = std::env::temp_dir();
    if directory.as_os_str().is_empty() { PathBuf::from("/tmp") } else { directory }
}

#[cfg(test)]
mod tests;
