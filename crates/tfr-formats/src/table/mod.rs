//! Opens the files of a table whose metadata determines its columns, constants and deleted rows: [`TableFiles`].

pub(crate) mod bitmap;
mod place;
pub(crate) mod types;
pub(crate) mod values;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion_catalog::TableProvider;
use datafusion_common::stats::Precision;
use datafusion_common::{Result, Statistics};
use datafusion_datasource::FileExtensions;
use datafusion_datasource::file_format::FileFormat;
use datafusion_execution::SendableRecordBatchStream;
use datafusion_physical_plan::ExecutionPlanProperties;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_session::Session;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tfr_files::{ColumnsInFiles, DataFormat, DirectoryTable, Findings, Listing, TableFile, TableFiles};
use tfr_stores::Location;

use crate::calendar::CalendarOption;
use crate::error::{Error, TableError};
use crate::mapped::{RecordedRows, check_file, check_rows, table_of};
use crate::names::ColumnNames;
use crate::orc::{OrcOptions, TimestampUnit};
use crate::{avro, orc, parquet};

pub(crate) use place::{OTHER_STORE, Place, split};

/// Opens the files of `table`, which is at `location`. All of them must have one format.
///
/// # Errors
/// - A file is missing, is not of its format, or is damaged.
/// - A file has another number of rows than the metadata records, or fewer than are deleted.
/// - A column of a file has a type whose values are not those of the table's type.
/// - The files have several formats.
pub(crate) async fn open(
    session: &dyn Session,
    location: &Location,
    table: TableFiles,
    calendar: CalendarOption,
) -> Result<DirectoryTable> {
    let format = table.files.first().map_or(DataFormat::Parquet, |file| file.format);
    if let Some(other) = table.files.iter().find(|file| file.format != format) {
        return Err(Error::from(TableError::SeveralFormats {
            file: location.file_names().name(&other.meta.location),
            found: other.format,
            table: location.to_string(),
            expected: format,
        })
        .into());
    }
    match format {
        DataFormat::Parquet => parquet::open_table(session, location, table, calendar).await,
        DataFormat::Orc | DataFormat::Avro => {
            // Unless a file specifies another unit.
            let options = OrcOptions { timestamps: Some(TimestampUnit::Microsecond), ..OrcOptions::default() };
            open_with_reader(session, location, table, format, &options, calendar).await
        }
    }
}

/// Opens the ORC files of `table`, with these options.
///
/// # Errors
/// Same as [`open`].
pub(crate) async fn open_orc(
    session: &dyn Session,
    location: &Location,
    table: TableFiles,
    options: &OrcOptions,
    calendar: CalendarOption,
) -> Result<DirectoryTable> {
    open_with_reader(session, location, table, DataFormat::Orc, options, calendar).await
}

/// Opens files that are read by a [`FileReader`](tfr_files::scan::FileReader).
async fn open_with_reader(
    session: &dyn Session,
    location: &Location,
    table: TableFiles,
    data_format: DataFormat,
    orc: &OrcOptions,
    calendar: CalendarOption,
) -> Result<DirectoryTable> {
    let listing = Listing::of_table(session, location, &table)?;
    let (names, columns) = (listing.names().clone(), ColumnNames::mapped_by(Arc::clone(&table.columns)));
    let format = match data_format {
        DataFormat::Avro => avro::format(session, names, columns, calendar),
        _ => orc::format(names, orc, calendar, columns, Findings::of(session.config())),
    };
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let found: Vec<BoxFuture<'_, _>> =
        table.files.iter().map(|file| schema_and_rows(session, &listing, &format, file).boxed()).collect();
    let found: Vec<_> = futures::stream::iter(found).buffered(concurrency.max(1)).try_collect().await?;

    let (mut statistics, mut extensions, mut marks) = (Vec::new(), Vec::new(), HashMap::new());
    for (file, (schema, rows)) in table.files.iter().zip(found) {
        let name = listing.names().name(&file.meta.location);
        check_file(&table, &schema, &name, &mut marks)?;
        let recorded = file.rows.map(RecordedRows);
        let left = |rows: u64| usize::try_from(rows.saturating_sub(file.deleted.count())).ok();
        let num_rows = match rows {
            Some(rows) => {
                check_rows(&name, rows, recorded, file.deleted.end())?;
                left(rows).map_or(Precision::Absent, Precision::Exact)
            }
            // Compared at the end of the file, so that it is not exact before.
            None => file.rows.and_then(left).map_or(Precision::Absent, Precision::Inexact),
        };
        statistics.push(Statistics {
            num_rows,
            total_byte_size: Precision::Absent,
            column_statistics: vec![Default::default(); table.schema.fields().len() - table.constants.len()],
        });
        let mut extension = FileExtensions::new();
        if file.deleted.count() > 0 {
            extension.insert(file.deleted.clone());
        }
        if let Some(recorded) = recorded {
            extension.insert(recorded);
        }
        extensions.push(extension);
    }
    table_of(listing, format, &table, &marks, statistics, extensions)
}

/// Returns the columns of a file, and its number of rows if that is known without reading them.
async fn schema_and_rows(
    session: &dyn Session,
    listing: &Listing,
    format: &Arc<dyn FileFormat>,
    file: &TableFile,
) -> Result<(SchemaRef, Option<u64>)> {
    let schema = format.infer_schema(session, listing.store(), std::slice::from_ref(&file.meta)).await?;
    let statistics = format.infer_stats(session, listing.store(), Arc::clone(&schema), &file.meta).await?;
    let rows = match statistics.num_rows {
        Precision::Exact(rows) => u64::try_from(rows).ok(),
        _ => None,
    };
    Ok((schema, rows))
}

/// Reads the columns `schema` of one file of the table at `location`, in the order of the file.
///
/// # Errors
/// Same as [`open`].
pub(crate) async fn read(
    session: &dyn Session,
    location: &Location,
    file: TableFile,
    schema: SchemaRef,
    columns: Arc<ColumnsInFiles>,
    calendar: CalendarOption,
) -> Result<SendableRecordBatchStream> {
    let file = TableFile { constants: Vec::new(), ..file };
    let table = TableFiles { schema, constants: Vec::new(), columns, files: vec![file], version: None };
    let table = open(session, location, table, calendar).await?;
    let plan = table.scan(session, None, &[], None).await?;
    // Partitions follow each other in the file.
    let (schema, context) = (plan.schema(), session.task_ctx());
    let partitions = plan.output_partitioning().partition_count();
    let rows = futures::stream::iter(0..partitions).map(move |partition| plan.execute(partition, Arc::clone(&context)));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten().boxed())))
}

#[cfg(test)]
mod tests;
