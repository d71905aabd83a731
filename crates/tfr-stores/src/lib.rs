//! Object stores, and what of them and of local files may be opened. Without an engine: a table, a data set's target and the
//! Python module's loader use the same stores.
//!
//! | task | use |
//! |---|---|
//! | Parse a path or URL, as written by a user | [`Location`] |
//! | Show it without secrets | [`LocationText`], [`redacted`] |
//! | Access `s3://`, `gs://`, `az://`, `https://`, `hdfs://` | [`Stores`] |
//! | Refuse what is outside of some directories and URLs | [`Door`], in the [options](StoreOptions::door) of the stores |
//! | Compare the version of a file with a listing | [`Change`] |
//! | Start and end the runtime that waits for requests | [`threads`] |
//!
//! Stores are configured from the environment, by the variables of the clouds' own tools. Secrets never reach a log, an
//! error or the URL of a table.
//!
//! | scheme | store | credentials |
//! |---|---|---|
//! | `file` | local files | |
//! | `s3`, `s3a` | Amazon S3 and compatible servers | `AWS_ACCESS_KEY_ID` and so on, `AWS_PROFILE` with static keys, web identity, ECS and EKS, the instance; none with `AWS_SKIP_SIGNATURE` |
//! | `gs`, `gcs` | Google Cloud Storage | `GOOGLE_SERVICE_ACCOUNT`, application default credentials, the instance; none with `GOOGLE_SKIP_SIGNATURE` |
//! | `az`, `abfss`, `abfs`, `azure`, `adl` | Azure Blob Storage | `AZURE_STORAGE_ACCOUNT_NAME` with a key, a SAS, a client secret or a token, managed identity; none with `AZURE_SKIP_SIGNATURE` |
//! | `http`, `https` | files of a web server; directories by WebDAV | user and password, or a signature, in the URL |
//! | `hdfs`, `viewfs` | HDFS, with the feature `hdfs` | Kerberos, a token or simple, as configured in `HADOOP_CONF_DIR` |
//!
//! ```
//! use tfr_stores::{Location, StoreOptions, Stores};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let stores = Stores::new(StoreOptions::from_environment());
//! let location = Location::parse("https://host/data/a.csv")?;
//! let store = stores.get(location.object_store().as_ref())?;
//! assert_eq!(store.to_string(), "https://host");
//! # Ok(())
//! # }
//! ```

mod change;
mod checked_client;
mod cloud;
mod connection;
mod directories;
mod door;
mod environment;
mod error;
#[cfg(feature = "hdfs")]
mod hdfs;
mod location;
mod location_text;
mod parts;
mod profile;
mod ranges;
mod remote;
mod service;
mod store_url;
mod stores;
pub mod threads;
mod uploads;
mod web;
mod wire;

pub use change::{Change, local_meta, strong_tag};
pub use directories::{DirectoryStore, Found, UNFINISHED};
pub use door::{Door, refused_io};
pub use environment::Environment;
pub use error::{Answer, Error, ErrorKind, Result, SettingsProblem};
pub use location::{FileNames, Location, Segment};
pub use location_text::{LocationText, mistyped_url, percent_decode, redacted};
pub use ranges::range_of;
pub use service::Service;
pub use store_url::StoreUrl;
pub use stores::{StoreOptions, Stores};
pub use uploads::UploadStores;
