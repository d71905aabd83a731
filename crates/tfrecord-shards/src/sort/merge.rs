//! [`KeyMerge`]: merges all runs in the order of keys, one window at a time.

use std::ops::Range;
use std::sync::Arc;

use super::buckets::BucketBits;
use super::cursor::Cursor;
use super::entry::Item;
use super::key::{Prefix, SortKey};
use super::run::RunSet;
use crate::error::Result;

/// Minimum number of entries read from a run, for many runs with few entries of a chunk each.
const MIN_READ: u64 = 16;

/// Minimum number of chunks per task if runs are in buckets.
const BUCKET_TASK_CHUNKS: u64 = 16;

/// Returns the keys at which chunks end and the next ones begin, so that each chunk has about the given length.
pub(super) fn chunk_bounds(set: &RunSet, chunk_bytes: u64) -> Vec<SortKey> {
    let mut samples = Vec::new();
    for run in &set.runs {
        let mut before = 0;
        for sample in &run.samples {
            samples.push((sample.key, sample.weight - before));
            before = sample.weight;
        }
    }
    samples.sort_unstable();
    let mut bounds: Vec<SortKey> = Vec::new();
    let mut weight = 0;
    for (key, more) in samples {
        weight += more;
        if weight >= chunk_bytes {
            if bounds.last() != Some(&key) {
                bounds.push(key);
            }
            weight = 0;
        }
    }
    bounds
}

/// The runs, and the chunks in which they are read.
#[derive(Debug, Clone)]
pub(super) struct Chunks {
    pub(super) set: Arc<RunSet>,
    pub(super) bounds: Arc<[SortKey]>,
    pub(super) chunk_bytes: usize,
    /// The buckets, if all runs are in buckets.
    buckets: Option<BucketBits>,
}

impl Chunks {
    pub(super) fn new(set: Arc<RunSet>, chunk_bytes: usize) -> Self {
        let bounds = chunk_bounds(&set, chunk_bytes as u64).into();
        let mut buckets = set.runs.iter().map(|run| run.buckets().map(|(bits, _)| bits));
        let buckets = buckets.clone().all(|bits| bits.is_some()).then(|| buckets.next().flatten()).flatten();
        Self { set, bounds, chunk_bytes, buckets }
    }

    /// Minimum length of a task in bytes. A task that begins within a bucket reads the whole bucket.
    pub(super) fn task_bytes(&self) -> u64 {
        let chunks = if self.buckets.is_some() { BUCKET_TASK_CHUNKS } else { 1 };
        self.chunk_bytes as u64 * chunks
    }

    pub(super) fn len(&self) -> usize {
        self.bounds.len() + 1
    }

    /// Returns the start of a chunk; `None` for the first.
    pub(super) fn start(&self, chunk: usize) -> Option<SortKey> {
        chunk.checked_sub(1).and_then(|before| self.bounds.get(before)).copied()
    }
}

/// Number of records of buckets after which a window ends: the data that is used repeatedly while sorting them stays in
/// the L2 cache.
const BUCKET_WINDOW: usize = 1 << 14;

/// Visits the records of all runs, from one key to another.
#[derive(Debug)]
pub(super) struct KeyMerge {
    chunks: Chunks,
    cursors: Vec<Cursor>,
    /// The next bucket to read, if all runs are in buckets.
    bucket: usize,
    /// The current chunk.
    chunk: usize,
    /// No window extends past this key.
    fence: Option<SortKey>,
    /// The chunk before which the traversal ends.
    end: usize,
    /// Whether entries represented by another record are omitted.
    live: bool,
}

/// Consecutive records of one chunk. All records with the same key are in the same window.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The records: by run and in order within it, or by bucket and run, in the order of arrival.
    pub(super) items: Vec<Item>,
    /// Whether the items of each run are sorted.
    runs_sorted: bool,
    /// The start of the items of each run, or of each bucket of each run.
    parts: Vec<usize>,
    /// The records in order.
    pub(super) order: Vec<WindowPlace>,
    /// Buffer for sorting.
    starts: Vec<u32>,
    /// The chunk of these records.
    pub(super) chunk: usize,
}

/// A record in the order of a window, with the fields used most. Items are in another order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WindowPlace {
    /// The first 64 bits that distinguish the key.
    prefix: u64,
    /// The index of the item.
    pub(super) item: u32,
    /// Length of the frame in bytes.
    pub(super) len: u32,
}

impl KeyMerge {
    /// Visits these chunks.
    pub(super) fn new(chunks: &Chunks, range: Range<usize>, live: bool) -> Result<Self> {
        Self::at(chunks, chunks.start(range.start), range, live)
    }

    /// Visits these chunks, starting at a key in the first.
    pub(super) fn at(chunks: &Chunks, from: Option<SortKey>, range: Range<usize>, live: bool) -> Result<Self> {
        let cursors = 0..chunks.set.runs.len();
        let cursors = cursors.map(|run| Cursor::new(&chunks.set, run, from.as_ref())).collect::<Result<_>>()?;
        let bucket = chunks.buckets.zip(from).map_or(0, |(bits, from)| bits.at(&from));
        Ok(Self { chunks: chunks.clone(), cursors, bucket, chunk: range.start, fence: None, end: range.end, live })
    }

    /// Ends a window before this key, so that little is read beyond it.
    pub(super) fn set_fence(&mut self, key: SortKey) {
        self.fence = Some(key);
    }

    /// Reads the next non-empty window. Returns false at the end.
    pub(super) fn next(&mut self, window: &mut Window) -> Result<bool> {
        window.clear();
        let chunks = self.chunks.clone();
        let set = &*chunks.set;
        if let Some(bits) = chunks.buckets {
            return self.next_of_buckets(bits, window);
        }
        while self.chunk < self.end.min(chunks.len()) {
            let bound = chunks.bounds.get(self.chunk).copied();
            let fence = self.fence.filter(|fence| bound.is_none_or(|bound| *fence < bound));
            let until = fence.or(bound);
            self.read(set, until)?;
            // Everything before the first unread key is complete.
            let read_to = self.cursors.iter().zip(&set.runs).filter_map(|(cursor, run)| cursor.read_to(run)).min();
            let short = read_to.filter(|read_to| until.is_none_or(|until| *read_to < until));
            window.chunk = self.chunk;
            window.take(set, &mut self.cursors, short.or(until).as_ref(), false);
            match short {
                Some(key) if window.items.is_empty() => {
                    // Many records have this key. All of them are needed to distinguish them.
                    for (cursor, run) in self.cursors.iter_mut().zip(&set.runs) {
                        let mut more = MIN_READ;
                        while cursor.read_to(run).is_some_and(|read_to| read_to <= key) {
                            cursor.read(set, None, more, self.live)?;
                            more *= 2;
                        }
                    }
                    window.take(set, &mut self.cursors, Some(&key), true);
                }
                Some(_) => {}
                None if fence.is_some() => self.fence = None,
                None => self.chunk += 1,
            }
            if !window.items.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same for runs in buckets: chunks are ranges of buckets, and windows a few buckets.
    fn next_of_buckets(&mut self, bits: BucketBits, window: &mut Window) -> Result<bool> {
        let Self { chunks, cursors, bucket, chunk, fence, end, live } = self;
        while *chunk < chunks.len().min(*end) && window.items.is_empty() {
            let bound = chunks.bounds.get(*chunk).copied();
            let chunk_end = bound.map_or(bits.number(), |bound| bits.end(&bound));
            let fence_end = fence.map_or(bits.number(), |fence| bits.end(&fence));
            window.clear();
            (window.chunk, window.runs_sorted) = (*chunk, false);
            while *bucket < chunk_end.min(fence_end) && window.items.len() < BUCKET_WINDOW {
                let next = bits.start(*bucket + 1);
                for cursor in cursors.iter_mut() {
                    window.parts.push(window.items.len());
                    cursor.read_buckets(&chunks.set, next.as_ref(), *live, &mut window.items)?;
                }
                *bucket += 1;
            }
            if *bucket >= fence_end {
                *fence = None;
            }
            if *bucket >= chunk_end {
                *chunk += 1;
            }
        }
        Ok(!window.items.is_empty())
    }

    /// Reads the keys before `until`, as far as memory allows.
    fn read(&mut self, set: &RunSet, until: Option<SortKey>) -> Result<()> {
        // Approximate number of entries of a chunk of empty records.
        let most = (self.chunks.chunk_bytes / size_of::<Item>()) as u64;
        let mut short = 0;
        let mut left = most;
        for (cursor, run) in self.cursors.iter().zip(&set.runs) {
            // A bucket can only be read whole.
            if !run.is_in_buckets() {
                short += u64::from(cursor.is_short(run, until));
                left = left.saturating_sub(cursor.waiting().len() as u64);
            }
        }
        for (cursor, run) in self.cursors.iter_mut().zip(&set.runs) {
            if !cursor.is_short(run, until) {
                continue;
            }
            // The window ends at the cursor that has read least, so reading further ahead has no benefit.
            let share = left / short.max(1);
            if share > 0 || cursor.waiting().is_empty() || run.is_in_buckets() {
                let before = cursor.waiting().len();
                cursor.read(set, until.as_ref(), share.max(MIN_READ), self.live)?;
                if !run.is_in_buckets() {
                    left = left.saturating_sub((cursor.waiting().len() - before) as u64);
                }
            }
            short -= u64::from(!run.is_in_buckets());
        }
        Ok(())
    }
}

impl Window {
    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.order.clear();
        self.parts.clear();
    }

    fn take(&mut self, set: &RunSet, cursors: &mut [Cursor], limit: Option<&SortKey>, inclusive: bool) {
        self.parts.clear();
        self.runs_sorted = true;
        for (cursor, run) in cursors.iter_mut().zip(&set.runs) {
            self.parts.push(self.items.len());
            self.runs_sorted &= cursor.take(run, limit, inclusive, &mut self.items);
        }
    }

    pub(super) fn item(&self, number: u32) -> Item {
        self.items.get(number as usize).copied().unwrap_or_default()
    }

    /// Iterates over the items of every run, or of every bucket of a run.
    pub(super) fn parts(&self) -> impl Iterator<Item = &[Item]> {
        let ends = self.parts.iter().skip(1).copied().chain([self.items.len()]);
        self.parts.iter().zip(ends).map(|(start, end)| self.items.get(*start..end).unwrap_or_default())
    }

    /// Sorts the records by key, then length.
    pub(super) fn sort(&mut self) {
        let (first, last) = if self.runs_sorted {
            let first = self.parts().filter_map(|part| part.first().map(Item::key)).min();
            (first, self.parts().filter_map(|part| part.last().map(Item::key)).max())
        } else {
            (self.items.iter().map(Item::key).min(), self.items.iter().map(Item::key).max())
        };
        let prefix = Prefix::new(first.unwrap_or_default(), last.unwrap_or_default());
        let Self { items, order, runs_sorted, starts, .. } = self;
        let place =
            |(number, item): (u32, &Item)| WindowPlace { prefix: prefix.of(item.key()), item: number, len: item.len };
        order.clear();
        if *runs_sorted {
            order.extend((0..).zip(items.iter()).map(place));
            // Stable, because that sort exploits the order within the parts.
            order.sort_by_key(|place| place.prefix);
        } else {
            distribute(
                items.iter().map(|item| prefix.of(item.key())),
                (0..).zip(items.iter()).map(place),
                starts,
                order,
            );
        }
        let key = |place: &WindowPlace| items.get(place.item as usize).map(|item| (item.key(), item.len));
        for same in order.chunk_by_mut(|one, next| one.prefix == next.prefix) {
            if same.len() > 1 {
                same.sort_by_key(key);
            }
        }
    }

    /// Whether no two records have the same key. Returns false if that would take long to find out.
    pub(super) fn are_keys_distinct(&self, seen: &mut KeySieve) -> bool {
        seen.are_distinct(&self.items)
    }

    /// Returns ranges of two or more records in order with the same key and, if `same_len`, the same length.
    pub(super) fn ties(&self, same_len: bool) -> impl Iterator<Item = Range<usize>> {
        let same = move |one: &WindowPlace, next: &WindowPlace| {
            one.prefix == next.prefix
                && (!same_len || one.len == next.len)
                && self.item(one.item).key() == self.item(next.item).key()
        };
        let mut start = 0;
        self.order.chunk_by(same).filter_map(move |same| {
            let range = start..start + same.len();
            start = range.end;
            (same.len() > 1).then_some(range)
        })
    }
}

/// Maximum number of places sorted together if their prefixes are spread evenly; about one.
const EVEN: u32 = 32;

/// Sorts places by the given prefixes. Fast if these are spread evenly.
fn distribute(
    prefixes: impl ExactSizeIterator<Item = u64> + Clone,
    places: impl Iterator<Item = WindowPlace>,
    starts: &mut Vec<u32>,
    order: &mut Vec<WindowPlace>,
) {
    let bits = usize::BITS - prefixes.len().leading_zeros();
    let spare = prefixes.clone().fold(0, |all, prefix| all | prefix).leading_zeros();
    // A prefix of at most that many bits, the first that differ.
    let part = |prefix: u64| ((prefix << spare.min(63)) >> (64 - bits.min(63))) as usize;
    starts.clear();
    starts.resize(1 << bits, 0);
    let mut most = 0;
    for prefix in prefixes.clone() {
        if let Some(len) = starts.get_mut(part(prefix)) {
            *len += 1;
            most = most.max(*len);
        }
    }
    let mut start = 0;
    for len in &mut *starts {
        start += std::mem::replace(len, start);
    }
    order.resize(prefixes.len(), WindowPlace::default());
    for place in places {
        let Some(start) = starts.get_mut(part(place.prefix)) else { continue };
        if let Some(to) = order.get_mut(*start as usize) {
            *to = place;
        }
        *start += 1;
    }
    if most > EVEN {
        order.sort_unstable_by_key(|place| place.prefix);
        return;
    }
    // No place is far from its final position.
    for at in 1..order.len() {
        let mut to = at;
        while let Some([before, place]) = to.checked_sub(1).and_then(|before| order.get_mut(before..=to))
            && before.prefix > place.prefix
        {
            std::mem::swap(before, place);
            to -= 1;
        }
    }
}

/// Tests whether any of many keys are equal, without sorting them.
#[derive(Debug, Default)]
pub(super) struct KeySieve {
    /// One bit per hash value: in `once` for the first key that has it, in `twice` for a second key.
    once: Vec<u64>,
    twice: Vec<u64>,
    left: Vec<SortKey>,
}

impl KeySieve {
    /// Bits of the hash range per key. About one key in this many is tested twice.
    const BITS_PER_KEY: usize = 32;

    fn are_distinct(&mut self, items: &[Item]) -> bool {
        let Self { once, twice, left } = self;
        let words = (items.len() * Self::BITS_PER_KEY).next_power_of_two().max(64) / 64;
        let shift = 64 - (words * 64).trailing_zeros();
        for bits in [&mut *once, &mut *twice] {
            bits.clear();
            bits.resize(words, 0);
        }
        // Fibonacci hashing, by the golden ratio, because keys may not be hashes.
        let hash = |item: &Item| item.key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift;
        let mut again = 0;
        for item in items {
            let hash = hash(item);
            if let Some(word) = once.get_mut((hash / 64) as usize) {
                let bit = 1 << (hash % 64);
                if *word & bit != 0 {
                    again += 1;
                    if let Some(word) = twice.get_mut((hash / 64) as usize) {
                        *word |= bit;
                    }
                }
                *word |= bit;
            }
        }
        if again > items.len() / 8 {
            return false;
        }
        let is_left = |item: &&Item| {
            let hash = hash(item);
            twice.get((hash / 64) as usize).is_some_and(|word| word >> (hash % 64) & 1 == 1)
        };
        left.clear();
        if again > 0 {
            left.extend(items.iter().filter(is_left).map(Item::key));
        }
        left.sort_unstable();
        left.windows(2).all(|pair| pair.first() != pair.last())
    }
}
