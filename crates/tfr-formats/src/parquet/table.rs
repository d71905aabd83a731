//! Opens the Parquet files of a table whose metadata determines its columns, constants and deleted rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::stats::Precision;
use datafusion_common::{DataFusionError, Result, Statistics, exec_datafusion_err, exec_err};
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::{FileExtensions, PartitionedFile};
use datafusion_datasource_parquet::ParquetRowSelection;
use datafusion_session::Session;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::schema::types::Type;
use serde::{Deserialize, Serialize};
use tfr_arrow::nested::{item, key_and_value, struct_fields};
use tfr_files::planned::{KnownText, map_files};
use tfr_files::{
    ColumnInFiles, ColumnsInFiles, DeletedRows, DirectoryTable, FilesWithoutIds, FoundBy, Listing, TableFiles,
};
use tfr_stores::Location;

use super::footer::CorrectedFooter;
use super::values::converted_type;
use super::{CheckedParquet, ParquetOptions, PlannedParquet, format};
use crate::calendar::CalendarOption;
use crate::error::{Error, TableError};
use crate::mapped::{RecordedRows, check_columns, check_rows, field_id, table_of};
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
    let format = mapped_format(session, &listing, Arc::clone(&table.columns), calendar, None).await?;
    let Some(parquet) = format.downcast_ref::<CheckedParquet>() else {
        return datafusion_common::internal_err!("a format that is not Parquet");
    };
    let (mut statistics, mut extensions) = (Vec::new(), Vec::new());
    let mut marks = HashMap::new();
    for file in &table.files {
        let name = listing.names().name(&file.meta.location);
        let footer = parquet.footer(listing.store(), &file.meta).await?;
        if table.columns.by == FoundBy::Id {
            check_ids(&table.columns, &footer, &name)?;
        }
        let reason = |field: &Field| footer.unreadable.get(field.name()).map(String::as_str);
        let decoded =
            |found: &DataType, wanted: &DataType| converted_type(found, wanted).unwrap_or_else(|| found.clone());
        check_columns(&table, &footer.schema, &name, &mut marks, reason, decoded)?;
        let rows = u64::try_from(footer.metadata.file_metadata().num_rows()).unwrap_or_default();
        check_rows(&name, rows, file.rows.map(RecordedRows), file.deleted.end())?;
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
    table_of(listing, format, &table, &marks, statistics, extensions)
}

/// Returns the format of the files of such a table.
///
/// # Errors
/// As [`format`].
pub(crate) async fn mapped_format(
    session: &dyn Session,
    listing: &Listing,
    columns: Arc<ColumnsInFiles>,
    calendar: CalendarOption,
    planned: Option<PlannedParquet>,
) -> Result<Arc<dyn FileFormat>> {
    let options = ParquetOptions { timestamps: Some(TimestampUnit::Microsecond), ..ParquetOptions::default() };
    format(session, listing, &options, calendar, ColumnNames::mapped_by(columns), None, planned).await
}

/// The rows of a file that are part of a table, as text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedRows {
    /// Number of rows in the file.
    rows: u64,
    /// The first of each range of deleted rows, and the row after its last.
    deleted: Vec<(u64, u64)>,
}

/// Returns which rows of a file are deleted, as text; `None` if there are none, or if something else is attached.
pub(super) fn known_text(file: &PartitionedFile) -> Option<String> {
    let deleted = file.extension::<DeletedRows>()?;
    let read = file.extension::<ParquetRowSelection>().filter(|_| file.extensions.len() == 2)?;
    let Precision::Exact(left) = file.statistics.as_ref()?.num_rows else { return None };
    let rows = u64::try_from(left).ok()?.checked_add(deleted.count())?;
    if *read.selection() != selection(deleted, rows).ok()? {
        return None;
    }
    let deleted = deleted.ranges().iter().map(|range| (range.start, range.end)).collect();
    serde_json::to_string(&PlannedRows { rows, deleted }).ok()
}

/// Attaches to files which of their rows are deleted.
///
/// # Errors
/// A text is not one of this version.
pub(super) fn with_known(groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
    map_files(groups, |mut file| {
        let Some(KnownText(text)) = file.extension::<KnownText>() else { return Ok(file) };
        let planned: PlannedRows = serde_json::from_str(text).map_err(|error| {
            exec_datafusion_err!("{}: the plan's description cannot be read: {error}", file.object_meta.location)
        })?;
        let mut deleted = DeletedRows::default();
        for (start, end) in planned.deleted {
            if !deleted.push(start..end) || end > planned.rows {
                return exec_err!("a plan deletes rows {start} to {end} of a file with {} rows", planned.rows);
            }
        }
        file.extensions = FileExtensions::new();
        file.extensions.insert(ParquetRowSelection::new(selection(&deleted, planned.rows)?));
        file.extensions.insert(deleted);
        Ok(file)
    })
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

/// Checks the ids of a file, which identify its columns. The library takes them from the writer's Arrow schema if the
/// file has one, and that schema may lack them.
fn check_ids(columns: &ColumnsInFiles, footer: &CorrectedFooter, name: &str) -> Result<(), Error> {
    let (mut wanted, mut recorded, mut found) = (HashSet::new(), HashSet::new(), HashSet::new());
    columns.columns.iter().for_each(|column| wanted_ids(column, &mut wanted));
    recorded_ids(footer.metadata.file_metadata().schema_descr().root_schema(), &mut recorded);
    footer.schema.fields().iter().for_each(|field| found_ids(field, &mut found));
    let needs_ids = columns.without_ids == FilesWithoutIds::Refuse && !wanted.is_empty();
    let is_without = needs_ids && recorded.is_empty() && !footer.schema.fields().is_empty();
    match is_without || wanted.iter().any(|id| recorded.contains(id) != found.contains(id)) {
        true => Err(TableError::without_ids(name).into()),
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
