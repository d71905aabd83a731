//! Apache Iceberg: a metadata file and manifests determine the files of a table.
//!
//! They are read here, JSON by serde and manifests by the crate's own Avro reader. What they record about each file
//! becomes a [`TableFiles`], which the crate's own readers of Parquet, ORC and Avro read. Whatever can be compared is:
//! sizes of files, numbers of rows, counts of manifests, checksums and cardinalities of deletion vectors. What a table
//! needs that is not known here is refused by name.
//!
//! See the [specification](https://iceberg.apache.org/spec/).

mod deletes;
mod keys;
mod manifest;
mod metadata;
mod paths;
mod records;
mod schema;
mod values;
mod vector;
mod versions;

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{FieldRef, Schema as ArrowSchema};
use chrono::{DateTime, Utc};
use datafusion_common::{Result, ScalarValue};
use datafusion_session::Session;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path;
use tfr_files::{
    ColumnInFiles, ColumnsInFiles, DataFormat, DeletedRows, DirectoryTable, FilesWithoutIds, Findings, FoundBy,
    TableFile, TableFiles, TableFormat, TableVersion,
};
use tfr_stores::Location;

use crate::calendar::CalendarOption;
use crate::error::{Error, TableError};
use crate::table::{self, Place};
use deletes::Deletes;
use manifest::{DataContent, Entry, Manifests};
use metadata::{Metadata, Unread};
use paths::Paths;
use schema::{NameMapping, Schema};
use versions::{HINT, METADATA, MetadataName};

/// What a table of this format is in messages.
const A_TABLE: &str = "an Iceberg table";

/// The first line of a hint is a number, and the rest does not matter.
const MAX_HINT: u64 = 64;

/// Which snapshot of a table is read. At most one of `snapshot` to `tag` is set; without one it is the newest of the main branch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IcebergOptions {
    /// The id of a snapshot.
    pub snapshot: Option<i64>,
    /// The time at which the snapshot was the newest of the main branch.
    pub timestamp: Option<DateTime<Utc>>,
    /// The branch whose newest snapshot it is.
    pub branch: Option<String>,
    /// The tag of the snapshot.
    pub tag: Option<String>,
    /// The id of the schema, whichever the snapshot would be read with. No option of a user sets it.
    pub schema: Option<i32>,
}

impl IcebergOptions {
    /// Returns the keys of the options that are set.
    pub(crate) fn given(&self) -> Vec<&'static str> {
        let keys = [
            ("snapshot", self.snapshot.is_some()),
            ("timestamp", self.timestamp.is_some()),
            ("branch", self.branch.is_some()),
            ("tag", self.tag.is_some()),
        ];
        keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
    }
}

/// Whether the location is the directory of a table that needs no catalog.
pub(crate) async fn is_table(session: &dyn Session, location: &Location) -> Result<bool> {
    if location.is_pattern() {
        return Ok(false);
    }
    let place = Place::of(session, location, A_TABLE)?;
    let files = place.files(&location.key().clone().join(METADATA)).await;
    let is_metadata = |name: &str| name == HINT || matches!(MetadataName::parse(name), Some(MetadataName::Version(_)));
    // A directory that cannot be listed is treated as existing.
    Ok(files.map_or(true, |files| files.iter().any(|file| file.location.filename().is_some_and(is_metadata))))
}

/// Whether the location is a metadata file of a table: by its name, and unless it is JSON of another kind.
pub(crate) async fn is_metadata_file(session: &dyn Session, location: &Location) -> Result<bool> {
    let is_named = || location.key().filename().and_then(MetadataName::parse).is_some();
    if location.is_pattern() || location.to_string().ends_with('/') || !is_named() {
        return Ok(false);
    }
    let place = Place::of(session, location, A_TABLE)?;
    let Some(meta) = place.head(location.key()).await? else { return Ok(false) };
    let bytes = place.read(&meta.location, meta.size).await?;
    let json = metadata::text(&bytes).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    Ok(json.is_none_or(|json| json.get("format-version").is_some()))
}

/// Checks that the location with these files is not the directory with the metadata of a table.
///
/// # Errors
/// It is one, by its name and the names of its files.
pub(crate) fn check_not_metadata(location: &Location, files: &[ObjectMeta]) -> Result<(), Error> {
    let directory = location.key();
    let is_metadata = |file: &ObjectMeta| {
        file.location.filename().and_then(MetadataName::parse).is_some()
            && file.location.parent().as_ref() == Some(directory)
    };
    let is_directory = !location.is_pattern() && directory.filename() == Some(METADATA);
    match is_directory && files.iter().any(is_metadata) {
        true => Err(TableError::IcebergMetadata { directory: location.to_string() }.into()),
        false => Ok(()),
    }
}

/// Opens the table in the directory at `location`, or whose metadata file is there.
///
/// # Errors
/// - There is no metadata, it is damaged, or it does not have the snapshot.
/// - The table has features that are not supported.
/// - A file that the metadata names is missing, outside of what the session allows, or not as it is described.
pub(crate) async fn open(
    session: &dyn Session,
    location: &Location,
    options: &IcebergOptions,
    calendar: CalendarOption,
) -> Result<DirectoryTable> {
    let place = &Place::of(session, location, A_TABLE)?;
    let (file, named) = metadata_file(place).await?;
    let name = place.name(&file.location);
    let metadata = Metadata::parse(&place.read(&file.location, file.size).await?);
    let metadata = &metadata.map_err(|unread| error(place, &name, unread))?;
    let (snapshot, schema) = metadata.select(options).map_err(|unread| error(place, &name, unread))?;
    log::debug!("{name}: snapshot {:?}", snapshot.map(|snapshot| snapshot.snapshot_id));
    let folder = named.or_else(|| paths::folder_of(place, &file.location, metadata));
    let paths = &Paths::of(place, &metadata.location, folder)?;
    if let Some(folder) = paths.moved_to() {
        note_moved(session, place, metadata, &folder);
    }
    let entries = match snapshot {
        Some(snapshot) => Manifests::of(session, place, paths, metadata).entries(snapshot).await?,
        None => Vec::new(),
    };
    let mapping = metadata.name_mapping().map(NameMapping::parse).transpose();
    let mapping = mapping.map_err(|reason| place.damaged(name.clone(), reason))?;
    let without_ids = if mapping.is_some() { FilesWithoutIds::ByNames } else { FilesWithoutIds::Refuse };
    let mapping = &mapping.unwrap_or_default();
    let (data, deletes): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.content == DataContent::Data);
    let resolver = Deletes { session, place, paths, metadata, mapping, without_ids, calendar: &calendar };
    let deleted = resolver.of(&data, &deletes).await?;
    let (fields, columns) =
        schema::columns(schema, mapping, &place.table()).map_err(|defect| place.refused(&name, defect))?;
    let constants = constants(&fields, &columns, &data);
    let partitioned = Partitioned { schema, mapping, constants: &constants, without_ids };
    partitioned.check(session, place, &data).await?;
    let columns =
        columns.into_iter().filter(|column| !constants.iter().any(|(_, id)| Some(*id) == column.id)).collect();
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let files = data.iter().zip(deleted);
    let files: Vec<BoxFuture<'_, _>> =
        files.map(|(entry, deleted)| table_file(place, entry, deleted, &constants).boxed()).collect();
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    let files = futures::stream::iter(files).buffered(concurrency.max(1)).try_collect().await?;
    let number = snapshot.map(|snapshot| u64::try_from(snapshot.snapshot_id));
    let number = number.transpose().map_err(|_| place.unsupported("a snapshot whose id is negative".to_owned()))?;
    let table = TableFiles {
        schema: Arc::new(ArrowSchema::new(fields)),
        constants: constants.into_iter().map(|(field, _)| field).collect(),
        columns: Arc::new(columns_by_id(without_ids, columns)),
        files,
        version: Some(TableVersion { format: TableFormat::Iceberg, number, schema: Some(schema.schema_id) }),
    };
    table::open(session, location, table, calendar).await
}

/// Returns the columns of a table, which are found by their ids.
fn columns_by_id(without_ids: FilesWithoutIds, columns: Vec<ColumnInFiles>) -> ColumnsInFiles {
    ColumnsInFiles { by: FoundBy::Id, without_ids, columns, ..ColumnsInFiles::default() }
}

/// Returns the metadata file of a table, and the folder of the table if the user named it.
async fn metadata_file(place: &Place) -> Result<(ObjectMeta, Option<Path>)> {
    let not = |reason: String| Error::from(TableError::NotIceberg { table: place.table(), reason });
    let named = place.location().key();
    if named.filename().and_then(MetadataName::parse).is_some()
        && let Some(meta) = place.head(named).await?
    {
        return Ok((meta, None));
    }
    let directory = named.clone().join(METADATA);
    let files = place.files(&directory).await?;
    let find = |path: &Path| files.iter().find(|file| file.location == *path).cloned();
    let hint = match find(&directory.join(HINT)) {
        Some(meta) if meta.size > 0 => {
            let bytes = place.read_range(&meta.location, 0..meta.size.min(MAX_HINT)).await?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => None,
    };
    if files.is_empty() {
        check_not_metadata(place.location(), &place.files(named).await?)?;
        return Err(not(no_metadata(place).await?).into());
    }
    let paths: Vec<_> = files.iter().map(|file| file.location.clone()).collect();
    let newest = versions::newest(&paths, hint.as_deref()).map_err(not)?;
    let meta = find(&newest).ok_or_else(|| not("its metadata file is gone".to_owned()))?;
    Ok((meta, Some(named.clone())))
}

/// Returns why a location without metadata is no table.
async fn no_metadata(place: &Place) -> Result<String> {
    let named = place.location().key();
    if place.head(named).await?.is_some() {
        return Ok("not an Iceberg table: it is a file, and its name is not that of a metadata file".to_owned());
    }
    Ok(match place.files(&named.clone().join("_delta_log")).await?.is_empty() {
        true => format!("not an Iceberg table: it has no files in {METADATA}/"),
        false => "not an Iceberg table, but a Delta table".to_owned(),
    })
}

fn note_moved(session: &dyn Session, place: &Place, metadata: &Metadata, folder: &str) {
    let (table, location) = (place.table(), &metadata.location);
    let note = format!(
        "note: {table}: the metadata of the table records the location {location}; its files are read below {folder} instead"
    );
    match Findings::of(session.config()) {
        Some(findings) => findings.note(note),
        None => log::info!("{note}"),
    }
}

/// Returns the columns that have one value in each file, with their ids: those by which each file is partitioned. Files
/// of tables that were migrated from Hive lack them.
fn constants(fields: &[FieldRef], columns: &[ColumnInFiles], data: &[Entry]) -> Vec<(FieldRef, i32)> {
    let mut specs: Vec<_> = data.iter().map(|file| &file.partition.spec).collect();
    let mut seen = HashSet::new();
    specs.retain(|spec| seen.insert(spec.spec_id));
    let found = fields.iter().zip(columns).filter_map(|(field, column)| {
        let id = column.id.filter(|_| tfr_files::unreadable(field).is_none())?;
        (!specs.is_empty() && specs.iter().all(|spec| spec.identity_of(id).is_some())).then(|| (Arc::clone(field), id))
    });
    found.collect()
}

/// The columns by which files are partitioned, where nothing else than the files has their values.
struct Partitioned<'a> {
    schema: &'a Schema,
    mapping: &'a NameMapping,
    /// The columns whose values the manifests have.
    constants: &'a [(FieldRef, i32)],
    without_ids: FilesWithoutIds,
}

impl Partitioned<'_> {
    /// Checks that files have the columns by which they, but not all files, are partitioned, and the fields of structs: a
    /// table has no value for a column of some files, or for a part of a column.
    async fn check(&self, session: &dyn Session, place: &Place, data: &[Entry]) -> Result<()> {
        for entry in data {
            let ids = entry.partition.spec.identities();
            let (mut fields, mut columns) = (Vec::new(), Vec::new());
            for id in ids.filter(|id| !self.constants.iter().any(|(_, constant)| constant == id)) {
                // A column that was dropped has none.
                let Some((name, column)) = schema::leading_to(self.schema, id) else { continue };
                let parts = column.parts(self.mapping, &place.table());
                let (field, column) = parts.map_err(|defect| place.refused(&place.table(), defect))?;
                if tfr_files::unreadable(&field).is_none() {
                    fields.push(Arc::new(field.as_ref().clone().with_name(&name)));
                    columns.push(ColumnInFiles { name, is_required: true, ..column });
                }
            }
            if fields.is_empty() {
                continue;
            }
            let columns = Arc::new(columns_by_id(self.without_ids, columns));
            let (file, fields) = (file_of(place, entry).await?, Arc::new(ArrowSchema::new(fields)));
            table::read(session, place.location(), file, fields, columns, CalendarOption::default()).await?;
        }
        Ok(())
    }
}

async fn table_file(
    place: &Place,
    entry: &Entry,
    deleted: DeletedRows,
    constants: &[(FieldRef, i32)],
) -> Result<TableFile> {
    let constants = constants.iter().map(|(field, id)| {
        let value: Option<&ScalarValue> =
            entry.partition.spec.identity_of(*id).and_then(|position| entry.partition.values.get(position));
        let value = value.and_then(|value| values::widened(value, field.data_type()));
        value.ok_or_else(|| {
            let reason = format!("its partition has no value of the type {} for {:?}", field.data_type(), field.name());
            place.damaged(place.name(&entry.path), reason)
        })
    });
    let constants = constants.collect::<Result<_, Error>>()?;
    Ok(TableFile { constants, deleted, ..file_of(place, entry).await? })
}

/// Returns a file as its manifest describes it, without constants and deleted rows.
async fn file_of(place: &Place, entry: &Entry) -> Result<TableFile> {
    let format = match entry.format.as_str() {
        "PARQUET" => DataFormat::Parquet,
        "ORC" => DataFormat::Orc,
        "AVRO" => DataFormat::Avro,
        other => return Err(place.unsupported(format!("files of the format {other}")).into()),
    };
    let meta = meta_of(place, entry).await?;
    Ok(TableFile { meta, format, constants: Vec::new(), rows: Some(entry.records), deleted: DeletedRows::default() })
}

/// Returns the state of a file, whose size is compared with that in its manifest.
async fn meta_of(place: &Place, entry: &Entry) -> Result<ObjectMeta> {
    let file = place.name(&entry.path);
    let Some(meta) = place.head(&entry.path).await? else {
        return Err(Error::from(TableError::missing(file, &place.table())).into());
    };
    match meta.size == entry.size {
        true => Ok(meta),
        false => Err(place
            .damaged(file, format!("it has {} bytes, but its manifest records {}", meta.size, entry.size))
            .into()),
    }
}

fn error(place: &Place, file: &str, unread: Unread) -> Error {
    match unread {
        Unread::Defect(defect) => place.refused(file, defect),
        Unread::NoSuch(asked, reason) => {
            TableError::unusable(place.table(), format!("the Iceberg table has no {asked}: {reason}")).into()
        }
    }
}
