//! Many records at once: [`Records`] in a buffer of their own, [`Frames`] where they lie.

use std::{iter::FusedIterator, ops::Range};

use crate::{FOOTER_LEN, HEADER_LEN, Position, frame::body};

/// Records as a decoder hands them out: payloads one after the other in a single buffer, and where each was found.
///
/// Record `i` is `payloads()[ends()[i - 1]..ends()[i]]`, the first starting at 0. Cleared and filled again, it
/// allocates nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    payloads: Vec<u8>,
    ends: Vec<usize>,
    positions: Vec<Position>,
}

impl Records {
    /// No records.
    pub const fn new() -> Self {
        Self { payloads: Vec::new(), ends: Vec::new(), positions: Vec::new() }
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The payload of record `i`.
    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)?;
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.payloads.get(start..end)
    }

    /// Every record's payload, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + FusedIterator + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.payloads[std::mem::replace(&mut start, end)..end])
    }

    /// All payloads, one after the other.
    pub fn payloads(&self) -> &[u8] {
        &self.payloads
    }

    /// Where each payload ends in [`payloads`](Self::payloads), in bytes.
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Where each record was found: its number, and the byte its frame (not its payload) starts at.
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Removes all records and keeps the memory.
    pub fn clear(&mut self) {
        self.payloads.clear();
        self.ends.clear();
        self.positions.clear();
    }

    /// The memory held, in bytes, whether filled or not.
    pub fn memory_size(&self) -> usize {
        self.payloads.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.positions.capacity() * size_of::<Position>()
    }
}

/// Whole frames where they lie, one behind the other, as [`RecordDecoder::decode_frames`] finds them.
///
/// [`RecordDecoder::decode_frames`]: crate::RecordDecoder::decode_frames
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    /// Where each frame ends; the first starts at 0.
    ends: &'a [usize],
    first: Position,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(bytes: &'a [u8], ends: &'a [usize], first: Position) -> Self {
        Self { bytes: &bytes[..ends.last().copied().unwrap_or_default()], ends, first }
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The frames, headers and footers included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Every record in its frame, in order, and where it was found.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = (&'a [u8], Position)> + FusedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.iter()
            .map(move |(payload, position)| (&bytes[payload.start - HEADER_LEN..payload.end + FOOTER_LEN], position))
    }

    /// For every record, in order, where in [`bytes`](Self::bytes) its payload stands, and where it was found: its
    /// number, and the byte its frame (not its payload) starts at.
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

/// What records are decoded into, one whole frame after the other.
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

/// A payload, if it is only one.
impl Sink for Vec<u8> {
    #[inline]
    fn push(&mut self, frame: &[u8], _position: Position) {
        self.extend_from_slice(body(frame).0);
    }
}

/// Records that are used where they lie.
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
