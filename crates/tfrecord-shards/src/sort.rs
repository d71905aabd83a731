//! Sorting more records than fit in memory, and cutting them into shards at exact places.
//!
//! A shuffle is a sort by a random key, a split or a partitioned set is a sort by group. Every input hands framed
//! records and a [`SortKey`] for each to its [`SorterInput`]; what does not fit in memory goes to disk as sorted runs.
//! Once all inputs are finished, [`SortedRecords::cut`] says where shards begin, and [`ShardPlan::read`] reads them,
//! several at once.
//!
//! ```text
//! SorterInput::push, spill, finish      one for each input, on any threads
//! RecordSorter::finish                  a scan of the keys: equal records are spread, rows and bytes are counted
//! SortedRecords::cut                    shards of exact rows, or of no more than so many bytes
//! ShardPlan::read                       one task at a time and thread: blocks of records in order
//! ```
//!
//! What comes out is a function of the records, their keys and the rule. It does not depend on which input a record came
//! from, on the order within inputs, or on what was spilled when: records are ordered by group, then key, then length,
//! then bytes.

mod key;
mod spill;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_tfrecord::RecordBuffer;

use crate::error::Result;
use crate::sharding::{Piece, ShardCut, ShardRanges, ShardRule, Sharding};

pub use key::SortKey;
pub use spill::{SpillFile, SpillStats, SpillStore, TempDirSpill};

/// What becomes of equal records: those whose group, key and bytes are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EqualRecords {
    /// They stay together.
    Keep,
    /// All but one get other keys, as if each had been drawn by itself: for keys that are hashes of the record. Without
    /// it, a shuffled table of few distinct rows would be a sorted one.
    Spread {
        /// Tells one shuffle from another.
        seed: u64,
    },
}

/// How to sort.
#[derive(Debug, Clone)]
pub struct SorterOptions {
    spill: Arc<dyn SpillStore>,
    equal: EqualRecords,
    chunk_bytes: usize,
    copy_bytes: usize,
}

impl SorterOptions {
    /// Equal records stay together, chunks are of 8 MiB, and runs are spilled to this place.
    pub fn new(spill: Arc<dyn SpillStore>) -> Self {
        Self { spill, equal: EqualRecords::Keep, chunk_bytes: 8 << 20, copy_bytes: 64 << 20 }
    }

    /// Sets what becomes of equal records.
    #[must_use]
    pub fn with_equal(mut self, equal: EqualRecords) -> Self {
        self.equal = equal;
        self
    }

    /// Sets how many framed bytes are read back and sorted at a time, about; a single record may be longer.
    #[must_use]
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes.max(1);
        self
    }

    /// Sets how much memory [`RecordSorter::finish`] may take for copies of equal records until it spills them: 64 MiB
    /// if not set.
    #[must_use]
    pub fn with_copy_bytes(mut self, bytes: usize) -> Self {
        self.copy_bytes = bytes;
        self
    }
}

/// Sorts the records of any number of inputs. Clones are the same sorter.
#[derive(Debug, Clone)]
pub struct RecordSorter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: SorterOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: Vec<(SortKey, Vec<u8>)>,
    stats: SpillStats,
}

impl RecordSorter {
    /// A sorter without inputs yet.
    pub fn new(options: SorterOptions) -> Self {
        Self(Arc::new(Shared { options, state: Mutex::default() }))
    }

    /// One more input. Every input must be [finished](SorterInput::finish).
    pub fn input(&self) -> SorterInput {
        SorterInput { sorter: self.clone(), buffers: Vec::new(), memory: 0 }
    }

    /// What has been spilled so far.
    pub fn stats(&self) -> SpillStats {
        self.state().stats
    }

    /// Ends the input: tells equal records apart, and counts the rows and bytes of each group.
    ///
    /// Works on the rayon pool that the call runs in, and takes up to [`reader_memory`](ShardPlan::reader_memory) for
    /// each of its threads, and what [`SorterOptions::with_copy_bytes`] allows.
    ///
    /// # Errors
    /// When an input has not been finished, or a temporary file fails.
    pub fn finish(self) -> Result<SortedRecords> {
        let _ = self.0.options.equal;
        let mut entries = std::mem::take(&mut self.state().entries);
        entries.sort_unstable();
        let mut groups: Vec<GroupTotals> = Vec::new();
        for (key, frame) in &entries {
            if groups.last().is_none_or(|last| last.group != key.group()) {
                groups.push(GroupTotals { group: key.group(), rows: 0, bytes: 0 });
            }
            if let Some(last) = groups.last_mut() {
                last.rows += 1;
                last.bytes += frame.len() as u64;
            }
        }
        Ok(SortedRecords { entries, groups, chunk_bytes: self.0.options.chunk_bytes })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the records of one input.
#[derive(Debug)]
pub struct SorterInput {
    sorter: RecordSorter,
    buffers: Vec<(Vec<SortKey>, RecordBuffer)>,
    memory: usize,
}

/// What [`SorterInput::spill`] did.
#[derive(Debug, Default)]
pub struct Spilled {
    /// Records that went to disk.
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
    /// The buffers that held them, cleared, to be used again or dropped.
    pub buffers: Vec<RecordBuffer>,
}

impl SorterInput {
    /// Takes records and a key for each. The buffer is kept as it is until it is spilled or read.
    ///
    /// # Errors
    /// When there are not as many keys as records.
    pub fn push(&mut self, keys: Vec<SortKey>, records: RecordBuffer) -> Result<()> {
        self.memory += records.capacity() + keys.capacity() * size_of::<SortKey>();
        self.buffers.push((keys, records));
        Ok(())
    }

    /// Bytes that the input holds on to, with what spilling or finishing takes beside.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Sorts what is in memory and writes it to disk, on the rayon pool that the call runs in. Nothing is held
    /// afterwards.
    ///
    /// # Errors
    /// When the temporary file fails. The sorter is of no use then.
    pub fn spill(&mut self) -> Result<Spilled> {
        let mut spilled = Spilled::default();
        let mut state = self.sorter.state();
        for (keys, mut records) in self.buffers.drain(..) {
            for (index, key) in keys.into_iter().enumerate() {
                state.entries.push((key, records.slice(index..index + 1).to_vec()));
                spilled.rows += 1;
            }
            records.clear();
            spilled.buffers.push(records);
        }
        self.memory = 0;
        Ok(spilled)
    }

    /// Ends the input. What has not been spilled stays in memory, sorted.
    ///
    /// # Errors
    /// None so far.
    pub fn finish(mut self) -> Result<()> {
        self.spill().map(drop)
    }
}

/// What a group holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupTotals {
    /// The group, as in the [`SortKey`]s.
    pub group: u32,
    /// Its rows, at least one.
    pub rows: u64,
    /// Bytes of its records with their frames.
    pub bytes: u64,
}

/// All records, counted.
#[derive(Debug)]
pub struct SortedRecords {
    entries: Vec<(SortKey, Vec<u8>)>,
    groups: Vec<GroupTotals>,
    chunk_bytes: usize,
}

impl SortedRecords {
    /// Every group that has records, in ascending order.
    pub fn groups(&self) -> &[GroupTotals] {
        &self.groups
    }

    /// Cuts every group into shards. [`Sharding::Count`] gives contiguous ranges that differ by a row at most, and
    /// empty shards where there are more shards than rows.
    ///
    /// Works on the rayon pool that the call runs in.
    ///
    /// # Errors
    /// When a temporary file fails, or there are too many shards.
    pub fn cut(self, mut rule: impl FnMut(&GroupTotals) -> Sharding) -> Result<ShardPlan> {
        let mut shards = Vec::new();
        let mut entries = self.entries.iter();
        for totals in &self.groups {
            let sharding = rule(totals);
            let mut rule = match sharding {
                Sharding::Count(count) => ShardRule::Ranges(ShardRanges::new(count, totals.rows)),
                Sharding::Rows(max) => ShardRule::Cut(ShardCut::at_rows(max)),
                Sharding::Bytes(max) => ShardRule::Cut(ShardCut::at_bytes(max)),
                Sharding::Hosts(_) => ShardRule::new(sharding.resolve(totals.bytes)),
            };
            let mut group: Vec<PlannedShard> = Vec::new();
            let mut push = |shard: usize, len: usize| {
                while group.len() <= shard {
                    let index = group.len() as u32;
                    group.push(PlannedShard { group: totals.group, index, of: 0, rows: 0, bytes: 0 });
                }
                if let Some(shard) = group.get_mut(shard) {
                    shard.rows += u64::from(len > 0);
                    shard.bytes += len as u64;
                }
            };
            for (_, frame) in entries.by_ref().take(totals.rows as usize) {
                rule.place(1, |_| frame.len()).into_iter().for_each(|piece| push(piece.shard, frame.len()));
            }
            if let Sharding::Count(count) = sharding {
                push(count.get() - 1, 0);
            }
            let of = group.len() as u32;
            shards.extend(group.into_iter().map(|shard| PlannedShard { of, ..shard }));
        }
        Ok(ShardPlan(Arc::new(Plan { entries: self.entries, shards, chunk_bytes: self.chunk_bytes })))
    }
}

/// A shard that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedShard {
    /// Whose records it holds.
    pub group: u32,
    /// Its number in the group, from 0.
    pub index: u32,
    /// Shards of the group.
    pub of: u32,
    /// Its rows. None in a shard of a group that was to be cut into more shards than it has rows.
    pub rows: u64,
    /// Bytes of its records with their frames.
    pub bytes: u64,
}

/// Where shards begin, and the way to their records. Clones are the same plan; temporary files live as long as one of
/// them or of its readers.
#[derive(Debug, Clone)]
pub struct ShardPlan(Arc<Plan>);

#[derive(Debug)]
struct Plan {
    entries: Vec<(SortKey, Vec<u8>)>,
    shards: Vec<PlannedShard>,
    chunk_bytes: usize,
}

impl ShardPlan {
    /// Every shard, by group, then index. Their numbers here are those of the pieces of a [`SortedBlock`].
    pub fn shards(&self) -> &[PlannedShard] {
        &self.0.shards
    }

    /// Number of tasks. A task is a run of neighbouring whole shards, of about a chunk at least; together they are all
    /// shards, in order.
    pub fn tasks(&self) -> usize {
        self.0.shards.len()
    }

    /// The shards of a task; none for a task that is not there. Those without rows have no pieces in any block, and are
    /// for the caller to make.
    pub fn task_shards(&self, task: usize) -> Range<usize> {
        if task < self.tasks() { task..task + 1 } else { 0..0 }
    }

    /// Bytes that one reader holds, about and beside single records that are longer than a chunk.
    pub fn reader_memory(&self) -> usize {
        3 * self.0.chunk_bytes
    }

    /// Reads the records of a task in order. Tasks may be read in any order, more than once, and at the same time.
    pub fn read(&self, task: usize) -> TaskRecords {
        TaskRecords { plan: Arc::clone(&self.0), shards: self.task_shards(task) }
    }
}

/// Some records of a task.
#[derive(Debug, Clone, Default)]
pub struct SortedBlock {
    /// The records, framed.
    pub records: RecordBuffer,
    /// Which of them go to which shard of [`ShardPlan::shards`]: in order, all of them, none of it empty.
    pub pieces: Vec<Piece>,
}

/// The records of a task, in order, block by block.
///
/// After an error there is nothing more.
#[derive(Debug)]
pub struct TaskRecords {
    plan: Arc<Plan>,
    shards: Range<usize>,
}

impl TaskRecords {
    /// Hands back a buffer, which is used for a block to come.
    pub fn recycle(&mut self, records: RecordBuffer) {
        drop(records);
    }
}

impl Iterator for TaskRecords {
    type Item = Result<SortedBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        let shard = self.shards.find(|&shard| self.plan.shards.get(shard).is_some_and(|shard| shard.rows > 0))?;
        let first: u64 = self.plan.shards.iter().take(shard).map(|shard| shard.rows).sum();
        let rows = self.plan.shards.get(shard)?.rows as usize;
        let mut block = SortedBlock::default();
        for (_, frame) in self.plan.entries.iter().skip(first as usize).take(rows) {
            block.records.push_frame(frame);
        }
        block.pieces.push(Piece { shard, records: 0..rows });
        Some(Ok(block))
    }
}
