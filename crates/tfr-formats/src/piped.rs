//! [`PipedFiles`]: files that are copies of pipes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion_execution::config::SessionConfig;
use object_store::path::Path;

/// Local files with the bytes of pipes. Register it as an extension of the session's configuration.
///
/// A program that fails closes its pipe, and what has arrived may be a valid, smaller table. An Arrow stream can
/// distinguish the two: in these files it must have its end-of-stream marker.
#[derive(Debug, Default)]
pub struct PipedFiles(Mutex<BTreeSet<Path>>);

impl PipedFiles {
    /// Returns the files of a session, if it has registered them.
    pub fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension::<Self>()
    }

    /// Adds a file, by its path in the local store.
    pub fn add(&self, file: Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
    }

    /// Whether the file is the copy of a pipe.
    pub fn contains(&self, file: &Path) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(file)
    }
}
