//! [`Stores`]: object stores, built on first use of a URL.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use url::{Position, Url};

use crate::cloud::{self, Built};
use crate::connection::Patience;
#[cfg(feature = "hdfs")]
use crate::directories::DirectoryStore;
#[cfg(feature = "hdfs")]
use crate::door::DoorDirectories;
use crate::door::{Door, DoorStore, DoorUploads};
use crate::environment::Environment;
use crate::error::{ErrorKind, Result};
#[cfg(feature = "hdfs")]
use crate::hdfs;
use crate::location_text::LocationText;
use crate::remote::{Origin, Remote};
use crate::service::Service;
use crate::store_url::StoreUrl;
use crate::uploads::UploadStores;
use crate::web;

/// Settings of stores.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The S3 endpoint. Takes precedence over `AWS_ENDPOINT_URL_S3` and `AWS_ENDPOINT_URL`.
    pub s3_endpoint: Option<String>,
    /// Credentials and settings.
    pub environment: Environment,
    /// The files and URLs that may be opened.
    pub door: Door,
}

impl StoreOptions {
    /// Reads the settings from this process's environment.
    pub fn from_environment() -> Self {
        Self { environment: Environment::of_process(), ..Self::default() }
    }
}

/// The stores of a process or a session. Each is built on first use of a URL.
pub struct Stores {
    options: StoreOptions,
    /// Stores by scheme and authority.
    stores: Mutex<HashMap<String, Arc<dyn ObjectStore>>>,
    /// What answers at these URLs.
    servers: Mutex<HashMap<String, String>>,
    uploads: Arc<UploadStores>,
}

impl Stores {
    /// Creates a registry without stores.
    pub fn new(options: StoreOptions) -> Self {
        Self { options, stores: Mutex::default(), servers: Mutex::default(), uploads: Arc::default() }
    }

    /// Returns the stores' multipart uploads, for writes. Stores are added as they are built.
    pub fn uploads(&self) -> &Arc<UploadStores> {
        &self.uploads
    }

    /// Puts a store in the place of the one at `url`, which is returned.
    pub fn insert(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.stores().insert(url[..Position::BeforePath].to_owned(), store)
    }

    /// Removes the store at `url`, if it has been used.
    pub fn remove(&self, url: &Url) -> Option<Arc<dyn ObjectStore>> {
        self.stores().remove(&url[..Position::BeforePath])
    }

    /// Returns the store at `url`, and builds it on first use. No request is sent.
    ///
    /// # Errors
    /// There is no such store, its settings are invalid, or the door does not allow anything there.
    pub fn get(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let mut stores = self.stores();
        if let Some(store) = stores.get(&url[..Position::BeforePath]) {
            return Ok(Arc::clone(store));
        }
        self.options.door.check_store(url)?;
        let mut root = url.clone();
        root.set_path("/");
        root.set_query(None);
        root.set_fragment(None);
        let store = self.build(&root)?;
        stores.insert(url[..Position::BeforePath].to_owned(), Arc::clone(&store));
        Ok(store)
    }

    /// Returns what answers at `url` by the settings: the endpoint or region of S3, the account of Azure, the namenodes of
    /// HDFS. With equal URLs of equal servers, keys name the same objects. Empty if the URL names it. No request is sent.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn server(&self, url: &Url) -> Result<String> {
        self.get(url)?;
        Ok(self.servers().get(&url[..Position::BeforePath]).cloned().unwrap_or_default())
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stores(&self) -> MutexGuard<'_, HashMap<String, Arc<dyn ObjectStore>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let Some(service) = Service::of(url.scheme()) else {
            return Err(ErrorKind::UnknownScheme { scheme: url.scheme().to_owned() }.into());
        };
        let store = LocationText::from(&url[..Position::BeforePath]).to_string();
        let origin = Origin { store: store.as_str().into(), service };
        let StoreOptions { environment, door, .. } = &self.options;
        if matches!(service, Service::S3 | Service::Gcs | Service::Azure)
            && let Some(name) = environment.unfit()
        {
            let problem = format!("{name} contains a line end or another control character").into();
            return Err(ErrorKind::Settings { store, service, problem }.into());
        }
        let built = match service {
            Service::File => return Ok(self.behind_door(Arc::new(LocalFileSystem::new()), url)),
            Service::S3 => cloud::s3(url, self.options.s3_endpoint.as_deref(), environment, door)
                .map(|built| self.with_uploads(url, &origin, built)),
            Service::Gcs => cloud::gcs(url, environment, door).map(|built| self.with_uploads(url, &origin, built)),
            Service::Azure => cloud::azure(url, environment, door).map(|built| self.with_uploads(url, &origin, built)),
            Service::Http => web::web(url, door).map(|built| self.behind_door(self.remote(url, &origin, built), url)),
            #[cfg(feature = "hdfs")]
            Service::Hdfs => hdfs::hdfs(url, environment, Patience::default())
                .map(|built| self.with_directories(url, &origin, built)),
            #[cfg(not(feature = "hdfs"))]
            Service::Hdfs => return Err(ErrorKind::LeftOut { store }.into()),
        };
        built.map_err(|problem| ErrorKind::Settings { store, service, problem }.into())
    }

    fn with_uploads<S>(&self, url: &Url, origin: &Origin, built: Built<S>) -> Arc<dyn ObjectStore>
    where
        S: ObjectStore + MultipartStore,
    {
        let store = self.remote(url, origin, built);
        self.register_uploads(url, &store);
        self.behind_door(store, url)
    }

    #[cfg(feature = "hdfs")]
    fn with_directories<S>(&self, url: &Url, origin: &Origin, built: Built<S>) -> Arc<dyn ObjectStore>
    where
        S: ObjectStore + MultipartStore + DirectoryStore,
    {
        let store = self.remote(url, origin, built);
        self.register_uploads(url, &store);
        if let Ok(key) = StoreUrl::parse(&url[..Position::BeforePath]) {
            let directories: Arc<dyn DirectoryStore> = Arc::clone(&store) as _;
            let door = &self.options.door;
            self.uploads.register_directories(
                key,
                match door.is_limited() {
                    true => Arc::new(DoorDirectories::new(directories, door.clone(), url)),
                    false => directories,
                },
            );
        }
        self.behind_door(store, url)
    }

    fn register_uploads<S>(&self, url: &Url, store: &Arc<Remote<S>>)
    where
        S: ObjectStore + MultipartStore,
    {
        // The key was made from such a URL.
        let Ok(key) = StoreUrl::parse(&url[..Position::BeforePath]) else { return };
        let uploads: Arc<dyn MultipartStore> = Arc::clone(store) as _;
        let door = &self.options.door;
        self.uploads.register(
            key,
            match door.is_limited() {
                true => Arc::new(DoorUploads::new(uploads, door.clone(), url)),
                false => uploads,
            },
        );
    }

    fn remote<S>(&self, url: &Url, origin: &Origin, built: Built<S>) -> Arc<Remote<S>> {
        log::info!("{}: {}; {}", origin.store, built.summary, Patience::default());
        self.servers().insert(url[..Position::BeforePath].to_owned(), built.server);
        Arc::new(Remote { inner: Arc::new(built.store), origin: origin.clone() })
    }

    /// Returns the store at `url`, of which only what is allowed can be reached.
    fn behind_door(&self, store: Arc<dyn ObjectStore>, url: &Url) -> Arc<dyn ObjectStore> {
        let door = &self.options.door;
        if door.is_limited() { Arc::new(DoorStore::new(store, door.clone(), url)) } else { store }
    }
}

/// Shows the stores' own names: the keys may contain secrets.
impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.stores().values().map(ToString::to_string)).finish()
    }
}

#[cfg(test)]
mod tests;
