//! [`UploadSet`]: a shard set written to an object store as multipart uploads, which the commit completes.
//!
//! [`tfrecord_shards::objects`] describes the protocol and its reasons; this module carries it out.
//!
//! Started uploads are aborted when the last reference to the set is dropped, whatever the reason. Those that a task has
//! reported are left to the process that publishes the set; [`ControlArea`] says how they are found.

mod attempts;
mod buffer;
mod control;
mod install;
mod shard;
mod spool;
mod target;

use std::fmt;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};

use datafusion_common::{DataFusionError, Result, internal_err};
use datafusion_execution::TaskContext;
use datafusion_execution::disk_manager::DiskManager;
use datafusion_execution::spill_file::SpillFile;
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{MultipartId, PutPayload};
use tfrecord_framing::Compression;
use tfrecord_shards::objects::{
    ControlName, ObjectOutcome, ObjectPublication, ObjectStep, Occupant, SharedUploads, StoredManifest, UploadIntent,
    control_directory,
};
use tfrecord_shards::{
    AttemptId, ErrorKind, MakeSidecars, Manifest, ObjectNames, RunId, SaveMode, SetCommit, SetDescription, Settling,
    Sharding, SharedPlace, Sidecar, StagedIndex, StagedShard, TaskAttempt, TaskReport,
};
use tfrecord_sidecars::SidecarKind;
use tokio::runtime::Handle;

use self::buffer::PartBuffers;
use self::install::Uninstalled;
use self::target::{MOST_AT_ONCE, describe};
use super::options::WriteOptions;
use super::running::{Begun, Running, blocking};
use crate::error::{self, outside_error, shards_error};
use tfr_stores::Location;

pub(crate) use self::attempts::UploadAttempts;
pub(crate) use self::control::{ControlArea, end_dead_runs};
pub(crate) use self::shard::PartUploads;
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
    current: Option<StoredManifest>,
    /// The existing set that is replaced, in a store that renames directories.
    before: Option<Manifest>,
    run: RunId,
    names: ObjectNames,
    buffers: Arc<PartBuffers>,
    /// `None` if no indexes are requested.
    indexes: Option<IndexFiles>,
    /// Uploads that are neither completed nor aborted.
    open: Mutex<Vec<(Path, MultipartId)>>,
    /// `None` if one process writes the set.
    attempt: Option<UploadAttempt>,
    /// Whether what is beside the target stays when this is dropped.
    keeps_staged: AtomicBool,
    runtime: Handle,
    /// Dropped when there is nothing left to abort.
    running: Mutex<Option<Running>>,
}

/// The attempt of a task that uploads some of the shards, or of the process that publishes them.
struct UploadAttempt {
    control: ControlArea,
    id: AttemptId,
    /// When the publication of the set began.
    created: Option<DateTime<Utc>>,
    /// The control objects of the attempt, which are removed if it fails.
    objects: Mutex<Vec<ControlName>>,
    /// Whether the attempt is complete, or may be.
    reported: AtomicBool,
}

/// Returns the suffix of shards that are written next to a set, or to a new one.
fn suffix(current: Option<&StoredManifest>, options: &WriteOptions) -> Result<&'static str> {
    match current {
        Some(current) => Ok(current.manifest.suffix()),
        None => Ok(options.framing().map_err(error::ErrorKind::from)?.suffix()),
    }
}

impl UploadSet {
    /// Checks that the target may be written to. Writes nothing.
    pub(crate) async fn begin(
        location: &Location,
        options: &WriteOptions,
        description: &SetDescription,
        context: &TaskContext,
        running: Running,
    ) -> Result<Begun<Arc<Self>>> {
        let place = UploadTarget::find(location, &context.runtime_env(), context.session_config())?;
        place.mend().await?;
        let before = match options.mode {
            SaveMode::Overwrite if place.directories.is_some() => place.manifest().await?,
            _ => None,
        };
        let occupant = place.inspect(options.mode).await?;
        let is_vacant = occupant == Occupant::Vacant;
        let current = match occupant {
            Occupant::Ignored { found } => return Ok(Begun::Ignored(found)),
            Occupant::Set { stored, .. } => {
                stored.manifest.check_append(description, &place.out()).map_err(shards_error)?;
                Some(*stored)
            }
            Occupant::Vacant | Occupant::Ours { .. } => None,
        };
        let run = RunId::new();
        let place = if current.is_none() { place.staged(&run)? } else { place };
        place.make_staging().await?;
        if let Some(before) = &before {
            place.record_before(&run, &before.manifest).await?;
        }
        // Old and new files exist next to each other for a while, unless they are in two directories.
        let identity = (run, !is_vacant && !place.is_staged(), current);
        let suffix = suffix(identity.2.as_ref(), options)?;
        let mut set = Self::new(place, identity, suffix, None, options, context, running);
        set.before = before.map(|stored| stored.manifest);
        Ok(Begun::Run(Arc::new(set)))
    }

    fn new(
        place: UploadTarget,
        (run, own_names, current): (RunId, bool, Option<StoredManifest>),
        suffix: &'static str,
        attempt: Option<UploadAttempt>,
        options: &WriteOptions,
        context: &TaskContext,
        running: Running,
    ) -> Self {
        let names = ObjectNames {
            prefix: options.prefix.clone(),
            total: if let Sharding::Count(shards) = options.sharding { Some(shards.get()) } else { None },
            suffix,
            run: own_names.then(|| run.clone()),
        };
        Self {
            place,
            mode: options.mode,
            current,
            before: None,
            run,
            names,
            buffers: Arc::new(PartBuffers::new(context)),
            indexes: options
                .emit
                .has(SidecarKind::Index)
                .then(|| IndexFiles { disk: Arc::clone(&context.runtime_env().disk_manager), files: Mutex::default() }),
            open: Mutex::default(),
            attempt,
            keeps_staged: AtomicBool::new(false),
            runtime: Handle::current(),
            running: Mutex::new(Some(running)),
        }
    }

    /// Leaves the set to tasks, before anything is uploaded.
    async fn share(&self) -> Result<SharedUploads> {
        let control = if self.place.is_staged() { self.place.shared(&self.run)? } else { self.place.clone() };
        ControlArea::new(control, self.run.clone()).put(ControlName::Open, Vec::new()).await?;
        // What is staged is left to the tasks.
        self.keeps_staged.store(true, Ordering::Relaxed);
        let current = self.current.as_ref().map(|current| current.version.clone());
        Ok(SharedUploads::new(self.run.clone(), self.names.run.is_some(), current))
    }

    /// Begins an attempt to upload shards of a set that tasks write. With `created`, the time when the publication began,
    /// the attempt publishes the set.
    ///
    /// # Errors
    /// The set is published or abandoned, or is to be appended to another set than the one that was there.
    pub(crate) async fn join(
        control: ControlArea,
        at: &SharedUploads,
        (id, created): (AttemptId, Option<DateTime<Utc>>),
        options: &WriteOptions,
        context: &TaskContext,
        running: Running,
    ) -> Result<Arc<Self>> {
        at.check_format().map_err(shards_error)?;
        control.check_open().await?;
        let begun = ControlName::Begun { attempt: id };
        control.put(begun, Vec::new()).await?;
        let mut current = None;
        // Names depend on the set only if it is one of zlib.
        if let Some(version) = &at.current
            && (created.is_some() || options.compression == Compression::Zlib)
        {
            current = control.place.manifest().await?.filter(|found| found.version == *version);
            if current.is_none() {
                return Err(shards_error(ErrorKind::Superseded { path: control.place.out() }.into()));
            }
        }
        let suffix = suffix(current.as_ref(), options)?;
        let current = current.filter(|_| created.is_some());
        let place = if control.place.is_staged() { control.place.staged(&at.run)? } else { control.place.clone() };
        let identity = (at.run.clone(), at.own_names, current);
        let (objects, reported) = (Mutex::new(vec![begun]), AtomicBool::new(false));
        let attempt = UploadAttempt { control, id, created, objects, reported };
        let before = match created {
            Some(_) if place.is_staged() => place.recorded_before(&at.run).await?,
            _ => None,
        };
        let mut set = Self::new(place, identity, suffix, Some(attempt), options, context, running);
        set.before = before;
        Ok(Arc::new(set))
    }

    /// Completes the attempt by its report. From then on, its uploads are left to the process that publishes the set.
    ///
    /// # Errors
    /// The set is published or abandoned, or a request fails.
    async fn complete_attempt(&self, report: &TaskReport) -> Result<()> {
        let Some(attempt) = &self.attempt else { return internal_err!("the set is not written by tasks") };
        let json = report.to_json().map_err(shards_error)?;
        let name = ControlName::Report { partition: report.partition, attempt: attempt.id };
        // Before the request, which may be carried out although it fails.
        attempt.reported.store(true, Ordering::Relaxed);
        attempt.control.put(name, json).await?;
        let checked = attempt.control.check_open().await;
        if let Err(error) = &checked
            && is_ended(error)
        {
            attempt.note(name);
            attempt.reported.store(false, Ordering::Relaxed);
        }
        checked
    }

    /// Moves the index of a staged shard to where the process that publishes the set finds it.
    async fn share_index(&self, shard: &mut StagedShard) -> Result<()> {
        if let (Some(attempt), Some(index)) = (&self.attempt, &mut shard.index) {
            let name = ControlName::Index { partition: shard.partition, sequence: shard.sequence, attempt: attempt.id };
            let content = read_file(index.path.clone()).await?;
            attempt.note(name);
            attempt.control.put(name, content).await?;
            index.path = name.to_string().into();
        }
        Ok(())
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

    /// Waits for requests. Not on a thread for blocking work, of which there may be one: requests may need it.
    fn wait_for<T>(&self, requests: impl Future<Output = Result<T>>) -> tfrecord_shards::Result<T> {
        self.runtime.block_on(requests).map_err(outside_error)
    }

    /// Publishes these shards as the set. Must not be cancelled halfway.
    async fn complete_set(
        &self,
        shards: Vec<StagedShard>,
        description: SetDescription,
        sidecars: MakeSidecars,
    ) -> Result<Manifest> {
        let _settling = Settling::begin();
        let own_names = self.names.run.is_some();
        let publication = match self.current.clone() {
            Some(current) => {
                ObjectPublication::append(&self.place.out(), current, shards.clone(), description, &self.run)
            }
            None => ObjectPublication::new(own_names, shards.clone(), description, &self.run),
        };
        let mut publication =
            publication.and_then(|publication| publication.with_sidecars(sidecars)).map_err(shards_error)?;
        if let Some(UploadAttempt { control, created: Some(created), .. }) = &self.attempt {
            publication = publication.created(*created);
            match control.begun(&self.place).await? {
                Some((current, false)) => {
                    publication = publication.resume(current.manifest, &self.place.out()).map_err(shards_error)?;
                }
                Some((current, true)) if self.place.is_staged() => {
                    self.install().await?;
                    return Ok(current.manifest);
                }
                _ => {}
            }
        }
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
                // Another process of the run can continue.
                Err(error) if self.attempt.is_some() && is_of_store(&error) => return Err(error),
                Err(error) => {
                    self.take_back(publication).await;
                    return Err(error);
                }
            }
        }
        if self.place.is_staged() {
            self.install().await?;
        }
        Ok(publication.manifest().clone())
    }

    /// Renames the set, which is complete beside the target.
    async fn install(&self) -> Result<()> {
        let target = self.place.unstaged();
        if target.is_of(&self.run).await {
            return Ok(());
        }
        // Of attempts of tasks that do not count.
        self.place.remove_unfinished().await?;
        // Lengths too.
        if !matches!(self.place.inspect(SaveMode::Append).await?, Occupant::Set { .. }) {
            return internal_err!("the set that is complete is not there");
        }
        if let Err(Uninstalled { error, keeps }) = target.install(&self.run, self.mode, self.before.as_ref()).await {
            self.keeps_staged.store(keeps, Ordering::Relaxed);
            return Err(error);
        }
        self.keeps_staged.store(true, Ordering::Relaxed);
        target.clear(&self.run).await;
        if self.mode == SaveMode::Overwrite
            && let Err(error) = target.clear_dead().await
        {
            log::warn!(
                "{}: what other runs have left beside it is not removed: {}",
                target.out().display(),
                describe(&error)
            );
        }
        Ok(())
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
                let current = self.place.manifest().await?;
                if current.is_none_or(|current| current.manifest.last_run() != publication.manifest().last_run()) {
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
            if let Some(attempt) = &self.attempt {
                let from = format!("{}/{}", control_directory(&self.run), staged.path.display());
                return self.place.copy_file(&attempt.control.place, &from, path, staged.file_bytes).await;
            }
            self.place.put_file(path, read_file(staged.path.clone()).await?).await
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
            let current = self.place.manifest().await?;
            for step in publication.undo(current.as_ref().map(|current| &current.manifest)) {
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

    /// Begins the upload of a shard, given its path relative to the prefix, its write partition and number.
    async fn begin_upload(&self, key: Path, path: &str, (partition, sequence): (u32, u32)) -> Result<MultipartId> {
        let id = self.place.begin_upload(&key).await?;
        self.open().push((key, id.clone()));
        if let Some(attempt) = &self.attempt {
            let name = ControlName::Upload { partition, sequence, attempt: attempt.id };
            let intent = UploadIntent { path: path.to_owned(), id: id.clone() };
            let json = serde_json::to_vec(&intent).map_err(|error| DataFusionError::External(Box::new(error)))?;
            attempt.note(name);
            attempt.control.put(name, json).await?;
            // Who ends the run has seen the object, or is seen here.
            attempt.control.check_open().await?;
        }
        Ok(id)
    }

    async fn send_part(&self, key: &Path, id: &MultipartId, index: usize, part: PutPayload) -> Result<String> {
        self.place.send_part(key, id, index, part).await
    }

    fn open(&self) -> MutexGuard<'_, Vec<(Path, MultipartId)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SetCommit for UploadSet {
    fn run(&self) -> &RunId {
        &self.run
    }

    fn current(&self) -> Option<&Manifest> {
        self.current.as_ref().map(|current| &current.manifest)
    }

    fn publish(
        &self,
        shards: Vec<StagedShard>,
        set: SetDescription,
        sidecars: MakeSidecars,
    ) -> tfrecord_shards::Result<Manifest> {
        self.wait_for(self.complete_set(shards, set, sidecars))
    }

    fn detach(&self) -> tfrecord_shards::Result<SharedPlace> {
        self.wait_for(self.share()).map(SharedPlace::Store)
    }
}

impl TaskAttempt for UploadSet {
    fn put_report(&self, report: &TaskReport) -> tfrecord_shards::Result<()> {
        self.wait_for(self.complete_attempt(report))
    }
}

impl UploadAttempt {
    /// Records that the attempt has put a control object, or is about to.
    fn note(&self, name: ControlName) {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).push(name);
    }
}

async fn read_file(file: PathBuf) -> Result<Vec<u8>> {
    blocking(move || Ok(std::fs::read(&file)?)).await
}

/// Whether a request to a store has failed.
fn is_of_store(error: &DataFusionError) -> bool {
    let DataFusionError::IoError(error) = error else { return false };
    let error = error.get_ref().and_then(|error| error.downcast_ref::<crate::Error>());
    error.is_some_and(|error| matches!(error.kind(), crate::ErrorKind::Store { .. }))
}

/// Whether the run of an attempt is published or abandoned.
fn is_ended(error: &DataFusionError) -> bool {
    let DataFusionError::External(error) = error else { return false };
    let error = error.downcast_ref::<tfrecord_shards::Error>();
    error.is_some_and(|error| matches!(error.kind(), ErrorKind::Ended))
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
        let attempt = self.attempt.take();
        if attempt.as_ref().is_some_and(|attempt| attempt.reported.load(Ordering::Relaxed)) {
            return;
        }
        if self.place.is_staged() && attempt.is_none() {
            if !self.keeps_staged.load(Ordering::Relaxed) {
                let (target, run, settling) = (self.place.unstaged(), self.run.clone(), Settling::begin());
                self.runtime.spawn(async move {
                    target.clear_staging(&run).await;
                    drop((settling, running));
                });
            }
        } else if !open.is_empty() || attempt.is_some() {
            let (place, settling) = (self.place.clone(), Settling::begin());
            self.runtime.spawn(async move {
                // What cannot be removed now is removed with the others when the run ends.
                if place.abort_all(open).await
                    && let Some(UploadAttempt { control, objects, .. }) = attempt
                {
                    let objects = objects.into_inner().unwrap_or_else(PoisonError::into_inner);
                    let _unremoved = control.remove(objects).await;
                }
                drop((settling, running));
            });
        }
    }
}
