//! One frame: its lengths, sealing it in place, and checking its header.

use crate::crc::masked_crc32c_of_len;
use crate::{ErrorKind, Position, Result, masked_crc32c};

/// Length in bytes of a frame's header: the payload length (u64) and its masked CRC (u32).
pub const HEADER_LEN: usize = 12;

/// Length in bytes of a frame's footer: the payload's masked CRC (u32).
pub const FOOTER_LEN: usize = 4;

/// The longest payload, 2 GiB - 1: protobuf's limit for a message.
pub const MAX_RECORD_LEN: usize = i32::MAX as usize;

/// Bytes a frame adds to its payload.
pub(crate) const OVERHEAD: usize = HEADER_LEN + FOOTER_LEN;

/// Fills in the length and both checksums of a frame whose payload is in place.
///
/// `frame` is one whole frame: [`HEADER_LEN`] bytes of any content, the payload, [`FOOTER_LEN`] bytes of any content.
/// A slice too short to be a frame is left unchanged. The payload's length is not checked against [`MAX_RECORD_LEN`];
/// the caller checks it and can name the row.
///
/// ```
/// use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, RecordReader, seal_record};
///
/// # fn main() -> tfrecord_framing::Result<()> {
/// let mut frame = [[0; HEADER_LEN].as_slice(), b"payload", &[0; FOOTER_LEN]].concat();
/// seal_record(&mut frame);
///
/// let mut record = Vec::new();
/// assert!(RecordReader::new(frame.as_slice()).read_record(&mut record)?);
/// assert_eq!(record, b"payload");
/// # Ok(())
/// # }
/// ```
#[inline]
pub fn seal_record(frame: &mut [u8]) {
    let Some((header, rest)) = frame.split_first_chunk_mut::<HEADER_LEN>() else { return };
    let Some((payload, footer)) = rest.split_last_chunk_mut::<FOOTER_LEN>() else { return };
    *header = frame_header(payload.len());
    *footer = masked_crc32c(payload).to_le_bytes();
}

/// Returns the header of a payload of this length: the length and its checksum.
///
/// ```
/// use tfrecord_framing::{HEADER_LEN, frame_header, seal_record};
///
/// let mut frame = [0; 12 + 7 + 4];
/// seal_record(&mut frame);
/// assert_eq!(frame_header(7), frame[..HEADER_LEN]);
/// ```
#[inline]
pub fn frame_header(payload_len: usize) -> [u8; HEADER_LEN] {
    let len = payload_len as u64;
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&len.to_le_bytes());
    header[8..].copy_from_slice(&masked_crc32c_of_len(len).to_le_bytes());
    header
}

/// Appends one frame to `out`; `fill` appends the payload.
///
/// # Errors
///
/// Returns the error of `fill` and leaves `out` unchanged.
///
/// ```
/// use std::convert::Infallible;
/// use tfrecord_framing::append_record;
///
/// # fn main() -> Result<(), Infallible> {
/// let mut framed = Vec::new();
/// append_record(&mut framed, |payload| Ok::<_, Infallible>(payload.extend_from_slice(b"payload")))?;
/// assert_eq!(framed.len(), 12 + 7 + 4);
/// # Ok(())
/// # }
/// ```
pub fn append_record<E>(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    if let Err(error) = fill(out) {
        out.truncate(start);
        return Err(error);
    }
    out.extend_from_slice(&[0; FOOTER_LEN]);
    seal_record(&mut out[start..]);
    Ok(())
}

/// Returns the length of the frame at `position` from its header. A reader can skip from header to header without
/// reading the payloads.
///
/// # Errors
///
/// `LengthCrc` when the header's length does not match its checksum, `RecordTooLong` when the payload is longer than
/// [`MAX_RECORD_LEN`].
///
/// ```
/// use tfrecord_framing::{HEADER_LEN, Position, RecordWriter, frame_len};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"first")?;
/// writer.write_record(b"second")?;
/// let file = writer.finish()?;
///
/// let header: &[u8; HEADER_LEN] = file.first_chunk().ok_or("too short")?;
/// assert_eq!(frame_len(header, Position::default())?, 12 + 5 + 4);
/// # Ok(())
/// # }
/// ```
pub fn frame_len(header: &[u8; HEADER_LEN], position: Position) -> Result<usize> {
    Ok(OVERHEAD + Header::parse(header).payload_len(MAX_RECORD_LEN, position)?)
}

/// A frame's header as stored in the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    len: u64,
    found_crc: u32,
    expected_crc: u32,
}

impl Header {
    #[inline]
    pub(crate) fn parse(bytes: &[u8; HEADER_LEN]) -> Self {
        let [l0, l1, l2, l3, l4, l5, l6, l7, c0, c1, c2, c3] = *bytes;
        let len = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
        Self { len, found_crc: u32::from_le_bytes([c0, c1, c2, c3]), expected_crc: masked_crc32c_of_len(len) }
    }

    /// Whether the length matches its checksum.
    pub(crate) fn is_intact(&self) -> bool {
        self.found_crc == self.expected_crc
    }

    /// Returns the payload's length if its checksum matches and it is at most `max`.
    #[inline]
    pub(crate) fn payload_len(&self, max: usize, position: Position) -> Result<usize> {
        let Self { len, found_crc, expected_crc } = *self;
        if !self.is_intact() {
            return Err(ErrorKind::LengthCrc { position, len, found: found_crc, expected: expected_crc }.into());
        }
        self.unverified_len(max, position)
    }

    /// Returns the payload's length if it is at most `max`, without checking its checksum.
    #[inline]
    pub(crate) fn unverified_len(&self, max: usize, position: Position) -> Result<usize> {
        self.len_within(max).ok_or_else(|| ErrorKind::RecordTooLong { position, len: self.len, max }.into())
    }

    /// Returns the payload's length if it is at most `max`, without checking its checksum.
    #[inline]
    pub(crate) fn len_within(&self, max: usize) -> Option<usize> {
        usize::try_from(self.len).ok().filter(|&len| len <= max)
    }

    /// Returns the payload's length as stored.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// Splits a whole frame into its payload and the stored checksum.
#[inline]
pub(crate) fn body(frame: &[u8]) -> (&[u8], u32) {
    let (payload, footer) = frame[HEADER_LEN..].split_last_chunk().unwrap_or((&[], &[0; FOOTER_LEN]));
    (payload, u32::from_le_bytes(*footer))
}

#[cfg(test)]
mod tests;
