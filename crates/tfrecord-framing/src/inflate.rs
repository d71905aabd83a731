//! [`Inflate`]: decompression that takes no cut or overlong stream for a whole one.
//!
//! flate2's own readers are not enough here: `ZlibDecoder` reports the end of the input as the end of the stream,
//! wherever it comes, and stops in silence at the first byte past the stream.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// The largest window there is, which reads every stream (RFC 1950, CINFO = 7).
const WINDOW_BITS: u8 = 15;

/// Reads a zlib stream, or a chain of gzip members, from `R`.
///
/// Damage is an error that holds an [`InflateError`], so that it can be told from a failure of `R`.
#[derive(Debug)]
pub(crate) struct Inflate<R> {
    inner: R,
    format: Format,
    state: State,
    inflate: Decompress,
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
}

impl From<InflateError> for io::Error {
    fn from(error: InflateError) -> Self {
        let kind = match error {
            InflateError::Cut => io::ErrorKind::UnexpectedEof,
            InflateError::Damaged(_) | InflateError::Trailing => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

impl<R: BufRead> Inflate<R> {
    pub(crate) fn gzip(inner: R) -> Self {
        Self { inner, format: Format::Gzip, state: State::Start, inflate: Decompress::new_gzip(WINDOW_BITS) }
    }

    pub(crate) fn zlib(inner: R) -> Self {
        Self { inner, format: Format::Zlib, state: State::Start, inflate: Decompress::new(true) }
    }

    /// Goes on to the next gzip member; false at the end of the input.
    fn next_stream(&mut self) -> io::Result<bool> {
        if self.inner.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match (self.state, self.format) {
            (State::Ended, Format::Zlib) => return Err(InflateError::Trailing.into()),
            (State::Ended, Format::Gzip) => self.inflate = Decompress::new_gzip(WINDOW_BITS),
            (State::Start | State::Inside, _) => {}
        }
        self.state = State::Inside;
        Ok(true)
    }
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if self.state != State::Inside && !self.next_stream()? {
                return Ok(0);
            }
            let input = self.inner.fill_buf()?;
            let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(input, out, FlushDecompress::None).map_err(InflateError::Damaged)?;
            let consumed = (self.inflate.total_in() - in_before) as usize;
            let produced = (self.inflate.total_out() - out_before) as usize;
            self.inner.consume(consumed);
            if status == Status::StreamEnd {
                self.state = State::Ended;
            }
            if produced > 0 {
                return Ok(produced);
            }
            // With room for output and nothing taken there was nothing left to take.
            if consumed == 0 && status != Status::StreamEnd {
                return Err(InflateError::Cut.into());
            }
        }
    }
}

#[cfg(test)]
mod tests;
