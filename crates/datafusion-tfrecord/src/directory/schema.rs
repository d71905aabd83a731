//! One schema out of the schemas of many files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::error::{ErrorKind, Result};

/// A column of the merged schema and the file that settled its type.
struct Column {
    field: Field,
    first_file: usize,
    files: usize,
}

/// Merges by name, columns in the order in which they first occur.
///
/// A column that some files lack is nullable. Types must agree; `Null` (a column of which nothing is known) gives way.
pub(super) fn merge(schemas: &[SchemaRef], file_name: impl Fn(usize) -> String) -> Result<SchemaRef> {
    let mut columns: Vec<Column> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (file, schema) in schemas.iter().enumerate() {
        for field in schema.fields() {
            let column = match positions.entry(field.name()) {
                Entry::Vacant(entry) => {
                    entry.insert(columns.len());
                    columns.push(Column { field: field.as_ref().clone(), first_file: file, files: 1 });
                    continue;
                }
                Entry::Occupied(entry) => &mut columns[*entry.get()],
            };
            column.files += 1;
            if column.files > file + 1 {
                return Err(ErrorKind::DuplicateColumn { file: file_name(file), column: field.name().clone() }.into());
            }
            let nullable = column.field.is_nullable() || field.is_nullable();
            if column.field.data_type() == &DataType::Null && field.data_type() != &DataType::Null {
                column.field = field.as_ref().clone();
                column.first_file = file;
            } else if field.data_type() != &DataType::Null && !same_type(column.field.data_type(), field.data_type()) {
                return Err(ErrorKind::SchemaConflict {
                    column: field.name().clone(),
                    first_file: file_name(column.first_file),
                    expected: column.field.data_type().clone(),
                    file: file_name(file),
                    found: field.data_type().clone(),
                }
                .into());
            }
            column.field.set_nullable(nullable);
        }
    }
    let fields = columns.into_iter().map(|Column { field, files, .. }| {
        let nullable = field.is_nullable() || files < schemas.len();
        field.with_nullable(nullable)
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Equal but for what writers differ in without meaning it: names and nullability of list items and map entries.
fn same_type(left: &DataType, right: &DataType) -> bool {
    left.equals_datatype(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType, bool)]) -> SchemaRef {
        let fields = fields.iter().map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn merged(schemas: &[SchemaRef]) -> Result<SchemaRef> {
        merge(schemas, |index| format!("f{index}"))
    }

    #[test]
    fn merges_by_name_and_a_missing_column_is_nullable() -> Result<()> {
        let first = schema(&[("a", DataType::Int64, false), ("b", DataType::Null, true)]);
        let second =
            schema(&[("b", DataType::Utf8, true), ("c", DataType::Int8, false), ("a", DataType::Int64, false)]);
        let expected =
            schema(&[("a", DataType::Int64, false), ("b", DataType::Utf8, true), ("c", DataType::Int8, true)]);
        assert_eq!(merged(&[first, second])?, expected);
        Ok(())
    }

    #[test]
    fn a_conflict_names_both_files() {
        let schemas = [
            schema(&[("x", DataType::Null, true)]),
            schema(&[("x", DataType::Int64, true)]),
            schema(&[("x", DataType::Utf8, true)]),
        ];
        let message = merged(&schemas).expect_err("conflict").to_string();
        assert_eq!(message, "f2: column \"x\": found Utf8, but f1 has Int64");
    }

    #[test]
    fn a_name_that_stands_twice_is_refused() {
        let twice = schema(&[("x", DataType::Int64, true), ("x", DataType::Int64, true)]);
        let message = merged(&[twice]).expect_err("duplicate").to_string();
        assert_eq!(message, "f0: column \"x\" occurs more than once");
    }
}
