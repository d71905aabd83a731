//! [`Service`]: the kind of object store.

use std::fmt;

/// The kind of object store, determined by the scheme of its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// The local file system: `file`.
    File,
    /// Amazon S3, or a compatible server: `s3`, `s3a`.
    S3,
    /// Google Cloud Storage: `gs`, `gcs`.
    Gcs,
    /// Azure Blob Storage: `az`, `azure`, `adl`, `abfs`, `abfss`.
    Azure,
    /// A web server: `http`, `https`.
    Http,
    /// HDFS: `hdfs`, `viewfs`.
    Hdfs,
}

impl Service {
    /// Returns the service of a URL scheme.
    pub fn of(scheme: &str) -> Option<Self> {
        Some(match scheme {
            "file" => Self::File,
            "s3" | "s3a" => Self::S3,
            "gs" | "gcs" => Self::Gcs,
            "az" | "azure" | "adl" | "abfs" | "abfss" => Self::Azure,
            "http" | "https" => Self::Http,
            "hdfs" | "viewfs" => Self::Hdfs,
            _ => return None,
        })
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "the local file system",
            Self::S3 => "S3",
            Self::Gcs => "Google Cloud Storage",
            Self::Azure => "Azure Blob Storage",
            Self::Http => "HTTP",
            Self::Hdfs => "HDFS",
        })
    }
}
