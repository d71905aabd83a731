//! [`Service`]: who keeps the objects of a store.

use std::fmt;

/// Who keeps the objects of a store, by the scheme of its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// This machine: `file`.
    File,
    /// Amazon S3, or a server that speaks its protocol: `s3`, `s3a`.
    S3,
    /// Google Cloud Storage: `gs`, `gcs`.
    Gcs,
    /// Azure Blob Storage: `az`, `azure`, `adl`, `abfs`, `abfss`.
    Azure,
    /// A server of the web: `http`, `https`.
    Http,
    /// Hadoop's file system: `hdfs`, `viewfs`.
    Hdfs,
}

impl Service {
    /// The service that a URL's scheme stands for.
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
