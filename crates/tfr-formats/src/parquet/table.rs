//! Opens the Parquet files of a table whose metadata determines its columns, constants and deleted rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use datafusion_common::stats::Precision;
use datafusion_common::{DataFusionError, Result, Statistics};
use datafusion_datasource::FileExtensions;
use datafusion_datasource_parquet::ParquetRowSelection;
use datafusion_session::Session;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::schema::types::Type;
use tfr_arrow::convert::can_convert;
use tfr_arrow::nested::{children, item, key_and_value, struct_fields, value_type};
use tfr_files::{
    ColumnInFiles, ColumnsInFiles, DeletedRows, DirectoryTable, Listing, Location, TableFile, TableFiles, unreadable,
    unreadable_field,
};

use super::footer::Footer;
use super::values::converted_type;
use super::{CheckedParquet, ParquetOptions, format};
use crate::calendar::CalendarOption;
use crate::error::{Error, TableError};
use crate::mapped::{Ambiguous, INT96, field_id, locate};
use crate::names::ColumnNames;
use crate::orc::TimestampUnit;

/// Opens the files of `table`, which is at `location`. Timestamps have microseconds.
///
/// # Errors
/// - A file is missing, is not Parquet, or is damaged.
/// - A file has another number of rows than the metadata records, or fewer than are deleted.
/// - A column of a file has a type whose values are not those of the table's type.
pub(crate) async fn open(
    session: &dyn Session,
    location: &Location,
    table: TableFiles,
    calendar: CalendarOption,
) -> Result<DirectoryTable> {
    let listing = Listing::of_table(session, location, &table)?;
    let columns = ColumnNames::mapped_by(Arc::clone(&table.columns));
    let options = ParquetOptions { timestamps: Some(TimestampUnit::Microsecond), ..ParquetOptions::default() };
    let format = format(session, &listing, &options, calendar, columns, None, None).await?;
    let Some(parquet) = format.downcast_ref::<CheckedParquet>() else {
        return datafusion_common::internal_err!("a format that is not Parquet");
    };
    let (mut statistics, mut extensions) = (Vec::new(), Vec::new());
    let mut marks = HashMap::new();
    for file in &table.files {
        let name = listing.names().name(&file.meta.location);
        let footer = parquet.footer(listing.store(), &file.meta).await?;
        check_columns(&table, &footer, &name, &mut marks)?;
        let rows = rows(file, &footer, &name)?;
        let left = usize::try_from(rows - file.deleted.count()).map_or(Precision::Absent, Precision::Exact);
        let groups = footer.metadata.row_groups().iter();
        let bytes = groups.fold(0_i64, |sum, group| sum.saturating_add(group.total_byte_size()));
        statistics.push(Statistics {
            num_rows: left,
            total_byte_size: usize::try_from(bytes).map_or(Precision::Absent, Precision::Inexact),
            column_statistics: vec![Default::default(); table.schema.fields().len() - table.constants.len()],
        });
        let mut extension = FileExtensions::new();
        if file.deleted.count() > 0 {
            extension.insert(ParquetRowSelection::new(selection(&file.deleted, rows)?));
            // For whoever compares the files of two plans.
            extension.insert(file.deleted.clone());
        }
        extensions.push(extension);
    }
    let fields = table.schema.fields().iter().map(|field| match marks.get(field.name()) {
        Some(mark) => Arc::new(field.as_ref().clone().with_metadata(Field::metadata(mark).clone())),
        None => Arc::clone(field),
    });
    let schema = Schema::new(fields.collect::<Fields>());
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
    DirectoryTable::with_schema(listing, Arc::clone(&format), &schema)
        .with_known_files(statistics, extensions)
        .in_order(names.iter().map(String::as_str))
}

/// Returns the number of rows of a file, deleted ones included.
fn rows(file: &TableFile, footer: &Footer, name: &str) -> Result<u64> {
    let found = u64::try_from(footer.metadata.file_metadata().num_rows()).unwrap_or_default();
    let disagrees = |recorded: String| {
        let file = name.to_owned();
        Err(Error::from(TableError::RowsDisagree { file, found, recorded }).into())
    };
    match file.rows {
        Some(rows) if rows != found => return disagrees(format!("{rows} rows")),
        _ => {}
    }
    match file.deleted.end() {
        end if end > found => disagrees(format!("a deleted row at position {}", end - 1)),
        _ => Ok(found),
    }
}

fn selection(deleted: &DeletedRows, rows: u64) -> Result<RowSelection> {
    let number = |number: u64| usize::try_from(number).map_err(|error| DataFusionError::External(error.into()));
    let mut selectors = Vec::new();
    let mut next = 0;
    for range in deleted.ranges() {
        if range.start > next {
            selectors.push(RowSelector::select(number(range.start - next)?));
        }
        selectors.push(RowSelector::skip(number(range.end - range.start)?));
        next = range.end;
    }
    if rows > next {
        selectors.push(RowSelector::select(number(rows - next)?));
    }
    Ok(selectors.into())
}

/// Checks that the columns of the table can be read from a file. Adds those that cannot be to `marks`.
fn check_columns(
    table: &TableFiles,
    footer: &Footer,
    name: &str,
    marks: &mut HashMap<String, Field>,
) -> Result<(), Error> {
    if table.columns.by_id {
        check_ids(&table.columns, footer, name)?;
    }
    let is_constant = |field: &FieldRef| table.constants.iter().any(|constant| constant.name() == field.name());
    let in_files = table.schema.fields().iter().filter(|field| !is_constant(field) && unreadable(field).is_none());
    for wanted in in_files {
        let located = locate(&table.columns, wanted, footer.schema.fields()).map_err(|ambiguous| {
            let Ambiguous { column, found } = ambiguous;
            TableError::AmbiguousColumn { file: name.to_owned(), column, found }
        })?;
        let Some(located) = located else { continue };
        let found = footer.schema.field(located.index);
        if let Some(reason) = footer.unreadable.get(found.name()) {
            let mark = unreadable_field(wanted.name(), name, reason);
            marks.entry(wanted.name().clone()).or_insert(mark);
            continue;
        }
        let located = located.field.data_type();
        let decoded = converted_type(found.data_type(), located).unwrap_or_else(|| found.data_type().clone());
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

/// Checks the ids of a file, which identify its columns. The library takes them from the writer's Arrow schema if the
/// file has one, and that schema may lack them.
fn check_ids(columns: &ColumnsInFiles, footer: &Footer, name: &str) -> Result<(), Error> {
    let (mut wanted, mut recorded, mut found) = (HashSet::new(), HashSet::new(), HashSet::new());
    columns.columns.iter().for_each(|column| wanted_ids(column, &mut wanted));
    recorded_ids(footer.metadata.file_metadata().schema_descr().root_schema(), &mut recorded);
    footer.schema.fields().iter().for_each(|field| found_ids(field, &mut found));
    let is_without = !wanted.is_empty() && recorded.is_empty() && !footer.schema.fields().is_empty();
    match is_without || wanted.iter().any(|id| recorded.contains(id) != found.contains(id)) {
        true => Err(TableError::NoFieldIds { file: name.to_owned() }.into()),
        false => Ok(()),
    }
}

fn wanted_ids(column: &ColumnInFiles, ids: &mut HashSet<i32>) {
    ids.extend(column.id);
    column.parts.iter().for_each(|part| wanted_ids(part, ids));
}

fn recorded_ids(field: &Type, ids: &mut HashSet<i32>) {
    let info = field.get_basic_info();
    ids.extend(info.has_id().then(|| info.id()));
    if field.is_group() {
        field.get_fields().iter().for_each(|part| recorded_ids(part, ids));
    }
}

fn found_ids(field: &FieldRef, ids: &mut HashSet<i32>) {
    ids.extend(field_id(field));
    let data_type = field.data_type();
    struct_fields(data_type).into_iter().flatten().for_each(|part| found_ids(part, ids));
    item(data_type).into_iter().for_each(|part| found_ids(part, ids));
    let entries = key_and_value(data_type).map(|(key, value)| [key, value]);
    entries.into_iter().flatten().for_each(|part| found_ids(part, ids));
}
