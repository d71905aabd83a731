//! [`Buckets`]: records in memory, grouped by the first bits of their keys.
//!
//! Keys that are hashes are spread evenly, so this is the only order that records are brought in until they are read.
//! Spilled records are copied unchanged. A bucket, with the records of all runs, is sorted when its records are written
//! to their shards. Nothing is moved in memory in between.

use std::num::NonZeroU16;

use arrow_tfrecord::{CompactForm, RecordBuffer};
use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::key::SortKey;
use super::slabs::{RecordLocation, SLAB_BYTES, Slabs, keep_in};

/// Length in bytes of a cell, which holds entries or records of one bucket.
pub(super) const CELL_BYTES: usize = 8 << 10;

/// Number of cells per slab.
const CELLS: usize = SLAB_BYTES / CELL_BYTES;

/// Longest frame stored in a bucket, because the rest of a cell that a frame does not fit in stays empty.
pub(super) const MAX_FRAME_LEN: usize = CELL_BYTES / 4;

/// Length in bytes of an entry, little-endian: the key, the length of the frame, and that of the compact record, 0 if
/// the record is kept as its frame.
pub(super) const BUCKET_ENTRY_LEN: usize = 12;

/// Number of entries of a full cell.
const CELL_ENTRIES: usize = CELL_BYTES / BUCKET_ENTRY_LEN;

/// Length in bytes of the checksum of a bucket's entries.
pub(super) const CHECKSUM_LEN: usize = 4;

/// Bytes to be read at once per bucket.
const BYTES_PER_BUCKET: usize = 8 << 10;

/// Maximum number of buckets: an entry and a record of each stay in the L2 cache.
const MAX_BUCKETS: usize = 1 << 11;

/// Number of records added to their buckets at a time.
const BATCH: usize = 16;

/// Approximate length in bytes of a record as stored.
const USUAL_LEN: usize = 48;

/// Number of records after which their distribution can be tested.
const TELLING_ROWS: u64 = 1 << 16;

/// Number of buckets tested for repeated keys.
const SAMPLED_BUCKETS: usize = 16;

/// Number of keys tested, of records that are not in buckets yet.
const SAMPLED_KEYS: usize = 1 << 14;

/// Maximum ratio of a bucket's records to the mean.
const MAX_SKEW: u64 = 4;

/// The number of buckets, as a number of key bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct BucketBits(u32);

impl TryFrom<u32> for BucketBits {
    type Error = &'static str;

    fn try_from(bits: u32) -> Result<Self, Self::Error> {
        if (1..=MAX_BUCKETS.ilog2()).contains(&bits) { Ok(Self(bits)) } else { Err("no such number of buckets") }
    }
}

impl BucketBits {
    /// Chooses the number of buckets for reads of about this many bytes.
    pub(super) fn new(chunk_bytes: usize) -> Self {
        Self((chunk_bytes / BYTES_PER_BUCKET).clamp(2, MAX_BUCKETS).ilog2())
    }

    /// Returns the memory in bytes of nearly empty buckets.
    pub(super) fn memory(self) -> usize {
        2 * CELL_BYTES * self.number()
    }

    /// Returns the number of buckets, a power of two.
    pub(super) fn number(self) -> usize {
        1 << self.0
    }

    #[inline]
    pub(super) fn of(self, key: u64) -> usize {
        (key >> (u64::BITS - self.0)) as usize
    }

    /// Returns the first key of a bucket; `None` after the last one.
    pub(super) fn start(self, bucket: usize) -> Option<SortKey> {
        (bucket < self.number()).then(|| SortKey::new(0, (bucket as u64) << (u64::BITS - self.0)))
    }

    /// Returns the last key of a bucket.
    pub(super) fn last(self, bucket: usize) -> SortKey {
        let next = self.start(bucket + 1).map_or(0, SortKey::key);
        SortKey::new(0, next.wrapping_sub(1))
    }

    /// Returns the bucket of a key, or the number after the last bucket if the key is of another group.
    pub(super) fn at(self, key: &SortKey) -> usize {
        if key.group() > 0 { self.number() } else { self.of(key.key()) }
    }

    /// Returns the first bucket without keys before this one.
    pub(super) fn end(self, until: &SortKey) -> usize {
        let last = until.key().checked_sub(1).map_or(0, |last| self.of(last) + 1);
        if until.group() > 0 { self.number() } else { last }
    }
}

/// Records in memory, by bucket.
#[derive(Debug)]
pub(super) struct Buckets {
    bits: BucketBits,
    slabs: Slabs,
    /// Number of the next cell, whose slab may not exist yet.
    next_cell: u32,
    /// The cells being filled, per bucket. Stored separately because they are small and used for every record.
    open: Vec<OpenCells>,
    full: Vec<FullCells>,
    rows: usize,
    /// Number of spilled records, per bucket and in total.
    gone: Vec<u64>,
    gone_rows: u64,
}

#[derive(Debug, Clone, Copy)]
struct OpenCells {
    entries: Cell,
    records: Cell,
}

/// In order: the records are in the order of the entries.
#[derive(Debug, Default)]
struct FullCells {
    entries: Vec<Cell>,
    records: Vec<Cell>,
}

/// A part of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    number: u32,
    filled: u32,
}

impl OpenCells {
    const NONE: Self = Self { entries: Cell::NONE, records: Cell::NONE };
}

impl Cell {
    /// A placeholder that is always full.
    const NONE: Self = Self { number: u32::MAX, filled: CELL_BYTES as u32 };

    fn slab(self) -> usize {
        self.number as usize / CELLS
    }

    fn start(self) -> usize {
        self.number as usize % CELLS * CELL_BYTES
    }

    fn end(self) -> usize {
        self.start() + self.filled as usize
    }

    /// If there is no room for `len` bytes, moves the cell to `full` and takes a new one.
    #[inline]
    fn make_room(&mut self, len: usize, full: &mut Vec<Self>, take: impl FnOnce() -> Self) {
        if CELL_BYTES - (self.filled as usize) < len {
            full.extend(Some(*self).filter(|cell| *cell != Self::NONE));
            *self = take();
        }
    }

    #[inline]
    fn add(&mut self, slabs: &mut Slabs, bytes: &[u8]) {
        if let Some(room) = slabs.part_mut(self.slab(), self.end()..self.end() + bytes.len()).get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.filled += bytes.len() as u32;
    }

    /// Returns the filled bytes.
    fn bytes(self, slabs: &Slabs) -> &[u8] {
        slabs.part(self.slab(), self.start()..self.end())
    }
}

/// Takes the next cell, adding a slab if needed.
fn take_cell(slabs: &mut Slabs, next: &mut u32, spare: impl FnOnce() -> Option<Vec<u8>>) -> Cell {
    if *next as usize == slabs.number() * CELLS {
        slabs.add(spare);
    }
    *next += 1;
    Cell { number: *next - 1, filled: 0 }
}

/// Iterates over all filled cells.
fn filled(full: &[Cell], open: Cell) -> impl Iterator<Item = Cell> {
    full.iter().copied().chain([open].into_iter().filter(|open| *open != Cell::NONE))
}

/// An entry of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketEntry {
    pub(super) key: u64,
    /// Where the record is kept.
    pub(super) location: RecordLocation,
    /// Length of the frame in bytes.
    pub(super) len: u32,
}

impl Buckets {
    pub(super) fn new(bits: BucketBits) -> Self {
        let mut full = Vec::new();
        full.resize_with(bits.number(), FullCells::default);
        let (open, gone) = (vec![OpenCells::NONE; bits.number()], vec![0; bits.number()]);
        Self { bits, slabs: Slabs::default(), next_cell: 0, open, full, rows: 0, gone, gone_rows: 0 }
    }

    pub(super) fn bits(&self) -> BucketBits {
        self.bits
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the memory of the records in bytes.
    pub(super) fn memory(&self) -> usize {
        self.slabs.memory()
    }

    /// Returns the slabs of the records.
    pub(super) fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// Adds records whose frames are at most [`MAX_FRAME_LEN`] long. `spare` returns slabs for reuse.
    pub(super) fn push(
        &mut self,
        form: &CompactForm,
        keys: &[SortKey],
        records: &RecordBuffer,
        mut spare: impl FnMut() -> Option<Vec<u8>>,
    ) {
        let Self { bits, slabs, next_cell, open, full, .. } = self;
        let mut take = |slabs: &mut Slabs| take_cell(slabs, next_cell, &mut spare);
        for (batch, keys) in keys.chunks(BATCH).enumerate() {
            // Prefetches the ends of this many cells together, so that the waits overlap.
            for key in keys {
                if let Some(OpenCells { entries, records }) = open.get(bits.of(key.key())) {
                    slabs.prefetch(entries.slab(), entries.end() + BUCKET_ENTRY_LEN);
                    slabs.prefetch(records.slab(), records.end() + USUAL_LEN);
                }
            }
            for (record, key) in (batch * BATCH..).zip(keys) {
                let bucket = bits.of(key.key());
                let (Some(open), Some(full)) = (open.get_mut(bucket), full.get_mut(bucket)) else { continue };
                let len = records.record_end(record) - records.record_start(record);
                let cell = &mut open.records;
                cell.make_room(len, &mut full.records, || take(slabs));
                let room = slabs.part_mut(cell.slab(), cell.end()..cell.end() + len);
                let (kept_len, compact_len) = keep_in(form, records, record, room);
                cell.filled += kept_len as u32;
                let cell = &mut open.entries;
                cell.make_room(BUCKET_ENTRY_LEN, &mut full.entries, || take(slabs));
                cell.add(slabs, &encode_entry(key.key(), len as u16, compact_len));
            }
        }
        self.rows += keys.len();
    }

    /// Adds a record that is already in its stored form.
    pub(super) fn push_kept(&mut self, entry: &Entry, record: &[u8], mut spare: impl FnMut() -> Option<Vec<u8>>) {
        let Self { bits, slabs, next_cell, open, full, .. } = self;
        let bucket = bits.of(entry.key);
        let (Some(open), Some(full)) = (open.get_mut(bucket), full.get_mut(bucket)) else { return };
        let mut take = |slabs: &mut Slabs| take_cell(slabs, next_cell, &mut spare);
        open.records.make_room(entry.len as usize, &mut full.records, || take(slabs));
        open.records.add(slabs, record);
        open.entries.make_room(BUCKET_ENTRY_LEN, &mut full.entries, || take(slabs));
        let compact_len = entry.location.compact_len().map_or(0, NonZeroU16::get);
        open.entries.add(slabs, &encode_entry(entry.key, entry.len as u16, compact_len));
        self.rows += 1;
    }

    /// Returns the cells of a bucket's entries, and those of its records.
    fn cells(&self, bucket: usize) -> (impl Iterator<Item = Cell>, impl Iterator<Item = Cell>) {
        let open = self.open.get(bucket).copied().unwrap_or(OpenCells::NONE);
        let (entries, records) = self.full.get(bucket).map(|full| (&*full.entries, &*full.records)).unwrap_or_default();
        (filled(entries, open.entries), filled(records, open.records))
    }

    /// Returns the number of rows of a bucket.
    pub(super) fn bucket_rows(&self, bucket: usize) -> usize {
        let full = self.full.get(bucket).map_or(0, |full| full.entries.len());
        let open = self.open.get(bucket).map(|open| open.entries).filter(|open| *open != Cell::NONE);
        full * CELL_ENTRIES + open.map_or(0, |open| open.filled as usize / BUCKET_ENTRY_LEN)
    }

    /// Returns the bytes of a bucket's entries and of its records, as they are written.
    pub(super) fn bytes(&self, bucket: usize) -> (impl Iterator<Item = &[u8]>, impl Iterator<Item = &[u8]>) {
        let (entries, records) = self.cells(bucket);
        (entries.map(|cell| cell.bytes(&self.slabs)), records.map(|cell| cell.bytes(&self.slabs)))
    }

    /// Returns the length in bytes of a bucket's entries and of its records.
    pub(super) fn bucket_len(&self, bucket: usize) -> (usize, usize) {
        let (_, records) = self.cells(bucket);
        (self.bucket_rows(bucket) * BUCKET_ENTRY_LEN, records.map(|cell| cell.filled as usize).sum())
    }

    /// Visits the entries of a bucket in the order of arrival.
    pub(super) fn for_each(&self, bucket: usize, mut each: impl FnMut(BucketEntry)) {
        let (entries, mut cells) = self.cells(bucket);
        let mut cell = Cell::NONE;
        let mut passed = cell.filled;
        for entry in entries.flat_map(|cell| cell.bytes(&self.slabs).as_chunks().0) {
            let (key, len, compact_len) = decode_entry(entry);
            if passed == cell.filled {
                cell = cells.next().unwrap_or(Cell::NONE);
                passed = 0;
            }
            let location = RecordLocation::new(Slabs::offset(cell.slab(), cell.start() + passed as usize), compact_len);
            passed += location.len(len);
            each(BucketEntry { key, location, len });
        }
    }

    /// Whether the keys are unsuitable for buckets. Either some buckets have far more records than others, or many
    /// records are equal, which is tested once, as soon as possible. Equal records are better merged before they are
    /// spilled. To be called after every `new_rows` rows.
    pub(super) fn are_uneven(&self, new_rows: usize) -> bool {
        let rows = self.gone_rows + self.rows as u64;
        if rows < TELLING_ROWS {
            return false;
        }
        let rows_of = |(bucket, gone): (usize, &u64)| gone + self.bucket_rows(bucket) as u64;
        let most = self.gone.iter().enumerate().map(rows_of).max().unwrap_or_default();
        let mean = rows / self.gone.len() as u64 + 1;
        most > mean * MAX_SKEW + TELLING_ROWS / 64 || rows - (new_rows as u64) < TELLING_ROWS && self.are_many_equal()
    }

    fn are_many_equal(&self) -> bool {
        let mut keys = Vec::new();
        (0..SAMPLED_BUCKETS).for_each(|bucket| self.for_each(bucket, |entry| keys.push(entry.key)));
        are_many_equal(keys)
    }

    /// Removes all records, which have been spilled, and returns their slabs.
    pub(super) fn take_slabs(&mut self) -> Slabs {
        for bucket in 0..self.bits.number() {
            let rows = self.bucket_rows(bucket) as u64;
            if let Some(gone) = self.gone.get_mut(bucket) {
                *gone += rows;
            }
        }
        self.gone_rows += self.rows as u64;
        self.open.fill(OpenCells::NONE);
        self.full.fill_with(FullCells::default);
        (self.next_cell, self.rows) = (0, 0);
        std::mem::take(&mut self.slabs)
    }
}

/// Whether some records share few keys, so that buckets would be useless for them.
pub(super) fn have_few_keys(entries: &[Entry]) -> bool {
    let every = entries.len() / SAMPLED_KEYS + 1;
    are_many_equal(entries.iter().step_by(every).map(|entry| entry.key).collect())
}

fn are_many_equal(mut keys: Vec<u64>) -> bool {
    keys.sort_unstable();
    let equal = keys.windows(2).filter(|pair| pair.first() == pair.last()).count();
    equal > keys.len() / 8
}

#[inline]
fn encode_entry(key: u64, len: u16, compact_len: u16) -> [u8; BUCKET_ENTRY_LEN] {
    let mut entry = [0; BUCKET_ENTRY_LEN];
    let (keys, lens) = entry.split_at_mut(size_of_val(&key));
    keys.copy_from_slice(&key.to_le_bytes());
    lens.copy_from_slice([len.to_le_bytes(), compact_len.to_le_bytes()].as_flattened());
    entry
}

/// Returns the key of an entry, the length of its frame, and that of the compact record.
#[inline]
fn decode_entry(entry: &[u8; BUCKET_ENTRY_LEN]) -> (u64, u32, u16) {
    let [low @ .., a, b, c, d] = entry;
    (u64::from_le_bytes(*low), u16::from_le_bytes([*a, *b]).into(), u16::from_le_bytes([*c, *d]))
}

/// Decodes the entries of a bucket as written. The first record is at `start`. Returns the end of the last one.
pub(super) fn decode_entries(entries: &[u8], mut start: u64, mut each: impl FnMut(BucketEntry)) -> u64 {
    for entry in entries.as_chunks::<BUCKET_ENTRY_LEN>().0 {
        let (key, len, compact_len) = decode_entry(entry);
        let location = RecordLocation::new(start, compact_len);
        start += u64::from(location.len(len));
        each(BucketEntry { key, location, len });
    }
    start
}
