//! [`RecordReader`]: reads records from any `Read`.

use std::io::{self, Read};

use crate::{Compression, Container, CrcPolicy, ErrorKind, Position, RecordDecoder, Records, Result, records::Sink};

/// Bytes requested from the input per read: the default buffer size of TensorFlow's `TFRecordDataset`.
const BUFFER_LEN: usize = 256 << 10;

/// Reads the records of a TFRecord or ArrayRecord stream. Verifies both checksums unless [`CrcPolicy`] disables that.
///
/// The input is read in large pieces, so it needs no `BufReader`. A stream of zero bytes has no records, compressed or
/// not.
///
/// Stricter than TensorFlow, which reads these as the end of the file: a few bytes left over after the last record, a
/// gzip stream without its trailer, and bytes after a zlib stream are errors here. A file truncated exactly between two
/// records cannot be distinguished from a whole file.
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
    inner: R,
    decoder: RecordDecoder,
    /// Bytes read from `inner`. The decoder has consumed the first `taken` of `filled` bytes.
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Whether `inner` is exhausted: it has ended or failed.
    ended: bool,
}

impl<R: Read> RecordReader<R> {
    /// Creates a reader of an uncompressed stream.
    pub fn new(inner: R) -> Self {
        Self::with_decoder(inner, RecordDecoder::new())
    }

    /// Creates a reader of a stream with this compression. Content with another compression is rejected with
    /// `WrongContainer`, which names both.
    pub fn with_compression(inner: R, compression: Compression) -> Self {
        Self::with_decoder(inner, RecordDecoder::with_compression(compression))
    }

    /// Creates a reader that detects the container from the content. Content that looks like none is read as
    /// uncompressed TFRecord.
    pub fn detect(inner: R) -> Self {
        Self::with_decoder(inner, RecordDecoder::detect())
    }

    /// Creates a reader that uses this decoder.
    pub fn with_decoder(inner: R, decoder: RecordDecoder) -> Self {
        Self { inner, decoder, buffer: Vec::new(), taken: 0, filled: 0, ended: false }
    }

    /// Rejects records of more than `len` bytes. The default is [`MAX_RECORD_LEN`](crate::MAX_RECORD_LEN).
    pub fn with_max_record_len(mut self, len: usize) -> Self {
        self.decoder = self.decoder.with_max_record_len(len);
        self
    }

    /// Sets whether checksums are checked. The default is to check them all.
    pub fn with_crc_policy(mut self, policy: CrcPolicy) -> Self {
        self.decoder = self.decoder.with_crc_policy(policy);
        self
    }

    /// Returns the position of the next record.
    pub fn position(&self) -> Position {
        self.decoder.position()
    }

    /// Returns the stream's container; available after the first read.
    pub fn container(&self) -> Option<Container> {
        self.decoder.container()
    }

    /// Reads the next record into `record`, replacing its contents. Returns false at the end of the stream.
    ///
    /// # Errors
    ///
    /// Every [`ErrorKind`]; `record` is then empty. After `DataCrc` the next call reads the following record. After any
    /// other error the start of the next record is unknown, and every further call returns false.
    pub fn read_record(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        record.clear();
        Ok(self.read_into(1, record)? > 0)
    }

    /// Appends at most `limit` records to `records` and returns their number; 0 at the end of the stream (or if `limit`
    /// is 0).
    ///
    /// Returns the records of one read of the input, and reads again only if that read ended inside a record.
    ///
    /// # Errors
    ///
    /// As [`read_record`](Self::read_record). The records before the damage are appended.
    pub fn read_records(&mut self, limit: usize, records: &mut Records) -> Result<usize> {
        self.read_into(limit, records)
    }

    fn read_into(&mut self, limit: usize, records: &mut impl Sink) -> Result<usize> {
        loop {
            let mut input = &self.buffer[self.taken..self.filled];
            let decoded = self.decoder.decode_into(&mut input, limit, records);
            self.taken = self.filled - input.len();
            if self.ended || self.decoder.is_lost() || limit == 0 || !matches!(decoded, Ok(0)) {
                return decoded;
            }
            self.fill()?;
            if self.ended {
                self.decoder.finish()?;
            }
        }
    }

    /// Refills the buffer after all of it was consumed.
    fn fill(&mut self) -> Result<()> {
        self.buffer.resize(BUFFER_LEN, 0);
        (self.taken, self.filled) = (0, 0);
        match read_some(&mut self.inner, &mut self.buffer) {
            Ok(read) => self.filled = read,
            Err(source) => {
                self.ended = true;
                return Err(ErrorKind::Io { position: self.position(), source }.into());
            }
        }
        self.ended = self.filled == 0;
        Ok(())
    }
}

/// Reads the available bytes once.
fn read_some(inner: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match inner.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests;
