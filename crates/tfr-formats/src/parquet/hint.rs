//! The Arrow schema that writers store in the key-value metadata.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema, parquet_to_arrow_schema};
use parquet::basic::{ConvertedType, Type as PhysicalType};
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use tfr_arrow::nested::{children, map_children};

use super::metadata::with_file_metadata;

/// Returns the schema to which the library decodes a file, and metadata with a consistent schema hint.
///
/// The hint must not turn bytes into text, which the library would not check, and must not contain types on which it
/// panics. A hint that does not match the file is dropped: the file's own schema counts.
///
/// Columns that the writer had in such types are added to `unreadable` with the type.
pub(super) fn with_hint(
    metadata: ParquetMetaData,
    as_bytes: &BTreeSet<String>,
    unreadable: &mut Vec<(String, String)>,
) -> Result<(ParquetMetaData, Schema)> {
    let file = metadata.file_metadata();
    let is_hint = |key_value: &&KeyValue| key_value.key == ARROW_SCHEMA_META_KEY;
    let Some(hint) = file.key_value_metadata().and_then(|key_values| key_values.iter().find(is_hint)) else {
        let schema = parquet_to_arrow_schema(file.schema_descr(), None)?;
        return Ok((metadata, schema));
    };
    let hint = hint.value.as_deref().and_then(Hint::decode);
    let unchecked = hint.as_ref().map(|hint| unchecked_texts(&hint.schema, file.schema_descr())).transpose()?;
    let as_bytes: &BTreeSet<String> = &as_bytes.iter().cloned().chain(unchecked.into_iter().flatten()).collect();
    let hint = match hint {
        Some(Hint { schema, unknown, is_changed: false }) if unknown.is_empty() && !has_any(&schema, as_bytes) => {
            if let Ok(schema) = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata()) {
                return Ok((metadata, schema));
            }
            None
        }
        Some(Hint { schema, unknown, .. }) => {
            unreadable.extend(unknown);
            Some(encode_arrow_schema(&bytes(&schema, as_bytes)))
        }
        None => None,
    };
    let (rows, all) = (file.num_rows(), file.key_value_metadata().cloned().unwrap_or_default());
    let others: Vec<_> = all.into_iter().filter(|key_value| !is_hint(&key_value)).collect();
    let with = |hint: Option<String>| {
        let hint = hint.map(|hint| KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), hint));
        others.iter().cloned().chain(hint).collect::<Vec<_>>()
    };
    let (key_values, schema) = match parquet_to_arrow_schema(file.schema_descr(), Some(&with(hint.clone()))) {
        Ok(schema) => (with(hint), schema),
        Err(_) => (with(None), parquet_to_arrow_schema(file.schema_descr(), None)?),
    };
    Ok((with_file_metadata(metadata, rows, Some(key_values)), schema))
}

/// Returns the columns of bytes that are text in the hint. The library would not check that they are UTF-8.
fn unchecked_texts(hint: &Schema, file: &SchemaDescriptor) -> Result<Vec<String>> {
    let is_text_in_file = |leaf: &ColumnDescPtr| leaf.converted_type() == ConvertedType::UTF8;
    if file.columns().iter().all(|leaf| leaf.physical_type() != PhysicalType::BYTE_ARRAY || is_text_in_file(leaf)) {
        return Ok(Vec::new());
    }
    let without = parquet_to_arrow_schema(file, None)?;
    let is_unchecked = |field: &&FieldRef| {
        let hint = hint.field_with_name(field.name());
        hint.is_ok_and(|hint| makes_text(hint.data_type(), field.data_type()))
    };
    Ok(without.fields().iter().filter(is_unchecked).map(|field| field.name().clone()).collect())
}

/// Whether a hint makes text of bytes.
fn makes_text(hint: &DataType, found: &DataType) -> bool {
    match hint {
        DataType::Dictionary(_, values) => makes_text(values, found),
        hint if hint.is_string() => found.is_binary(),
        hint => children(hint).into_iter().zip(children(found)).any(|(hint, found)| makes_text(hint, found)),
    }
}

fn has_any(schema: &Schema, columns: &BTreeSet<String>) -> bool {
    schema.fields().iter().any(|field| columns.contains(field.name()))
}

/// The writer's Arrow schema.
struct Hint {
    schema: Schema,
    /// Columns of types unknown to the library, and these types; the schema has them as bytes.
    unknown: Vec<(String, String)>,
    /// Whether the writer had dictionaries of nulls, which are nulls here.
    is_changed: bool,
}

impl Hint {
    fn decode(text: &str) -> Option<Self> {
        let decoded = BASE64_STANDARD.decode(text).ok()?;
        let message = match decoded.as_slice() {
            [0xff, 0xff, 0xff, 0xff, _, _, _, _, message @ ..] => message,
            message => message,
        };
        let fields = arrow_ipc::root_as_message(message).ok()?.header_as_schema()?.fields()?;
        let mut unknown = Vec::new();
        let fields = fields.iter().map(|field| {
            let name = field.name().unwrap_or_default();
            let reason = match wide_integer(&field) {
                Some(bits) => format!("an integer of {bits} bits"),
                // The library panics on unknown types.
                None => match std::panic::catch_unwind(AssertUnwindSafe(|| Field::from(field))) {
                    Ok(field) => return field,
                    Err(_) => format!("the Arrow type {:?}", field.type_type()),
                },
            };
            unknown.push((name.to_owned(), reason));
            Field::new(name, DataType::Binary, true)
        });
        let written: Fields = fields.collect();
        let plain = |field: &Arc<Field>| field.as_ref().clone().with_data_type(plain_nulls(field.data_type()));
        let fields: Fields = written.iter().map(plain).collect();
        let is_changed = fields != written;
        Some(Self { schema: Schema::new(fields), unknown, is_changed })
    }
}

/// Replaces dictionaries of nulls by nulls. The library panics on them.
fn plain_nulls(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) if **values == DataType::Null => DataType::Null,
        other => map_children(other, plain_nulls),
    }
}

/// Returns the bit width of a field's integer if it is greater than the library supports.
fn wide_integer(field: &arrow_ipc::Field<'_>) -> Option<i32> {
    let bits = field.type_as_int().map(|int| int.bitWidth()).filter(|bits| *bits > 64);
    bits.or_else(|| field.children()?.iter().find_map(|child| wide_integer(&child)))
}

/// Replaces texts by bytes in some columns of a schema.
fn bytes(schema: &Schema, as_bytes: &BTreeSet<String>) -> Schema {
    let fields = schema.fields().iter().map(|field| match as_bytes.contains(field.name()) {
        true => Arc::new(field.as_ref().clone().with_data_type(bytes_type(field.data_type()))),
        false => Arc::clone(field),
    });
    Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone())
}

/// Replaces texts by bytes in a type.
pub(super) fn bytes_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Utf8View => DataType::BinaryView,
        DataType::Dictionary(_, values) if **values != bytes_type(values) => bytes_type(values),
        other => map_children(other, bytes_type),
    }
}
