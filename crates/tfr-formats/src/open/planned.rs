//! Tables that one process has opened for others, which then open no file to plan the same query.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion_common::{DataFusionError, exec_datafusion_err};
use datafusion_datasource::file_format::FileFormat;
use datafusion_session::Session;
use serde::{Deserialize, Serialize};
use tfr_files::planned::PlannedTable;
use tfr_files::{DirectoryTable, Listing};
use tfr_stores::Location;

use super::{declared_columns, reader_format};
use crate::input_format::InputFormat;
use crate::json;
use crate::names::ColumnNames;
use crate::options::InputOptions;
use crate::parquet::{self, PlannedParquet};

/// The format of a table's files, with what only their content shows. The columns are kept beside it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum PlannedFormat {
    Arrow,
    Avro,
    Csv,
    HiveText,
    Json {
        /// Whether objects may span lines.
        newlines_in_values: bool,
    },
    LibSvm,
    Orc,
    Parquet(PlannedParquet),
}

impl PlannedFormat {
    /// Returns the format of files that are opened one by one, each of which shows all that its reader must know.
    pub(super) fn of_readers(format: InputFormat) -> Option<Self> {
        match format {
            InputFormat::Arrow => Some(Self::Arrow),
            InputFormat::Avro => Some(Self::Avro),
            InputFormat::Csv => Some(Self::Csv),
            InputFormat::HiveText => Some(Self::HiveText),
            InputFormat::LibSvm => Some(Self::LibSvm),
            InputFormat::Orc => Some(Self::Orc),
            InputFormat::Json
            | InputFormat::Parquet
            | InputFormat::TfRecord
            | InputFormat::ArrayRecord
            | InputFormat::Delta
            | InputFormat::Iceberg => None,
        }
    }

    fn input_format(&self) -> InputFormat {
        match self {
            Self::Arrow => InputFormat::Arrow,
            Self::Avro => InputFormat::Avro,
            Self::Csv => InputFormat::Csv,
            Self::HiveText => InputFormat::HiveText,
            Self::Json { .. } => InputFormat::Json,
            Self::LibSvm => InputFormat::LibSvm,
            Self::Orc => InputFormat::Orc,
            Self::Parquet(_) => InputFormat::Parquet,
        }
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
    let format = planned.input_format();
    let schema = declared_columns(options, format, schema, &listing)?;
    let columns = ColumnNames::new(options.names, schema.as_ref(), &path);
    let format: Arc<dyn FileFormat> = match planned {
        PlannedFormat::Parquet(planned) => {
            let (parquet, calendar) = (&options.parquet, options.calendar.clone());
            parquet::format(session, &listing, parquet, calendar, columns, schema, Some(planned)).await?
        }
        PlannedFormat::Json { newlines_in_values } => {
            let names = listing.names().clone();
            json::planned(&options.json, names, columns, schema.is_some(), newlines_in_values)
        }
        _ => reader_format(session, &listing, format, options, columns, schema.as_ref())?,
    };
    Ok(DirectoryTable::with_schema(listing, format, &found))
}
