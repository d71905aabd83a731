//! [`Unpack`]: detects a file's compression and decompresses its bytes in pieces.

use crate::{
    Compression, Error, ErrorKind, HEADER_LEN, Position,
    inflate::{Inflate, InflateError, OUT_LEN},
};

/// Decompresses a file.
#[derive(Debug)]
pub(crate) struct Unpack {
    /// The compression that the caller specified.
    expected: Option<Compression>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The first bytes, too few to detect the compression.
    Start(Vec<u8>),
    Plain,
    Inflate(Compression, Box<Inflate>),
}

/// Why a file could not be decompressed.
#[derive(Debug)]
pub(crate) enum UnpackError {
    Wrong { expected: Compression, found: Compression },
    Stream { compression: Compression, source: InflateError },
}

impl UnpackError {
    pub(crate) fn at(self, position: Position) -> Error {
        match self {
            Self::Wrong { expected, found } => ErrorKind::WrongCompression { position, expected, found },
            Self::Stream { compression, source } => {
                ErrorKind::Compression { position, compression, source: source.into() }
            }
        }
        .into()
    }
}

impl Unpack {
    /// Expects this compression.
    pub(crate) fn expect(compression: Compression) -> Self {
        Self { expected: Some(compression), state: State::Start(Vec::new()) }
    }

    /// Detects the compression from the content.
    pub(crate) fn detect() -> Self {
        Self { expected: None, state: State::Start(Vec::new()) }
    }

    /// Uses the specified compression, if any, without checking it against the content.
    pub(crate) fn believe(&mut self) {
        if let Some(expected) = self.expected {
            self.state = State::new(expected);
        }
    }

    /// Whether all further bytes are uncompressed framed bytes.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.state, State::Plain)
    }

    /// Returns the compression once it is specified or detected.
    pub(crate) fn compression(&self) -> Option<Compression> {
        match self.state {
            State::Start(_) => None,
            State::Plain => Some(Compression::None),
            State::Inflate(compression, _) => Some(compression),
        }
    }

    /// Continues after damage of the stream with the next gzip member found, or with the bytes after a zlib stream.
    /// Returns false if there is none. The search may go `back` some bytes.
    pub(crate) fn search(&mut self, back: bool) -> bool {
        if let State::Inflate(_, inflate) = &mut self.state { inflate.search(back) } else { false }
    }

    /// Returns the number of compressed bytes consumed, and how many of them precede the most recent gzip member.
    pub(crate) fn taken(&self) -> (u64, u64) {
        if let State::Inflate(_, inflate) = &self.state { inflate.taken() } else { (0, 0) }
    }

    /// Consumes some of `input` and appends the framed bytes it contains to `out`. If nothing is appended, all of
    /// `input` was consumed.
    pub(crate) fn unpack(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), UnpackError> {
        if let State::Start(start) = &mut self.state {
            let (taken, rest) = input.split_at(input.len().min(HEADER_LEN - start.len()));
            start.extend_from_slice(taken);
            *input = rest;
            if start.len() < HEADER_LEN {
                return Ok(());
            }
            self.begin(out)?;
            if !out.is_empty() {
                return Ok(());
            }
        }
        self.go_on(input, out)
    }

    /// Signals the end of the input.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), UnpackError> {
        match &self.state {
            State::Start(start) if !start.is_empty() => self.begin(out)?,
            _ => {}
        }
        match &self.state {
            State::Inflate(compression, inflate) => inflate.finish().map_err(stream(*compression)),
            State::Start(_) | State::Plain => Ok(()),
        }
    }

    /// Determines the compression from the first bytes, and decompresses them.
    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), UnpackError> {
        let State::Start(start) = &mut self.state else { return Ok(()) };
        let start = std::mem::take(start);
        let found = Compression::detect(&start);
        let compression = match (self.expected, found) {
            (Some(expected), Some(found)) if expected != found => {
                return Err(UnpackError::Wrong { expected, found });
            }
            (Some(expected), _) => expected,
            (None, found) => found.unwrap_or_default(),
        };
        self.state = State::new(compression);
        let mut start = start.as_slice();
        let mut begun = Ok(());
        while !start.is_empty() && begun.is_ok() {
            begun = self.go_on(&mut start, out);
        }
        if let State::Inflate(_, inflate) = &mut self.state {
            inflate.put_back(start);
        }
        begun
    }

    fn go_on(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), UnpackError> {
        match &mut self.state {
            State::Start(_) | State::Plain => {
                let (taken, rest) = input.split_at(input.len().min(OUT_LEN));
                out.extend_from_slice(taken);
                *input = rest;
                Ok(())
            }
            State::Inflate(compression, inflate) => inflate.inflate(input, out).map_err(stream(*compression)),
        }
    }
}

impl State {
    fn new(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::Plain,
            Compression::Gzip => Self::Inflate(compression, Box::new(Inflate::gzip())),
            Compression::Zlib => Self::Inflate(compression, Box::new(Inflate::zlib())),
        }
    }
}

fn stream(compression: Compression) -> impl FnOnce(InflateError) -> UnpackError {
    move |source| UnpackError::Stream { compression, source }
}
