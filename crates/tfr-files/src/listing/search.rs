//! Finds the files of a location, and the tables that they belong to.

use std::collections::BTreeMap;

use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, ObjectStore};
use tfr_stores::{Door, Location};

use crate::error::{Error, ErrorKind, Result};
use crate::findings::Findings;
use crate::listing::local::LocalDirectory;
use crate::listing::owner::{OwnedFiles, owners};
use crate::listing::table_format::Owner;
use crate::listing::traversal::Traversal;

/// The contents of one location.
#[derive(Debug)]
pub struct FoundFiles {
    /// The files to read, sorted by path. If there is none, the error for a table of this location.
    files: Result<Vec<ObjectMeta>>,
    /// Files in directories that were skipped, by path: empty ones, and those whose name starts with `_`.
    pub passed: BTreeMap<Path, ObjectMeta>,
    /// The tables that the files belong to, if requested.
    pub owners: Vec<Owner>,
    /// The directories that a job of Hadoop or Spark has not finished, as messages name them.
    pub unfinished: Vec<String>,
    /// Files of a directory that are skipped because their names are not supported.
    misnamed: Vec<String>,
}

impl FoundFiles {
    /// Returns the files to read, sorted by path.
    ///
    /// # Errors
    /// There is no file to read.
    pub fn files(self) -> Result<Vec<ObjectMeta>> {
        self.files
    }

    /// Warns of files that are skipped because of their names.
    ///
    /// # Errors
    /// There is one, and the session is strict.
    pub fn check_names(&mut self, session: &dyn Session) -> Result<()> {
        let is_strict = Findings::of(session.config()).is_some_and(|findings| findings.is_strict());
        for file in std::mem::take(&mut self.misnamed) {
            let error = Error::from(ErrorKind::FileName { file });
            if is_strict {
                return Err(error);
            }
            log::warn!("{error}: the file is skipped");
        }
        Ok(())
    }

    /// Takes the files to read, or an empty list if there are none.
    pub fn take_files(&mut self) -> Vec<ObjectMeta> {
        self.files.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// Returns the file at `path`, if it exists. Errors name `location`.
pub async fn head(
    store: &dyn ObjectStore,
    door: &Door,
    location: &Location,
    path: &Path,
) -> Result<Option<ObjectMeta>> {
    Traversal::new(store, door, location).head(path).await
}

/// Lists the files of one directory of the store of `location`, hidden ones too, without those below it.
///
/// # Errors
/// The directory cannot be listed, or the state of one of its files cannot be determined.
pub async fn files_of_directory(
    store: &dyn ObjectStore,
    door: &Door,
    location: &Location,
    directory: &Path,
) -> Result<Vec<ObjectMeta>> {
    Ok(list_directory(store, door, location, directory).await?.objects)
}

/// Lists the files and the directories in one directory of the store of `location`, hidden ones too, without what is below
/// them. A directory that does not exist is empty.
///
/// # Errors
/// Same as [`files_of_directory`].
pub async fn list_directory(
    store: &dyn ObjectStore,
    door: &Door,
    location: &Location,
    directory: &Path,
) -> Result<ListResult> {
    let name = location.file_names().name(directory);
    door.check_object(location, directory)?;
    let listed = Traversal::new(store, door, location).list(directory).await;
    let LocalDirectory { listed, unreadable } =
        listed.map_err(|source| ErrorKind::List { location: name.clone(), source })?;
    match unreadable.into_iter().next() {
        Some(unreadable) => Err(unreadable.into_error(&name)),
        None => Ok(listed),
    }
}

/// Finds the files at `location`. All listings of tables use this function, so it also detects files of table
/// formats. Local directories are listed as far as the door allows.
pub async fn find_files(
    store: &dyn ObjectStore,
    door: &Door,
    location: &Location,
    owned: OwnedFiles,
) -> Result<FoundFiles> {
    let mut traversal = Traversal::new(store, door, location);
    traversal.find().await?;
    let owners = if owned == OwnedFiles::Ignore || traversal.is_file { Vec::new() } else { owners(&traversal).await? };
    if owned == OwnedFiles::Refuse
        && let Some(owner) = owners.first()
    {
        return Err(ErrorKind::OwnedByTable { location: location.to_string(), owner: owner.clone() }.into());
    }
    let files = match traversal.found.is_empty() {
        true => Err(traversal.nothing_found().await?),
        false => Ok(traversal.found.into_values().collect()),
    };
    Ok(FoundFiles {
        files,
        passed: traversal.passed,
        owners,
        unfinished: traversal.unfinished,
        misnamed: traversal.misnamed,
    })
}
