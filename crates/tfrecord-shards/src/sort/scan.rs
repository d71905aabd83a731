//! Scans the keys: counts rows and bytes, and distinguishes equal records.

use std::collections::HashMap;
use std::mem;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use arrow_tfrecord::RecordBuffer;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::RecordSorter;
use super::entry::Item;
use super::input::SorterInput;
use super::key::SortKey;
use super::load::{Comparison, LoadedRecords};
use super::merge::{Chunks, KeyMerge, KeySieve, Window, WindowPlace};
use super::run::RunSet;
use super::slabs::FrameOrder;
use crate::error::Result;

/// Number of parts of the scan per thread: enough for all threads to end at about the same time.
const PARTS_PER_THREAD: usize = 4;

/// Length in bytes of the copies made at a time.
const COPY_BYTES: usize = 1 << 20;

/// Minimum number of copies of one record that are made by several threads.
const MANY_COPIES: u64 = 1 << 12;

/// Derives another hash from the shuffle's seed: "tfrcopy".
const COPY_SEED: u64 = 0x74_6672_636f_7079;

/// Totals of one group in one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) group: u32,
    pub(super) chunk: usize,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// Counts the records, by group and chunk, in order.
pub(super) fn count(chunks: &Chunks) -> Result<Vec<Tally>> {
    scan(chunks, true, || (), |(), _| Ok(()), |()| Ok(()))
}

/// Counts the records as [`count`] does, and makes copies of those that represent several. If there are copies, the
/// counts are not valid.
pub(super) fn spread(chunks: &Chunks, copies: &Copies) -> Result<Vec<Tally>> {
    let many = Mutex::new(Vec::new());
    let begin = || Spread {
        chunks,
        copies,
        block: CopyBlock::default(),
        many: Vec::new(),
        loaded: LoadedRecords::default(),
        sieve: KeySieve::default(),
    };
    let end = |mut spread: Spread<'_>| {
        many.lock().unwrap_or_else(PoisonError::into_inner).append(&mut spread.many);
        spread.block.flush(copies)
    };
    let tallies = scan(chunks, false, begin, Spread::window, end)?;
    for (item, number) in many.into_inner().unwrap_or_else(PoisonError::into_inner) {
        copy_many(&chunks.set, &item, number, copies)?;
    }
    Ok(tallies)
}

/// Visits all windows, several in parallel.
fn scan<S>(
    chunks: &Chunks,
    live: bool,
    begin: impl Fn() -> S + Sync,
    visit: impl Fn(&mut S, &mut Window) -> Result<()> + Sync,
    end: impl Fn(S) -> Result<()> + Sync,
) -> Result<Vec<Tally>> {
    let parts = (PARTS_PER_THREAD * rayon::current_num_threads()).min(chunks.len());
    let parts: Vec<_> = (0..parts).map(|at| at * chunks.len() / parts..(at + 1) * chunks.len() / parts).collect();
    let scan_part = |part: Range<usize>| {
        let mut tallies = Vec::new();
        let mut window = Window::default();
        let mut merge = KeyMerge::new(chunks, part, live)?;
        let mut state = begin();
        while merge.next(&mut window)? {
            tally(&window, &mut tallies);
            visit(&mut state, &mut window)?;
        }
        end(state)?;
        Ok(tallies)
    };
    let tallies: Vec<Vec<Tally>> = parts.into_par_iter().map(scan_part).collect::<Result<_>>()?;
    Ok(tallies.concat())
}

fn tally(window: &Window, tallies: &mut Vec<Tally>) {
    let mut groups = Vec::new();
    for part in window.parts() {
        for same in part.chunk_by(|one, next| one.group == next.group) {
            let bytes = same.iter().map(|item| u64::from(item.len)).sum::<u64>();
            groups.extend(same.first().map(|first| (first.group, same.len() as u64, bytes)));
        }
    }
    groups.sort_unstable();
    for (group, rows, bytes) in groups {
        match tallies.last_mut() {
            Some(last) if last.group == group && last.chunk == window.chunk => {
                last.rows += rows;
                last.bytes += bytes;
            }
            _ => tallies.push(Tally { group, chunk: window.chunk, rows, bytes }),
        }
    }
}

/// Distinguishes the equal records of a window.
struct Spread<'a> {
    chunks: &'a Chunks,
    copies: &'a Copies,
    block: CopyBlock,
    /// Records that need many copies, and their number.
    many: Vec<(Item, u64)>,
    loaded: LoadedRecords,
    sieve: KeySieve,
}

impl Spread<'_> {
    fn window(&mut self, window: &mut Window) -> Result<()> {
        let stand_for_many = window.items.iter().any(|item| item.count > 1);
        if !stand_for_many && window.are_keys_distinct(&mut self.sieve) {
            return Ok(());
        }
        window.sort();
        let ties: Vec<Range<usize>> = if stand_for_many {
            let alone = |at: &usize| window.order.get(*at).is_some_and(|place| window.item(place.item).count > 1);
            let mut ties = window.ties(false).collect::<Vec<_>>();
            let mut next = 0;
            let mut gaps = Vec::new();
            for tie in &ties {
                gaps.extend((next..tie.start).filter(alone));
                next = tie.end;
            }
            gaps.extend((next..window.order.len()).filter(alone));
            ties.extend(gaps.into_iter().map(|at| at..at + 1));
            ties.sort_unstable_by_key(|tie| tie.start);
            ties
        } else {
            window.ties(false).collect()
        };
        let mut batch: Vec<Range<usize>> = Vec::new();
        let mut batch_bytes = 0;
        for tie in ties {
            let places = window.order.get(tie.clone()).unwrap_or_default();
            let bytes = places.iter().map(|place| place.len as usize).sum::<usize>();
            if bytes > self.chunks.chunk_bytes {
                self.long(window, &mut places.to_vec())?;
                continue;
            }
            if batch_bytes + bytes > self.chunks.chunk_bytes {
                self.batch(window, &batch)?;
                batch.clear();
                batch_bytes = 0;
            }
            batch.push(tie);
            batch_bytes += bytes;
        }
        self.batch(window, &batch)
    }

    /// Handles ties that can be loaded together.
    fn batch(&mut self, window: &Window, ties: &[Range<usize>]) -> Result<()> {
        if ties.is_empty() {
            return Ok(());
        }
        let set = &*self.chunks.set;
        self.loaded.shrink(2 * self.chunks.chunk_bytes);
        let mut loaded = mem::take(&mut self.loaded);
        let order = |tie: &Range<usize>| window.order.get(tie.clone()).unwrap_or_default();
        let mut places: Vec<_> = ties.iter().flat_map(order).copied().collect();
        loaded.load(set, window, &places)?;
        let mut rest = places.as_mut_slice();
        let mut frame = RecordBuffer::default();
        for tie in ties {
            let Some((same, later)) = rest.split_at_mut_checked(tie.len()) else { break };
            rest = later;
            let record = |place: &WindowPlace| loaded.record(set, window, place);
            let mut order = FrameOrder::default();
            same.sort_unstable_by(|one, other| order.cmp(record(one), record(other)));
            for equal in same.chunk_by(|one, next| order.cmp(record(one), record(next)).is_eq()) {
                let rows = self.drop_others(window, equal, &HashMap::new());
                let Some(place) = equal.first().filter(|_| rows > 1) else { continue };
                let item = window.item(place.item);
                if rows > MANY_COPIES {
                    self.many.push((item, rows - 1));
                } else {
                    frame.clear();
                    set.restore(record(place), &mut frame)?;
                    self.block.push(self.copies, item.key(), 1..rows, frame.bytes())?;
                }
            }
        }
        self.loaded = loaded;
        Ok(())
    }

    /// Handles a tie of records that are too long, or too many, to be loaded together.
    fn long(&mut self, window: &Window, places: &mut [WindowPlace]) -> Result<()> {
        let set = &*self.chunks.set;
        // First collapses equal records that can be loaded together, because comparing records on disk in pairs is
        // slow.
        let (mut firsts, mut rows_of) = (Vec::new(), HashMap::new());
        let mut rest = places;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fit = rest.iter().take_while(|place| {
                bytes += place.len as usize;
                bytes <= self.chunks.chunk_bytes
            });
            let fit = fit.count().max(1);
            let (part, later) = mem::take(&mut rest).split_at_mut(fit);
            rest = later;
            if part.len() == 1 {
                firsts.extend_from_slice(part);
                continue;
            }
            self.loaded.load(set, window, part)?;
            let record = |place: &WindowPlace| self.loaded.record(set, window, place);
            let mut order = FrameOrder::default();
            part.sort_unstable_by(|one, other| order.cmp(record(one), record(other)));
            for equal in part.chunk_by(|one, next| order.cmp(record(one), record(next)).is_eq()) {
                let Some(first) = equal.first() else { continue };
                rows_of.insert(first.item, self.drop_others(window, equal, &HashMap::new()));
                firsts.push(*first);
            }
        }
        let mut comparison = Comparison::default();
        comparison.sort(set, &window.items, &mut firsts)?;
        let mut rest = firsts.as_slice();
        while let Some(first) = rest.first() {
            let first = window.item(first.item);
            let mut equal = 1;
            while let Some(next) = rest.get(equal)
                && comparison.compare(set, &first, &window.item(next.item))?.is_eq()
            {
                equal += 1;
            }
            let (same, later) = rest.split_at(equal);
            let rows = self.drop_others(window, same, &rows_of);
            if rows > 1 {
                self.many.push((first, rows - 1));
            }
            rest = later;
        }
        Ok(())
    }

    /// Lets the first of equal records represent all. Returns the number of rows; `known` has those already counted for
    /// some records.
    fn drop_others(&self, window: &Window, equal: &[WindowPlace], known: &HashMap<u32, u64>) -> u64 {
        for place in equal.iter().skip(1) {
            let item = window.item(place.item);
            if let Some(run) = self.chunks.set.runs.get(item.run as usize) {
                run.drop_entry(item.entry.into());
            }
        }
        let rows =
            |place: &WindowPlace| known.get(&place.item).copied().unwrap_or(window.item(place.item).count.into());
        equal.iter().map(rows).sum()
    }
}

/// Makes copies of one record, in parallel.
fn copy_many(set: &RunSet, item: &Item, number: u64, copies: &Copies) -> Result<()> {
    let mut frame = RecordBuffer::default();
    set.read_frame(item, &mut frame)?;
    let frame = frame.bytes();
    let at_once = (COPY_BYTES as u64 / u64::from(item.len).max(1)).max(1);
    let block = |block: u64| {
        let from = 1 + block * at_once;
        let mut made = CopyBlock::default();
        made.push(copies, item.key(), from..(from + at_once).min(number + 1), frame)?;
        made.flush(copies)
    };
    let blocks = 0..number.div_ceil(at_once);
    if frame.len() > COPY_BYTES {
        // In sequence, because each takes that much memory.
        blocks.into_iter().try_for_each(block)
    } else {
        blocks.into_par_iter().try_for_each(block)
    }
}

/// Copies that are not sorted yet.
#[derive(Default)]
struct CopyBlock {
    keys: Vec<SortKey>,
    records: RecordBuffer,
}

impl CopyBlock {
    /// Adds copies of a record, by their numbers.
    fn push(&mut self, copies: &Copies, key: SortKey, numbers: Range<u64>, frame: &[u8]) -> Result<()> {
        for number in numbers {
            self.keys.push(copies.key(key, number));
            self.records.push_frame(frame);
            if self.records.bytes().len() >= COPY_BYTES {
                self.flush(copies)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, copies: &Copies) -> Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        copies.push(&self.keys, &self.records)?;
        self.keys.clear();
        self.records.clear();
        Ok(())
    }
}

/// Collects the copies of equal records, and sorts them as one further input per thread.
#[derive(Debug)]
pub(super) struct Copies {
    sorter: RecordSorter,
    seed: u64,
    /// Memory limit of each of these inputs, in bytes.
    input_bytes: usize,
    idle: Mutex<Vec<SorterInput>>,
}

impl Copies {
    pub(super) fn new(sorter: RecordSorter, seed: u64) -> Self {
        let input_bytes = sorter.options().copy_bytes / rayon::current_num_threads().max(1);
        Self { sorter, seed: seed ^ COPY_SEED, input_bytes, idle: Mutex::default() }
    }

    /// Returns the key of a copy, numbered from 1: uniform, and independent of the other records.
    fn key(&self, key: SortKey, number: u64) -> SortKey {
        let bytes = [key.key().to_le_bytes(), number.to_le_bytes()];
        SortKey::new(key.group(), xxh3_64_with_seed(bytes.as_flattened(), self.seed))
    }

    fn push(&self, keys: &[SortKey], records: &RecordBuffer) -> Result<()> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut input = idle.unwrap_or_else(|| self.sorter.copies());
        input.push(keys, records)?;
        if input.filled_memory() > self.input_bytes {
            input.spill()?;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(input);
        Ok(())
    }

    /// Finishes the inputs and returns whether there are any copies.
    pub(super) fn finish(self) -> Result<bool> {
        let inputs = self.idle.into_inner().unwrap_or_else(PoisonError::into_inner);
        let any = !inputs.is_empty();
        inputs.into_par_iter().try_for_each(|mut input| {
            if input.has_spilled() {
                input.spill()?;
            }
            input.finish()
        })?;
        Ok(any)
    }
}
