//! Sorting more records than fit in memory, and cutting them into shards at exact places.
//!
//! A shuffle is a sort by a random key, a split or a partitioned set is a sort by group. Every input hands framed
//! records and a [`SortKey`] for each to its [`SorterInput`]; what does not fit in memory goes to disk as runs, sorted or, where
//! keys are hashes, by their first bits only.
//! Once all inputs are finished, [`SortedRecords::cut`] says where shards begin, and [`ShardPlan::read`] reads them,
//! several at once.
//!
//! ```text
//! SorterInput::push, spill, finish      one for each input, on any threads
//! RecordSorter::finish                  a scan of the keys: equal records are spread, rows and bytes are counted
//! SortedRecords::cut                    shards of exact rows, or of no more than so many bytes
//! ShardPlan::read, read_once            one task at a time and thread: blocks of records in order
//! ```
//!
//! ```
//! use std::num::NonZeroUsize;
//! use std::sync::Arc;
//! use arrow_tfrecord::RecordBuffer;
//! use tfrecord_shards::Sharding;
//! use tfrecord_shards::sort::{EqualRecords, RecordSorter, SortKey, SorterOptions, TempDirSpill};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let frame = |payload: &[u8]| {
//! #     let mut frame = vec![0; 12 + payload.len() + 4];
//! #     frame[12..12 + payload.len()].copy_from_slice(payload);
//! #     tfrecord_framing::seal_record(&mut frame);
//! #     frame
//! # };
//! let options = SorterOptions::new(Arc::new(TempDirSpill::default()));
//! let sorter = RecordSorter::new(options.with_equal(EqualRecords::Spread { seed: 42 }));
//!
//! let mut input = sorter.input();
//! let mut records = RecordBuffer::default();
//! records.push_frame(&frame(b"first"));
//! records.push_frame(&frame(b"second"));
//! records.push_frame(&frame(b"third"));
//! input.push(&[SortKey::new(0, 7), SortKey::new(1, 9), SortKey::new(1, 8)], &records)?;
//! if input.memory() > 64 << 20 {
//!     input.spill()?;
//! }
//! input.finish()?;
//!
//! let plan = sorter.finish()?.cut(|_| Sharding::Count(NonZeroUsize::MIN))?;
//! let rows: Vec<_> = plan.shards().iter().map(|shard| (shard.group, shard.rows)).collect();
//! assert_eq!(rows, [(0, 1), (1, 2)]);
//! let block = plan.read(0).next().ok_or("there are records")??;
//! assert_eq!(block.records.payload(1), b"third");
//! assert_eq!((block.pieces[1].shard, block.pieces[1].records.clone()), (1, 1..3));
//! # Ok(())
//! # }
//! ```
//!
//! What comes out is a function of the records, their keys and the rule. It does not depend on which input a record came
//! from, on the order within inputs, or on what was spilled when: records are ordered by group, then key, then length,
//! then bytes.

mod buckets;
mod cursor;
mod entry;
mod files;
mod input;
mod kept;
mod key;
mod load;
mod order;
mod plan;
mod read;
mod run;
mod scan;
mod spill;
mod walk;

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_tfrecord::{CompactForm, RecordBuffer};

use crate::error::{ErrorKind, Result};
use crate::write::sharding::Sharding;

use buckets::BucketBits;
use run::{Run, RunSet};
use scan::{Copies, Tally};
use walk::Chunks;

pub use input::{SorterInput, Spilled};
pub use key::SortKey;
pub use plan::{PlannedShard, ShardPlan};
pub use read::{SortedBlock, TaskRecords};
pub use spill::{SpillFile, SpillStats, SpillStore, TempDirSpill};

/// Bytes of a chunk that is sorted in the caches, about.
const CACHED_CHUNK_BYTES: usize = 512 << 10;

/// Bytes of a chunk for each run, at least, if so much may be read at a time: what is read in one go.
const READ_BYTES: usize = 128 << 10;

/// The same of buckets, which are read whole, and several runs' one after the other.
const BUCKET_READ_BYTES: usize = 32 << 10;

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

    /// Sets how many bytes are read back and sorted at a time, at most, about; a single record may be longer. There are
    /// fewer where few runs have been spilled.
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
    /// Records cannot all be held as they are.
    keeps_compact: AtomicBool,
    /// In which records are kept from then on: that of the first of them.
    form: OnceLock<CompactForm>,
    /// Records are kept in buckets: keys are hashes as it seems.
    keeps_buckets: AtomicBool,
    /// Bytes in buckets that have been spilled.
    bucket_bytes: AtomicU64,
    /// Slabs that are to be used again.
    spare: Mutex<Vec<Vec<u8>>>,
}

#[derive(Debug, Default)]
struct State {
    /// Inputs that have not been finished.
    inputs: usize,
    /// What those that have been have left.
    runs: Vec<Arc<Run>>,
    rows: u64,
    finished: bool,
    stats: SpillStats,
}

impl RecordSorter {
    /// A sorter without inputs yet.
    pub fn new(options: SorterOptions) -> Self {
        let (state, keeps_compact, form, spare, bucket_bytes) = Default::default();
        let keeps_buckets = AtomicBool::new(matches!(options.equal, EqualRecords::Spread { .. }));
        Self(Arc::new(Shared { options, state, keeps_compact, form, keeps_buckets, bucket_bytes, spare }))
    }

    /// One more input. Every input must be [finished](SorterInput::finish) before the sorter is.
    pub fn input(&self) -> SorterInput {
        self.state().inputs += 1;
        SorterInput::new(self.clone(), false)
    }

    /// An input for copies of records.
    fn copies(&self) -> SorterInput {
        self.state().inputs += 1;
        SorterInput::new(self.clone(), true)
    }

    /// Keeps the records that come from now on in a compact form, if they have one: what is to be done once it is known that
    /// not all will fit in memory, since it takes time. To spill does it, too.
    pub fn keep_compact(&self) {
        self.0.keeps_compact.store(true, Ordering::Relaxed);
    }

    /// Gives back some of the memory that is spare: kept, after it has been spilled, for records to come. Tells how many
    /// bytes, none if there are none.
    pub fn drop_spare(&self) -> usize {
        self.take_spare().map_or(0, |slab| slab.len())
    }

    fn take_spare(&self) -> Option<Vec<u8>> {
        self.0.spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps slabs, and tells how many bytes these are.
    fn put_spare(&self, slabs: impl Iterator<Item = Vec<u8>>) -> usize {
        let mut spare = self.0.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let before = spare.len();
        spare.extend(slabs);
        spare.iter().skip(before).map(Vec::len).sum()
    }

    /// The form that these records are kept in: none until it [has to be](Self::keep_compact).
    fn form(&self, records: &RecordBuffer) -> &CompactForm {
        if self.0.keeps_compact.load(Ordering::Relaxed) {
            self.0.form.get_or_init(|| CompactForm::of(records))
        } else {
            self.known_form()
        }
    }

    /// The form of all records that are compact.
    fn known_form(&self) -> &CompactForm {
        static NONE: CompactForm = CompactForm::NONE;
        self.0.form.get().unwrap_or(&NONE)
    }

    fn keeps_buckets(&self) -> bool {
        self.0.keeps_buckets.load(Ordering::Relaxed)
    }

    /// Sorts the records that come from now on before they are spilled.
    fn leave_buckets(&self) {
        self.0.keeps_buckets.store(false, Ordering::Relaxed);
    }

    /// Notes bytes that are spilled in buckets. No more are wanted once a bucket would be more than a chunk.
    fn note_buckets(&self, bytes: u64, bits: BucketBits) {
        let before = self.0.bucket_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.0.options.chunk_bytes as u64 * bits.number() as u64 {
            self.leave_buckets();
        }
    }

    /// What has been spilled so far.
    pub fn stats(&self) -> SpillStats {
        self.state().stats
    }

    /// Ends the input: tells equal records apart, and counts the rows and bytes of each group.
    ///
    /// Works on the rayon pool that the call runs in, and takes up to [`reader_memory`](ShardPlan::reader_memory) for
    /// each of its threads, and what [`SorterOptions::with_copy_bytes`] allows. If equal records are spread, a bit for
    /// each record comes to that where there are any.
    ///
    /// # Errors
    /// When an input has not been finished, or a temporary file fails.
    pub fn finish(self) -> Result<SortedRecords> {
        let (mut runs, rows) = {
            let mut state = self.state();
            let problem = match state.inputs {
                _ if state.finished => Some("the sorter has been finished before".to_owned()),
                0 => None,
                inputs => Some(format!("inputs that have not been finished: {inputs}")),
            };
            if let Some(problem) = problem {
                return Err(ErrorKind::SortInput { problem }.into());
            }
            state.finished = true;
            (mem::take(&mut state.runs), mem::take(&mut state.rows))
        };
        while self.drop_spare() > 0 {}
        let options = &self.0.options;
        let chunks = |runs: &[Arc<Run>]| {
            let form = self.known_form().clone();
            let set = RunSet { runs: runs.to_vec(), form, path: options.spill.path().to_owned() };
            // At any key there are as many as have been spilled, and those in memory.
            let in_memory = runs.iter().filter(|run| run.file().is_none()).count();
            let spilled = usize::try_from(self.state().stats.runs).unwrap_or(usize::MAX);
            let read_bytes = if runs.iter().all(|run| run.is_in_buckets()) { BUCKET_READ_BYTES } else { READ_BYTES };
            let chunk_bytes = read_bytes.saturating_mul(spilled.saturating_add(in_memory)).max(CACHED_CHUNK_BYTES);
            Chunks::new(Arc::new(set), chunk_bytes.min(options.chunk_bytes))
        };
        let mut sorted = chunks(&runs);
        let tallies = match options.equal {
            EqualRecords::Keep => scan::count(&sorted)?,
            EqualRecords::Spread { seed } => {
                let copies = Copies::new(self.clone(), seed);
                let tallies = scan::spread(&sorted, &copies)?;
                if copies.finish()? {
                    runs.append(&mut self.state().runs);
                    while self.drop_spare() > 0 {}
                    sorted = chunks(&runs);
                    scan::count(&sorted)?
                } else {
                    tallies
                }
            }
        };
        let found: u64 = tallies.iter().map(|tally| tally.rows).sum();
        if found != rows {
            return Err(sorted.set.damaged(format!("expected {rows} records, found {found}")));
        }
        let total = |tallies: &[Tally]| {
            let group = tallies.first().map_or(0, |first| first.group);
            let rows = tallies.iter().map(|tally| tally.rows).sum();
            GroupTotals { group, rows, bytes: tallies.iter().map(|tally| tally.bytes).sum() }
        };
        let groups = tallies.chunk_by(|one, next| one.group == next.group).map(total).collect();
        Ok(SortedRecords { chunks: sorted, tallies, groups })
    }

    /// Takes what an input has left.
    fn end_input(&self, runs: Vec<Run>, rows: u64, copies: bool) -> Result<()> {
        let mut state = self.state();
        if state.finished && !copies {
            let problem = "the sorter has been finished before".to_owned();
            return Err(ErrorKind::SortInput { problem }.into());
        }
        state.inputs -= 1;
        state.runs.extend(runs.into_iter().map(Arc::new));
        state.rows += rows;
        Ok(())
    }

    fn options(&self) -> &SorterOptions {
        &self.0.options
    }

    fn note(&self, change: impl FnOnce(&mut SpillStats)) {
        change(&mut self.state().stats);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    chunks: Chunks,
    tallies: Vec<Tally>,
    groups: Vec<GroupTotals>,
}

impl SortedRecords {
    /// Every group that has records, in ascending order.
    pub fn groups(&self) -> &[GroupTotals] {
        &self.groups
    }

    /// Cuts every group into shards. [`Sharding::Count`] gives contiguous ranges that differ by a row at most, and
    /// empty shards where there are more shards than rows.
    ///
    /// Works on the rayon pool that the call runs in, with up to [`reader_memory`](ShardPlan::reader_memory) for each of
    /// its threads.
    ///
    /// # Errors
    /// When a temporary file fails, or there are too many shards.
    pub fn cut(self, rule: impl FnMut(&GroupTotals) -> Sharding) -> Result<ShardPlan> {
        plan::cut(self, rule)
    }
}

#[cfg(test)]
mod tests;
