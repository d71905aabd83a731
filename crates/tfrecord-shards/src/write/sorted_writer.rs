//! [`SortedWriter`]: collects framed records, sorts them, and writes them to staged shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_tfrecord::RecordBuffer;
use rayon::ThreadPool;
use rayon::prelude::*;
use tfrecord_framing::Framing;

use crate::commit::local::LocalCommit;
use crate::commit::publication::StagedShard;
use crate::error::Result;
use crate::set::group::ShardGroup;
use crate::sort::{EqualRecords, RecordSorter, SortKey, SorterInput, SorterOptions, SpillStore};
use crate::write::job::Jobs;
use crate::write::open_shards::{OpenShard, OpenShards};
use crate::write::planned_set::{PlannedNames, PlannedSet, PlannedWriter};
use crate::write::sharding::Sharding;
use crate::write::unit::{UnitRecords, UnitSize};

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

/// Some rows, encoded as records.
struct KeyedUnit {
    keys: Vec<SortKey>,
    records: RecordBuffer,
}

/// Holds records back, in memory and then in temporary files, until all have arrived.
pub(crate) struct SortedWriter {
    pool: Arc<ThreadPool>,
    commit: LocalCommit,
    sharding: Sharding,
    framing: Framing,
    order: RowOrder,
    sorter: RecordSorter,
    input: SorterInput,
    /// Memory limit of the sort input, in bytes.
    input_bytes: usize,
    rows: u64,
    size: Arc<UnitSize>,
    /// Units being encoded.
    encoding: Jobs<Result<KeyedUnit>>,
    /// Buffers for reuse.
    buffers: Vec<RecordBuffer>,
}

impl SortedWriter {
    /// Records are encoded, sorted, compressed and synced on `pool`. The records and the readers use about `memory`
    /// bytes.
    pub(crate) fn new(
        commit: LocalCommit,
        pool: Arc<ThreadPool>,
        sharding: Sharding,
        framing: Framing,
        order: RowOrder,
        (spill, memory): (Arc<dyn SpillStore>, usize),
    ) -> Self {
        let options = SorterOptions::new(spill).with_equal(order.equal_records());
        let sorter = RecordSorter::new(options.with_memory(memory, pool.current_num_threads()));
        let input = sorter.input();
        Self {
            encoding: Jobs::new(&pool),
            pool,
            commit,
            sharding,
            framing,
            order,
            sorter,
            input,
            input_bytes: memory - memory / SorterOptions::SHARE_OF_READERS,
            rows: 0,
            size: Arc::default(),
            buffers: Vec::new(),
        }
    }

    /// Returns the number of rows to write at once.
    pub(crate) fn size(&self) -> Arc<UnitSize> {
        Arc::clone(&self.size)
    }

    /// Adds the next rows, whose records `encode` adds. They may still be in progress when this returns.
    ///
    /// # Errors
    /// If these or earlier rows cannot be encoded or spilled.
    pub(crate) fn write(
        &mut self,
        rows: usize,
        encode: impl FnOnce(&mut UnitRecords<'_>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        while let Some(unit) = self.encoding.make_room() {
            self.push(unit??)?;
        }
        let (order, size, rows_before) = (self.order, Arc::clone(&self.size), self.rows);
        self.rows += rows as u64;
        let mut records = self.buffers.pop().unwrap_or_default();
        self.encoding.start(move || {
            encode(&mut UnitRecords::whole(&mut records))?;
            size.note(&records);
            Ok(KeyedUnit { keys: order.keys(&records, rows_before), records })
        });
        Ok(())
    }

    fn push(&mut self, KeyedUnit { keys, mut records }: KeyedUnit) -> Result<()> {
        let Self { pool, sorter, input, input_bytes, .. } = self;
        input.push(&keys, &records)?;
        if input.memory() > *input_bytes / 2 {
            // All records may fit in memory this way.
            sorter.keep_compact();
        }
        if input.memory() > *input_bytes {
            pool.install(|| input.spill())?;
        }
        records.clear();
        self.buffers.push(records);
        Ok(())
    }

    /// Writes and finishes every shard.
    pub(crate) fn finish(mut self) -> Result<Vec<StagedShard>> {
        while let Some(unit) = self.encoding.next() {
            self.push(unit??)?;
        }
        let Self { pool, commit, sharding, framing, sorter, input, .. } = self;
        let open = || OpenShards::new(Arc::new(commit.clone()), 0, framing);
        let staged = pool.install(|| {
            input.finish()?;
            let plan = sorter.finish()?.cut(|totals| sharding.resolve(totals.bytes))?;
            let set = PlannedSet::new(plan, PlannedNames::Groups(vec![ShardGroup::default()]));
            let has_failed = AtomicBool::new(false);
            let write = |_| {
                let written = write_shards(&set, PlannedWriter::new(open(), OpenShards::MAX_PIECES), &has_failed);
                if written.is_err() {
                    has_failed.store(true, Ordering::Relaxed);
                }
                written
            };
            // At most one per thread, because each has the memory of a reader.
            let staged = (0..rayon::current_num_threads()).into_par_iter().map(write);
            let mut staged = staged.collect::<Result<Vec<_>>>()?.concat();
            if set.shards() == 0 {
                let mut open = open();
                for shard in 0..sharding.least_shards() {
                    open.open(shard)?;
                    seal(open.take_before(usize::MAX), &mut staged)?;
                }
            }
            Ok(staged)
        });
        staged.map_err(|error: crate::Error| error.with_path(commit.out()))
    }
}

/// Writes shards until all are taken, or another thread has failed, whose error is the one reported.
fn write_shards(set: &PlannedSet, mut writer: PlannedWriter, has_failed: &AtomicBool) -> Result<Vec<StagedShard>> {
    let mut staged = Vec::new();
    while !has_failed.load(Ordering::Relaxed)
        && let Some(complete) = writer.write_some(set, &())?
    {
        seal(complete, &mut staged)?;
    }
    Ok(staged)
}

fn seal(complete: Vec<OpenShard>, staged: &mut Vec<StagedShard>) -> Result<()> {
    for shard in complete {
        staged.extend(shard.seal()?);
    }
    Ok(())
}
