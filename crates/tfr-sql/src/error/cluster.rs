//! [`ClusterError`]: a cluster cannot run a plan. [`RemoteError`]: an error of a worker, as text that survives the way to the
//! process that started the job.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use datafusion::error::DataFusionError;
use serde::{Deserialize, Serialize};

use super::{Explanation, may_go_away};

/// What an encoded error begins and ends with. Engines wrap it in text of their own.
const BEGIN: &str = "<<tfr-sql:";
const END: &str = ">>";

/// A cluster cannot run a plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The address is not valid.
    #[error("{address}: not the address of a scheduler: expected HOST:PORT")]
    Address {
        /// The address.
        address: String,
    },
    /// The certificates of this process cannot be used.
    #[error("the certificates for the cluster cannot be used")]
    Certificates {
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A process listens at the address, and no request gets through to it.
    #[error("{address}: the scheduler refuses the connection, or is not one")]
    Refused {
        /// The address.
        address: String,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// There is no connection to the engine.
    #[error("{address}: the scheduler cannot be reached")]
    Unreachable {
        /// The address.
        address: String,
        /// The cause.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The engine does not know a query that it has accepted.
    #[error("{address}: the scheduler has lost the query, as it does when it is started again")]
    Lost {
        /// The address.
        address: String,
    },
    /// All processes that compute the query are gone.
    #[error("{address}: the scheduler has lost all executors of the query")]
    NoExecutors {
        /// The address.
        address: String,
    },
    /// The engine gave up for a reason of its own.
    #[error("the cluster could not run the query: {message}")]
    Failed {
        /// What the engine says.
        message: String,
    },
    /// A worker failed.
    #[error(transparent)]
    Worker(RemoteError),
}

impl ClusterError {
    /// Whether trying again later may help.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::NoExecutors { .. } => true,
            Self::Worker(error) => error.retry != Retry::Never,
            Self::Address { .. } | Self::Certificates { .. } | Self::Refused { .. } | Self::Failed { .. } => false,
        }
    }

    /// Returns the error of a failed job: that of a worker if the text of the engine contains one.
    pub fn failed(message: &str) -> Self {
        match RemoteError::find(message) {
            Some(error) => Self::Worker(error),
            None => Self::Failed { message: message.to_owned() },
        }
    }
}

/// What may succeed when it runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retry {
    /// Nothing: the values, the files or the query are at fault.
    Never,
    /// The task: the network or a device failed.
    Task,
    /// Only the whole query: rows that tasks had exchanged are lost, and the engine cannot replace them.
    Query,
}

/// An error of a worker: its text, and whether trying again may help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteError {
    /// The error and its causes, from the outermost in.
    pub causes: Vec<String>,
    /// How to fix it.
    pub hint: Option<String>,
    /// What may succeed when it runs again.
    pub retry: Retry,
}

impl RemoteError {
    /// Describes an error.
    pub fn of(error: &(dyn StdError + 'static)) -> Self {
        let Explanation { causes, hint, .. } = Explanation::of(error);
        Self { causes, hint, retry: if may_go_away(error) { Retry::Task } else { Retry::Never } }
    }

    /// Finds the error of a worker in the text that an engine has made of it.
    pub fn find(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once(BEGIN)?;
        let (encoded, _) = rest.split_once(END)?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
    }
}

/// The text for people, then the encoded error.
impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_vec(self).map_err(|_| fmt::Error)?;
        write!(f, "{} {BEGIN}{}{END}", self.causes.join(": "), URL_SAFE_NO_PAD.encode(json))
    }
}

impl StdError for RemoteError {}

/// Engines run a task again if the cause is an I/O error.
impl From<RemoteError> for DataFusionError {
    fn from(error: RemoteError) -> Self {
        match error.retry {
            // As text, since engines pass on how the cause is debugged.
            Retry::Task => Self::IoError(io::Error::other(error.to_string())),
            Retry::Never | Retry::Query => Self::Execution(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_text_of_an_engine() {
        for retry in [Retry::Never, Retry::Task, Retry::Query] {
            let error = RemoteError {
                causes: vec!["a.csv: row 3: \"x\" is not a number".to_owned(), "cause".to_owned()],
                hint: Some("fix it".to_owned()),
                retry,
            };
            let wrapped = format!("Job abc failed: {:?}", DataFusionError::from(error.clone()));
            assert_eq!(RemoteError::find(&wrapped), Some(error));
        }
        assert_eq!(RemoteError::find("Job abc failed: no executors"), None);
        assert_eq!(RemoteError::find("<<tfr-sql:!!>>"), None);
    }

    #[test]
    fn only_errors_to_run_the_task_again_for_are_io_errors() {
        let error = |retry| RemoteError { causes: vec!["x".to_owned()], hint: None, retry };
        assert!(matches!(DataFusionError::from(error(Retry::Task)), DataFusionError::IoError(_)));
        assert!(matches!(DataFusionError::from(error(Retry::Never)), DataFusionError::Execution(_)));
        assert!(matches!(DataFusionError::from(error(Retry::Query)), DataFusionError::Execution(_)));
    }
}
