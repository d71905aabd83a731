//! [`FaultyStore`]: an in-memory object store that fails on request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use datafusion::object_store::memory::InMemory;
use datafusion::object_store::multipart::{MultipartStore, PartId};
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tfr_stores::{DirectoryStore, Found};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

/// The kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Request {
    List,
    Get,
    Put,
    Delete,
    CreateUpload,
    PutPart,
    CompleteUpload,
    AbortUpload,
    Find,
    Make,
    Rename,
    Permit,
    RemoveDirectory,
}

impl Request {
    /// Those to a store that renames directories, too.
    pub(crate) const OF_DIRECTORIES: [Self; 5] =
        [Self::Find, Self::Make, Self::Rename, Self::Permit, Self::RemoveDirectory];

    pub(crate) const ALL: [Self; 8] = [
        Self::List,
        Self::Get,
        Self::Put,
        Self::Delete,
        Self::CreateUpload,
        Self::PutPart,
        Self::CompleteUpload,
        Self::AbortUpload,
    ];
}

/// Which requests fail.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// One of a kind, counted from 0.
    One {
        request: Request,
        number: usize,
        /// It is carried out, but the response is lost.
        done: bool,
    },
    /// All from this one on, whatever their kind, counted from 0.
    From(usize),
    /// Conditional requests, as in a store that does not support them.
    Conditions,
}

/// An in-memory object store that counts requests, fails some of them, and tracks open uploads.
#[derive(Debug, Clone, Default)]
pub(crate) struct FaultyStore {
    inner: InMemory,
    seen: Arc<Mutex<Seen>>,
    /// Whether directories are renamed. The lock makes that one step for other requests.
    directories: Option<Arc<RwLock<()>>>,
}

#[derive(Debug, Default)]
struct Seen {
    fault: Option<Fault>,
    counts: BTreeMap<Request, usize>,
    open: BTreeMap<MultipartId, Path>,
    /// The length of every part, by key and number.
    parts: BTreeMap<(Path, usize), usize>,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    Lost,
    Refused,
}

impl FaultyStore {
    /// Creates a store with the same files and another fault.
    pub(crate) fn fork(&self, fault: Option<Fault>) -> Self {
        let seen = Seen { fault, ..Seen::default() };
        let directories = self.directories.as_ref().map(|_| Arc::default());
        Self { inner: self.inner.fork(), seen: Arc::new(Mutex::new(seen)), directories }
    }

    /// Creates a store that renames directories.
    pub(crate) fn of_directories() -> Self {
        Self { directories: Some(Arc::default()), ..Self::default() }
    }

    pub(crate) fn has_directories(&self) -> bool {
        self.directories.is_some()
    }

    /// Returns the keys that are not hidden, in order.
    pub(crate) async fn visible_keys(&self) -> Result<Vec<String>> {
        let is_visible = |key: &String| !key.split('/').any(|name| name.starts_with('.'));
        Ok(self.keys().await?.into_iter().filter(is_visible).collect())
    }

    /// Waits until no directory is being renamed.
    async fn at_rest(&self) -> Option<OwnedRwLockReadGuard<()>> {
        Some(Arc::clone(self.directories.as_ref()?).read_owned().await)
    }

    async fn below(&self, path: &Path) -> Result<Vec<ObjectMeta>> {
        self.inner.list(Some(path)).try_collect().await
    }

    async fn rename_all(&self, from: &Path, to: &Path) -> Result<()> {
        let lock = self.directories.as_ref().expect("a store of directories");
        let _alone = lock.write().await;
        let error = |path: &Path| (path.to_string(), "renamed".into());
        if !self.below(to).await?.is_empty() {
            let (path, source) = error(to);
            return Err(Error::AlreadyExists { path, source });
        }
        let files = self.below(from).await?;
        if files.is_empty() {
            let (path, source) = error(from);
            return Err(Error::NotFound { path, source });
        }
        for file in files {
            let rest = file.location.as_ref().strip_prefix(from.as_ref()).expect("a file below it");
            self.inner.rename(&file.location, &Path::parse(format!("{to}{rest}"))?).await?;
        }
        Ok(())
    }

    /// Creates a store over these files.
    pub(crate) fn with_files(self, files: &InMemory) -> Self {
        Self { inner: files.clone(), ..self }
    }

    /// Returns the files, without faults.
    pub(crate) fn files(&self) -> InMemory {
        self.inner.clone()
    }

    /// Returns the keys, in order.
    pub(crate) async fn keys(&self) -> Result<Vec<String>> {
        let files: Vec<_> = self.inner.list(None).try_collect().await?;
        Ok(files.into_iter().map(|file| file.location.to_string()).collect())
    }

    pub(crate) fn open_uploads(&self) -> Vec<String> {
        self.seen().open.values().map(ToString::to_string).collect()
    }

    pub(crate) fn count(&self, request: Request) -> usize {
        self.seen().counts.get(&request).copied().unwrap_or_default()
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen().counts.values().sum()
    }

    /// Returns the lengths of the parts of an upload.
    pub(crate) fn parts(&self, key: &str) -> Vec<usize> {
        let key = Path::from(key);
        self.seen().parts.iter().filter(|((path, _), _)| *path == key).map(|(_, len)| *len).collect()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no test panics with it")
    }

    fn fate(&self, request: Request) -> Fate {
        let mut seen = self.seen();
        let total: usize = seen.counts.values().sum();
        let count = seen.counts.entry(request).or_default();
        let number = *count;
        *count += 1;
        match seen.fault {
            Some(Fault::One { request: failing, number: at, done }) if failing == request && at == number => {
                if done {
                    Fate::Lost
                } else {
                    Fate::Refused
                }
            }
            Some(Fault::From(first)) if total >= first => Fate::Refused,
            _ => Fate::Answered,
        }
    }

    async fn meet<T>(&self, request: Request, answer: impl Future<Output = Result<T>>) -> Result<T> {
        match self.fate(request) {
            Fate::Answered => answer.await,
            Fate::Lost => {
                answer.await?;
                Err(failure(request))
            }
            Fate::Refused => Err(failure(request)),
        }
    }
}

fn failure(request: Request) -> Error {
    Error::Generic { store: "FaultyStore", source: format!("{request:?} was to fail").into() }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

#[async_trait::async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if matches!(self.seen().fault, Some(Fault::Conditions)) && options.mode != PutMode::Overwrite {
            return Err(Error::NotImplemented { operation: "conditions".to_owned(), implementer: self.to_string() });
        }
        self.meet(Request::Put, self.inner.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(&self, path: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        panic!("{path}: nothing is written but through MultipartStore");
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let _at_rest = self.at_rest().await;
        self.meet(Request::Get, self.inner.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        paths
            .then(move |path| {
                let store = store.clone();
                async move {
                    let path = path?;
                    let one = stream::iter([Ok(path.clone())]).boxed();
                    store.meet(Request::Delete, store.inner.delete_stream(one).try_collect::<Vec<_>>()).await?;
                    Ok(path)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.fate(Request::List) {
            Fate::Answered if self.has_directories() => {
                let (store, prefix) = (self.clone(), prefix.cloned().unwrap_or_default());
                let list = async move {
                    let _at_rest = store.at_rest().await;
                    Ok::<_, Error>(stream::iter(store.below(&prefix).await?.into_iter().map(Ok)))
                };
                stream::once(list).try_flatten().boxed()
            }
            Fate::Answered => self.inner.list(prefix),
            _ => stream::once(async { Err(failure(Request::List)) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.meet(Request::List, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, _: CopyOptions) -> Result<()> {
        panic!("{from} is copied to {to}");
    }
}

#[async_trait::async_trait]
impl MultipartStore for FaultyStore {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        let create = async {
            let id = self.inner.create_multipart(path).await?;
            self.seen().open.insert(id.clone(), path.clone());
            Ok(id)
        };
        self.meet(Request::CreateUpload, create).await
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, index: usize, part: PutPayload) -> Result<PartId> {
        let put = async {
            self.seen().parts.insert((path.clone(), index), part.content_length());
            self.inner.put_part(path, id, index, part).await?;
            // The in-memory store does not name them.
            Ok(PartId { content_id: format!("part {index} of {id}") })
        };
        self.meet(Request::PutPart, put).await
    }

    async fn complete_multipart(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<PutResult> {
        let expected = (0..parts.len()).map(|index| format!("part {index} of {id}"));
        assert!(parts.iter().map(|part| part.content_id.clone()).eq(expected), "{path}: {parts:?}");
        let complete = async {
            let completed = self.inner.complete_multipart(path, id, parts).await?;
            self.seen().open.remove(id);
            Ok(completed)
        };
        self.meet(Request::CompleteUpload, complete).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        let abort = async {
            self.inner.abort_multipart(path, id).await?;
            self.seen().open.remove(id);
            Ok(())
        };
        self.meet(Request::AbortUpload, abort).await
    }
}

#[async_trait::async_trait]
impl DirectoryStore for FaultyStore {
    async fn found(&self, path: &Path) -> Result<Option<Found>> {
        let found = async {
            let _at_rest = self.at_rest().await;
            if self.inner.head(path).await.is_ok() {
                return Ok(Some(Found::File));
            }
            Ok((!self.below(path).await?.is_empty()).then_some(Found::Directory))
        };
        self.meet(Request::Find, found).await
    }

    async fn directories(&self, path: &Path) -> Result<Vec<ObjectMeta>> {
        let listed = async {
            let _at_rest = self.at_rest().await;
            let mut found = Vec::new();
            for location in self.inner.list_with_delimiter(Some(path)).await?.common_prefixes {
                let below = self.below(&location).await?;
                found.extend(below.into_iter().next().map(|file| ObjectMeta { location, ..file }));
            }
            Ok(found)
        };
        self.meet(Request::List, listed).await
    }

    /// A directory is there as soon as a file is in it.
    async fn make_directory(&self, _: &Path) -> Result<()> {
        self.meet(Request::Make, async { Ok(()) }).await
    }

    async fn rename_directory(&self, from: &Path, to: &Path) -> Result<()> {
        self.meet(Request::Rename, self.rename_all(from, to)).await
    }

    async fn keep_permissions(&self, of: &Path, to: &Path) -> Result<()> {
        let keep = async {
            assert!(!self.below(to).await?.is_empty(), "{of}: the permissions are those of nothing");
            Ok(())
        };
        self.meet(Request::Permit, keep).await
    }

    async fn remove_directory(&self, path: &Path) -> Result<()> {
        let remove = async {
            let files = self.below(path).await?.into_iter().map(|file| Ok(file.location));
            self.inner.delete_stream(stream::iter(files.collect::<Vec<_>>()).boxed()).try_collect::<Vec<_>>().await?;
            Ok(())
        };
        self.meet(Request::RemoveDirectory, remove).await
    }
}
