//! [`RecordDecoder`]: bytes in, whole records out.

use crate::{
    Compression, CrcPolicy, Error, ErrorKind, HEADER_LEN, MAX_RECORD_LEN, Position, Records, Result,
    frame::{Header, OVERHEAD, body},
    masked_crc32c,
    records::Sink,
    unpack::{Unpack, UnpackError},
};

/// The most memory kept for the next frame that pieces cut, 1 MiB; a longer one is given back.
const PARTIAL_LEN: usize = 1 << 20;

/// Decodes the bytes of a TFRecord file, in pieces of any length, to whole records.
///
/// The result does not depend on the pieces. Memory is that of the records handed out, of one piece when compressed
/// bytes are unpacked, and of one record that has begun and not ended; a length gets no memory before its bytes are
/// there.
///
/// ```
/// use tfrecord_framing::{RecordDecoder, RecordWriter, Records};
///
/// # fn main() -> tfrecord_framing::Result<()> {
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"first")?;
/// writer.write_record(b"second")?;
/// let file = writer.finish()?;
///
/// let mut decoder = RecordDecoder::new();
/// let mut records = Records::new();
/// for mut piece in file.chunks(10) {
///     while decoder.decode(&mut piece, 1024, &mut records)? > 0 {}
/// }
/// decoder.finish()?;
/// assert_eq!(records.iter().collect::<Vec<_>>(), [b"first".as_slice(), b"second"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordDecoder {
    unpack: Unpack,
    /// Framed bytes that were unpacked, of which `taken` are decoded.
    unpacked: Vec<u8>,
    taken: usize,
    frames: Frames,
}

impl RecordDecoder {
    /// A decoder of an uncompressed file.
    pub fn new() -> Self {
        Self::with_compression(Compression::None)
    }

    /// A decoder of a file compressed this way. Content that is compressed in another way is refused by name, with
    /// `WrongCompression`.
    pub fn with_compression(compression: Compression) -> Self {
        Self::with_unpack(Unpack::expect(compression))
    }

    /// A decoder of a file whose compression is told from its content. What looks like no TFRecord file is decoded as
    /// an uncompressed one.
    pub fn detect() -> Self {
        Self::with_unpack(Unpack::detect())
    }

    fn with_unpack(unpack: Unpack) -> Self {
        Self { unpack, unpacked: Vec::new(), taken: 0, frames: Frames::default() }
    }

    /// Checks checksums as `policy` says, instead of checking them all.
    pub fn with_crc_policy(mut self, policy: CrcPolicy) -> Self {
        self.frames.crc = policy;
        if policy == CrcPolicy::Skip {
            self.unpack.believe();
        }
        self
    }

    /// Refuses records of more than `len` bytes, instead of more than [`MAX_RECORD_LEN`].
    pub fn with_max_record_len(mut self, len: usize) -> Self {
        self.frames.max_record_len = len;
        self
    }

    /// Takes the first byte to be at this place of an uncompressed file, at the start of a record, instead of at its
    /// start.
    pub fn with_position(mut self, position: Position) -> Self {
        self.frames.position = position;
        if position.byte > 0 {
            self.unpack.believe();
        }
        self
    }

    /// Where the next record starts.
    pub fn position(&self) -> Position {
        self.frames.position
    }

    /// The file's compression, once it is known.
    pub fn compression(&self) -> Option<Compression> {
        self.unpack.compression()
    }

    /// Appends records to `records`, at most `limit`, and returns how many; 0 means that the whole of `input` was taken
    /// and more is needed (or `limit` is 0). `input` is left at what was not taken.
    ///
    /// Call it again while it returns more than 0, even with an empty `input`: unpacked records may be waiting.
    ///
    /// # Errors
    ///
    /// Every [`ErrorKind`] but `Io` and `Truncated`. The records before the damage are appended. After `DataCrc` the
    /// next call goes on with the record that follows; after any other error it is lost where a record starts, and
    /// further calls take all input and append nothing.
    pub fn decode(&mut self, input: &mut &[u8], limit: usize, records: &mut Records) -> Result<usize> {
        self.decode_into(input, limit, records)
    }

    pub(crate) fn decode_into(&mut self, input: &mut &[u8], limit: usize, records: &mut impl Sink) -> Result<usize> {
        if limit == 0 {
            return Ok(0);
        }
        loop {
            if self.taken < self.unpacked.len() {
                let mut unpacked = &self.unpacked[self.taken..];
                let decoded = self.frames.decode(&mut unpacked, limit, records);
                self.taken = self.unpacked.len() - unpacked.len();
                if !matches!(decoded, Ok(0)) {
                    return decoded;
                }
            }
            if self.unpack.is_plain() || self.frames.lost {
                return self.frames.decode(input, limit, records);
            }
            self.unpacked.clear();
            self.taken = 0;
            let unpacked = self.unpack.unpack(input, &mut self.unpacked);
            unpacked.map_err(|error| self.lose(error))?;
            if self.unpacked.is_empty() && input.is_empty() {
                return Ok(0);
            }
        }
    }

    /// Checks that the file may end here: between two records and, if it is compressed, after its trailer.
    ///
    /// Call it after [`decode`](Self::decode) returned 0 for the last piece.
    ///
    /// # Errors
    ///
    /// `Truncated`, or `Compression` when a compressed stream is cut or damaged, its trailer included.
    pub fn finish(&mut self) -> Result<()> {
        if self.frames.lost {
            return Ok(());
        }
        let finished = self.unpack.finish(&mut self.unpacked);
        finished.map_err(|error| self.lose(error))?;
        // What there is of a file that is too short for a header.
        self.decode(&mut &[][..], 1, &mut Records::new())?;
        self.frames.finish()
    }

    /// Whether it is not known any more where the next record starts, so that no more records will come.
    pub(crate) fn is_lost(&self) -> bool {
        self.frames.lost
    }

    fn lose(&mut self, error: UnpackError) -> Error {
        let error = error.at(self.frames.position);
        self.frames.lose(error)
    }
}

impl Default for RecordDecoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Splits framed bytes into records.
#[derive(Debug)]
struct Frames {
    crc: CrcPolicy,
    max_record_len: usize,
    /// Where the next record starts.
    position: Position,
    /// The beginning of the next frame, as far as it came in earlier pieces.
    partial: Vec<u8>,
    /// Whether it is not known any more where the next record starts.
    lost: bool,
}

impl Default for Frames {
    fn default() -> Self {
        let (crc, position) = (CrcPolicy::default(), Position::default());
        Self { crc, max_record_len: MAX_RECORD_LEN, position, partial: Vec::new(), lost: false }
    }
}

impl Frames {
    fn decode(&mut self, input: &mut &[u8], limit: usize, records: &mut impl Sink) -> Result<usize> {
        let mut decoded = 0;
        while !self.lost && decoded < limit {
            match self.decode_one(input, records) {
                Ok(true) => decoded += 1,
                Ok(false) => break,
                Err(error) => return Err(self.lose(error)),
            }
        }
        if self.lost {
            *input = &[];
        }
        Ok(decoded)
    }

    /// False when the rest of `input` is a part of a frame, and taken.
    #[inline]
    fn decode_one(&mut self, input: &mut &[u8], records: &mut impl Sink) -> Result<bool> {
        if self.partial.is_empty() {
            // Mostly a frame is decoded where it lies.
            if let Some(len) = self.frame_len(input)?
                && let Some((frame, rest)) = input.split_at_checked(len)
            {
                *input = rest;
                return self.push(frame, records);
            }
            self.partial.extend_from_slice(input);
            *input = &[];
            return Ok(false);
        }
        self.fill(HEADER_LEN, input);
        let Some(len) = self.frame_len(&self.partial)? else { return Ok(false) };
        self.fill(len, input);
        if self.partial.len() < len {
            return Ok(false);
        }
        let mut frame = std::mem::take(&mut self.partial);
        let pushed = self.push(&frame, records);
        if frame.capacity() <= PARTIAL_LEN {
            frame.clear();
            self.partial = frame;
        }
        pushed
    }

    /// Moves bytes from `input` to the partial frame until it has `len`.
    fn fill(&mut self, len: usize, input: &mut &[u8]) {
        let missing = len.saturating_sub(self.partial.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.partial.extend_from_slice(taken);
        *input = rest;
    }

    /// The length of the frame that `bytes` begin with, once there is a whole header.
    #[inline]
    fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>> {
        let Some(header) = bytes.first_chunk() else { return Ok(None) };
        let header = Header::parse(header);
        let len = match self.crc {
            CrcPolicy::Verify => header.payload_len(self.max_record_len, self.position)?,
            CrcPolicy::Skip => header.unverified_len(self.max_record_len, self.position)?,
        };
        Ok(Some(OVERHEAD + len))
    }

    /// Appends the record of a whole frame.
    #[inline]
    fn push(&mut self, frame: &[u8], records: &mut impl Sink) -> Result<bool> {
        let position = self.position;
        self.position.record += 1;
        self.position.byte += frame.len() as u64;
        let (payload, found) = body(frame);
        if self.crc == CrcPolicy::Verify {
            let (len, expected) = (payload.len(), masked_crc32c(payload));
            if found != expected {
                return Err(ErrorKind::DataCrc { position, len, found, expected }.into());
            }
        }
        records.push(payload, position);
        Ok(true)
    }

    /// Marks that it is lost where the next record starts, unless only a payload is damaged.
    fn lose(&mut self, error: Error) -> Error {
        if !matches!(error.kind(), ErrorKind::DataCrc { .. }) {
            self.lost = true;
            self.partial = Vec::new();
        }
        error
    }

    fn finish(&mut self) -> Result<()> {
        let found = self.partial.len();
        if self.lost || found == 0 {
            return Ok(());
        }
        let expected = self.frame_len(&self.partial)?.unwrap_or(HEADER_LEN);
        Err(self.lose(ErrorKind::Truncated { position: self.position, expected, found }.into()))
    }
}

#[cfg(test)]
mod tests;
