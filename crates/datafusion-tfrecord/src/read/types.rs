//! [`Types`]: the columns of a table, and how they are stored in the records.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use arrow_tfrecord::{MappingOptions, RecordType};
use datafusion_common::Result;
use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tfrecord_shards::SetLayout;
use tfrecord_sidecars::tfmd::{readable_from_pbtxt, schema_from_pbtxt};

use super::declared::{self, in_files};
use super::infer::{Inferred, infer, raw_records};
use super::options::ReadOptions;
use super::sets::TableFiles;
use super::written::Written;
use super::{manifest_check, ragged};
use crate::error::ErrorKind;
use tfr_files::store_of;
use tfr_files::{Location, LocationText, schema};

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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ColumnOrigin {
    /// The caller declared them.
    #[default]
    Declared,
    /// The manifests of the shard sets that the files belong to.
    Manifest,
    /// A schema of TensorFlow Metadata.
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

/// Determines the columns: those declared, else those of the schema file, of the manifests, of a `schema.pbtxt` next
/// to the files, or of the records themselves. Records properties of files in `files` on the way.
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
    } else if let Some((file, text)) = beside(files.listing.store(), locations, files).await? {
        let file = names.name(&file);
        (schema_beside(session, files, &file, &text, options).await?, ColumnOrigin::SchemaFile { file })
    } else {
        let listing = &files.listing;
        let Inferred { schema, mapping, compressions, probed_files, records, is_all } =
            infer(session, listing.store(), listing.files(), &names, options).await?;
        inferred = Some((mapping, is_all));
        for (known, compression) in files.known.iter_mut().zip(compressions) {
            if compression.is_some() {
                known.get_or_insert_default().compression = compression;
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

/// Finds the `schema.pbtxt` in the directory of the files, if they share one directory, or in the directory that was
/// named.
async fn beside(
    store: &Arc<dyn ObjectStore>,
    locations: &[Location],
    files: &TableFiles,
) -> Result<Option<(Path, bytes::Bytes)>> {
    let mut directories: Vec<Path> = files.listing.files().iter().filter_map(|file| file.location.parent()).collect();
    directories.dedup();
    let directory = match (directories.as_slice(), locations) {
        ([directory], _) => directory.clone(),
        (_, [location]) if !location.is_pattern() => location.prefix().clone(),
        _ => return Ok(None),
    };
    let path = directory.join(SCHEMA_NAME);
    match store.get(&path).await {
        Ok(got) => Ok(Some((path, got.bytes().await?))),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads a file that was named, from any store.
async fn read_file(session: &dyn Session, file: &LocationText) -> Result<bytes::Bytes> {
    let location = Location::parse(file.with_secrets())?;
    let (_, store) = store_of(session, std::slice::from_ref(&location))?;
    match store.get(location.key()).await {
        Err(object_store::Error::NotFound { .. }) => {
            Err(tfr_files::Error::from(tfr_files::ErrorKind::NotFound { location: file.to_string() }).into())
        }
        got => Ok(got?.bytes().await?),
    }
}

/// Returns the columns of a schema next to the files. The schema was not requested, so a feature that it describes in
/// an unsupported way is left to inference.
async fn schema_beside(
    session: &dyn Session,
    files: &TableFiles,
    file: &str,
    text: &[u8],
    options: &ReadOptions,
) -> Result<SchemaRef> {
    let text = std::str::from_utf8(text).map_err(|source| ErrorKind::SchemaText { file: file.to_owned(), source })?;
    let read = readable_from_pbtxt(text).map_err(|source| ErrorKind::SchemaFile { file: file.to_owned(), source })?;
    if read.refused.is_empty() {
        return Ok(Arc::new(read.schema));
    }
    let (store, names) = (files.listing.store(), files.listing.names());
    let records = infer(session, store, files.listing.files(), names, options).await?.schema;
    let mut fields = read.schema.fields().to_vec();
    for (name, error) in &read.refused {
        match records.field_with_name(name) {
            Ok(field) => {
                log::warn!("{file}: {error}; its type is inferred from the records: {}", field.data_type());
                fields.push(Arc::new(field.clone()));
            }
            Err(_) => log::warn!("{file}: {error}; the inspected records do not have it"),
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn parse_pbtxt(file: &str, text: &[u8]) -> Result<SchemaRef> {
    let file = || file.to_owned();
    let text = std::str::from_utf8(text).map_err(|source| ErrorKind::SchemaText { file: file(), source })?;
    let schema = schema_from_pbtxt(text).map_err(|source| ErrorKind::SchemaFile { file: file(), source })?;
    Ok(Arc::new(schema))
}
