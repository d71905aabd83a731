//! [`Inflate`]: decompression that rejects truncated and overlong streams.
//!
//! flate2's own readers are not sufficient. `ZlibDecoder` reports the end of the input as the end of the stream,
//! wherever it comes, and stops silently at the first byte past the stream.

use std::io;

use flate2::{Decompress, FlushDecompress, Status};

/// The largest window, which can decompress every stream (RFC 1950, CINFO = 7).
const WINDOW_BITS: u8 = 15;

/// Maximum bytes returned at once: about what stays in the L2 cache until it is decoded.
pub(crate) const OUT_LEN: usize = 128 << 10;

/// Decompresses a zlib stream, or a sequence of gzip members, that arrives in pieces.
#[derive(Debug)]
pub(crate) struct Inflate {
    format: Format,
    state: State,
    inflate: Decompress,
    /// Number of bytes consumed.
    taken: u64,
    /// How many of them precede the most recent gzip member or zlib stream.
    before_member: u64,
    /// The last bytes consumed of that member, at most [`TAIL_LEN`].
    tail: Vec<u8>,
    /// Bytes to process before the input, because they had been read as part of a damaged member.
    again: Vec<u8>,
    /// Damage found after some output, which is returned first.
    damage: Option<flate2::DecompressError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Gzip,
    Zlib,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    /// Inside a zlib stream or a gzip member.
    Inside,
    /// After one.
    Ended,
    /// After damage, searching for the next gzip member; this many bytes of its start were found.
    Searching(usize),
}

/// The defect of a compressed stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InflateError {
    #[error("the stream is truncated")]
    Cut,
    #[error("the stream is damaged, or compressed in another way")]
    Damaged(#[from] flate2::DecompressError),
    #[error("bytes follow the end of the zlib stream")]
    Trailing,
    #[error("the last gzip member is followed by other bytes")]
    NoMember,
    #[error("zero bytes follow the last gzip member")]
    Padding,
}

impl From<InflateError> for io::Error {
    fn from(error: InflateError) -> Self {
        let kind = match error {
            InflateError::Cut => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

impl Inflate {
    pub(crate) fn gzip() -> Self {
        Self::new(Format::Gzip, Decompress::new_gzip(WINDOW_BITS))
    }

    pub(crate) fn zlib() -> Self {
        Self::new(Format::Zlib, Decompress::new(true))
    }

    fn new(format: Format, inflate: Decompress) -> Self {
        Self {
            format,
            state: State::Start,
            inflate,
            taken: 0,
            before_member: 0,
            tail: Vec::new(),
            again: Vec::new(),
            damage: None,
        }
    }

    /// Decompresses some of `input` and appends it to `out`. If nothing is appended, all of `input` was consumed.
    pub(crate) fn inflate(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), InflateError> {
        let before = out.len();
        if !self.again.is_empty() {
            let again = std::mem::take(&mut self.again);
            let mut rest = again.as_slice();
            let inflated = self.inflate_some(&mut rest, out);
            self.again = rest.to_vec();
            if inflated.is_err() || out.len() > before {
                return inflated;
            }
        }
        self.inflate_some(input, out)
    }

    fn inflate_some(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), InflateError> {
        if let Some(damage) = self.damage.take() {
            return Err(damage.into());
        }
        let before = out.len();
        out.reserve(OUT_LEN);
        loop {
            if self.state != State::Inside && !self.next_stream(input)? {
                return Ok(());
            }
            let in_before = self.inflate.total_in();
            let status = self.inflate.decompress_vec(input, out, FlushDecompress::None);
            let consumed = (self.inflate.total_in() - in_before) as usize;
            self.take(input, consumed);
            match status {
                Ok(Status::StreamEnd) => self.state = State::Ended,
                Ok(_) => {}
                Err(damage) if out.len() == before => return Err(damage.into()),
                Err(damage) => self.damage = Some(damage),
            }
            // Nothing was consumed although output had room, so all earlier input has been output.
            if out.len() > before || (consumed == 0 && self.state == State::Inside) {
                return Ok(());
            }
        }
    }

    fn take(&mut self, input: &mut &[u8], len: usize) {
        let (taken, rest) = input.split_at_checked(len).unwrap_or((input, &[]));
        *input = rest;
        self.taken += taken.len() as u64;
        if self.format == Format::Gzip {
            let kept = taken.get(taken.len().saturating_sub(TAIL_LEN)..).unwrap_or_default();
            let forgotten = (self.tail.len() + kept.len()).saturating_sub(TAIL_LEN);
            self.tail.drain(..forgotten);
            self.tail.extend_from_slice(kept);
        }
    }

    /// Continues with the next gzip member. Returns false at the end of the input.
    fn next_stream(&mut self, input: &mut &[u8]) -> Result<bool, InflateError> {
        if let State::Searching(seen) = self.state {
            return Ok(self.find_member(input, seen));
        }
        let Some(first) = input.first() else { return Ok(false) };
        match (self.state, self.format) {
            (State::Ended, Format::Zlib) => return Err(InflateError::Trailing),
            (State::Ended, Format::Gzip) => match *first {
                GZIP_ID1 => self.inflate = Decompress::new_gzip(WINDOW_BITS),
                0 => return Err(InflateError::Padding),
                _ => return Err(InflateError::NoMember),
            },
            _ => {}
        }
        self.begin_member(self.taken);
        Ok(true)
    }

    fn begin_member(&mut self, at: u64) {
        self.before_member = at;
        self.tail.clear();
        self.state = State::Inside;
    }

    /// Consumes input up to the next gzip member, or to a possible start of one.
    fn find_member(&mut self, input: &mut &[u8], mut seen: usize) -> bool {
        while let Some((byte, rest)) = input.split_first() {
            *input = rest;
            self.taken += 1;
            // The first byte of the magic number does not occur again in it.
            seen = if Some(byte) == GZIP_START.get(seen) { seen + 1 } else { usize::from(*byte == GZIP_ID1) };
            if seen == GZIP_START.len() {
                self.inflate = Decompress::new_gzip(WINDOW_BITS);
                self.begin_member(self.taken - seen as u64);
                self.tail.extend(GZIP_START);
                // The start of a header gives no output, and this one is valid.
                let _nothing = self.inflate.decompress(&GZIP_START, &mut [0], FlushDecompress::None);
                return true;
            }
        }
        self.state = State::Searching(seen);
        false
    }

    /// Continues after damage with the next gzip member found, or with the bytes after a zlib stream. Returns false
    /// inside a zlib stream.
    ///
    /// Damage may be detected only after the member's end. So the search can go `back` some bytes, but not to the start
    /// of the member.
    pub(crate) fn search(&mut self, back: bool) -> bool {
        if self.format == Format::Zlib {
            // The stream ended where expected, so another may follow.
            let goes_on = self.state == State::Ended;
            if goes_on {
                self.inflate = Decompress::new(true);
                self.begin_member(self.taken);
            }
            return goes_on;
        }
        if back {
            let is_whole_member = self.taken - self.before_member == self.tail.len() as u64;
            let mut again: Vec<_> = self.tail.drain(..).skip(usize::from(is_whole_member)).collect();
            self.taken -= again.len() as u64;
            again.append(&mut self.again);
            self.again = again;
        }
        self.state = State::Searching(0);
        self.damage = None;
        true
    }

    /// Returns unconsumed input, to be processed before all other.
    pub(crate) fn put_back(&mut self, input: &[u8]) {
        self.again.extend_from_slice(input);
    }

    /// Returns the number of input bytes consumed, and how many of them precede the most recent gzip member.
    pub(crate) fn taken(&self) -> (u64, u64) {
        (self.taken, self.before_member)
    }

    /// Checks that the stream may end here.
    pub(crate) fn finish(&self) -> Result<(), InflateError> {
        if self.state == State::Inside { Err(InflateError::Cut) } else { Ok(()) }
    }
}

/// Bytes that the search for the next member goes back. A damaged member is rarely misread further past its end.
const TAIL_LEN: usize = 4 << 10;

/// The first byte of every gzip member (RFC 1952, section 2.3.1).
const GZIP_ID1: u8 = 0x1f;

/// The first bytes of every gzip member: ID1, ID2 and CM = deflate.
const GZIP_START: [u8; 3] = [GZIP_ID1, 0x8b, 8];

#[cfg(test)]
mod tests;
