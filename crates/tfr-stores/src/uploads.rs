//! [`UploadStores`]: gives plans access to multipart uploads that are completed separately from their parts.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::store_url::StoreUrl;
use object_store::multipart::MultipartStore;

use crate::directories::DirectoryStore;

/// The stores of a session, by URL, whose multipart uploads can be completed by another component than the one that
/// sent the parts.
///
/// An [`ObjectStore`](object_store::ObjectStore) does not expose this, so the code that builds a store also registers
/// it here. The map is shared by all copies of a session's configuration.
///
/// ```
/// use std::sync::Arc;
/// use object_store::memory::InMemory;
/// use tfr_stores::{StoreUrl, UploadStores};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let uploads = UploadStores::default();
/// let url = StoreUrl::parse("memory://")?;
/// uploads.register(url.clone(), Arc::new(InMemory::new()));
/// assert!(uploads.get(&url).is_some());
/// # Ok(())
/// # }
/// ```
///
/// If stores are built on first use, look up the store before this map.
#[derive(Default)]
pub struct UploadStores {
    stores: RwLock<HashMap<StoreUrl, Arc<dyn MultipartStore>>>,
    directories: RwLock<HashMap<StoreUrl, Arc<dyn DirectoryStore>>>,
}

impl UploadStores {
    /// Registers the uploads of the store at `url`, replacing any earlier ones.
    pub fn register(&self, url: StoreUrl, store: Arc<dyn MultipartStore>) {
        self.stores.write().unwrap_or_else(PoisonError::into_inner).insert(url, store);
    }

    /// Returns the uploads of the store at `url`, if it supports them.
    pub fn get(&self, url: &StoreUrl) -> Option<Arc<dyn MultipartStore>> {
        self.stores.read().unwrap_or_else(PoisonError::into_inner).get(url).cloned()
    }

    /// Registers the directories of the store at `url`, which is [registered](Self::register), too. Sets are staged next to
    /// their targets then.
    pub fn register_directories(&self, url: StoreUrl, store: Arc<dyn DirectoryStore>) {
        self.directories.write().unwrap_or_else(PoisonError::into_inner).insert(url, store);
    }

    /// Returns the directories of the store at `url`, if it has any.
    pub fn directories(&self, url: &StoreUrl) -> Option<Arc<dyn DirectoryStore>> {
        self.directories.read().unwrap_or_else(PoisonError::into_inner).get(url).cloned()
    }
}

impl fmt::Debug for UploadStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(stores.keys().map(StoreUrl::as_str)).finish()
    }
}
