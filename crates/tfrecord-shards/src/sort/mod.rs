//! Sorts more records than fit in memory, and divides them into shards of exact sizes.
//!
//! A shuffle is a sort by a random key; splitting or partitioning a set is a sort by group. Every input passes framed
//! records and a [`SortKey`] for each to its [`SorterInput`]. Records that do not fit in memory are spilled to disk as
//! runs. Runs are sorted or, if keys are hashes, only bucketed by their first bits. Once all inputs are finished,
//! [`SortedRecords::cut`] determines where shards begin, and [`ShardPlan::read`] reads them, several in parallel.
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
//! Several processes can sort together: see [`SharedRuns`].
//!
//! The output is a function of the records, their keys and the rule. It does not depend on the inputs of records, on
//! the order within inputs, or on what was spilled when. Records are ordered by group, then key, then length, then
//! bytes.

mod buckets;
mod cursor;
mod entry;
mod files;
mod input;
mod key;
mod load;
mod merge;
mod order;
mod plan;
mod read;
mod run;
mod scan;
mod shared;
mod slabs;
mod spill;

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_tfrecord::{CompactForm, RecordBuffer};

use crate::error::{ErrorKind, Result};
use crate::write::sharding::Sharding;

use buckets::BucketBits;
use merge::Chunks;
use plan::GroupPart;
use run::{Run, RunSet};
use scan::{Copies, Tally};

pub use input::{SorterInput, Spilled};
pub use key::SortKey;
pub use plan::{PlannedShard, ShardPlan};
pub use read::{SortedBlock, TaskRecords};
pub use shared::{GroupOrder, SharedPlan, SharedRuns};
pub use spill::{DirectorySpill, SpillFile, SpillStats, SpillStore, TempDirSpill};

/// Approximate length in bytes of a chunk that is sorted in the caches.
const CACHED_CHUNK_BYTES: usize = 512 << 10;

/// Minimum length in bytes of a chunk per run, if that much may be read at once: the length of a read.
const READ_BYTES: usize = 128 << 10;

/// The same for buckets, which are read whole, those of several runs in sequence.
const BUCKET_READ_BYTES: usize = 32 << 10;

/// Bytes of records that are sorted and read back at once, if memory permits. Larger chunks mean longer reads from each
/// run on disk.
const CHUNK_BYTES: usize = 8 << 20;

/// Lower bound of the same.
const LEAST_CHUNK_BYTES: usize = 256 << 10;

/// Approximate number of chunks that a reader holds at a time.
const CHUNKS_OF_READER: usize = 4;

/// Number of chunks of copies of equal records held in memory.
const COPY_CHUNKS: usize = 2;

/// How to treat equal records: those whose group, key and bytes are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EqualRecords {
    /// Keep them together.
    Keep,
    /// Give all but one other keys, as if each were drawn independently. For keys that are hashes of the record.
    /// Without it, a shuffled table of few distinct rows would be a sorted one.
    Spread {
        /// Distinguishes shuffles.
        seed: u64,
    },
}

/// Options of a [`RecordSorter`].
#[derive(Debug, Clone)]
pub struct SorterOptions {
    spill: Arc<dyn SpillStore>,
    equal: EqualRecords,
    chunk_bytes: usize,
    copy_bytes: usize,
    /// Whether all records are spilled, for other processes.
    shared: bool,
    groups: Option<Arc<dyn GroupOrder>>,
}

impl SorterOptions {
    /// Creates options with these defaults: equal records are kept together, and chunks have 8 MiB. Runs are spilled to
    /// `spill`.
    pub fn new(spill: Arc<dyn SpillStore>) -> Self {
        let (equal, chunk_bytes, copy_bytes) = (EqualRecords::Keep, CHUNK_BYTES, 64 << 20);
        Self { spill, equal, chunk_bytes, copy_bytes, shared: false, groups: None }
    }

    /// Spills all records, so that other processes can read them: see [`RecordSorter::share`]. All processes must have
    /// the same [chunk bytes](Self::chunk_bytes).
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// The same for groups that each process numbers by itself: runs are sorted in this order of the groups, in which
    /// all processes agree.
    #[must_use]
    pub fn shared_by(mut self, groups: Arc<dyn GroupOrder>) -> Self {
        self.groups = Some(groups);
        self.shared()
    }

    /// Sets how to treat equal records.
    #[must_use]
    pub fn with_equal(mut self, equal: EqualRecords) -> Self {
        self.equal = equal;
        self
    }

    /// Sets the approximate maximum bytes read back and sorted at once; a single record may be longer. Fewer are read
    /// if few runs were spilled.
    #[must_use]
    pub fn with_chunk_bytes(mut self, bytes: usize) -> Self {
        self.chunk_bytes = bytes.max(1);
        self
    }

    /// The default memory of a sort in bytes, for its records and their readers. More is not faster: on lineitem, a
    /// shuffle of 1.1 GB that touches 3 GB of fresh memory takes longer than one that reuses 0.3 GB and reads temporary
    /// files back, which are in the page cache as long as there is memory.
    pub const MEMORY: usize = 512 << 20;

    /// The readers of sorted records get this part of the memory for sorting: one in so many.
    pub const SHARE_OF_READERS: usize = 4;

    /// Sets chunks and copies of equal records so that this many readers at the same time stay within their
    /// [share](Self::SHARE_OF_READERS) of `bytes`, if that is possible with chunks of at least 256 KiB.
    #[must_use]
    pub fn with_memory(self, bytes: usize, readers: usize) -> Self {
        let of_reader = bytes / Self::SHARE_OF_READERS / readers.max(1);
        let chunk_bytes = (of_reader / CHUNKS_OF_READER).clamp(LEAST_CHUNK_BYTES, CHUNK_BYTES);
        self.with_chunk_bytes(chunk_bytes).with_copy_bytes(COPY_CHUNKS * chunk_bytes)
    }

    /// Returns the approximate maximum bytes read back and sorted at once.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Returns the memory that this many readers and the copies of equal records take.
    pub fn reading_memory(&self, readers: usize) -> usize {
        let copies = if matches!(self.equal, EqualRecords::Spread { .. }) { self.copy_bytes } else { 0 };
        readers * CHUNKS_OF_READER * self.chunk_bytes + copies
    }

    /// Sets how much memory [`RecordSorter::finish`] may take for copies of equal records until it spills them: 64 MiB
    /// if not set.
    #[must_use]
    pub fn with_copy_bytes(mut self, bytes: usize) -> Self {
        self.copy_bytes = bytes;
        self
    }
}

/// Sorts the records of any number of inputs. Clones share one sorter.
#[derive(Debug, Clone)]
pub struct RecordSorter(Arc<Sorter>);

#[derive(Debug)]
struct Sorter {
    options: SorterOptions,
    state: Mutex<SorterInputs>,
    /// Whether records are kept in compact form, because not all fit in memory otherwise.
    keeps_compact: AtomicBool,
    /// The compact form, determined by the first record kept in it.
    form: OnceLock<CompactForm>,
    /// Whether records are kept in buckets, because their keys seem to be hashes.
    keeps_buckets: AtomicBool,
    /// Number of bytes spilled in buckets.
    bucket_bytes: AtomicU64,
    /// Slabs for reuse.
    spare: Mutex<Vec<Vec<u8>>>,
}

#[derive(Debug, Default)]
struct SorterInputs {
    /// Number of unfinished inputs.
    inputs: usize,
    /// The runs of finished inputs.
    runs: Vec<Arc<Run>>,
    rows: u64,
    finished: bool,
    stats: SpillStats,
    /// The forms of runs that other processes wrote, except the sorter's own.
    forms: Vec<CompactForm>,
}

impl RecordSorter {
    /// Creates a sorter without inputs.
    pub fn new(options: SorterOptions) -> Self {
        let (state, form, spare, bucket_bytes) = Default::default();
        let keeps_compact = AtomicBool::new(options.shared);
        // Buckets have one group.
        let keeps_buckets = matches!(options.equal, EqualRecords::Spread { .. }) && options.groups.is_none();
        let keeps_buckets = AtomicBool::new(keeps_buckets);
        Self(Arc::new(Sorter { options, state, keeps_compact, form, keeps_buckets, bucket_bytes, spare }))
    }

    /// Adds an input. Every input must be [finished](SorterInput::finish) before the sorter is.
    pub fn input(&self) -> SorterInput {
        self.state().inputs += 1;
        SorterInput::new(self.clone(), false)
    }

    /// Adds an input for copies of records.
    fn copies(&self) -> SorterInput {
        self.state().inputs += 1;
        SorterInput::new(self.clone(), true)
    }

    /// Keeps later records in a compact form, if they have one. To be called once it is known that not all will fit in
    /// memory, because it takes time. Spilling calls it too.
    pub fn keep_compact(&self) {
        self.0.keeps_compact.store(true, Ordering::Relaxed);
    }

    /// Frees some of the spare memory, which is retained after a spill for later records. Returns the number of bytes
    /// freed, 0 if there is no spare memory.
    pub fn drop_spare(&self) -> usize {
        self.take_spare().map_or(0, |slab| slab.len())
    }

    fn take_spare(&self) -> Option<Vec<u8>> {
        self.0.spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Retains slabs for reuse and returns their length in bytes.
    fn put_spare(&self, slabs: impl Iterator<Item = Vec<u8>>) -> usize {
        let mut spare = self.0.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let before = spare.len();
        spare.extend(slabs);
        spare.iter().skip(before).map(Vec::len).sum()
    }

    /// Returns the form in which these records are kept: none until [`keep_compact`](Self::keep_compact).
    fn form(&self, records: &RecordBuffer) -> &CompactForm {
        if self.0.keeps_compact.load(Ordering::Relaxed) {
            self.0.form.get_or_init(|| CompactForm::of(records))
        } else {
            self.known_form()
        }
    }

    /// Returns the form of all compact records.
    fn known_form(&self) -> &CompactForm {
        static NONE: CompactForm = CompactForm::NONE;
        self.0.form.get().unwrap_or(&NONE)
    }

    /// Returns the forms of all runs. The first is the sorter's own.
    fn forms(&self) -> Vec<CompactForm> {
        let others = self.state().forms.clone();
        [self.known_form().clone()].into_iter().chain(others).collect()
    }

    fn keeps_buckets(&self) -> bool {
        self.0.keeps_buckets.load(Ordering::Relaxed)
    }

    /// Sorts later records before they are spilled.
    fn leave_buckets(&self) {
        self.0.keeps_buckets.store(false, Ordering::Relaxed);
    }

    /// Counts bytes spilled in buckets. Stops using buckets once a bucket would exceed a chunk.
    fn note_buckets(&self, bytes: u64, bits: BucketBits) {
        let before = self.0.bucket_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.0.options.chunk_bytes as u64 * bits.number() as u64 {
            self.leave_buckets();
        }
    }

    /// Returns what has been spilled so far.
    pub fn stats(&self) -> SpillStats {
        self.state().stats
    }

    /// Finishes the sorter: distinguishes equal records, and counts the rows and bytes of each group.
    ///
    /// Runs on the caller's rayon pool. Uses up to [`reader_memory`](ShardPlan::reader_memory) for each of its threads,
    /// and the memory allowed by [`SorterOptions::with_copy_bytes`]. If equal records are spread and there are any, it
    /// also uses one bit per record.
    ///
    /// # Errors
    /// If an input is not finished, or a temporary file fails.
    pub fn finish(self) -> Result<SortedRecords> {
        let (mut runs, rows) = self.take_runs()?;
        while self.drop_spare() > 0 {}
        let options = &self.0.options;
        let chunks = |runs: &[Arc<Run>]| {
            let set = RunSet { runs: runs.to_vec(), forms: self.forms(), path: options.spill.path().to_owned() };
            // At any key, there can be one run per spill, and the runs in memory.
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

    /// Ends the sorter. Returns its runs and the number of their rows.
    fn take_runs(&self) -> Result<(Vec<Arc<Run>>, u64)> {
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
        Ok((mem::take(&mut state.runs), mem::take(&mut state.rows)))
    }

    /// Adds the runs of a finished input.
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

    fn state(&self) -> MutexGuard<'_, SorterInputs> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Totals of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupTotals {
    /// The group, as in the [`SortKey`]s.
    pub group: u32,
    /// Number of rows, at least one.
    pub rows: u64,
    /// Length in bytes of its records with their frames.
    pub bytes: u64,
}

/// The counted records of all inputs.
#[derive(Debug)]
pub struct SortedRecords {
    chunks: Chunks,
    tallies: Vec<Tally>,
    groups: Vec<GroupTotals>,
}

impl SortedRecords {
    /// Returns every group that has records, in ascending order.
    pub fn groups(&self) -> &[GroupTotals] {
        &self.groups
    }

    /// Divides every group into shards. [`Sharding::Count`] gives contiguous ranges whose sizes differ by at most one
    /// row, and empty shards if there are more shards than rows.
    ///
    /// Runs on the caller's rayon pool, with up to [`reader_memory`](ShardPlan::reader_memory) for each of its threads.
    ///
    /// # Errors
    /// If a temporary file fails, or there are too many shards.
    pub fn cut(self, mut rule: impl FnMut(&GroupTotals) -> Sharding) -> Result<ShardPlan> {
        plan::cut(self, |totals| {
            let GroupTotals { group, rows, .. } = *totals;
            vec![GroupPart { group, rows, sharding: rule(totals) }]
        })
    }

    /// Divides the records of the only group into consecutive parts of so many rows, and each part into shards, as
    /// [`cut`](Self::cut) does. The group of a shard is the number of its part.
    ///
    /// # Errors
    /// As [`cut`](Self::cut). Also if the parts do not add up to the rows of the group.
    pub fn cut_parts(self, parts: &[(u64, Sharding)]) -> Result<ShardPlan> {
        let part = |(group, &(rows, sharding)): (u32, &(u64, Sharding))| GroupPart { group, rows, sharding };
        plan::cut(self, |_| (0..).zip(parts).map(part).collect())
    }
}

#[cfg(test)]
mod tests;
