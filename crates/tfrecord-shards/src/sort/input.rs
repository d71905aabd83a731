//! [`SorterInput`]: takes the records of one input, and writes what does not fit in memory.

use std::cmp::Ordering;
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;
use rayon::prelude::*;

use super::key::{Prefix, SortKey};
use super::load::fetch;
use super::run::{ENTRY_LEN, Entry, FileEntry, FileRun, MemoryRun, OFFSET_BITS, Run, Sample, Sampling, Stored};
use super::spill::SpillFile;
use super::{EqualRecords, RecordSorter};
use crate::error::{AtPath, ErrorKind, Result};

/// Bytes that are gathered and written at a time.
const WRITE_BYTES: u64 = 1 << 20;

/// Parts that entries are distributed to before they are sorted.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 8;

/// Entries of a part that more than one thread sorts.
const LONG_PART: usize = 1 << 16;

/// Gathered pieces that wait to be written, at most.
const WRITE_AHEAD: usize = 8;

/// Takes the records of one input, which may be a part of the rows, or any share of them.
#[derive(Debug)]
pub struct SorterInput {
    sorter: RecordSorter,
    /// Whether the records are copies, of which none is left out, made on a thread among others.
    copies: bool,
    keys: Vec<Vec<SortKey>>,
    buffers: Vec<RecordBuffer>,
    /// Records in the buffers.
    rows: usize,
    memory: usize,
    file: Option<Box<dyn SpillFile>>,
    /// Bytes of the file.
    written: u64,
    runs: Vec<WrittenRun>,
    /// Records have been lost to an error.
    failed: bool,
}

/// A run in the input's file.
#[derive(Debug)]
struct WrittenRun {
    records_at: u64,
    records_len: u64,
    entries: u64,
    rows: u64,
    samples: Vec<Sample>,
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

/// What was in memory, sorted.
struct Sorted {
    run: MemoryRun,
    rows: u64,
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
            keys: Vec::new(),
            buffers: Vec::new(),
            rows: 0,
            memory: 0,
            file: None,
            written: 0,
            runs: Vec::new(),
            failed: false,
        }
    }

    /// Takes records and a key for each. The buffer is kept as it is until it is spilled or read.
    ///
    /// # Errors
    /// When there are not as many keys as records, or more than can be numbered.
    pub fn push(&mut self, keys: Vec<SortKey>, records: RecordBuffer) -> Result<()> {
        let refused = |problem| Err(ErrorKind::SortInput { problem }.into());
        if keys.len() != records.len() {
            return refused(format!("expected a key for each of {} records, found {} keys", records.len(), keys.len()));
        }
        if records.bytes().len() >> OFFSET_BITS > 0 || u32::try_from(records.len()).is_err() {
            return refused("a buffer holds 1 TiB, or more than 4 billion records".to_owned());
        }
        let is_long = |record| u32::try_from(records.slice(record..record + 1).len()).is_err();
        if u32::try_from(records.bytes().len()).is_err() && (0..records.len()).any(is_long) {
            return refused("a record is longer than 4 GiB".to_owned());
        }
        if keys.is_empty() {
            return Ok(());
        }
        let rows = self.rows + keys.len();
        if self.buffers.len() as u64 >= 1 << (64 - OFFSET_BITS) || u32::try_from(rows).is_err() {
            self.spill()?;
        }
        // Sorting makes an entry of every key.
        let key_bytes = keys.capacity() * size_of::<SortKey>() + keys.len() * size_of::<Entry>();
        self.memory += records.capacity() + key_bytes + size_of::<RecordBuffer>() + size_of::<Vec<SortKey>>();
        self.rows += keys.len();
        self.keys.push(keys);
        self.buffers.push(records);
        Ok(())
    }

    /// Bytes that the input holds on to, with what sorting takes beside. Spilling takes some MiB more for a while.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Sorts what is in memory and writes it to disk. No records are held afterwards.
    ///
    /// Works on the rayon pool that the call runs in, whose threads run other jobs while they wait for one another: no
    /// lock may be held that one of these takes.
    ///
    /// # Errors
    /// When the temporary file fails. The sorter is of no use then.
    pub fn spill(&mut self) -> Result<Spilled> {
        if self.rows == 0 {
            return Ok(Spilled::default());
        }
        let failed = mem::replace(&mut self.failed, true);
        let Sorted { run, rows } = self.sort();
        let before = self.written;
        self.write(&run, rows)?;
        self.failed = failed;
        let mut buffers = run.buffers;
        buffers.iter_mut().for_each(RecordBuffer::clear);
        Ok(Spilled { rows, bytes: self.written - before, buffers })
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
        let mut rows = 0;
        let mut runs = Vec::new();
        if self.rows > 0 {
            let sorted = self.sort();
            let weight = sorted.run.entries.iter().map(|entry| u64::from(entry.len) + size_of::<Entry>() as u64).sum();
            let mut samples = self.sampling(weight);
            sorted.run.entries.iter().for_each(|entry| samples.pass(entry.key(), entry.len));
            let entries = sorted.run.entries.len() as u64;
            runs.push(Run::new(Stored::Memory(sorted.run), entries, samples.finish()));
            rows += sorted.rows;
        }
        if let Some(file) = self.file.take() {
            let file: Arc<dyn SpillFile> = file.into();
            for run in self.runs {
                let WrittenRun { records_at, records_len, entries, rows: run_rows, samples } = run;
                let stored = Stored::File(FileRun { file: Arc::clone(&file), records_at, records_len });
                runs.push(Run::new(stored, entries, samples));
                rows += run_rows;
            }
        }
        self.sorter.end_input(runs, rows, self.copies)
    }

    fn sampling(&self, weight: u64) -> Sampling {
        Sampling::new(weight, self.sorter.options().chunk_bytes as u64 / 16)
    }

    /// Takes what is in memory, and sorts it by key, then length, then bytes.
    fn sort(&mut self) -> Sorted {
        let rows = mem::take(&mut self.rows);
        self.memory = 0;
        let buffers = mem::take(&mut self.buffers);
        let keys = mem::take(&mut self.keys);
        let mut entries = vec![Entry::default(); rows];
        let parts = distribute(keys, &buffers, &mut entries);
        if self.copies {
            parts.into_iter().for_each(|part| part.sort_unstable_by_key(Entry::key));
        } else {
            // Long ones, where keys are not spread evenly, are shared by threads too.
            parts.into_par_iter().for_each(|part| match part.len() {
                0..LONG_PART => part.sort_unstable_by_key(Entry::key),
                _ => part.par_sort_unstable_by_key(Entry::key),
            });
        }
        let mut run = MemoryRun { entries, counts: Vec::new(), buffers };
        sort_ties(&mut run, !self.copies && matches!(self.sorter.options().equal, EqualRecords::Spread { .. }));
        Sorted { run, rows: rows as u64 }
    }

    /// Writes a run at the end of the file.
    fn write(&mut self, run: &MemoryRun, rows: u64) -> Result<()> {
        let sorter = self.sorter.clone();
        let path = sorter.options().spill.path();
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = sorter.options().spill.create().at("create a temporary file", path)?;
                sorter.note(|stats| stats.files += 1);
                file
            }
        };
        let file = self.file.insert(file);
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut records_len = 0;
        for (number, entry) in run.entries.iter().enumerate() {
            let end = records_len + u64::from(entry.len);
            match stretches.last_mut() {
                Some(last) if end - last.start <= WRITE_BYTES => last.entries.end = number + 1,
                _ => stretches.push(Stretch { entries: number..number + 1, start: records_len }),
            }
            records_len = end;
        }
        let entries = run.entries.len() as u64;
        let parallel = !self.copies;
        append(file, &stretches, parallel, |stretch, out| {
            let entries = run.entries.get(stretch.entries.clone()).unwrap_or_default();
            if let [long] = entries {
                return Some(long.frame(&run.buffers));
            }
            out.reserve_exact(WRITE_BYTES as usize);
            fetch(entries.iter().map(|entry| entry.frame(&run.buffers)), |frame| out.extend_from_slice(frame));
            None
        })
        .and_then(|()| {
            append(file, &stretches, parallel, |stretch, out| {
                let entries = run.entries.get(stretch.entries.clone()).unwrap_or_default();
                let counts = run.counts.get(stretch.entries.clone()).unwrap_or_default();
                let counts = counts.iter().copied().chain(std::iter::repeat(1));
                let mut end = stretch.start;
                for (entry, count) in entries.iter().zip(counts) {
                    end += u64::from(entry.len);
                    FileEntry { key: entry.key(), count, end }.encode(out);
                }
                None
            })
        })
        .at("write to a temporary file", path)?;
        let len = records_len + entries * ENTRY_LEN as u64;
        let mut samples = self.sampling(len);
        run.entries.iter().for_each(|entry| samples.pass(entry.key(), entry.len));
        let samples = samples.finish();
        self.runs.push(WrittenRun { records_at: self.written, records_len, entries, rows, samples });
        self.written += len;
        sorter.note(|stats| {
            stats.runs += 1;
            stats.bytes += len;
        });
        Ok(())
    }
}

/// Makes entries of the keys, and brings those into parts by the first bits in which the keys differ. Parts are in order
/// among each other, and short enough, if keys are spread evenly, to be sorted in the second-level cache.
fn distribute<'a>(
    keys: Vec<Vec<SortKey>>,
    buffers: &[RecordBuffer],
    mut entries: &'a mut [Entry],
) -> Vec<&'a mut [Entry]> {
    let first = keys.iter().flatten().copied().min().unwrap_or_default();
    let last = keys.iter().flatten().copied().max().unwrap_or_default();
    let (prefix, spare_bits) = (Prefix::new(first, last), Prefix::new(first, last).of(last).leading_zeros().min(63));
    let part = |key: SortKey| ((prefix.of(key) << spare_bits) >> (64 - PART_BITS)) as usize;
    let mut ends = vec![0; PARTS];
    for key in keys.iter().flatten() {
        if let Some(len) = ends.get_mut(part(*key)) {
            *len += 1;
        }
    }
    let lens = ends.clone();
    let mut start = 0;
    for end in &mut ends {
        // Where the part starts, and as it is filled, the end of what is there.
        start += mem::replace(end, start);
    }
    for ((number, records), keys) in (0u64..).zip(buffers).zip(keys) {
        let mut start = 0;
        for (record, key) in keys.into_iter().enumerate() {
            let end = records.record_end(record);
            let place = number << OFFSET_BITS | start as u64;
            let SortKey { group, high, low } = key;
            if let Some(next) = ends.get_mut(part(key)) {
                if let Some(entry) = entries.get_mut(*next) {
                    *entry = Entry { high, low, place, group, len: (end - start) as u32 };
                }
                *next += 1;
            }
            start = end;
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

/// A piece of a file that is to be written.
#[derive(Default)]
struct Gathered<'a> {
    bytes: Vec<u8>,
    /// What is to be written instead: a record that is long enough for a write of its own.
    record: Option<&'a [u8]>,
}

/// Appends stretches of a run, which are filled several at a time while others are written.
fn append<'a>(
    file: &mut Box<dyn SpillFile>,
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
        empty.resize_with(ahead.len(), Gathered::default);
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
    write(&full)
}

/// Brings records of equal keys in order. If asked to, keeps one of equal records, with their number.
fn sort_ties(run: &mut MemoryRun, collapse: bool) {
    let MemoryRun { entries, counts, buffers } = run;
    let mut any_equal = false;
    for ties in entries.chunk_by_mut(|one, next| one.key() == next.key()) {
        if ties.len() > 1 {
            let frame = |entry: &Entry| entry.frame(buffers);
            ties.sort_unstable_by(|one, other| one.len.cmp(&other.len).then_with(|| frame(one).cmp(frame(other))));
            any_equal = true;
        }
    }
    if !collapse || !any_equal {
        return;
    }
    counts.reserve_exact(entries.len());
    counts.push(1);
    entries.dedup_by(|next, kept| {
        let equal = next.key() == kept.key() && next.frame(buffers).cmp(kept.frame(buffers)) == Ordering::Equal;
        match counts.last_mut() {
            Some(count) if equal => *count += 1,
            _ => counts.push(1),
        }
        equal
    });
    entries.shrink_to_fit();
    counts.shrink_to_fit();
}
