//! [`TaskWriter`]: writes the rows of one task to shards of a set that several processes write.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_tfrecord::{Encoder, Mapping};

use crate::commit::attempt_id::AttemptId;
use crate::commit::local::LocalCommit;
use crate::commit::publication::{StagedShard, check_description, check_prefix};
use crate::commit::report::{TaskReport, choose_reports};
use crate::commit::shared_staging::SharedStaging;
use crate::commit::staging_area::StagingArea;
use crate::error::{AttemptError, ErrorKind, Result};
use crate::set::manifest::Manifest;
use crate::set::names::RunId;
use crate::write::direct_writer::DirectWriter;
use crate::write::job::thread_pool;
use crate::write::open_shards::OpenShards;
use crate::write::sharded_writer::ShardedWriterBuilder;
use crate::write::sharding::{ShardRule, Sharding};
use crate::write::unit::encode_unit;

/// A set that several processes write. All of them use builders with the same settings.
impl ShardedWriterBuilder {
    /// Starts a set in the directory `out` whose rows are written by tasks in any processes, and published by any process.
    /// None of them has to live from start to end: until 24 hours after a task has begun or ended, what is staged is not
    /// mistaken for that of a killed run.
    ///
    /// Shards are cut by bytes or rows, in each task on its own. Rows are in the order of the tasks.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    /// use tfrecord_shards::{Sharding, ShardedWriterBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter_values(0..9)) as ArrayRef)])?;
    /// let builder = ShardedWriterBuilder::new(batch.schema()).with_sharding(Sharding::Rows(3));
    /// let shared = builder.start(dir.path().join("shards"))?;
    ///
    /// // In any process, in any order, and again if a task fails:
    /// let mut second = builder.stage(&shared, 1)?;
    /// second.write(&batch.slice(5, 4))?;
    /// let second = second.finish()?;
    /// let mut first = builder.stage(&shared, 0)?;
    /// first.write(&batch.slice(0, 5))?;
    /// let first = first.finish()?;
    ///
    /// let attempts = [second, first].map(|report| (report.partition, report.attempt));
    /// let manifest = builder.commit(&shared, &attempts, Some(2))?;
    /// assert!(manifest.shards.iter().map(|shard| shard.rows).eq([3, 2, 3, 1]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), or if a setting needs all rows in one process ([`AttemptError::Setting`]).
    pub fn start(&self, out: impl AsRef<Path>) -> Result<SharedStaging> {
        self.check_tasks()?;
        let mapping = Mapping::of_writer(&self.schema, &self.mapping)?;
        check_prefix(&self.prefix)?;
        let description = self.describe(&mapping)?;
        check_description(&description)?;
        let commit = LocalCommit::begin(out, self.mode, RunId::new(), &self.inputs)?;
        if let Some(current) = commit.current() {
            current.check_append(&description, commit.out())?;
        }
        commit.detach()
    }

    /// Begins a new attempt of a task. Tasks are numbered from 0. Attempts of the same task may run at the same time.
    ///
    /// # Errors
    /// If the set is published or aborted ([`ErrorKind::Ended`]), or the file system fails.
    pub fn stage(&self, at: &SharedStaging, task: u32) -> Result<TaskWriter> {
        self.check_tasks()?;
        let mapping = Mapping::of_writer(&self.schema, &self.mapping)?;
        let pool = self.pool.clone().map_or_else(thread_pool, Ok)?;
        let area = StagingArea::join(at, AttemptId::new())?.with_indexes(self.indexed);
        let shards = (0, ShardRule::new(self.sharding));
        let shards = DirectWriter::new((Arc::new(area.clone()), task), area.out(), pool, shards, self.framing)?;
        Ok(TaskWriter { encoder: Encoder::new(Arc::new(mapping)), rows: 0, shards, area, task, failed: false })
    }

    /// Publishes what these attempts have staged: of each task, the newest that is listed. Everything else that is staged
    /// is discarded. If the set is published already, returns its manifest. `tasks` is the number of tasks, if it is
    /// known; without it, the tasks are those up to the last one that is listed.
    ///
    /// # Errors
    /// If a task is missing ([`AttemptError::Missing`]), or an attempt is not complete or its files are not what it has
    /// reported. Or as [`LocalCommit::publish`]. What the tasks have staged is retained, and this can be called again.
    pub fn commit(&self, at: &SharedStaging, attempts: &[(u32, AttemptId)], tasks: Option<u32>) -> Result<Manifest> {
        let mapping = Mapping::of_writer(&self.schema, &self.mapping)?;
        let mut description = self.describe(&mapping)?;
        if let Some(manifest) = LocalCommit::published(at)? {
            return Ok(manifest);
        }
        let commit = LocalCommit::resume(at, self.mode)?;
        let read = |&(task, attempt): &(u32, AttemptId)| commit.report(task, attempt);
        let reports = choose_reports(attempts.iter().map(read).collect::<Result<Vec<_>>>()?, tasks)?;
        description.write_partitions = u32::try_from(reports.len()).unwrap_or(u32::MAX).max(1);
        let mut shards = commit.adopt(&reports)?;
        if shards.is_empty() {
            let staged = self.stage_empty(&commit);
            shards.extend(staged.map_err(|error| error.with_path(commit.out()))?);
        }
        commit.publish(shards, description)
    }

    /// Stages the shard of a set without rows.
    fn stage_empty(&self, commit: &LocalCommit) -> Result<Option<StagedShard>> {
        let sinks = commit.clone().with_indexes(self.indexed);
        let mut open = OpenShards::new(Arc::new(sinks), 0, self.framing);
        open.open(0)?;
        open.take_before(usize::MAX).pop().map_or(Ok(None), |shard| shard.seal())
    }

    /// Rejects settings that need all rows in one process.
    fn check_tasks(&self) -> Result<()> {
        let setting = match (self.shuffle, self.sharding) {
            (Some(_), _) => "a shuffle",
            (None, Sharding::Count(_)) => "a number of shards",
            (None, Sharding::Hosts(_)) => "a number of hosts",
            (None, _) => return Ok(()),
        };
        Err(AttemptError::Setting { setting }.into())
    }
}

/// Writes the rows of one attempt of a task. If it is dropped without [`finish`](Self::finish), its files are removed.
pub struct TaskWriter {
    encoder: Encoder,
    /// Number of rows written.
    rows: u64,
    shards: DirectWriter,
    area: StagingArea,
    task: u32,
    failed: bool,
}

impl TaskWriter {
    /// Adds the rows of a batch. They may still be in progress when this returns.
    ///
    /// # Errors
    /// As [`ShardedWriter::write`](crate::ShardedWriter::write). The attempt is then lost.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.unless_failed(|writer| {
            for unit in writer.shards.size().units(batch.clone()) {
                let rows = unit.num_rows();
                let encode = encode_unit(writer.encoder.clone(), unit, writer.rows);
                writer.rows += rows as u64;
                writer.shards.write(rows, encode)?;
            }
            Ok(())
        })
    }

    /// Writes the remaining rows and the report, which makes the attempt complete. Returns the report.
    ///
    /// # Errors
    /// As [`write`](Self::write), or if the set is published or aborted ([`ErrorKind::Ended`]).
    pub fn finish(mut self) -> Result<TaskReport> {
        self.unless_failed(|_| Ok(()))?;
        let shards = self.shards.finish()?;
        let report = self.area.report(self.task, shards);
        self.area.put_report(&report)?;
        Ok(report)
    }

    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if std::mem::replace(&mut self.failed, true) {
            return Err(ErrorKind::Failed.into());
        }
        work(self)?;
        self.failed = false;
        Ok(())
    }
}

impl fmt::Debug for TaskWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskWriter").field("area", &self.area).field("task", &self.task).finish()
    }
}
