//! [`RecordDecoder`]: bytes in, whole records out.

use crate::{
    Compression, CrcPolicy, Error, ErrorKind, Frames, HEADER_LEN, MAX_RECORD_LEN, Position, Records, Result,
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
    splitter: Splitter,
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
        Self { unpack, unpacked: Vec::new(), taken: 0, splitter: Splitter::default() }
    }

    /// Checks checksums as `policy` says, instead of checking them all.
    pub fn with_crc_policy(mut self, policy: CrcPolicy) -> Self {
        self.splitter.crc = policy;
        if policy == CrcPolicy::Skip {
            self.unpack.believe();
        }
        self
    }

    /// Refuses records of more than `len` bytes, instead of more than [`MAX_RECORD_LEN`].
    pub fn with_max_record_len(mut self, len: usize) -> Self {
        self.splitter.max_record_len = len;
        self
    }

    /// Takes the first byte to be at this place of an uncompressed file, at the start of a record, instead of at its
    /// start.
    pub fn with_position(mut self, position: Position) -> Self {
        self.splitter.position = position;
        if position.byte > 0 {
            self.unpack.believe();
        }
        self
    }

    /// Where the next record starts.
    pub fn position(&self) -> Position {
        self.splitter.position
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

    /// The next records as [`decode`](Self::decode) finds them, at most `limit`, where they lie: nothing is copied but
    /// a record that does not lie within one piece. No frames mean that the whole of `input` was taken and more is
    /// needed (or `limit` is 0).
    ///
    /// Call it again while there are frames, even with an empty `input`.
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
            Place::Nowhere => &[],
            Place::Input(input) => input,
            Place::Unpacked(start) => &self.unpacked[start..],
            Place::Partial => self.splitter.partial.as_slice(),
        };
        let Splitter { ends, first, .. } = &self.splitter;
        Ok(Frames::new(bytes, ends, *first))
    }

    /// Finds frames, gives each to `records`, and tells from where on they lie.
    fn find<'i>(&mut self, input: &mut &'i [u8], limit: usize, records: &mut impl Sink) -> Result<Place<'i>> {
        if limit == 0 {
            return Ok(Place::Nowhere);
        }
        loop {
            if self.taken < self.unpacked.len() {
                let start = self.taken;
                let mut unpacked = &self.unpacked[start..];
                let split = self.splitter.split(&mut unpacked, limit, records);
                self.taken = self.unpacked.len() - unpacked.len();
                match split? {
                    Split::InPlace => return Ok(Place::Unpacked(start)),
                    Split::Partial => return Ok(Place::Partial),
                    Split::Nothing => {}
                }
            }
            if self.unpack.is_plain() || self.splitter.lost {
                let start = *input;
                return Ok(match self.splitter.split(input, limit, records)? {
                    Split::InPlace => Place::Input(start),
                    Split::Partial => Place::Partial,
                    Split::Nothing => Place::Nowhere,
                });
            }
            self.unpacked.clear();
            self.taken = 0;
            let unpacked = self.unpack.unpack(input, &mut self.unpacked);
            unpacked.map_err(|error| self.lose(error))?;
            if self.unpacked.is_empty() && input.is_empty() {
                return Ok(Place::Nowhere);
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
        if self.splitter.lost {
            return Ok(());
        }
        let finished = self.unpack.finish(&mut self.unpacked);
        finished.map_err(|error| self.lose(error))?;
        // What there is of a file that is too short for a header.
        self.decode_frames(&mut &[][..], 1)?;
        self.splitter.finish()
    }

    /// Whether it is not known any more where the next record starts, so that no more records will come.
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

/// Where frames lie.
enum Place<'i> {
    Nowhere,
    Input(&'i [u8]),
    /// In what was unpacked, from here on.
    Unpacked(usize),
    /// In what was put together from pieces.
    Partial,
}

/// What was found in some bytes.
enum Split {
    /// A part of a frame at most, which is taken.
    Nothing,
    /// Frames, from the first byte on.
    InPlace,
    /// The end of the partial frame.
    Partial,
}

/// Splits framed bytes into records.
#[derive(Debug)]
struct Splitter {
    crc: CrcPolicy,
    max_record_len: usize,
    /// Where the next record starts.
    position: Position,
    /// Where the frames handed out end, and where the first of them starts.
    ends: Vec<usize>,
    first: Position,
    /// The beginning of the next frame, as far as it came in earlier pieces; or a whole frame, which is handed out.
    partial: Vec<u8>,
    partial_is_whole: bool,
    /// Whether it is not known any more where the next record starts.
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
    /// Forgets the frames handed out.
    #[inline]
    fn release(&mut self) {
        self.ends.clear();
        if self.partial_is_whole {
            self.partial_is_whole = false;
            self.partial.clear();
            self.partial.shrink_to(PARTIAL_LEN);
        }
    }

    /// Finds frames in `input`, at most `limit`. Damage is met only where nothing was found before it.
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

    /// Mostly a frame is whole where it lies.
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

    /// Completes the partial frame, if `input` has what is missing.
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

    /// Goes on behind a frame.
    #[inline]
    fn advance(&mut self, len: usize) {
        self.position.record += 1;
        self.position.byte += len as u64;
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
