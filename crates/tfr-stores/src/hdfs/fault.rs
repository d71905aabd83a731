//! [`Fault`]: why a request to HDFS failed.

use std::fmt;
use std::io::ErrorKind;

use hdfs_native::HdfsError;

use crate::error::Answer;
use crate::wire::Refusal;

/// Why a request failed.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// There is no such file or directory.
    NotFound,
    /// There is such a file or directory already.
    Exists,
    /// The user may not do this.
    Denied(Answer),
    /// The namenode requires credentials, and these could not be obtained.
    NoCredentials(String),
    /// No namenode is ready: all are on standby, or in safe mode.
    NotReady(Answer),
    /// No answer, or no connection.
    Unreachable(String),
    /// The name of a host is unknown.
    Unknown(String),
    /// No datanode returned the bytes.
    Lost(String),
    /// The file is open for writing.
    BeingWritten(String),
    /// The file is no longer the one that was asked for.
    Changed,
    /// Any other failure.
    Failed(String),
}

impl Fault {
    /// Whether the same request may succeed later.
    pub(super) fn may_pass(&self) -> bool {
        matches!(self, Self::NotReady(_) | Self::Unreachable(_) | Self::Lost(_))
    }

    /// Converts it to an error about the file or directory at `path`.
    pub(super) fn at(self, path: &str) -> object_store::Error {
        use object_store::Error as Client;
        let path = path.to_owned();
        match self {
            Self::NotFound => Client::NotFound { path, source: "it does not exist".into() },
            Self::Exists => Client::AlreadyExists { path, source: "it exists".into() },
            Self::Changed => Client::Precondition { path, source: "the file changed".into() },
            fault => Client::Generic { store: "HDFS", source: Box::new(Refusal::from(fault)) },
        }
    }

    /// Converts an exception of the namenode. Of its text, only the first line is for users: the stack of the server
    /// follows.
    fn of_exception(class: &str, text: &str) -> Self {
        let name = class.rsplit(['.', '$']).next().unwrap_or(class);
        let line = text.lines().next().unwrap_or_default().trim();
        let answer = || Answer {
            status: None,
            code: Some(name.to_owned()).filter(|name| !name.is_empty()),
            text: Some(line.to_owned()).filter(|line| !line.is_empty()),
        };
        match name {
            "FileNotFoundException" | "ParentNotDirectoryException" => Self::NotFound,
            "FileAlreadyExistsException" => Self::Exists,
            _ if line.contains("destination directory is not empty") => Self::Exists,
            "AccessControlException" | "AuthorizationException" | "InvalidToken" | "SnapshotAccessControlException" => {
                Self::Denied(answer())
            }
            "SaslException" | "GSSException" => Self::NoCredentials(answer().to_string()),
            "StandbyException"
            | "RetriableException"
            | "SafeModeException"
            | "ObserverRetryOnActiveException"
            | "NoNamenodesAvailableException"
            // Of a file that is being closed for another writer.
            | "AlreadyBeingCreatedException"
            | "RecoveryInProgressException"
            | "NotReplicatedYetException"
            | "ServerNotRunningYetException" => Self::NotReady(answer()),
            _ => Self::Failed(answer().to_string()),
        }
    }
}

impl From<HdfsError> for Fault {
    fn from(error: HdfsError) -> Self {
        match error {
            HdfsError::FileNotFound(_) => Self::NotFound,
            HdfsError::RPCError(class, text) | HdfsError::FatalRPCError(class, text) => {
                Self::of_exception(&class, &text)
            }
            // The client drops the text of an exception that ends the connection.
            HdfsError::IOError(error) if is_closed(error.kind()) => Self::Unreachable(
                "the namenode closed the connection without an answer; it may require Kerberos \
                 (hadoop.security.authentication), or not accept the user"
                    .to_owned(),
            ),
            HdfsError::IOError(error) => Self::Unreachable(error.to_string()),
            HdfsError::SASLError(reason) => Self::NoCredentials(reason),
            HdfsError::GSSAPIError(_, _, reason) => Self::NoCredentials(reason),
            HdfsError::NoSASLMechanism => {
                Self::NoCredentials("the namenode accepts none of the available methods of authentication".to_owned())
            }
            // The text is a dump of the datanodes.
            HdfsError::DataTransferError(text) if text.starts_with("All DataNodes failed") => {
                Self::Lost("no datanode returned an intact copy of a block".to_owned())
            }
            HdfsError::DataTransferError(_)
            | HdfsError::ChecksumError
            | HdfsError::BlocksNotFound(_)
            | HdfsError::ErasureCodingError(_) => Self::Lost(first_line(&error)),
            HdfsError::UnsupportedFeature(text) if text.contains("encryption zone") => {
                Self::Failed("the file is in an encryption zone, which is not supported".to_owned())
            }
            HdfsError::AlreadyExists(_) => Self::Exists,
            // No datanode has confirmed the last block in time.
            HdfsError::OperationFailed(text) if text.contains("complete file") => Self::Lost(text),
            HdfsError::InvalidRPCResponse(error) => {
                Self::Failed(format!("the answer is not one of a namenode: {error}"))
            }
            error => Self::Failed(first_line(&error)),
        }
    }
}

fn is_closed(kind: ErrorKind) -> bool {
    use ErrorKind as Kind;
    matches!(kind, Kind::BrokenPipe | Kind::ConnectionAborted | Kind::ConnectionReset | Kind::UnexpectedEof)
}

fn first_line(error: &HdfsError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Denied(answer) => Self::Denied(answer),
            Fault::NoCredentials(reason) => Self::NoCredentials(reason),
            Fault::NotReady(answer) => Self::Answer(answer),
            Fault::Unreachable(reason) | Fault::Unknown(reason) => Self::Unreachable(reason),
            Fault::BeingWritten(path) => Self::BeingWritten(path),
            fault @ (Fault::NotFound | Fault::Exists | Fault::Changed | Fault::Lost(_) | Fault::Failed(_)) => {
                Self::Failed(fault.to_string())
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("it does not exist"),
            Self::Exists => f.write_str("it exists already"),
            Self::Changed => f.write_str("the file changed"),
            Self::BeingWritten(path) => write!(f, "{path} is still being written"),
            Self::Denied(answer) | Self::NotReady(answer) => answer.fmt(f),
            Self::NoCredentials(reason)
            | Self::Unreachable(reason)
            | Self::Unknown(reason)
            | Self::Lost(reason)
            | Self::Failed(reason) => f.write_str(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hdfs_exception_is_converted_by_kind_and_without_its_stack() {
        let stack = "\n\tat org.apache.hadoop.hdfs.server.namenode.FSDirectory.check(FSDirectory.java:1894)\n\tat x";
        for (class, text, shown, may_pass) in [
            ("java.io.FileNotFoundException", "File does not exist: /a", "it does not exist", false),
            (
                "org.apache.hadoop.security.AccessControlException",
                "Permission denied: user=bob, access=READ, inode=\"/a\":root:supergroup:-rw-------",
                "AccessControlException (Permission denied: user=bob, access=READ, \
                 inode=\"/a\":root:supergroup:-rw-------)",
                false,
            ),
            (
                "org.apache.hadoop.security.token.SecretManager$InvalidToken",
                "token is expired",
                "InvalidToken (token is expired)",
                false,
            ),
            ("org.apache.hadoop.ipc.StandbyException", "not now", "StandbyException (not now)", true),
            ("org.apache.hadoop.ipc.RetriableException", "starting", "RetriableException (starting)", true),
            ("org.apache.hadoop.fs.UnresolvedLinkException", "", "UnresolvedLinkException", false),
        ] {
            let fault = Fault::from(HdfsError::RPCError(class.to_owned(), format!("{text}{stack}")));
            assert_eq!((fault.to_string().as_str(), fault.may_pass()), (shown, may_pass), "{class}");
        }
        let dump = HdfsError::DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: 1 }]".to_owned());
        assert_eq!(Fault::from(dump).to_string(), "no datanode returned an intact copy of a block");
    }
}
