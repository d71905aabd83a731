//! [`RecordWriter`]: writes records as frames to any `Write`.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;

use crate::{
    Compression, ErrorKind, GZIP_BLOCK_LEN, HEADER_LEN, Level, MAX_RECORD_LEN, Position, Result, append_record,
    frame::{Header, OVERHEAD},
    gzip_member,
};

/// Framed bytes buffered before they are written, except for gzip, which writes whole members. The same as the buffer
/// of TensorFlow's `ZlibCompressionOptions`.
const BUFFER_LEN: usize = 256 << 10;

/// Writes records as a TFRecord stream, optionally compressed.
///
/// Output is buffered, so it needs no `BufWriter`. The stream is complete only after [`finish`](Self::finish): a writer
/// dropped without it, or after an error, leaves a truncated stream.
///
/// The bytes depend only on the records, the compression and the level; gzip members end by the rule of
/// [`GZIP_BLOCK_LEN`].
///
/// ```
/// use tfrecord_framing::RecordWriter;
///
/// # fn main() -> tfrecord_framing::Result<()> {
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"a record")?;
/// assert_eq!(writer.finish()?.len(), 12 + 8 + 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordWriter<W: Write> {
    inner: W,
    codec: Codec,
    /// Framed records not yet passed to the codec.
    block: Vec<u8>,
    /// Position of the next record.
    position: Position,
}

#[derive(Debug)]
enum Codec {
    None,
    Gzip {
        level: Level,
        member: Vec<u8>,
    },
    /// Compresses into memory. Dropping it ends the stream, and must not write to the output.
    Zlib(ZlibEncoder<Vec<u8>>),
}

impl<W: Write> RecordWriter<W> {
    /// Creates a writer of an uncompressed stream.
    pub fn new(inner: W) -> Self {
        Self::with_compression(inner, Compression::None, Level::default())
    }

    /// Creates a writer with this compression. The level has no effect on [`Compression::None`].
    pub fn with_compression(inner: W, compression: Compression, level: Level) -> Self {
        let codec = match compression {
            Compression::None => Codec::None,
            Compression::Gzip => Codec::Gzip { level, member: Vec::new() },
            Compression::Zlib => Codec::Zlib(ZlibEncoder::new(Vec::new(), level.into())),
        };
        Self { inner, codec, block: Vec::new(), position: Position::default() }
    }

    /// Returns the position of the next record.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Writes one record.
    ///
    /// # Errors
    ///
    /// `RecordTooLong` for more than [`MAX_RECORD_LEN`] bytes, with nothing written. `Io` if the output fails; it then
    /// contains a truncated stream.
    pub fn write_record(&mut self, record: &[u8]) -> Result<()> {
        let position = self.position;
        if record.len() > MAX_RECORD_LEN {
            return Err(ErrorKind::RecordTooLong { position, len: record.len() as u64, max: MAX_RECORD_LEN }.into());
        }
        append_record(&mut self.block, |payload| -> Result<()> {
            payload.extend_from_slice(record);
            Ok(())
        })?;
        self.advance(OVERHEAD + record.len())
    }

    /// Writes records that are already framed: any number of whole, consecutive frames.
    ///
    /// Checks the headers to count the records and find their ends. The payloads' checksums are copied unchecked.
    ///
    /// # Errors
    ///
    /// `LengthCrc`, `RecordTooLong` and `Truncated` if these are not whole frames; the frames before are written. `Io`
    /// if the output fails; it then contains a truncated stream.
    pub fn write_framed(&mut self, mut framed: &[u8]) -> Result<()> {
        while !framed.is_empty() {
            let (frame, rest) = split_frame(framed, self.position)?;
            self.block.extend_from_slice(frame);
            self.advance(frame.len())?;
            framed = rest;
        }
        Ok(())
    }

    /// Writes the buffered bytes, ends the stream and returns the flushed output.
    ///
    /// # Errors
    ///
    /// `Io` if the output fails.
    pub fn finish(mut self) -> Result<W> {
        match self.end_stream() {
            Ok(()) => Ok(self.inner),
            Err(source) => Err(ErrorKind::Io { position: self.position, source }.into()),
        }
    }

    /// Counts the record just appended to the block, and passes the block to the codec once it is full.
    fn advance(&mut self, frame_len: usize) -> Result<()> {
        self.position.record += 1;
        self.position.byte += frame_len as u64;
        let full = match self.codec {
            Codec::Gzip { .. } => GZIP_BLOCK_LEN,
            Codec::None | Codec::Zlib(_) => BUFFER_LEN,
        };
        if self.block.len() >= full {
            self.write_block().map_err(|source| ErrorKind::Io { position: self.position, source })?;
        }
        Ok(())
    }

    fn write_block(&mut self) -> io::Result<()> {
        match &mut self.codec {
            Codec::None => self.inner.write_all(&self.block)?,
            Codec::Gzip { level, member } => {
                member.clear();
                gzip_member(&self.block, *level, member);
                self.inner.write_all(member)?;
            }
            Codec::Zlib(encoder) => {
                encoder.write_all(&self.block)?;
                self.inner.write_all(encoder.get_ref())?;
                encoder.get_mut().clear();
            }
        }
        self.block.clear();
        Ok(())
    }

    fn end_stream(&mut self) -> io::Result<()> {
        let no_records = self.position.record == 0;
        // A file without records gets an empty member, because gunzip rejects a file of zero bytes.
        if !self.block.is_empty() || (no_records && matches!(self.codec, Codec::Gzip { .. })) {
            self.write_block()?;
        }
        if let Codec::Zlib(encoder) = &mut self.codec {
            encoder.try_finish()?;
            self.inner.write_all(encoder.get_ref())?;
        }
        self.inner.flush()
    }
}

/// Splits the first frame off `framed`, which starts at stream position `position`.
fn split_frame(framed: &[u8], position: Position) -> Result<(&[u8], &[u8])> {
    let found = framed.len();
    let Some(header) = framed.first_chunk() else {
        return Err(ErrorKind::Truncated { position, expected: HEADER_LEN, found }.into());
    };
    let expected = OVERHEAD + Header::parse(header).payload_len(MAX_RECORD_LEN, position)?;
    framed.split_at_checked(expected).ok_or_else(|| ErrorKind::Truncated { position, expected, found }.into())
}

#[cfg(test)]
mod tests;
