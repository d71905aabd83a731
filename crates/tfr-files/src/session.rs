//! The stores of a session: [`SessionStores`] registers them with the engine, [`door_of`] returns its door.

use std::fmt;
use std::sync::Arc;

use datafusion_common::DataFusionError;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use object_store::ObjectStore;
use tfr_stores::{Door, LocationText, StoreUrl, Stores};
use url::{Position, Url};

use crate::error::{Error, Result};

/// The store registry of a session. Each store is built on first use of a URL.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::execution::runtime_env::RuntimeEnvBuilder;
/// use datafusion::prelude::{SessionConfig, SessionContext};
/// use tfr_files::SessionStores;
/// use tfr_stores::{StoreOptions, Stores};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = StoreOptions::from_environment();
/// let config = SessionConfig::new().with_extension(Arc::new(options.door.clone()));
/// let stores = Stores::new(options);
/// let config = config.with_extension(Arc::clone(stores.uploads()));
/// let stores = SessionStores::from(stores);
/// let runtime = RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(stores)).build_arc()?;
/// let context = SessionContext::new_with_config_rt(config, runtime);
/// # Ok(())
/// # }
/// ```
pub struct SessionStores(Stores);

impl From<Stores> for SessionStores {
    fn from(stores: Stores) -> Self {
        Self(stores)
    }
}

impl fmt::Debug for SessionStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl ObjectStoreRegistry for SessionStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.0.insert(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        self.0.remove(url).ok_or_else(|| {
            let url = LocationText::from(&url[..Position::BeforePath]);
            DataFusionError::Execution(format!("no store was used at {url}"))
        })
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        Ok(self.0.get(url).map_err(Error::from)?)
    }
}

/// Returns the door of a session: an extension of its configuration. Without one, everything is allowed.
pub fn door_of(config: &SessionConfig) -> Door {
    config.get_extension::<Door>().map(|door| door.as_ref().clone()).unwrap_or_default()
}

/// Returns a store's URL as the engine's scans have it.
pub(crate) fn engine_url(url: &StoreUrl) -> Result<ObjectStoreUrl, DataFusionError> {
    ObjectStoreUrl::parse(url.as_str())
}
