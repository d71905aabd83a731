//! [`Unpack`]: detects a file's container, and turns its bytes into framed records, in pieces.

use crate::{
    Compression, Container, Error, ErrorKind, HEADER_LEN, Position, array_record,
    array_record::ChunkReader,
    inflate::{Inflate, InflateError, OUT_LEN},
};

/// Returns the frames of a file: its bytes, decompressed bytes, or frames of the records of an ArrayRecord file.
#[derive(Debug)]
pub(crate) struct Unpack {
    /// The container that the caller specified.
    expected: Option<Container>,
    state: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The first bytes, too few to detect the container.
    Start(Vec<u8>),
    Plain,
    Inflate(Compression, Box<Inflate>),
    Chunks(Box<ChunkReader>),
}

/// Why the frames of a file could not be returned.
#[derive(Debug)]
pub(crate) enum UnpackError {
    Wrong { expected: Container, found: Container },
    Stream { compression: Compression, source: InflateError },
    Chunks(array_record::Error),
}

impl From<array_record::Error> for UnpackError {
    fn from(source: array_record::Error) -> Self {
        Self::Chunks(source)
    }
}

impl UnpackError {
    pub(crate) fn at(self, position: Position) -> Error {
        match self {
            Self::Wrong { expected, found } => ErrorKind::WrongContainer { position, expected, found },
            Self::Stream { compression, source } => {
                ErrorKind::Compression { position, compression, source: source.into() }
            }
            Self::Chunks(source) => ErrorKind::ArrayRecord { position, source },
        }
        .into()
    }
}

impl Unpack {
    /// Expects this container.
    pub(crate) fn expect(container: Container) -> Self {
        Self { expected: Some(container), state: Stage::Start(Vec::new()) }
    }

    /// Detects the container from the content.
    pub(crate) fn detect() -> Self {
        Self { expected: None, state: Stage::Start(Vec::new()) }
    }

    /// Uses the specified container, if any, without checking it against the content.
    pub(crate) fn believe(&mut self) {
        if let Some(expected) = self.expected {
            self.state = Stage::new(expected);
        }
    }

    /// Whether all further bytes are uncompressed framed bytes.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.state, Stage::Plain)
    }

    /// Returns the container once it is specified or detected.
    pub(crate) fn container(&self) -> Option<Container> {
        match self.state {
            Stage::Start(_) => None,
            Stage::Plain => Some(Container::PLAIN),
            Stage::Inflate(compression, _) => Some(compression.into()),
            Stage::Chunks(_) => Some(Container::ArrayRecord),
        }
    }

    /// Continues after damage with the next gzip member or chunk found, or with the bytes after a zlib stream. Returns
    /// false if there is none. The search may go `back` some bytes.
    pub(crate) fn search(&mut self, back: bool) -> bool {
        match &mut self.state {
            Stage::Inflate(_, inflate) => inflate.search(back),
            Stage::Chunks(_) => true,
            Stage::Start(_) | Stage::Plain => false,
        }
    }

    /// Returns the number of bytes consumed, up to damage that was found, and how many bytes precede the most recent gzip
    /// member or chunk.
    pub(crate) fn taken(&self) -> (u64, u64) {
        match &self.state {
            Stage::Inflate(_, inflate) => inflate.taken(),
            Stage::Chunks(chunks) => chunks.taken(),
            Stage::Start(_) | Stage::Plain => (0, 0),
        }
    }

    /// Consumes some of `input` and appends the framed bytes it contains to `out`. If nothing is appended, all of
    /// `input` was consumed.
    pub(crate) fn unpack(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), UnpackError> {
        if let Stage::Start(start) = &mut self.state {
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
            Stage::Start(start) if !start.is_empty() => self.begin(out)?,
            // An empty file is one of TFRecord.
            Stage::Start(_) if self.expected == Some(Container::ArrayRecord) => {
                self.state = Stage::new(Container::ArrayRecord);
            }
            _ => {}
        }
        match &mut self.state {
            Stage::Inflate(compression, inflate) => inflate.finish().map_err(stream(*compression)),
            Stage::Chunks(chunks) => Ok(chunks.finish(out)?),
            Stage::Start(_) | Stage::Plain => Ok(()),
        }
    }

    /// Determines the container from the first bytes, and unpacks them.
    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), UnpackError> {
        let Stage::Start(start) = &mut self.state else { return Ok(()) };
        let start = std::mem::take(start);
        let found = Container::detect(&start);
        let container = match (self.expected, found) {
            (Some(expected), Some(found)) if expected != found => {
                return Err(UnpackError::Wrong { expected, found });
            }
            (Some(expected), _) => expected,
            (None, found) => found.unwrap_or_default(),
        };
        self.state = Stage::new(container);
        let mut start = start.as_slice();
        let mut begun = Ok(());
        while !start.is_empty() && begun.is_ok() {
            begun = self.go_on(&mut start, out);
        }
        if let Stage::Inflate(_, inflate) = &mut self.state {
            inflate.put_back(start);
        }
        begun
    }

    fn go_on(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), UnpackError> {
        match &mut self.state {
            Stage::Start(_) | Stage::Plain => {
                let (taken, rest) = input.split_at(input.len().min(OUT_LEN));
                out.extend_from_slice(taken);
                *input = rest;
                Ok(())
            }
            Stage::Inflate(compression, inflate) => inflate.inflate(input, out).map_err(stream(*compression)),
            Stage::Chunks(chunks) => Ok(chunks.unpack(input, out)?),
        }
    }
}

impl Stage {
    fn new(container: Container) -> Self {
        match container {
            Container::TfRecord(Compression::None) => Self::Plain,
            Container::TfRecord(compression @ Compression::Gzip) => {
                Self::Inflate(compression, Box::new(Inflate::gzip()))
            }
            Container::TfRecord(compression @ Compression::Zlib) => {
                Self::Inflate(compression, Box::new(Inflate::zlib()))
            }
            Container::ArrayRecord => Self::Chunks(Box::new(ChunkReader::new())),
        }
    }
}

fn stream(compression: Compression) -> impl FnOnce(InflateError) -> UnpackError {
    move |source| UnpackError::Stream { compression, source }
}
