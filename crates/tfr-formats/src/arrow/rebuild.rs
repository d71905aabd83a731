//! [`rebuilt`]: the metadata of a batch in the layout that arrow-ipc requires.
//!
//! Two kinds of metadata are valid for other readers, but not for arrow-ipc:
//!
//! - Arrow 0.17 compressed the buffers of Feather files before the format had a field for it. The codec is in the custom
//!   metadata of each message. A reader that ignores it takes compressed bytes as values.
//! - Some writers place `variadicBufferCounts` and other vectors of 64-bit numbers at a multiple of 4 bytes only.
//!
//! So the metadata is read here, byte by byte, and written again.

use arrow_ipc::{
    BodyCompression, BodyCompressionArgs, BodyCompressionMethod, Buffer, CompressionType, DictionaryBatch,
    DictionaryBatchArgs, FieldNode, Message, MessageArgs, MessageHeader, MetadataVersion, RecordBatch, RecordBatchArgs,
};
use flatbuffers::{FlatBufferBuilder, InvalidFlatbuffer, WIPOffset};

/// The key of the codec's name in the custom metadata of messages of Arrow 0.17.
const CODEC_KEY: &str = "ARROW:experimental_compression";

/// Maximum number of custom metadata entries that are read.
const MAX_ENTRIES: usize = 1000;

/// Returns the metadata of a message in the layout that arrow-ipc requires; `None` if it has this layout, or if it is
/// not the metadata of a batch or a dictionary.
pub(super) fn rebuilt(metadata: &[u8]) -> Option<Vec<u8>> {
    match arrow_ipc::root_as_message(metadata) {
        Ok(message) => {
            let codec = codec_of_custom_metadata(&message).and_then(codec_named)?;
            rebuild(&Table::root(metadata)?, Some(codec))
        }
        Err(InvalidFlatbuffer::Unaligned { .. }) => {
            let message = Table::root(metadata)?;
            rebuild(&message, custom_codec(&message).and_then(codec_named))
        }
        Err(_) => None,
    }
}

/// Returns the name of the codec if the buffers of a batch are compressed as Arrow 0.17 did.
pub(super) fn codec_of_custom_metadata<'a>(message: &Message<'a>) -> Option<&'a str> {
    let batch = message.header_as_record_batch().or_else(|| message.header_as_dictionary_batch()?.data())?;
    if message.version() != MetadataVersion::V4 || batch.compression().is_some() {
        return None;
    }
    let entry = message.custom_metadata()?.iter().find(|entry| entry.key() == Some(CODEC_KEY))?;
    entry.value().filter(|name| !name.eq_ignore_ascii_case("uncompressed"))
}

fn codec_named(name: &str) -> Option<CompressionType> {
    match name.to_ascii_lowercase().as_str() {
        "lz4" | "lz4_frame" => Some(CompressionType::LZ4_FRAME),
        "zstd" => Some(CompressionType::ZSTD),
        _ => None,
    }
}

fn custom_codec<'a>(message: &Table<'a>) -> Option<&'a str> {
    let (first, count) = message.vector(4)?;
    let entries = (0..count.min(MAX_ENTRIES)).map(|index| message.follow(first + 4 * index));
    let mut entries = entries.flatten().filter_map(|at| Table::at(message.bytes, at));
    entries.find(|entry| entry.text(0) == Some(CODEC_KEY))?.text(1)
}

/// Writes the metadata of a batch or a dictionary again. Its buffers are compressed by `codec`, unless the metadata has
/// a codec of its own.
fn rebuild(message: &Table<'_>, codec: Option<CompressionType>) -> Option<Vec<u8>> {
    let mut builder = FlatBufferBuilder::new();
    let version = MetadataVersion(message.number(0, 0)?);
    let header_type = MessageHeader(u8::from_le_bytes(message.number_bytes(1, [0])?));
    let header = message.table(2)?;
    let header = match header_type {
        MessageHeader::RecordBatch => batch(&mut builder, &header, codec)?.as_union_value(),
        MessageHeader::DictionaryBatch => {
            let data = Some(batch(&mut builder, &header.table(1)?, codec)?);
            let id = i64::from_le_bytes(header.number_bytes(0, [0; 8])?);
            let is_delta = header.number_bytes(2, [0])? != [0];
            DictionaryBatch::create(&mut builder, &DictionaryBatchArgs { id, data, isDelta: is_delta }).as_union_value()
        }
        _ => return None,
    };
    let body_len = i64::from_le_bytes(message.number_bytes(3, [0; 8])?);
    let rebuilt =
        MessageArgs { version, header_type, header: Some(header), bodyLength: body_len, custom_metadata: None };
    let rebuilt = Message::create(&mut builder, &rebuilt);
    builder.finish_minimal(rebuilt);
    Some(builder.finished_data().to_vec())
}

fn batch<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    batch: &Table<'_>,
    codec: Option<CompressionType>,
) -> Option<WIPOffset<RecordBatch<'a>>> {
    let nodes: Vec<_> = batch.pairs(1)?.map(|(len, nulls)| FieldNode::new(len, nulls)).collect();
    let buffers: Vec<_> = batch.pairs(2)?.map(|(offset, len)| Buffer::new(offset, len)).collect();
    let codec = match batch.table(3) {
        Some(own) => Some(CompressionType(i8::from_le_bytes(own.number_bytes(0, [0])?))),
        None => codec,
    };
    let variadic = match batch.vector(4) {
        Some((first, count)) => {
            Some((0..count).map(|index| batch.long(first + 8 * index)).collect::<Option<Vec<_>>>()?)
        }
        None => None,
    };
    let arguments = RecordBatchArgs {
        length: i64::from_le_bytes(batch.number_bytes(0, [0; 8])?),
        nodes: Some(builder.create_vector(&nodes)),
        buffers: Some(builder.create_vector(&buffers)),
        compression: codec.map(|codec| {
            BodyCompression::create(builder, &BodyCompressionArgs { codec, method: BodyCompressionMethod::BUFFER })
        }),
        variadicBufferCounts: variadic.map(|counts| builder.create_vector(&counts)),
    };
    Some(RecordBatch::create(builder, &arguments))
}

/// A FlatBuffers table. Its first bytes are the distance back to its vtable, the list of the offsets of its fields.
struct Table<'a> {
    bytes: &'a [u8],
    start: usize,
    vtable: usize,
    vtable_len: usize,
}

impl<'a> Table<'a> {
    /// Returns the table to which the first bytes refer.
    fn root(bytes: &'a [u8]) -> Option<Self> {
        let start = usize::try_from(u32::from_le_bytes(*bytes.first_chunk()?)).ok()?;
        Self::at(bytes, start)
    }

    fn at(bytes: &'a [u8], start: usize) -> Option<Self> {
        let back = i64::from(i32::from_le_bytes(*bytes.get(start..)?.first_chunk()?));
        let vtable = usize::try_from(i64::try_from(start).ok()?.checked_sub(back)?).ok()?;
        let vtable_len = u16::from_le_bytes(*bytes.get(vtable..)?.first_chunk()?);
        Some(Self { bytes, start, vtable, vtable_len: vtable_len.into() })
    }

    /// Returns the position of a field, by its number in the schema; `None` if it has its default value.
    fn field(&self, number: usize) -> Option<usize> {
        let entry = 4 + 2 * number;
        if entry + 2 > self.vtable_len {
            return None;
        }
        let offset = u16::from_le_bytes(*self.bytes.get(self.vtable + entry..)?.first_chunk()?);
        (offset > 0).then(|| self.start + usize::from(offset))
    }

    /// Returns the bytes of a number, or its default value; `None` if they are beyond the end.
    fn number_bytes<const N: usize>(&self, number: usize, default: [u8; N]) -> Option<[u8; N]> {
        match self.field(number) {
            Some(at) => self.bytes.get(at..)?.first_chunk().copied(),
            None => Some(default),
        }
    }

    fn number(&self, number: usize, default: i16) -> Option<i16> {
        self.number_bytes(number, default.to_le_bytes()).map(i16::from_le_bytes)
    }

    fn long(&self, at: usize) -> Option<i64> {
        self.bytes.get(at..)?.first_chunk().copied().map(i64::from_le_bytes)
    }

    /// Returns the position to which an offset refers.
    fn follow(&self, at: usize) -> Option<usize> {
        let offset = u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?);
        at.checked_add(usize::try_from(offset).ok()?)
    }

    fn table(&self, number: usize) -> Option<Self> {
        Self::at(self.bytes, self.follow(self.field(number)?)?)
    }

    /// Returns the position of the first element of a vector, and the number of its elements.
    fn vector(&self, number: usize) -> Option<(usize, usize)> {
        let at = self.follow(self.field(number)?)?;
        let count = usize::try_from(u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?)).ok()?;
        // No element has less than a byte.
        (count <= self.bytes.len()).then_some((at + 4, count))
    }

    /// Returns the pairs of 64-bit numbers of a vector, none if there is no vector.
    fn pairs(&self, number: usize) -> Option<impl Iterator<Item = (i64, i64)>> {
        let Some((first, count)) = self.vector(number) else { return Some(Vec::new().into_iter()) };
        let pair = |index: usize| Some((self.long(first + 16 * index)?, self.long(first + 16 * index + 8)?));
        Some((0..count).map(pair).collect::<Option<Vec<_>>>()?.into_iter())
    }

    fn text(&self, number: usize) -> Option<&'a str> {
        let (first, len) = self.vector(number)?;
        std::str::from_utf8(self.bytes.get(first..first.checked_add(len)?)?).ok()
    }
}
