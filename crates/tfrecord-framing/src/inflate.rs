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
        Self { format, state: State::Start, inflate, damage: None }
    }

    /// Appends what some of `input` holds to `out`. Nothing appended means that all of `input` was taken.
    pub(crate) fn inflate(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), InflateError> {
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
            *input = input.get(consumed..).unwrap_or_default();
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

    /// Goes on to the next gzip member; false at the end of the input.
    fn next_stream(&mut self, input: &[u8]) -> Result<bool, InflateError> {
        let Some(first) = input.first() else { return Ok(false) };
        match (self.state, self.format) {
            (State::Ended, Format::Zlib) => return Err(InflateError::Trailing),
            (State::Ended, Format::Gzip) => match *first {
                GZIP_ID1 => self.inflate = Decompress::new_gzip(WINDOW_BITS),
                0 => return Err(InflateError::Padding),
                _ => return Err(InflateError::NoMember),
            },
            (State::Start | State::Inside, _) => {}
        }
        self.state = State::Inside;
        Ok(true)
    }

    /// Checks that the stream may end here.
    pub(crate) fn finish(&self) -> Result<(), InflateError> {
        if self.state == State::Inside { Err(InflateError::Cut) } else { Ok(()) }
    }
}

/// The first byte of every gzip member (RFC 1952, section 2.3.1).
const GZIP_ID1: u8 = 0x1f;

#[cfg(test)]
mod tests;
