//! [`PlanFile`]: what a task must know.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use datafusion_tfrecord::write::{SharedWrite, StoredOptions};
use serde::{Deserialize, Serialize};

use super::stored_query::StoredQuery;
use crate::error::{Result, TaskError};

/// Version of the file's format.
const FORMAT: u32 = 2;

const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// A plan for tasks, as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    format: u32,
    /// The release of tfr-sql. Another one may plan the query differently.
    release: String,
    /// The rows to write.
    pub query: StoredQuery,
    /// How to write them.
    pub options: StoredOptions,
    /// Where.
    pub staging: SharedWrite,
}

impl PlanFile {
    /// Describes tasks.
    pub fn new(query: StoredQuery, options: StoredOptions, staging: SharedWrite) -> Self {
        Self { format: FORMAT, release: RELEASE.to_owned(), query, options, staging }
    }

    /// Reads a plan.
    pub fn read(path: &Path) -> Result<Self, TaskError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
            release: String,
        }
        let json =
            fs::read(path).map_err(|source| TaskError::File { action: "read", path: path.to_owned(), source })?;
        let syntax = |source| TaskError::Syntax { path: path.to_owned(), source };
        let Version { format, release } = serde_json::from_slice(&json).map_err(syntax)?;
        if format != FORMAT || release != RELEASE {
            return Err(TaskError::Release { path: path.to_owned(), found: release });
        }
        serde_json::from_slice(&json).map_err(syntax)
    }

    /// Returns the plan as JSON.
    ///
    /// # Errors
    /// None that can occur.
    pub fn to_json(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(io::Error::other)
    }
}

/// Creates an empty plan file, which must not exist.
pub fn create(path: &Path) -> Result<File, TaskError> {
    File::create_new(path).map_err(|source| TaskError::File { action: "create", path: path.to_owned(), source })
}

/// Writes a plan to its file.
pub fn write(mut file: File, path: &Path, plan: &PlanFile) -> Result<()> {
    let of_file = |source| TaskError::File { action: "write", path: path.to_owned(), source };
    let json = plan.to_json().map_err(of_file)?;
    file.write_all(&json).and_then(|()| file.sync_all()).map_err(of_file)?;
    Ok(())
}

/// Removes a plan file.
pub fn remove(path: &Path) -> Result<(), TaskError> {
    fs::remove_file(path).map_err(|source| TaskError::File { action: "remove", path: path.to_owned(), source })
}
