//! [`SorterInput`]: collects the records of one input, and spills those that do not fit in memory.

use std::mem;
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;

use super::buckets::{BucketBits, BucketEntry, Buckets, MAX_FRAME_LEN, have_few_keys};
use super::entry::Entry;
use super::files::{RunFiles, samples_of, sampling};
use super::key::SortKey;
use super::order::{sort_entries, sort_ties};
use super::run::{MemoryRun, Run, Stored};
use super::slabs::{AS_STORED, Slabs};
use super::{EqualRecords, RecordSorter};
use crate::error::{ErrorKind, Result};

/// Initial capacity in entries. Unused capacity takes no memory, but growing it copies the used part.
const ROOM_ENTRIES: usize = 8 << 20;

/// If buckets are abandoned, their records are moved to entries if they take at most this many times the memory of
/// nearly empty buckets. More are spilled first, because each record then needs an entry.
const LEAVE_MEMORY: usize = 2;

/// Collects the records of one input: any part of the rows.
#[derive(Debug)]
pub struct SorterInput {
    sorter: RecordSorter,
    /// Whether the records are copies, none of which may be dropped, made on one of several threads.
    copies: bool,
    /// One per record in the slabs. The capacity is retained after a spill.
    entries: Vec<Entry>,
    /// How much of the capacity was ever used. The rest takes no memory yet.
    entries_filled: usize,
    slabs: Slabs,
    /// Holds all records instead, once there are enough of them and as long as the sorter uses buckets.
    buckets: Option<Buckets>,
    files: RunFiles,
    /// Number of records in the runs.
    written_rows: u64,
    /// Whether records were lost to an error.
    failed: bool,
}

/// The result of [`SorterInput::spill`].
#[derive(Debug, Default)]
pub struct Spilled {
    /// Number of records written to disk.
    pub rows: u64,
    /// Number of bytes written.
    pub bytes: u64,
    /// Memory of these records in bytes, which is now [spare](RecordSorter::drop_spare).
    pub spare: usize,
}

impl SorterInput {
    pub(super) fn new(sorter: RecordSorter, copies: bool) -> Self {
        Self {
            sorter,
            copies,
            entries: Vec::new(),
            entries_filled: 0,
            slabs: Slabs::default(),
            buckets: None,
            files: RunFiles::default(),
            written_rows: 0,
            failed: false,
        }
    }

    /// Adds records and a key for each. Returns the number of bytes newly allocated, not counting reused
    /// [spare](RecordSorter::drop_spare) memory.
    ///
    /// # Errors
    /// If there are fewer or more keys than records, or more records than can be numbered.
    pub fn push(&mut self, keys: &[SortKey], records: &RecordBuffer) -> Result<usize> {
        let refused = |problem| Err(ErrorKind::SortInput { problem }.into());
        if keys.len() != records.len() {
            return refused(format!("expected a key for each of {} records, found {} keys", records.len(), keys.len()));
        }
        if u32::try_from(records.len()).is_err() {
            return refused("a buffer contains more than 4 billion records".to_owned());
        }
        let is_long = |record| u32::try_from(records.slice(record..record + 1).len()).is_err();
        if u32::try_from(records.bytes().len()).is_err() && (0..records.len()).any(is_long) {
            return refused("a record is longer than 4 GiB".to_owned());
        }
        if keys.is_empty() {
            return Ok(0);
        }
        let rows = self.rows() + keys.len();
        if self.slabs.number() + keys.len() > Slabs::MAX || u32::try_from(rows).is_err() {
            self.spill()?;
        }
        let before = self.memory();
        if !self.fits_buckets(keys, records) {
            self.leave_buckets()?;
        } else if self.buckets.is_some() {
            return Ok(self.push_to_buckets(keys, records));
        } else if self.slabs.memory() >= self.bucket_bits().memory() {
            if !have_few_keys(&self.entries) {
                return Ok(self.push_to_buckets(keys, records));
            }
            self.sorter.leave_buckets();
        }
        if self.entries.capacity() == 0 {
            // Where there are not so many addresses (`ulimit -v`), the entries move as they grow.
            let _without = self.entries.try_reserve_exact(ROOM_ENTRIES.max(keys.len()));
        }
        let mut reused = 0;
        let spare = &mut || take_spare(&self.sorter, &mut reused);
        let form = self.sorter.form(records);
        self.entries.extend((0..).zip(keys).map(|(record, &SortKey { group, key })| {
            let len = records.record_end(record) - records.record_start(record);
            let location = self.slabs.keep(form, records, record, &mut *spare);
            Entry { key, location, group, len: len as u32 }
        }));
        self.entries_filled = self.entries_filled.max(self.entries.len());
        Ok(self.memory().saturating_sub(before + reused))
    }

    /// Whether these records can be added to the buckets.
    fn fits_buckets(&self, keys: &[SortKey], records: &RecordBuffer) -> bool {
        let fits = |(record, key): (usize, &SortKey)| {
            key.group() == 0 && records.record_end(record) - records.record_start(record) <= MAX_FRAME_LEN
        };
        !self.copies && self.sorter.keeps_buckets() && keys.iter().enumerate().all(fits)
    }

    fn bucket_bits(&self) -> BucketBits {
        BucketBits::new(self.sorter.options().chunk_bytes)
    }

    /// Adds records that [fit the buckets](Self::fits_buckets). Records collected before them are moved there first.
    fn push_to_buckets(&mut self, keys: &[SortKey], records: &RecordBuffer) -> usize {
        let before = self.memory();
        let bits = self.bucket_bits();
        let Self { sorter, buckets, entries, slabs, .. } = self;
        let buckets = buckets.get_or_insert_with(|| Buckets::new(bits));
        let rows_before = buckets.rows();
        let mut reused = 0;
        for entry in &*entries {
            buckets.push_kept(entry, entry.record(slabs, AS_STORED).bytes(), || take_spare(sorter, &mut reused));
        }
        entries.clear();
        let spare = sorter.put_spare(mem::take(slabs).into_spare());
        buckets.push(sorter.form(records), keys, records, || take_spare(sorter, &mut reused));
        if buckets.are_uneven(buckets.rows() - rows_before) {
            sorter.leave_buckets();
        }
        (self.memory() + spare).saturating_sub(before + reused)
    }

    /// Stops using buckets, so that later records are sorted before they are spilled.
    fn leave_buckets(&mut self) -> Result<()> {
        let is_much = |buckets: &Buckets| buckets.memory() > LEAVE_MEMORY * buckets.bits().memory();
        if self.buckets.as_ref().is_some_and(is_much) {
            self.spill()?;
        }
        self.sorter.leave_buckets();
        if let Some(mut buckets) = self.buckets.take() {
            self.entries.reserve_exact(ROOM_ENTRIES.max(buckets.rows()));
            let entry = |BucketEntry { key, location, len }| Entry { key, location, group: 0, len };
            (0..buckets.bits().number())
                .for_each(|number| buckets.for_each(number, |found| self.entries.push(entry(found))));
            self.entries_filled = self.entries_filled.max(self.entries.len());
            self.slabs = buckets.take_slabs();
        }
        Ok(())
    }

    /// Number of records in memory.
    fn rows(&self) -> usize {
        self.entries.len() + self.buckets.as_ref().map_or(0, Buckets::rows)
    }

    /// Returns the memory of the input in bytes. The first spill takes a few MiB more.
    pub fn memory(&self) -> usize {
        self.record_memory() + self.entries_filled * size_of::<Entry>() + self.files.memory()
    }

    /// Returns the memory in use, without capacity retained from earlier records, which must not shorten runs.
    pub(super) fn filled_memory(&self) -> usize {
        self.record_memory() + self.entries.len() * size_of::<Entry>()
    }

    /// Returns the memory of the input's records in bytes, which [`spill`](Self::spill) makes spare.
    pub fn record_memory(&self) -> usize {
        self.slabs.memory() + self.buckets.as_ref().map_or(0, Buckets::memory)
    }

    /// Frees memory reserved for later records, if that is worth copying the others.
    pub fn shrink_to_fit(&mut self) {
        if self.entries.len() < self.entries_filled / 2 {
            self.entries.shrink_to_fit();
            self.entries_filled = self.entries.len();
        }
        self.files.shrink();
    }

    /// Writes the records in memory to disk, sorted as far as needed. The input then holds no records.
    ///
    /// Runs on the caller's rayon pool, whose threads run other jobs while they wait for one another. The caller must
    /// not hold a lock that one of these jobs acquires.
    ///
    /// # Errors
    /// If the temporary file fails. The sorter is then unusable.
    pub fn spill(&mut self) -> Result<Spilled> {
        let rows = self.rows() as u64;
        if rows == 0 {
            return Ok(Spilled::default());
        }
        let failed = mem::replace(&mut self.failed, true);
        self.sorter.keep_compact();
        let (bytes, slabs) = match self.buckets.take() {
            // An input with buckets has no other records.
            Some(mut buckets) => {
                let bytes = self.files.write_buckets(&self.sorter, &buckets)?;
                self.sorter.note_buckets(bytes, buckets.bits());
                let slabs = buckets.take_slabs();
                self.buckets = Some(buckets);
                (bytes, slabs)
            }
            None => {
                let run = self.sort();
                let bytes = self.files.write_sorted(&self.sorter, &run, !self.copies)?;
                let MemoryRun { mut entries, slabs, .. } = run;
                entries.clear();
                self.entries = entries;
                (bytes, slabs)
            }
        };
        self.sorter.note(|stats| {
            stats.runs += 1;
            stats.bytes += bytes;
        });
        self.written_rows += rows;
        self.failed = failed;
        Ok(Spilled { rows, bytes, spare: self.sorter.put_spare(slabs.into_spare()) })
    }

    /// Whether anything was spilled.
    pub(super) fn has_spilled(&self) -> bool {
        !self.files.is_empty()
    }

    /// Finishes the input. Records that were not spilled stay in memory, sorted, unless the sorter shares its runs.
    ///
    /// # Errors
    /// If spilling failed, or the sorter was finished before.
    pub fn finish(mut self) -> Result<()> {
        if self.failed {
            return Err(ErrorKind::Failed.into());
        }
        if self.sorter.options().shared {
            self.spill()?;
        }
        let rows = self.written_rows + self.rows() as u64;
        let mut runs = Vec::new();
        if let Some(buckets) = self.buckets.take().filter(|buckets| buckets.rows() > 0) {
            let (rows, samples) = (buckets.rows() as u64, samples_of(&buckets, 0..buckets.bits().number()));
            runs.push(Run::new(Stored::Buckets(buckets), rows, samples));
        }
        if !self.entries.is_empty() {
            let filled = self.entries_filled;
            let mut run = self.sort();
            if run.entries.len() < filled / 2 {
                run.entries.shrink_to_fit();
            }
            run.counts.shrink_to_fit();
            let mut samples = sampling(&self.sorter, run.entries.iter().map(Entry::weight).sum());
            run.entries.iter().for_each(|entry| samples.pass(entry));
            let entries = run.entries.len() as u64;
            runs.push(Run::new(Stored::Memory(run), entries, samples.finish()));
        }
        runs.append(&mut self.files.into_runs());
        self.sorter.end_input(runs, rows, self.copies)
    }

    /// Takes the records in memory, and sorts them by key, then length, then bytes.
    fn sort(&mut self) -> MemoryRun {
        let mut entries = mem::take(&mut self.entries);
        let slabs = mem::take(&mut self.slabs);
        let groups = self.sorter.options().groups.as_ref().map(|groups| Arc::from(groups.order()));
        if let Some(groups) = &groups {
            replace_by_ranks(&mut entries, groups);
        }
        sort_entries(&mut entries, !self.copies);
        let mut run = MemoryRun { entries, counts: Vec::new(), slabs, groups };
        let collapse = !self.copies && matches!(self.sorter.options().equal, EqualRecords::Spread { .. });
        sort_ties(&mut run, self.sorter.known_form(), collapse);
        run
    }
}

/// Replaces groups by their positions in this order, which contains all of them.
fn replace_by_ranks(entries: &mut [Entry], order: &[u32]) {
    let mut ranks = vec![0; order.len()];
    for (rank, group) in (0..).zip(order) {
        if let Some(place) = ranks.get_mut(*group as usize) {
            *place = rank;
        }
    }
    for entry in entries {
        entry.group = ranks.get(entry.group as usize).copied().unwrap_or(u32::MAX);
    }
}

/// Takes a slab for reuse, and adds its length to `reused`.
fn take_spare(sorter: &RecordSorter, reused: &mut usize) -> Option<Vec<u8>> {
    let slab = sorter.take_spare()?;
    *reused += slab.len();
    Some(slab)
}
