//! [`Message`]: a schema, a dictionary or a batch, and the decoder for them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Endianness, MessageHeader, MetadataVersion, Schema as IpcSchema};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::refusal::{Refusal, damaged};
use super::{check, endian, fit, rebuild};
use crate::hugging_face;
use crate::nulls::with_null_keys;

/// The marker before the length of a message since Arrow 0.15.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];

/// The columns and the encoding of their values.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) schema: SchemaRef,
    big_endian: bool,
}

impl Layout {
    pub(super) fn new(schema: IpcSchema<'_>) -> Result<Self, Refusal> {
        let Some(fields) = schema.fields() else { return damaged("its schema has no list of columns") };
        // Converted one by one: arrow-ipc's conversion of whole schemas panics on big-endian decimals.
        let fields: Vec<Field> = fields.iter().map(Field::from).collect();
        let pairs = schema.custom_metadata().into_iter().flatten();
        let metadata: HashMap<_, _> =
            pairs.filter_map(|pair| Some((pair.key()?.to_owned(), pair.value()?.to_owned()))).collect();
        let fields = hugging_face::with_labels(fields, &metadata);
        let big_endian = schema.endianness() == Endianness::Big;
        Ok(Self { schema: Arc::new(Schema::new_with_metadata(fields, metadata)), big_endian })
    }
}

/// The metadata of a message.
pub(super) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: rebuild::rebuilt(&bytes).unwrap_or(bytes) }
    }

    fn root(&self) -> Result<arrow_ipc::Message<'_>, Refusal> {
        let message = arrow_ipc::root_as_message(&self.bytes)
            .or_else(|error| damaged(format!("the metadata of a message is damaged: {error}")))?;
        match message.version() {
            MetadataVersion::V4 | MetadataVersion::V5 => Ok(message),
            MetadataVersion::V1 | MetadataVersion::V2 | MetadataVersion::V3 => {
                Err(Refusal::Unsupported("Arrow IPC before version 0.8"))
            }
            MetadataVersion(version) => damaged(format!("the version of the metadata is {version}")),
        }
    }

    pub(super) fn is_schema(&self) -> bool {
        self.root().is_ok_and(|message| message.header_type() == MessageHeader::Schema)
    }

    /// Returns the columns, if this is a schema.
    pub(super) fn layout(&self) -> Result<Layout, Refusal> {
        match self.root()?.header_as_schema() {
            Some(schema) => Layout::new(schema),
            None => damaged("it does not begin with a schema"),
        }
    }

    /// Returns the length of the body in bytes.
    pub(super) fn body_len(&self) -> Result<u64, Refusal> {
        let len = self.root()?.bodyLength();
        u64::try_from(len).or_else(|_| damaged(format!("a message has a body of {len} bytes")))
    }
}

/// Whether a file may begin with the schema of a stream: after the continuation marker since Arrow 0.15, after only the
/// length before.
pub(crate) fn begins_stream(head: &[u8]) -> bool {
    let message = head.strip_prefix(&CONTINUATION).unwrap_or(head);
    let Some((len, metadata)) = message.split_first_chunk::<4>() else { return false };
    let Ok(len) = usize::try_from(i32::from_le_bytes(*len)) else { return false };
    match metadata.get(..len) {
        Some(metadata) => Message::new(metadata.to_vec()).is_schema(),
        // The schema is longer than the bytes read.
        None => head.starts_with(&CONTINUATION) || begins_as_schema(metadata),
    }
}

/// Whether truncated metadata of a message begins like that of a schema. Four bytes of UTF-32 text may pass for the
/// length before it. So the root must be a table whose header type is schema.
fn begins_as_schema(metadata: &[u8]) -> bool {
    header_type(metadata) == Some(MessageHeader::Schema.0)
}

/// Returns the header type of the message by FlatBuffers' layout: the root is a table, which begins with the distance
/// back to its vtable, the list of field offsets.
fn header_type(metadata: &[u8]) -> Option<u8> {
    let word = |at: usize| metadata.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let half = |at: usize| metadata.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    let root = usize::try_from(word(0)?).ok()?;
    let back = i64::from(word(root)?.cast_signed());
    let fields = usize::try_from(i64::try_from(root).ok()?.checked_sub(back)?).ok()?;
    // The vtable's own length, the table's, and at least two of version, type, header, body length and metadata.
    if !matches!(half(fields)?, 8 | 10 | 12 | 14) {
        return None;
    }
    match half(fields + 6)? {
        0 => None,
        offset => metadata.get(root.checked_add(offset.into())?).copied(),
    }
}

/// Decodes the messages after the schema.
pub(super) struct Decoder {
    layout: Layout,
    dictionaries: HashMap<i64, ArrayRef>,
    projection: Vec<usize>,
}

impl Decoder {
    /// Decodes only the columns whose names in the file are requested.
    pub(super) fn new(layout: Layout, is_wanted: impl Fn(&str) -> bool) -> Self {
        let fields = layout.schema.fields().iter().enumerate();
        let projection = fields.filter(|(_, field)| is_wanted(field.name())).map(|(index, _)| index).collect();
        Self { layout, dictionaries: HashMap::new(), projection }
    }

    /// Decodes a message with its body; returns a batch, or `None` for a dictionary.
    pub(super) fn decode(&mut self, message: &Message, body: Buffer) -> Result<Option<RecordBatch>, Refusal> {
        let message = message.root()?;
        let version = message.version();
        if rebuild::codec_of_custom_metadata(&message).is_some() {
            return Err(Refusal::Unsupported("Arrow IPC of version 0.17 with a codec other than LZ4 and Zstandard"));
        }
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let Some(batch) = message.header_as_record_batch() else { return damaged("a batch without content") };
                let lengths = check::batch(&batch, &body)?;
                let fields = || self.layout.schema.fields().iter().map(AsRef::as_ref);
                fit::buffers(&batch, lengths, fields(), version)?;
                let body = self.native(batch, body, fields(), version)?;
                let (schema, projection) = (Arc::clone(&self.layout.schema), Some(self.projection.as_slice()));
                let batch = read_record_batch(&body, batch, schema, &self.dictionaries, projection, &version)?;
                Ok(Some(with_null_keys(batch)?))
            }
            MessageHeader::DictionaryBatch => {
                let Some((id, batch)) =
                    message.header_as_dictionary_batch().and_then(|batch| Some((batch.id(), batch.data()?)))
                else {
                    return damaged("a dictionary without content");
                };
                let lengths = check::batch(&batch, &body)?;
                let Some(values) = self.dictionary_values(id) else {
                    return damaged(format!("no column has the dictionary {id}"));
                };
                fit::buffers(&batch, lengths, std::iter::once(&values), version)?;
                let body = self.native(batch, body, std::iter::once(&values), version)?;
                let Some(batch) = message.header_as_dictionary_batch() else { return Ok(None) };
                read_dictionary(&body, batch, &self.layout.schema, &mut self.dictionaries, &version)?;
                Ok(None)
            }
            MessageHeader::Schema => damaged("a second schema"),
            MessageHeader::Tensor => Err(Refusal::Unsupported("tensors in Arrow IPC")),
            MessageHeader::SparseTensor => Err(Refusal::Unsupported("sparse tensors in Arrow IPC")),
            other => damaged(format!("a message of unknown kind {other:?}")),
        }
    }

    /// Returns the values of a dictionary as a field.
    fn dictionary_values(&self, id: i64) -> Option<Field> {
        #[allow(deprecated, reason = "arrow-ipc has no other way from the number of a dictionary to its columns")]
        let fields = self.layout.schema.fields_with_dict_id(id);
        match fields.first()?.data_type() {
            DataType::Dictionary(_, values) => Some(Field::new("", values.as_ref().clone(), true)),
            _ => None,
        }
    }

    /// Returns the body with its numbers in this machine's byte order.
    fn native<'a>(
        &self,
        batch: arrow_ipc::RecordBatch<'_>,
        body: Buffer,
        fields: impl Iterator<Item = &'a Field>,
        version: MetadataVersion,
    ) -> Result<Buffer, Refusal> {
        match self.layout.big_endian {
            true => endian::swapped(&batch, &body, fields, version),
            false => Ok(body),
        }
    }
}
