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

    /// Where its credentials come from, as advice.
    pub(super) fn credentials(self) -> &'static str {
        match self {
            Self::S3 => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or AWS_SKIP_SIGNATURE=true for public data"
            }
            Self::Gcs => {
                "set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, or GOOGLE_SKIP_SIGNATURE=true for public data"
            }
            Self::Azure => {
                "set AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or \
                 AZURE_SKIP_SIGNATURE=true for public data"
            }
            Self::Http => "credentials of a web server stand in the URL: https://user:password@host/file.csv",
            Self::Hdfs => "set HADOOP_CONF_DIR to the directory of the cluster's core-site.xml and hdfs-site.xml",
            Self::File => "check the permissions of the file",
        }
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
