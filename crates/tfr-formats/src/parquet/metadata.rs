//! Replaces parts of a file's metadata.

use std::collections::HashMap;

use parquet::errors::Result;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnChunkMetaDataBuilder, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataBuilder,
};

/// Replaces the column chunks for which `change`, given a column's index and chunk, returns another.
pub(super) fn with_chunks(
    metadata: ParquetMetaData,
    change: impl Fn(usize, &ColumnChunkMetaData) -> Option<ColumnChunkMetaDataBuilder>,
) -> Result<ParquetMetaData> {
    let mut builder = metadata.into_builder();
    let mut groups = builder.take_row_groups();
    for group in &mut groups {
        for (column, chunk) in group.columns_mut().iter_mut().enumerate() {
            if let Some(changed) = change(column, chunk) {
                *chunk = changed.build()?;
            }
        }
    }
    Ok(builder.set_row_groups(groups).build())
}

/// Returns the key-value pairs of a file.
pub(super) fn key_values(metadata: &ParquetMetaData) -> HashMap<&str, &str> {
    let pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    pairs.map(|pair| (pair.key.as_str(), pair.value.as_deref().unwrap_or_default())).collect()
}

/// Replaces the number of rows and the key-value pairs.
pub(super) fn with_file_metadata(
    metadata: ParquetMetaData,
    rows: i64,
    key_values: Option<Vec<KeyValue>>,
) -> ParquetMetaData {
    let file = metadata.file_metadata();
    let (created_by, orders) = (file.created_by().map(str::to_owned), file.column_orders().cloned());
    let file = FileMetaData::new(file.version(), rows, created_by, key_values, file.schema_descr_ptr(), orders);
    let mut builder = metadata.into_builder();
    let (columns, offsets) = (builder.take_column_index(), builder.take_offset_index());
    ParquetMetaDataBuilder::new(file)
        .set_row_groups(builder.take_row_groups())
        .set_column_index(columns)
        .set_offset_index(offsets)
        .build()
}
