//! [`RecordReader`]: records out of anything that is `Read`.

use std::io::{self, BufReader, Read};

use crate::{
    Compression, Error, ErrorKind, FOOTER_LEN, HEADER_LEN, MAX_RECORD_LEN, Position, Result,
    frame::{Header, OVERHEAD},
    inflate::{Inflate, InflateError},
    masked_crc32c,
};

/// Bytes asked of the input at once: the buffer TensorFlow's `TFRecordDataset` has had by default.
const BUFFER_LEN: usize = 256 << 10;

/// The most that is allocated on a length's word alone; further bytes must be there before there is room for them.
const RESERVE_LEN: usize = 1 << 20;

/// Reads the records of a TFRecord stream, both checksums verified.
///
/// The input is read in large pieces; a `BufReader` below is not needed. A stream of zero bytes has no records,
/// compressed or not.
///
/// Stricter than TensorFlow, which takes these for the end of the file: a few bytes left over after the last record,
/// a gzip stream without its trailer, and bytes after a zlib stream are errors here. A file that was cut exactly
/// between two records cannot be told from a whole one.
///
/// ```
/// use tfrecord_framing::{ErrorKind, Position, RecordReader, RecordWriter};
///
/// # fn main() -> tfrecord_framing::Result<()> {
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"first")?;
/// writer.write_record(b"second")?;
/// let mut file = writer.finish()?;
/// file.pop();
///
/// let mut reader = RecordReader::new(file.as_slice());
/// let mut record = Vec::new();
/// assert!(reader.read_record(&mut record)?);
/// assert_eq!(record, b"first");
/// let error = reader.read_record(&mut record).unwrap_err();
/// assert_eq!(error.position(), Position { record: 1, byte: 21 });
/// assert!(matches!(error.kind(), ErrorKind::Truncated { expected: 22, found: 21, .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordReader<R: Read> {
    source: Source<R>,
    compression: Compression,
    max_record_len: usize,
    /// Where the next record starts.
    position: Position,
    /// Whether it is known where the next record starts.
    lost: bool,
}

#[derive(Debug)]
enum Source<R: Read> {
    Plain(BufReader<R>),
    Inflate(Box<Inflate<BufReader<R>>>),
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.read(buf),
            Self::Inflate(inner) => inner.read(buf),
        }
    }
}

impl<R: Read> RecordReader<R> {
    /// A reader of an uncompressed stream.
    pub fn new(inner: R) -> Self {
        Self::with_compression(inner, Compression::None)
    }

    /// A reader of a stream compressed this way.
    pub fn with_compression(inner: R, compression: Compression) -> Self {
        let inner = BufReader::with_capacity(BUFFER_LEN, inner);
        let source = match compression {
            Compression::None => Source::Plain(inner),
            Compression::Gzip => Source::Inflate(Box::new(Inflate::gzip(inner))),
            Compression::Zlib => Source::Inflate(Box::new(Inflate::zlib(inner))),
        };
        Self { source, compression, max_record_len: MAX_RECORD_LEN, position: Position::default(), lost: false }
    }

    /// Refuses records of more than `len` bytes, instead of more than [`MAX_RECORD_LEN`].
    pub fn with_max_record_len(mut self, len: usize) -> Self {
        self.max_record_len = len;
        self
    }

    /// Where the next record starts.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Reads the next record into `record`, replacing what it held; false at the end of the stream.
    ///
    /// # Errors
    ///
    /// Every [`ErrorKind`]. `record` is empty then. After `DataCrc` the next call reads the record that follows; after
    /// any other error it is lost where a record starts, and every further call returns false.
    pub fn read_record(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        record.clear();
        if self.lost {
            return Ok(false);
        }
        let read = self.read_frame(record);
        if let Err(error) = &read {
            record.clear();
            self.lost = !matches!(error.kind(), ErrorKind::DataCrc { .. });
        }
        read
    }

    fn read_frame(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        let position = self.position;
        let Some(len) = self.read_header()? else { return Ok(false) };
        let footer = self.read_body(len, record)?;

        self.position.record += 1;
        self.position.byte += (OVERHEAD + len) as u64;
        let (found, expected) = (u32::from_le_bytes(footer), masked_crc32c(record));
        if found != expected {
            return Err(ErrorKind::DataCrc { position, len, found, expected }.into());
        }
        Ok(true)
    }

    /// The length of the next payload; none at the end of the stream.
    fn read_header(&mut self) -> Result<Option<usize>> {
        let position = self.position;
        let mut header = [0; HEADER_LEN];
        match read_full(&mut self.source, &mut header).map_err(|source| self.read_error(source))? {
            0 => Ok(None),
            HEADER_LEN => Header::parse(&header).payload_len(self.max_record_len, position).map(Some),
            found => Err(ErrorKind::Truncated { position, expected: HEADER_LEN, found }.into()),
        }
    }

    /// Reads a payload of `len` bytes into `record`, which is empty, and returns the footer.
    fn read_body(&mut self, len: usize, record: &mut Vec<u8>) -> Result<[u8; FOOTER_LEN]> {
        let body_len = len + FOOTER_LEN;
        record.reserve(body_len.min(RESERVE_LEN));
        let body = self.source.by_ref().take(body_len as u64).read_to_end(record);
        let found = body.map_err(|source| self.read_error(source))?;
        let footer = record.get(len..).and_then(|footer| footer.try_into().ok()).ok_or_else(|| {
            let (expected, found) = (OVERHEAD + len, HEADER_LEN + found);
            ErrorKind::Truncated { position: self.position, expected, found }
        })?;
        record.truncate(len);
        Ok(footer)
    }

    fn read_error(&self, source: io::Error) -> Error {
        let Self { position, compression, .. } = *self;
        if source.get_ref().is_some_and(|source| source.is::<InflateError>()) {
            ErrorKind::Compression { position, compression, source }.into()
        } else {
            ErrorKind::Io { position, source }.into()
        }
    }
}

/// Fills `buf` as far as there are bytes, and returns how many there were.
fn read_full(source: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match source.read(&mut buf[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests;
