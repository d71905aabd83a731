//! [`TaskError`]: a plan for tasks cannot be made or carried out.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};

use super::Error;

/// A plan for tasks cannot be made or carried out.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The plan file cannot be read or written.
    #[error("{}: cannot {action} the plan", path.display())]
    File {
        /// What was attempted.
        action: &'static str,
        /// The plan file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a plan.
    #[error("{}: not a plan of tfr-sql --plan", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The defect, with its line and column.
        source: serde_json::Error,
    },
    /// A part of the plan file has other bytes than were written, or is missing.
    #[error("{}: damaged at byte {offset}", path.display())]
    Damaged {
        /// The plan file.
        path: PathBuf,
        /// The first byte of the part.
        offset: u64,
    },
    /// Another build wrote the plan: of another release, or of another commit.
    #[error("{}: written by tfr-sql {found}, but this is {expected}", path.display())]
    Release {
        /// The plan file.
        path: PathBuf,
        /// The release and the commit that wrote the plan.
        found: String,
        /// Those of this build.
        expected: String,
    },
    /// The plan was made in a directory that does not exist here.
    #[error("{}: cannot change to the directory of the plan", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An input differs from the one that was planned.
    #[error("{file}: changed since the tasks were planned: expected {expected}, found {found}")]
    Input {
        /// The file.
        file: String,
        /// Its planned state.
        expected: String,
        /// Its present state.
        found: String,
    },
    /// The plan of the rows differs.
    #[error("the query is planned differently here: expected {expected:?}, found {found:?}")]
    Plan {
        /// The first line that differs.
        expected: String,
        /// The line here.
        found: String,
    },
    /// Partitions of a query cannot run in different processes.
    #[error("the tasks of this query would have to exchange rows: {node}")]
    Exchange {
        /// The operator.
        node: String,
    },
    /// Rows that tasks have exchanged are lost, and the engine would mix those that it computes again with old ones.
    #[error("rows that tasks had exchanged were lost")]
    ExchangedRowsLost,
    /// An operator cannot run by partitions on several machines.
    #[error("this query cannot run on a cluster: the partitions of {node} depend on each other")]
    Distribution {
        /// The operator.
        node: String,
    },
    /// The rows of a query may differ between its tasks.
    #[error("the rows of this query may differ from task to task: {reason}")]
    Varies {
        /// The reason.
        reason: &'static str,
    },
    /// A part of a query that may be computed several times might have other rows each time.
    #[error("the rows of this query may differ from task to task: {node} depends on the order of rows")]
    Reordered {
        /// The operator.
        node: String,
    },
    /// An argument or the query cannot be stored in a plan.
    #[error("cannot be stored in a plan: {what}")]
    NotStored {
        /// The argument.
        what: String,
    },
    /// Tasks cannot read the rows of an input again.
    #[error("tasks cannot read {what} again")]
    Unrepeatable {
        /// The input.
        what: String,
    },
    /// The set of the plan is published, so there is nothing more to do.
    #[error("{}: the set {out} has been published: written at {time}", path.display())]
    Published {
        /// The plan file.
        path: PathBuf,
        /// The set.
        out: String,
        /// When it was written.
        time: String,
    },
    /// The set of a plan cannot be published now. The work of its tasks is retained.
    #[error("{}: not published, and nothing that the tasks have written is lost", path.display())]
    Unpublished {
        /// The plan file.
        path: PathBuf,
        /// What prevents it.
        source: Box<Error>,
    },
    /// `finish --verify` for uploads.
    #[error("shards that are uploaded cannot be read before they are published")]
    VerifiedLater,
    /// `cut` for a plan that has one step.
    #[error("the tasks of this plan write their shards directly: there is nothing to cut")]
    NothingToCut,
}

impl TaskError {
    /// Returns how to solve it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::File { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Some("finish or abandon it first, or choose another name")
            }
            Self::Directory { .. } => {
                Some("tasks need the inputs, the plan's directory and the output under the same paths")
            }
            Self::Input { .. } | Self::Plan { .. } => Some("abandon the plan and plan the tasks again"),
            // `abandon` may be unable to read it, too.
            Self::Damaged { .. } => Some("plan the tasks again, in another file"),
            Self::Exchange { .. } => Some(
                "write an intermediate table without tasks, or use --partitions 1, which makes one task of the query",
            ),
            Self::Distribution { .. } => Some("write an intermediate table without --cluster"),
            Self::Varies { .. } => Some("use --partitions 1, which makes one task of the query"),
            Self::NotStored { .. } => Some("set credentials in the environment of the tasks"),
            Self::Unrepeatable { .. } => Some("write the rows to a file first"),
            Self::ExchangedRowsLost => Some("run it again once no more executors are lost"),
            Self::Reordered { .. } => Some("write the rows of that subquery to a table first"),
            Self::NothingToCut => Some("finish it"),
            Self::Published { .. } => Some("plan again to write another set: --plan replaces this file"),
            Self::Unpublished { .. } => {
                Some("remove the cause and run tfr-sql finish again, or give up with tfr-sql abandon")
            }
            Self::VerifiedLater => Some("finish without --verify, then run tfr-sql verify"),
            Self::File { .. } | Self::Syntax { .. } | Self::Release { .. } => None,
        }
    }
}

/// Whether a failure may not happen again: the network or a device failed, a task may not use the plan or its own files
/// on this machine, or not all tasks are complete.
pub fn may_go_away(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            match error.get_ref() {
                Some(wrapped) if may_go_away(wrapped) => return true,
                Some(_) if error.kind() == io::ErrorKind::Other => return false,
                _ if !lasts(error.kind()) => return true,
                _ => {}
            }
        }
        if let Some(Error::Task(TaskError::File { source, .. })) = error.downcast_ref()
            && source.kind() == io::ErrorKind::PermissionDenied
        {
            return true;
        }
        if let Some(datafusion::object_store::Error::Generic { .. }) = error.downcast_ref() {
            return true;
        }
        if let Some(error) = error.downcast_ref::<tfrecord_shards::Error>() {
            use tfrecord_shards::{AttemptError, ErrorKind};
            match error.kind() {
                ErrorKind::Attempt(AttemptError::Missing { .. }) | ErrorKind::Busy { .. } => return true,
                ErrorKind::Io { path, source, .. }
                    if source.kind() == io::ErrorKind::PermissionDenied && is_staged(path) =>
                {
                    return true;
                }
                _ => {}
            }
        }
        next = error.source();
    }
    false
}

/// Whether an error of the system is the same at each attempt.
fn lasts(kind: io::ErrorKind) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        kind,
        Kind::NotFound
            | Kind::PermissionDenied
            | Kind::AlreadyExists
            | Kind::InvalidInput
            | Kind::InvalidData
            | Kind::UnexpectedEof
            | Kind::Unsupported
            | Kind::IsADirectory
            | Kind::NotADirectory
            | Kind::ReadOnlyFilesystem
    )
}

/// Whether a file is in a staging directory, which the plan has created.
fn is_staged(path: &Path) -> bool {
    path.iter().any(|part| part.as_encoded_bytes().starts_with(b".tfr-"))
}
