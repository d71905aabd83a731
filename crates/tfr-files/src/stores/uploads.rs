//! [`UploadStores`]: gives plans access to multipart uploads that are completed separately from their parts.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion_execution::object_store::ObjectStoreUrl;
use object_store::multipart::MultipartStore;

use super::directories::DirectoryStore;

/// The stores of a session, by URL, whose multipart uploads can be completed by another component than the one that
/// sent the parts.
///
/// An [`ObjectStore`](object_store::ObjectStore) does not expose this, so the code that builds a store also registers
/// it here. The map is an extension of the session's configuration, shared by all its copies:
///
/// ```
/// use std::sync::Arc;
/// use datafusion_execution::config::SessionConfig;
/// use datafusion_execution::object_store::ObjectStoreUrl;
/// use tfr_files::stores::UploadStores;
/// use object_store::memory::InMemory;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let uploads = Arc::new(UploadStores::default());
/// let config = SessionConfig::new().with_extension(Arc::clone(&uploads));
///
/// let url = ObjectStoreUrl::parse("memory://")?;
/// uploads.register(url.clone(), Arc::new(InMemory::new()));
///
/// let found = config.get_extension::<UploadStores>().and_then(|uploads| uploads.get(&url));
/// assert!(found.is_some());
/// # Ok(())
/// # }
/// ```
///
/// If stores are built on first use, look up the store in the session's runtime before this map.
#[derive(Default)]
pub struct UploadStores {
    stores: RwLock<HashMap<ObjectStoreUrl, Arc<dyn MultipartStore>>>,
    directories: RwLock<HashMap<ObjectStoreUrl, Arc<dyn DirectoryStore>>>,
}

impl UploadStores {
    /// Registers the uploads of the store at `url`, replacing any earlier ones.
    pub fn register(&self, url: ObjectStoreUrl, store: Arc<dyn MultipartStore>) {
        self.stores.write().unwrap_or_else(PoisonError::into_inner).insert(url, store);
    }

    /// Returns the uploads of the store at `url`, if it supports them.
    pub fn get(&self, url: &ObjectStoreUrl) -> Option<Arc<dyn MultipartStore>> {
        self.stores.read().unwrap_or_else(PoisonError::into_inner).get(url).cloned()
    }

    /// Registers the directories of the store at `url`, which is [registered](Self::register), too. Sets are staged next to
    /// their targets then.
    pub fn register_directories(&self, url: ObjectStoreUrl, store: Arc<dyn DirectoryStore>) {
        self.directories.write().unwrap_or_else(PoisonError::into_inner).insert(url, store);
    }

    /// Returns the directories of the store at `url`, if it has any.
    pub fn directories(&self, url: &ObjectStoreUrl) -> Option<Arc<dyn DirectoryStore>> {
        self.directories.read().unwrap_or_else(PoisonError::into_inner).get(url).cloned()
    }
}

impl fmt::Debug for UploadStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stores = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(stores.keys().map(ObjectStoreUrl::as_str)).finish()
    }
}
