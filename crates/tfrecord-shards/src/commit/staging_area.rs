//! [`StagingArea`]: where a task in another process stages shards of a set.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::commit::attempt_id::AttemptId;
use crate::commit::lease;
use crate::commit::publication::StagedShard;
use crate::commit::report::TaskReport;
use crate::commit::settling::Settling;
use crate::commit::shard_file::{ShardFile, ShardHome};
use crate::commit::shared_staging::SharedStaging;
use crate::commit::staging::rename_file;
use crate::commit::staging_names;
use crate::commit::uncached::{UncachedFile, UncachedStreams};
use crate::error::{AtPath, Error, ErrorKind, Result};
use crate::set::group::ShardGroup;
use crate::set::names::RunId;
use crate::sort::DirectorySpill;
use crate::write::index_writer::IndexFile;

/// Where one attempt of a task stages shards of a set that another process publishes. It holds no lock and never removes
/// the directory.
///
/// The names of its files contain the attempt, so that any number of attempts of a task can run at the same time. An
/// attempt that has not [reported](Self::put_report) removes its own files when the last clone and the last open
/// [`ShardFile`] are dropped.
///
/// ```
/// use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// # use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
/// use tfrecord_framing::{Compression, Level};
/// use tfrecord_shards::{
///     AttemptId, LocalCommit, RunId, SaveMode, SetDescription, SharedStaging, ShardWriter, StagingArea, choose_reports,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let out = dir.path().join("shards");
/// # let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)])?;
/// # let options = MappingOptions::default();
/// # let mapping = Mapping::try_new(&batch.schema(), &options)?;
/// # let mut records = RecordBuffer::default();
/// # Encoder::new(Arc::new(mapping.clone())).encode(&batch, &mut records)?;
/// // One process starts the set, and may end.
/// let shared = LocalCommit::begin(&out, SaveMode::Error, RunId::new(), &[])?.detach()?;
/// let message = serde_json::to_string(&shared)?;
///
/// // Other processes stage shards.
/// let shared: SharedStaging = serde_json::from_str(&message)?;
/// let area = StagingArea::join(&shared, AttemptId::new())?;
/// let mut shard = ShardWriter::new(area.create_shard(0, 0)?, (Compression::None, Level::default()));
/// shard.append(&records, 0..2)?;
/// let (file, stats) = shard.finish()?;
/// let shards = vec![file.seal(stats)?];
/// area.put_report(&area.report(0, shards))?;
///
/// // And one publishes them.
/// let commit = LocalCommit::resume(&shared, SaveMode::Error)?;
/// let reports = choose_reports(commit.reports()?, Some(1))?;
/// let shards = commit.adopt(&reports)?;
/// let manifest = commit.publish(shards, SetDescription::new(&mapping, &options)?)?;
/// assert_eq!(manifest.shards[0].path, "part-00000-of-00001.tfrecord");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct StagingArea {
    area: Arc<Area>,
    indexed: bool,
}

/// The directory of all attempts, and the files of this one.
#[derive(Debug)]
struct Area {
    out: PathBuf,
    dir: PathBuf,
    run: RunId,
    attempt: AttemptId,
    uncached: Arc<UncachedStreams>,
    created: Mutex<Vec<PathBuf>>,
    /// Whether the files are those of a complete attempt, or may be.
    reported: AtomicBool,
}

impl StagingArea {
    /// Joins a run, and extends its lease.
    ///
    /// # Errors
    /// If the set is published or aborted ([`ErrorKind::Ended`]), shared by another release, or the file system fails.
    pub fn join(at: &SharedStaging, attempt: AttemptId) -> Result<Self> {
        at.check_format()?;
        let dir = staging_names::attempts(&at.directories()?.0, &at.run);
        if !dir.try_exists().at("inspect", &dir)? {
            return Err(ErrorKind::Ended.into());
        }
        lease::extend_if_any(&dir).at("extend the lease of", &dir).map_err(ended)?;
        let area = Area {
            out: at.out.clone(),
            dir,
            run: at.run.clone(),
            attempt,
            uncached: Arc::default(),
            created: Mutex::default(),
            reported: AtomicBool::new(false),
        };
        Ok(Self { area: Arc::new(area), indexed: false })
    }

    /// Sets whether writers add an index to each uncompressed shard.
    #[must_use]
    pub fn with_indexes(mut self, indexed: bool) -> Self {
        self.indexed = indexed;
        self
    }

    pub(crate) fn has_indexes(&self) -> bool {
        self.indexed
    }

    /// Returns the attempt.
    pub fn attempt(&self) -> AttemptId {
        self.area.attempt
    }

    /// Returns the path of the set's directory.
    pub fn out(&self) -> &Path {
        &self.area.out
    }

    /// Creates shard `sequence` of write partition `partition`, the task. See
    /// [`LocalCommit::create_shard`](crate::LocalCommit::create_shard).
    ///
    /// # Errors
    /// If the attempt has created the shard before, the shard cannot be created, or the set is published or aborted
    /// ([`ErrorKind::Ended`]).
    pub fn create_shard(&self, partition: u32, sequence: u32) -> Result<ShardFile> {
        self.create_shard_in(partition, sequence, ShardGroup::default())
    }

    /// Creates a shard of a group.
    ///
    /// # Errors
    /// As [`create_shard`](Self::create_shard) and [`ShardGroup::check`].
    pub fn create_shard_in(&self, partition: u32, sequence: u32, group: ShardGroup) -> Result<ShardFile> {
        group.check()?;
        let area = &self.area;
        let name = staging_names::attempt_shard_name(partition, sequence, area.attempt);
        let path = area.dir.join(&name);
        let file = File::create_new(&path).at("create", &path).map_err(ended)?;
        area.note(path);
        let file = UncachedFile::new(file, area.uncached.begin());
        Ok(ShardFile::new(file, name, (partition, sequence), group, Arc::clone(area) as _))
    }

    /// Returns the destination of a shard's index, which is published with the shard.
    pub fn index_file(&self, partition: u32, sequence: u32) -> IndexFile {
        let path = self.area.dir.join(staging_names::attempt_index_name(partition, sequence, self.area.attempt));
        self.area.note(path.clone());
        IndexFile::uncached(path, Arc::clone(&self.area.uncached))
    }

    /// Returns a store for the attempt's sorted runs, in which it also finds those of other attempts.
    pub fn runs(&self) -> DirectorySpill {
        DirectorySpill::new(&self.area.dir, staging_names::attempt_run_prefix(self.area.attempt))
    }

    /// Stores how the sorted runs of all tasks are cut into shards, for all processes. It is decided once: returns the
    /// bytes that another process stored before, if any, and else these.
    ///
    /// # Errors
    /// If the set is published or aborted ([`ErrorKind::Ended`]), or the file system fails.
    pub fn put_cut(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let area = &self.area;
        let path = area.dir.join(staging_names::CUT_NAME);
        let new = area.dir.join(format!("{}.{}", staging_names::CUT_NAME, area.attempt));
        let write = || {
            let mut file = File::create_new(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            match rename_file(&new, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    fs::remove_file(&new)?;
                    fs::read(&path)
                }
                renamed => {
                    renamed?;
                    // Other processes read the runs that this attempt has added.
                    area.reported.store(true, Ordering::Relaxed);
                    File::open(&area.dir)?.sync_all()?;
                    Ok(bytes.to_vec())
                }
            }
        };
        write().at("write", &path).map_err(ended)
    }

    /// Returns how the sorted runs are cut into shards, if that [is decided](Self::put_cut).
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn cut(&self) -> Result<Option<Vec<u8>>> {
        let path = self.area.dir.join(staging_names::CUT_NAME);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => Ok(Some(bytes.at("read", &path)?)),
        }
    }

    /// Returns the attempts that are complete, in the order of tasks and attempts.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn complete_attempts(&self) -> Result<Vec<(u32, AttemptId)>> {
        TaskReport::list(&self.area.dir)
    }

    /// Reads the report of one attempt, and checks it against the files of the attempt.
    ///
    /// # Errors
    /// If the attempt is not complete, or its report cannot be read or does not agree with its files.
    pub fn report_of(&self, partition: u32, attempt: AttemptId) -> Result<TaskReport> {
        TaskReport::read(&self.area.dir, &self.area.run, partition, attempt)
    }

    /// Keeps the files of the attempt, which reports elsewhere that it is complete, and extends the lease.
    ///
    /// # Errors
    /// If the set is published or aborted ([`ErrorKind::Ended`]), or the file system fails.
    pub fn keep(&self) -> Result<()> {
        let area = &self.area;
        lease::extend_if_any(&area.dir).at("extend the lease of", &area.dir).map_err(ended)?;
        area.reported.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Describes the attempt, whose shards these are, as complete.
    pub fn report(&self, partition: u32, shards: Vec<StagedShard>) -> TaskReport {
        TaskReport::new(self.area.run.clone(), partition, self.area.attempt, shards)
    }

    /// Writes the report, which makes the attempt complete, and extends the lease. Every [`ShardFile`] must be sealed
    /// first.
    ///
    /// # Errors
    /// If the report is not one of this attempt or does not agree with its files, the set is published or aborted
    /// ([`ErrorKind::Ended`]), or the file system fails.
    pub fn put_report(&self, report: &TaskReport) -> Result<()> {
        let area = &self.area;
        if report.attempt != area.attempt {
            return Err(ErrorKind::Failed.into());
        }
        let put = || {
            report.check(&area.dir, &area.run)?;
            lease::extend_if_any(&area.dir).at("extend the lease of", &area.dir)?;
            area.reported.store(true, Ordering::Relaxed);
            report.write(&area.dir)
        };
        put().map_err(|error| if area.dir.exists() { error } else { ErrorKind::Ended.into() })
    }
}

/// The directory of attempts is gone once the set is published or aborted.
fn ended(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => ErrorKind::Ended.into(),
        _ => error,
    }
}

impl Area {
    /// Records that the attempt has created this file.
    fn note(&self, path: PathBuf) {
        self.created.lock().unwrap_or_else(PoisonError::into_inner).push(path);
    }
}

impl ShardHome for Area {
    fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if !self.reported.load(Ordering::Relaxed) {
            let _settling = Settling::begin();
            let created = self.created.get_mut().unwrap_or_else(PoisonError::into_inner);
            // What cannot be removed now is discarded when the set is published or aborted.
            created.iter().for_each(|path| drop(fs::remove_file(path)));
            let prefix = staging_names::attempt_run_prefix(self.attempt);
            let files = fs::read_dir(&self.dir).into_iter().flatten().flatten();
            let runs = files.filter(|file| file.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)));
            runs.for_each(|file| drop(fs::remove_file(file.path())));
        }
    }
}
