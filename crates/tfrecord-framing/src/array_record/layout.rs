//! The layout: headers, positions and messages, encoded and decoded, each checked on its own.

use highway::{HighwayHash, HighwayHasher, Key};

/// Distance of block headers in a file, in bytes.
pub const BLOCK_LEN: u64 = 1 << 16;

/// Length of a [`BlockHeader`] in bytes.
pub const BLOCK_HEADER_LEN: usize = 24;

/// Length of a [`ChunkHeader`] in bytes.
pub const CHUNK_HEADER_LEN: usize = 40;

/// The first 64 bytes of each file: the header of the first block, and the signature chunk.
pub const SIGNATURE: [u8; 64] = [
    0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0, //
    0x40, 0, 0, 0, 0, 0, 0, 0, 0x91, 0xba, 0xc2, 0x3c, 0x92, 0x87, 0xe1, 0xa9, //
    0, 0, 0, 0, 0, 0, 0, 0, 0xe1, 0x9f, 0x13, 0xc0, 0xe9, 0xb1, 0xc3, 0x72, //
    0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// The number in every [`Postscript`]: the beginning of the MD5 of "ArrayRecord\n".
pub const MAGIC: u64 = 0x7193_0e70_4fda_e05e;

/// "Riegeli/records\n", twice.
const KEY: Key = Key([0x2f69_6c65_6765_6952, 0x0a73_6472_6f63_6572, 0x2f69_6c65_6765_6952, 0x0a73_6472_6f63_6572]);

/// Bytes of a block without its header.
const USABLE_LEN: u64 = BLOCK_LEN - BLOCK_HEADER_LEN as u64;

/// The most bytes of a varint.
const MAX_VARINT_LEN: usize = 10;

/// Returns the hash of all parts of a file: HighwayHash-64.
///
/// ```
/// use tfrecord_framing::array_record::{SIGNATURE, hash};
///
/// assert_eq!(hash(&SIGNATURE[8..24]).to_le_bytes(), SIGNATURE[..8]);
/// ```
#[inline]
pub fn hash(bytes: &[u8]) -> u64 {
    HighwayHasher::new(KEY).hash64(bytes)
}

/// Why a part of the layout is not what it should be. The caller adds the file and the position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A header or the data of a chunk do not match their hash.
    #[error("{what} has the hash {found:#018x}, expected {expected:#018x}")]
    Hash {
        /// The part.
        what: &'static str,
        /// The stored hash.
        found: u64,
        /// The hash of the bytes.
        expected: u64,
    },

    /// The distances in a block header cannot be those of a chunk.
    #[error("block header with {previous} bytes of its chunk before it and {next} from it on: not a chunk's")]
    BlockHeader {
        /// Bytes from the beginning of the chunk to the block.
        previous: u64,
        /// Bytes from the block to the end of the chunk.
        next: u64,
    },

    /// A message of the footer or the postscript cannot be decoded, or lacks a field.
    #[error("{message}: {defect}")]
    Message {
        /// The message.
        message: &'static str,
        /// The defect.
        defect: &'static str,
    },

    /// The magic number of a postscript is another one.
    #[error("postscript has the number {found:#018x}, expected {MAGIC:#018x}")]
    Magic {
        /// The number.
        found: u64,
    },

    /// The footer has a version that is not known.
    #[error("ArrayRecord version {found}, expected 1")]
    Version {
        /// The version.
        found: u64,
    },
}

/// What is in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChunkKind {
    /// The beginning of a file, `s`: no data, no records.
    Signature,
    /// Metadata of a Riegeli/records file, `m`: no records.
    Metadata,
    /// Bytes without a meaning, `p`: no records.
    Padding,
    /// Records, one after the other, `r`.
    Simple,
    /// Records whose fields are stored by column, `t`.
    Transposed,
    /// Another byte.
    Unknown(u8),
}

impl ChunkKind {
    /// Returns the byte in a header.
    pub const fn mark(self) -> u8 {
        match self {
            Self::Signature => b's',
            Self::Metadata => b'm',
            Self::Padding => b'p',
            Self::Simple => b'r',
            Self::Transposed => b't',
            Self::Unknown(mark) => mark,
        }
    }

    /// Returns the kind with this byte in a header.
    pub const fn from_mark(mark: u8) -> Self {
        match mark {
            b's' => Self::Signature,
            b'm' => Self::Metadata,
            b'p' => Self::Padding,
            b'r' => Self::Simple,
            b't' => Self::Transposed,
            mark => Self::Unknown(mark),
        }
    }
}

/// How the sizes and the values of a simple chunk are compressed: the first byte of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodecMark {
    /// Not compressed.
    None,
    /// Brotli, `b`.
    Brotli,
    /// Zstandard, `z`.
    Zstd,
    /// Snappy, `s`.
    Snappy,
    /// Another byte.
    Unknown(u8),
}

impl CodecMark {
    /// Returns the byte.
    pub const fn mark(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Brotli => b'b',
            Self::Zstd => b'z',
            Self::Snappy => b's',
            Self::Unknown(mark) => mark,
        }
    }

    /// Returns the codec with this byte.
    pub const fn from_mark(mark: u8) -> Self {
        match mark {
            0 => Self::None,
            b'b' => Self::Brotli,
            b'z' => Self::Zstd,
            b's' => Self::Snappy,
            mark => Self::Unknown(mark),
        }
    }
}

/// The header of a chunk.
///
/// ```
/// use tfrecord_framing::array_record::{ChunkHeader, ChunkKind};
///
/// let header = ChunkHeader::of(ChunkKind::Simple, 1, 3, b"\0\x01\x03abc");
/// assert_eq!(ChunkHeader::decode(&header.encode()), Ok(header));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Length of the data, without block headers.
    pub data_len: u64,
    /// Hash of the data.
    pub data_hash: u64,
    /// What is in the chunk.
    pub kind: ChunkKind,
    /// Number of records, below 2^56.
    pub records: u64,
    /// Length of all records, decompressed.
    pub decoded_len: u64,
}

impl ChunkHeader {
    /// Returns the header of a chunk with this data.
    #[inline]
    pub fn of(kind: ChunkKind, records: u64, decoded_len: u64, data: &[u8]) -> Self {
        Self { data_len: data.len() as u64, data_hash: hash(data), kind, records, decoded_len }
    }

    /// Returns the bytes.
    #[inline]
    pub fn encode(&self) -> [u8; CHUNK_HEADER_LEN] {
        let mut bytes = [0; CHUNK_HEADER_LEN];
        bytes[8..16].copy_from_slice(&self.data_len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.data_hash.to_le_bytes());
        bytes[24..32].copy_from_slice(&(self.records << 8 | u64::from(self.kind.mark())).to_le_bytes());
        bytes[32..].copy_from_slice(&self.decoded_len.to_le_bytes());
        let hash = hash(&bytes[8..]);
        bytes[..8].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Returns the header with these bytes.
    ///
    /// # Errors
    /// If they do not match their hash.
    pub fn decode(bytes: &[u8; CHUNK_HEADER_LEN]) -> Result<Self, LayoutError> {
        check_hash("chunk header", number(bytes, 0), &bytes[8..])?;
        let kind_and_records = number(bytes, 24);
        Ok(Self {
            data_len: number(bytes, 8),
            data_hash: number(bytes, 16),
            kind: ChunkKind::from_mark(bytes[24]),
            records: kind_and_records >> 8,
            decoded_len: number(bytes, 32),
        })
    }

    /// Checks the hash of the data.
    ///
    /// # Errors
    /// If the data do not match it.
    #[inline]
    pub fn check_data(&self, data: &[u8]) -> Result<(), LayoutError> {
        check_hash("data of a chunk", self.data_hash, data)
    }
}

/// The header of a block: what is at each multiple of [`BLOCK_LEN`].
///
/// A block that begins where a chunk ends has the distances of the next chunk: 0 bytes before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// Bytes from the beginning of the interrupted chunk to this header.
    pub previous: u64,
    /// Bytes from this header to the end of the interrupted chunk.
    pub next: u64,
}

impl BlockHeader {
    /// Returns the bytes.
    #[inline]
    pub fn encode(&self) -> [u8; BLOCK_HEADER_LEN] {
        let mut bytes = [0; BLOCK_HEADER_LEN];
        bytes[8..16].copy_from_slice(&self.previous.to_le_bytes());
        bytes[16..].copy_from_slice(&self.next.to_le_bytes());
        let hash = hash(&bytes[8..]);
        bytes[..8].copy_from_slice(&hash.to_le_bytes());
        bytes
    }

    /// Returns the header with these bytes.
    ///
    /// # Errors
    /// If they do not match their hash, or the distances cannot be those of a chunk.
    pub fn decode(bytes: &[u8; BLOCK_HEADER_LEN]) -> Result<Self, LayoutError> {
        check_hash("block header", number(bytes, 0), &bytes[8..])?;
        let (previous, next) = (number(bytes, 8), number(bytes, 16));
        let begins_right = previous % BLOCK_LEN < USABLE_LEN;
        let ends_right = next > 0 && (next - 1) % BLOCK_LEN >= BLOCK_HEADER_LEN as u64;
        if begins_right && ends_right {
            Ok(Self { previous, next })
        } else {
            Err(LayoutError::BlockHeader { previous, next })
        }
    }
}

/// Whether a chunk may begin or end at a position: not in a block header, nor right after one.
///
/// ```
/// use tfrecord_framing::array_record::is_chunk_boundary;
///
/// assert!(is_chunk_boundary(0) && !is_chunk_boundary(1) && !is_chunk_boundary(24) && is_chunk_boundary(25));
/// ```
pub const fn is_chunk_boundary(position: u64) -> bool {
    in_block(position) < USABLE_LEN
}

/// Returns the position after `len` bytes of a chunk that begins at `begin`, a chunk boundary: with the headers of the
/// blocks between.
///
/// ```
/// use tfrecord_framing::array_record::add_block_headers;
///
/// assert_eq!(add_block_headers(0, 40), 64);
/// assert_eq!(add_block_headers(65_530, 6), 65_536);
/// assert_eq!(add_block_headers(65_530, 7), 65_561);
/// ```
pub const fn add_block_headers(begin: u64, len: u64) -> u64 {
    let blocks = len.saturating_add((begin.wrapping_add(USABLE_LEN - 1)) % BLOCK_LEN) / USABLE_LEN;
    begin.saturating_add(len).saturating_add(blocks.saturating_mul(BLOCK_HEADER_LEN as u64))
}

/// Returns where a chunk ends that begins at `begin`, a chunk boundary: after its data, and at least a byte for each
/// record behind its beginning. Bytes between are padding. Saturates at [`u64::MAX`], for lengths of damaged files.
pub const fn chunk_end(header: &ChunkHeader, begin: u64) -> u64 {
    let after_data = add_block_headers(begin, header.data_len.saturating_add(CHUNK_HEADER_LEN as u64));
    let after_records = begin.saturating_add(header.records);
    let after_records = after_records.saturating_add(in_block(after_records).saturating_sub(USABLE_LEN - 1));
    if after_data > after_records { after_data } else { after_records }
}

/// Returns the number of bytes from a position to the end of its block, 0 at its beginning.
const fn in_block(position: u64) -> u64 {
    position.wrapping_neg() % BLOCK_LEN
}

/// Appends a number as a varint.
///
/// ```
/// use tfrecord_framing::array_record::{push_varint, split_varint};
///
/// let mut bytes = Vec::new();
/// push_varint(&mut bytes, 300);
/// assert_eq!(split_varint(&bytes), Some((300, [].as_slice())));
/// ```
#[inline]
pub fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Splits a varint off: the number, and the bytes behind it. Returns `None` if the bytes end in it, or it has more than
/// 64 bits.
#[inline]
pub fn split_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (index, &byte) in bytes.iter().take(MAX_VARINT_LEN).enumerate() {
        if index == MAX_VARINT_LEN - 1 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}

/// The first record of the footer.
///
/// ```
/// use tfrecord_framing::array_record::FooterMetadata;
///
/// let footer = FooterMetadata { chunks: 2, records: 2, writer_options: "group_size:1".into() };
/// assert_eq!(FooterMetadata::decode(&footer.encode()), Ok(footer));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FooterMetadata {
    /// Number of chunks of records, which is the number of records of the footer behind this one.
    pub chunks: u64,
    /// Number of records in these chunks.
    pub records: u64,
    /// The options of the writer, as text for people.
    pub writer_options: String,
}

impl FooterMetadata {
    const NAME: &str = "RiegeliFooterMetadata";
    const VERSION: u64 = 1;

    /// Returns the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut inner = Vec::new();
        for (field, number) in [(1, Self::VERSION), (2, self.chunks), (3, self.records)] {
            push_number(&mut inner, field, number);
        }
        push_bytes(&mut inner, 4, self.writer_options.as_bytes());
        let mut message = Vec::new();
        push_bytes(&mut message, 1, &inner);
        message
    }

    /// Returns the metadata in a message.
    ///
    /// # Errors
    /// If it is not such a message, lacks a number, or has another version.
    pub fn decode(message: &[u8]) -> Result<Self, LayoutError> {
        let mut inner = None;
        for_fields(Self::NAME, message, |field, value| {
            if let (1, Value::Bytes(bytes)) = (field, value) {
                inner = Some(bytes);
            }
        })?;
        let inner = required(Self::NAME, "lacks array_record_metadata", inner)?;
        let (mut version, mut chunks, mut records, mut options) = (None, None, None, None);
        for_fields(Self::NAME, inner, |field, value| match (field, value) {
            (1, Value::Number(number)) => version = Some(number),
            (2, Value::Number(number)) => chunks = Some(number),
            (3, Value::Number(number)) => records = Some(number),
            (4, Value::Bytes(bytes)) => options = Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => {}
        })?;
        match required(Self::NAME, "lacks version", version)? {
            Self::VERSION => Ok(Self {
                chunks: required(Self::NAME, "lacks num_chunks", chunks)?,
                records: required(Self::NAME, "lacks num_records", records)?,
                writer_options: options.unwrap_or_default(),
            }),
            found => Err(LayoutError::Version { found }),
        }
    }
}

/// A record of the footer: where a chunk of records is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkEntry {
    /// Where the chunk begins.
    pub position: u64,
    /// Length of its records.
    pub decoded_len: u64,
    /// Number of its records.
    pub records: u64,
}

impl ChunkEntry {
    const NAME: &str = "ArrayRecordFooter";

    /// Appends the message.
    pub fn encode_to(&self, message: &mut Vec<u8>) {
        for (field, number) in [(1, self.position), (2, self.decoded_len), (3, self.records)] {
            push_number(message, field, number);
        }
    }

    /// Returns the entry in a message.
    ///
    /// # Errors
    /// If it is not such a message, or lacks a field.
    pub fn decode(message: &[u8]) -> Result<Self, LayoutError> {
        let (mut position, mut decoded_len, mut records) = (None, None, None);
        for_fields(Self::NAME, message, |field, value| match (field, value) {
            (1, Value::Number(number)) => position = Some(number),
            (2, Value::Number(number)) => decoded_len = Some(number),
            (3, Value::Number(number)) => records = Some(number),
            _ => {}
        })?;
        Ok(Self {
            position: required(Self::NAME, "lacks chunk_offset", position)?,
            decoded_len: required(Self::NAME, "lacks decoded_data_size", decoded_len)?,
            records: required(Self::NAME, "lacks num_records", records)?,
        })
    }
}

/// One of the three equal records of the postscript.
///
/// ```
/// use tfrecord_framing::array_record::Postscript;
///
/// let postscript = Postscript { footer: 64 };
/// assert_eq!(Postscript::decode(&postscript.encode()), Ok(postscript));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Postscript {
    /// Where the footer begins.
    pub footer: u64,
}

impl Postscript {
    /// Copies in a file.
    pub const COPIES: usize = 3;

    const NAME: &str = "RiegeliPostscript";

    /// Returns the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::new();
        push_number(&mut message, 1, self.footer);
        push_number(&mut message, 2, MAGIC);
        message
    }

    /// Returns the postscript in a message.
    ///
    /// # Errors
    /// If it is not such a message, lacks a field, or has another number than [`MAGIC`].
    pub fn decode(message: &[u8]) -> Result<Self, LayoutError> {
        let (mut footer, mut magic) = (None, None);
        for_fields(Self::NAME, message, |field, value| match (field, value) {
            (1, Value::Number(number)) => footer = Some(number),
            (2, Value::Number(number)) => magic = Some(number),
            _ => {}
        })?;
        match required(Self::NAME, "lacks magic", magic)? {
            MAGIC => Ok(Self { footer: required(Self::NAME, "lacks footer_offset", footer)? }),
            found => Err(LayoutError::Magic { found }),
        }
    }
}

/// A value of a field of a message.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Calls `each` with the number and the value of every field. Fields of a fixed length have no use here, and are
/// skipped.
fn for_fields<'a>(
    name: &'static str,
    mut message: &'a [u8],
    mut each: impl FnMut(u64, Value<'a>),
) -> Result<(), LayoutError> {
    let broken = || LayoutError::Message { message: name, defect: "not a protobuf message" };
    while !message.is_empty() {
        let (tag, rest) = split_varint(message).ok_or_else(broken)?;
        let (field, wire_type) = (tag >> 3, tag & 7);
        message = match wire_type {
            0 => {
                let (number, rest) = split_varint(rest).ok_or_else(broken)?;
                each(field, Value::Number(number));
                rest
            }
            1 => rest.get(8..).ok_or_else(broken)?,
            2 => {
                let (len, rest) = split_varint(rest).ok_or_else(broken)?;
                let len = usize::try_from(len).map_err(|_| broken())?;
                let (bytes, rest) = rest.split_at_checked(len).ok_or_else(broken)?;
                each(field, Value::Bytes(bytes));
                rest
            }
            5 => rest.get(4..).ok_or_else(broken)?,
            _ => return Err(broken()),
        };
    }
    Ok(())
}

fn required<T>(message: &'static str, defect: &'static str, value: Option<T>) -> Result<T, LayoutError> {
    value.ok_or(LayoutError::Message { message, defect })
}

fn push_number(message: &mut Vec<u8>, field: u64, number: u64) {
    push_varint(message, field << 3);
    push_varint(message, number);
}

fn push_bytes(message: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    push_varint(message, field << 3 | 2);
    push_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

#[inline]
fn check_hash(what: &'static str, found: u64, bytes: &[u8]) -> Result<(), LayoutError> {
    match hash(bytes) {
        expected if expected == found => Ok(()),
        expected => Err(LayoutError::Hash { what, found, expected }),
    }
}

/// Reads 8 bytes as a number.
fn number<const N: usize>(bytes: &[u8; N], start: usize) -> u64 {
    bytes[start..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;
