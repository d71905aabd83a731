//! [`Window`]: the scanner's buffer, which computes the checksum of any payload in it at a bounded cost.
//!
//! A hostile file can contain an intact header every [`HEADER_LEN`](crate::HEADER_LEN) bytes, each for a long payload
//! that fails its checksum. Summing all those payloads would take quadratic time. Three rules avoid that:
//!
//! * A payload of at most [`SHORT_LEN`] bytes is summed: a constant cost for each byte the scanner advances.
//! * A longer payload is summed if it starts after all payloads that failed. Such payloads do not overlap: an intact
//!   one is skipped as a whole, and a failed one moves that limit to its end. This costs a second pass over the file.
//! * Any other payload is not summed. Its checksum follows from those of two prefixes of the window, CRC(b) from CRC(a)
//!   and CRC(ab), in steps proportional to the digits of a length. Prefixes are summed once per [`STEP`] bytes: a third
//!   pass.
//!
//! The window drops its start only when that is more than half of it. So moving the rest and summing its prefixes again
//! costs no more than the scan of the dropped bytes.

use crc_fast::{CrcAlgorithm::Crc32Iscsi, checksum_combine};

use crate::{
    crc32c_append,
    frame::{Header, body},
    mask_crc, masked_crc32c,
};

/// The longest payload that is always summed, in bytes.
const SHORT_LEN: usize = 4 << 10;

/// Distance in bytes between summed prefixes.
const STEP: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct Window {
    buffer: Vec<u8>,
    /// Offset of the window in the buffer.
    start: usize,
    /// The furthest end in the buffer of a payload that failed.
    failed: usize,
    /// The checksum of each prefix of the buffer whose length is a multiple of [`STEP`]; computed on demand.
    prefixes: Vec<u32>,
}

impl Window {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    pub(super) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns the buffer that ends the window, to append to.
    pub(super) fn tail(&mut self) -> &mut Vec<u8> {
        if self.start > self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.failed = self.failed.saturating_sub(self.start);
            self.start = 0;
            self.prefixes.clear();
        }
        &mut self.buffer
    }

    /// Removes all bytes.
    pub(super) fn clear(&mut self) {
        *self = Self { buffer: std::mem::take(&mut self.buffer), ..Self::default() };
        self.buffer.clear();
    }

    /// Removes bytes from the start.
    pub(super) fn advance(&mut self, len: usize) {
        self.start += len;
    }

    /// Returns the offset of the first intact header of a record of at most `max` bytes, or of the possible start of
    /// one.
    pub(super) fn next_header(&self, max: usize) -> usize {
        let headers = self.bytes().windows(crate::HEADER_LEN);
        let none = headers.len();
        let is_header = |bytes: &[u8]| {
            // Most candidates fail the length check, which is cheaper than the checksum.
            bytes.first_chunk().is_some_and(|len| u64::from_le_bytes(*len) <= max as u64)
                && bytes.first_chunk().is_some_and(|header| Header::parse(header).is_intact())
        };
        headers.enumerate().find_map(|(at, bytes)| is_header(bytes).then_some(at)).unwrap_or(none)
    }

    /// Whether the payload of the frame at the start of the window matches its checksum. The frame must be whole.
    pub(super) fn is_sound(&mut self, frame_len: usize) -> bool {
        let end = self.start + frame_len;
        let (payload, found) = body(&self.buffer[self.start..end]);
        let sound = if payload.len() <= SHORT_LEN || self.start >= self.failed {
            found == masked_crc32c(payload)
        } else {
            let (to, len) = (end - crate::FOOTER_LEN, payload.len());
            let (before, whole) = (self.prefix_crc(to - len), self.prefix_crc(to));
            found == mask_crc(checksum_combine(Crc32Iscsi, before.into(), whole.into(), len as u64) as u32)
        };
        if !sound {
            self.failed = self.failed.max(end);
        }
        sound
    }

    /// Returns the checksum of the first `len` bytes of the buffer.
    fn prefix_crc(&mut self, len: usize) -> u32 {
        while self.prefixes.len() <= len / STEP {
            let crc = match self.prefixes.last() {
                None => 0,
                Some(&crc) => {
                    let to = self.prefixes.len() * STEP;
                    crc32c_append(crc, &self.buffer[to - STEP..to])
                }
            };
            self.prefixes.push(crc);
        }
        crc32c_append(self.prefixes[len / STEP], &self.buffer[len / STEP * STEP..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::append_record;

    /// Compares payload checksums derived from prefixes with those summed directly.
    #[test]
    fn prefix_checksums_yield_the_checksum_of_any_payload() {
        for (before, len) in [(0, 5000), (1, 4097), (1023, 9000), (1024, 8192), (3000, 100_000)] {
            let mut buffer: Vec<u8> = (0..before).map(|i| (i * 7) as u8).collect();
            let payload: Vec<u8> = (0..len).map(|i: u32| (i.wrapping_mul(i) >> 5) as u8).collect();
            append_record(&mut buffer, |out| {
                out.extend_from_slice(&payload);
                Ok::<_, ()>(())
            })
            .unwrap();
            for flip in [None, Some(before + 12), Some(buffer.len() - 1)] {
                let mut buffer = buffer.clone();
                if let Some(at) = flip {
                    buffer[at] ^= 0x10;
                }
                let frame_len = buffer.len() - before;
                let failed = buffer.len();
                let mut window = Window { buffer, start: before, failed, prefixes: Vec::new() };
                assert_eq!(window.is_sound(frame_len), flip.is_none());
                assert!(!window.prefixes.is_empty());
            }
        }
    }
}
