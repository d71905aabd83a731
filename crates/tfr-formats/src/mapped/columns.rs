//! Checks that the columns of a table can be read from its files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema};
use datafusion_common::{Result, Statistics};
use datafusion_datasource::FileExtensions;
use datafusion_datasource::file_format::FileFormat;
use tfr_arrow::convert::can_convert;
use tfr_arrow::nested::{children, struct_fields, value_type};
use tfr_files::{DirectoryTable, FilesWithoutIds, FoundBy, Listing, TableFiles, unreadable, unreadable_field};

use super::{ABSENT, Ambiguous, FileColumns, INT96, has_field_ids};
use crate::error::{Error, TableError};

/// Checks the columns of a file whose reader marks those that it cannot read.
pub(crate) fn check_file(
    table: &TableFiles,
    file: &Schema,
    name: &str,
    marks: &mut HashMap<String, Field>,
) -> Result<(), Error> {
    let columns = &table.columns;
    let needs_ids = columns.by == FoundBy::Id && columns.without_ids == FilesWithoutIds::Refuse;
    if needs_ids && !file.fields().is_empty() && !has_field_ids(file.fields()) {
        return Err(TableError::without_ids(name).into());
    }
    check_columns(table, file, name, marks, unreadable, |found, _| found.clone())
}

/// Checks that the columns of the table can be read from a file. Adds those that cannot be to `marks`.
///
/// `reason` returns why a column of the file cannot be read, if so; `decoded` the type in which its values are read, given
/// its type in the file and that in the table.
pub(crate) fn check_columns<'a>(
    table: &TableFiles,
    file: &'a Schema,
    name: &str,
    marks: &mut HashMap<String, Field>,
    reason: impl Fn(&'a Field) -> Option<&'a str>,
    decoded: impl Fn(&DataType, &DataType) -> DataType,
) -> Result<(), Error> {
    let constants: HashSet<&str> = table.constants.iter().map(|constant| constant.name().as_str()).collect();
    let is_constant = |field: &FieldRef| constants.contains(field.name().as_str());
    let in_files = table.schema.fields().iter().filter(|field| !is_constant(field) && unreadable(field).is_none());
    let columns = FileColumns::new(&table.columns, file.fields());
    for wanted in in_files {
        let located = columns.locate(wanted).map_err(|ambiguous| {
            let Ambiguous { column, found } = ambiguous;
            let found = found.join(", ");
            TableError::unusable(name, format!("column \"{column}\" of the table could be any of {found}"))
        })?;
        let is_required = columns.column(wanted.name()).is_some_and(|column| column.is_required);
        let lacks = || {
            let column = wanted.name();
            let problem = format!("it has no column \"{column}\", whose values its table does not record otherwise");
            TableError::unusable(name, problem)
        };
        let Some(located) = located else {
            if is_required {
                return Err(lacks().into());
            }
            continue;
        };
        let found = file.field(located.index);
        if let Some(reason) = reason(found) {
            let mark = unreadable_field(wanted.name(), name, reason);
            marks.entry(wanted.name().clone()).or_insert(mark);
            continue;
        }
        let located = located.field.data_type();
        if is_required && has_absent_parts(located) {
            return Err(lacks().into());
        }
        let decoded = decoded(found.data_type(), located);
        if !can_convert(&decoded, located) || !is_same_kind(&decoded, located) {
            return Err(TableError::TypeInFile {
                file: name.to_owned(),
                column: wanted.name().clone(),
                expected: wanted.data_type().clone(),
                found: decoded,
            }
            .into());
        }
    }
    Ok(())
}

/// Whether a type with the names of a file has parts that the file lacks.
fn has_absent_parts(located: &DataType) -> bool {
    let is_absent = |field: &FieldRef| field.name().starts_with(ABSENT);
    struct_fields(located).into_iter().flatten().any(|field| is_absent(field) || has_absent_parts(field.data_type()))
}

/// Whether values of one type are not turned into texts of them, or texts into values.
fn is_same_kind(found: &DataType, wanted: &DataType) -> bool {
    let found = value_type(found);
    let is_text = |data_type: &DataType| data_type.is_string() || data_type.is_binary();
    let parts = || children(found).into_iter().zip(children(wanted));
    match found.is_nested() {
        // Parts with different names are compared where they are located.
        true if struct_fields(found).is_some() => {
            let fields = |data_type| struct_fields(data_type).cloned().unwrap_or_default();
            let (found, wanted) = (fields(found), fields(wanted));
            wanted.iter().all(|wanted| {
                let part = found.find(wanted.name()).map(|(_, part)| part);
                part.is_none_or(|part| is_same_kind(part.data_type(), wanted.data_type()))
            })
        }
        true => parts().all(|(found, wanted)| is_same_kind(found, wanted)),
        // Its bytes are no value that anyone has written.
        false if *found == INT96 && wanted.is_binary() => false,
        false => found == &DataType::Null || is_text(found) == is_text(wanted),
    }
}

/// Creates the table of checked files. `marks` has the columns that cannot be read.
pub(crate) fn table_of(
    listing: Listing,
    format: Arc<dyn FileFormat>,
    table: &TableFiles,
    marks: &HashMap<String, Field>,
    statistics: Vec<Statistics>,
    extensions: Vec<FileExtensions>,
) -> Result<DirectoryTable> {
    let fields = table.schema.fields().iter().map(|field| match marks.get(field.name()) {
        Some(mark) => Arc::new(field.as_ref().clone().with_metadata(mark.metadata().clone())),
        None => Arc::clone(field),
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
    DirectoryTable::with_schema(listing, format, &schema)
        .with_known_files(statistics, extensions)
        .in_order(names.iter().map(String::as_str))
}
