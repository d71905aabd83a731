//! [`Buckets`]: records in memory by the first bits of their keys.
//!
//! Keys that are hashes spread evenly, so this is all the order that records are brought in until they are read: what is
//! spilled is copied as it stands, and a bucket is sorted, those of all runs together, when its records are written to
//! their shards. Nothing is moved in memory between.

use std::num::NonZeroU16;

use arrow_tfrecord::{CompactForm, RecordBuffer};

use super::entry::Entry;
use super::kept::{Kept, SLAB_BYTES, Slabs, keep_in};
use super::key::SortKey;

/// Memory that the entries of a bucket take at a time, or its records.
pub(super) const CELL_BYTES: usize = 8 << 10;

/// Cells of a slab.
const CELLS: usize = SLAB_BYTES / CELL_BYTES;

/// A frame that is longer has no place in a bucket: the rest of a cell that it does not fit in is left empty.
pub(super) const MAX_FRAME_LEN: usize = CELL_BYTES / 4;

/// Bytes of an entry, little-endian: the key, the length of the frame, and that of the compact record, 0 if it is kept as
/// its frame.
pub(super) const BUCKET_ENTRY_LEN: usize = 12;

/// Entries of a full cell.
const CELL_ENTRIES: usize = CELL_BYTES / BUCKET_ENTRY_LEN;

/// Bytes of the checksum of a bucket's entries.
pub(super) const CHECKSUM_LEN: usize = 4;

/// For so many bytes that may be read at a time there is a bucket.
const BYTES_PER_BUCKET: usize = 8 << 10;

/// Buckets, at most: for each an entry and a record are at hand in the second-level cache.
const MAX_BUCKETS: usize = 1 << 11;

/// Records that are put to their buckets at a time.
const BATCH: usize = 16;

/// Bytes of a record as it is kept, about.
const USUAL_LEN: usize = 48;

/// Records after which it can be told whether they spread evenly.
const TELLING_ROWS: u64 = 1 << 16;

/// Buckets of these that are looked at for keys that occur more than once.
const SAMPLED_BUCKETS: usize = 16;

/// Keys of these that are, of records that are in no buckets yet.
const SAMPLED_KEYS: usize = 1 << 14;

/// How many records of even a full bucket there may be for each that it would have if all had the same number.
const MAX_SKEW: u64 = 4;

/// The buckets of all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketBits(u32);

impl BucketBits {
    /// For what is read about so many bytes at a time.
    pub(super) fn new(chunk_bytes: usize) -> Self {
        Self((chunk_bytes / BYTES_PER_BUCKET).clamp(2, MAX_BUCKETS).ilog2())
    }

    /// Bytes that they take when there is little in each.
    pub(super) fn memory(self) -> usize {
        2 * CELL_BYTES * self.number()
    }

    /// How many there are: a power of two.
    pub(super) fn number(self) -> usize {
        1 << self.0
    }

    #[inline]
    pub(super) fn of(self, key: u64) -> usize {
        (key >> (u64::BITS - self.0)) as usize
    }

    /// The first key of a bucket. Nothing behind the last one.
    pub(super) fn start(self, bucket: usize) -> Option<SortKey> {
        (bucket < self.number()).then(|| SortKey::new(0, (bucket as u64) << (u64::BITS - self.0)))
    }

    /// The last key of a bucket.
    pub(super) fn last(self, bucket: usize) -> SortKey {
        let next = self.start(bucket + 1).map_or(0, SortKey::key);
        SortKey::new(0, next.wrapping_sub(1))
    }

    /// The bucket of a key, which is behind the last one if it is of another group.
    pub(super) fn at(self, key: &SortKey) -> usize {
        if key.group() > 0 { self.number() } else { self.of(key.key()) }
    }

    /// The first bucket that holds no key before this one.
    pub(super) fn end(self, until: &SortKey) -> usize {
        let last = until.key().checked_sub(1).map_or(0, |last| self.of(last) + 1);
        if until.group() > 0 { self.number() } else { last }
    }
}

/// Records in memory by bucket.
#[derive(Debug)]
pub(super) struct Buckets {
    bits: BucketBits,
    slabs: Slabs,
    /// The cell that is taken next, if there is a slab that it is in.
    next_cell: u32,
    /// Of each bucket, the cells that are being filled. They stand by themselves since they are few bytes, which are asked
    /// for with every record.
    open: Vec<OpenCells>,
    full: Vec<FullCells>,
    rows: usize,
    /// Of each bucket, and of all: records that have been spilled.
    gone: Vec<u64>,
    gone_rows: u64,
}

#[derive(Debug, Clone, Copy)]
struct OpenCells {
    entries: Cell,
    records: Cell,
}

/// In order: the records are in that of the entries.
#[derive(Debug, Default)]
struct FullCells {
    entries: Vec<Cell>,
    records: Vec<Cell>,
}

/// A piece of a slab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    number: u32,
    filled: u32,
}

impl OpenCells {
    const NONE: Self = Self { entries: Cell::NONE, records: Cell::NONE };
}

impl Cell {
    /// No cell: a full one.
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

    /// If there is not room for so many bytes, it is one of the full ones, and another takes its place.
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

    /// Its bytes, as far as they are filled.
    fn bytes(self, slabs: &Slabs) -> &[u8] {
        slabs.part(self.slab(), self.start()..self.end())
    }
}

/// The next cell, which may be of one more slab.
fn take_cell(slabs: &mut Slabs, next: &mut u32, spare: impl FnOnce() -> Option<Vec<u8>>) -> Cell {
    if *next as usize == slabs.number() * CELLS {
        slabs.add(spare);
    }
    *next += 1;
    Cell { number: *next - 1, filled: 0 }
}

/// All that are filled.
fn filled(full: &[Cell], open: Cell) -> impl Iterator<Item = Cell> {
    full.iter().copied().chain([open].into_iter().filter(|open| *open != Cell::NONE))
}

/// An entry of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketEntry {
    pub(super) key: u64,
    /// Where the record is.
    pub(super) kept: Kept,
    /// Bytes of the frame.
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

    /// Bytes that the records take.
    pub(super) fn memory(&self) -> usize {
        self.slabs.memory()
    }

    /// Slabs that the records are in.
    pub(super) fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// Takes the records, whose frames are not longer than [`MAX_FRAME_LEN`]. `spare` gives slabs that are to be used again.
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
            // What is at the ends of so many cells is asked for together, so that the waits overlap.
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

    /// Takes a record that is kept already.
    pub(super) fn push_kept(&mut self, entry: &Entry, record: &[u8], mut spare: impl FnMut() -> Option<Vec<u8>>) {
        let Self { bits, slabs, next_cell, open, full, .. } = self;
        let bucket = bits.of(entry.key);
        let (Some(open), Some(full)) = (open.get_mut(bucket), full.get_mut(bucket)) else { return };
        let mut take = |slabs: &mut Slabs| take_cell(slabs, next_cell, &mut spare);
        open.records.make_room(entry.len as usize, &mut full.records, || take(slabs));
        open.records.add(slabs, record);
        open.entries.make_room(BUCKET_ENTRY_LEN, &mut full.entries, || take(slabs));
        let compact_len = entry.kept.compact_len().map_or(0, NonZeroU16::get);
        open.entries.add(slabs, &encode_entry(entry.key, entry.len as u16, compact_len));
        self.rows += 1;
    }

    /// The cells of a bucket's entries, and those of its records.
    fn cells(&self, bucket: usize) -> (impl Iterator<Item = Cell>, impl Iterator<Item = Cell>) {
        let open = self.open.get(bucket).copied().unwrap_or(OpenCells::NONE);
        let (entries, records) = self.full.get(bucket).map(|full| (&*full.entries, &*full.records)).unwrap_or_default();
        (filled(entries, open.entries), filled(records, open.records))
    }

    /// Rows of a bucket.
    pub(super) fn bucket_rows(&self, bucket: usize) -> usize {
        let full = self.full.get(bucket).map_or(0, |full| full.entries.len());
        let open = self.open.get(bucket).map(|open| open.entries).filter(|open| *open != Cell::NONE);
        full * CELL_ENTRIES + open.map_or(0, |open| open.filled as usize / BUCKET_ENTRY_LEN)
    }

    /// The entries of a bucket, and then its records, as they are written.
    pub(super) fn bytes(&self, bucket: usize) -> (impl Iterator<Item = &[u8]>, impl Iterator<Item = &[u8]>) {
        let (entries, records) = self.cells(bucket);
        (entries.map(|cell| cell.bytes(&self.slabs)), records.map(|cell| cell.bytes(&self.slabs)))
    }

    /// Bytes that a bucket's entries and its records take.
    pub(super) fn bucket_len(&self, bucket: usize) -> (usize, usize) {
        let (_, records) = self.cells(bucket);
        (self.bucket_rows(bucket) * BUCKET_ENTRY_LEN, records.map(|cell| cell.filled as usize).sum())
    }

    /// Goes through the entries of a bucket, in the order in which they came.
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
            let kept = Kept::new(Slabs::offset(cell.slab(), cell.start() + passed as usize), compact_len);
            passed += kept.len(len);
            each(BucketEntry { key, kept, len });
        }
    }

    /// Whether the keys are not what buckets are for: some of these have far more records than others, or, when it can be
    /// told for the first time, many records are equal. What is alike is better brought together before it is spilled.
    /// To be asked whenever `new_rows` have come.
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

    /// Forgets all records, which have been spilled, and gives their slabs.
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

/// Whether some records have the same few keys, so that there is no use in buckets for them.
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

/// The key of an entry, the length of its frame, and that of the compact record.
#[inline]
fn decode_entry(entry: &[u8; BUCKET_ENTRY_LEN]) -> (u64, u32, u16) {
    let [low @ .., a, b, c, d] = entry;
    (u64::from_le_bytes(*low), u16::from_le_bytes([*a, *b]).into(), u16::from_le_bytes([*c, *d]))
}

/// The entries of a bucket as they were written, of which the first one's record is at `start`. Gives where the last
/// one's ends.
pub(super) fn decode_entries(entries: &[u8], mut start: u64, mut each: impl FnMut(BucketEntry)) -> u64 {
    for entry in entries.as_chunks::<BUCKET_ENTRY_LEN>().0 {
        let (key, len, compact_len) = decode_entry(entry);
        let kept = Kept::new(start, compact_len);
        start += u64::from(kept.len(len));
        each(BucketEntry { key, kept, len });
    }
    start
}
