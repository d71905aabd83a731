//! [`Inflate`]: decompression that takes no cut or overlong stream for a whole one.
//!
//! flate2's own readers are not enough here: `ZlibDecoder` reports the end of the input as the end of the stream,
//! wherever it comes, and stops in silence at the first byte past the stream.

use std::io;

use flate2::{Decompress, FlushDecompress, Status};

/// The largest window there is, which reads every stream (RFC 1950, CINFO = 7).
const WINDOW_BITS: u8 = 15;

/// The most bytes handed out at once: about what stays in the second-level cache until they are decoded.
pub(crate) const OUT_LEN: usize = 128 << 10;

/// Inflates a zlib stream, or a chain of gzip members, that comes in pieces.
#[derive(Debug)]
pub(crate) struct Inflate {
    format: Format,
    state: State,
    inflate: Decompress,
    /// Bytes taken.
    taken: u64,
    /// How many of them before the gzip member, or zlib stream, that was begun last.
    before_member: u64,
    /// The last bytes taken of that member, at most [`TAIL_LEN`].
    tail: Vec<u8>,
    /// Bytes to take before the input: they were taken for a part of a damaged member.
    again: Vec<u8>,
    /// Damage that was met after some bytes, which were handed out first.
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
    /// Behind damage, looking for the next gzip member, of whose beginning so many bytes were seen.
    Searching(usize),
}

/// What is wrong with a compressed stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InflateError {
    #[error("the stream is cut short")]
    Cut,
    #[error("the stream is damaged, or compressed in another way")]
    Damaged(#[from] flate2::DecompressError),
    #[error("bytes follow the end of the zlib stream")]
    Trailing,
    #[error("bytes that are no gzip member follow the last one")]
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

    /// Appends what some of `input` holds to `out`. Nothing appended means that all of `input` was taken.
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
            // With nothing taken and room for output, all that was taken before is out.
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

    /// Goes on to the next gzip member; false at the end of the input.
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

    /// Takes input up to the next gzip member, or to what looks like the beginning of one.
    fn find_member(&mut self, input: &mut &[u8], mut seen: usize) -> bool {
        while let Some((byte, rest)) = input.split_first() {
            *input = rest;
            self.taken += 1;
            // The first byte does not come again in the others.
            seen = if Some(byte) == GZIP_START.get(seen) { seen + 1 } else { usize::from(*byte == GZIP_ID1) };
            if seen == GZIP_START.len() {
                self.inflate = Decompress::new_gzip(WINDOW_BITS);
                self.begin_member(self.taken - seen as u64);
                self.tail.extend(GZIP_START);
                // Nothing comes out of the beginning of a header, and nothing is wrong with this one.
                let _nothing = self.inflate.decompress(&GZIP_START, &mut [0], FlushDecompress::None);
                return true;
            }
        }
        self.state = State::Searching(seen);
        false
    }

    /// Goes on, after damage, with the next gzip member that is found, or with what follows a zlib stream; false in one.
    ///
    /// Damage may be noticed only in what follows the member, so the search can go `back` some bytes, though not to the
    /// start of the member.
    pub(crate) fn search(&mut self, back: bool) -> bool {
        if self.format == Format::Zlib {
            // Its end was found where it says, so what follows may be another.
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

    /// Gives back input that was not taken, to come before all other.
    pub(crate) fn put_back(&mut self, input: &[u8]) {
        self.again.extend_from_slice(input);
    }

    /// Bytes of input taken, and how many of them before the gzip member that was begun last.
    pub(crate) fn taken(&self) -> (u64, u64) {
        (self.taken, self.before_member)
    }

    /// Checks that the stream may end here.
    pub(crate) fn finish(&self) -> Result<(), InflateError> {
        if self.state == State::Inside { Err(InflateError::Cut) } else { Ok(()) }
    }
}

/// Bytes that a search for the next member goes back: more than a damaged member is misread beyond its end, mostly.
const TAIL_LEN: usize = 4 << 10;

/// The first byte of every gzip member (RFC 1952, section 2.3.1).
const GZIP_ID1: u8 = 0x1f;

/// The first bytes of every gzip member: ID1, ID2 and CM = deflate.
const GZIP_START: [u8; 3] = [GZIP_ID1, 0x8b, 8];

#[cfg(test)]
mod tests;
