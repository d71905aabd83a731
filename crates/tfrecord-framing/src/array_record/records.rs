//! [`ChunkRecords`]: the records of a simple chunk.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};

use brotli_decompressor::Decompressor;
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{DCtx, ResetDirective};

use super::chunk::MAX_CHUNK_LEN;
use super::{ChunkHeader, CodecMark, Defect, split_varint};
use crate::MAX_RECORD_LEN;

/// The most bytes that one byte of snappy becomes: a copy of 64 bytes takes three.
const SNAPPY_RATIO: u64 = 64 / 3 + 1;

/// Bytes that the decompression of brotli reads at a time.
const BROTLI_BUFFER_LEN: usize = 4 << 10;

/// The records of a chunk, decompressed and checked.
#[derive(Debug)]
pub(super) struct ChunkRecords<'a> {
    /// The lengths of the records that were not returned, as varints.
    sizes: Cow<'a, [u8]>,
    size: usize,
    values: Cow<'a, [u8]>,
    value: usize,
}

/// State that decompression reuses from chunk to chunk.
#[derive(Default)]
pub(super) struct Codecs {
    zstd: Option<DCtx<'static>>,
}

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codecs").finish_non_exhaustive()
    }
}

impl Codecs {
    /// Decodes the data of a chunk, whose hash was checked.
    ///
    /// Memory is that of the decompressed bytes, which are at most as many as the header records.
    pub(super) fn records<'a>(&mut self, header: &ChunkHeader, data: &'a [u8]) -> Result<ChunkRecords<'a>, Defect> {
        let (mark, rest) = data.split_first().ok_or(Defect::Codec { found: 0 })?;
        let codec = CodecMark::from_mark(*mark);
        let no_sizes = || Defect::Sizes { expected: header.records };
        let (sizes_len, rest) = split_varint(rest).ok_or_else(no_sizes)?;
        let sizes_len = usize::try_from(sizes_len).map_err(|_| no_sizes())?;
        let (sizes, values) = rest.split_at_checked(sizes_len).ok_or_else(no_sizes)?;
        // Each size is a varint of at most 10 bytes, and the chunk has at least a byte for each record.
        let sizes = self.decompress(codec, sizes, header.records.saturating_mul(10), "sizes")?;
        let values = self.decompress(codec, values, header.decoded_len, "records")?;
        check_sizes(&sizes, header)?;
        match values.len() as u64 {
            found if found == header.decoded_len => Ok(ChunkRecords { sizes, size: 0, values, value: 0 }),
            found => Err(Defect::Len { what: "records", found, expected: header.decoded_len }),
        }
    }

    /// Decompresses at most `max` bytes.
    fn decompress<'a>(
        &mut self,
        codec: CodecMark,
        bytes: &'a [u8],
        max: u64,
        what: &'static str,
    ) -> Result<Cow<'a, [u8]>, Defect> {
        let max = max.min(MAX_CHUNK_LEN);
        if codec == CodecMark::None {
            return Ok(Cow::Borrowed(bytes));
        }
        let (expected, bytes) =
            split_varint(bytes).ok_or(Defect::Len { what, found: bytes.len() as u64, expected: max })?;
        if expected > max {
            return Err(Defect::Len { what, found: expected, expected: max });
        }
        let mut out = Vec::new();
        let name = codec_name(codec);
        let read = match codec {
            CodecMark::Zstd => {
                let context = self.zstd.get_or_insert_with(DCtx::create);
                // A damaged stream leaves the context in its middle.
                let reset = context.reset(ResetDirective::SessionOnly);
                reset.map_err(|_| Defect::Decompress { codec: name, source: io::ErrorKind::Other.into() })?;
                Decoder::with_context(bytes, context).take(expected + 1).read_to_end(&mut out)
            }
            CodecMark::Brotli => Decompressor::new(bytes, BROTLI_BUFFER_LEN).take(expected + 1).read_to_end(&mut out),
            CodecMark::Snappy => unpack_snappy(bytes, expected, &mut out),
            CodecMark::None | CodecMark::Unknown(_) => return Err(Defect::Codec { found: codec.mark() }),
        };
        read.map_err(|source| Defect::Decompress { codec: name, source })?;
        match out.len() as u64 {
            found if found == expected => Ok(Cow::Owned(out)),
            found => Err(Defect::Len { what, found, expected }),
        }
    }
}

fn codec_name(codec: CodecMark) -> &'static str {
    match codec {
        CodecMark::Brotli => "brotli",
        CodecMark::Snappy => "snappy",
        CodecMark::Zstd => "zstd",
        CodecMark::None | CodecMark::Unknown(_) => "none",
    }
}

fn unpack_snappy(bytes: &[u8], expected: u64, out: &mut Vec<u8>) -> io::Result<usize> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    // The stream begins with its length, for which memory is reserved.
    let len = snap::raw::decompress_len(bytes)?;
    if len as u64 != expected || len as u64 > bytes.len() as u64 * SNAPPY_RATIO {
        return Err(invalid("the stream has another length"));
    }
    out.resize(len, 0);
    Ok(snap::raw::Decoder::new().decompress(bytes, out)?)
}

/// Checks the number of the sizes, their sum, and each of them.
fn check_sizes(sizes: &[u8], header: &ChunkHeader) -> Result<(), Defect> {
    let (mut rest, mut count, mut sum) = (sizes, 0_u64, 0_u64);
    while !rest.is_empty() {
        let (size, after) = split_varint(rest).ok_or(Defect::Sizes { expected: header.records })?;
        if size > MAX_RECORD_LEN as u64 {
            return Err(Defect::RecordTooLong { len: size, max: MAX_RECORD_LEN as u64 });
        }
        (rest, count, sum) = (after, count + 1, sum.saturating_add(size));
    }
    if count != header.records {
        return Err(Defect::Sizes { expected: header.records });
    }
    if sum != header.decoded_len {
        return Err(Defect::Len { what: "sizes of records with a sum", found: sum, expected: header.decoded_len });
    }
    Ok(())
}

impl ChunkRecords<'_> {
    /// Returns the next record.
    pub(super) fn next_record(&mut self) -> Option<&[u8]> {
        let rest = self.sizes.get(self.size..)?;
        let (size, after) = split_varint(rest)?;
        self.size = self.sizes.len() - after.len();
        let start = self.value;
        self.value = start.checked_add(usize::try_from(size).ok()?)?;
        self.values.get(start..self.value)
    }

    pub(super) fn into_owned(self) -> ChunkRecords<'static> {
        let Self { sizes, size, values, value } = self;
        ChunkRecords { sizes: Cow::Owned(sizes.into_owned()), size, values: Cow::Owned(values.into_owned()), value }
    }
}
