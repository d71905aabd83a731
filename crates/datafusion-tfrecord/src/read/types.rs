//! [`Types`]: the columns of a table, and how they are stored in the records.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use arrow_tfrecord::{MappingOptions, RecordType};
use datafusion_common::Result;
use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};
use tfr_arrow::labels;
use tfrecord_framing::{Container, Position};
use tfrecord_shards::{SetLayout, is_array_record};
use tfrecord_sidecars::tfds::{DATASET_INFO_NAME, FEATURES_NAME, label_file, readable_from_features, shard_lengths};
use tfrecord_sidecars::tfmd::{ReadableSchema, readable_from_pbtxt, schema_from_pbtxt};

use super::declared::{self, in_files};
use super::infer::{Inferred, infer, raw_records};
use super::known::KnownFile;
use super::options::ReadOptions;
use super::sets::TableFiles;
use super::written::Written;
use super::{manifest_check, ragged};
use crate::error::ErrorKind;
use tfr_files::schema;
use tfr_files::store_of;
use tfr_stores::{Location, LocationText};

/// The name that TensorFlow's tools give to the schema next to a data set.
const SCHEMA_NAME: &str = "schema.pbtxt";

/// The columns of a table, and how they are stored in the records.
pub(super) struct Types {
    pub(super) schema: SchemaRef,
    pub(super) mapping: MappingOptions,
    /// The columns as decoded from the files, if they differ from the table's.
    pub(super) decoded: Option<SchemaRef>,
    /// Whether they were inferred from only some of the records.
    pub(super) inferred: bool,
    /// The source of the columns.
    pub(super) origin: ColumnOrigin,
}

/// The source of a table's columns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ColumnOrigin {
    /// The caller declared them.
    #[default]
    Declared,
    /// The manifests of the shard sets that the files belong to.
    Manifest,
    /// A schema of TensorFlow Metadata, or the features of TensorFlow Datasets.
    SchemaFile {
        /// The file.
        file: String,
    },
    /// The records of some or all files.
    Records {
        /// Number of files inspected.
        probed_files: usize,
        /// Number of files in the table.
        files: usize,
        /// Number of records inspected.
        records: u64,
        /// Whether these are all records of all files. If not, some features may be missing from the columns.
        is_all: bool,
    },
}

/// Determines the columns: those declared, else those of the schema file, of the manifests, of a `schema.pbtxt` or
/// `features.json` next to the files, or of the records themselves. Records properties of files in `files` on the way.
pub(super) async fn settle(
    session: &dyn Session,
    locations: &[Location],
    files: &mut TableFiles,
    options: &ReadOptions,
) -> Result<Types> {
    let names = files.listing.names().clone();
    let written = Written::of(&files.sets, &names)?;
    let is_declared = options.schema.is_some() || options.schema_file.is_some();
    if !is_raw(options) {
        files.check_manifests(is_declared)?;
        if !is_declared {
            written.check_files(files)?;
        }
    }
    let mut inferred = None;
    let (schema, origin) = if let Some(declared) = &options.schema {
        (Arc::clone(declared), ColumnOrigin::Declared)
    } else if let Some(file) = &options.schema_file {
        let text = read_file(session, file).await?;
        let file = file.to_string();
        (parse_pbtxt(&file, &text)?, ColumnOrigin::SchemaFile { file })
    } else if is_raw(options) {
        (Arc::new(raw_records()), ColumnOrigin::Declared)
    } else if let Some(schema) = written.schema()? {
        (schema, ColumnOrigin::Manifest)
    } else if let Some((file, schema)) = schema_beside(session, locations, files, options).await? {
        (schema, ColumnOrigin::SchemaFile { file })
    } else {
        let listing = &files.listing;
        let Inferred { schema, mapping, containers, probed_files, records, is_all } =
            infer(session, listing.store(), listing.files(), &names, options).await?;
        inferred = Some((mapping, is_all));
        for (known, container) in files.known.iter_mut().zip(containers) {
            if container.is_some() {
                known.get_or_insert_default().container = container;
            }
        }
        (Arc::new(schema), ColumnOrigin::Records { probed_files, files: files.known.len(), records, is_all })
    };
    let (schema, transform_ragged) = match &origin {
        ColumnOrigin::SchemaFile { .. } => {
            let (schema, columns) = ragged::of_transform(&schema);
            (Arc::new(schema), columns)
        }
        _ => (schema, BTreeSet::new()),
    };
    let schema = match &options.types {
        Some(types) => with_types(&schema, types)?,
        None => schema,
    };
    let in_path = files.listing.partitions().fields();
    // Declared columns may include those of the path; the manifest's are those in the files.
    let of_files = if options.schema.is_some() { written.schemas() } else { vec![Arc::clone(&schema)] };
    let file = |_| files.listing.file_names().next().unwrap_or_default();
    let strange: Vec<_> = in_path.iter().filter(|field| !files.kept.contains(field.name())).cloned().collect();
    schema::check_path_columns(&strange, &of_files, file)?;
    let given = options.mapping.clone().unwrap_or_default();
    if is_raw(options) {
        return Ok(Types { schema, mapping: given, decoded: None, inferred: false, origin });
    }
    if let Some((mut mapping, is_all)) = inferred {
        if options.types.is_some() {
            // A type of another shape than the features have would be null in every row.
            let (all, columns) = ((0..files.listing.files().len()).collect::<Vec<_>>(), in_files(&schema, in_path));
            mapping = declared::form(session, files, &all, &columns, mapping, options).await?;
        }
        return Ok(Types { schema, mapping, decoded: None, inferred: !is_all, origin });
    }
    let columns = in_files(&schema, in_path);
    let unspecified: Vec<_> = written.unspecified(files).collect();
    if unspecified.is_empty() {
        written.check_names(columns.fields(), &given)?;
    }
    written.check_units(&schema, &given)?;
    let mut mapping = over(written.mapping(&schema), &given);
    mapping.transform_ragged.extend(transform_ragged);
    if !unspecified.is_empty() {
        mapping = declared::form(session, files, &unspecified, &columns, mapping, options).await?;
    }
    if mapping.record_type == RecordType::ExampleListWithContext {
        written.check_sequences(&columns, &given)?;
    }
    if files.sets.iter().any(|set| set.manifest.layout == SetLayout::Shards) {
        manifest_check::check(session, files, &columns, &mapping, options).await?;
    }
    let decoded = written.decoded(columns.fields(), !unspecified.is_empty());
    Ok(Types { schema, mapping, decoded, inferred: false, origin })
}

/// Returns `schema` with the columns of `types` in their types.
fn with_types(schema: &Schema, types: &Schema) -> Result<SchemaRef> {
    let mut fields = schema.fields().to_vec();
    for declared in types.fields() {
        let Some((index, field)) = schema.column_with_name(declared.name()) else {
            let known = fields.iter().map(|field| field.name().clone()).collect();
            return Err(ErrorKind::NoColumn { role: "declared", column: declared.name().clone(), known }.into());
        };
        // The metadata may name an extension of the type.
        fields[index] = Arc::new(Field::new(field.name(), declared.data_type().clone(), field.is_nullable()));
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// Whether records are read as raw bytes.
fn is_raw(options: &ReadOptions) -> bool {
    options.mapping.as_ref().is_some_and(|mapping| mapping.record_type == RecordType::Bytes)
}

/// Returns the written options, overridden by the given ones.
fn over(written: MappingOptions, given: &MappingOptions) -> MappingOptions {
    fn either<T: Clone + PartialEq>(written: T, given: &T, default: &T) -> T {
        if given == default { written } else { given.clone() }
    }
    let default = MappingOptions::default();
    let mut mapping = written;
    mapping.record_type = either(mapping.record_type, &given.record_type, &default.record_type);
    mapping.nulls = either(mapping.nulls, &given.nulls, &default.nulls);
    mapping.separator = either(mapping.separator, &given.separator, &default.separator);
    mapping.strict = given.strict;
    mapping.choices.extend(given.choices.clone());
    mapping.column_nulls.extend(given.column_nulls.clone());
    mapping.vocabularies.extend(given.vocabularies.clone());
    mapping.sequences.extend(given.sequences.iter().cloned());
    mapping
}

/// A file next to the records that describes their columns.
struct Beside {
    file: Path,
    text: bytes::Bytes,
    parse: fn(&str) -> Result<ReadableSchema, tfrecord_sidecars::Error>,
}

/// Finds the `schema.pbtxt`, or else the `features.json` of TensorFlow Datasets, in the directory of the files, if they
/// share one directory, or in the directory that was named.
async fn beside(
    store: &Arc<dyn ObjectStore>,
    locations: &[Location],
    files: &TableFiles,
    options: &ReadOptions,
) -> Result<Option<Beside>> {
    let mut directories: Vec<Path> = files.listing.files().iter().filter_map(|file| file.location.parent()).collect();
    directories.dedup();
    let directory = match (directories.as_slice(), locations) {
        ([directory], _) => directory.clone(),
        (_, [location]) if !location.is_pattern() => location.prefix().clone(),
        _ => return Ok(None),
    };
    let schema: fn(&str) -> _ = readable_from_pbtxt;
    let features = options.features_file.then_some((FEATURES_NAME, readable_from_features as fn(&str) -> _));
    for (name, parse) in [(SCHEMA_NAME, schema)].into_iter().chain(features) {
        let file = directory.clone().join(name);
        match store.get(&file).await {
            Ok(got) => return Ok(Some(Beside { text: got.bytes().await?, file, parse })),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Takes the numbers of records from the `dataset_info.json` next to a `features.json`. A file with another number fails.
async fn take_lengths(files: &mut TableFiles, features: &Path) -> Result<()> {
    let Some(directory) = features.parent() else { return Ok(()) };
    let path = directory.clone().join(DATASET_INFO_NAME);
    let text = match files.listing.store().get(&path).await {
        Ok(got) => got.bytes().await?,
        Err(object_store::Error::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let file = || files.listing.names().name(&path);
    let text = std::str::from_utf8(&text).map_err(|source| ErrorKind::SchemaText { file: file(), source })?;
    let lengths = shard_lengths(text).map_err(|source| ErrorKind::SchemaFile { file: file(), source })?;
    for (meta, known) in files.listing.files().iter().zip(&mut files.known) {
        let is_beside = meta.location.parent().as_ref() == Some(&directory);
        let length = meta.location.filename().filter(|_| is_beside).and_then(|name| lengths.get(name));
        if let (None, Some(record)) = (&known, length) {
            // The bytes of an ArrayRecord file are in its footer, whose number of records is compared with this one.
            let is_array_record = meta.location.filename().is_some_and(is_array_record);
            let container = if is_array_record { Container::ArrayRecord } else { Container::PLAIN };
            let end = Some(Position { record: *record, byte: meta.size });
            *known = Some(KnownFile { container: Some(container), end, ..KnownFile::default() });
        }
    }
    Ok(())
}

/// Adds the names of labels in the files next to a `features.json` to the columns.
async fn with_labels(files: &TableFiles, features: &Path, read: ReadableSchema) -> Result<ReadableSchema> {
    let Some(directory) = features.parent() else { return Ok(read) };
    let mut fields = Vec::with_capacity(read.schema.fields().len());
    for field in read.schema.fields() {
        if !read.labelled.contains(field.name()) {
            fields.push(Arc::clone(field));
            continue;
        }
        let path = directory.clone().join(label_file(field.name()));
        let text = match files.listing.store().get(&path).await {
            Ok(got) => got.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => bytes::Bytes::new(),
            Err(error) => return Err(error.into()),
        };
        let file = || files.listing.names().name(&path);
        let text = std::str::from_utf8(&text).map_err(|source| ErrorKind::SchemaText { file: file(), source })?;
        let names: Vec<_> = text.lines().map(|line| line.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        fields.push(Arc::new(labels::with_labels(field.as_ref().clone(), &names)));
    }
    Ok(ReadableSchema { schema: Schema::new(fields), ..read })
}

/// Reads a file that was named, from any store.
async fn read_file(session: &dyn Session, file: &LocationText) -> Result<bytes::Bytes> {
    let location = Location::parse(file.with_secrets()).map_err(tfr_files::Error::from)?;
    let (_, store) = store_of(session, std::slice::from_ref(&location))?;
    match store.get(location.key()).await {
        Err(object_store::Error::NotFound { .. }) => {
            Err(tfr_files::Error::from(tfr_files::ErrorKind::NotFound { location: file.to_string() }).into())
        }
        got => Ok(got?.bytes().await?),
    }
}

/// Returns the name and the columns of a schema next to the files. The schema was not requested, so what it describes in
/// an unsupported way is left to inference.
async fn schema_beside(
    session: &dyn Session,
    locations: &[Location],
    files: &mut TableFiles,
    options: &ReadOptions,
) -> Result<Option<(String, SchemaRef)>> {
    let Some(beside) = beside(files.listing.store(), locations, files, options).await? else { return Ok(None) };
    let file = files.listing.names().name(&beside.file);
    if beside.file.filename() == Some(FEATURES_NAME) {
        take_lengths(files, &beside.file).await?;
    }
    let text = std::str::from_utf8(&beside.text);
    let text = text.map_err(|source| ErrorKind::SchemaText { file: file.clone(), source })?;
    let read = match (beside.parse)(text) {
        Err(error) if matches!(error.kind(), tfrecord_sidecars::ErrorKind::NotFeatures { .. }) => {
            log::warn!("{file}: {error}; the columns are those of the records");
            return Ok(None);
        }
        read => read.map_err(|source| ErrorKind::SchemaFile { file: file.clone(), source })?,
    };
    let read = with_labels(files, &beside.file, read).await?;
    if read.refused.is_empty() {
        return Ok(Some((file, Arc::new(read.schema))));
    }
    let (store, names) = (files.listing.store(), files.listing.names());
    let records = infer(session, store, files.listing.files(), names, options).await?.schema;
    let mut fields = read.schema.fields().to_vec();
    for (name, error) in &read.refused {
        // A feature with parts has several in the records.
        let is_part = |found: &str| found.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('/'));
        let found = records.fields().iter().filter(|field| field.name() == name || is_part(field.name()));
        let found: Vec<_> = found.cloned().collect();
        let columns: Vec<_> = found.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
        match columns.as_slice() {
            [] => log::warn!("{file}: {error}; the inspected records do not have it"),
            _ => log::warn!("{file}: {error}; read as it is in the records: {}", columns.join(", ")),
        }
        fields.extend(found);
    }
    Ok(Some((file, Arc::new(Schema::new(fields)))))
}

fn parse_pbtxt(file: &str, text: &[u8]) -> Result<SchemaRef> {
    let file = || file.to_owned();
    let text = std::str::from_utf8(text).map_err(|source| ErrorKind::SchemaText { file: file(), source })?;
    let schema = schema_from_pbtxt(text).map_err(|source| ErrorKind::SchemaFile { file: file(), source })?;
    Ok(Arc::new(schema))
}
