//! [`SchemaDescription`]: an Arrow schema as stored in a manifest.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::panic::catch_unwind;

use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// An Arrow schema, in a readable and in a lossless representation.
///
/// ```
/// use arrow_schema::{DataType, Field, Schema, TimeUnit};
/// use tfrecord_shards::SchemaDescription;
///
/// let paid_at = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
/// let schema = Schema::new(vec![Field::new("paid_at", paid_at, true)]);
/// let description = SchemaDescription::try_new(&schema)?;
/// assert_eq!(description.fields[0].data_type, r#"Timestamp(µs, "UTC")"#);
/// assert_eq!(*description.to_schema()?, schema);
/// # Ok::<(), tfrecord_shards::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SchemaDescription {
    /// The columns, in order.
    pub fields: Vec<FieldDescription>,
    /// The lossless schema: an Arrow IPC stream without batches, in base64.
    pub ipc: String,
}

/// One column of a [`SchemaDescription`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FieldDescription {
    /// Its name.
    pub name: String,
    /// Its type, as Arrow prints it.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Whether it may hold nulls.
    pub nullable: bool,
    /// Its metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl SchemaDescription {
    /// Describes a schema.
    ///
    /// # Errors
    /// If the schema cannot be encoded as Arrow IPC.
    pub fn try_new(schema: &Schema) -> Result<Self> {
        let stream = StreamWriter::try_new(Vec::new(), schema)?.into_inner()?;
        let fields = schema.fields().iter().map(|field| FieldDescription::new(field)).collect();
        Ok(Self { fields, ipc: BASE64_STANDARD.encode(stream) })
    }

    /// Decodes the schema from its IPC encoding.
    ///
    /// # Errors
    /// If the IPC encoding is damaged.
    pub fn to_schema(&self) -> Result<SchemaRef> {
        let stream = BASE64_STANDARD.decode(&self.ipc)?;
        // The reader panics on unknown types, which damage can create.
        let read = catch_unwind(|| StreamReader::try_new(Cursor::new(stream), None).map(|reader| reader.schema()));
        Ok(read.unwrap_or_else(|_| Err(ArrowError::IpcError("unknown or incomplete type".to_owned())))?)
    }
}

impl FieldDescription {
    fn new(field: &Field) -> Self {
        let metadata = field.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Self {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            nullable: field.is_nullable(),
            metadata,
        }
    }
}
