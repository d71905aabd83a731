//! [`Cursor`]: reads the entries of one run.

use std::mem;
use std::ops::Range;

use tfrecord_framing::crc32c;

use super::buckets::{BucketBits, BucketEntry, decode_entries};
use super::entry::{Entry, Item};
use super::key::SortKey;
use super::run::{BLOCK_ENTRIES, FileEntry, FileRun, MemoryRun, Run, RunSet, Stored};
use crate::error::Result;
use crate::write::sharding::partition_point;

/// Reads the entries of one run, and holds those that were read and not yet taken. They are in order, unless the run is
/// in buckets; buckets are read whole.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    run: u32,
    /// The next entry to read and the offset of its record, or the next bucket.
    next: u64,
    start: u64,
    bucket: usize,
    /// Key of the last entry read.
    last: Option<SortKey>,
    /// Exclusive bound of the keys read, if the run is in buckets and has more.
    bound: Option<SortKey>,
    /// The first key.
    from: SortKey,
    items: Vec<Item>,
    /// Number of `items` taken.
    taken: usize,
    raw: Vec<u8>,
}

/// Number of entries decoded at a time, a whole number of blocks: what stays in the L2 cache.
const DECODE_ENTRIES: u64 = 32 * BLOCK_ENTRIES as u64;

impl Cursor {
    /// Positions the cursor at the first entry whose key is not less than `from`.
    pub(super) fn new(set: &RunSet, run: usize, from: Option<&SortKey>) -> Result<Self> {
        let mut cursor = Self { run: run as u32, from: from.copied().unwrap_or_default(), ..Self::default() };
        let Some(run) = set.runs.get(run) else { return Ok(cursor) };
        if let Some((bits, buckets)) = run.buckets() {
            cursor.bucket = bits.at(&cursor.from).clamp(buckets.start, buckets.end);
            cursor.pass_to(cursor.bucket, bits, &buckets);
        } else if let Some(from) = from {
            (cursor.next, cursor.start) = set.seek(run, from)?;
        }
        Ok(cursor)
    }

    /// Returns the items that were read and not taken.
    pub(super) fn waiting(&self) -> &[Item] {
        self.items.get(self.taken..).unwrap_or_default()
    }

    /// Returns a lower bound of the unread keys, if any are left.
    pub(super) fn read_to(&self, run: &Run) -> Option<SortKey> {
        if run.is_in_buckets() { self.bound } else { (self.next < run.entries).then(|| self.last.unwrap_or_default()) }
    }

    /// Whether there may be unread entries before `until`.
    pub(super) fn is_short(&self, run: &Run, until: Option<SortKey>) -> bool {
        self.read_to(run).is_some_and(|read_to| until.is_none_or(|until| read_to < until))
    }

    /// Reads up to the first entry that is known not to be before `until`. Of a sorted run, reads at most `max`
    /// entries.
    pub(super) fn read(&mut self, set: &RunSet, until: Option<&SortKey>, max: u64, live: bool) -> Result<()> {
        let Some(run) = set.runs.get(self.run as usize) else { return Ok(()) };
        self.items.drain(..self.taken);
        self.taken = 0;
        let live = live && run.has_dropped();
        if run.is_in_buckets() {
            let mut items = mem::take(&mut self.items);
            let read = self.read_buckets(set, until, live, &mut items);
            self.items = items;
            return read;
        }
        let wanted = until.map_or(run.entries, |until| match &run.stored {
            Stored::Memory(memory) => memory.entries.partition_point(|entry| entry.key() < *until) as u64,
            _ => run.sample_after(until),
        });
        let until = (wanted.max(self.next) + 1).min(self.next.saturating_add(max)).min(run.entries);
        self.items.reserve(until.saturating_sub(self.next) as usize);
        while self.next < until {
            let entries = self.next..until.min((self.next / DECODE_ENTRIES + 1) * DECODE_ENTRIES);
            let new = self.items.len();
            match &run.stored {
                Stored::Memory(memory) => self.take_memory(memory, entries.start as usize..entries.end as usize),
                Stored::File(file) => self.read_file(set, file, entries.clone())?,
                Stored::Buckets(_) | Stored::BucketFile(_) => {}
            }
            if live {
                keep_if(&mut self.items, new, |item| !run.is_dropped(item.entry.into()));
            }
            self.next = entries.end;
        }
        match &run.stored {
            Stored::File(file) if self.next == run.entries && self.start != file.records_len => {
                Err(set.damaged(format!("expected {} bytes of records, found {}", file.records_len, self.start)))
            }
            _ => Ok(()),
        }
    }

    /// Reads the buckets up to the one that contains `until`, including it unless `until` is its first key. No items
    /// may be waiting.
    pub(super) fn read_buckets(
        &mut self,
        set: &RunSet,
        until: Option<&SortKey>,
        live: bool,
        items: &mut Vec<Item>,
    ) -> Result<()> {
        let Some(run) = set.runs.get(self.run as usize) else { return Ok(()) };
        let Some((bits, buckets)) = run.buckets() else { return Ok(()) };
        let live = live && run.has_dropped();
        let end = until.map_or(buckets.end, |until| bits.end(until)).min(buckets.end);
        for bucket in self.bucket..end {
            let new = items.len();
            self.read_bucket(set, run, bucket, items)?;
            if live || bits.start(bucket).is_some_and(|start| start < self.from) {
                keep_if(items, new, |item| item.key() >= self.from && !(live && run.is_dropped(item.entry.into())));
            }
        }
        self.pass_to(end.max(self.bucket), bits, &buckets);
        Ok(())
    }

    fn pass_to(&mut self, bucket: usize, bits: BucketBits, buckets: &Range<usize>) {
        self.bucket = bucket;
        self.bound = bits.start(bucket).filter(|_| bucket < buckets.end);
    }

    fn take_memory(&mut self, memory: &MemoryRun, entries: Range<usize>) {
        let counts = memory.counts.get(entries.clone()).unwrap_or_default();
        let counts = counts.iter().copied().chain(std::iter::repeat(1));
        let numbers = entries.start as u32..;
        let entries = memory.entries.get(entries).unwrap_or_default();
        self.items.extend(entries.iter().zip(counts).zip(numbers).map(|((entry, count), number)| {
            let Entry { key, location, group, len } = *entry;
            Item { group, run: self.run, key, location, len, count, entry: number }
        }));
        self.last = entries.last().map(Entry::key);
    }

    fn read_file(&mut self, set: &RunSet, file: &FileRun, entries: Range<u64>) -> Result<()> {
        let Self { run, start, last, items, raw, .. } = self;
        let mut before = last.unwrap_or_default();
        let mut in_order = true;
        let mut number = entries.start as u32;
        set.read_entries(file, entries, raw, |entry| {
            let FileEntry { key, count, len, .. } = entry;
            in_order &= key >= before && entry.start == *start && len > 0 && count > 0;
            let SortKey { group, key: in_group } = key;
            items.push(Item { group, run: *run, key: in_group, location: entry.location(), len, count, entry: number });
            *start = entry.end();
            number += 1;
            in_order &= *start <= file.records_len;
            before = key;
        })?;
        *last = Some(before);
        if in_order { Ok(()) } else { Err(set.damaged("keys are not in order")) }
    }

    fn read_bucket(&mut self, set: &RunSet, run: &Run, bucket: usize, items: &mut Vec<Item>) -> Result<()> {
        let Self { run: number, raw, .. } = self;
        let mut first_entry = run.bucket_entry(bucket);
        let mut sound = true;
        let mut push = |BucketEntry { key, location, len }: BucketEntry| {
            items.push(Item { group: 0, run: *number, key, location, len, count: 1, entry: first_entry });
            first_entry += 1;
        };
        match &run.stored {
            Stored::Buckets(buckets) => {
                buckets.for_each(bucket, push);
            }
            Stored::BucketFile(file) => {
                let place = file.place(bucket);
                if place.rows == 0 {
                    return Ok(());
                }
                raw.resize(place.entries_len(), 0);
                set.read(&file.file, raw, place.start)?;
                let Some((entries, checksum)) = raw.split_last_chunk() else { return Ok(()) };
                if crc32c(entries) != u32::from_le_bytes(*checksum) {
                    return Err(set.damaged("keys have another checksum"));
                }
                let end = decode_entries(entries, place.start + raw.len() as u64, |entry| {
                    sound &= file.bits.of(entry.key) == bucket && entry.len > 0;
                    push(entry);
                });
                if !sound || end != place.end {
                    return Err(set.damaged("keys are not where they belong"));
                }
            }
            Stored::Memory(_) | Stored::File(_) => {}
        }
        Ok(())
    }

    /// Moves items to `out`: those before `limit`, including those at it if `inclusive`, or all if there is no limit.
    /// Returns whether they are in order.
    pub(super) fn take(&mut self, run: &Run, limit: Option<&SortKey>, inclusive: bool, out: &mut Vec<Item>) -> bool {
        let before = |item: &Item| limit.is_none_or(|limit| item.key() < *limit || inclusive && item.key() == *limit);
        if !run.is_in_buckets() {
            let rest = self.taken..self.items.len();
            let until = partition_point(rest.clone(), |at| self.items.get(at).is_some_and(before));
            out.extend_from_slice(self.items.get(rest.start..until).unwrap_or_default());
            self.taken = until;
            return true;
        }
        if limit.is_none_or(|limit| self.bound.is_some_and(|bound| bound <= *limit)) {
            out.extend_from_slice(self.waiting());
            self.taken = self.items.len();
        } else {
            self.items.drain(..self.taken);
            self.taken = 0;
            out.extend(self.items.iter().filter(|item| before(item)));
            self.items.retain(|item| !before(item));
        }
        false
    }
}

/// Removes the items from `new` on that `keep` rejects.
fn keep_if(items: &mut Vec<Item>, new: usize, keep: impl Fn(&Item) -> bool) {
    let mut kept = new;
    for at in new..items.len() {
        if items.get(at).is_some_and(&keep) {
            items.swap(kept, at);
            kept += 1;
        }
    }
    items.truncate(kept);
}
