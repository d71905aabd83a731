//! [`Place`]: where a table is, and how the files that its metadata names are opened.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion_common::DataFusionError;

use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use tfr_files::{door_of, files_of_directory, list_directory, store_of};
use tfr_stores::{Door, Location, StoreUrl};

use super::types::Defect;
use crate::error::{Error, Result, TableError};

/// A path that cannot be opened because it is in another store than the table.
pub(crate) const OTHER_STORE: &str = "it is in another store than the table";

/// The location of a table in its store. Whatever is opened passes the session's [`Door`].
pub(crate) struct Place {
    store: Arc<dyn ObjectStore>,
    location: Location,
    door: Door,
    /// What the table is in messages: `a Delta table`.
    format: &'static str,
}

impl Place {
    /// Returns the place of the table at `location`, which messages call `format`.
    ///
    /// # Errors
    /// The location is outside, or its store is not registered with the session.
    pub(crate) fn of(
        session: &dyn Session,
        location: &Location,
        format: &'static str,
    ) -> Result<Self, tfr_files::Error> {
        let (_, store) = store_of(session, std::slice::from_ref(location))?;
        Ok(Self { store, location: location.clone(), door: door_of(session.config()), format })
    }

    /// Returns the error of a damaged file of the table.
    pub(crate) fn damaged(&self, file: String, reason: String) -> Error {
        TableError::unusable(file, format!("damaged file of {}: {reason}", self.format)).into()
    }

    /// Returns the error of a table with something that is not supported.
    pub(crate) fn unsupported(&self, feature: String) -> Error {
        TableError::unusable(self.table(), format!("{} with {feature} is not supported", self.format)).into()
    }

    /// Returns the error of a table whose columns cannot be determined by a file.
    pub(crate) fn refused(&self, file: &str, defect: Defect) -> Error {
        match defect {
            Defect::Damaged(reason) => self.damaged(file.to_owned(), reason),
            Defect::Unsupported(feature) => self.unsupported(feature),
        }
    }

    /// Returns the error of metadata that names a path that cannot be used.
    pub(crate) fn unusable(&self, path: &str, reason: String) -> Error {
        TableError::unusable(self.table(), format!("{} names the file {path:?}: {reason}", self.format)).into()
    }

    /// Returns the table as the user wrote it.
    pub(crate) fn table(&self) -> String {
        self.location.to_string()
    }

    /// Returns the location that the user wrote.
    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Returns the store with the table.
    pub(crate) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Returns the name of a file for messages.
    pub(crate) fn name(&self, path: &Path) -> String {
        self.location.file_names().name(path)
    }

    /// Lists the files of a directory, without those in directories in it.
    pub(crate) async fn files(&self, directory: &Path) -> Result<Vec<ObjectMeta>, tfr_files::Error> {
        files_of_directory(self.store.as_ref(), &self.door, &self.location, directory).await
    }

    /// Lists the files and the directories in a directory, without what is below these.
    pub(crate) async fn list(&self, directory: &Path) -> Result<ListResult, tfr_files::Error> {
        list_directory(self.store.as_ref(), &self.door, &self.location, directory).await
    }

    /// Returns the state of a file; `None` if it does not exist.
    pub(crate) async fn head(&self, path: &Path) -> Result<Option<ObjectMeta>, tfr_files::Error> {
        self.check(path)?;
        match self.store.head(path).await {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.unreadable(path, error.into())),
        }
    }

    /// Reads a file of this many bytes.
    pub(crate) async fn read(&self, path: &Path, size: u64) -> Result<Bytes, tfr_files::Error> {
        self.check(path)?;
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
    pub(crate) async fn read_range(&self, path: &Path, range: Range<u64>) -> Result<Bytes, tfr_files::Error> {
        self.check(path)?;
        let bytes = self.store.get_range(path, range).await;
        bytes.map_err(|error| self.unreadable(path, error.into()))
    }

    fn check(&self, path: &Path) -> Result<(), tfr_files::Error> {
        self.door.check_object(&self.location, path)?;
        Ok(self.location.check_file(path)?)
    }

    fn unreadable(&self, path: &Path, source: DataFusionError) -> tfr_files::Error {
        tfr_files::ErrorKind::Read { file: self.name(path), source }.into()
    }
}

/// Splits a path with a scheme, such as `s3://bucket/key` or `file:/x`, into its store and the path there, which begins
/// with `/` if it is local. `None` if it has no scheme: the name of a file may contain a colon.
///
/// # Errors
/// The store cannot be determined. The error is the reason.
pub(crate) fn split(path: &str) -> Result<Option<(StoreUrl, &str)>, String> {
    let Some((scheme, rest)) = path.split_once(':') else { return Ok(None) };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if !is_scheme || !rest.starts_with('/') {
        return Ok(None);
    }
    if scheme.eq_ignore_ascii_case("file") {
        // Java writes `file:/x`.
        let path = match rest.strip_prefix("//") {
            Some(path) if !path.starts_with('/') => return Err("it is on another host".to_owned()),
            Some(path) => path,
            None => rest,
        };
        return Ok(Some((StoreUrl::local_files(), path)));
    }
    let rest = rest.strip_prefix("//").ok_or_else(|| "it has no store".to_owned())?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let root = Location::parse(&format!("{scheme}://{authority}/")).map_err(|error| error.to_string())?;
    Ok(Some((root.object_store().clone(), path)))
}
