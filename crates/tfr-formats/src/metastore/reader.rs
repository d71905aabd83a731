//! [`Reader`]: how the files of a table, or of one of its partitions, become rows.

use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};

use super::catalog::{CATALOG, HiveColumn, RecordedTable, Storage, TRANSACTIONAL};
use crate::error::{Error, ErrorKind, MetastoreError, Result};
use crate::hive_table::{HiveReader, HiveTable};
use crate::hive_text::HiveColumns;
use crate::input_format::InputFormat;
use crate::options::InputOptions;

/// How the files of a table, or of a partition, become its rows.
#[derive(Debug, PartialEq)]
pub(super) struct Reader {
    pub options: InputOptions,
    /// The columns that the files have, without the keys of partitions.
    pub schema: SchemaRef,
    /// For each column of the table, which of these it is; `None` for one that the files do not have. `None` at all if
    /// both have the same columns.
    pub columns: Option<Vec<Option<usize>>>,
}

impl Reader {
    /// Returns the reader of the files of a table that has no partitions, or of new partitions.
    ///
    /// # Errors
    /// The classes or a property are not supported.
    pub fn of_table(table: &RecordedTable) -> Result<Self, Error> {
        let described = described(table, &table.storage);
        Self::new(table, &reader_of(table, &described)?)
    }

    /// Returns the reader of a partition of a table with this reader.
    ///
    /// Formats without names in their files have the columns of the partition, by their positions, as in Hive. Others
    /// have those of the table.
    ///
    /// # Errors
    /// - The classes or a property are not supported.
    /// - A column has a type whose values are not all values of the table's type.
    pub fn of_partition(&self, table: &RecordedTable, partition: &str, storage: &Storage) -> Result<Self, Error> {
        let mut described = described(table, storage);
        let mut reader = reader_of(table, &described)?;
        let is_named = matches!(reader.format, InputFormat::Parquet | InputFormat::Orc | InputFormat::Avro);
        if is_named && storage.columns != table.storage.columns {
            described.columns = pairs(&table.storage.columns);
            reader = reader_of(table, &described)?;
        }
        let reader = Self::new(table, &reader)?;
        let columns = match reader.schema == self.schema {
            true => None,
            false => Some(mapping(table, partition, &self.schema, &reader.schema)?),
        };
        Ok(Self { columns, ..reader })
    }

    fn new(table: &RecordedTable, reader: &HiveReader) -> Result<Self, Error> {
        let mut options = reader.input_options().map_err(|error| wrong(table, error.to_string()))?;
        // As in Hive.
        options.absent_is_null = true;
        let schema = options.hive_text.columns.as_ref().map(HiveColumns::schema).unwrap_or_else(Schema::empty);
        Ok(Self { options, schema: Arc::new(schema), columns: None })
    }
}

/// Returns the classes and properties of a table, or of a partition of it. Those of a partition itself are statistics. That
/// the table is transactional is left out, since the metastore records what was committed.
pub(super) fn described(table: &RecordedTable, storage: &Storage) -> HiveTable {
    let is_kept = |(key, _): &(&String, &String)| !key.eq_ignore_ascii_case(TRANSACTIONAL);
    let parameters = table.properties.iter().filter(is_kept).map(|(key, value)| (key.clone(), value.clone()));
    HiveTable {
        serde: Some(storage.serde.clone()),
        input_format: Some(storage.input_format.clone()),
        serde_parameters: storage.serde_properties.clone(),
        parameters: parameters.collect(),
        columns: pairs(&storage.columns),
        table_type: Some(table.table_type.clone()),
    }
}

fn pairs(columns: &[HiveColumn]) -> Vec<(String, String)> {
    columns.iter().map(|column| (column.name.clone(), column.hive_type.clone())).collect()
}

/// Returns the reader of what is described, which is the table or a part of it.
pub(super) fn reader_of(table: &RecordedTable, described: &HiveTable) -> Result<HiveReader, Error> {
    described.reader().map_err(|error| match error.kind() {
        ErrorKind::HiveTable(refusal) => {
            let (table, view) = (name(table), table.view.clone());
            Error::from(MetastoreError::Refused { table, refusal: refusal.clone(), view })
        }
        _ => wrong(table, error.to_string()),
    })
}

/// Returns the position of each column of the table in a partition.
fn mapping(
    table: &RecordedTable,
    partition: &str,
    expected: &Schema,
    found: &Schema,
) -> Result<Vec<Option<usize>>, Error> {
    let position = |(position, expected): (usize, &FieldRef)| {
        let Some(field) = found.fields().get(position) else { return Ok(None) };
        match widens(field.data_type(), expected.data_type()) {
            true => Ok(Some(position)),
            false => Err(MetastoreError::PartitionColumn {
                table: name(table),
                partition: partition.to_owned(),
                column: expected.name().clone(),
                found: field.data_type().clone(),
                expected: expected.data_type().clone(),
            }
            .into()),
        }
    };
    expected.fields().iter().enumerate().map(position).collect()
}

/// Whether every value of a type is one of another.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64};
    from == to
        || matches!(
            (from, to),
            (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) | (Float32, Float64)
        )
}

/// Returns the name of a table for messages.
pub(super) fn name(recorded: &RecordedTable) -> String {
    format!("{}.{}.{}", CATALOG, recorded.database, recorded.name)
}

pub(super) fn wrong(recorded: &RecordedTable, reason: String) -> Error {
    MetastoreError::Recorded { table: name(recorded), reason }.into()
}

pub(super) fn hive_columns(recorded: &RecordedTable, columns: &[HiveColumn]) -> Result<HiveColumns, Error> {
    if columns.is_empty() {
        return Ok(HiveColumns::default());
    }
    let column = |column: &HiveColumn| format!("`{}` {}", column.name.replace('`', "``"), column.hive_type);
    let text = columns.iter().map(column).collect::<Vec<_>>().join(", ");
    HiveColumns::parse("columns", &text).map_err(|error| wrong(recorded, error.to_string()))
}
