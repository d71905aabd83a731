//! Columns of a file whose type is not supported.
//!
//! Such a column must not block queries that do not select it. A [`FileFormat`] adds it to the schema of the file as
//! a [marked field](unreadable_field), with the file and the reason in the field's metadata. The rest is done here
//! and in [`DirectoryTable`](crate::DirectoryTable):
//!
//! - Merging keeps the mark: a column that is unreadable in one file is unreadable in the table.
//! - A declared column keeps its declared type and gets the mark of the file.
//! - [`DirectoryTable::scan`](crate::DirectoryTable) fails with
//!   [`ErrorKind::UnreadableColumn`](crate::ErrorKind::UnreadableColumn) if the projection includes a marked column,
//!   before the first row is read. `count(*)` and other columns work.
//!
//! A format must return [`unreadable_field`] from `infer_schema` instead of an error. A scan then never requests that
//! column. [`unreadable`] checks whether a field is marked.
//!
//! [`FileFormat`]: datafusion_datasource::file_format::FileFormat

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use crate::error::{Error, ErrorKind};

/// Keys of a field's metadata.
const REASON: &str = "tfr.unreadable";
const FILE: &str = "tfr.unreadable.file";

/// Creates a column that cannot be read, with the file's name for messages and the reason as a noun phrase, such as
/// "a union" or "a 128-bit integer".
pub fn unreadable_field(name: impl Into<String>, file: &str, reason: &str) -> Field {
    let mark = HashMap::from([(REASON.to_owned(), reason.to_owned()), (FILE.to_owned(), file.to_owned())]);
    Field::new(name, DataType::Null, true).with_metadata(mark)
}

/// Returns why a column cannot be read, if it is marked.
pub fn unreadable(field: &Field) -> Option<&str> {
    field.metadata().get(REASON).map(String::as_str)
}

/// Rejects a query that selects a marked column of `schema`. `projection` contains indices, or `None` for all
/// columns.
pub(crate) fn check_projection(schema: &Schema, projection: Option<&Vec<usize>>) -> Result<(), Error> {
    let is_selected = |index: &usize| projection.is_none_or(|selected| selected.contains(index));
    let selected = (0..schema.fields().len()).filter(is_selected).map(|index| schema.field(index));
    let mut refused = selected.filter_map(|field| Some((field, unreadable(field)?)));
    let Some((field, reason)) = refused.next() else { return Ok(()) };
    let all = schema.fields().iter().filter(|field| unreadable(field).is_some());
    Err(ErrorKind::UnreadableColumn {
        file: field.metadata().get(FILE).cloned().unwrap_or_default(),
        column: field.name().clone(),
        reason: reason.to_owned(),
        unreadable: all.map(|field| field.name().clone()).collect(),
    }
    .into())
}

/// Adds the marks of columns in any of `schemas` to `schema`. Keeps the type if `keep_types` is set.
pub(crate) fn with_marks(schema: &SchemaRef, schemas: &[SchemaRef], keep_types: bool) -> SchemaRef {
    let mut of_files = schemas.iter().flat_map(|schema| schema.fields()).filter(|field| unreadable(field).is_some());
    if of_files.next().is_none() {
        return Arc::clone(schema);
    }
    let marked = schema.fields().iter().map(|field| {
        let mut of_files = schemas.iter().filter_map(|schema| schema.field_with_name(field.name()).ok());
        match of_files.find(|field| unreadable(field).is_some()) {
            Some(mark) if keep_types => Arc::new(field.as_ref().clone().with_metadata(mark.metadata().clone())),
            Some(mark) => Arc::new(mark.clone()),
            None => Arc::clone(field),
        }
    });
    Arc::new(Schema::new_with_metadata(marked.collect::<Fields>(), schema.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_outlives_a_merge_and_refuses_only_its_column() {
        let readable =
            Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("u", DataType::Int64, true)]));
        let marked = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            unreadable_field("u", "f.parquet", "a 128-bit integer"),
        ]));
        for files in [[Arc::clone(&readable), Arc::clone(&marked)], [marked, readable]] {
            let schema = with_marks(&files[0], &files, false);
            assert!(check_projection(&schema, Some(&vec![0])).is_ok());
            assert!(check_projection(&schema, Some(&vec![])).is_ok());
            for projection in [Some(&vec![0, 1]), None] {
                let error = check_projection(&schema, projection).expect_err("the column is selected");
                let ErrorKind::UnreadableColumn { file, column, .. } = error.kind() else {
                    panic!("another error: {error}");
                };
                assert_eq!((file.as_str(), column.as_str()), ("f.parquet", "u"));
            }
        }
    }
}
