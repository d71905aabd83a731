//! [`UploadSet`]: a shard set written to an object store as multipart uploads, which the commit completes.
//!
//! [`tfrecord_shards::objects`] describes the protocol and its reasons; this module carries it out.
//!
//! Started uploads are aborted when the last reference to the set is dropped, whatever the reason.

mod buffer;
mod shard;
mod spool;
mod target;

use std::fmt;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion_common::{DataFusionError, Result, internal_err};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::TaskContext;
use datafusion_execution::disk_manager::DiskManager;
use datafusion_execution::spill_file::SpillFile;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{MultipartId, PutPayload};
use tfrecord_shards::objects::{ObjectOutcome, ObjectPublication, ObjectStep, Occupant, StoredManifest};
use tfrecord_shards::{
    ErrorKind, Manifest, ObjectNames, RunId, SaveMode, SetDescription, Sharding, Sidecar, SidecarsError, StagedIndex,
    StagedShard,
};
use tfrecord_sidecars::SidecarKind;
use tokio::runtime::Handle;

use self::buffer::PartBuffers;
use self::target::{MOST_AT_ONCE, describe};
use super::options::WriteOptions;
use super::running::Running;
use crate::error::shards_error;
use tfr_files::Location;

pub(crate) use self::shard::{PartUploads, UploadSink, UploadSinks};
pub(crate) use self::target::UploadTarget;

/// Index files, stored locally until they are uploaded.
struct IndexFiles {
    disk: Arc<DiskManager>,
    /// The existing files, which are removed with this value.
    files: Mutex<Vec<Arc<dyn SpillFile>>>,
}

/// A shard set that is being uploaded to an object store. Dropping it aborts incomplete uploads.
pub(crate) struct UploadSet {
    place: UploadTarget,
    mode: SaveMode,
    /// The existing set that shards are appended to.
    standing: Option<StoredManifest>,
    run: RunId,
    names: ObjectNames,
    buffers: Arc<PartBuffers>,
    /// `None` if no indexes are requested.
    indexes: Option<IndexFiles>,
    /// Uploads that are neither completed nor aborted.
    open: Mutex<Vec<(Path, MultipartId)>>,
    runtime: Handle,
    /// Dropped when there is nothing left to abort.
    running: Mutex<Option<Running>>,
}

/// The initial state of a run.
pub(crate) enum BegunUploads {
    Set(Arc<UploadSet>),
    /// There is nothing to do, since these files exist.
    Ignored(Vec<String>),
}

impl UploadSet {
    /// Checks that the target may be written to. Writes nothing.
    pub(crate) async fn begin(
        location: &Location,
        options: &WriteOptions,
        description: &SetDescription,
        context: &TaskContext,
        running: Running,
    ) -> Result<BegunUploads> {
        let place = UploadTarget::find(location, &context.runtime_env(), context.session_config())?;
        let occupant = place.inspect(options.mode).await?;
        let is_vacant = occupant == Occupant::Vacant;
        let standing = match occupant {
            Occupant::Ignored { found } => return Ok(BegunUploads::Ignored(found)),
            Occupant::Standing(standing) => {
                standing.manifest.check_append(description, &place.out()).map_err(shards_error)?;
                Some(*standing)
            }
            Occupant::Vacant | Occupant::Ours { .. } => None,
        };
        let run = RunId::new();
        let names = ObjectNames {
            prefix: options.prefix.clone(),
            total: if let Sharding::Count(shards) = options.sharding { Some(shards.get()) } else { None },
            compression: options.compression,
            // Old and new files exist next to each other for a while.
            run: (!is_vacant).then(|| run.clone()),
        };
        Ok(BegunUploads::Set(Arc::new(Self {
            place,
            mode: options.mode,
            standing,
            run,
            names,
            buffers: Arc::new(PartBuffers::new(context)),
            indexes: options
                .emit
                .has(SidecarKind::Index)
                .then(|| IndexFiles { disk: Arc::clone(&context.runtime_env().disk_manager), files: Mutex::default() }),
            open: Mutex::default(),
            runtime: Handle::current(),
            running: Mutex::new(Some(running)),
        })))
    }

    /// Creates a file for the index of a shard, if indexes are requested.
    fn index_file(&self) -> tfrecord_shards::Result<Option<PathBuf>> {
        let Some(IndexFiles { disk, files }) = &self.indexes else { return Ok(None) };
        let failed = |source| ErrorKind::Io { action: "make an index of", path: self.place.out(), source };
        let file = disk.create_tmp_file("index of a shard").map_err(|error| failed(io::Error::other(error)))?;
        let path = file.path().ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?.to_owned();
        files.lock().unwrap_or_else(PoisonError::into_inner).push(file);
        Ok(Some(path))
    }

    /// Returns the existing set that shards are appended to.
    pub(crate) fn standing(&self) -> Option<&Manifest> {
        self.standing.as_ref().map(|standing| &standing.manifest)
    }

    /// Publishes these shards as the set. Must not be cancelled halfway.
    pub(crate) async fn publish(
        &self,
        shards: Vec<StagedShard>,
        description: SetDescription,
        sidecars: impl FnOnce(&Manifest) -> Result<Vec<Sidecar>, SidecarsError>,
    ) -> Result<Manifest> {
        let own_names = self.names.run.is_some();
        let publication = match self.standing.clone() {
            Some(standing) => {
                ObjectPublication::append(&self.place.out(), standing, shards.clone(), description, &self.run)
            }
            None => ObjectPublication::new(own_names, shards.clone(), description, &self.run),
        };
        let mut publication =
            publication.and_then(|publication| publication.with_sidecars(sidecars)).map_err(shards_error)?;
        while let Some(step) = publication.next_step() {
            let performed = self.perform(&step, &publication, &shards).await;
            let noted = performed
                .and_then(|outcome| publication.performed(&step, outcome, &self.place.out()).map_err(shards_error));
            match noted {
                Ok(()) => {}
                Err(error) if publication.is_committed() => {
                    let (out, error) = (self.place.out(), describe(&error));
                    log::warn!(
                        "{}: the set is there, but not all beside its shards, or not all that it replaces is gone: {error}",
                        out.display()
                    );
                }
                Err(error) => {
                    self.take_back(publication).await;
                    return Err(error);
                }
            }
        }
        Ok(publication.manifest().clone())
    }

    async fn perform(
        &self,
        step: &ObjectStep,
        publication: &ObjectPublication,
        shards: &[StagedShard],
    ) -> Result<ObjectOutcome> {
        match step {
            ObjectStep::Inspect => return Ok(ObjectOutcome::Found(self.place.inspect(self.mode).await?)),
            ObjectStep::PutManifest { content, condition } => self.place.put_manifest(content, condition).await?,
            ObjectStep::Complete => self.complete(shards).await?,
            ObjectStep::PutSidecars { indexes, sidecars } => self.put_sidecars(indexes, sidecars).await?,
            ObjectStep::Confirm => {
                let standing = self.place.manifest().await?;
                if standing.is_none_or(|standing| standing.manifest.last_run() != publication.manifest().last_run()) {
                    return Err(shards_error(ErrorKind::Superseded { path: self.place.out() }.into()));
                }
            }
            ObjectStep::PutSuccess => self.place.put_success().await?,
            ObjectStep::Remove { files } => self.place.remove(files).await?,
            other => return internal_err!("unknown step of a publication: {other:?}"),
        }
        Ok(ObjectOutcome::Done)
    }

    /// Uploads the sidecar files, several at a time.
    async fn put_sidecars(&self, indexes: &[(StagedIndex, String)], sidecars: &[Sidecar]) -> Result<()> {
        let put_index = async |(staged, path): &(StagedIndex, String)| {
            let file = staged.path.clone();
            let read = SpawnedTask::spawn_blocking(move || std::fs::read(&file)).await;
            let content = read.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
            self.place.put_file(path, content).await
        };
        stream::iter(indexes).map(put_index).buffer_unordered(MOST_AT_ONCE).try_collect::<()>().await?;
        let put = |sidecar: &Sidecar| {
            let Sidecar { path, content } = sidecar.clone();
            async move { self.place.put_file(&path, content).await }
        };
        stream::iter(sidecars).map(put).buffer_unordered(MOST_AT_ONCE).try_collect().await
    }

    /// Completes all uploads, several at a time. After a failure no further one is started, but those in progress are
    /// waited for: a shard must not appear after the rollback.
    async fn complete(&self, shards: &[StagedShard]) -> Result<()> {
        let mut waiting = shards.iter();
        let mut under_way = FuturesUnordered::new();
        let mut result = Ok(());
        loop {
            while result.is_ok() && under_way.len() < MOST_AT_ONCE {
                let Some(shard) = waiting.next() else { break };
                under_way.push(self.complete_shard(shard));
            }
            match under_way.next().await {
                Some(completed) => result = result.and(completed),
                None => return result,
            }
        }
    }

    async fn complete_shard(&self, shard: &StagedShard) -> Result<()> {
        let Some(upload) = &shard.upload else { return internal_err!("shard {} is no upload", shard.staged) };
        let key = self.place.key(&shard.staged).map_err(shards_error)?;
        self.place.complete(&key, upload, shard.file_bytes).await?;
        self.open().retain(|(open, id)| *open != key || *id != upload.id);
        Ok(())
    }

    /// Rolls back a failed publication as far as possible.
    async fn take_back(&self, publication: ObjectPublication) {
        let taken_back = async {
            let standing = self.place.manifest().await?;
            for step in publication.undo(standing.as_ref().map(|standing| &standing.manifest)) {
                if let ObjectStep::Remove { files } = &step {
                    self.place.remove(files).await?;
                }
            }
            Ok::<_, DataFusionError>(())
        };
        if let Err(error) = taken_back.await {
            let (out, error) = (self.place.out(), describe(&error));
            log::warn!("{}: what this run has published is no set, but not all of it is gone: {error}", out.display());
        }
    }

    async fn begin_upload(&self, key: Path) -> Result<MultipartId> {
        let id = self.place.begin_upload(&key).await?;
        self.open().push((key, id.clone()));
        Ok(id)
    }

    async fn send_part(&self, key: &Path, id: &MultipartId, index: usize, part: PutPayload) -> Result<String> {
        self.place.send_part(key, id, index, part).await
    }

    fn open(&self) -> MutexGuard<'_, Vec<(Path, MultipartId)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for UploadSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UploadSet").field("place", &self.place).field("run", &self.run).finish_non_exhaustive()
    }
}

impl Drop for UploadSet {
    fn drop(&mut self) {
        let open = mem::take(&mut *self.open());
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if !open.is_empty() {
            let place = self.place.clone();
            self.runtime.spawn(async move {
                place.abort(open).await;
                drop(running);
            });
        }
    }
}
