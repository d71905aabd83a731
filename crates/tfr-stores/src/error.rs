//! Errors of opening and accessing stores.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::location_text::LocationText;
use crate::service::Service;

/// Result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

tfrecord_framing::boxed_error! {
    /// An error of a store, of a location or of what may be opened. It names the store (`s3://bucket`) but never a credential. Of a server's response it only
    /// contains the code.
    pub struct Error(Box<ErrorKind>);
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is neither a path nor a URL.
    #[error("{}: not a usable path: {reason}", if .location.is_empty() { "''" } else { .location })]
    Location {
        /// The location as the user wrote it.
        location: String,
        /// The reason.
        reason: String,
    },
    /// A pipe, a device or a socket.
    #[error("{file}: not a regular file")]
    NotAFile {
        /// The path.
        file: String,
    },
    /// A file of a directory cannot be examined, so that it is unknown whether it has rows.
    #[error("{file}: cannot be examined")]
    Examine {
        /// The file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// A file or a URL is outside of what the run may open.
    #[error(
        "{name}: not allowed{}",
        target.as_ref().map(|target| format!(": it leads to {}", target.display())).unwrap_or_default()
    )]
    NotAllowed {
        /// The file or the URL, as the user wrote it.
        name: String,
        /// Where a link within an allowed directory leads.
        target: Option<PathBuf>,
        /// What is allowed, as the user wrote it.
        allowed: Vec<String>,
    },
    /// No store supports this scheme.
    #[error("unsupported URL scheme {scheme:?}")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// This build does not include the store.
    #[error("{store} needs HDFS, which this build does not include")]
    LeftOut {
        /// The store.
        store: String,
    },
    /// The environment or the URL contains invalid settings for the store.
    #[error("{store}: {problem}")]
    Settings {
        /// The store.
        store: String,
        /// The service.
        service: Service,
        /// The problem.
        problem: SettingsProblem,
    },
    /// There are no credentials, or they cannot be obtained.
    #[error("{store}: no credentials: {reason}")]
    NoCredentials {
        /// The store.
        store: String,
        /// The service.
        service: Service,
        /// Where they were searched.
        reason: String,
    },
    /// The credentials do not permit access.
    #[error("{store} refuses access: {answer}")]
    Denied {
        /// The store.
        store: String,
        /// The service.
        service: Service,
        /// Status and code.
        answer: Answer,
    },
    /// The bucket or container does not exist.
    #[error("there is no {store}: {answer}")]
    NoBucket {
        /// The store.
        store: String,
        /// Status and code.
        answer: Answer,
    },
    /// The bucket is in another region.
    #[error("{store} is in region {region}, but the request went to another region")]
    OtherRegion {
        /// The store.
        store: String,
        /// The region named by the server.
        region: String,
    },
    /// Any other unsuccessful response.
    #[error("{store} answered {answer}")]
    Refused {
        /// The store.
        store: String,
        /// Status and code.
        answer: Answer,
    },
    /// The connection failed on every attempt.
    #[error("{store} cannot be reached: {reason}")]
    Unreachable {
        /// The store.
        store: String,
        /// The service.
        service: Service,
        /// The system's error.
        reason: String,
    },
    /// A file of HDFS that is open for writing.
    #[error("{store}: {path} is still being written")]
    BeingWritten {
        /// The store.
        store: String,
        /// The file.
        path: String,
    },
    /// A web server that only sends whole files.
    #[error("{store} does not send parts of a file, only whole files")]
    NoParts {
        /// The store.
        store: String,
    },
    /// A web server without WebDAV.
    #[error("{store} does not list directories: {answer}")]
    NoListing {
        /// The store.
        store: String,
        /// Status and code.
        answer: Answer,
    },
    /// Any other error.
    #[error("{store}: {reason}")]
    Failed {
        /// The store.
        store: String,
        /// The client's error.
        reason: String,
    },
}

/// Invalid settings in the environment or the URL of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsProblem {
    /// The profile of the AWS command line tool has no keys, but refers to another source.
    #[error("the profile gets its keys by {way}, which is not supported")]
    ProfileWithoutKeys {
        /// The source.
        way: &'static str,
    },
    /// The key of an Azure account is truncated or otherwise invalid.
    #[error("the account key is not base64")]
    AccountKey,
    /// The URL contains an invalid name of an Azure container.
    #[error(
        "{name:?} is not a valid name of a container: expected 3 to 63 lower-case letters, digits and single hyphens"
    )]
    ContainerName {
        /// The name.
        name: String,
    },
    /// The endpoint does not have the form `http://host:9000` or `https://host`.
    #[error("the endpoint is not a URL of a server: {0}")]
    Endpoint(LocationText),
    /// A URL of HDFS contains a user, which Hadoop ignores.
    #[error("the URL of HDFS contains a user")]
    UserOfHdfs,
    /// Any other problem.
    #[error("{0}")]
    Other(String),
}

impl From<String> for SettingsProblem {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

/// A server's response: its status, and the error's code and text if these are harmless.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status, if it is a response of HTTP.
    pub status: Option<u16>,
    /// The service's own code, such as `AccessDenied`.
    pub code: Option<String>,
    /// The service's own message, without potential secrets.
    pub text: Option<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status.map(|status| status.to_string());
        let known: Vec<_> = status.iter().chain(&self.code).map(String::as_str).collect();
        match &self.text {
            Some(text) if known.is_empty() => f.write_str(text),
            Some(text) => write!(f, "{} ({text})", known.join(" ")),
            None => f.write_str(&known.join(" ")),
        }
    }
}

impl Error {
    /// Returns the refusal of a [`Door`](crate::Door), if it is among `error` and its sources. Stores wrap it.
    pub fn refusal_in(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut chain = std::iter::successors(Some(error), |&error| match error.downcast_ref::<io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as _),
            None => error.source(),
        });
        chain.find_map(|error| match error.downcast_ref::<Self>()?.kind() {
            ErrorKind::NotAllowed { name, target, allowed } => {
                let (name, target, allowed) = (name.clone(), target.clone(), allowed.clone());
                Some(ErrorKind::NotAllowed { name, target, allowed }.into())
            }
            _ => None,
        })
    }
}
