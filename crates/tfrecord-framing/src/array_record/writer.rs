//! [`ArrayRecordWriter`]: writes records as an ArrayRecord file.

use std::fmt;
use std::io::{self, Write};
use std::num::NonZeroU32;
use std::str::FromStr;

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::layout::{
    BLOCK_HEADER_LEN, BLOCK_LEN, BlockHeader, CHUNK_HEADER_LEN, ChunkEntry, ChunkHeader, ChunkKind, CodecMark,
    FooterMetadata, Postscript, chunk_end, push_varint,
};

/// Bytes buffered before they are written.
const BUFFER_LEN: usize = 256 << 10;

/// The most bytes that become a chunk, so that it is read again with all that compression may add: 4 GiB less 64 MiB.
const LONGEST_CHUNK: u64 = (4 << 30) - (64 << 20);

/// How Google's writer compresses by default: the level, and the logarithm of the window.
const ZSTD: (i32, u32) = (3, 20);

/// How the chunks of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChunkCodec {
    /// Not compressed.
    #[default]
    None,
    /// Zstandard, level 3.
    Zstd,
}

impl fmt::Display for ChunkCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Zstd => "zstd",
        })
    }
}

/// A name that is not a valid [`ChunkCodec`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown compression {0:?}, expected none or zstd")]
pub struct UnknownChunkCodec(String);

impl FromStr for ChunkCodec {
    type Err = UnknownChunkCodec;

    /// Parses `none` or `zstd`, ignoring case.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "" | "none" | "uncompressed" => Ok(Self::None),
            "zstd" => Ok(Self::Zstd),
            _ => Err(UnknownChunkCodec(name.into())),
        }
    }
}

/// The chunks of an ArrayRecord file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkOptions {
    /// Number of records of a chunk; the last one may have fewer. A reader decodes whole chunks, so with 1 it reads
    /// no more than a record at a time.
    pub group_size: NonZeroU32,
    /// How chunks are compressed.
    pub codec: ChunkCodec,
}

impl Default for ChunkOptions {
    /// One record a chunk, not compressed.
    fn default() -> Self {
        Self { group_size: NonZeroU32::MIN, codec: ChunkCodec::None }
    }
}

impl ChunkOptions {
    /// The most records of a chunk that an option takes, 65,536: a reader decodes a chunk as a whole.
    pub const MAX_GROUP_SIZE: NonZeroU32 = NonZeroU32::MIN.saturating_add((1 << 16) - 1);

    /// Returns the options as Google's writer records them in the footer.
    fn text(&self) -> String {
        let codec = match self.codec {
            ChunkCodec::None => "uncompressed".to_owned(),
            ChunkCodec::Zstd => format!("zstd:{},window_log:{}", ZSTD.0, ZSTD.1),
        };
        let group_size = self.group_size;
        format!("group_size:{group_size},transpose:false,pad_to_block_boundary:false,{codec},max_parallelism:1")
    }
}

/// Records that become a chunk: their sizes as varints, and their bytes.
#[derive(Debug, Default)]
struct Group {
    records: u64,
    sizes: Vec<u8>,
    values: Vec<u8>,
}

impl Group {
    fn push(&mut self, record: &[u8]) {
        self.records += 1;
        push_varint(&mut self.sizes, record.len() as u64);
        self.values.extend_from_slice(record);
    }

    fn clear(&mut self) {
        self.records = 0;
        self.sizes.clear();
        self.values.clear();
    }
}

/// Encodes chunks.
struct Encoder {
    codec: ChunkCodec,
    /// Created for the first chunk.
    zstd: Option<Compressor<'static>>,
}

impl Encoder {
    const fn new(codec: ChunkCodec) -> Self {
        Self { codec, zstd: None }
    }

    /// Replaces `chunk` by the header and the data of a chunk.
    fn encode(&mut self, records: u64, sizes: &[u8], values: &[u8], chunk: &mut Vec<u8>) -> io::Result<ChunkHeader> {
        check_len(sizes.len(), values.len())?;
        chunk.clear();
        chunk.extend_from_slice(&[0; CHUNK_HEADER_LEN]);
        match self.codec {
            ChunkCodec::None => {
                chunk.push(CodecMark::None.mark());
                push_varint(chunk, sizes.len() as u64);
                chunk.extend_from_slice(sizes);
                chunk.extend_from_slice(values);
            }
            ChunkCodec::Zstd => {
                let compressor = match &mut self.zstd {
                    Some(compressor) => compressor,
                    none => none.insert(compressor()?),
                };
                chunk.push(CodecMark::Zstd.mark());
                let mut prefixed = Vec::new();
                push_varint(&mut prefixed, sizes.len() as u64);
                prefixed.extend(compressor.compress(sizes)?);
                push_varint(chunk, prefixed.len() as u64);
                chunk.append(&mut prefixed);
                push_varint(chunk, values.len() as u64);
                chunk.extend(compressor.compress(values)?);
            }
        }
        let header = ChunkHeader::of(ChunkKind::Simple, records, values.len() as u64, &chunk[CHUNK_HEADER_LEN..]);
        chunk[..CHUNK_HEADER_LEN].copy_from_slice(&header.encode());
        Ok(header)
    }
}

/// Checks that a chunk of this length can be read, whatever compression makes of it.
fn check_len(sizes: usize, values: usize) -> io::Result<()> {
    let len = (sizes as u64).saturating_add(values as u64);
    if len <= LONGEST_CHUNK {
        return Ok(());
    }
    let reason =
        format!("a chunk of {len} bytes, expected at most {LONGEST_CHUNK}: records of this length need smaller groups");
    Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
}

fn compressor() -> io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(ZSTD.0)?;
    compressor.set_parameter(CParameter::WindowLog(ZSTD.1))?;
    Ok(compressor)
}

/// Encodes chunks of records, on any thread, for [`ArrayRecordWriter::write_chunk`].
pub struct ChunkEncoder {
    encoder: Encoder,
    group: Group,
}

/// The bytes of a chunk of records.
#[derive(Debug, Clone)]
pub struct EncodedChunk {
    header: ChunkHeader,
    /// The header, and the data.
    bytes: Vec<u8>,
}

impl ChunkEncoder {
    /// Creates an encoder of chunks that are compressed in this way.
    pub fn new(codec: ChunkCodec) -> Self {
        Self { encoder: Encoder::new(codec), group: Group::default() }
    }

    /// Encodes records as a chunk.
    ///
    /// # Errors
    /// If the codec fails.
    pub fn encode<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>) -> io::Result<EncodedChunk> {
        self.group.clear();
        records.for_each(|record| self.group.push(record));
        let Group { records, sizes, values } = &self.group;
        let mut bytes = Vec::new();
        let header = self.encoder.encode(*records, sizes, values, &mut bytes)?;
        Ok(EncodedChunk { header, bytes })
    }
}

impl fmt::Debug for ChunkEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkEncoder").finish_non_exhaustive()
    }
}

/// Writes records as an ArrayRecord file.
///
/// Output is buffered, so it needs no `BufWriter`. The file is complete only after [`finish`](Self::finish), which writes
/// the footer: a writer dropped without it, or after an error, leaves a file that no reader takes. The bytes depend only
/// on the records and the options. A file has at least 128 KiB.
///
/// ```
/// use tfrecord_framing::array_record::{ArrayRecordWriter, ChunkOptions, SIGNATURE};
///
/// # fn main() -> std::io::Result<()> {
/// let mut writer = ArrayRecordWriter::new(Vec::new(), ChunkOptions::default());
/// writer.write_record(b"a record")?;
/// let file = writer.finish()?;
/// assert_eq!(file.len(), 128 << 10);
/// assert!(file.starts_with(&SIGNATURE));
/// # Ok(())
/// # }
/// ```
pub struct ArrayRecordWriter<W: Write> {
    inner: W,
    options: ChunkOptions,
    encoder: Encoder,
    /// Bytes not yet written.
    buffer: Vec<u8>,
    /// Length of the file so far, with the buffer.
    position: u64,
    /// Records of the next chunk.
    group: Group,
    /// The chunk being written. Kept for its memory.
    chunk: Vec<u8>,
    /// The records of the footer, after the first.
    entries: Group,
    entry: Vec<u8>,
    /// Number of records in chunks.
    records: u64,
}

impl<W: Write> ArrayRecordWriter<W> {
    /// Creates a writer of a file.
    pub fn new(inner: W, options: ChunkOptions) -> Self {
        let mut writer = Self {
            inner,
            options,
            encoder: Encoder::new(options.codec),
            buffer: Vec::new(),
            position: 0,
            group: Group::default(),
            chunk: Vec::new(),
            entries: Group::default(),
            entry: Vec::new(),
            records: 0,
        };
        let signature = ChunkHeader::of(ChunkKind::Signature, 0, 0, &[]);
        writer.chunk.extend_from_slice(&signature.encode());
        writer.buffer(&signature);
        writer
    }

    /// Returns the options.
    pub fn options(&self) -> ChunkOptions {
        self.options
    }

    /// Whether the next record begins a chunk.
    pub fn is_at_chunk(&self) -> bool {
        self.group.records == 0
    }

    /// Writes one record.
    ///
    /// # Errors
    /// If the output fails, or the codec. The output is then not a file.
    #[inline]
    pub fn write_record(&mut self, record: &[u8]) -> io::Result<()> {
        if self.options.group_size.get() == 1 {
            self.group.sizes.clear();
            push_varint(&mut self.group.sizes, record.len() as u64);
            let header = self.encoder.encode(1, &self.group.sizes, record, &mut self.chunk)?;
            self.note_chunk(&header);
            return self.put(&header);
        }
        check_len(self.group.sizes.len(), self.group.values.len().saturating_add(record.len()))?;
        self.group.push(record);
        if self.group.records == u64::from(self.options.group_size.get()) { self.end_group() } else { Ok(()) }
    }

    /// Writes a chunk that was encoded elsewhere, of as many records as a [group](ChunkOptions::group_size) has.
    ///
    /// # Errors
    /// As [`write_record`](Self::write_record). Also if the chunk has another number of records, or does not begin where a
    /// chunk [does](Self::is_at_chunk): readers compute the chunk of a record from its number.
    pub fn write_chunk(&mut self, chunk: EncodedChunk) -> io::Result<()> {
        if !self.is_at_chunk() || chunk.header.records != u64::from(self.options.group_size.get()) {
            let reason =
                format!("a chunk of {} records within others of {}", chunk.header.records, self.options.group_size);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        self.note_chunk(&chunk.header);
        self.chunk = chunk.bytes;
        self.put(&chunk.header)
    }

    /// Writes the remaining records and the footer, and returns the flushed output.
    ///
    /// # Errors
    /// As [`write_record`](Self::write_record).
    pub fn finish(mut self) -> io::Result<W> {
        self.end_group()?;
        let footer = self.position;
        let metadata =
            FooterMetadata { chunks: self.entries.records, records: self.records, writer_options: self.options.text() };
        let mut group = Group::default();
        group.push(&metadata.encode());
        group.records += self.entries.records;
        group.sizes.append(&mut self.entries.sizes);
        group.values.append(&mut self.entries.values);
        let header = self.encoder.encode(group.records, &group.sizes, &group.values, &mut self.chunk)?;
        self.put(&header)?;
        self.pad_to_block()?;

        group.clear();
        let postscript = Postscript { footer }.encode();
        (0..Postscript::COPIES).for_each(|_| group.push(&postscript));
        let header =
            Encoder::new(ChunkCodec::None).encode(group.records, &group.sizes, &group.values, &mut self.chunk)?;
        self.put(&header)?;
        self.pad_to_block()?;
        self.inner.write_all(&self.buffer)?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    /// Writes the chunk of the collected records, if there are any.
    fn end_group(&mut self) -> io::Result<()> {
        if self.group.records == 0 {
            return Ok(());
        }
        let Group { records, sizes, values } = &self.group;
        let header = self.encoder.encode(*records, sizes, values, &mut self.chunk)?;
        self.group.clear();
        self.note_chunk(&header);
        self.put(&header)
    }

    /// Adds a chunk of records that begins here to the footer.
    fn note_chunk(&mut self, header: &ChunkHeader) {
        let ChunkHeader { decoded_len, records, .. } = *header;
        self.records += records;
        self.entry.clear();
        ChunkEntry { position: self.position, decoded_len, records }.encode_to(&mut self.entry);
        self.entries.push(&self.entry);
    }

    /// Puts a chunk without a meaning up to the next block.
    fn pad_to_block(&mut self) -> io::Result<()> {
        let to_block = self.position.wrapping_neg() % BLOCK_LEN;
        if to_block == 0 {
            return Ok(());
        }
        let data_len = match to_block.checked_sub(CHUNK_HEADER_LEN as u64) {
            Some(rest) => rest,
            // Its header does not fit before that block, so it fills that block too.
            None => to_block + BLOCK_LEN - (BLOCK_HEADER_LEN + CHUNK_HEADER_LEN) as u64,
        };
        self.chunk.clear();
        self.chunk.resize(CHUNK_HEADER_LEN + data_len as usize, 0);
        let header = ChunkHeader::of(ChunkKind::Padding, 0, 0, &self.chunk[CHUNK_HEADER_LEN..]);
        self.chunk[..CHUNK_HEADER_LEN].copy_from_slice(&header.encode());
        self.put(&header)
    }

    /// Writes the chunk that was encoded last.
    fn put(&mut self, header: &ChunkHeader) -> io::Result<()> {
        self.buffer(header);
        if self.buffer.len() >= BUFFER_LEN {
            self.inner.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Buffers the chunk that was encoded last, with the headers of the blocks that it is in, and its padding.
    fn buffer(&mut self, header: &ChunkHeader) {
        let begin = self.position;
        let end = chunk_end(header, begin);
        let mut bytes = self.chunk.as_slice();
        while self.position < end {
            if self.position.is_multiple_of(BLOCK_LEN) {
                let block = BlockHeader { previous: self.position - begin, next: end - self.position };
                self.buffer.extend_from_slice(&block.encode());
                self.position += BLOCK_HEADER_LEN as u64;
            }
            let room = (BLOCK_LEN - self.position % BLOCK_LEN).min(end - self.position) as usize;
            if bytes.is_empty() {
                self.buffer.resize(self.buffer.len() + room, 0);
                self.position += room as u64;
            } else {
                let (now, later) = bytes.split_at(room.min(bytes.len()));
                self.buffer.extend_from_slice(now);
                self.position += now.len() as u64;
                bytes = later;
            }
        }
    }
}

impl<W: Write + fmt::Debug> fmt::Debug for ArrayRecordWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, options, position, .. } = self;
        f.debug_struct("ArrayRecordWriter")
            .field("inner", inner)
            .field("options", options)
            .field("position", position)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
