//! [`UploadTarget`]: a prefix of an object store, and the requests that a commit makes there.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use datafusion_common::Result;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::runtime_env::RuntimeEnv;
use futures::{StreamExt, TryStreamExt, future, stream};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};
use tfrecord_shards::objects::{Condition, ObjectVersion, Occupant, PrefixScan, StoredManifest, control_object};
use tfrecord_shards::{MANIFEST_NAME, Manifest, RunId, SUCCESS_NAME, SaveMode, StagedUpload};

use crate::error::{ErrorKind, shards_error};
use tfr_stores::{DirectoryStore, Location, UNFINISHED, UploadStores};

/// Milliseconds to wait each time before looking for a file whose upload could not be completed.
const COMPLETION_WAITS: [u64; 5] = [0, 100, 300, 600, 1000];

/// Maximum number of uploads completed or aborted at the same time.
pub(super) const MOST_AT_ONCE: usize = 16;

/// Number of attempts to abort an upload. Stores retry requests by themselves, but not after a reset connection.
const ABORT_TRIES: usize = 2;

/// The target prefix of a set in an object store.
#[derive(Clone)]
pub(crate) struct UploadTarget {
    store: Arc<dyn ObjectStore>,
    uploads: Arc<dyn MultipartStore>,
    /// In a store that renames directories.
    pub(super) directories: Option<Arc<dyn DirectoryStore>>,
    pub(super) location: Location,
    /// Where the files go: the target, or a directory that will be renamed to the target.
    pub(super) prefix: Path,
}

impl UploadTarget {
    /// Resolves a location with the stores of a session.
    ///
    /// # Errors
    /// [`ErrorKind::NoStore`] and [`ErrorKind::NoUploads`].
    pub(crate) fn find(location: &Location, runtime: &RuntimeEnv, config: &SessionConfig) -> Result<Self> {
        let url = location.object_store();
        // First, since a registry may build both on first use.
        let store =
            runtime.object_store(url).map_err(|source| ErrorKind::NoStore { url: location.to_string(), source })?;
        let registered = config.get_extension::<UploadStores>();
        let uploads = registered.as_ref().and_then(|uploads| uploads.get(url));
        let uploads = uploads.ok_or_else(|| ErrorKind::NoUploads { url: location.to_string() })?;
        let directories = registered.and_then(|uploads| uploads.directories(url));
        let (location, prefix) = (location.clone(), location.key().clone());
        Ok(Self { store, uploads, directories, location, prefix })
    }

    /// Returns the same target, whose files go to another directory.
    pub(super) fn at(&self, prefix: Path) -> Self {
        Self { prefix, ..self.clone() }
    }

    /// Returns the target's name for messages.
    pub(super) fn out(&self) -> PathBuf {
        self.location.to_string().into()
    }

    /// Returns the key of a file of the set, given its path relative to the prefix.
    ///
    /// # Errors
    /// The path has segments that are not valid in a key.
    pub(super) fn key(&self, path: &str) -> tfrecord_shards::Result<Path> {
        let prefix = &self.prefix;
        let separator = if prefix.as_ref().is_empty() { "" } else { "/" };
        Path::parse(format!("{prefix}{separator}{path}")).map_err(|error| {
            let (action, path) = ("name", self.out().join(path));
            tfrecord_shards::ErrorKind::Io { action, path, source: std::io::Error::other(error) }.into()
        })
    }

    pub(super) fn error(&self, action: &'static str, key: &Path, source: object_store::Error) -> ErrorKind {
        ErrorKind::Store { action, file: self.location.file_names().name(key), source }
    }

    /// Inspects the existing files, and whether they may be replaced.
    pub(crate) async fn inspect(&self, mode: SaveMode) -> Result<Occupant> {
        // If nothing is replaced, it does not matter who wrote the files.
        let needs_manifest = mode == SaveMode::Overwrite || mode.keeps_set();
        let manifest = if needs_manifest { self.manifest().await? } else { None };
        let mut scan = PrefixScan::new(mode, manifest.as_ref());
        let prefix = &self.prefix;
        let mut files = self.store.list((!prefix.as_ref().is_empty()).then_some(prefix));
        while let Some(file) = files.try_next().await.map_err(|error| self.error("list", prefix, error))? {
            if file.location.filename().is_some_and(|name| name.starts_with(UNFINISHED)) {
                continue;
            }
            let Some(parts) = file.location.prefix_match(prefix) else { continue };
            let parts: Vec<_> = parts.collect();
            let path = parts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join("/");
            // Consoles create an empty object for a directory.
            if !path.is_empty() && scan.add(path, file.size).is_break() {
                break;
            }
        }
        scan.finish(&self.out()).map_err(shards_error)
    }

    /// Reads the existing manifest, if there is one.
    pub(super) async fn manifest(&self) -> Result<Option<StoredManifest>> {
        let Some((bytes, version)) = self.read_manifest().await? else { return Ok(None) };
        let path = self.out().join(MANIFEST_NAME);
        let manifest = Manifest::from_json(&bytes, &path).map_err(shards_error)?;
        Ok(Some(StoredManifest { manifest, version }))
    }

    async fn read_manifest(&self) -> Result<Option<(Bytes, ObjectVersion)>> {
        let key = self.key(MANIFEST_NAME).map_err(shards_error)?;
        let found = match self.store.get(&key).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.error("read", &key, error).into()),
        };
        let version = ObjectVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let bytes = found.bytes().await.map_err(|error| self.error("read", &key, error))?;
        Ok(Some((bytes, version)))
    }

    /// Puts the manifest if the condition holds; unconditionally if the store does not support conditions.
    pub(super) async fn put_manifest(&self, content: &[u8], condition: &Condition) -> Result<()> {
        let key = self.key(MANIFEST_NAME).map_err(shards_error)?;
        let payload = PutPayload::from(content.to_vec());
        let mode = match condition {
            Condition::Absent => PutMode::Create,
            Condition::Unchanged(ObjectVersion { e_tag: None, version: None }) => PutMode::Overwrite,
            Condition::Unchanged(ObjectVersion { e_tag, version }) => {
                PutMode::Update(UpdateVersion { e_tag: e_tag.clone(), version: version.clone() })
            }
        };
        let mut put = self.store.put_opts(&key, payload.clone(), PutOptions::from(mode)).await;
        if let Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) = put {
            put = self.store.put(&key, payload).await;
        }
        let Err(error) = put else { return Ok(()) };
        // The manifest may exist although the response was lost. If this check fails, the original error is still
        // reported.
        if self.read_manifest().await.ok().flatten().is_some_and(|(found, _)| found == content) {
            return Ok(());
        }
        match error {
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. } => {
                Err(shards_error(tfrecord_shards::ErrorKind::Superseded { path: self.out() }.into()))
            }
            error => Err(self.error("write", &key, error).into()),
        }
    }

    /// Puts the empty file that marks the set as complete.
    pub(super) async fn put_success(&self) -> Result<()> {
        let key = self.key(SUCCESS_NAME).map_err(shards_error)?;
        match self.store.put(&key, PutPayload::new()).await {
            Ok(_) => Ok(()),
            // Only the response was lost.
            Err(_) if self.store.head(&key).await.is_ok() => Ok(()),
            Err(error) => Err(self.error("write", &key, error).into()),
        }
    }

    /// Puts a small file, given its path relative to the prefix.
    pub(super) async fn put_file(&self, path: &str, content: Vec<u8>) -> Result<()> {
        let key = self.key(path).map_err(shards_error)?;
        match self.store.put(&key, PutPayload::from(content)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.error("write", &key, error).into()),
        }
    }

    /// Puts a small file if there is none, given its path relative to the prefix. Returns the content that is there
    /// then. In a store without conditional requests, the last of two processes wins.
    pub(super) async fn put_new_file(&self, path: &str, content: Vec<u8>) -> Result<Bytes> {
        let key = self.key(path).map_err(shards_error)?;
        let payload = PutPayload::from(content.clone());
        let mut put = self.store.put_opts(&key, payload.clone(), PutOptions::from(PutMode::Create)).await;
        if let Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) = put {
            put = self.store.put(&key, payload).await;
        }
        match (put, self.read_file(path).await) {
            (Ok(_), _) => Ok(content.into()),
            // It was there, or only the response was lost.
            (Err(_), Ok(Some(found))) => Ok(found),
            (Err(error), _) => Err(self.error("write", &key, error).into()),
        }
    }

    /// Reads a small file, given its path relative to the prefix. `None` if there is none.
    pub(super) async fn read_file(&self, path: &str) -> Result<Option<Bytes>> {
        let key = self.key(path).map_err(shards_error)?;
        let read = async { self.store.get(&key).await?.bytes().await };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error("read", &key, error).into()),
        }
    }

    /// Returns the length of a file, given its path relative to the prefix. `None` if there is none.
    pub(super) async fn file_bytes(&self, path: &str) -> Result<Option<u64>> {
        let key = self.key(path).map_err(shards_error)?;
        match self.store.head(&key).await {
            Ok(found) => Ok(Some(found.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error("read", &key, error).into()),
        }
    }

    /// Copies a file of `place` to another path, both relative to their prefixes.
    pub(super) async fn copy_file(&self, place: &Self, from: &str, to: &str, file_bytes: u64) -> Result<()> {
        let (from_key, to_key) = (place.key(from).map_err(shards_error)?, self.key(to).map_err(shards_error)?);
        let Err(error) = self.store.copy(&from_key, &to_key).await else { return Ok(()) };
        // Another process of the run may have copied it, and then removed it.
        match error {
            object_store::Error::NotFound { .. } if self.file_bytes(to).await? == Some(file_bytes) => Ok(()),
            error => Err(self.error("copy", &from_key, error).into()),
        }
    }

    /// Lists the files in a directory, by their paths relative to the prefix, with the time when each was put.
    pub(super) async fn list_directory(&self, directory: &str) -> Result<Vec<(String, DateTime<Utc>)>> {
        let (prefix, directory) = (&self.prefix, self.key(directory).map_err(shards_error)?);
        let mut files = self.store.list(Some(&directory));
        let mut found = Vec::new();
        while let Some(file) = files.try_next().await.map_err(|error| self.error("list", &directory, error))? {
            if let Some(parts) = file.location.prefix_match(prefix) {
                let path = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
                found.push((path, file.last_modified));
            }
        }
        Ok(found)
    }

    /// Returns the runs that have control objects below the prefix, each with the time when the newest was put.
    pub(super) async fn controlled_runs(&self) -> Result<BTreeMap<RunId, DateTime<Utc>>> {
        let prefix = &self.prefix;
        let mut files = self.store.list((!prefix.as_ref().is_empty()).then_some(prefix));
        let mut found = BTreeMap::new();
        while let Some(file) = files.try_next().await.map_err(|error| self.error("list", prefix, error))? {
            let Some(parts) = file.location.prefix_match(prefix) else { continue };
            let path = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
            if let Some((run, _)) = control_object(&path) {
                let newest = found.entry(run).or_insert(file.last_modified);
                *newest = file.last_modified.max(*newest);
            }
        }
        Ok(found)
    }

    /// Returns the time when the newest file below a path was written.
    pub(super) async fn newest_below(&self, path: &Path) -> Result<Option<DateTime<Utc>>> {
        let times = self.store.list(Some(path)).map_ok(|file| file.last_modified);
        let newest = times.try_fold(None, async |newest, time| Ok(newest.max(Some(time)))).await;
        Ok(newest.map_err(|error| self.error("list", path, error))?)
    }

    /// Starts the upload of a file.
    pub(super) async fn begin_upload(&self, key: &Path) -> Result<MultipartId> {
        Ok(self.uploads.create_multipart(key).await.map_err(|error| self.error("begin the upload of", key, error))?)
    }

    /// Sends a part of an upload, and returns the store's identifier of it.
    pub(super) async fn send_part(
        &self,
        key: &Path,
        id: &MultipartId,
        index: usize,
        part: PutPayload,
    ) -> Result<String> {
        let sent = self.uploads.put_part(key, id, index, part).await;
        Ok(sent.map_err(|error| self.error("upload", key, error))?.content_id)
    }

    /// Completes an upload, which makes the file visible.
    pub(super) async fn complete(&self, key: &Path, upload: &StagedUpload, file_bytes: u64) -> Result<()> {
        let parts = upload.parts.iter().map(|part| PartId { content_id: part.clone() }).collect();
        let Err(error) = self.uploads.complete_multipart(key, &upload.id, parts).await else { return Ok(()) };
        // If only the response was lost, the retried request finds no such upload. Nor does one that another process has just
        // begun to complete, whose file is not there at once.
        for wait in COMPLETION_WAITS {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            if self.store.head(key).await.is_ok_and(|found| found.size == file_bytes) {
                return Ok(());
            }
        }
        Err(self.error("complete the upload of", key, error).into())
    }

    /// Aborts an upload, if it still exists.
    pub(super) async fn abort(&self, key: &Path, id: &MultipartId) -> Result<()> {
        let mut tries = 0;
        while let Err(error) = self.uploads.abort_multipart(key, id).await {
            tries += 1;
            match error {
                object_store::Error::NotFound { .. } => break,
                error if tries == ABORT_TRIES => return Err(self.error("abort the upload of", key, error).into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Aborts uploads that still exist. Failures are logged. Returns whether there were none.
    pub(super) async fn abort_all(&self, uploads: Vec<(Path, MultipartId)>) -> bool {
        let abort = async |(key, id)| {
            let aborted = self.abort(&key, &id).await;
            if let Err(error) = &aborted {
                log::warn!(
                    "{}; its parts stay, and cost, until a lifecycle rule of the bucket removes them",
                    describe(error)
                );
            }
            aborted.is_ok()
        };
        stream::iter(uploads).map(abort).buffer_unordered(MOST_AT_ONCE).fold(true, async |all, one| all && one).await
    }

    /// Removes the files of uploads that are not completed.
    pub(super) async fn remove_unfinished(&self) -> Result<()> {
        let prefix = &self.prefix;
        let is_unfinished = |key: &Path| key.filename().is_some_and(|name| name.starts_with(UNFINISHED));
        let files = self.store.list(Some(prefix)).map_ok(|file| file.location);
        let keys = files.try_filter(|key| future::ready(is_unfinished(key))).try_collect().await;
        let keys: Vec<_> = keys.map_err(|error| self.error("list", prefix, error))?;
        self.remove_keys(keys).await
    }

    /// Removes existing files, given their paths relative to the prefix.
    ///
    /// # Errors
    /// The first failure. The other files are removed if possible.
    pub(super) async fn remove(&self, files: &[String]) -> Result<()> {
        self.remove_keys(files.iter().map(|file| self.key(file)).collect::<Result<_, _>>().map_err(shards_error)?).await
    }

    async fn remove_keys(&self, keys: Vec<Path>) -> Result<()> {
        let mut removed = self.store.delete_stream(stream::iter(keys.into_iter().map(Ok)).boxed());
        let mut result = Ok(());
        while let Some(key) = removed.next().await {
            match key {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) if result.is_ok() => {
                    result = Err(self.error("remove files under", &self.prefix, error).into());
                }
                Err(_) => {}
            }
        }
        result
    }
}

/// Formats an error and its sources for the log.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

impl fmt::Debug for UploadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UploadTarget").field(&self.location.to_string()).finish()
    }
}
