//! [`Reader`]: how the files of a table, or of one of its partitions, become rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion_common::Result;

use super::catalog::{CATALOG, HiveColumn, RecordedTable, Storage};
use super::class;
use crate::InputFormat;
use crate::error::{Error, MetastoreError};
use crate::hive_text::HiveColumns;
use crate::options::InputOptions;

/// How the files of a table, or of a partition, become its rows.
pub(super) struct Reader {
    pub options: InputOptions,
    /// The columns that the files have, without the keys of partitions.
    pub schema: SchemaRef,
    /// For each column of the table, which of these it is; `None` for one that the files do not have. `None` at all if
    /// both have the same columns.
    pub columns: Option<Vec<Option<usize>>>,
}

impl Reader {
    /// Returns the reader of a storage of `table`: its own, or that of a partition with this name and these properties.
    ///
    /// Formats without names in their files have the columns of the partition, by their positions, as in Hive. Others
    /// have those of the table.
    ///
    /// # Errors
    /// - The classes or a property are not supported.
    /// - A column of a partition has a type whose values are not all values of the table's type.
    pub fn of(
        table: &RecordedTable,
        storage: &Storage,
        partition: Option<(&str, &BTreeMap<String, String>)>,
    ) -> Result<Self> {
        let of_table = hive_columns(table, &table.storage.columns)?;
        let (options, is_named) = class::reader(&name(table), storage, &table.properties)?;
        let own = match is_named {
            true => &table.storage.columns,
            false => &storage.columns,
        };
        let columns = hive_columns(table, own)?;
        let mut options = options;
        let schema = Arc::new(columns.schema());
        if options.format == Some(InputFormat::HiveText) {
            options.hive_text.columns = Some(columns);
        }
        // As in Hive.
        options.absent_is_null = true;
        let expected = of_table.schema();
        let mapping = match *own == table.storage.columns {
            true => None,
            false => Some(mapping(table, &expected, &schema, own, partition.map_or("", |(name, _)| name))?),
        };
        Ok(Self { options, schema, columns: mapping })
    }
}

/// Returns the position of each column of the table in a partition.
fn mapping(
    table: &RecordedTable,
    expected: &Schema,
    found: &Schema,
    own: &[HiveColumn],
    partition: &str,
) -> Result<Vec<Option<usize>>, Error> {
    let position = |position: usize| {
        let Some(field) = found.fields().get(position) else { return Ok(None) };
        let of_table = &table.storage.columns[position];
        match widens(field.data_type(), expected.field(position).data_type()) {
            true => Ok(Some(position)),
            false => Err(MetastoreError::PartitionColumn {
                table: name(table),
                partition: partition.to_owned(),
                position: position + 1,
                found: format!("{} {}", own[position].name, own[position].hive_type),
                expected: format!("{} {}", of_table.name, of_table.hive_type),
            }
            .into()),
        }
    };
    (0..expected.fields().len()).map(position).collect()
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
