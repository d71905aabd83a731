//! [`Slabs`]: the sorter's memory for records, in compact form or as frames.

use std::cmp::Ordering;
use std::num::NonZeroU16;
use std::ops::Range;

use arrow_tfrecord::{CompactForm, RecordBuffer};
use prefetch_index::prefetch_index;

/// Passed where a record is only used as it is stored.
pub(super) const AS_STORED: &CompactForm = &CompactForm::NONE;

/// Length in bytes of a slab shared by many records.
pub(super) const SLAB_BYTES: usize = 1 << 20;

/// A longer frame has a slab of its own.
const LONG_BYTES: usize = SLAB_BYTES / 8;

/// Number of bits of an offset in a slab. A record with its own slab is at the slab's start.
const OFFSET_BITS: u32 = 24;

/// Where a record is, and in which form: 48 bits of offset, then 16 bits of compact length, 0 if the record is kept as
/// its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RecordLocation(u64);

impl RecordLocation {
    const LEN_SHIFT: u32 = 48;

    /// A value that locates no record.
    pub(super) const NOWHERE: Self = Self(u64::MAX);

    pub(super) fn new(offset: u64, compact_len: u16) -> Self {
        Self(u64::from(compact_len) << Self::LEN_SHIFT | offset & ((1 << Self::LEN_SHIFT) - 1))
    }

    #[inline]
    pub(super) fn offset(self) -> u64 {
        self.0 & ((1 << Self::LEN_SHIFT) - 1)
    }

    /// Returns the same form at another offset.
    #[inline]
    pub(super) fn at(self, offset: usize) -> Self {
        Self::new(offset as u64, self.compact_len().map_or(0, NonZeroU16::get))
    }

    #[inline]
    pub(super) fn compact_len(self) -> Option<NonZeroU16> {
        NonZeroU16::new((self.0 >> Self::LEN_SHIFT) as u16)
    }

    /// Returns the length in bytes of the record as stored, given the length of its frame.
    #[inline]
    pub(super) fn len(self, len: u32) -> u32 {
        self.compact_len().map_or(len, |len| len.get().into())
    }
}

/// A record as stored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LocatedRecord<'a> {
    /// The record, possibly followed by other bytes.
    bytes: &'a [u8],
    /// The form of a compact record; `None` if the record is its frame.
    form: Option<&'a CompactForm>,
    /// Length of the record as stored.
    kept_len: u32,
    /// Length of the frame.
    pub(super) len: u32,
}

impl<'a> LocatedRecord<'a> {
    /// Creates the record that `bytes` starts with. If it is compact, it has this form.
    #[inline]
    pub(super) fn new(bytes: &'a [u8], form: &'a CompactForm, location: RecordLocation, len: u32) -> Self {
        Self { bytes, form: location.compact_len().map(|_| form), kept_len: location.len(len), len }
    }

    /// Returns the record as stored.
    #[inline]
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes.get(..self.kept_len as usize).unwrap_or_default()
    }

    /// Prefetches the record, or the two ends of a long one, because it will be used soon.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch_index(self.bytes, 0);
        prefetch_index(self.bytes, self.kept_len.saturating_sub(1) as usize);
    }

    /// Returns the frame, if the record is kept as such.
    #[inline]
    pub(super) fn frame(&self) -> Option<&'a [u8]> {
        self.form.is_none().then(|| self.bytes())
    }

    /// Appends the record to `out`. Returns false if it is invalid.
    #[inline]
    pub(super) fn restore(&self, out: &mut RecordBuffer) -> bool {
        match self.form {
            Some(form) => form.restore(self.bytes, self.kept_len as usize, self.len as usize, out),
            None => {
                let frame = self.bytes();
                out.push_frame(frame);
                !frame.is_empty()
            }
        }
    }

    /// Whether equal bytes mean equal frames.
    fn has_form_of(&self, other: &LocatedRecord<'_>) -> bool {
        match (self.form, other.form) {
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            (None, None) => true,
            _ => false,
        }
    }
}

/// Compares records by the length of their frames, then their bytes.
#[derive(Debug, Default)]
pub(super) struct FrameOrder {
    one: RecordBuffer,
    other: RecordBuffer,
}

impl FrameOrder {
    pub(super) fn cmp(&mut self, one: LocatedRecord<'_>, other: LocatedRecord<'_>) -> Ordering {
        if one.len != other.len || one.has_form_of(&other) && one.bytes() == other.bytes() {
            return one.len.cmp(&other.len);
        }
        if let (Some(one), Some(other)) = (one.frame(), other.frame()) {
            return one.cmp(other);
        }
        for (record, buffer) in [(one, &mut self.one), (other, &mut self.other)] {
            buffer.clear();
            // Damage is reported when the record is written.
            record.restore(buffer);
        }
        self.one.bytes().cmp(self.other.bytes())
    }
}

/// Records in memory.
#[derive(Debug, Default)]
pub(super) struct Slabs {
    slabs: Vec<Vec<u8>>,
    /// The slab that gets the next record, and how much of it is filled.
    open: Option<usize>,
    filled: usize,
    /// Total length in bytes.
    len: usize,
}

impl Slabs {
    /// Maximum number of slabs, limited by the bits next to the offset.
    pub(super) const MAX: usize = 1 << (RecordLocation::LEN_SHIFT - OFFSET_BITS);

    /// Returns their memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.len
    }

    /// Returns the number of slabs.
    pub(super) fn number(&self) -> usize {
        self.slabs.len()
    }

    /// Stores a record. `spare` returns slabs for reuse.
    #[inline]
    pub(super) fn keep(
        &mut self,
        form: &CompactForm,
        records: &RecordBuffer,
        record: usize,
        spare: impl FnOnce() -> Option<Vec<u8>>,
    ) -> RecordLocation {
        let start = records.record_start(record);
        let len = records.record_end(record) - start;
        if len > LONG_BYTES {
            return self.keep_long(form, records, record);
        }
        let open = self.open.unwrap_or(usize::MAX);
        let mut room = self.slabs.get_mut(open).and_then(|slab| slab.get_mut(self.filled..)).unwrap_or_default();
        if room.len() < len {
            self.open = Some(self.slabs.len());
            self.filled = 0;
            self.add(spare);
            room = self.slabs.last_mut().map(Vec::as_mut_slice).unwrap_or_default();
        }
        let offset = Self::offset(self.open.unwrap_or_default(), self.filled);
        let (kept_len, compact_len) = keep_in(form, records, record, room.get_mut(..len).unwrap_or_default());
        self.filled += kept_len;
        RecordLocation::new(offset, compact_len)
    }

    /// Adds a slab for the caller to fill.
    pub(super) fn add(&mut self, spare: impl FnOnce() -> Option<Vec<u8>>) {
        let slab = spare().unwrap_or_else(|| vec![0; SLAB_BYTES]);
        self.len += slab.len();
        self.slabs.push(slab);
    }

    /// Returns the offset of a record at this position of a slab.
    #[inline]
    pub(super) fn offset(slab: usize, place: usize) -> u64 {
        (slab as u64) << OFFSET_BITS | place as u64
    }

    #[inline]
    pub(super) fn part(&self, slab: usize, range: Range<usize>) -> &[u8] {
        self.slabs.get(slab).and_then(|slab| slab.get(range)).unwrap_or_default()
    }

    /// Prefetches the bytes at this position of a slab, if any, because they will be used soon.
    #[inline]
    pub(super) fn prefetch(&self, slab: usize, place: usize) {
        if let Some(slab) = self.slabs.get(slab) {
            prefetch_index(slab, place);
        }
    }

    #[inline]
    pub(super) fn part_mut(&mut self, slab: usize, range: Range<usize>) -> &mut [u8] {
        self.slabs.get_mut(slab).and_then(|slab| slab.get_mut(range)).unwrap_or_default()
    }

    fn keep_long(&mut self, form: &CompactForm, records: &RecordBuffer, record: usize) -> RecordLocation {
        let frame = records.slice(record..record + 1);
        let mut slab = vec![0; usize::from(u16::MAX)];
        let compact_len = form.compact(records, record, &mut slab);
        match compact_len {
            Some(len) => {
                slab.truncate(len);
                slab.shrink_to_fit();
            }
            None => slab = frame.to_vec(),
        }
        self.len += slab.len();
        let offset = Self::offset(self.slabs.len(), 0);
        self.slabs.push(slab);
        RecordLocation::new(offset, compact_len.map_or(0, |len| len as u16))
    }

    #[inline]
    pub(super) fn record<'a>(&'a self, form: &'a CompactForm, location: RecordLocation, len: u32) -> LocatedRecord<'a> {
        let offset = location.offset();
        let slab = self.slabs.get((offset >> OFFSET_BITS) as usize);
        let bytes = slab.and_then(|slab| slab.get((offset & ((1 << OFFSET_BITS) - 1)) as usize..));
        LocatedRecord::new(bytes.unwrap_or_default(), form, location, len)
    }

    /// Returns the slabs that can be reused.
    pub(super) fn into_spare(self) -> impl Iterator<Item = Vec<u8>> {
        self.slabs.into_iter().filter(|slab| slab.len() == SLAB_BYTES)
    }
}

/// Writes a record in its stored form to the start of `room`, which has the length of its frame. Returns the number of
/// bytes written, and the compact length.
#[inline]
pub(super) fn keep_in(form: &CompactForm, records: &RecordBuffer, record: usize, room: &mut [u8]) -> (usize, u16) {
    // A compact record is never longer than its frame.
    if let Some(compact_len) = form.compact(records, record, room) {
        return (compact_len, compact_len as u16);
    }
    let frame = records.slice(record..record + 1);
    if let Some(room) = room.get_mut(..frame.len()) {
        room.copy_from_slice(frame);
    }
    (frame.len(), 0)
}
