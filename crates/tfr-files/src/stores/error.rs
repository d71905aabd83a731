//! Why a store cannot be opened, or what it answered.

use std::fmt;

use datafusion_common::DataFusionError;

use super::service::Service;

/// Result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of a store. It names the store (`s3://bucket`), never a credential, and of what a server says only its code.
#[derive(Debug)]
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
    #[error("this build of tfr-formats has no HDFS, which {store} needs")]
    LeftOut {
        /// The store.
        store: String,
    },
    /// What the environment or the URL says of the store makes no sense.
    #[error("{store}: {reason}")]
    Settings {
        /// The store.
        store: String,
        /// What the service is.
        service: Service,
        /// What is wrong.
        reason: String,
        /// The way out, if it is not the usual one for the service.
        way_out: Option<String>,
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

    /// The way out, where there is one to name.
    pub fn hint(&self) -> Option<String> {
        let hint = match self.kind() {
            ErrorKind::UnknownScheme { .. } => {
                "known are file://, s3://, gs://, az://, abfss://, http://, https:// and hdfs://".to_owned()
            }
            ErrorKind::LeftOut { .. } => "build tfr-sql with --features hdfs".to_owned(),
            ErrorKind::Settings { way_out: Some(way_out), .. } => way_out.clone(),
            ErrorKind::Settings { service, .. } | ErrorKind::NoCredentials { service, .. } => {
                service.credentials().to_owned()
            }
            ErrorKind::Denied { service, .. } => {
                format!("check that the credentials are the right ones and may do this: {}", service.credentials())
            }
            ErrorKind::NoBucket { .. } => "check the name, and the endpoint if it is not the usual one".to_owned(),
            ErrorKind::OtherRegion { region, .. } => format!("set AWS_REGION={region}"),
            ErrorKind::Unreachable { .. } => "check the endpoint, the network and the proxy settings".to_owned(),
            ErrorKind::NoParts { .. } => "download the file and name the copy".to_owned(),
            ErrorKind::NoListing { .. } => "name the files themselves: over http only WebDAV servers list".to_owned(),
            ErrorKind::Refused { .. } | ErrorKind::Failed { .. } => return None,
        };
        Some(hint)
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}
