//! Why a store cannot be opened, or what it answered.

use std::fmt;

use datafusion_common::DataFusionError;

use super::service::Service;
use crate::LocationText;

/// Result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a store. It names the store (`s3://bucket`), never a credential, and of what a server says only its code.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

/// What failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No store is known by this scheme.
    #[error("no store has the scheme {scheme:?}")]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// The store is left out of this build.
    #[error("this build has no HDFS, which {store} needs")]
    LeftOut {
        /// The store.
        store: String,
    },
    /// What the environment or the URL says of the store makes no sense.
    #[error("{store}: {problem}")]
    Settings {
        /// The store.
        store: String,
        /// What the service is.
        service: Service,
        /// What is wrong.
        problem: SettingsProblem,
    },
    /// There are no credentials, or they cannot be had.
    #[error("{store}: no credentials: {reason}")]
    NoCredentials {
        /// The store.
        store: String,
        /// What the service is.
        service: Service,
        /// Where they were looked for.
        reason: String,
    },
    /// The credentials do not allow it.
    #[error("{store} refuses access: {answer}")]
    Denied {
        /// The store.
        store: String,
        /// What the service is.
        service: Service,
        /// Status and code.
        answer: Answer,
    },
    /// There is no such bucket or container.
    #[error("there is no {store}: {answer}")]
    NoBucket {
        /// The store.
        store: String,
        /// Status and code.
        answer: Answer,
    },
    /// The bucket lies in another region.
    #[error("{store} lies in the region {region}, but another one was asked")]
    OtherRegion {
        /// The store.
        store: String,
        /// The region that the server named.
        region: String,
    },
    /// Any other answer that is no success.
    #[error("{store} answered {answer}")]
    Refused {
        /// The store.
        store: String,
        /// Status and code.
        answer: Answer,
    },
    /// The connection failed, as often as it was tried.
    #[error("{store} cannot be reached: {reason}")]
    Unreachable {
        /// The store.
        store: String,
        /// What the system says.
        reason: String,
    },
    /// A server of the web that sends files whole only.
    #[error("{store} sends no part of a file, only all of it")]
    NoParts {
        /// The store.
        store: String,
    },
    /// A server of the web without WebDAV.
    #[error("{store} lists no directories: {answer}")]
    NoListing {
        /// The store.
        store: String,
        /// Status and code.
        answer: Answer,
    },
    /// Anything else.
    #[error("{store}: {reason}")]
    Failed {
        /// The store.
        store: String,
        /// What the client of the store says.
        reason: String,
    },
}

/// What is wrong with what the environment or the URL says of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsProblem {
    /// The profile of the AWS command line tool has no keys, but says where they come from.
    #[error("the profile gets its keys by {way}, which is not supported")]
    ProfileWithoutKeys {
        /// Where they come from.
        way: &'static str,
    },
    /// The key of an Azure account is cut, or is something else.
    #[error("the account key is not base64")]
    AccountKey,
    /// The URL has a name that no container of Azure can have.
    #[error("{name:?} is no name of a container: these have 3 to 63 lower-case letters, digits and single hyphens")]
    ContainerName {
        /// The name.
        name: String,
    },
    /// The endpoint is not `http://host:9000` or `https://host`.
    #[error("the endpoint is not a URL of a server: {0}")]
    Endpoint(LocationText),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<String> for SettingsProblem {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

/// What a server answered: status, and the code and text of its error if these say no more than that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The service's own code, such as `AccessDenied`.
    pub code: Option<String>,
    /// The service's own words, without what may be secret.
    pub text: Option<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        match &self.text {
            Some(text) => write!(f, " ({text})"),
            None => Ok(()),
        }
    }
}

impl Error {
    /// What failed.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}
