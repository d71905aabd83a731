//! [`Place`]: where a Delta table is, and how the paths in its log are read.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion_common::DataFusionError;
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tfr_files::{Door, Location, files_of_directory, store_of};

use crate::error::{Error, Result, TableError};

/// The directory of the log.
const LOG: &str = "_delta_log";

/// The directory of a Delta table in its store.
pub(super) struct Place {
    store: Arc<dyn ObjectStore>,
    location: Location,
    door: Door,
}

impl Place {
    /// Returns the place of the table at `location`.
    ///
    /// # Errors
    /// The location is outside, or its store is not registered with the session.
    pub(super) fn of(session: &dyn Session, location: &Location) -> Result<Self, tfr_files::Error> {
        let (_, store) = store_of(session, std::slice::from_ref(location))?;
        Ok(Self { store, location: location.clone(), door: Door::of(session.config()) })
    }

    /// Returns the table as the user wrote it.
    pub(super) fn table(&self) -> String {
        self.location.to_string()
    }

    /// Returns the name of a file for messages.
    pub(super) fn name(&self, path: &Path) -> String {
        self.location.file_names().name(path)
    }

    fn log(&self) -> Path {
        self.location.key().clone().join(LOG)
    }

    /// Whether the directory contains a log.
    pub(super) async fn has_log(&self) -> bool {
        // What cannot be listed is there.
        self.log_files().await.map_or(true, |files| !files.is_empty())
    }

    /// Lists the files of the log, without those in directories.
    pub(super) async fn log_files(&self) -> Result<Vec<ObjectMeta>, tfr_files::Error> {
        files_of_directory(self.store.as_ref(), &self.door, &self.location, &self.log()).await
    }

    /// Returns the path of a sidecar of a checkpoint.
    pub(super) fn sidecar(&self, path: &str) -> Result<Path> {
        match path.contains('/') {
            true => self.resolve(path),
            false => self.resolve(&format!("{LOG}/_sidecars/{path}")),
        }
    }

    /// Returns the path that a log names: relative to the table or absolute, percent-encoded.
    ///
    /// # Errors
    /// It is not a path, contains `..`, or is in another store than the table.
    pub(super) fn resolve(&self, named: &str) -> Result<Path> {
        let unusable = |reason: String| {
            let (table, path) = (self.table(), named.to_owned());
            Error::from(TableError::DeltaPath { table, path, reason })
        };
        let parse = |encoded: &str| Path::from_url_path(encoded).map_err(|error| unusable(error.to_string()));
        let (store, path) = match absolute(named) {
            None if named.starts_with('/') => return parse(named),
            None => {
                let relative = parse(named)?;
                if relative.as_ref().is_empty() {
                    return Err(unusable("it is empty".to_owned()));
                }
                let path = Path::parse(format!("{}/{relative}", self.location.key()));
                return path.map_err(|error| unusable(error.to_string()));
            }
            Some(("file", rest)) => {
                // Java writes `file:/x`.
                let path = match rest.strip_prefix("//") {
                    Some(path) if !path.starts_with('/') => return Err(unusable("it is on another host".to_owned())),
                    Some(path) => path,
                    None => rest,
                };
                (ObjectStoreUrl::local_filesystem(), path)
            }
            Some((scheme, rest)) => {
                let rest = rest.strip_prefix("//").ok_or_else(|| unusable("it has no store".to_owned()))?;
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                let root = Location::parse(&format!("{scheme}://{authority}/"));
                (root.map_err(|error| unusable(error.to_string()))?.object_store().clone(), path)
            }
        };
        match store == *self.location.object_store() {
            true => parse(path),
            false => Err(unusable("it is in another store than the table".to_owned())),
        }
    }

    /// Returns the state of a file; `None` if it does not exist.
    pub(super) async fn head(&self, path: &Path) -> Result<Option<ObjectMeta>, tfr_files::Error> {
        self.door.check_object(&self.location, path)?;
        self.location.check_file(path)?;
        match self.store.head(path).await {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.unreadable(path, error.into())),
        }
    }

    /// Reads a file of this many bytes.
    pub(super) async fn read(&self, path: &Path, size: u64) -> Result<Bytes, tfr_files::Error> {
        self.door.check_object(&self.location, path)?;
        self.location.check_file(path)?;
        let read = async { self.store.get(path).await?.bytes().await };
        let bytes = read.await.map_err(|error| self.unreadable(path, error.into()))?;
        match bytes.len() as u64 == size {
            true => Ok(bytes),
            false => {
                let found = format!("expected {size} bytes, found {}", bytes.len());
                Err(self.unreadable(path, DataFusionError::Execution(found)))
            }
        }
    }

    /// Reads a part of a file.
    pub(super) async fn read_range(&self, path: &Path, range: Range<u64>) -> Result<Bytes, tfr_files::Error> {
        self.door.check_object(&self.location, path)?;
        self.location.check_file(path)?;
        let bytes = self.store.get_range(path, range).await;
        bytes.map_err(|error| self.unreadable(path, error.into()))
    }

    fn unreadable(&self, path: &Path, source: DataFusionError) -> tfr_files::Error {
        tfr_files::ErrorKind::Read { file: self.name(path), source }.into()
    }
}

/// Splits a path with a scheme, such as `s3://bucket/key` or `file:/x`. The name of a file may contain a colon.
fn absolute(path: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = path.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    (is_scheme && rest.starts_with('/')).then_some((scheme, rest))
}
