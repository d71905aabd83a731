//! Opens the files of a table whose metadata determines its columns, constants and deleted rows: [`TableFiles`].

pub(crate) mod bitmap;
mod place;
pub(crate) mod types;
pub(crate) mod values;

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion_catalog::TableProvider;
use datafusion_common::{Result, not_impl_err};
use datafusion_execution::SendableRecordBatchStream;
use datafusion_physical_plan::ExecutionPlanProperties;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_session::Session;
use futures::{StreamExt, TryStreamExt};
use tfr_files::{
    ColumnsInFiles, DataFormat, DirectoryTable, Location, TableFile, TableFiles, TableFormat, TableVersion,
};

use crate::calendar::CalendarOption;
use crate::error::{Error, TableError};
use crate::parquet;

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
        format => not_impl_err!("a table whose files are {format}"),
    }
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
) -> Result<SendableRecordBatchStream> {
    let file = TableFile { constants: Vec::new(), ..file };
    // Nothing depends on the version of a table with one file.
    let version = TableVersion { format: TableFormat::Iceberg, number: None };
    let table = TableFiles { schema, constants: Vec::new(), columns, files: vec![file], version };
    let table = open(session, location, table, CalendarOption::default()).await?;
    let plan = table.scan(session, None, &[], None).await?;
    // Partitions follow each other in the file.
    let (schema, context) = (plan.schema(), session.task_ctx());
    let partitions = plan.output_partitioning().partition_count();
    let rows = futures::stream::iter(0..partitions).map(move |partition| plan.execute(partition, Arc::clone(&context)));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten().boxed())))
}
