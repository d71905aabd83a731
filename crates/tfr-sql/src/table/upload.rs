//! [`TableUpload`]: writes a table file to an object store.
//!
//! The file is written to the directory for temporary files, and uploaded when complete. A query that fails has
//! therefore started no upload, an existing object is replaced in one step, and the length is known when the upload is
//! split into parts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::error::DataFusionError;
use datafusion::object_store::multipart::{MultipartStore, PartId};
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    self, MultipartId, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::ErrorKind;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tfr_stores::{Found, Location, UploadStores};
use tfrecord_shards::{ErrorKind as ShardsErrorKind, RunId, SaveMode, Settling};
use tokio::task::spawn_blocking;

use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;

/// Size limit in bytes of a single put, and the part size of longer files.
const PART: u64 = 8 << 20;

/// Maximum number of parts of an upload. S3 and Google Cloud Storage accept 10,000.
const MOST_PARTS: u64 = 9_000;

/// Number of parts uploaded concurrently.
const AT_ONCE: usize = 4;

/// A table file that is uploaded once it is complete.
pub struct TableUpload {
    store: Arc<dyn ObjectStore>,
    uploads: Arc<dyn MultipartStore>,
    key: Path,
    mode: SaveMode,
    run: RunId,
    /// The URL.
    shown: PathBuf,
    /// The local file.
    file: PathBuf,
    /// The existing object, if there is one.
    before: Option<ObjectMeta>,
}

impl TableUpload {
    /// Checks that the target may be written. `file` is the path of the local file.
    pub async fn begin(location: &Location, mode: SaveMode, file: PathBuf, context: &SessionContext) -> Result<Self> {
        let url = location.object_store();
        let shown = PathBuf::from(location.to_string());
        // First, because a registry may create both on first use.
        let store = context.runtime_env().object_store(url)?;
        let config = context.copied_config();
        let uploads = config.get_extension::<UploadStores>().and_then(|uploads| uploads.get(url));
        let uploads = uploads.ok_or_else(|| {
            let no_uploads = ErrorKind::NoUploads { url: location.to_string() };
            DataFusionError::External(Box::new(datafusion_tfrecord::Error::from(no_uploads)))
        })?;
        let key = location.key().clone();
        let inspected = async {
            let directories = config.get_extension::<UploadStores>().and_then(|uploads| uploads.directories(url));
            if let Some(directories) = directories
                && directories.found(&key).await? == Some(Found::Directory)
            {
                return Ok(Err(ShardsErrorKind::OtherKind {
                    path: shown.clone(),
                    expected: "a file",
                    found: "a directory",
                }));
            }
            match store.head(&key).await {
                Ok(found) => Ok(Ok(Some(found))),
                Err(object_store::Error::NotFound { .. }) => Ok(Ok(None)),
                Err(error) => Err(error),
            }
        };
        let before = match inspected.await {
            Ok(before) => before.map_err(shards_error)?,
            Err(error) => {
                let source = io::Error::other(error);
                return Err(shards_error(ShardsErrorKind::Io { action: "inspect", path: shown, source }));
            }
        };
        if before.is_some() && mode != SaveMode::Overwrite {
            return Err(shards_error(ShardsErrorKind::AlreadyThere { path: shown }));
        }
        Ok(Self { store, uploads, key, mode, run: RunId::new(), shown, file, before })
    }

    /// Returns the path of the local file, and its name in messages.
    pub fn file(&self) -> (PathBuf, PathBuf) {
        (self.file.clone(), self.shown.clone())
    }

    /// Returns the run that writes the table.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Uploads the file, which must be closed. After a signal or an error, no parts of it remain in the store.
    pub async fn publish(&self, interrupt: &Interrupt) -> Result<Result<(), ExitStatus>> {
        let file = File::open(&self.file).map_err(|source| self.unread(source))?;
        let len = file.metadata().map_err(|source| self.unread(source))?.len();
        let file = Arc::new(file);
        if len <= PART {
            let content = self.read(&file, 0, len).await?;
            return self.put(content).await.map(Ok);
        }
        let id = self.uploads.create_multipart(&self.key).await.map_err(|error| self.failed(error))?;
        let sent = tokio::select! {
            sent = self.send(&file, len, &id) => sent.map(Ok),
            status = interrupt.received() => Ok(Err(status)),
        };
        let _settling = Settling::begin();
        let published = match sent {
            // From here on, the object may appear at any moment.
            Ok(Ok(parts)) => self.complete(&id, parts, len).await.map(Ok),
            Ok(Err(status)) => Ok(Err(status)),
            Err(error) => Err(error),
        };
        if !matches!(published, Ok(Ok(())))
            && let Err(error) = self.uploads.abort_multipart(&self.key, &id).await
        {
            log::warn!(
                "{}: an upload cannot be aborted, and waits for the bucket's rules: {error}",
                self.shown.display()
            );
        }
        published
    }

    /// Uploads all parts. Returns them in order.
    async fn send(&self, file: &Arc<File>, len: u64, id: &MultipartId) -> Result<Vec<PartId>> {
        let part = PART.max(len.div_ceil(MOST_PARTS));
        let starts = (0..len.div_ceil(part)).map(|number| number * part);
        let sends = starts.enumerate().map(|(number, start)| async move {
            let content = self.read(file, start, part.min(len - start)).await?;
            let sent = self.uploads.put_part(&self.key, id, number, PutPayload::from(content)).await;
            sent.map_err(|error| self.failed(error))
        });
        stream::iter(sends).buffered(AT_ONCE).try_collect().await
    }

    async fn complete(&self, id: &MultipartId, parts: Vec<PartId>, len: u64) -> Result<()> {
        // Multipart uploads cannot be completed conditionally, so check as late as possible.
        if self.mode != SaveMode::Overwrite && self.store.head(&self.key).await.is_ok() {
            return Err(shards_error(ShardsErrorKind::AlreadyThere { path: self.shown.clone() }));
        }
        let Err(error) = self.uploads.complete_multipart(&self.key, id, parts).await else { return Ok(()) };
        // If only the response was lost, the store no longer knows the upload when the request is repeated.
        let old = self.before.as_ref().map(|before| (&before.e_tag, &before.version, before.last_modified));
        match self.store.head(&self.key).await {
            Ok(found) if found.size == len && old != Some((&found.e_tag, &found.version, found.last_modified)) => {
                Ok(())
            }
            _ => Err(self.failed(error)),
        }
    }

    async fn put(&self, content: Bytes) -> Result<()> {
        let mode = if self.mode == SaveMode::Overwrite { PutMode::Overwrite } else { PutMode::Create };
        let put = self.store.put_opts(&self.key, content.clone().into(), PutOptions::from(mode)).await;
        let Err(error) = put else { return Ok(()) };
        // The object may exist even so, if only the response was lost.
        let found = async { self.store.get(&self.key).await?.bytes().await };
        match (found.await, error) {
            (Ok(found), _) if found == content => Ok(()),
            (_, object_store::Error::AlreadyExists { .. }) => {
                Err(shards_error(ShardsErrorKind::AlreadyThere { path: self.shown.clone() }))
            }
            (_, error) => Err(self.failed(error)),
        }
    }

    async fn read(&self, file: &Arc<File>, start: u64, len: u64) -> Result<Bytes> {
        let file = Arc::clone(file);
        let read = spawn_blocking(move || {
            let mut content = vec![0; usize::try_from(len).map_err(io::Error::other)?];
            file.read_exact_at(&mut content, start).map(|()| Bytes::from(content))
        });
        read.await.map_err(Error::stopped)?.map_err(|source| self.unread(source))
    }

    fn unread(&self, source: io::Error) -> Error {
        Error::Read { path: self.file.clone(), source }
    }

    fn failed(&self, source: object_store::Error) -> Error {
        let (path, source) = (self.shown.clone(), io::Error::other(source));
        shards_error(ShardsErrorKind::Io { action: "publish", path, source })
    }
}

fn shards_error(kind: ShardsErrorKind) -> Error {
    tfrecord_shards::Error::from(kind).into()
}
