//! The files of a location, and the tables that they belong to.

use std::collections::BTreeMap;

use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use crate::error::{ErrorKind, Result};
use crate::listing::location::Location;
use crate::listing::owner::{OwnedFiles, owners};
use crate::listing::table_format::Owner;
use crate::listing::walk::Walk;

/// What is under one location.
pub struct Walked {
    /// The files to read, sorted by path; the error of a table of this location if there is none.
    files: Result<Vec<ObjectMeta>>,
    /// The files that were seen in directories and passed over, by path: empty ones, and those whose name starts with
    /// `_`.
    pub passed: BTreeMap<Path, ObjectMeta>,
    /// The tables that the files belong to, if they were looked for.
    pub owners: Vec<Owner>,
}

impl Walked {
    /// The files to read, sorted by path.
    ///
    /// # Errors
    /// There is none.
    pub fn files(self) -> Result<Vec<ObjectMeta>> {
        self.files
    }

    /// Takes the files to read, or nothing if there are none.
    pub fn take_files(&mut self) -> Vec<ObjectMeta> {
        self.files.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// The file at `path`, if there is one; `location` led to it.
pub async fn head(store: &dyn ObjectStore, location: &Location, path: &Path) -> Result<Option<ObjectMeta>> {
    Walk::new(store, location).head(path).await
}

/// Looks for the files under `location`. Every listing of a table passes here, so files of a table format are noticed here.
pub async fn walk(store: &dyn ObjectStore, location: &Location, owned: OwnedFiles) -> Result<Walked> {
    let mut walk = Walk::new(store, location);
    walk.find().await?;
    let owners = if owned == OwnedFiles::Ignore || walk.is_file { Vec::new() } else { owners(&walk).await? };
    if owned == OwnedFiles::Refuse
        && let Some(owner) = owners.first()
    {
        return Err(ErrorKind::OwnedByTable { location: location.to_string(), owner: owner.clone() }.into());
    }
    let files = match walk.found.is_empty() {
        true => Err(walk.nothing_found().await?),
        false => Ok(walk.found.into_values().collect()),
    };
    Ok(Walked { files, passed: walk.passed, owners })
}
