//! [`SorterInput`]: takes the records of one input, and writes what does not fit in memory.

use std::collections::{BTreeMap, btree_map};
use std::io;
use std::mem;
use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::{Arc, RwLock};

use arrow_tfrecord::RecordBuffer;
use rayon::prelude::*;

use super::kept::{FrameOrder, Slabs};
use super::key::{Prefix, SortKey};
use super::load::fetch;
use super::run::{BLOCK_ENTRIES, Entry, EntryForm, FileEntry, FileRun, MemoryRun, Run, Sample, Sampling, Stored};
use super::spill::SpillFile;
use super::{EqualRecords, RecordSorter};
use crate::error::{AtPath, ErrorKind, Result};

/// Bytes that are gathered and written at a time.
const WRITE_BYTES: u64 = 1 << 20;

/// Entries that are written at a time: whole blocks, in less than [`WRITE_BYTES`].
const WRITE_ENTRIES: usize = 256 * BLOCK_ENTRIES;

/// Files of an input, at most. Each holds the records of a range of keys, if there are enough of them, so that it can go
/// when these have been read, and its memory and place on disk serve for what is made of them.
const MAX_FILES: u64 = 8;

/// Parts that entries are distributed to before they are sorted.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 8;

/// Entries of a part that more than one thread sorts.
const LONG_PART: usize = 1 << 16;

/// Entries that there is room for from the beginning. Room that is not filled takes no memory; to make more of it means
/// to copy what is filled.
const ROOM_ENTRIES: usize = 8 << 20;

/// Gathered pieces that wait to be written, at most.
const WRITE_AHEAD: usize = 8;

/// Takes the records of one input, which may be a part of the rows, or any share of them.
#[derive(Debug)]
pub struct SorterInput {
    sorter: RecordSorter,
    /// Whether the records are copies, of which none is left out, made on a thread among others.
    copies: bool,
    /// One for each record in the slabs. Its room stays when records are spilled, as that of `pieces` does.
    entries: Vec<Entry>,
    /// How much of that room has ever been filled. The rest takes no memory yet.
    entries_filled: usize,
    slabs: Slabs,
    /// Of what is gathered to be written.
    pieces: Vec<Vec<u8>>,
    /// Each for a range of keys.
    files: BTreeMap<usize, WrittenFile>,
    /// The keys at which these ranges begin, but for the first. Known with the first run.
    file_bounds: Option<Vec<SortKey>>,
    runs: Vec<WrittenRun>,
    /// Records in the runs.
    written_rows: u64,
    /// Records have been lost to an error.
    failed: bool,
}

#[derive(Debug)]
struct WrittenFile {
    file: Box<dyn SpillFile>,
    /// Its bytes.
    len: u64,
}

/// A run in one of the input's files.
#[derive(Debug)]
struct WrittenRun {
    file: usize,
    records_at: u64,
    records_len: u64,
    entries: u64,
    form: EntryForm,
    last: SortKey,
    samples: Vec<Sample>,
}

/// What [`SorterInput::spill`] did.
#[derive(Debug, Default)]
pub struct Spilled {
    /// Records that went to disk.
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Memory that held them, and is [spare](RecordSorter::drop_spare) now.
    pub spare: usize,
}

/// Neighbouring entries of a run, and where their records start in it.
struct Stretch {
    entries: Range<usize>,
    start: u64,
}

impl SorterInput {
    pub(super) fn new(sorter: RecordSorter, copies: bool) -> Self {
        Self {
            sorter,
            copies,
            entries: Vec::new(),
            entries_filled: 0,
            slabs: Slabs::default(),
            pieces: Vec::new(),
            files: BTreeMap::new(),
            file_bounds: None,
            runs: Vec::new(),
            written_rows: 0,
            failed: false,
        }
    }

    /// Takes records and a key for each. Tells for how many bytes that has taken new memory, beside what was
    /// [spare](RecordSorter::drop_spare).
    ///
    /// # Errors
    /// When there are not as many keys as records, or more than can be numbered.
    pub fn push(&mut self, keys: &[SortKey], records: &RecordBuffer) -> Result<usize> {
        let refused = |problem| Err(ErrorKind::SortInput { problem }.into());
        if keys.len() != records.len() {
            return refused(format!("expected a key for each of {} records, found {} keys", records.len(), keys.len()));
        }
        if u32::try_from(records.len()).is_err() {
            return refused("a buffer holds more than 4 billion records".to_owned());
        }
        let is_long = |record| u32::try_from(records.slice(record..record + 1).len()).is_err();
        if u32::try_from(records.bytes().len()).is_err() && (0..records.len()).any(is_long) {
            return refused("a record is longer than 4 GiB".to_owned());
        }
        if keys.is_empty() {
            return Ok(0);
        }
        let rows = self.entries.len() + keys.len();
        if self.slabs.number() + keys.len() > Slabs::MAX || u32::try_from(rows).is_err() {
            self.spill()?;
        }
        let before = self.memory();
        if self.entries.capacity() == 0 {
            self.entries.reserve_exact(ROOM_ENTRIES.max(keys.len()));
        }
        let mut reused = 0;
        let spare = &mut || {
            let slab = self.sorter.take_spare()?;
            reused += slab.len();
            Some(slab)
        };
        let form = self.sorter.form(records);
        self.entries.extend((0..).zip(keys).map(|(record, &SortKey { group, high, low })| {
            let len = records.record_end(record) - records.record_start(record);
            let kept = self.slabs.keep(form, records, record, &mut *spare);
            Entry { high, low, kept, group, len: len as u32 }
        }));
        self.entries_filled = self.entries_filled.max(self.entries.len());
        Ok(self.memory().saturating_sub(before + reused))
    }

    /// Bytes that the input holds on to. Spilling takes some MiB more the first time.
    pub fn memory(&self) -> usize {
        let pieces: usize = self.pieces.iter().map(Vec::capacity).sum();
        self.slabs.memory() + self.entries_filled * size_of::<Entry>() + pieces
    }

    /// Bytes that the input holds on to for its records: those that [`spill`](Self::spill) makes spare.
    pub fn record_memory(&self) -> usize {
        self.slabs.memory()
    }

    /// Gives back what is held for records to come, if it is worth copying the others.
    pub fn shrink_to_fit(&mut self) {
        if self.entries.len() < self.entries_filled / 2 {
            self.entries.shrink_to_fit();
            self.entries_filled = self.entries.len();
        }
        self.pieces = Vec::new();
    }

    /// Sorts what is in memory and writes it to disk. No records are held afterwards.
    ///
    /// Works on the rayon pool that the call runs in, whose threads run other jobs while they wait for one another: no
    /// lock may be held that one of these takes.
    ///
    /// # Errors
    /// When the temporary file fails. The sorter is of no use then.
    pub fn spill(&mut self) -> Result<Spilled> {
        if self.entries.is_empty() {
            return Ok(Spilled::default());
        }
        let failed = mem::replace(&mut self.failed, true);
        self.sorter.keep_compact();
        let rows = self.entries.len() as u64;
        let run = self.sort();
        let bytes = self.write(&run)?;
        self.written_rows += rows;
        self.failed = failed;
        let MemoryRun { mut entries, slabs, .. } = run;
        entries.clear();
        self.entries = entries;
        Ok(Spilled { rows, bytes, spare: self.sorter.put_spare(slabs.into_spare()) })
    }

    /// Whether anything has been spilled.
    pub(super) fn has_spilled(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Ends the input. What has not been spilled stays in memory, sorted.
    ///
    /// # Errors
    /// When spilling has failed, or the sorter has been finished before.
    pub fn finish(mut self) -> Result<()> {
        if self.failed {
            return Err(ErrorKind::Failed.into());
        }
        let mut rows = self.written_rows;
        let mut runs = Vec::new();
        if !self.entries.is_empty() {
            rows += self.entries.len() as u64;
            let filled = self.entries_filled;
            let mut run = self.sort();
            if run.entries.len() < filled / 2 {
                run.entries.shrink_to_fit();
            }
            run.counts.shrink_to_fit();
            let mut samples = self.sampling(run.entries.iter().map(Entry::weight).sum());
            run.entries.iter().for_each(|entry| samples.pass(entry));
            let entries = run.entries.len() as u64;
            runs.push(Run::new(Stored::Memory(run), entries, samples.finish()));
        }
        let files: BTreeMap<usize, Arc<dyn SpillFile>> =
            self.files.into_iter().map(|(number, written)| (number, written.file.into())).collect();
        for WrittenRun { file, records_at, records_len, entries, form, last, samples } in self.runs {
            let file = RwLock::new(files.get(&file).cloned());
            let stored = FileRun { file, records_at, records_len, entries, form, last };
            runs.push(Run::new(Stored::File(stored), entries, samples));
        }
        self.sorter.end_input(runs, rows, self.copies)
    }

    fn sampling(&self, weight: u64) -> Sampling {
        Sampling::new(weight, self.sorter.options().chunk_bytes as u64 / 16)
    }

    /// Takes what is in memory, and sorts it by key, then length, then bytes.
    fn sort(&mut self) -> MemoryRun {
        let mut entries = mem::take(&mut self.entries);
        let slabs = mem::take(&mut self.slabs);
        let parts = distribute(&mut entries);
        if self.copies {
            parts.into_iter().for_each(sort_part);
        } else {
            // Long ones, where keys are not spread evenly, are shared by threads too.
            parts.into_par_iter().for_each(|part| match part.len() {
                0..LONG_PART => sort_part(part),
                _ => part.par_sort_unstable_by_key(Entry::key),
            });
        }
        let mut run = MemoryRun { entries, counts: Vec::new(), slabs };
        let collapse = !self.copies && matches!(self.sorter.options().equal, EqualRecords::Spread { .. });
        sort_ties(&mut run, FrameOrder::new(self.sorter.known_form()), collapse);
        run
    }

    /// Writes sorted records at the end of the files, and tells how many bytes these are.
    fn write(&mut self, run: &MemoryRun) -> Result<u64> {
        let bounds = self.file_bounds.get_or_insert_with(|| {
            let len: u64 = run.entries.iter().map(Entry::weight).sum();
            let files = (len / self.sorter.options().chunk_bytes as u64).clamp(1, MAX_FILES) as usize;
            let bounds = (1..files).map(|file| file * run.entries.len() / files);
            bounds.filter_map(|entry| run.entries.get(entry)).map(Entry::key).collect()
        });
        let end = |bound: &SortKey| run.entries.partition_point(|entry| entry.key() < *bound);
        let ends: Vec<_> = bounds.iter().map(end).chain([run.entries.len()]).collect();
        let (mut start, mut written) = (0, 0);
        for (file, end) in ends.into_iter().enumerate() {
            if let Some(last) = run.entries.get(start..end).and_then(<[Entry]>::last) {
                written += self.write_run(run, start..end, (file, last.key()))?;
                start = end;
            }
        }
        self.sorter.note(|stats| {
            stats.runs += 1;
            stats.bytes += written;
        });
        Ok(written)
    }

    /// Writes some of the records at the end of a file, and tells how many bytes these are.
    fn write_run(&mut self, run: &MemoryRun, range: Range<usize>, (number, last): (usize, SortKey)) -> Result<u64> {
        let sorter = self.sorter.clone();
        let path = sorter.options().spill.path();
        let written = match self.files.entry(number) {
            btree_map::Entry::Occupied(written) => written.into_mut(),
            btree_map::Entry::Vacant(place) => {
                let file = sorter.options().spill.create().at("create a temporary file", path)?;
                sorter.note(|stats| stats.files += 1);
                place.insert(WrittenFile { file, len: 0 })
            }
        };
        let file = &mut written.file;
        let pieces = &mut self.pieces;
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut of_entries: Vec<Stretch> = Vec::new();
        let mut records_len = 0;
        let sorted = run.entries.get(range.clone()).unwrap_or_default();
        for (number, entry) in range.clone().zip(sorted) {
            if (number - range.start).is_multiple_of(WRITE_ENTRIES) {
                of_entries.push(Stretch { entries: number..range.end.min(number + WRITE_ENTRIES), start: records_len });
            }
            let end = records_len + u64::from(entry.kept.len(entry.len));
            match stretches.last_mut() {
                Some(last) if end - last.start <= WRITE_BYTES => last.entries.end = number + 1,
                _ => stretches.push(Stretch { entries: number..number + 1, start: records_len }),
            }
            records_len = end;
        }
        let entries = sorted.len() as u64;
        let form = EntryForm::of(sorted, run.counts.get(range).unwrap_or_default());
        let parallel = !self.copies;
        append(file, pieces, &stretches, parallel, |stretch, out| {
            let entries = run.entries.get(stretch.entries.clone()).unwrap_or_default();
            if let [long] = entries {
                return Some(long.record(&run.slabs).bytes());
            }
            out.reserve_exact(WRITE_BYTES as usize);
            fetch(entries.iter().map(|entry| entry.record(&run.slabs)), |record| out.extend_from_slice(record.bytes()));
            None
        })
        .and_then(|()| {
            append(file, pieces, &of_entries, parallel, |stretch, out| {
                let entries = run.entries.get(stretch.entries.clone()).unwrap_or_default();
                let counts = run.counts.get(stretch.entries.clone()).unwrap_or_default();
                let counts = counts.iter().copied().chain(std::iter::repeat(1));
                let mut start = stretch.start;
                let entries = entries.iter().zip(counts).map(|(entry, count)| {
                    let from = start;
                    start += u64::from(entry.kept.len(entry.len));
                    let compact_len = entry.kept.compact_len().map_or(0, NonZeroU16::get);
                    FileEntry { key: entry.key(), count, start: from, len: entry.len, compact_len }
                });
                form.encode(entries, out);
                None
            })
        })
        .at("write to a temporary file", path)?;
        let len = records_len + form.len(entries);
        let records_at = written.len;
        written.len += len;
        let mut samples = self.sampling(len);
        sorted.iter().for_each(|entry| samples.pass(entry));
        let samples = samples.finish();
        self.runs.push(WrittenRun { file: number, records_at, records_len, entries, form, last, samples });
        Ok(len)
    }
}

/// Brings entries into parts by the first bits in which their keys differ, in place. Parts are in order among each other,
/// and short enough, if keys are spread evenly, to be sorted in the second-level cache.
fn distribute(mut entries: &mut [Entry]) -> Vec<&mut [Entry]> {
    let first = entries.iter().map(Entry::key).min().unwrap_or_default();
    let last = entries.iter().map(Entry::key).max().unwrap_or_default();
    let (prefix, spare_bits) = (Prefix::new(first, last), Prefix::new(first, last).of(last).leading_zeros().min(63));
    let part_of = |entry: &Entry| ((prefix.of(entry.key()) << spare_bits) >> (64 - PART_BITS)) as usize;
    let mut lens = [0; PARTS];
    for entry in &*entries {
        if let Some(len) = lens.get_mut(part_of(entry)) {
            *len += 1;
        }
    }
    // Of each part, where the entry goes that is found next.
    let mut ends = lens;
    let mut start = 0;
    for end in &mut ends {
        start += mem::replace(end, start);
    }
    let mut part_end = 0;
    for (part, len) in lens.iter().enumerate() {
        part_end += len;
        while let Some(&from) = ends.get(part).filter(|from| **from < part_end) {
            // The entry goes where it belongs, and what is there comes here, which may be the same place.
            let to = entries.get(from).map_or(part, part_of);
            let Some(end) = ends.get_mut(to) else { break };
            entries.swap(from, *end);
            *end += 1;
        }
    }
    let mut parts = Vec::with_capacity(PARTS);
    for len in lens {
        let (part, rest) = entries.split_at_mut(len);
        entries = rest;
        parts.push(part);
    }
    parts
}

/// Sorts entries by key. Half of a key is compared without a branch, and seldom leaves two that are equal.
fn sort_part(part: &mut [Entry]) {
    let group = part.first().map(|first| first.group);
    if !part.iter().all(|entry| Some(entry.group) == group) {
        part.sort_unstable_by_key(Entry::key);
        return;
    }
    part.sort_unstable_by_key(|entry| entry.high);
    for same in part.chunk_by_mut(|one, next| one.high == next.high) {
        if same.len() > 1 {
            same.sort_unstable_by_key(|entry| entry.low);
        }
    }
}

/// A piece of a file that is to be written.
struct Gathered<'a> {
    bytes: Vec<u8>,
    /// What is to be written instead: a record that is long enough for a write of its own.
    record: Option<&'a [u8]>,
}

/// Appends stretches of a run, which are filled several at a time while others are written.
fn append<'a>(
    file: &mut Box<dyn SpillFile>,
    pieces: &mut Vec<Vec<u8>>,
    stretches: &[Stretch],
    parallel: bool,
    fill: impl Fn(&Stretch, &mut Vec<u8>) -> Option<&'a [u8]> + Sync,
) -> io::Result<()> {
    let width = if parallel { rayon::current_num_threads().clamp(1, WRITE_AHEAD) } else { 1 };
    let mut full: Vec<Gathered<'a>> = Vec::new();
    let mut empty: Vec<Gathered<'a>> = Vec::new();
    let mut write = |full: &[Gathered<'a>]| {
        full.iter().try_for_each(|gathered| file.append(gathered.record.unwrap_or(&gathered.bytes)))
    };
    for ahead in stretches.chunks(width) {
        empty.truncate(ahead.len());
        empty.resize_with(ahead.len(), || Gathered { bytes: pieces.pop().unwrap_or_default(), record: None });
        let fill_one = |(gathered, stretch): (&mut Gathered<'a>, &Stretch)| {
            gathered.bytes.clear();
            gathered.record = fill(stretch, &mut gathered.bytes);
        };
        if parallel {
            let (written, ()) = rayon::join(|| write(&full), || empty.par_iter_mut().zip(ahead).for_each(fill_one));
            written?;
        } else {
            write(&full)?;
            empty.iter_mut().zip(ahead).for_each(fill_one);
        }
        mem::swap(&mut full, &mut empty);
    }
    write(&full)?;
    pieces.extend(full.into_iter().chain(empty).map(|gathered| gathered.bytes));
    Ok(())
}

/// Brings records of equal keys in order. If asked to, keeps one of equal records, with their number.
fn sort_ties(run: &mut MemoryRun, mut order: FrameOrder<'_>, collapse: bool) {
    let MemoryRun { entries, counts, slabs } = run;
    let record = |entry: &Entry| entry.record(slabs);
    let mut any_equal = false;
    for ties in entries.chunk_by_mut(|one, next| one.key() == next.key()) {
        if ties.len() > 1 {
            ties.sort_unstable_by(|one, other| order.cmp(record(one), record(other)));
            any_equal = true;
        }
    }
    if !collapse || !any_equal {
        return;
    }
    counts.reserve_exact(entries.len());
    counts.push(1);
    entries.dedup_by(|next, kept| {
        let equal = next.key() == kept.key() && order.cmp(record(next), record(kept)).is_eq();
        match counts.last_mut() {
            Some(count) if equal => *count += 1,
            _ => counts.push(1),
        }
        equal
    });
}
