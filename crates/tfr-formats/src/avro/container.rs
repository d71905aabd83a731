//! The container: a header with the schema, and blocks of records between sync markers.

use std::collections::HashMap;
use std::io::Read;

use async_compression::tokio::bufread::{BzDecoder, XzDecoder, ZstdDecoder};
use flate2::read::DeflateDecoder;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::schema::{AvroType, SchemaDialect};
use crate::error::{Error, ErrorKind, FilePlace, Result, Within};
use crate::forward::{Forward, InputFile};

const MAGIC: &[u8] = b"Obj\x01";
const SYNC_LEN: u64 = 16;

/// Maximum decompressed bytes of a block, if no lower limit is set; writers make blocks of some hundred kilobytes.
const MAX_BLOCK_LEN: usize = 1 << 30;

/// The compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Null,
    Deflate,
    Snappy,
    Bzip2,
    Xz,
    Zstandard,
}

/// A file that is read block by block.
pub(super) struct Container {
    file: InputFile,
    bytes: Forward,
    pub(super) schema: AvroType,
    /// Metadata of the header that is text, without the schema and the codec.
    pub(super) metadata: HashMap<String, String>,
    codec: Codec,
    sync: [u8; SYNC_LEN as usize],
}

/// Records in their binary encoding.
pub(super) struct Block {
    /// The offset in the file at which the block begins.
    pub(super) byte: u64,
    /// The number of records in the block.
    pub(super) records: u64,
    pub(super) data: bytes::Bytes,
}

impl Container {
    /// Reads the header, where the attributes of a dialect count.
    pub(super) async fn open(file: &InputFile, dialect: SchemaDialect) -> Result<Self> {
        let mut bytes = Forward::open(file).await?;
        let damaged = |byte, reason: String| damaged(file, byte, reason);
        if bytes.take(MAGIC.len() as u64).await? != MAGIC {
            return Err(damaged(0, "it does not begin as an Avro file".to_owned()));
        }
        let (mut schema, mut codec, mut metadata) = (None, Codec::Null, HashMap::new());
        loop {
            let pairs = match long(file, &mut bytes).await? {
                0 => break,
                pairs @ 1.. => pairs.unsigned_abs(),
                pairs => {
                    long(file, &mut bytes).await?;
                    pairs.unsigned_abs()
                }
            };
            for _ in 0..pairs {
                let key = string(file, &mut bytes).await?;
                let value = string(file, &mut bytes).await?;
                match key.as_ref() {
                    b"avro.schema" => {
                        schema = Some(AvroType::parse(&value, dialect).map_err(|reason| {
                            malformed(file, format!("the schema in its header cannot be used: {reason}"))
                        })?);
                    }
                    b"avro.codec" => {
                        codec = Codec::parse(&value).ok_or_else(|| {
                            malformed(
                                file,
                                format!(
                                    "unsupported compression of its blocks: {:?}, expected null, deflate, snappy, bzip2, xz or \
                                     zstandard",
                                    String::from_utf8_lossy(&value)
                                ),
                            )
                        })?;
                    }
                    key => {
                        let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(&value));
                        metadata.insert(key.into_owned(), value.into_owned());
                    }
                }
            }
        }
        let Some(schema) = schema else { return Err(damaged(bytes.position(), "it has no schema".to_owned())) };
        let mut sync = [0; SYNC_LEN as usize];
        sync.copy_from_slice(&bytes.take(SYNC_LEN).await?);
        Ok(Self { file: file.clone(), bytes, schema, metadata, codec, sync })
    }

    /// Skips to the first block that begins at or after `byte`. The sync marker is random, so that any occurrence is
    /// taken for one, as by all readers of splits.
    pub(super) async fn skip_to(&mut self, byte: u64) -> Result<()> {
        if byte > self.bytes.position() {
            self.bytes = Forward::open_at(&self.file, byte.saturating_sub(SYNC_LEN)).await?;
            self.bytes.pass(&self.sync).await?;
        }
        Ok(())
    }

    /// Returns the offset of the next block in the file.
    pub(super) fn position(&self) -> u64 {
        self.bytes.position()
    }

    /// Returns the next block, which may have `most` bytes when decompressed; `None` at the end of the file.
    pub(super) async fn block(&mut self, most: usize) -> Result<Option<Block>> {
        let Some(Block { byte, records, data }) = self.compressed_block().await? else { return Ok(None) };
        let most = most.min(MAX_BLOCK_LEN);
        let unpacked = match self.codec {
            Codec::Null => Some(data).filter(|data| data.len() <= most),
            codec => {
                let unpacked = codec.decompress(&data, most).await.map_err(|reason| self.damaged(byte, reason))?;
                unpacked.map(Into::into)
            }
        };
        let (file, bytes) = (self.file.name.to_string(), most as u64);
        let data = unpacked.ok_or(ErrorKind::LongBlock { file, byte, bytes })?;
        Ok(Some(Block { byte, records, data }))
    }

    /// Returns the number of records before the block at `byte`, by reading the file from its start.
    pub(super) async fn records_before(file: &InputFile, byte: u64) -> Result<u64> {
        let (mut container, mut records) = (Self::open(file, SchemaDialect::Avro).await?, 0_u64);
        while container.position() < byte {
            let Some(block) = container.compressed_block().await? else { break };
            records = records.saturating_add(block.records);
        }
        Ok(records)
    }

    /// Returns the next block as it is in the file.
    async fn compressed_block(&mut self) -> Result<Option<Block>> {
        let byte = self.bytes.position();
        if self.bytes.left() == 0 {
            return Ok(None);
        }
        let records = long(&self.file, &mut self.bytes).await?;
        let len = long(&self.file, &mut self.bytes).await?;
        let (Ok(records), Ok(len)) = (u64::try_from(records), u64::try_from(len)) else {
            return Err(self.damaged(byte, format!("a block of {records} records in {len} bytes")));
        };
        let data = self.bytes.take(len).await?;
        let end = self.bytes.position();
        if *self.bytes.take(SYNC_LEN).await? != self.sync {
            return Err(self.damaged(end, "the sync marker behind a block is not that of the file".to_owned()));
        }
        Ok(Some(Block { byte, records, data }))
    }

    pub(super) fn damaged(&self, byte: u64, reason: String) -> Error {
        damaged(&self.file, byte, reason)
    }
}

fn damaged(file: &InputFile, byte: u64, reason: String) -> Error {
    Error::damaged(&file.name, Within::Byte(byte), &reason)
}

/// Returns the error of a file whose header cannot be used.
fn malformed(file: &InputFile, problem: String) -> Error {
    Error::content(FilePlace::new(&file.name, Within::File), problem)
}

/// Reads a zigzag varint: seven bits per byte, the lowest first, the sign in the lowest bit.
async fn long(file: &InputFile, bytes: &mut Forward) -> Result<i64> {
    let start = bytes.position();
    let mut encoded = Vec::new();
    loop {
        encoded.extend_from_slice(&bytes.take(1).await?);
        if encoded.last().is_none_or(|byte| *byte < 0x80) || encoded.len() == 10 {
            let value = super::bytes::Bytes::new(&encoded).long();
            return value.map_err(|fault| damaged(file, start, fault.describe()));
        }
    }
}

async fn string(file: &InputFile, bytes: &mut Forward) -> Result<bytes::Bytes> {
    let start = bytes.position();
    let len = long(file, bytes).await?;
    match u64::try_from(len) {
        Ok(len) => bytes.take(len).await,
        Err(_) => Err(damaged(file, start, format!("a string of {len} bytes"))),
    }
}

impl Codec {
    fn parse(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"null" | b"" => Self::Null,
            b"deflate" => Self::Deflate,
            b"snappy" => Self::Snappy,
            b"bzip2" => Self::Bzip2,
            b"xz" => Self::Xz,
            b"zstandard" => Self::Zstandard,
            _ => return None,
        })
    }

    /// Decompresses the content of a block; `None` if it has more than `most` bytes. The error says why it cannot.
    async fn decompress(self, data: &[u8], most: usize) -> Result<Option<Vec<u8>>, String> {
        let mut unpacked = Vec::new();
        match self {
            Self::Null => unpacked.extend_from_slice(data),
            Self::Snappy => return unsnap(data, most),
            Self::Deflate => {
                let read = DeflateDecoder::new(data).take(most as u64 + 1).read_to_end(&mut unpacked);
                read.map_err(|error| undecompressed(&error))?;
            }
            Self::Bzip2 => read_all(BzDecoder::new(data), most, &mut unpacked).await?,
            Self::Xz => read_all(XzDecoder::new(data), most, &mut unpacked).await?,
            Self::Zstandard => read_all(ZstdDecoder::new(data), most, &mut unpacked).await?,
        }
        Ok(Some(unpacked).filter(|unpacked| unpacked.len() <= most))
    }
}

fn undecompressed(error: &dyn std::error::Error) -> String {
    format!("a block cannot be decompressed: {error}")
}

async fn read_all(decoder: impl AsyncRead + Unpin, most: usize, unpacked: &mut Vec<u8>) -> Result<(), String> {
    let read = decoder.take(most as u64 + 1).read_to_end(unpacked).await;
    read.map(|_| ()).map_err(|error| undecompressed(&error))
}

/// Decompresses raw Snappy followed by the CRC-32 of the uncompressed data; `None` for more than `most` bytes.
fn unsnap(data: &[u8], most: usize) -> Result<Option<Vec<u8>>, String> {
    let Some((data, checksum)) = data.split_last_chunk::<4>() else {
        return Err("a compressed block without a checksum".to_owned());
    };
    let len = snap::raw::decompress_len(data).map_err(|error| undecompressed(&error))?;
    // A copy of 64 bytes takes three bytes.
    if len / 32 > data.len() {
        return Err(format!("a block of {} bytes that should be {len} when decompressed", data.len()));
    }
    if len > most {
        return Ok(None);
    }
    let unpacked = snap::raw::Decoder::new().decompress_vec(data).map_err(|error| undecompressed(&error))?;
    let mut found = flate2::Crc::new();
    found.update(&unpacked);
    match found.sum() == u32::from_be_bytes(*checksum) {
        true => Ok(Some(unpacked)),
        false => Err("the checksum of a block does not match".to_owned()),
    }
}
