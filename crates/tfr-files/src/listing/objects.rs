//! [`Objects`]: lists the objects of a store, for tools that inspect files rather than rows.

use std::sync::Arc;

use datafusion_session::Session;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tfr_stores::Location;
use url::Url;

use crate::error::{ErrorKind, Result};
use crate::listing::listed::{Listing, store_of};
use crate::listing::owner::OwnedFiles;
use crate::listing::search::head;
use crate::session::door_of;
use crate::unchanged::store::UnchangedFiles;

/// The files at a location.
#[derive(Debug)]
pub struct Objects {
    /// The store that contains them. It returns them only as they were listed.
    pub store: Arc<dyn ObjectStore>,
    /// The files.
    pub found: FoundObjects,
}

/// The objects found at a location.
#[derive(Debug)]
pub enum FoundObjects {
    /// One file.
    File(ObjectMeta),
    /// A directory.
    Directory {
        /// The directory.
        root: Path,
        /// All files in it and below, including hidden files, empty ones and markers of tools, in no particular
        /// order.
        files: Vec<ObjectMeta>,
    },
    /// Files that match a pattern, and files in directories that match, as in a [`Listing`].
    Fitting(Vec<ObjectMeta>),
}

impl Objects {
    /// Finds the files at `location`.
    ///
    /// # Errors
    /// Nothing exists there, or it cannot be listed; its store cannot be reached.
    pub async fn find(session: &dyn Session, location: &Location) -> Result<Self> {
        let (store_url, store) = store_of(session, std::slice::from_ref(location))?;
        let door = door_of(session.config());
        let unchanged = |store, files: &[ObjectMeta]| -> Arc<dyn ObjectStore> {
            Arc::new(UnchangedFiles::new(store, &store_url, location.file_names().clone(), files.into()))
        };
        if !location.is_directory()
            && let Some(meta) = head(store.as_ref(), &door, location, location.key()).await?
        {
            let store = unchanged(store, std::slice::from_ref(&meta));
            return Ok(Self { store, found: FoundObjects::File(meta) });
        }
        if location.is_pattern() {
            let locations = std::slice::from_ref(location);
            let listing = Listing::list_with(session, locations, OwnedFiles::Ignore).await?;
            let (store, files) = (Arc::clone(listing.store()), listing.files().to_vec());
            return Ok(Self { store, found: FoundObjects::Fitting(files) });
        }
        let root = location.key().clone();
        let url: &Url = location.object_store().as_ref();
        let not_found = || ErrorKind::NotFound { location: location.to_string() };
        let files: Vec<_> = match store.list(Some(&root)).try_collect().await {
            Ok(files) => files,
            // Web servers rarely list directories, and the server has already reported that there is no such file.
            Err(_) if matches!(url.scheme(), "http" | "https") && !location.is_directory() => {
                return Err(not_found().into());
            }
            Err(source) => return Err(ErrorKind::List { location: location.to_string(), source }.into()),
        };
        if files.is_empty() {
            return Err(not_found().into());
        }
        Ok(Self { store: unchanged(store, &files), found: FoundObjects::Directory { root, files } })
    }
}
