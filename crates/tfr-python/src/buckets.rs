//! [`Buckets`]: reads files of object stores by parts, through a [`Cache`], ahead of the readers.
//!
//! Each process, and each iteration of it, has its own: a runtime does not survive a fork.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tfr_stores::{Change, Door, LocationText, StoreOptions, StoreUrl, Stores, strong_tag, threads};
use tokio::runtime::{Handle, Runtime};

use crate::cache::{CACHE_HINT, Cache, Part};
use crate::error::{Failure, Result};

/// Bytes of a part: what one request fetches.
pub(crate) const PART: u64 = 8 << 20;

/// The number of the form of parts in the cache. Parts of another form have other names.
const FORM: u32 = 2;

/// Threads that fetch parts ahead of the readers.
const AHEAD_THREADS: usize = 4;

/// Parts that are fetched ahead of one reader.
pub(crate) const AHEAD: u64 = 4;

/// Most parts that wait to be fetched ahead. Of more, the readers fetch them themselves.
const QUEUED: usize = 256;

/// Stack size in bytes of the runtime's thread.
const STACK: usize = 2 << 20;

/// How often a wait for a store looks whether it is to stop.
const INTERVAL: Duration = Duration::from_millis(50);

/// How often something is asked for if its answer breaks off, and how long that takes at most.
const ATTEMPTS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the work is to stop.
pub(crate) type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// What may be opened, and where parts are kept.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Access {
    /// The paths and URLs that are allowed; `None` for all.
    pub(crate) allow: Option<Vec<String>>,
    /// The directory of the cache.
    pub(crate) cache: PathBuf,
    /// Most bytes in it.
    pub(crate) cache_size: u64,
}

/// The URLs may contain secrets.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allow: Option<Vec<_>> =
            self.allow.as_ref().map(|allow| allow.iter().map(|entry| LocationText::from(entry.as_str())).collect());
        let Self { cache, cache_size, .. } = self;
        f.debug_struct("Access").field("allow", &allow).field("cache", cache).field("cache_size", cache_size).finish()
    }
}

impl Access {
    pub(crate) fn door(&self) -> Result<Door> {
        let all = || Ok(Door::default());
        self.allow.as_ref().map_or_else(all, |entries| Door::to(entries)).map_err(|error| Failure::store(None, &error))
    }
}

/// A listed version of an object.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Object {
    /// The URL of its store, with secrets.
    store: String,
    key: String,
    size: u64,
    /// The time of its last modification, in nanoseconds after the epoch.
    modified: u64,
    e_tag: Option<String>,
    version: Option<String>,
}

/// The URL of the store may contain secrets.
impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, key, size, .. } = self;
        let store = LocationText::from(store.as_str());
        f.debug_struct("Object").field("store", &store).field("key", key).field("size", size).finish_non_exhaustive()
    }
}

impl Object {
    /// Returns the version that was listed of the object that messages call `name`. Refuses one that cannot be recognized
    /// later.
    pub(crate) fn new(name: &Path, store: &StoreUrl, meta: &ObjectMeta) -> Result<Self> {
        if strong_tag(meta).is_none() && meta.version.is_none() && !has_time(meta) {
            let problem = "the server sends neither a strong ETag nor Last-Modified, so a file that is replaced between two \
                           reads cannot be recognized";
            return Err(Failure::other(format!("{}: {problem}", name.display()))
                .with_hint("Download the file, and name the copy."));
        }
        let modified = SystemTime::from(meta.last_modified).duration_since(SystemTime::UNIX_EPOCH);
        Ok(Self {
            store: store.as_str().to_owned(),
            key: meta.location.to_string(),
            size: meta.size,
            modified: modified.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            e_tag: meta.e_tag.clone(),
            version: meta.version.clone(),
        })
    }

    /// Whether the other one is a version of the same object.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.store, &self.key) == (&other.store, &other.key)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn meta(&self) -> Result<ObjectMeta, object_store::path::Error> {
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.modified);
        Ok(ObjectMeta {
            location: Key::parse(&self.key)?,
            last_modified: modified.into(),
            size: self.size,
            e_tag: self.e_tag.clone(),
            version: self.version.clone(),
        })
    }

    fn part(&self, number: u64) -> Range<u64> {
        let start = number.saturating_mul(PART).min(self.size);
        start..start.saturating_add(PART).min(self.size)
    }

    /// Returns the name of a part in the cache: equal for equal bytes of equal versions only. `server` is what answers at
    /// the store's URL. A query and a user of a web server count: the answer may depend on them.
    fn part_name(&self, server: &str, number: u64) -> String {
        let Self { store, key, size, modified, e_tag, version } = self;
        let range = self.part(number);
        let identity =
            format!("{FORM}\0{server}\0{store}\0{key}\0{size}\0{modified}\0{e_tag:?}\0{version:?}\0{range:?}");
        let hash: String =
            digest(&SHA256, identity.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{hash}-{number}")
    }
}

/// An object that is open.
pub(crate) struct OpenObject {
    /// The name in messages.
    name: PathBuf,
    object: Object,
    meta: ObjectMeta,
    store: Arc<dyn ObjectStore>,
    /// What answers at the URL of the store.
    server: String,
}

impl OpenObject {
    pub(crate) fn size(&self) -> u64 {
        self.object.size
    }

    pub(crate) fn part(&self, number: u64) -> Range<u64> {
        self.object.part(number)
    }
}

/// The object stores, the cache, and the threads that fetch ahead.
pub(crate) struct Buckets {
    /// The process that has the threads.
    process: u32,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// `None` after the end.
    runtime: Option<Runtime>,
}

struct Shared {
    requests: Handle,
    stores: Stores,
    door: Door,
    cache: Cache,
    queue: Mutex<VecDeque<(Arc<OpenObject>, u64)>>,
    changed: Condvar,
    is_closed: AtomicBool,
}

impl Buckets {
    /// Starts the threads. Sends no request.
    pub(crate) fn start(access: &Access) -> Result<Self> {
        if access.cache.as_os_str().is_empty() {
            return Err(
                Failure::usage("no directory for the cache: the user has no home".to_owned()).with_hint(CACHE_HINT)
            );
        }
        let cache = Cache::open(&access.cache, access.cache_size)?;
        let door = access.door()?;
        let mut options = StoreOptions::from_environment();
        options.door = door.clone();
        let cannot_start = |error: io::Error| Failure::other(format!("cannot start a thread: {error}"));
        let runtime = threads::start("tfr-stores", 1, STACK).map_err(cannot_start)?;
        let shared = Arc::new(Shared {
            requests: runtime.handle().clone(),
            stores: Stores::new(options),
            door,
            cache,
            queue: Mutex::default(),
            changed: Condvar::new(),
            is_closed: AtomicBool::new(false),
        });
        let mut buckets = Self { process: std::process::id(), shared, threads: Vec::new(), runtime: Some(runtime) };
        for _ in 0..AHEAD_THREADS {
            let shared = Arc::clone(&buckets.shared);
            let thread = thread::Builder::new().name("tfr-ahead".to_owned());
            buckets.threads.push(thread.spawn(move || shared.fetch_ahead()).map_err(cannot_start)?);
        }
        Ok(buckets)
    }

    /// Returns the store at a URL.
    pub(crate) fn store(&self, url: &StoreUrl) -> Result<Arc<dyn ObjectStore>> {
        self.shared.stores.get(url.as_ref()).map_err(|error| Failure::store(None, &error))
    }

    /// Returns the answer to a request, unless it is stopped before.
    pub(crate) fn answer<T, R: Future<Output = object_store::Result<T>>>(
        &self,
        request: impl Fn() -> R,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<object_store::Result<T>> {
        self.shared.answer(request, is_stopped)
    }

    /// Opens a listed object, which messages call `name`. Sends no request.
    pub(crate) fn open(&self, name: &Path, object: &Object) -> Result<Arc<OpenObject>> {
        let failed = |error: &tfr_stores::Error| Failure::store(Some(name), error);
        let url = StoreUrl::parse(&object.store).map_err(|error| Failure::other(error.to_string()))?;
        let meta = object.meta().map_err(|error| Failure::other(error.to_string()))?;
        // A part in the cache is not asked for at the store.
        let shown = name.display().to_string();
        self.shared.door.check_key(url.as_ref(), &meta.location, &shown).map_err(|error| failed(&error))?;
        let store = self.shared.stores.get(url.as_ref()).map_err(|error| failed(&error))?;
        let server = self.shared.stores.server(url.as_ref()).map_err(|error| failed(&error))?;
        Ok(Arc::new(OpenObject { name: name.to_owned(), object: object.clone(), meta, store, server }))
    }

    /// Fetches parts of an object soon, if there is room in the queue.
    pub(crate) fn fetch_soon(&self, object: &Arc<OpenObject>, parts: impl Iterator<Item = u64>) {
        let mut queue = self.shared.queue();
        for part in parts {
            let is_queued =
                |(queued, number): &(Arc<OpenObject>, u64)| *number == part && queued.object == object.object;
            if queue.len() < QUEUED && !queue.iter().any(is_queued) {
                queue.push_back((Arc::clone(object), part));
            }
        }
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Returns a part of an object, from the cache if it is there.
    pub(crate) fn part(&self, object: &OpenObject, number: u64, is_stopped: &dyn Fn() -> bool) -> Result<File> {
        self.shared.part(object, number, is_stopped)
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // After a fork the threads are not in this process.
            std::mem::forget((std::mem::take(&mut self.threads), self.runtime.take(), Arc::clone(&self.shared)));
            return;
        }
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.queue().clear();
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // It ends soon: a wait for a store looks whether it is to stop.
            let _panicked = thread.join();
        }
        if let Some(runtime) = self.runtime.take() {
            threads::end(runtime);
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, VecDeque<(Arc<OpenObject>, u64)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    fn fetch_ahead(&self) {
        loop {
            let mut queue = self.queue();
            let (object, part) = loop {
                if self.is_closed() {
                    return;
                }
                match queue.pop_front() {
                    Some(next) => break next,
                    None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            // The reader that needs the part meets the error again.
            let _failed = self.part(&object, part, &|| self.is_closed());
        }
    }

    fn wait<T>(&self, request: impl Future<Output = T>, is_stopped: &dyn Fn() -> bool) -> Result<T> {
        self.requests.block_on(async {
            let mut request = std::pin::pin!(request);
            loop {
                match tokio::time::timeout(INTERVAL, request.as_mut()).await {
                    Ok(answer) => return Ok(answer),
                    Err(_) if is_stopped() => return Err(Failure::stopped()),
                    Err(_) => {}
                }
            }
        })
    }

    fn part(&self, object: &OpenObject, number: u64, is_stopped: &dyn Fn() -> bool) -> Result<File> {
        let in_cache = |error| {
            let directory = self.cache.directory();
            if is_stopped() {
                Failure::stopped()
            } else {
                Failure::io(directory, "use the cache", error).with_hint(CACHE_HINT)
            }
        };
        let range = object.part(number);
        let name = object.object.part_name(&object.server, number);
        match self.cache.part(&name, range.end - range.start, is_stopped).map_err(in_cache)? {
            Part::Found(file) => Ok(file),
            Part::Missing(new) => {
                let bytes = self.fetch(object, range, is_stopped)?;
                new.write(&bytes).map_err(in_cache)
            }
        }
    }

    /// Repeats a request whose answer breaks off. Whatever fails before the answer begins has been repeated by the store,
    /// which takes longer.
    fn answer<T, R: Future<Output = object_store::Result<T>>>(
        &self,
        request: impl Fn() -> R,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<object_store::Result<T>> {
        let mut attempt = 1;
        loop {
            let started = Instant::now();
            let answer = self.wait(request(), is_stopped)?;
            let is_broken = matches!(answer, Err(object_store::Error::Generic { .. }));
            if !is_broken || attempt == ATTEMPTS || started.elapsed() > PATIENCE {
                return Ok(answer);
            }
            attempt += 1;
        }
    }

    fn fetch(&self, object: &OpenObject, range: Range<u64>, is_stopped: &dyn Fn() -> bool) -> Result<Bytes> {
        let bytes = self.answer(|| request(object, range.clone()), is_stopped)?;
        bytes.map_err(|error| Failure::object(&object.name, &error))
    }
}

/// The client reports a missing time as that of the epoch.
fn has_time(meta: &ObjectMeta) -> bool {
    meta.last_modified.timestamp() != 0
}

/// Returns how the version that a store has sent differs from the listed one.
fn change(listed: &ObjectMeta, found: &ObjectMeta) -> Option<Change> {
    // A weak tag changes with the content, and may be that of another strong one.
    let tag = |meta: &ObjectMeta| {
        let tag = meta.e_tag.as_deref()?;
        Some(tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"').to_owned())
    };
    Change::between(listed, found).or_else(|| match (tag(listed), tag(found)) {
        (Some(expected), Some(found)) => (expected != found).then_some(Change::Tag),
        // The time was compared, if both have one.
        _ if listed.version.is_some() || has_time(listed) && has_time(found) => None,
        _ => Some(Change::Modified),
    })
}

/// Fetches a range of the listed version.
async fn request(object: &OpenObject, range: Range<u64>) -> object_store::Result<Bytes> {
    let len = range.end - range.start;
    let options = GetOptions {
        range: Some(GetRange::Bounded(range)),
        if_match: strong_tag(&object.meta).map(str::to_owned),
        version: object.meta.version.clone(),
        ..GetOptions::default()
    };
    let answer = object.store.get_opts(&object.meta.location, options).await?;
    // The server may ignore the condition.
    if let Some(change) = change(&object.meta, &answer.meta) {
        let (path, source) = (object.meta.location.to_string(), change.to_string().into());
        return Err(object_store::Error::Precondition { path, source });
    }
    let broken = |found: String| {
        let source = format!("expected {len} bytes, found {found}").into();
        object_store::Error::Generic { store: "remote", source }
    };
    let mut chunks = answer.into_stream();
    let mut bytes = BytesMut::new();
    while let Some(chunk) = chunks.try_next().await? {
        if (bytes.len() + chunk.len()) as u64 > len {
            return Err(broken("more".to_owned()));
        }
        bytes.extend_from_slice(&chunk);
    }
    if bytes.len() as u64 != len {
        return Err(broken(bytes.len().to_string()));
    }
    Ok(bytes.freeze())
}
