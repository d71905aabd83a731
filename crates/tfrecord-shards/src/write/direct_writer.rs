//! [`DirectWriter`]: writes rows to staged shards of a local set, on a thread pool.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;
use rayon::ThreadPool;
use tfrecord_framing::Framing;

use crate::commit::destination::Destination;
use crate::commit::publication::StagedShard;
use crate::error::Result;
use crate::write::job::{Job, Jobs};
use crate::write::open_shards::{OpenShard, OpenShards};
use crate::write::set_writer::{SetWriter, Written};
use crate::write::sharding::ShardRule;
use crate::write::unit::{UnitRecords, UnitSize};

/// Maximum number of shards being synced in addition to those being written.
const MAX_CLOSING: usize = 16;

/// Writes rows to the shards of a set as they come. Complete shards are synced in the background.
pub(crate) struct DirectWriter {
    pool: Arc<ThreadPool>,
    destination: Arc<dyn Destination>,
    out: PathBuf,
    partition: u32,
    writer: Arc<SetWriter>,
    /// Number of shards to create even if they get no records.
    required: usize,
    rows: u64,
    /// Units being written.
    writing: Jobs<Result<Written>>,
    /// Shards being finished and synced, oldest first.
    closing: VecDeque<Job<Result<Option<StagedShard>>>>,
    staged: Vec<StagedShard>,
    framing: Framing,
}

impl DirectWriter {
    /// Rows are encoded, and shards compressed and synced, on `pool`. `required` shards are created even if they get no
    /// records. `out` is the target, for messages.
    pub(crate) fn new(
        (destination, partition): (Arc<dyn Destination>, u32),
        out: &Path,
        pool: Arc<ThreadPool>,
        (required, rule): (usize, ShardRule),
        framing: Framing,
    ) -> Result<Self> {
        let mut open = OpenShards::new(Arc::clone(&destination), partition, framing);
        if !rule.is_sequential() {
            // Open all shards first, so that a limit on open files is reported before any work is done.
            (0..required).try_for_each(|shard| open.open(shard))?;
        }
        let writer = Arc::new(SetWriter::new(open, rule, ()));
        let (writing, closing) = (Jobs::new(&pool), VecDeque::new());
        let (out, staged) = (out.to_owned(), Vec::new());
        Ok(Self { pool, destination, out, partition, writer, required, rows: 0, writing, closing, staged, framing })
    }

    /// Returns the number of rows to write at once.
    pub(crate) fn size(&self) -> Arc<UnitSize> {
        self.writer.size()
    }

    /// Writes the next rows, whose records `encode` adds. They may still be in progress when this returns.
    ///
    /// # Errors
    /// If these or earlier rows cannot be encoded or written.
    pub(crate) fn write(
        &mut self,
        rows: usize,
        encode: impl FnOnce(&mut UnitRecords<'_>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        while let Some(written) = self.writing.make_room() {
            self.settle(written??)?;
        }
        let (writer, out, rows_before) = (Arc::clone(&self.writer), self.out.clone(), self.rows);
        self.rows += rows as u64;
        self.writing.start(move || writer.write(0, rows_before, encode).map_err(|error| error.with_path(&out)));
        Ok(())
    }

    /// Writes records that are encoded already. Returns an empty buffer to reuse.
    pub(crate) fn write_records(&mut self, records: RecordBuffer) -> Result<RecordBuffer> {
        let (writer, rows_before) = (&self.writer, self.rows);
        self.rows += records.len() as u64;
        let written = self.pool.install(|| writer.write_records(0, rows_before, records));
        self.settle(written.map_err(|error| error.with_path(&self.out))?)?;
        Ok(self.writer.buffer())
    }

    /// Starts to finish the complete shards, and appends what is left.
    fn settle(&mut self, mut written: Written) -> Result<()> {
        loop {
            self.close(written.complete)?;
            let Some(rest) = written.rest else { return Ok(()) };
            let appended = self.pool.install(|| self.writer.append(rest));
            written = appended.map_err(|error| error.with_path(&self.out))?;
        }
    }

    fn close(&mut self, complete: Vec<OpenShard>) -> Result<()> {
        for complete in complete {
            self.wait(MAX_CLOSING - 1)?;
            let out = self.out.clone();
            let seal = move || complete.seal().map_err(|error| error.with_path(&out));
            self.closing.push_back(Job::start(&self.pool, seal));
        }
        Ok(())
    }

    /// Finishes every shard.
    pub(crate) fn finish(mut self) -> Result<Vec<StagedShard>> {
        while let Some(written) = self.writing.next() {
            self.settle(written??)?;
        }
        self.close(self.writer.finish()?)?;
        self.wait(0)?;
        let written: BTreeSet<_> = self.staged.iter().map(|shard| shard.sequence as usize).collect();
        let mut empty = OpenShards::new(Arc::clone(&self.destination), self.partition, self.framing);
        for shard in (0..self.required).filter(|shard| !written.contains(shard)) {
            empty.open(shard)?;
            self.close(empty.take_before(usize::MAX))?;
        }
        self.wait(0)?;
        Ok(std::mem::take(&mut self.staged))
    }

    /// Waits until at most `closing` shards are being closed.
    fn wait(&mut self, closing: usize) -> Result<()> {
        while self.closing.len() > closing
            && let Some(oldest) = self.closing.pop_front()
        {
            self.staged.extend(oldest.wait()??);
        }
        Ok(())
    }
}

impl Drop for DirectWriter {
    fn drop(&mut self) {
        // Unwanted shards must be gone when this returns, because the process may exit right after.
        self.writing.end();
        for shard in self.closing.drain(..) {
            shard.end(&self.pool);
        }
    }
}
