//! How the paths in the log of a Delta table are read.

use object_store::ObjectMeta;
use object_store::path::Path;

use crate::error::Result;
use crate::table::{OTHER_STORE, Place, split};

/// The directory of the log.
const LOG: &str = "_delta_log";

impl Place {
    /// Whether the directory contains a log.
    pub(super) async fn has_log(&self) -> bool {
        // A directory that cannot be listed is treated as existing.
        self.log_files().await.map_or(true, |files| !files.is_empty())
    }

    /// Lists the files of the log, without those in directories.
    pub(super) async fn log_files(&self) -> Result<Vec<ObjectMeta>, tfr_files::Error> {
        self.files(&self.location().key().clone().join(LOG)).await
    }

    /// Returns the path of a sidecar of a checkpoint.
    pub(super) fn sidecar(&self, path: &str) -> Result<Path> {
        match path.contains('/') {
            true => self.resolve(path),
            false => self.resolve(&format!("{LOG}/_sidecars/{path}")),
        }
    }

    /// Returns the path that a log names: relative to the table or absolute, percent-encoded.
    ///
    /// # Errors
    /// It is not a path, contains `..`, or is in another store than the table.
    pub(super) fn resolve(&self, named: &str) -> Result<Path> {
        let unusable = |reason: String| self.unusable(named, reason);
        let parse = |encoded: &str| Path::from_url_path(encoded).map_err(|error| unusable(error.to_string()));
        match split(named).map_err(unusable)? {
            None if named.starts_with('/') => parse(named),
            None => {
                let relative = parse(named)?;
                if relative.as_ref().is_empty() {
                    return Err(unusable("it is empty".to_owned()));
                }
                let path = Path::parse(format!("{}/{relative}", self.location().key()));
                path.map_err(|error| unusable(error.to_string()))
            }
            Some((store, path)) if store == *self.location().object_store() => parse(path),
            Some(_) => Err(unusable(OTHER_STORE.to_owned())),
        }
    }
}
