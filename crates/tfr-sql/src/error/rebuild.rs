//! [`RebuildProblem`]: why a set cannot be written again from its manifest.

use crate::printer::counted;

/// Why a set cannot be written again from its manifest.
#[derive(Debug, thiserror::Error)]
pub enum RebuildProblem {
    /// The manifest lacks what a rebuild needs.
    #[error("the manifest does not record the arguments of the command: an older release or another program wrote it")]
    NotRecorded,
    /// Several runs have written the set.
    #[error("{} added shards to the set; only a set of one run is written again", counted(*runs as u64, "more run"))]
    Appended {
        /// The number of runs after the first.
        runs: usize,
    },
    /// The manifest hides a secret.
    #[error("the manifest records {argument:?} without its secret")]
    Secret {
        /// The argument, as recorded.
        argument: String,
    },
    /// A table was read from a pipe.
    #[error("the table {table} was read from a pipe, which cannot be read again")]
    Pipe {
        /// The table.
        table: String,
    },
    /// The arguments are not valid in this release.
    #[error("this release does not accept the recorded arguments: {message}")]
    Arguments {
        /// The error.
        message: String,
    },
    /// Rows were rejected, and a place for them is missing.
    #[error("the set was written with --rejects: {} did not fit", counted(*rows, "row"))]
    Rejects {
        /// The number of rows.
        rows: u64,
    },
    /// The files of a table are others than those that the set was written from.
    #[error("the table {table} has changed: expected {expected}, found {found}")]
    Files {
        /// The table.
        table: String,
        /// What the manifest records.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl RebuildProblem {
    /// Returns a hint, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Rejects { .. } => Some("name a directory for them: --rejects DIR"),
            Self::Files { .. } => Some(
                "put the files back that the set was written from; a table with versions, such as Delta Lake, keeps old ones",
            ),
            Self::Pipe { .. } => Some("write the table to a file first, and the set from that"),
            _ => None,
        }
    }
}
