//! [`SortedWriter`]: collects framed records, sorts them, and writes them to staged shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_tfrecord::RecordBuffer;
use rayon::ThreadPool;
use rayon::prelude::*;
use tfrecord_framing::{Compression, Level};

use crate::commit::local::LocalCommit;
use crate::commit::publication::StagedShard;
use crate::error::Result;
use crate::sort::{EqualRecords, RecordSorter, ShardPlan, SortKey, SorterInput, SorterOptions, SpillStore};
use crate::write::open_shards::OpenShards;
use crate::write::sharding::Sharding;

/// Maximum bytes of records sorted and read back at once.
const CHUNK_BYTES: usize = 8 << 20;

/// Minimum of these bytes.
const LEAST_CHUNK_BYTES: usize = 256 << 10;

/// Number of chunks in memory per reader.
const CHUNKS_AT_ONCE: usize = 4;

/// Fraction of the memory reserved for reading records back: one in this many.
const SHARE_OF_READERS: usize = 4;

/// The order in which the rows are written once all have arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowOrder {
    /// The order of arrival.
    Arrival,
    /// A uniform random order, determined by the seed and the rows.
    Shuffled { seed: u64 },
}

impl RowOrder {
    /// Returns the sort keys of records preceded by `rows_before` others.
    pub(crate) fn keys(self, records: &RecordBuffer, rows_before: u64) -> Vec<SortKey> {
        match self {
            Self::Arrival => (0..records.len() as u64).map(|row| SortKey::new(0, rows_before + row)).collect(),
            Self::Shuffled { seed } => {
                (0..records.len()).map(|record| SortKey::shuffled(0, records.payload(record), seed)).collect()
            }
        }
    }

    fn equal_records(self) -> EqualRecords {
        match self {
            Self::Arrival => EqualRecords::Keep,
            Self::Shuffled { seed } => EqualRecords::Spread { seed },
        }
    }
}

/// Holds records back, in memory and then in temporary files, until all have arrived.
pub(crate) struct SortedWriter {
    pool: Arc<ThreadPool>,
    commit: LocalCommit,
    sharding: Sharding,
    form: (Compression, Level),
    sorter: RecordSorter,
    input: SorterInput,
    /// Memory limit of the sort input, in bytes.
    input_bytes: usize,
}

impl SortedWriter {
    /// Records are sorted, compressed and synced on `pool`. The records and the readers use about `memory` bytes.
    pub(crate) fn new(
        commit: LocalCommit,
        pool: Arc<ThreadPool>,
        sharding: Sharding,
        form: (Compression, Level),
        order: RowOrder,
        (spill, memory): (Arc<dyn SpillStore>, usize),
    ) -> Self {
        let for_readers = memory / SHARE_OF_READERS;
        let chunk_bytes = for_readers / (CHUNKS_AT_ONCE * pool.current_num_threads().max(1));
        let chunk_bytes = chunk_bytes.clamp(LEAST_CHUNK_BYTES, CHUNK_BYTES);
        let options = SorterOptions::new(spill).with_equal(order.equal_records()).with_chunk_bytes(chunk_bytes);
        let sorter = RecordSorter::new(options.with_copy_bytes(2 * chunk_bytes));
        let input = sorter.input();
        Self { pool, commit, sharding, form, sorter, input, input_bytes: memory - for_readers }
    }

    /// Adds records and their [keys](RowOrder::keys).
    pub(crate) fn write(&mut self, keys: &[SortKey], records: &RecordBuffer) -> Result<()> {
        let Self { pool, sorter, input, input_bytes, .. } = self;
        input.push(keys, records)?;
        if input.memory() > *input_bytes / 2 {
            // All records may fit in memory this way.
            sorter.keep_compact();
        }
        if input.memory() > *input_bytes {
            pool.install(|| input.spill())?;
        }
        Ok(())
    }

    /// Writes and finishes every shard.
    pub(crate) fn finish(self) -> Result<Vec<StagedShard>> {
        let Self { pool, commit, sharding, form, sorter, input, .. } = self;
        pool.install(|| {
            input.finish()?;
            let plan = sorter.finish()?.cut(|_| sharding)?;
            if plan.shards().is_empty() {
                let shards = if let Sharding::Count(count) = sharding { count.get() } else { 1 };
                return Lane::new(&commit, form).write_empty(0..shards);
            }
            let lanes = Lanes { plan: &plan, next_task: AtomicUsize::new(0), failed: AtomicBool::new(false) };
            // At most one per thread, because each has the memory of a reader.
            let write = |_| lanes.write(Lane::new(&commit, form));
            let staged = (0..rayon::current_num_threads()).into_par_iter().map(write);
            Ok(staged.collect::<Result<Vec<_>>>()?.concat())
        })
        .map_err(|error: crate::Error| error.with_path(commit.out()))
    }
}

/// Writes the shards of a plan in parallel.
struct Lanes<'a> {
    plan: &'a ShardPlan,
    next_task: AtomicUsize,
    failed: AtomicBool,
}

impl Lanes<'_> {
    /// Writes the shards of unclaimed tasks until none are left.
    fn write(&self, mut lane: Lane) -> Result<Vec<StagedShard>> {
        let written = loop {
            let task = self.next_task.fetch_add(1, Ordering::Relaxed);
            if task >= self.plan.tasks() {
                break lane.finish();
            }
            if let Err(error) = self.write_task(&mut lane, task) {
                break Err(error);
            }
        };
        if written.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        written
    }

    fn write_task(&self, lane: &mut Lane, task: usize) -> Result<()> {
        let mut records = self.plan.read_once(task);
        while let Some(block) = records.next() {
            // The error of another lane is the one reported.
            if self.failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let block = block?;
            for pieces in block.pieces.chunks(OpenShards::MAX_PIECES) {
                lane.open.append(&block.records, pieces)?;
                lane.seal_before(pieces.last().map_or(0, |piece| piece.shard))?;
            }
            records.recycle(block.records);
        }
        lane.seal_before(usize::MAX)?;
        let without_rows = |shard: &usize| self.plan.shards().get(*shard).is_some_and(|shard| shard.rows == 0);
        lane.open_empty(self.plan.task_shards(task).filter(without_rows))
    }
}

/// Writes one shard after another.
struct Lane {
    open: OpenShards,
    staged: Vec<StagedShard>,
}

impl Lane {
    fn new(commit: &LocalCommit, (compression, level): (Compression, Level)) -> Self {
        Self { open: OpenShards::new(commit.clone(), 0, compression, level), staged: Vec::new() }
    }

    fn seal_before(&mut self, shard: usize) -> Result<()> {
        for complete in self.open.take_before(shard) {
            self.staged.push(complete.seal()?);
        }
        Ok(())
    }

    fn open_empty(&mut self, shards: impl Iterator<Item = usize>) -> Result<()> {
        for shard in shards {
            self.open.open(shard)?;
            self.seal_before(usize::MAX)?;
        }
        Ok(())
    }

    fn write_empty(mut self, shards: std::ops::Range<usize>) -> Result<Vec<StagedShard>> {
        self.open_empty(shards)?;
        self.finish()
    }

    fn finish(mut self) -> Result<Vec<StagedShard>> {
        self.seal_before(usize::MAX)?;
        Ok(self.staged)
    }
}
