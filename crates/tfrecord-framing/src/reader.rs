//! [`RecordReader`]: records out of anything that is `Read`.

use std::io::{self, Read};

use crate::{Compression, CrcPolicy, ErrorKind, Position, RecordDecoder, Records, Result, records::Sink};

/// Bytes asked of the input at once: the buffer TensorFlow's `TFRecordDataset` has had by default.
const BUFFER_LEN: usize = 256 << 10;

/// Reads the records of a TFRecord stream, both checksums verified unless [`CrcPolicy`] says otherwise.
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
    inner: R,
    decoder: RecordDecoder,
    /// What was read from `inner`; the decoder took the first `taken` of `filled` bytes.
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
    /// Whether nothing more is read from `inner`: it has ended, or failed.
    ended: bool,
}

impl<R: Read> RecordReader<R> {
    /// A reader of an uncompressed stream.
    pub fn new(inner: R) -> Self {
        Self::with_decoder(inner, RecordDecoder::new())
    }

    /// A reader of a stream compressed this way. Content that is compressed in another way is refused by name, with
    /// `WrongCompression`.
    pub fn with_compression(inner: R, compression: Compression) -> Self {
        Self::with_decoder(inner, RecordDecoder::with_compression(compression))
    }

    /// A reader of a stream whose compression is told from its content. What looks like no TFRecord file is read as an
    /// uncompressed one.
    pub fn detect(inner: R) -> Self {
        Self::with_decoder(inner, RecordDecoder::detect())
    }

    /// A reader that decodes what it reads with this decoder.
    pub fn with_decoder(inner: R, decoder: RecordDecoder) -> Self {
        Self { inner, decoder, buffer: Vec::new(), taken: 0, filled: 0, ended: false }
    }

    /// Refuses records of more than `len` bytes, instead of more than [`MAX_RECORD_LEN`](crate::MAX_RECORD_LEN).
    pub fn with_max_record_len(mut self, len: usize) -> Self {
        self.decoder = self.decoder.with_max_record_len(len);
        self
    }

    /// Checks checksums as `policy` says, instead of checking them all.
    pub fn with_crc_policy(mut self, policy: CrcPolicy) -> Self {
        self.decoder = self.decoder.with_crc_policy(policy);
        self
    }

    /// Where the next record starts.
    pub fn position(&self) -> Position {
        self.decoder.position()
    }

    /// The stream's compression, known after the first read.
    pub fn compression(&self) -> Option<Compression> {
        self.decoder.compression()
    }

    /// Reads the next record into `record`, replacing what it held; false at the end of the stream.
    ///
    /// # Errors
    ///
    /// Every [`ErrorKind`]. `record` is empty then. After `DataCrc` the next call reads the record that follows; after
    /// any other error it is lost where a record starts, and every further call returns false.
    pub fn read_record(&mut self, record: &mut Vec<u8>) -> Result<bool> {
        record.clear();
        Ok(self.read_into(1, record)? > 0)
    }

    /// Appends records to `records`, at most `limit`, and returns how many; 0 at the end of the stream (or if `limit`
    /// is 0).
    ///
    /// It returns with the records of one read of the input, and reads again only if that ended inside a record.
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

    /// Reads anew into the buffer, all of which is taken.
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

/// Reads what there is, at once.
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
