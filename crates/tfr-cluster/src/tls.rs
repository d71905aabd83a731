//! [`Tls`]: encrypted connections among the processes of a cluster, which prove to each other that they belong to it.

use std::env;
use std::error::Error as StdError;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::extension::EndpointOverrideFn;
use tonic::codegen::http::uri::{Scheme, Uri};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig};

/// The variables with the paths of PEM files: the certificate of the authority that has signed those of all processes, and
/// the certificate and the private key of this one.
const FILES: [&str; 3] = ["TFR_CLUSTER_CA", "TFR_CLUSTER_CERT", "TFR_CLUSTER_KEY"];

/// The name in every certificate. Executors come and go under addresses that no certificate could list.
const NAME: &str = "tfr-cluster";

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(20);

/// The certificates of a process.
#[derive(Clone, Debug)]
pub struct Tls {
    authority: Certificate,
    identity: Identity,
}

/// The certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Some of the variables are missing.
    #[error("{missing} is not set; TLS needs all of {}", FILES.join(", "))]
    Missing {
        /// The first of them.
        missing: &'static str,
    },
    /// A file cannot be read.
    #[error("{variable}: cannot read {}", path.display())]
    Read {
        /// The variable.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Tls {
    /// Reads the files that the environment names. `None` if it names none.
    ///
    /// # Errors
    /// It names only some of them, or one cannot be read.
    pub fn from_environment() -> Result<Option<Self>, TlsError> {
        let paths = FILES.map(|variable| env::var_os(variable).filter(|path| !path.is_empty()));
        if paths.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut files = Vec::new();
        for (variable, path) in FILES.into_iter().zip(paths) {
            let path = PathBuf::from(path.ok_or(TlsError::Missing { missing: variable })?);
            files.push(fs::read(&path).map_err(|source| TlsError::Read { variable, path, source })?);
        }
        let [authority, certificate, key] = files.as_slice() else { return Ok(None) };
        Ok(Some(Self { authority: Certificate::from_pem(authority), identity: Identity::from_pem(certificate, key) }))
    }

    /// Returns what a server needs. It refuses clients without a certificate of the authority.
    pub fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(self.identity.clone()).client_ca_root(self.authority.clone())
    }

    /// Returns what makes the connections of Ballista's clients encrypted.
    pub fn clients(&self) -> EndpointOverrideFn {
        let tls = ClientTlsConfig::new()
            .ca_certificate(self.authority.clone())
            .identity(self.identity.clone())
            .domain_name(NAME);
        Arc::new(move |endpoint| {
            let endpoint = if endpoint.uri().scheme() == Some(&Scheme::HTTPS) { endpoint } else { https(&endpoint)? };
            Ok(endpoint.tls_config(tls.clone())?)
        })
    }
}

/// Returns the text of an error and its cause.
pub fn with_cause(error: &TlsError) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Returns an endpoint at the same address. Ballista's executors write `http` whatever they are told.
fn https(endpoint: &Endpoint) -> Result<Endpoint, Box<dyn StdError + Send + Sync>> {
    let mut parts = endpoint.uri().clone().into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    Ok(Endpoint::from(Uri::from_parts(parts)?).connect_timeout(CONNECT).tcp_nodelay(true).keep_alive_while_idle(true))
}
