//! [`DoorStore`]: a store behind a [`Door`].

use std::fmt;
use std::ops::Range;
use std::path::Path as FsPath;
use std::sync::Arc;

use crate::store_url::StoreUrl;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, future};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartId, MultipartUpload,
    OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, coalesce_ranges,
};
use url::Url;

use super::Door;
use super::open::open_resolved;
use crate::change::local_meta;
#[cfg(feature = "hdfs")]
use crate::directories::{DirectoryStore, Found};
use crate::error::Error;
use crate::location_text::LocationText;
use crate::ranges::range_of;

/// A store that refuses requests for objects that are not allowed, and leaves out none of a listing without a word.
pub(crate) struct DoorStore {
    inner: Arc<dyn ObjectStore>,
    gate: Gate,
}

/// The door, for the keys of one store.
#[derive(Clone)]
struct Gate {
    door: Door,
    store: Url,
    is_local: bool,
}

impl Gate {
    fn new(door: Door, store: &Url) -> Self {
        let is_local = store.as_str() == StoreUrl::local_files().as_str();
        Self { door, store: store.clone(), is_local }
    }

    fn name(&self, key: &Path) -> String {
        match self.is_local {
            true => format!("/{key}"),
            false => format!("{}{key}", LocationText::from(super::without_user(&self.store).as_str())),
        }
    }

    fn check(&self, key: &Path) -> Result<()> {
        let name = self.name(key);
        self.door.check_key(&self.store, key, &name).map_err(|error| denied(name, error))
    }
}

/// Returns the error of a store for a refusal, which is its source.
fn denied(path: String, error: Error) -> object_store::Error {
    object_store::Error::PermissionDenied { path, source: Box::new(error) }
}

impl DoorStore {
    /// Creates the store at `url` behind a door.
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, door: Door, url: &Url) -> Self {
        Self { inner, gate: Gate::new(door, url) }
    }

    /// Opens a local file as the store would.
    async fn local(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (gate, location) = (self.gate.clone(), location.clone());
        let open = move || {
            let name = gate.name(&location);
            let path = gate.door.check_named(FsPath::new(&name), &name).map_err(|error| denied(name.clone(), error))?;
            let failed = |source: std::io::Error| match source.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                    object_store::Error::NotFound { path: name.clone(), source: source.into() }
                }
                _ => object_store::Error::Generic { store: "local", source: source.into() },
            };
            let file = open_resolved(&path).map_err(failed)?;
            let metadata = file.metadata().map_err(failed)?;
            if !metadata.is_file() {
                return Err(failed(std::io::ErrorKind::NotFound.into()));
            }
            let modified = metadata.modified().map_err(failed)?;
            let meta = local_meta(location, &metadata, modified);
            options.check_preconditions(&meta)?;
            let range = match options.range.as_ref() {
                None => 0..meta.size,
                asked => range_of(asked, meta.size).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?,
            };
            Ok(GetResult {
                payload: GetResultPayload::File(file, path),
                meta,
                range,
                attributes: Attributes::default(),
            })
        };
        tokio::task::spawn_blocking(open).await.unwrap_or_else(|source| Err(source.into()))
    }

    fn checked(&self, listed: BoxStream<'static, Result<ObjectMeta>>) -> BoxStream<'static, Result<ObjectMeta>> {
        let gate = self.gate.clone();
        listed.and_then(move |meta| future::ready(gate.check(&meta.location).map(|()| meta))).boxed()
    }

    /// Checks the prefix of a listing.
    fn check_prefix(&self, prefix: Option<&Path>) -> Result<()> {
        self.gate.check(prefix.unwrap_or(&Path::default()))
    }
}

fn failed(error: object_store::Error) -> BoxStream<'static, Result<ObjectMeta>> {
    futures::stream::once(future::ready(Err(error))).boxed()
}

#[async_trait]
impl ObjectStore for DoorStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.gate.check(location)?;
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.gate.check(location)?;
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if self.gate.is_local {
            return self.local(location, options).await;
        }
        self.gate.check(location)?;
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if self.gate.is_local {
            return coalesce_ranges(ranges, |range| self.get_range(location, range), OBJECT_STORE_COALESCE_DEFAULT)
                .await;
        }
        self.gate.check(location)?;
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let gate = self.gate.clone();
        let checked = locations.and_then(move |path| future::ready(gate.check(&path).map(|()| path)));
        self.inner.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check_prefix(prefix) {
            Ok(()) => self.checked(self.inner.list(prefix)),
            Err(error) => failed(error),
        }
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.check_prefix(prefix) {
            Ok(()) => self.checked(self.inner.list_with_offset(prefix, offset)),
            Err(error) => failed(error),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.check_prefix(prefix)?;
        let listed = self.inner.list_with_delimiter(prefix).await?;
        listed.objects.iter().try_for_each(|meta| self.gate.check(&meta.location))?;
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.gate.check(from)?;
        self.gate.check(to)?;
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.gate.check(from)?;
        self.gate.check(to)?;
        self.inner.rename_opts(from, to, options).await
    }
}

impl fmt::Debug for DoorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoorStore").field("inner", &self.inner).field("door", &self.gate.door).finish()
    }
}

impl fmt::Display for DoorStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// The multipart uploads of a store behind a door.
pub(crate) struct DoorUploads {
    inner: Arc<dyn MultipartStore>,
    gate: Gate,
}

impl DoorUploads {
    /// Creates the uploads of the store at `url`, behind a door.
    pub(crate) fn new(inner: Arc<dyn MultipartStore>, door: Door, url: &Url) -> Self {
        Self { inner, gate: Gate::new(door, url) }
    }
}

#[async_trait]
impl MultipartStore for DoorUploads {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        self.gate.check(path)?;
        self.inner.create_multipart(path).await
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, index: usize, data: PutPayload) -> Result<PartId> {
        self.gate.check(path)?;
        self.inner.put_part(path, id, index, data).await
    }

    async fn complete_multipart(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<PutResult> {
        self.gate.check(path)?;
        self.inner.complete_multipart(path, id, parts).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.gate.check(path)?;
        self.inner.abort_multipart(path, id).await
    }
}

/// The directories of a store behind a door.
#[cfg(feature = "hdfs")]
pub(crate) struct DoorDirectories {
    inner: Arc<dyn DirectoryStore>,
    gate: Gate,
}

#[cfg(feature = "hdfs")]
impl DoorDirectories {
    /// Creates the directories of the store at `url`, behind a door.
    pub(crate) fn new(inner: Arc<dyn DirectoryStore>, door: Door, url: &Url) -> Self {
        Self { inner, gate: Gate::new(door, url) }
    }
}

#[cfg(feature = "hdfs")]
#[async_trait]
impl DirectoryStore for DoorDirectories {
    async fn found(&self, path: &Path) -> Result<Option<Found>> {
        self.gate.check(path)?;
        self.inner.found(path).await
    }

    async fn directories(&self, path: &Path) -> Result<Vec<ObjectMeta>> {
        self.gate.check(path)?;
        self.inner.directories(path).await
    }

    async fn make_directory(&self, path: &Path) -> Result<()> {
        self.gate.check(path)?;
        self.inner.make_directory(path).await
    }

    async fn rename_directory(&self, from: &Path, to: &Path) -> Result<()> {
        self.gate.check(from)?;
        self.gate.check(to)?;
        self.inner.rename_directory(from, to).await
    }

    async fn keep_permissions(&self, of: &Path, to: &Path) -> Result<()> {
        self.gate.check(of)?;
        self.gate.check(to)?;
        self.inner.keep_permissions(of, to).await
    }

    async fn remove_directory(&self, path: &Path) -> Result<()> {
        self.gate.check(path)?;
        self.inner.remove_directory(path).await
    }
}
