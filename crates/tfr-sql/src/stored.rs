//! [`ObjectStores`]: files in object stores, for tools that read sequentially.
//!
//! The tools are not async. Requests run on a separate runtime, one block ahead of the reader.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::object_store::path::Path as ObjectPath;
use datafusion::object_store::{self, ObjectMeta, ObjectStore, ObjectStoreExt as _};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tfrecord::read::Blocks;
use datafusion_tfrecord::write::{UploadLeftovers, WriteTarget, remove_upload_leftovers};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tfr_files::{FoundObjects, Objects, SessionStores};
use tfr_stores::{FileNames, Location, LocationText, StoreOptions, Stores, threads};
use tfrecord_shards::{FileStore, StoredFiles};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;

/// Stack size in bytes of the threads that ask stores.
const STACK: usize = 2 << 20;

/// The object stores that a tool reads from.
pub struct ObjectStores {
    session: SessionState,
    runtime: Arc<Runtime>,
    stop: CancellationToken,
}

impl ObjectStores {
    /// Sends no requests yet. Waiting callers get an error once `stop` is cancelled.
    pub fn new(options: StoreOptions, stop: CancellationToken) -> Result<Self> {
        let door = Arc::new(options.door.clone());
        let stores = Stores::new(options);
        let config = SessionConfig::new().with_extension(Arc::clone(stores.uploads())).with_extension(door);
        let registry = Arc::new(SessionStores::from(stores));
        let environment = RuntimeEnvBuilder::new().with_object_store_registry(registry).build_arc()?;
        let session = SessionContext::new_with_config_rt(config, environment).state();
        // Its tasks only pass bytes on.
        let runtime = threads::start("stores", 1, STACK)
            .map_err(|source| Error::Start { what: "the thread that asks stores", source })?;
        Ok(Self { session, runtime: Arc::new(runtime), stop })
    }

    /// Removes what tasks of killed or forgotten runs have left below `url`. Returns the exit status after a signal.
    pub fn remove_leftovers(
        &self,
        url: &LocationText,
        interrupt: &Interrupt,
    ) -> Result<Result<UploadLeftovers, ExitStatus>> {
        let out = WriteTarget::parse(url.with_secrets()).map_err(DataFusionError::from)?;
        let context = self.session.task_ctx();
        let removed = self.runtime.block_on(async {
            tokio::select! {
                removed = remove_upload_leftovers(&out, &context) => removed.map(Ok),
                status = interrupt.received() => Ok(Err(status)),
            }
        });
        Ok(removed?)
    }

    /// Returns the files that `url` names, or the exit status after a signal.
    pub fn find(&self, url: &LocationText, interrupt: &Interrupt) -> Result<Result<Vec<StoredFiles>, ExitStatus>> {
        let url = url.with_secrets();
        let location = Location::parse(url).map_err(tfr_files::Error::from)?;
        let found = self.runtime.block_on(async {
            tokio::select! {
                found = Objects::find(&self.session, &location) => found.map(Ok),
                status = interrupt.received() => Ok(Err(status)),
            }
        });
        let Objects { store, found } = match found.map_err(DataFusionError::from)? {
            Ok(found) => found,
            Err(status) => return Ok(Err(status)),
        };
        let names = location.file_names();
        let has_manifests = !matches!(url.split_once("://"), Some(("http" | "https", _)));
        let files = |metas: Vec<(String, ObjectMeta)>| -> Arc<dyn FileStore> {
            Arc::new(ObjectFiles {
                root: has_manifests.then(|| names.in_full(&ObjectPath::default())),
                files: metas.into_iter().map(|(name, meta)| (name.into(), meta)).collect(),
                store: Arc::clone(&store),
                runtime: Arc::clone(&self.runtime),
                stop: self.stop.clone(),
            })
        };
        let one = |meta: ObjectMeta| {
            let (name, len) = (names.name(&meta.location), meta.size);
            StoredFiles::file(name.clone(), len, files(vec![(name, meta)]))
        };
        Ok(Ok(match found {
            FoundObjects::File(meta) => vec![one(meta)],
            FoundObjects::Fitting(metas) => metas.into_iter().map(one).collect(),
            FoundObjects::Directory { root, files: metas } => {
                let metas: Vec<_> = metas.into_iter().map(|meta| (names.in_full(&meta.location), meta)).collect();
                let lens: Vec<_> = metas.iter().map(|(name, meta)| (PathBuf::from(name), meta.size)).collect();
                vec![StoredFiles::directory(directory(names, &root), lens, files(metas))]
            }
        }))
    }
}

/// Returns the name of a directory, without a trailing `/`.
fn directory(names: &FileNames, root: &ObjectPath) -> PathBuf {
    let name = names.in_full(root);
    name.trim_end_matches('/').into()
}

/// Listed files.
struct ObjectFiles {
    /// The prefix of the store's keys, if other files of the store may be requested.
    root: Option<String>,
    files: HashMap<PathBuf, ObjectMeta>,
    store: Arc<dyn ObjectStore>,
    runtime: Arc<Runtime>,
    stop: CancellationToken,
}

impl fmt::Debug for ObjectFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectFiles").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl FileStore for ObjectFiles {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let blocks = match self.files.get(path) {
            Some(meta) => {
                let name = path.display().to_string().into();
                let blocks = Blocks::new(Arc::clone(&self.store), meta.clone(), name, 0..meta.size);
                let next = async |mut blocks: Blocks| Ok(blocks.next().await?.map(|block| (block, blocks)));
                stream::try_unfold(blocks, next).map_err(unwrapped).boxed()
            }
            None => self.sidecar(path)?,
        };
        let (runtime, stop) = (Arc::clone(&self.runtime), self.stop.clone());
        Ok(Box::new(ObjectReader { blocks, block: Bytes::new(), runtime, stop }))
    }
}

impl ObjectFiles {
    /// Requests a sidecar of a file that was named itself. It is one answer, so it is of one version.
    fn sidecar(&self, path: &Path) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
        let key = self.root.as_deref().and_then(|root| path.to_str()?.strip_prefix(root));
        let key = key.and_then(|key| ObjectPath::parse(key).ok()).ok_or(io::ErrorKind::NotFound)?;
        match wait(&self.runtime, &self.stop, self.store.get(&key))? {
            Ok(answer) => Ok(answer.into_stream().map_err(io::Error::other).boxed()),
            // Without the right to list files, a missing one is denied. What is not allowed is not looked for.
            Err(object_store::Error::NotFound { .. } | object_store::Error::PermissionDenied { .. }) => {
                Err(io::ErrorKind::NotFound.into())
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

fn unwrapped(error: DataFusionError) -> io::Error {
    match error {
        DataFusionError::ObjectStore(error) => io::Error::other(error),
        DataFusionError::External(error) => io::Error::other(error),
        error => io::Error::other(error),
    }
}

/// Reads the bytes of an object.
struct ObjectReader {
    blocks: BoxStream<'static, io::Result<Bytes>>,
    /// The rest of the current block.
    block: Bytes,
    runtime: Arc<Runtime>,
    stop: CancellationToken,
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.block.is_empty() {
            match wait(&self.runtime, &self.stop, self.blocks.next())? {
                Some(block) => self.block = block?,
                None => return Ok(0),
            }
        }
        let len = buffer.len().min(self.block.len());
        if let Some(buffer) = buffer.get_mut(..len) {
            buffer.copy_from_slice(&self.block.split_to(len));
        }
        Ok(len)
    }
}

/// Returns the response to a request, or an error if the job is stopped first.
fn wait<T>(runtime: &Runtime, stop: &CancellationToken, request: impl Future<Output = T>) -> io::Result<T> {
    runtime.block_on(async {
        tokio::select! {
            done = request => Ok(done),
            () = stop.cancelled() => Err(io::Error::other("the run was stopped")),
        }
    })
}
