//! [`LocalCommit`]: commits a set to a local directory.

mod interrupted;
mod shared;
mod store;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use crate::commit::leftovers::leftovers;
use crate::commit::publication::{Leftover, Publication, Setting, StagedShard, Staging, Store};
use crate::commit::save_mode::SaveMode;
use crate::commit::settling::Settling;
use crate::commit::shard_file::{ShardFile, ShardHome};
use crate::commit::staging::{MadeDirectories, remove_if_empty};
use crate::commit::staging_names;
use crate::commit::step::{Step, Target};
use crate::commit::uncached::{UncachedFile, UncachedStreams};
use crate::commit::{staging, target};
use crate::error::{AtPath, ErrorKind, Result, SidecarsError};
use crate::set::group::ShardGroup;
use crate::set::manifest::{Manifest, SetDescription};
use crate::set::names::RunId;
use crate::set::sidecar::Sidecar;
use crate::write::index_writer::IndexFile;

/// Commits a set to a local directory. Any number of tasks create shards in a staging directory, which are then
/// published together.
///
/// Clones share the commit. If the last clone and the last open [`ShardFile`] are dropped and nothing was published,
/// the staging directory is removed. So an error, a panic or a cancelled task leaves nothing behind.
///
/// ```
/// use std::io::Write;
/// use std::sync::Arc;
/// use arrow_schema::{DataType, Field, Schema};
/// use arrow_tfrecord::{Mapping, MappingOptions};
/// use tfrecord_framing::{Compression, Level};
/// use tfrecord_shards::{LocalCommit, RunId, SaveMode, SetDescription, ShardWriter};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let out = dir.path().join("shards");
/// let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
/// let options = MappingOptions::default();
/// let mapping = Mapping::try_new(&schema, &options)?;
///
/// let commit = LocalCommit::begin(&out, SaveMode::Error, RunId::new(), &[])?;
/// let shard = ShardWriter::new(commit.create_shard(0, 0)?, (Compression::None, Level::default()));
/// let (file, stats) = shard.finish()?;
/// let shards = vec![file.seal(stats)?];
/// let manifest = commit.publish(shards, SetDescription::new(&mapping, &options)?)?;
///
/// assert_eq!(manifest.shards[0].path, "part-00000-of-00001.tfrecord");
/// assert!(out.join("_SUCCESS").exists());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LocalCommit {
    set: Arc<StagedSet>,
    indexed: bool,
}

/// The operations that the file system is assumed to support. Tests disable some.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Capabilities {
    /// The target can be renamed.
    pub beside: bool,
    /// Two directories can be exchanged atomically.
    pub exchange: bool,
}

impl Capabilities {
    /// All operations, which are tried in turn.
    pub const ALL: Self = Self { beside: true, exchange: true };
}

/// The staging directory shared by commits and shards. Dropping it removes the directory.
#[derive(Debug)]
struct StagedSet {
    /// The target.
    out: PathBuf,
    mode: SaveMode,
    run: RunId,
    capabilities: Capabilities,
    leftovers: Vec<Leftover>,
    staging: Staging,
    /// The staging directory of the run, which is locked.
    home: PathBuf,
    /// The directory in which the set is prepared: `home`, or one in it if another process began the run. There the
    /// files of the attempts stay next to the set until it is published.
    dir: PathBuf,
    replaced: PathBuf,
    /// Parents created for the staging directory, outermost first.
    made: Vec<PathBuf>,
    /// The set that existed when the run began.
    current: Option<Box<Manifest>>,
    /// The locks that prevent concurrent publications: of the manifest at the target, and of the one that replaces it.
    claim: Mutex<Vec<File>>,
    /// The lock that marks this run as live. `None` if another process has gone on with the run.
    lock: Option<File>,
    /// Whether other processes may stage shards.
    shared: AtomicBool,
    phase: Mutex<Phase>,
    uncached: Arc<UncachedStreams>,
    removal: Removal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Shards can be created; `open` of them are open.
    Staging { open: usize },
    /// A publication is in progress or was abandoned, so the staging directory must not simply be removed.
    Publishing,
    /// The set is visible to readers.
    Published,
    /// The staged files are discarded.
    Aborted,
    /// Another process will go on with the run, so the staging directory is retained.
    Detached,
}

impl LocalCommit {
    /// Checks that the target may be written to, and creates the staging directory.
    ///
    /// `inputs` are the source files and directories of the rows. They must not be overwritten, and the next run must
    /// not read what this one wrote.
    ///
    /// # Errors
    /// If the target must not hold a set ([`ErrorKind::Protected`], [`ErrorKind::NotADirectory`]), overlaps an input,
    /// contains what `mode` does not replace ([`ErrorKind::NotEmpty`], [`ErrorKind::ForeignFiles`]) or append to
    /// ([`ErrorKind::NotAppendable`]), or cannot be written to. A non-empty target is an error in [`SaveMode::Ignore`]
    /// too; use [`preflight`](crate::preflight) to detect it first.
    pub fn begin(out: impl AsRef<Path>, mode: SaveMode, run: RunId, inputs: &[PathBuf]) -> Result<Self> {
        Self::begin_with(out.as_ref(), mode, run, inputs, Capabilities::ALL)
    }

    /// Same as [`begin`](Self::begin), for a file system with fewer capabilities.
    #[doc(hidden)]
    pub fn begin_with(
        out: &Path,
        mode: SaveMode,
        run: RunId,
        inputs: &[PathBuf],
        capabilities: Capabilities,
    ) -> Result<Self> {
        let (out, missing) = target::resolve(out)?;
        target::guard(&out, inputs)?;
        target::refuse_inside_set(&out)?;
        target::inspect(&out, mode, None)?;
        let leftovers = leftovers(&out)?;

        let mut made = MadeDirectories::default();
        for parent in missing {
            made.create(&parent)?;
        }
        // Leftovers are retained except in an overwrite, and a target that contains some cannot be renamed onto.
        let keeps_leftovers = mode != SaveMode::Overwrite && leftovers.iter().any(|left| left.path.starts_with(&out));
        let may_be_beside = capabilities.beside && !keeps_leftovers && target::can_be_renamed(&out);
        let StagingDirectory { staging, dir, replaced, lock } =
            StagingDirectory::create(&out, &run, may_be_beside, &mut made)?;
        let mut set = StagedSet {
            out,
            mode,
            run,
            capabilities,
            leftovers,
            staging,
            home: dir.clone(),
            dir,
            replaced,
            made: made.keep(),
            current: None,
            claim: Mutex::default(),
            lock: Some(lock),
            shared: AtomicBool::new(false),
            phase: Mutex::new(Phase::Staging { open: 0 }),
            uncached: Arc::default(),
            removal: Removal::default(),
        };
        // Inspect again, now that other runs can detect this one. Of two runs that write inside the same target, at
        // least one then detects the other.
        set.current = match target::inspect(&set.out, mode, Some(&set.run))? {
            Target::Vacant => None,
            Target::Occupied { manifest, .. } => manifest,
            Target::Set(manifest) => Some(manifest),
        };
        if let Some(current) = set.adds_to()
            && current.runs().any(|run| run == set.run.as_str())
        {
            let why = format!("run {} has written shards of it before", set.run);
            return Err(ErrorKind::NotAppendable { path: set.out.clone(), why }.into());
        }
        Ok(Self { set: Arc::new(set), indexed: false })
    }

    /// Sets whether writers add an index to each uncompressed shard. This applies to this clone.
    #[must_use]
    pub fn with_indexes(mut self, indexed: bool) -> Self {
        self.indexed = indexed;
        self
    }

    pub(crate) fn has_indexes(&self) -> bool {
        self.indexed
    }

    /// Returns the existing set that shards are added to, in a mode that [keeps](SaveMode::keeps_set) it. Check with
    /// [`Manifest::check_append`] that its record format matches before writing a row.
    pub fn current(&self) -> Option<&Manifest> {
        self.set.adds_to()
    }

    /// Returns what earlier runs left behind, and what other runs were working on, when this run began.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.set.leftovers
    }

    /// Returns the run that writes the set.
    pub fn run(&self) -> &RunId {
        &self.set.run
    }

    /// Returns the target's path with links resolved.
    pub fn out(&self) -> &Path {
        &self.set.out
    }

    /// Creates shard `sequence` of write partition `partition` in the staging directory. Shards of the set are numbered
    /// in this order.
    ///
    /// # Errors
    /// If the shard exists or cannot be created, or the set is published or aborted.
    pub fn create_shard(&self, partition: u32, sequence: u32) -> Result<ShardFile> {
        self.create_shard_in(partition, sequence, ShardGroup::default())
    }

    /// Creates a shard of a group. Shards of each group are numbered by write partition and sequence.
    ///
    /// # Errors
    /// As [`create_shard`](Self::create_shard) and [`ShardGroup::check`].
    pub fn create_shard_in(&self, partition: u32, sequence: u32, group: ShardGroup) -> Result<ShardFile> {
        group.check()?;
        let name = staging_names::shard_name(partition, sequence);
        let path = self.set.dir.join(&name);
        let mut phase = self.set.phase();
        let Phase::Staging { open } = &mut *phase else { return Err(ErrorKind::Ended.into()) };
        let file = File::create_new(&path).at("create", &path)?;
        *open += 1;
        drop(phase);
        let file = UncachedFile::new(file, self.set.uncached.begin());
        Ok(ShardFile::new(file, name, (partition, sequence), group, Arc::clone(&self.set) as _))
    }

    /// Returns the destination of a shard's index, which is published with the shard.
    pub fn index_file(&self, partition: u32, sequence: u32) -> IndexFile {
        let path = self.set.dir.join(staging_names::index_name(partition, sequence));
        IndexFile::uncached(path, Arc::clone(&self.set.uncached))
    }

    /// Publishes a set of these shards, or adds them to the existing set. Every [`ShardFile`] must be sealed or
    /// dropped first. Returns the manifest of the whole set.
    ///
    /// # Errors
    /// If a shard is still open, has another length than its writer recorded, or has the same number as another; if the
    /// record format differs from that of the existing set ([`ErrorKind::OtherForm`]); if the target now contains what
    /// must not be replaced, or another run has changed it ([`ErrorKind::Superseded`]); or if the file system fails.
    /// The target is then unchanged. What is staged is removed, except for a commit that was
    /// [resumed](Self::resume): that run can be resumed again. What fails after the set is published is a warning in
    /// the log.
    pub fn publish(self, shards: Vec<StagedShard>, description: SetDescription) -> Result<Manifest> {
        self.publish_observed(shards, description, &mut |_| {})
    }

    /// Same as [`publish`](Self::publish), with sidecars, which `sidecars` produces once the names and contents of the
    /// shards are known. If rows are appended to a set, no sidecars are added, and those that describe the old set are
    /// removed.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and those of `sidecars` ([`ErrorKind::Sidecars`]).
    pub fn publish_with(
        self,
        shards: Vec<StagedShard>,
        description: SetDescription,
        sidecars: impl FnOnce(&Manifest) -> Result<Vec<Sidecar>, SidecarsError>,
    ) -> Result<Manifest> {
        self.publish_steps(shards, description, sidecars, &mut |_| {})
    }

    /// Same as [`publish`](Self::publish), calling `observe` before every step.
    #[doc(hidden)]
    pub fn publish_observed(
        self,
        shards: Vec<StagedShard>,
        description: SetDescription,
        on_step: &mut dyn FnMut(&Step),
    ) -> Result<Manifest> {
        self.publish_steps(shards, description, |_| Ok(Vec::new()), on_step)
    }

    fn publish_steps(
        self,
        shards: Vec<StagedShard>,
        description: SetDescription,
        sidecars: impl FnOnce(&Manifest) -> Result<Vec<Sidecar>, SidecarsError>,
        on_step: &mut dyn FnMut(&Step),
    ) -> Result<Manifest> {
        let _settling = Settling::begin();
        let set = &*self.set;
        set.begin_publishing()?;
        let prepared = set
            .close_attempts()
            .and_then(|()| set.check_lengths(&shards))
            .and_then(|()| Publication::with_sidecars(set.setting(), shards, description, sidecars))
            .and_then(|prepared| set.record_moves(&prepared.0).map(|()| prepared));
        let (mut publication, manifest) = prepared.inspect_err(|_| set.enter(set.phase_of_failure()))?;
        let mut published = Ok(manifest);
        while let Some(step) = publication.next_step() {
            on_step(&step);
            let performed = set.perform(&step).and_then(|outcome| publication.performed(&step, outcome));
            match performed {
                // Closes the manifest of the replaced set: network file systems cannot remove the directory of an open
                // file. After an append, files of the target are still removed.
                Ok(()) if publication.is_committed() && !publication.appends() => set.release(),
                Ok(()) => {}
                Err(error) if publication.is_committed() => {
                    publication.failed_after_commit();
                    staging::warn_after_commit(&set.out, &error);
                }
                Err(error) => {
                    published = Err(error);
                    break;
                }
            }
        }
        let phase = if published.is_ok() { Phase::Published } else { set.phase_after_failure(publication) };
        set.release();
        if phase == Phase::Published {
            set.end_resumed();
        }
        set.enter(phase);
        published
    }

    /// Aborts the commit. No more shards can be created, and the staged files are removed once the last open shard is
    /// gone.
    pub fn abort(self) -> Removal {
        let mut phase = self.set.phase();
        if matches!(*phase, Phase::Staging { .. }) {
            *phase = Phase::Aborted;
        }
        drop(phase);
        self.removal()
    }

    /// Returns a handle that waits for the removal of the staging directory, whatever the outcome of the commit.
    pub fn removal(&self) -> Removal {
        self.set.removal.clone()
    }
}

/// Waits for the removal of a staging directory.
#[derive(Debug, Clone, Default)]
pub struct Removal {
    gone: Arc<(Mutex<bool>, Condvar)>,
}

impl Removal {
    /// Blocks until the staging directory is gone, for at most `timeout`. Returns whether it is gone.
    ///
    /// Meanwhile, another thread must drop the last commit or shard.
    pub fn wait(&self, timeout: Duration) -> bool {
        let (gone, changed) = &*self.gone;
        let guard = gone.lock().unwrap_or_else(PoisonError::into_inner);
        *changed.wait_timeout_while(guard, timeout, |gone| !*gone).unwrap_or_else(PoisonError::into_inner).0
    }

    fn notify(&self) {
        let (gone, changed) = &*self.gone;
        *gone.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

impl StagedSet {
    fn adds_to(&self) -> Option<&Manifest> {
        self.current.as_deref().filter(|_| self.mode.keeps_set())
    }

    fn setting(&self) -> Setting<'_> {
        let Self { out, staging, mode, run, .. } = self;
        Setting { out, staging: *staging, mode: *mode, current: self.current.as_deref(), run }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        *self.phase() = phase;
    }

    fn begin_publishing(&self) -> Result<()> {
        let mut phase = self.phase();
        match *phase {
            Phase::Staging { open: 0 } => *phase = Phase::Publishing,
            Phase::Staging { open: count } => return Err(ErrorKind::OpenShards { count }.into()),
            _ => return Err(ErrorKind::Ended.into()),
        }
        Ok(())
    }

    fn check_lengths(&self, shards: &[StagedShard]) -> Result<()> {
        for shard in shards {
            let path = self.dir.join(&shard.staged);
            let found = fs::metadata(&path).at("inspect", &path)?.len();
            if found != shard.file_bytes {
                return Err(ErrorKind::ShardLength { path, expected: shard.file_bytes, found }.into());
            }
        }
        Ok(())
    }

    /// Undoes a publication unless readers can already see it.
    fn phase_after_failure(&self, publication: Publication) -> Phase {
        if publication.is_committed() {
            return Phase::Published;
        }
        // If this fails too, the staging directory is retained, because it may contain what was to be replaced.
        if publication.undo().iter().all(|step| self.perform(step).is_ok()) {
            self.phase_of_failure()
        } else {
            Phase::Publishing
        }
    }

    /// Returns the phase after a failure that left the target unchanged. The work of tasks is retained.
    fn phase_of_failure(&self) -> Phase {
        if self.is_resumed() { Phase::Detached } else { Phase::Aborted }
    }

    /// Whether another process began the run.
    fn is_resumed(&self) -> bool {
        self.home != self.dir
    }
}

impl ShardHome for StagedSet {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn closed(&self) {
        if let Phase::Staging { open } = &mut *self.phase() {
            *open = open.saturating_sub(1);
        }
    }
}

impl Drop for StagedSet {
    fn drop(&mut self) {
        let is_unfinished = match *self.phase() {
            // The tasks' work is retained until the run is aborted or its lease expires.
            Phase::Staging { .. } => !self.is_resumed(),
            phase => phase == Phase::Aborted,
        };
        if is_unfinished {
            let _settling = Settling::begin();
            // First, so that no other process adds files to the directory while it is removed.
            let _closed = self.discard_attempts();
            // An error cannot be reported here; the next run reports what was not removed. An empty directory is
            // removed without listing it, which works even if no more files can be opened.
            let _unremoved = fs::remove_dir(&self.home).or_else(|_| fs::remove_dir_all(&self.home));
            remove_if_empty(&self.made);
        }
        self.removal.notify();
    }
}

/// Whether the error means that a directory cannot be created here, but perhaps elsewhere.
fn is_no_place(error: &io::Error) -> bool {
    const NO_PLACE: [Errno; 6] =
        [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::XDEV, Errno::BUSY, Errno::NAMETOOLONG];
    error.raw_os_error().is_some_and(|code| NO_PLACE.contains(&Errno::from_raw_os_error(code)))
}

/// A new staging directory and its lock.
struct StagingDirectory {
    staging: Staging,
    dir: PathBuf,
    replaced: PathBuf,
    lock: File,
}

impl StagingDirectory {
    /// Creates it next to the target, or else inside.
    fn create(out: &Path, run: &RunId, may_be_beside: bool, made: &mut MadeDirectories) -> Result<Self> {
        const ACTION: &str = "make staging directory";
        if may_be_beside && let (Some(parent), Some(name)) = (out.parent(), out.file_name()) {
            let dir = staging_names::path_beside(parent, name, run);
            let replaced = staging_names::replaced_beside(parent, name, run);
            match staging::create(&dir) {
                Ok(lock) => return Ok(Self { staging: Staging::Beside, dir, replaced, lock }),
                Err(error) if out.is_dir() && is_no_place(&error) => {}
                Err(error) => return Err(error).at(ACTION, &dir),
            }
        }
        if !out.exists() {
            made.create(out)?;
        }
        let dir = staging_names::path_inside(out, run);
        let replaced = dir.join(staging_names::REPLACED_NAME);
        let lock = staging::create(&dir).at(ACTION, &dir)?;
        Ok(Self { staging: Staging::Inside, dir, replaced, lock })
    }
}
