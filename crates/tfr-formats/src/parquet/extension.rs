//! [`with_logical_types`]: the extension types of Arrow that some logical types of Parquet have.
//!
//! Extension types that the writer had in Arrow are in the schema that it stored: see `hint`.

use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, Schema};
use parquet::basic::LogicalType;
use parquet::schema::types::{SchemaDescriptor, Type};

/// Bytes of a UUID.
const UUID_LEN: i32 = 16;

/// Adds the extension types of columns whose logical type in the file has one, unless the field has one already. `json`
/// are the names of columns of JSON, which are annotated as text in `file`.
pub(super) fn with_logical_types(schema: Schema, file: &SchemaDescriptor, json: &[String]) -> Schema {
    let fields = schema.fields().iter().map(|field| {
        let stored = file.root_schema().get_fields().iter().find(|stored| stored.name() == field.name());
        match stored.and_then(|stored| extension_name(field, stored, json.contains(field.name()))) {
            Some(name) if field.extension_type_name().is_none() => {
                let mut field = Field::clone(field);
                field.metadata_mut().insert(EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned());
                field
            }
            _ => Field::clone(field),
        }
    });
    Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())
}

fn extension_name(field: &Field, stored: &Type, is_json: bool) -> Option<&'static str> {
    let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match stored.get_basic_info().logical_type_ref() {
        Some(LogicalType::Uuid) if *field.data_type() == DataType::FixedSizeBinary(UUID_LEN) => Some("arrow.uuid"),
        _ if is_json && is_text => Some("arrow.json"),
        _ => None,
    }
}
