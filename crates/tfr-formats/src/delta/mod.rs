//! Delta Lake: the log of a table determines its files.
//!
//! The log is replayed here (`snapshot`), from the newest checkpoint on. What it records about each file becomes a
//! [`TableFiles`], which the crate's own Parquet reader reads. Whatever can be compared is: sizes of files, numbers of
//! rows, checksums and cardinalities of deletion vectors. What a table needs that is not known here is refused by name.
//!
//! See the [protocol](https://github.com/delta-io/delta/blob/master/PROTOCOL.md).

mod actions;
mod checkpoint;
mod deletion;
mod log_files;
mod place;
mod schema;
mod snapshot;
pub(crate) mod travel;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, Schema};
use chrono::{DateTime, Utc};
use datafusion_common::Result;
use datafusion_session::Session;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use serde::Deserialize;
use tfr_files::{
    ColumnInFiles, ColumnsInFiles, DataFormat, DeletedRows, DirectoryTable, FoundBy, TableFile, TableFiles,
    TableFormat, TableVersion,
};
use tfr_stores::Location;

use crate::calendar::CalendarOption;
use crate::error::{Error, TableError};
use crate::table::{self, Place, values};
use actions::Add;
use log_files::{LogFiles, Missing};
use schema::Mapping;
use snapshot::DeltaSnapshot;

/// What a table of this format is in messages.
const A_TABLE: &str = "a Delta table";

/// Which version of a table is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeltaOptions {
    /// The number of a version; `None` for the newest.
    pub version: Option<u64>,
    /// The time at which the version was the newest.
    pub timestamp: Option<DateTime<Utc>>,
}

/// Whether the location is the directory of a Delta table.
pub(crate) async fn is_table(session: &dyn Session, location: &Location) -> Result<bool> {
    Ok(!location.is_pattern() && Place::of(session, location, A_TABLE)?.has_log().await)
}

/// Opens the table in the directory at `location`.
///
/// # Errors
/// - There is no log, it is damaged, or it does not have the version.
/// - The table has features that are not supported.
/// - A file that the log names is missing, outside of what the session allows, or not as the log describes it.
pub(crate) async fn open(
    session: &dyn Session,
    location: &Location,
    options: &DeltaOptions,
    calendar: CalendarOption,
) -> Result<DirectoryTable> {
    let place = Place::of(session, location, A_TABLE)?;
    let log = LogFiles::of(place.log_files().await?);
    let version = match options.timestamp {
        Some(asked) => {
            let newest = snapshot(&place, &log, None).await?;
            Some(travel::version_at(&place, &log, &newest.metadata, asked).await?)
        }
        None => options.version,
    };
    let snapshot = snapshot(&place, &log, version).await?;
    log::debug!("{}: version {}, {} files", place.table(), snapshot.version, snapshot.files.len());
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    let files = table_files(&place, snapshot, concurrency).await?;
    table::open(session, location, files, calendar).await
}

async fn snapshot(place: &Place, log: &LogFiles, version: Option<u64>) -> Result<DeltaSnapshot> {
    if version.is_none() {
        check_end(place, log).await?;
    }
    let files = log.version(version).map_err(|missing| {
        let problem = match missing {
            Missing::Everything => "not a Delta table: _delta_log/ has no commit and no checkpoint".to_owned(),
            Missing::Version { asked, newest } => {
                format!("the Delta table has no version {asked}; its newest is {newest}")
            }
            Missing::Commit(version) => {
                format!("the log of the Delta table lacks version {version}, and no complete checkpoint follows it")
            }
        };
        Error::from(TableError::unusable(place.table(), problem))
    })?;
    DeltaSnapshot::read(place, &files).await
}

/// Checks that the newest version of the log is not older than the checkpoint that writers have noted last.
async fn check_end(place: &Place, log: &LogFiles) -> Result<()> {
    #[derive(Deserialize)]
    struct LastCheckpoint {
        version: u64,
    }
    let (Some(meta), Some(newest)) = (&log.last_checkpoint, log.newest()) else { return Ok(()) };
    let bytes = place.read(&meta.location, meta.size).await?;
    // The protocol lets readers do without the file, so its own defects do not matter.
    match serde_json::from_slice(&bytes) {
        Ok(LastCheckpoint { version: checkpoint }) if checkpoint > newest => {
            let problem = format!(
                "`_last_checkpoint` names version {checkpoint} of the Delta table, but its log ends at {newest}"
            );
            Err(Error::from(TableError::unusable(place.table(), problem)).into())
        }
        _ => Ok(()),
    }
}

/// Returns the files as the log describes them.
async fn table_files(place: &Place, snapshot: DeltaSnapshot, concurrency: usize) -> Result<TableFiles> {
    let DeltaSnapshot { version, metadata, protocol, files } = snapshot;
    let mapping = Mapping::of(&metadata, &protocol).map_err(|feature| place.unsupported(feature))?;
    let schema = metadata.schema_string.as_deref();
    let schema = schema.ok_or_else(|| place.damaged(place.table(), "its log has no schema".to_owned()))?;
    let parsed = schema::parse(schema, mapping, &place.table());
    let (fields, columns) = parsed.map_err(|defect| place.refused(&place.table(), defect))?;
    let mut constants: Vec<(FieldRef, ColumnInFiles)> = Vec::new();
    for name in &metadata.partition_columns {
        let found = fields.iter().zip(&columns).find(|(field, _)| field.name() == name);
        let (field, column) = found
            .ok_or_else(|| place.unsupported(format!("a partition column {name:?}, which is not in its schema")))?;
        if constants.iter().any(|(known, _)| known.name() == name) {
            return Err(place.unsupported(format!("a partition column {name:?} that is listed twice")).into());
        }
        constants.push((Arc::clone(field), column.clone()));
    }
    warn_of_times(place, &constants, &files);
    let is_constant = |column: &ColumnInFiles| metadata.partition_columns.contains(&column.name);
    let columns = columns.into_iter().filter(|column| !is_constant(column)).collect();
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let found: Vec<BoxFuture<'_, _>> =
        files.into_iter().map(|(path, add)| table_file(place, path, add, &constants).boxed()).collect();
    let files = futures::stream::iter(found).buffered(concurrency.max(1)).try_collect().await?;
    Ok(TableFiles {
        schema: Arc::new(Schema::new(fields)),
        constants: constants.into_iter().map(|(field, _)| field).collect(),
        columns: Arc::new(ColumnsInFiles {
            by: if mapping == Mapping::Id { FoundBy::Id } else { FoundBy::Name },
            columns,
            ..ColumnsInFiles::default()
        }),
        files,
        version: Some(TableVersion { format: TableFormat::Delta, number: Some(version), schema: None }),
    })
}

/// Warns of instants without a time zone, which some writers have written in the zone of their session.
fn warn_of_times(place: &Place, constants: &[(FieldRef, ColumnInFiles)], files: &BTreeMap<Path, Add>) {
    let instants = constants.iter().filter(|(field, _)| matches!(field.data_type(), DataType::Timestamp(_, Some(_))));
    for (field, column) in instants {
        let mut texts = files.values().filter_map(|add| add.partition_values.get(&column.in_file)?.as_deref());
        if let Some(text) = texts.find(|text| values::lacks_zone(text)) {
            let (table, column) = (place.table(), field.name());
            log::warn!(
                "{table}: partition column \"{column}\": values such as {text:?} have no time zone, and are read as UTC"
            );
        }
    }
}

async fn table_file(place: &Place, path: Path, add: Add, constants: &[(FieldRef, ColumnInFiles)]) -> Result<TableFile> {
    let file = place.name(&path);
    let mut values = Vec::with_capacity(constants.len());
    for (field, column) in constants {
        let Some(text) = add.partition_values.get(&column.in_file) else {
            let reason = format!("the log has no value of its partition column {:?}", field.name());
            return Err(place.damaged(file, reason).into());
        };
        let text = text.as_deref();
        let value = values::parse(text, field.data_type()).ok_or_else(|| {
            let (column, expected, value) = (field.name(), field.data_type(), text.unwrap_or_default());
            let problem = format!(
                "the log has {value:?} for partition column \"{column}\", which is not a value of type {expected}"
            );
            Error::from(TableError::unusable(file.clone(), problem))
        })?;
        values.push(value);
    }
    let Some(meta) = place.head(&path).await? else {
        return Err(Error::from(TableError::missing(file, &place.table())).into());
    };
    if meta.size != add.size {
        return Err(place
            .damaged(file, format!("it has {} bytes, but the log records {}", meta.size, add.size))
            .into());
    }
    let deleted = match &add.deletion_vector {
        Some(vector) => deletion::read(place, vector, &file).await?,
        None => DeletedRows::default(),
    };
    let rows = add.rows().map_err(|reason| place.damaged(file, format!("the log has {reason}")))?;
    Ok(TableFile { meta, format: DataFormat::Parquet, constants: values, rows, deleted })
}
