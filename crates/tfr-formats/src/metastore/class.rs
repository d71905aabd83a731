//! Placeholder.
use super::catalog::Storage;
use crate::error::{Error, MetastoreError};
use crate::options::InputOptions;
use datafusion_common::Result;
use std::collections::BTreeMap;

/// Returns the options of the reader, and whether its files name their columns.
pub(super) fn reader(
    table: &str,
    storage: &Storage,
    properties: &BTreeMap<String, String>,
) -> Result<(InputOptions, bool)> {
    let refused = |kind: &str| {
        Error::from(MetastoreError::NotFiles { table: table.to_owned(), kind: kind.to_owned(), view: None })
    };
    if properties.contains_key("storage_handler") {
        return Err(refused("stored in another system").into());
    }
    let mut options = InputOptions::default();
    let class = storage.serde.rsplit('.').next().unwrap_or_default();
    let (format, named) = match class {
        "LazySimpleSerDe" => ("hive-text", false),
        "ParquetHiveSerDe" => ("parquet", true),
        "OrcSerde" => ("orc", true),
        "AvroSerDe" => ("avro", true),
        other => {
            let kind = format!("read by the class {other}");
            return Err(Error::from(MetastoreError::NotFiles { table: table.to_owned(), kind, view: None }).into());
        }
    };
    options.set("format", format)?;
    for key in ["field.delim", "escape.delim", "serialization.null.format", "skip.header.line.count"] {
        if let Some(value) = storage.serde_properties.get(key).or(properties.get(key))
            && !named
        {
            options.set(key, value)?;
        }
    }
    Ok((options, named))
}
