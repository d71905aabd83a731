//! [`RecordDecoder`]: decodes the bytes of a file to whole records.

use crate::{
    Compression, Container, CrcPolicy, Error, ErrorKind, Frames, HEADER_LEN, MAX_RECORD_LEN, Position, Records, Result,
    frame::{Header, OVERHEAD, body},
    masked_crc32c,
    records::Sink,
    unpack::{Unpack, UnpackError},
};

/// Memory retained for the next frame that spans pieces, at most 1 MiB; the memory of a longer frame is freed.
const PARTIAL_LEN: usize = 1 << 20;

/// Decodes the bytes of a TFRecord or ArrayRecord file, in pieces of any length, to whole records.
///
/// The result does not depend on the pieces. Memory is that of the returned records, one piece when decompressing, and
/// one incomplete record. A record's length reserves no memory before its bytes arrive. Of an ArrayRecord file, whole
/// chunks are in memory, and its records are returned in frames of TFRecord.
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
    /// Framed bytes that are not those of the file. The first `taken` are decoded.
    unpacked: Vec<u8>,
    taken: usize,
    splitter: Splitter,
}

impl RecordDecoder {
    /// Creates a decoder of an uncompressed file.
    pub fn new() -> Self {
        Self::with_compression(Compression::None)
    }

    /// Creates a decoder of a file with this compression. Content with another compression is rejected with
    /// `WrongContainer`, which names both.
    pub fn with_compression(compression: Compression) -> Self {
        Self::with_container(compression.into())
    }

    /// Creates a decoder of a file with this container. Content with another one is rejected with `WrongContainer`, which
    /// names both.
    pub fn with_container(container: Container) -> Self {
        Self::with_unpack(Unpack::expect(container))
    }

    /// Creates a decoder that detects the container from the content. Content that looks like none is decoded as
    /// uncompressed TFRecord.
    pub fn detect() -> Self {
        Self::with_unpack(Unpack::detect())
    }

    fn with_unpack(unpack: Unpack) -> Self {
        Self { unpack, unpacked: Vec::new(), taken: 0, splitter: Splitter::default() }
    }

    /// Sets whether checksums are checked. The default is to check them all. The hashes of ArrayRecord files are always
    /// checked.
    pub fn with_crc_policy(mut self, policy: CrcPolicy) -> Self {
        self.splitter.crc = policy;
        if policy == CrcPolicy::Skip {
            self.unpack.believe();
        }
        self
    }

    /// Rejects records of more than `len` bytes. The default is [`MAX_RECORD_LEN`].
    pub fn with_max_record_len(mut self, len: usize) -> Self {
        self.splitter.max_record_len = len;
        self
    }

    /// Sets the position of the first byte in an uncompressed file, which must be the start of a record. The default
    /// is the file's start.
    pub fn with_position(mut self, position: Position) -> Self {
        self.splitter.position = position;
        if position.byte > 0 {
            self.unpack.believe();
        }
        self
    }

    /// Returns the position of the next record.
    pub fn position(&self) -> Position {
        self.splitter.position
    }

    /// Returns the file's container once it is specified or detected.
    pub fn container(&self) -> Option<Container> {
        self.unpack.container()
    }

    /// Appends at most `limit` records to `records` and returns their number; 0 means that `input` was consumed
    /// completely and more is needed (or `limit` is 0). Advances `input` past the consumed bytes.
    ///
    /// Call it again while it returns more than 0, even with an empty `input`: decompressed records may be pending.
    ///
    /// # Errors
    ///
    /// Every [`ErrorKind`] but `Io` and `Truncated`. The records before the damage are appended. After `DataCrc` the
    /// next call continues with the following record. After any other error the start of the next record is unknown,
    /// and further calls consume all input and append nothing.
    pub fn decode(&mut self, input: &mut &[u8], limit: usize, records: &mut Records) -> Result<usize> {
        self.decode_into(input, limit, records)
    }

    pub(crate) fn decode_into(&mut self, input: &mut &[u8], limit: usize, records: &mut impl Sink) -> Result<usize> {
        let mut decoded = 0;
        while decoded < limit {
            self.splitter.release();
            self.find(input, limit - decoded, records)?;
            match self.splitter.ends.len() {
                0 => break,
                found => decoded += found,
            }
        }
        Ok(decoded)
    }

    /// Returns the next records that [`decode`](Self::decode) would find, at most `limit`, without copying them. Only a
    /// record that spans pieces is copied. No frames means that `input` was consumed completely and more is needed (or
    /// `limit` is 0).
    ///
    /// Call it again while it returns frames, even with an empty `input`.
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode), in the call after the records before the damage.
    ///
    /// ```
    /// use tfrecord_framing::{RecordDecoder, RecordWriter};
    ///
    /// # fn main() -> tfrecord_framing::Result<()> {
    /// let mut writer = RecordWriter::new(Vec::new());
    /// writer.write_record(b"first")?;
    /// writer.write_record(b"second")?;
    /// let file = writer.finish()?;
    ///
    /// let mut decoder = RecordDecoder::new();
    /// let mut input = file.as_slice();
    /// let mut payloads = Vec::new();
    /// loop {
    ///     let frames = decoder.decode_frames(&mut input, 1024)?;
    ///     if frames.is_empty() {
    ///         break;
    ///     }
    ///     payloads.extend(frames.iter().map(|(payload, _)| frames.bytes()[payload].to_vec()));
    /// }
    /// assert_eq!(payloads, [b"first".as_slice(), b"second"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn decode_frames<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8], limit: usize) -> Result<Frames<'a>> {
        self.splitter.release();
        let bytes = match self.find(input, limit, &mut ())? {
            FrameSource::Nowhere => &[],
            FrameSource::Input(input) => input,
            FrameSource::Unpacked(start) => &self.unpacked[start..],
            FrameSource::Partial => self.splitter.partial.as_slice(),
        };
        let Splitter { ends, first, .. } = &self.splitter;
        Ok(Frames::new(bytes, ends, *first))
    }

    /// Finds frames, passes each to `records`, and returns where they are.
    fn find<'i>(&mut self, input: &mut &'i [u8], limit: usize, records: &mut impl Sink) -> Result<FrameSource<'i>> {
        if limit == 0 {
            return Ok(FrameSource::Nowhere);
        }
        loop {
            if self.taken < self.unpacked.len() {
                let start = self.taken;
                let mut unpacked = &self.unpacked[start..];
                let split = self.splitter.split(&mut unpacked, limit, records);
                self.taken = self.unpacked.len() - unpacked.len();
                match split? {
                    Split::InPlace => return Ok(FrameSource::Unpacked(start)),
                    Split::Partial => return Ok(FrameSource::Partial),
                    Split::Nothing => {}
                }
            }
            if self.unpack.is_plain() || self.splitter.lost {
                let start = *input;
                return Ok(match self.splitter.split(input, limit, records)? {
                    Split::InPlace => FrameSource::Input(start),
                    Split::Partial => FrameSource::Partial,
                    Split::Nothing => FrameSource::Nowhere,
                });
            }
            self.unpacked.clear();
            self.taken = 0;
            let unpacked = self.unpack.unpack(input, &mut self.unpacked);
            unpacked.map_err(|error| self.lose(error))?;
            if self.unpacked.is_empty() && input.is_empty() {
                return Ok(FrameSource::Nowhere);
            }
        }
    }

    /// Checks that the file may end here: between two records and, if it is compressed, after its trailer; an ArrayRecord
    /// file after its footer, which is compared with its chunks.
    ///
    /// Call it after [`decode`](Self::decode) returned 0 for the last piece.
    ///
    /// # Errors
    ///
    /// `Truncated`, `Compression` when a compressed stream or its trailer is truncated or damaged, or `ArrayRecord`.
    pub fn finish(&mut self) -> Result<()> {
        if self.splitter.lost {
            return Ok(());
        }
        let finished = self.unpack.finish(&mut self.unpacked);
        finished.map_err(|error| self.lose(error))?;
        // Handles a file that is too short for a header.
        self.decode_frames(&mut &[][..], 1)?;
        self.splitter.finish()
    }

    /// Whether the start of the next record is unknown, so that no more records can be decoded.
    pub(crate) fn is_lost(&self) -> bool {
        self.splitter.lost
    }

    fn lose(&mut self, error: UnpackError) -> Error {
        let error = error.at(self.splitter.position);
        self.splitter.lose(error)
    }
}

impl Default for RecordDecoder {
    fn default() -> Self {
        Self::new()
    }
}

/// The buffer that contains the frames.
enum FrameSource<'i> {
    Nowhere,
    Input(&'i [u8]),
    /// In the decompressed bytes, from this offset.
    Unpacked(usize),
    /// In the frame assembled from pieces.
    Partial,
}

/// The result of splitting some bytes.
enum Split {
    /// At most a part of a frame, which was consumed.
    Nothing,
    /// Frames, starting at the first byte.
    InPlace,
    /// The end of the partial frame.
    Partial,
}

/// Splits framed bytes into records.
#[derive(Debug)]
struct Splitter {
    crc: CrcPolicy,
    max_record_len: usize,
    /// Position of the next record.
    position: Position,
    /// Ends of the returned frames, and the position of the first.
    ends: Vec<usize>,
    first: Position,
    /// The start of the next frame, as far as it arrived in earlier pieces, or a whole frame that was returned.
    partial: Vec<u8>,
    partial_is_whole: bool,
    /// Whether the start of the next record is unknown.
    lost: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Self {
            crc: CrcPolicy::default(),
            max_record_len: MAX_RECORD_LEN,
            position: Position::default(),
            ends: Vec::new(),
            first: Position::default(),
            partial: Vec::new(),
            partial_is_whole: false,
            lost: false,
        }
    }
}

impl Splitter {
    /// Drops the returned frames.
    #[inline]
    fn release(&mut self) {
        self.ends.clear();
        if self.partial_is_whole {
            self.partial_is_whole = false;
            self.partial.clear();
            self.partial.shrink_to(PARTIAL_LEN);
        }
    }

    /// Finds at most `limit` frames in `input`. Reports damage only if no frame was found before it.
    fn split(&mut self, input: &mut &[u8], limit: usize, records: &mut impl Sink) -> Result<Split> {
        if self.lost {
            *input = &[];
            return Ok(Split::Nothing);
        }
        self.first = self.position;
        let split = if self.partial.is_empty() {
            self.split_in_place(input, limit, records)
        } else {
            self.fill_frame(input, records)
        };
        split.map_err(|error| {
            let error = self.lose(error);
            if self.lost {
                *input = &[];
            }
            error
        })
    }

    /// The common case: frames that are whole in `input`.
    fn split_in_place(&mut self, input: &mut &[u8], limit: usize, records: &mut impl Sink) -> Result<Split> {
        let mut end = 0;
        while self.ends.len() < limit {
            let rest = &input[end..];
            let frame = match self.frame_len(rest) {
                Ok(len) => len.and_then(|len| rest.get(..len)),
                Err(error) if end == 0 => return Err(error),
                Err(_) => break,
            };
            let Some(frame) = frame else {
                if end == 0 {
                    self.partial.extend_from_slice(rest);
                    *input = &[];
                    return Ok(Split::Nothing);
                }
                break;
            };
            match self.check(frame) {
                Ok(()) => {}
                Err(error) if end == 0 => {
                    self.advance(frame.len());
                    *input = &input[frame.len()..];
                    return Err(error);
                }
                Err(_) => break,
            }
            records.push(frame, self.position);
            self.advance(frame.len());
            end += frame.len();
            self.ends.push(end);
        }
        *input = &input[end..];
        Ok(Split::InPlace)
    }

    /// Completes the partial frame, if `input` contains the rest.
    fn fill_frame(&mut self, input: &mut &[u8], records: &mut impl Sink) -> Result<Split> {
        self.fill(HEADER_LEN, input);
        let Some(len) = self.frame_len(&self.partial)? else { return Ok(Split::Nothing) };
        self.fill(len, input);
        if self.partial.len() < len {
            return Ok(Split::Nothing);
        }
        self.partial_is_whole = true;
        let position = self.position;
        let checked = self.check(&self.partial).map(|()| records.push(&self.partial, position));
        self.advance(len);
        checked?;
        self.ends.push(len);
        Ok(Split::Partial)
    }

    /// Moves bytes from `input` to the partial frame until its length is `len`.
    fn fill(&mut self, len: usize, input: &mut &[u8]) {
        let missing = len.saturating_sub(self.partial.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.partial.extend_from_slice(taken);
        *input = rest;
    }

    /// Returns the length of the frame at the start of `bytes`, once its header is whole.
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

    /// Checks the payload of a whole frame.
    #[inline]
    fn check(&self, frame: &[u8]) -> Result<()> {
        if self.crc == CrcPolicy::Verify {
            let (payload, found) = body(frame);
            let (position, len, expected) = (self.position, payload.len(), masked_crc32c(payload));
            if found != expected {
                return Err(ErrorKind::DataCrc { position, len, found, expected }.into());
            }
        }
        Ok(())
    }

    /// Moves on past a frame.
    #[inline]
    fn advance(&mut self, len: usize) {
        self.position.record += 1;
        self.position.byte += len as u64;
    }

    /// Marks the start of the next record as unknown, unless only a payload is damaged.
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
