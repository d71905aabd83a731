//! [`Run`]: sorted records in memory or in a temporary file.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use arrow_tfrecord::{CompactForm, RecordBuffer};
use serde::{Deserialize, Serialize};
use tfrecord_framing::crc32c;

use super::buckets::{BUCKET_ENTRY_LEN, BucketBits, Buckets, CHECKSUM_LEN};
use super::entry::{ENTRY_LEN, Entry, Item};
use super::key::SortKey;
use super::slabs::{AS_STORED, LocatedRecord, RecordLocation, Slabs};
use super::spill::SpillFile;
use crate::error::{AtPath, ErrorKind, Result};

/// Includes the group and the count, if these differ within a run.
const FULL_ENTRY_LEN: usize = 22;

/// Number of entries of a block, which has a checksum: about a page of a file. The last block of a run may be shorter.
pub(super) const BLOCK_ENTRIES: usize = 128;

/// Length in bytes of a block's footer: the offset in the run of its first record, and the checksum.
const BLOCK_END_LEN: usize = 12;

/// Maximum number of samples per run.
const MAX_SAMPLES: u64 = 512;

/// This many entries are read at once instead of searched further.
const SEEK_ENTRIES: u64 = BLOCK_ENTRIES as u64;

/// Minimum distance between samples, in bytes of records and entries, if the run is long.
const SAMPLE_BYTES: u64 = 64 << 10;

/// A record of a run whose key is held in memory.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) key: SortKey,
    /// Number of its entry.
    pub(super) entry: u64,
    /// Length in bytes of the records and entries before it.
    pub(super) weight: u64,
}

/// Takes samples of a run while it is written.
#[derive(Debug)]
pub(super) struct Sampling {
    samples: Vec<Sample>,
    interval: u64,
    next: u64,
    weight: u64,
    entries: u64,
}

impl Sampling {
    /// Creates the sampling of a run of about `weight` bytes of records and entries.
    pub(super) fn new(weight: u64, interval: u64) -> Self {
        let interval = (weight / MAX_SAMPLES).max(SAMPLE_BYTES.min(interval)).max(1);
        Self { samples: Vec::new(), interval, next: 0, weight: 0, entries: 0 }
    }

    #[inline]
    pub(super) fn pass(&mut self, entry: &Entry) {
        let key = entry.key();
        if self.weight >= self.next {
            self.samples.push(Sample { key, entry: self.entries, weight: self.weight });
            self.next = self.weight + self.interval;
        }
        self.entries += 1;
        self.weight += entry.weight();
    }

    pub(super) fn finish(self) -> Vec<Sample> {
        self.samples
    }
}

/// Records sorted by key, then length, then bytes, or only grouped in [`Buckets`].
#[derive(Debug)]
pub(super) struct Run {
    pub(super) stored: Stored,
    pub(super) entries: u64,
    pub(super) samples: Vec<Sample>,
    /// Index of its form in [`RunSet::forms`].
    pub(super) form: usize,
    /// Bitmap of entries dropped because an equal record in another run represents them. Allocated on first use.
    dropped: OnceLock<Box<[AtomicU64]>>,
}

#[derive(Debug)]
pub(super) enum Stored {
    Memory(MemoryRun),
    File(FileRun),
    Buckets(Buckets),
    BucketFile(BucketFile),
}

/// Sorted records in memory.
#[derive(Debug)]
pub(super) struct MemoryRun {
    pub(super) entries: Vec<Entry>,
    /// Number of equal records that each entry represents; empty if one each.
    pub(super) counts: Vec<u32>,
    pub(super) slabs: Slabs,
    /// If the entries have ranks of groups: the groups, by rank.
    pub(super) groups: Option<Arc<[u32]>>,
}

/// Sorted records in a file: first all records as stored, then all entries, in blocks.
#[derive(Debug)]
pub(super) struct FileRun {
    pub(super) file: RunFile,
    pub(super) records_at: u64,
    pub(super) records_len: u64,
    pub(super) entries: u64,
    pub(super) form: EntryForm,
    /// If the entries in the file have ranks of groups: the groups, by rank, which increase.
    pub(super) groups: Option<Arc<[u32]>>,
}

/// The file of a run.
#[derive(Debug)]
pub(super) struct RunFile {
    /// `None` after it was released.
    file: RwLock<Option<Arc<dyn SpillFile>>>,
    /// The last key, or a greater one.
    last: SortKey,
}

impl RunFile {
    pub(super) fn new(file: Option<Arc<dyn SpillFile>>, last: SortKey) -> Self {
        Self { file: RwLock::new(file), last }
    }

    /// Returns the file, unless it was released, and the last key or a greater one.
    pub(super) fn parts(&self) -> (Option<Arc<dyn SpillFile>>, SortKey) {
        (self.file.read().unwrap_or_else(PoisonError::into_inner).clone(), self.last)
    }

    /// Releases the file if all keys are before this one, or if there is none. It must not be read afterwards.
    fn release_before(&self, key: Option<&SortKey>) {
        if key.is_none_or(|key| self.last < *key) {
            self.file.write().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    #[cfg(test)]
    pub(super) fn exists(&self) -> bool {
        self.file.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Run {
    pub(super) fn new(stored: Stored, entries: u64, samples: Vec<Sample>) -> Self {
        Self { stored, entries, samples, form: 0, dropped: OnceLock::new() }
    }

    /// Marks this entry as represented by another record.
    pub(super) fn drop_entry(&self, entry: u64) {
        let words = || (0..self.entries.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        if let Some(word) = self.dropped.get_or_init(words).get((entry / 64) as usize) {
            word.fetch_or(1 << (entry % 64), Ordering::Relaxed);
        }
    }

    /// Returns the bitmap of dropped entries, if any were.
    pub(super) fn dropped(&self) -> Option<Vec<u64>> {
        Some(self.dropped.get()?.iter().map(|word| word.load(Ordering::Relaxed)).collect())
    }

    /// Sets the bitmap of dropped entries of a run without one.
    pub(super) fn set_dropped(&self, words: &[u64]) {
        self.dropped.get_or_init(|| words.iter().map(|&word| AtomicU64::new(word)).collect());
    }

    /// Whether any entry is represented by another record.
    pub(super) fn has_dropped(&self) -> bool {
        self.dropped.get().is_some()
    }

    pub(super) fn is_dropped(&self, entry: u64) -> bool {
        let word = self.dropped.get().and_then(|words| words.get((entry / 64) as usize));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (entry % 64) & 1 == 1)
    }

    /// Releases the file if all keys are before this one, or if there is none. It must not be read afterwards.
    pub(super) fn release_before(&self, key: Option<&SortKey>) {
        if let Some(file) = self.file() {
            file.release_before(key);
        }
    }

    /// Returns the file, unless the run is in memory.
    pub(super) fn file(&self) -> Option<&RunFile> {
        match &self.stored {
            Stored::File(run) => Some(&run.file),
            Stored::BucketFile(run) => Some(&run.file),
            Stored::Memory(_) | Stored::Buckets(_) => None,
        }
    }

    /// Returns the range of buckets, if the run is in buckets.
    pub(super) fn buckets(&self) -> Option<(BucketBits, Range<usize>)> {
        match &self.stored {
            Stored::Buckets(buckets) => Some((buckets.bits(), 0..buckets.bits().number())),
            Stored::BucketFile(run) => Some((run.bits, run.buckets())),
            Stored::Memory(_) | Stored::File(_) => None,
        }
    }

    /// Returns the number of a bucket's first entry.
    pub(super) fn bucket_entry(&self, bucket: usize) -> u32 {
        let first = self.buckets().map_or(0, |(_, buckets)| buckets.start);
        bucket.checked_sub(first).and_then(|at| self.samples.get(at)).map_or(0, |sample| sample.entry as u32)
    }

    /// Whether records of the same bucket are unordered.
    pub(super) fn is_in_buckets(&self) -> bool {
        self.buckets().is_some()
    }

    /// Returns an entry shortly before the first whose key is not less than this one. Every earlier key is less.
    pub(super) fn sample_before(&self, key: &SortKey) -> u64 {
        let at = self.samples.partition_point(|sample| sample.key < *key);
        at.checked_sub(1).and_then(|before| self.samples.get(before)).map_or(0, |sample| sample.entry)
    }

    /// Returns an entry shortly after the first whose key is not less than this one. No later key is less.
    pub(super) fn sample_after(&self, key: &SortKey) -> u64 {
        let at = self.samples.partition_point(|sample| sample.key < *key);
        self.samples.get(at).map_or(self.entries, |sample| sample.entry)
    }
}

/// An entry of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileEntry {
    pub(super) key: SortKey,
    pub(super) count: u32,
    /// Offset of the record in the run.
    pub(super) start: u64,
    /// Length of the frame in bytes.
    pub(super) len: u32,
    /// Length of the compact record in bytes, or 0.
    pub(super) compact_len: u16,
}

impl FileEntry {
    pub(super) fn location(&self) -> RecordLocation {
        RecordLocation::new(self.start, self.compact_len)
    }

    /// Returns the offset of the next record.
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.location().len(self.len).into())
    }
}

/// The encoding of a run's entries in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum EntryForm {
    /// All entries are of one group and represent one record each, so group and count are omitted.
    Short { group: u32 },
    /// With group and count.
    Full,
}

impl EntryForm {
    /// Chooses the shortest encoding for these entries. `counts` are their counts, or empty if one each.
    pub(super) fn of(entries: &[Entry], counts: &[u32]) -> Self {
        match (entries.first(), entries.last()) {
            (Some(first), Some(last)) if first.group == last.group && counts.iter().all(|count| *count == 1) => {
                Self::Short { group: first.group }
            }
            _ => Self::Full,
        }
    }

    fn entry_len(self) -> usize {
        match self {
            Self::Short { .. } => ENTRY_LEN,
            Self::Full => FULL_ENTRY_LEN,
        }
    }

    fn block_len(self) -> usize {
        BLOCK_ENTRIES * self.entry_len() + BLOCK_END_LEN
    }

    /// Returns the length in bytes of a run's first `entries` entries: whole blocks, or all entries.
    pub(super) fn len(self, entries: u64) -> u64 {
        entries * self.entry_len() as u64 + entries.div_ceil(BLOCK_ENTRIES as u64) * BLOCK_END_LEN as u64
    }

    /// Appends entries, starting at the first of a block.
    pub(super) fn encode(self, entries: impl Iterator<Item = FileEntry>, out: &mut Vec<u8>) {
        let mut entries = entries.peekable();
        while let Some(&FileEntry { start, .. }) = entries.peek() {
            let block = out.len();
            for FileEntry { key, count, len, compact_len, .. } in entries.by_ref().take(BLOCK_ENTRIES) {
                out.extend_from_slice(&key.key.to_le_bytes());
                out.extend_from_slice(&len.to_le_bytes());
                out.extend_from_slice(&compact_len.to_le_bytes());
                if self == Self::Full {
                    out.extend_from_slice([key.group.to_le_bytes(), count.to_le_bytes()].as_flattened());
                }
            }
            out.extend_from_slice(&start.to_le_bytes());
            // Also detects a page of the file that was not written: the checksum of zeros is not zero.
            let checksum = crc32c(out.get(block..).unwrap_or_default());
            out.extend_from_slice(&checksum.to_le_bytes());
        }
    }

    /// Decodes the entries of a block, in order. Returns `None` if the block is damaged.
    #[inline]
    fn decode(self, block: &[u8], each: impl FnMut(FileEntry)) -> Option<()> {
        let (checked, checksum) = block.split_last_chunk()?;
        if crc32c(checked) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (entries, start) = checked.split_last_chunk()?;
        let start = u64::from_le_bytes(*start);
        match self {
            Self::Short { group } => decode_entries::<ENTRY_LEN>(entries, start, |_| Some((group, 1)), each),
            Self::Full => {
                let rest = |entry: &[u8; FULL_ENTRY_LEN]| {
                    let group = u32::from_le_bytes(bytes_at(entry, ENTRY_LEN)?);
                    Some((group, u32::from_le_bytes(bytes_at(entry, ENTRY_LEN + 4)?)))
                };
                decode_entries(entries, start, rest, each)
            }
        }
    }
}

#[inline]
fn decode_entries<const LEN: usize>(
    entries: &[u8],
    mut start: u64,
    group_and_count: impl Fn(&[u8; LEN]) -> Option<(u32, u32)>,
    mut each: impl FnMut(FileEntry),
) -> Option<()> {
    for entry in entries.as_chunks::<LEN>().0 {
        let key = u64::from_le_bytes(bytes_at(entry, 0)?);
        let len = u32::from_le_bytes(bytes_at(entry, 8)?);
        let compact_len = u16::from_le_bytes(bytes_at(entry, 12)?);
        let (group, count) = group_and_count(entry)?;
        let entry = FileEntry { key: SortKey { group, key }, count, start, len, compact_len };
        start = entry.end();
        each(entry);
    }
    Some(())
}

#[inline]
fn bytes_at<const LEN: usize>(bytes: &[u8], at: usize) -> Option<[u8; LEN]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// All runs, and where those that were spilled are stored.
#[derive(Debug)]
pub(super) struct RunSet {
    pub(super) runs: Vec<Arc<Run>>,
    /// The forms of compact records. Usually all runs have the same.
    pub(super) forms: Vec<CompactForm>,
    pub(super) path: PathBuf,
}

impl RunSet {
    /// Returns the form of the compact records of a run.
    #[inline]
    pub(super) fn form(&self, run: impl FnOnce() -> u32) -> &CompactForm {
        if let [only] = &*self.forms {
            return only;
        }
        let run = self.runs.get(run() as usize);
        run.and_then(|run| self.forms.get(run.form)).unwrap_or(AS_STORED)
    }

    /// Returns the first entry of a run whose key is not less than this one, and the offset of its record.
    pub(super) fn seek(&self, run: &Run, key: &SortKey) -> Result<(u64, u64)> {
        let file = match &run.stored {
            Stored::Memory(memory) => {
                let entry = memory.entries.partition_point(|entry| entry.key() < *key);
                return Ok((entry as u64, 0));
            }
            // Its file may have been released.
            Stored::File(run_file) if run_file.file.last < *key => return Ok((run.entries, run_file.records_len)),
            Stored::File(file) => file,
            Stored::Buckets(_) | Stored::BucketFile(_) => return Ok((0, 0)),
        };
        let mut entries = run.sample_before(key)..run.sample_after(key);
        let mut raw = Vec::new();
        while entries.end - entries.start > SEEK_ENTRIES {
            let middle = entries.start + (entries.end - entries.start) / 2;
            let mut before = false;
            self.read_entries(file, middle..middle + 1, &mut raw, |entry| before = entry.key < *key)?;
            if before {
                entries.start = middle + 1;
            } else {
                entries.end = middle;
            }
        }
        // The record starts at the end of the previous one.
        let first = entries.start.saturating_sub(1);
        let (mut found, mut start) = (first, 0);
        self.read_entries(file, first..entries.end, &mut raw, |entry| {
            if entry.key < *key {
                (found, start) = (found + 1, entry.end());
            }
        })?;
        Ok((found, start))
    }

    /// Reads some entries of a run, together with their blocks.
    pub(super) fn read_entries(
        &self,
        file: &FileRun,
        entries: Range<u64>,
        raw: &mut Vec<u8>,
        mut each: impl FnMut(FileEntry),
    ) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let in_block = BLOCK_ENTRIES as u64;
        let mut number = entries.start / in_block * in_block;
        let place = file.form.len(number);
        let len = (file.form.len(entries.end.next_multiple_of(in_block).min(file.entries)) - place) as usize;
        if raw.len() < len {
            raw.resize(len, 0);
        }
        let raw = raw.get_mut(..len).unwrap_or_default();
        self.read(&file.file, raw, file.records_at + file.records_len + place)?;
        for block in raw.chunks(file.form.block_len()) {
            let mut known = true;
            let decoded = file.form.decode(block, |mut entry| {
                if let Some(groups) = &file.groups {
                    let group = groups.get(entry.key.group as usize);
                    known &= group.is_some();
                    entry.key.group = group.copied().unwrap_or_default();
                }
                if entries.contains(&number) {
                    each(entry);
                }
                number += 1;
            });
            decoded.ok_or_else(|| self.damaged("keys have another checksum"))?;
            if !known {
                return Err(self.damaged("a key is of an unknown group"));
            }
        }
        Ok(())
    }

    /// Fills `bytes` from an offset in a file.
    pub(super) fn read(&self, file: &RunFile, bytes: &mut [u8], place: u64) -> Result<()> {
        let spilled = file.file.read().unwrap_or_else(PoisonError::into_inner).clone();
        let spilled = spilled.ok_or_else(|| self.damaged("records that were to be read once are read again"))?;
        spilled.read_exact_at(bytes, place).at("read a temporary file", &self.path)
    }

    /// Returns the file and offset of an item's record, unless it is in memory.
    #[inline]
    pub(super) fn place(&self, item: &Item) -> Option<(&RunFile, u64)> {
        match self.stored(item)? {
            Stored::File(run) => Some((&run.file, run.records_at + item.location.offset())),
            Stored::BucketFile(run) => Some((&run.file, item.location.offset())),
            Stored::Memory(_) | Stored::Buckets(_) => None,
        }
    }

    /// Fills `bytes` from the stored form of a record, starting at its byte `from`.
    pub(super) fn read_part(&self, item: &Item, from: u64, bytes: &mut [u8]) -> Result<()> {
        match self.place(item) {
            Some((file, place)) => self.read(file, bytes, place + from),
            None => {
                let record = self.memory_record(item).unwrap_or_default();
                let part = record.bytes().get(from as usize..).and_then(|rest| rest.get(..bytes.len()));
                bytes.copy_from_slice(part.ok_or_else(|| self.damaged("a record is cut short"))?);
                Ok(())
            }
        }
    }

    /// Appends a record to `out`.
    pub(super) fn read_frame(&self, item: &Item, out: &mut RecordBuffer) -> Result<()> {
        let mut bytes = vec![0; item.location.len(item.len) as usize];
        self.read_part(item, 0, &mut bytes)?;
        self.restore(LocatedRecord::new(&bytes, self.form(|| item.run), item.location, item.len), out)
    }

    /// Appends a record to `out`.
    pub(super) fn restore(&self, record: LocatedRecord<'_>, out: &mut RecordBuffer) -> Result<()> {
        if record.restore(out) { Ok(()) } else { Err(self.damaged("a record has another length")) }
    }

    /// Returns a record, if it is in memory.
    #[inline]
    pub(super) fn memory_record(&self, item: &Item) -> Option<LocatedRecord<'_>> {
        match self.stored(item)? {
            Stored::Memory(memory) => Some(memory.slabs.record(self.form(|| item.run), item.location, item.len)),
            Stored::Buckets(buckets) => Some(buckets.slabs().record(self.form(|| item.run), item.location, item.len)),
            Stored::File(_) | Stored::BucketFile(_) => None,
        }
    }

    #[inline]
    fn stored(&self, item: &Item) -> Option<&Stored> {
        self.runs.get(item.run as usize).map(|run| &run.stored)
    }

    /// Creates the error for bytes that differ from those written.
    pub(super) fn damaged(&self, problem: impl Into<String>) -> crate::Error {
        ErrorKind::SpillDamaged { path: self.path.clone(), problem: problem.into() }.into()
    }
}

/// The location of a bucket in a file: its entries, their checksum, and its records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BucketPlace {
    pub(super) start: u64,
    pub(super) rows: u32,
    /// End of the records.
    pub(super) end: u64,
}

impl BucketPlace {
    /// Length in bytes of the entries and their checksum.
    pub(super) fn entries_len(&self) -> usize {
        self.rows as usize * BUCKET_ENTRY_LEN + CHECKSUM_LEN
    }
}

/// Buckets in a file, in order.
#[derive(Debug)]
pub(super) struct BucketFile {
    pub(super) file: RunFile,
    pub(super) bits: BucketBits,
    /// The first bucket.
    pub(super) first: usize,
    /// The locations of it and the following buckets.
    pub(super) places: Vec<BucketPlace>,
}

impl BucketFile {
    /// Returns the numbers of the buckets.
    pub(super) fn buckets(&self) -> Range<usize> {
        self.first..self.first + self.places.len()
    }

    pub(super) fn place(&self, bucket: usize) -> BucketPlace {
        bucket.checked_sub(self.first).and_then(|place| self.places.get(place)).copied().unwrap_or_default()
    }
}
