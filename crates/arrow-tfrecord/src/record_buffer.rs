//! [`RecordBuffer`]: framed records in memory.

use std::ops::Range;

use tfrecord_framing::{FOOTER_LEN, HEADER_LEN};

/// Whole framed records, one behind the other, as they stand in a TFRecord file, and where each ends.
///
/// The buffer keeps its allocation when it is [cleared](Self::clear), so one buffer serves any number of batches.
#[derive(Debug, Clone)]
pub struct RecordBuffer {
    /// Longer than what is filled: the rest has been written before, which saves clearing it again.
    bytes: Vec<u8>,
    filled: usize,
    /// Zero, and where each record ends in `bytes`.
    bounds: Vec<usize>,
}

impl Default for RecordBuffer {
    fn default() -> Self {
        Self::with_capacity(0, 0)
    }
}

impl RecordBuffer {
    /// A buffer with room for so many framed bytes of so many records.
    pub fn with_capacity(bytes: usize, records: usize) -> Self {
        let mut bounds = Vec::with_capacity(1 + records);
        bounds.push(0);
        Self { bytes: Vec::with_capacity(bytes), filled: 0, bounds }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every record, framed.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or_default()
    }

    /// The byte behind record `index`, counted from the buffer's start; the length of the whole for an index past
    /// the last record.
    pub fn record_end(&self, index: usize) -> usize {
        self.record_start(index.saturating_add(1))
    }

    /// Where some of the records start, and where the last of them ends: one place more than there are records. None for a
    /// range that is not of this buffer.
    pub fn record_bounds(&self, records: Range<usize>) -> Option<&[usize]> {
        self.bounds.get(records.start..=records.end)
    }

    /// The byte at which record `index` starts; the length of the whole for an index past the last record.
    pub fn record_start(&self, index: usize) -> usize {
        self.bounds.get(index).copied().unwrap_or(self.filled)
    }

    /// Record `index` by itself, without its frame; nothing for an index past the last record.
    pub fn payload(&self, index: usize) -> &[u8] {
        let frame = self.record_start(index)..self.record_end(index);
        self.bytes.get(frame.start + HEADER_LEN..frame.end.saturating_sub(FOOTER_LEN)).unwrap_or_default()
    }

    /// Some of the records, framed. A range that reaches past the last record ends with it.
    pub fn slice(&self, records: Range<usize>) -> &[u8] {
        let start = self.record_start(records.start);
        let end = self.record_start(records.end).max(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Adds a record that is framed already. That `frame` is one whole frame, no more and no less, is for the caller to
    /// see to.
    pub fn push_frame(&mut self, frame: &[u8]) {
        let mut spare = self.spare(frame.len());
        let (start, end) = (spare.start(), spare.start() + frame.len());
        if let Some(room) = spare.bytes.get_mut(start..end) {
            room.copy_from_slice(frame);
            spare.push_record(end);
        }
    }

    /// Bytes that the buffer holds on to, filled or not.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.bounds.capacity() * size_of::<usize>()
    }

    /// Drops the records and keeps the allocation.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Drops all records but the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.filled = self.record_start(len);
        self.bounds.truncate(len + 1);
    }

    /// Room for `additional` bytes behind the last record. What it holds is of no meaning.
    #[inline]
    pub(crate) fn spare(&mut self, additional: usize) -> Spare<'_> {
        let needed = self.filled + additional;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        Spare { bytes: &mut self.bytes, filled: &mut self.filled, bounds: &mut self.bounds }
    }
}

/// Room behind the last record of a [`RecordBuffer`], for its next records.
pub(crate) struct Spare<'a> {
    /// The whole buffer, so that positions in it are the positions in the file.
    pub(crate) bytes: &'a mut [u8],
    filled: &'a mut usize,
    bounds: &'a mut Vec<usize>,
}

impl Spare<'_> {
    /// Where the next record starts.
    pub(crate) fn start(&self) -> usize {
        *self.filled
    }

    /// The bytes up to `end` are one more record.
    #[inline]
    pub(crate) fn push_record(&mut self, end: usize) {
        *self.filled = end;
        self.bounds.push(end);
    }
}
