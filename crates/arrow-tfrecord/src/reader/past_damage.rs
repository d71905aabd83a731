//! [`PastDamage`]: finds the intact records of a damaged file, a limited number at a time.

use std::ops::Range;

use tfrecord_framing::{Damage, FOOTER_LEN, HEADER_LEN, Position, RecordScanner};

use crate::error::Result;

/// The intact records of a file, and the damaged ranges between them.
#[derive(Debug)]
pub(super) struct PastDamage {
    scanner: RecordScanner,
    /// The frames of the records found.
    frames: Vec<u8>,
    /// The end of each frame in `frames`, and the record's position.
    found: Vec<(usize, Position)>,
    /// Number of records in `found` that were returned.
    returned: usize,
    damage: Vec<Damage>,
}

impl PastDamage {
    pub(super) fn new(scanner: RecordScanner) -> Self {
        Self { scanner, frames: Vec::new(), found: Vec::new(), returned: 0, damage: Vec::new() }
    }

    /// Finds up to `limit` more records, and consumes `input` as far as that needs. False if there are none until more
    /// input arrives.
    pub(super) fn find(&mut self, input: &mut &[u8], limit: usize) -> Result<bool> {
        self.discard_returned();
        if self.found.is_empty() {
            let Self { scanner, frames, found, damage, .. } = self;
            scanner.scan_frames(input, limit, |frame, position| keep(frames, found, frame, position), damage)?;
        }
        Ok(!self.found.is_empty())
    }

    /// Ends the file. [`find`](Self::find) then returns the remaining records.
    pub(super) fn finish(&mut self) -> Result<()> {
        let Self { scanner, frames, found, damage, .. } = self;
        Ok(scanner.finish_frames(|frame, position| keep(frames, found, frame, position), damage)?)
    }

    /// Returns up to `limit` of the records found: their frames, and the range of each payload in these.
    pub(super) fn take(
        &mut self,
        limit: usize,
    ) -> (&[u8], impl ExactSizeIterator<Item = (Range<usize>, Position)> + '_) {
        let first = self.returned;
        let start = first.checked_sub(1).map_or(0, |before| self.found[before].0);
        self.returned = first.saturating_add(limit).min(self.found.len());
        let taken = &self.found[first..self.returned];
        let end = taken.last().map_or(start, |(end, _)| *end);
        let mut from = 0;
        let records = taken.iter().map(move |(end, position)| {
            let end = end - start;
            let payload = from + HEADER_LEN..end - FOOTER_LEN;
            from = end;
            (payload, *position)
        });
        (&self.frames[start..end], records)
    }

    /// Removes and returns the damaged ranges found since the last call.
    pub(super) fn take_damage(&mut self) -> Vec<Damage> {
        std::mem::take(&mut self.damage)
    }

    pub(super) fn position(&self) -> Position {
        self.scanner.position()
    }

    fn discard_returned(&mut self) {
        if self.returned == self.found.len() {
            self.frames.clear();
            self.found.clear();
            self.returned = 0;
        }
    }
}

fn keep(frames: &mut Vec<u8>, found: &mut Vec<(usize, Position)>, frame: &[u8], position: Position) {
    frames.extend_from_slice(frame);
    found.push((frames.len(), position));
}
