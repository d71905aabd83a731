//! [`RecordBuffer`]: framed records in memory.

use std::ops::Range;

use tfrecord_framing::{FOOTER_LEN, HEADER_LEN};

/// Complete framed records, contiguous as in a TFRecord file, and the end position of each.
///
/// The buffer keeps its allocation when it is [cleared](Self::clear), so one buffer serves any number of batches.
#[derive(Debug, Clone)]
pub struct RecordBuffer {
    /// Longer than the filled part. The rest is already initialised, which avoids clearing it again.
    bytes: Vec<u8>,
    filled: usize,
    /// 0, then the end of each record in `bytes`.
    bounds: Vec<usize>,
}

impl Default for RecordBuffer {
    fn default() -> Self {
        Self::with_capacity(0, 0)
    }
}

impl RecordBuffer {
    /// Creates a buffer with capacity for `bytes` framed bytes of `records` records.
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

    /// All records, framed.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or_default()
    }

    /// The end of record `index`, in bytes from the buffer's start. For an index past the last record, the total
    /// length.
    pub fn record_end(&self, index: usize) -> usize {
        self.record_start(index.saturating_add(1))
    }

    /// The start of each of `records`, followed by the end of the last: one more position than records. `None` if the
    /// range is out of bounds.
    pub fn record_bounds(&self, records: Range<usize>) -> Option<&[usize]> {
        self.bounds.get(records.start..=records.end)
    }

    /// The start of record `index`, in bytes. For an index past the last record, the total length.
    pub fn record_start(&self, index: usize) -> usize {
        self.bounds.get(index).copied().unwrap_or(self.filled)
    }

    /// The payload of record `index`, without its frame. Empty for an index past the last record.
    pub fn payload(&self, index: usize) -> &[u8] {
        let frame = self.record_start(index)..self.record_end(index);
        self.bytes.get(frame.start + HEADER_LEN..frame.end.saturating_sub(FOOTER_LEN)).unwrap_or_default()
    }

    /// The framed bytes of `records`. A range past the last record is truncated to it.
    pub fn slice(&self, records: Range<usize>) -> &[u8] {
        let start = self.record_start(records.start);
        let end = self.record_start(records.end).max(start);
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// Appends a framed record. The caller ensures that `frame` is exactly one frame.
    pub fn push_frame(&mut self, frame: &[u8]) {
        let mut spare = self.spare(frame.len());
        let (start, end) = (spare.start(), spare.start() + frame.len());
        if let Some(room) = spare.bytes.get_mut(start..end) {
            room.copy_from_slice(frame);
            spare.push_record(end);
        }
    }

    /// Allocated bytes, filled or not.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.bounds.capacity() * size_of::<usize>()
    }

    /// Removes all records and keeps the allocation.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Keeps only the first `len` records.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.filled = self.record_start(len);
        self.bounds.truncate(len + 1);
    }

    /// Returns room for `additional` bytes after the last record. Its contents are unspecified.
    #[inline]
    pub(crate) fn spare(&mut self, additional: usize) -> Spare<'_> {
        let needed = self.filled + additional;
        if self.bytes.len() < needed {
            self.bytes.resize(needed, 0);
        }
        Spare { bytes: &mut self.bytes, filled: &mut self.filled, bounds: &mut self.bounds }
    }
}

/// The unused part of a [`RecordBuffer`] after its last record, for the next records.
pub(crate) struct Spare<'a> {
    /// The whole buffer, so that positions in it are positions in the file.
    pub(crate) bytes: &'a mut [u8],
    filled: &'a mut usize,
    bounds: &'a mut Vec<usize>,
}

impl Spare<'_> {
    /// The start of the next record.
    pub(crate) fn start(&self) -> usize {
        *self.filled
    }

    /// Commits the bytes up to `end` as a record.
    #[inline]
    pub(crate) fn push_record(&mut self, end: usize) {
        *self.filled = end;
        self.bounds.push(end);
    }
}
