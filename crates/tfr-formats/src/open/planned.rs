//! Tables that one process has opened for others, which then open no file to plan the same query.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion_common::{DataFusionError, exec_datafusion_err};
use datafusion_datasource::file_format::FileFormat;
use datafusion_session::Session;
use datafusion_tfrecord::read::PlannedRecords;
use serde::{Deserialize, Serialize};
use tfr_files::planned::PlannedTable;
use tfr_files::{ColumnsInFiles, DirectoryTable, Listing, TableVersion};
use tfr_stores::Location;

use super::{declared_columns, reader_format, record_options};
use crate::input_format::InputFormat;
use crate::json;
use crate::names::ColumnNames;
use crate::options::InputOptions;
use crate::parquet::{self, PlannedParquet};

/// The format of a table's files, with what only their content shows. The columns are kept beside it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum PlannedFormat {
    /// Each file shows its reader all that it must know.
    Reader(InputFormat),
    Json {
        /// Whether objects may span lines.
        newlines_in_values: bool,
    },
    Parquet(PlannedParquet),
    Records(PlannedRecords),
    Table(PlannedLake),
}

/// A table whose metadata determines its files, all of them Parquet.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedLake {
    parquet: PlannedParquet,
    /// Where the columns are in the files.
    in_files: ColumnsInFiles,
    /// The names of the columns, in the order of the table.
    order: Vec<String>,
    version: Option<TableVersion>,
}

impl PlannedLake {
    /// Returns what was found out about a table; `None` if its files are of another format, or if it cannot be stored as
    /// text.
    pub(super) fn of(table: &DirectoryTable) -> Option<Self> {
        let planned = Self {
            parquet: PlannedParquet::of(table.format())?.clone(),
            in_files: parquet::columns_in_files(table.format())?.as_ref().clone(),
            order: table.column_names().map(str::to_owned).collect(),
            version: table.listing().version(),
        };
        let text = serde_json::to_string(&planned).ok()?;
        serde_json::from_str::<Self>(&text).is_ok_and(|read| read == planned).then_some(planned)
    }

    async fn open(
        self,
        session: &dyn Session,
        listing: Listing,
        options: &InputOptions,
        found: &Schema,
    ) -> Result<DirectoryTable, DataFusionError> {
        let (in_files, calendar) = (Arc::new(self.in_files), options.calendar.clone());
        let listing = listing.with_version(self.version);
        let format = parquet::mapped_format(session, &listing, in_files, calendar, Some(self.parquet)).await?;
        DirectoryTable::with_schema(listing, format, found).in_order(self.order.iter().map(String::as_str))
    }
}

/// Opens a table whose files another process has read.
pub(super) async fn open_planned(
    session: &dyn Session,
    locations: &[Location],
    options: &InputOptions,
    schema: Option<SchemaRef>,
    table: &PlannedTable,
) -> Result<DirectoryTable, DataFusionError> {
    let planned = PlannedFormat::deserialize(&table.format)
        .map_err(|error| exec_datafusion_err!("a table of an unknown format: {error}"))?;
    let (found, path) = table.columns()?;
    let listing = Listing::planned(session, locations, &path)?;
    let found_format = match &planned {
        PlannedFormat::Reader(format) => *format,
        PlannedFormat::Json { .. } => InputFormat::Json,
        PlannedFormat::Parquet(_) | PlannedFormat::Table(_) => InputFormat::Parquet,
        PlannedFormat::Records(_) => InputFormat::TfRecord,
    };
    let schema = declared_columns(options, found_format, schema, &listing)?;
    let columns = ColumnNames::new(options.names, schema.as_ref(), &path);
    let format: Arc<dyn FileFormat> = match planned {
        PlannedFormat::Table(planned) => return planned.open(session, listing, options, &found).await,
        PlannedFormat::Parquet(planned) => {
            let (parquet, calendar) = (&options.parquet, options.calendar.clone());
            parquet::format(session, &listing, parquet, calendar, columns, schema, Some(planned)).await?
        }
        PlannedFormat::Json { newlines_in_values } => {
            let names = listing.names().clone();
            json::planned(&options.json, names, columns, schema.is_some(), newlines_in_values)
        }
        PlannedFormat::Records(planned) => {
            planned.format(session, listing.names().clone(), &record_options(options, schema))?
        }
        PlannedFormat::Reader(format) => reader_format(session, &listing, format, options, columns, schema.as_ref())?,
    };
    Ok(DirectoryTable::with_schema(listing, format, &found))
}
