//! [`RebuildProblem`]: why a set cannot be written again from its manifest.

use super::Error;
use crate::printer::counted;

/// Why a set cannot be written again from its manifest.
#[derive(Debug, thiserror::Error)]
pub enum RebuildProblem {
    /// The manifest lacks the arguments of the command, or they are not those of one run of this release.
    #[error("{0}")]
    Arguments(String),
    /// A part of the manifest has another form.
    #[error("options.{key} of the manifest cannot be read")]
    Form {
        /// The key of the part.
        key: &'static str,
        /// The defect.
        source: serde_json::Error,
    },
    /// The manifest is in an object store.
    #[error("{url}: the manifest must be a local file")]
    Remote {
        /// The URL.
        url: String,
    },
    /// A table has versions of a format that is not supported.
    #[error("the table {table} was read in a version of the format {format:?}, which this release does not read")]
    Format {
        /// The table.
        table: String,
        /// The name of the format.
        format: String,
    },
    /// The query failed, and the way out is another one than for queries.
    #[error("{source}")]
    Query {
        /// The error.
        source: Box<Error>,
        /// The way out.
        hint: String,
    },
    /// A table was read from a pipe.
    #[error("the table {table} was read from a pipe, which cannot be read again")]
    Pipe {
        /// The table.
        table: String,
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
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Rejects { .. } => "name a directory for them: --rejects DIR",
            Self::Files { .. } => {
                "put the files back that the set was written from; a table with versions, such as Delta Lake, keeps old ones"
            }
            Self::Pipe { .. } => "write the table to a file first, and the set from that",
            Self::Remote { .. } => "copy the _manifest.json of the set to a local directory, and name that",
            Self::Format { .. } => "use the release that wrote the set",
            Self::Query { hint, .. } => hint,
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
