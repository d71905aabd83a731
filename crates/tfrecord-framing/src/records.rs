//! Batches of records: [`Records`] owns its buffer, [`Frames`] borrows the decoder's.

use std::{iter::FusedIterator, ops::Range};

use crate::{FOOTER_LEN, HEADER_LEN, Position, frame::body};

/// Decoded records: their payloads in a single buffer, and the position of each.
///
/// Record `i` is `payloads()[ends()[i - 1]..ends()[i]]`; the first starts at 0. Reusing a cleared value does not
/// allocate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    payloads: Vec<u8>,
    ends: Vec<usize>,
    positions: Vec<Position>,
}

impl Records {
    /// Creates an empty value.
    pub const fn new() -> Self {
        Self { payloads: Vec::new(), ends: Vec::new(), positions: Vec::new() }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the payload of record `i`.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)?;
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.payloads.get(start..end)
    }

    /// Iterates over the payloads, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + FusedIterator + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.payloads[std::mem::replace(&mut start, end)..end])
    }

    /// Returns all payloads, concatenated.
    pub fn payloads(&self) -> &[u8] {
        &self.payloads
    }

    /// Returns the end of each payload in [`payloads`](Self::payloads), in bytes.
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Returns the position of each record: its number, and the byte at which its frame (not its payload) starts.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Removes all records and retains the memory.
    pub fn clear(&mut self) {
        self.payloads.clear();
        self.ends.clear();
        self.positions.clear();
    }

    /// Returns the allocated memory in bytes, used or not.
    pub fn memory_size(&self) -> usize {
        self.payloads.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.positions.capacity() * size_of::<Position>()
    }
}

/// Whole, consecutive frames, borrowed from the bytes in which [`RecordDecoder::decode_frames`] found them.
///
/// [`RecordDecoder::decode_frames`]: crate::RecordDecoder::decode_frames
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    /// The end of each frame; the first starts at 0.
    ends: &'a [usize],
    first: Position,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(bytes: &'a [u8], ends: &'a [usize], first: Position) -> Self {
        Self { bytes: &bytes[..ends.last().copied().unwrap_or_default()], ends, first }
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the frames, including headers and footers.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Iterates over the frames, in order, with the position of each.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = (&'a [u8], Position)> + FusedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.iter()
            .map(move |(payload, position)| (&bytes[payload.start - HEADER_LEN..payload.end + FOOTER_LEN], position))
    }

    /// Iterates over the records, in order: the range of the payload in [`bytes`](Self::bytes), and the record's
    /// position (its number, and the byte at which its frame, not its payload, starts).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Range<usize>, Position)> + FusedIterator + Clone + use<'a> {
        let (mut start, mut position) = (0, self.first);
        self.ends.iter().map(move |&end| {
            let item = (start + HEADER_LEN..end - FOOTER_LEN, position);
            position.record += 1;
            position.byte += (end - start) as u64;
            start = end;
            item
        })
    }
}

/// The destination of decoded records, called with one whole frame after the other.
pub(crate) trait Sink {
    fn push(&mut self, frame: &[u8], position: Position);
}

impl Sink for Records {
    #[inline]
    fn push(&mut self, frame: &[u8], position: Position) {
        self.payloads.extend_from_slice(body(frame).0);
        self.ends.push(self.payloads.len());
        self.positions.push(position);
    }
}

/// The payload of a single record.
impl Sink for Vec<u8> {
    #[inline]
    fn push(&mut self, frame: &[u8], _position: Position) {
        self.extend_from_slice(body(frame).0);
    }
}

/// Discards the records; the caller uses the frames in the input.
impl Sink for () {
    #[inline]
    fn push(&mut self, _frame: &[u8], _position: Position) {}
}

/// Calls a function with every frame.
pub(crate) struct Each<F>(pub(crate) F);

impl<F: FnMut(&[u8], Position)> Sink for Each<F> {
    #[inline]
    fn push(&mut self, frame: &[u8], position: Position) {
        self.0(frame, position);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::append_record;

    #[test]
    fn records_are_found_by_number_and_in_order() {
        let mut records = Records::new();
        let all: [&[u8]; 4] = [b"", b"first", b"", b"last"];
        for (record, byte) in [0, 16, 37, 53].into_iter().enumerate() {
            let mut frame = Vec::new();
            let fill = |payload: &mut Vec<u8>| {
                payload.extend_from_slice(all[record]);
                Ok::<_, Infallible>(())
            };
            append_record(&mut frame, fill).unwrap();
            records.push(&frame, Position { record: record as u64, byte });
        }
        assert_eq!(records.iter().collect::<Vec<_>>(), all);
        assert_eq!((0..5).map_while(|i| records.get(i)).collect::<Vec<_>>(), all);
        assert_eq!((records.payloads(), records.ends()), (&b"firstlast"[..], &[0, 5, 5, 9][..]));
        assert_eq!(records.positions()[3], Position { record: 3, byte: 53 });

        let held = records.memory_size();
        records.clear();
        assert!(records.is_empty() && records.get(0).is_none() && records.iter().next().is_none());
        assert_eq!(records.memory_size(), held);
    }
}
