//! [`Inputs`]: collects the records to sort, in memory while there is room, else in temporary files.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_tfrecord::RecordBuffer;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::memory_pool::MemoryReservation;
use rayon::prelude::*;
use tfrecord_shards::sort::{RecordSorter, SharedRuns, SortKey, SortedRecords, SorterInput, SorterOptions, SpillStats};

use crate::error::shards_error;
use crate::write::metrics::SortMetrics;

/// The inputs of a sorter, shared by all jobs of a run: a job uses any input that is free. There are few, so that
/// each becomes large before it is spilled. There is more than one, since an input accepts no records while it is
/// being spilled.
///
/// Memory is reserved with the engine's pool as spillable.
pub(super) struct Inputs {
    sorter: Mutex<Option<RecordSorter>>,
    at_hand: Mutex<Vec<SorterInput>>,
    /// Empty buffers to reuse. They stay reserved, as do the sorter's spare buffers.
    free: Mutex<Vec<RecordBuffer>>,
    reservation: MemoryReservation,
    room: Room,
    /// Number of rows pushed.
    pushed: AtomicU64,
    /// Whether a part of the memory suffices; set once enough is taken to decide.
    part_suffices: OnceLock<bool>,
    /// Minimum size of a spilled run.
    least_run: usize,
}

/// The memory available for records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Memory that records may take, in addition to other consumers.
    pub(super) memory: usize,
    /// The total number of rows, if it is known exactly.
    pub(super) rows: Option<u64>,
}

impl Room {
    /// Approximate memory of the sorter per record, in addition to the record.
    const RECORD_OVERHEAD: u64 = 16;

    /// With less, runs would be short.
    const LEAST_ENOUGH: usize = 64 << 20;

    /// Returns the part of the memory that suffices if most records are spilled anyway.
    fn enough(self) -> usize {
        (self.memory / 4).max(Self::LEAST_ENOUGH).min(self.memory / 2)
    }

    /// Whether all rows would take more than twice the memory, given that `rows_in_it` rows take `taken` bytes. Most
    /// are then spilled anyway, and [a part](Self::enough) of the memory suffices: reusing memory is cheaper than
    /// touching more.
    fn is_far_too_short(self, taken: usize, rows_in_it: u64) -> bool {
        let all = |rows: u64| rows as f64 / rows_in_it.max(1) as f64 * taken as f64;
        self.rows.is_some_and(|rows| all(rows) > 2.0 * self.memory as f64)
    }

    /// Whether memory is likely to run out if records are held as they are, given the memory taken so far and a
    /// sample of the records. From then on they are better held in compact form: more fit into memory, and less is
    /// spilled.
    fn is_short(self, taken: usize, some: &RecordBuffer) -> bool {
        let memory = self.memory as u64;
        match self.rows {
            Some(rows) => {
                let mean = some.bytes().len() as u64 / (some.len() as u64).max(1) + Self::RECORD_OVERHEAD;
                rows.saturating_mul(mean) > memory
            }
            None => taken as u64 > memory / 2,
        }
    }
}

/// Initial number of inputs. More are added if more jobs push at the same time.
const INPUTS: usize = 2;

impl Inputs {
    pub(super) fn new(options: SorterOptions, reservation: MemoryReservation, room: Room) -> Self {
        let least_run = options.chunk_bytes() / 2;
        let sorter = RecordSorter::new(options);
        let at_hand = (0..INPUTS).map(|_| sorter.input()).collect();
        Self {
            sorter: Mutex::new(Some(sorter)),
            at_hand: Mutex::new(at_hand),
            free: Mutex::default(),
            reservation,
            room,
            pushed: AtomicU64::new(0),
            part_suffices: OnceLock::new(),
            least_run,
        }
    }

    /// Returns an empty buffer and its reserved bytes. Creates a buffer if none can be reused.
    pub(super) fn buffer(&self, new: impl FnOnce() -> RecordBuffer) -> (RecordBuffer, usize) {
        match self.free().pop() {
            Some(buffer) => {
                let reserved = buffer.capacity();
                (buffer, reserved)
            }
            None => (new(), 0),
        }
    }

    /// Updates the reservation for records in progress; `reserved` bytes were reserved for their buffer before.
    /// Infallible: there are few, and without them there is no progress.
    pub(super) fn reserve(&self, reserved: usize, records: &RecordBuffer) {
        self.reservation.grow(records.capacity().saturating_sub(reserved));
    }

    /// Adds records that are already [reserved](Self::reserve), and makes room for them if memory is short.
    pub(super) fn push(&self, keys: &[SortKey], mut records: RecordBuffer) -> Result<()> {
        let sorter = self.sorter()?;
        if self.room.is_short(self.reservation.size(), &records) {
            sorter.keep_compact();
        }
        let mut input = self.take_least().unwrap_or_else(|| sorter.input());
        let grown = input.push(keys, &records).map_err(shards_error)?;
        records.clear();
        self.free().push(records);
        self.pushed.fetch_add(keys.len() as u64, Ordering::Relaxed);
        let is_over = self.reservation.size().saturating_add(grown) > self.room.memory;
        let mut is_full = grown > 0 && (is_over || self.is_enough());
        while !is_full && self.reservation.try_grow(grown).is_err() {
            // Free reusable memory first.
            let spare = sorter.drop_spare();
            self.reservation.shrink(spare);
            is_full = spare == 0 && !self.drop_one_free();
        }
        if is_full {
            // For the duration of a spill.
            self.reservation.grow(grown);
        }
        self.at_hand().push(input);
        if is_full {
            self.spill_largest()?;
        }
        Ok(())
    }

    /// Whether to take no more memory although some is available.
    fn is_enough(&self) -> bool {
        let taken = self.reservation.size();
        let far_too_short = || self.room.is_far_too_short(taken, self.pushed.load(Ordering::Relaxed));
        taken > self.room.enough() && *self.part_suffices.get_or_init(far_too_short)
    }

    /// Ends the inputs and returns the sorted records with their memory reservation. Apart from the records, it
    /// covers `needed` bytes to read them back.
    pub(super) fn finish(&self, needed: usize, metrics: &SortMetrics) -> Result<(SortedRecords, MemoryReservation)> {
        self.drop_free()?;
        while self.reservation.try_grow(needed).is_err() {
            if !self.spill_largest()? {
                self.reservation.grow(needed);
                break;
            }
            self.drop_free()?;
        }
        let reserved = self.reservation.size();
        let inputs = mem::take(&mut *self.at_hand());
        // Most of the sorting of each input is single-threaded.
        inputs.into_par_iter().try_for_each(SorterInput::finish).map_err(shards_error)?;
        let sorter = self.sorter.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(ended)?;
        let counter = sorter.clone();
        let sorted = sorter.finish().map_err(shards_error)?;
        let SpillStats { runs, bytes, .. } = counter.stats();
        metrics.spill_count.add(usize::try_from(runs).unwrap_or(usize::MAX));
        metrics.spilled_bytes.add(usize::try_from(bytes).unwrap_or(usize::MAX));
        let rows: u64 = sorted.groups().iter().map(|group| group.rows).sum();
        log::info!("sorted {rows} records; {runs} runs of altogether {bytes} bytes went to temporary files");
        Ok((sorted, self.reservation.split(reserved)))
    }

    /// Ends the inputs of a task, and describes their runs for other processes.
    pub(super) fn share(&self, metrics: &SortMetrics) -> Result<SharedRuns> {
        self.drop_free()?;
        let inputs = mem::take(&mut *self.at_hand());
        inputs.into_iter().try_for_each(SorterInput::finish).map_err(shards_error)?;
        let sorter = self.sorter.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(ended)?;
        let SpillStats { runs, bytes, .. } = sorter.stats();
        metrics.spill_count.add(usize::try_from(runs).unwrap_or(usize::MAX));
        metrics.spilled_bytes.add(usize::try_from(bytes).unwrap_or(usize::MAX));
        sorter.share().map_err(shards_error)
    }

    /// Spills the largest free input, if it is large enough. Its memory is reused, and stays reserved.
    fn spill_largest(&self) -> Result<bool> {
        let Some(mut input) = self.take_largest() else { return Ok(false) };
        let before = input.memory();
        let spilled = input.spill().map_err(shards_error)?;
        let kept = input.memory() + spilled.spare;
        if before > kept {
            self.reservation.shrink(before - kept);
        } else {
            self.reservation.grow(kept - before);
        }
        self.at_hand().push(input);
        Ok(true)
    }

    fn take_least(&self) -> Option<SorterInput> {
        let mut at_hand = self.at_hand();
        let least = (0..at_hand.len()).min_by_key(|&index| at_hand[index].record_memory())?;
        Some(at_hand.swap_remove(least))
    }

    fn take_largest(&self) -> Option<SorterInput> {
        let mut at_hand = self.at_hand();
        let largest = (0..at_hand.len()).max_by_key(|&index| at_hand[index].record_memory())?;
        (at_hand[largest].record_memory() >= self.least_run).then(|| at_hand.swap_remove(largest))
    }

    /// Releases the buffers kept for later records.
    fn drop_free(&self) -> Result<()> {
        while self.drop_one_free() {}
        let sorter = self.sorter()?;
        let spare = std::iter::repeat_with(|| sorter.drop_spare()).take_while(|spare| *spare > 0);
        spare.for_each(|spare| self.reservation.shrink(spare));
        for input in self.at_hand().iter_mut() {
            let before = input.memory();
            input.shrink_to_fit();
            self.reservation.shrink(before.saturating_sub(input.memory()));
        }
        Ok(())
    }

    fn drop_one_free(&self) -> bool {
        let Some(buffer) = self.free().pop() else { return false };
        let reserved = buffer.capacity();
        // Drop the buffer before its reservation.
        drop(buffer);
        self.reservation.shrink(reserved);
        true
    }

    fn free(&self) -> MutexGuard<'_, Vec<RecordBuffer>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_hand(&self) -> MutexGuard<'_, Vec<SorterInput>> {
        self.at_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sorter, to create further inputs.
    fn sorter(&self) -> Result<RecordSorter> {
        self.sorter.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(ended)
    }
}

fn ended() -> datafusion_common::DataFusionError {
    internal_datafusion_err!("records came after the end of all rows")
}
