//! [`Types`]: the columns of a table, and in which form they stand in the records.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_tfrecord::{MappingOptions, NullPolicy, NullRule, RecordType};
use datafusion_common::Result;
use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tfrecord_sidecars::tfmd::schema_from_pbtxt;

use super::infer::{Inferred, infer, raw_records};
use super::options::ReadOptions;
use super::sets::{Set, TableFiles};
use crate::directory::listing::store_of;
use crate::directory::{self, FileNames, Location, schema};
use crate::error::{ErrorKind, shards_error};

/// What TensorFlow's tools call the schema of a data set when it lies beside it.
const SCHEMA_NAME: &str = "schema.pbtxt";

/// The columns of a table, and in which form they stand in the records.
pub(super) struct Types {
    pub(super) schema: SchemaRef,
    pub(super) mapping: MappingOptions,
    /// Whether they were inferred, and not from all records.
    pub(super) inferred: bool,
    /// What told them.
    pub(super) origin: ColumnOrigin,
}

/// What told the columns of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ColumnOrigin {
    /// Whoever asked for the table.
    #[default]
    Declared,
    /// The manifests of the shard sets that the files belong to.
    Manifest,
    /// A schema of TensorFlow Metadata.
    SchemaFile {
        /// The file.
        file: String,
    },
    /// The records of some files, or of all.
    Records {
        /// How many files were looked into.
        looked_into: usize,
        /// How many files the table has.
        files: usize,
    },
}

/// Settles the columns: those declared, else those of the schema file, of the manifests, of a `schema.pbtxt` beside the
/// files, or of the records themselves. What is learned of files on the way is noted in `files`.
pub(super) async fn settle(
    session: &dyn Session,
    locations: &[Location],
    files: &mut TableFiles,
    options: &ReadOptions,
) -> Result<Types> {
    let names = files.listing.names().clone();
    let written = Written::of(&files.sets, &names)?;
    let mut inferred = false;
    let (schema, origin) = if let Some(declared) = &options.schema {
        (Arc::clone(declared), ColumnOrigin::Declared)
    } else if let Some(file) = &options.schema_file {
        let text = read_file(session, file).await?;
        (parse_pbtxt(file, &text)?, ColumnOrigin::SchemaFile { file: file.clone() })
    } else if is_raw(options) {
        (Arc::new(raw_records()), ColumnOrigin::Declared)
    } else if let Some(schema) = written.schema.clone().filter(|_| files.are_all_known()) {
        (schema, ColumnOrigin::Manifest)
    } else if let Some((file, text)) = beside(files.listing.store(), locations, files).await? {
        let file = names.name(&file);
        (parse_pbtxt(&file, &text)?, ColumnOrigin::SchemaFile { file })
    } else {
        let listing = &files.listing;
        let Inferred { schema, compressions } =
            infer(session, listing.store(), listing.files(), &names, options).await?;
        let all = listing.files().len();
        let looked_into = options.infer_files.map_or(all, |most| most.min(all));
        inferred = options.infer_records.is_some() || looked_into < all;
        for (known, compression) in files.known.iter_mut().zip(compressions) {
            if compression.is_some() {
                known.get_or_insert_default().compression = compression;
            }
        }
        (Arc::new(schema), ColumnOrigin::Records { looked_into, files: all })
    };
    if options.schema.is_none() {
        let file = |_| files.listing.file_names().next().unwrap_or_default();
        schema::check_path_columns(files.listing.partitions().fields(), std::slice::from_ref(&schema), file)?;
    }
    let mapping = match &options.mapping {
        Some(given) if is_raw(options) => given.clone(),
        Some(given) => over(written.mapping(&schema), given),
        None => written.mapping(&schema),
    };
    Ok(Types { schema, mapping, inferred, origin })
}

/// Whether records are to be taken as they are.
fn is_raw(options: &ReadOptions) -> bool {
    options.mapping.as_ref().is_some_and(|mapping| mapping.record_type == RecordType::Bytes)
}

/// What was written, but for what is said otherwise.
fn over(written: MappingOptions, given: &MappingOptions) -> MappingOptions {
    fn either<T: Clone + PartialEq>(written: T, given: &T, unsaid: &T) -> T {
        if given == unsaid { written } else { given.clone() }
    }
    let unsaid = MappingOptions::default();
    let mut mapping = written;
    mapping.record_type = either(mapping.record_type, &given.record_type, &unsaid.record_type);
    mapping.nulls = either(mapping.nulls, &given.nulls, &unsaid.nulls);
    mapping.separator = either(mapping.separator, &given.separator, &unsaid.separator);
    mapping.strict = given.strict;
    mapping.choices.extend(given.choices.clone());
    mapping.column_nulls.extend(given.column_nulls.clone());
    mapping.vocabularies.extend(given.vocabularies.clone());
    mapping.sequences.extend(given.sequences.iter().cloned());
    mapping
}

/// What the manifests say.
struct Written {
    /// The columns of all sets together, if every one of them tells its own.
    schema: Option<SchemaRef>,
    options: MappingOptions,
    columns: BTreeMap<String, Form>,
}

/// How a column was written.
struct Form {
    data_type: DataType,
    /// Those options that matter for it, and to readers.
    options: MappingOptions,
}

impl Form {
    fn new(field: &Field, options: &MappingOptions) -> Self {
        let name = field.name();
        let mut options = options.clone();
        let part = format!("{name}{}", options.separator);
        let is_said_of_it = |key: &str| key == name || key.starts_with(&part);
        options.choices.retain(|key, _| is_said_of_it(key));
        options.vocabularies.retain(|key, _| is_said_of_it(key));
        options.sequences.retain(|key| is_said_of_it(key));
        options.column_nulls.retain(|key, _| is_said_of_it(key));
        options.column_nulls.entry(name.clone()).or_insert(options.nulls.into());
        let has_nulls = field.is_nullable() || field.data_type().is_nested();
        let as_read = |rule: &NullRule| if has_nulls { as_read(rule.clone()) } else { NullRule::default() };
        options.column_nulls.values_mut().for_each(|rule| *rule = as_read(rule));
        options.nulls = NullPolicy::default();
        options.strict = false;
        Self { data_type: field.data_type().clone(), options }
    }
}

/// A rule with the same meaning to readers.
fn as_read(rule: NullRule) -> NullRule {
    match rule {
        NullRule::Policy(NullPolicy::Error | NullPolicy::Unset | NullPolicy::Drop) => NullPolicy::Absent.into(),
        other => other,
    }
}

impl Written {
    fn of(sets: &[Set], names: &FileNames) -> Result<Self> {
        let directory = |set: &Set| names.name(&set.directory);
        let mut schemas = Vec::with_capacity(sets.len());
        let mut columns = BTreeMap::new();
        let mut first: Option<(&Set, MappingOptions)> = None;
        for set in sets {
            let Some(schema) = set.manifest.arrow_schema().map_err(shards_error)? else { continue };
            let mapping = set.manifest.mapping_options().map_err(shards_error)?;
            for field in schema.fields() {
                let form = Form::new(field, &mapping);
                match (columns.entry(field.name().clone()), &first) {
                    (Entry::Vacant(entry), _) => {
                        entry.insert(form);
                    }
                    (Entry::Occupied(before), Some((first, _))) if before.get().options != form.options => {
                        let (column, first, second) = (field.name().clone(), directory(first), directory(set));
                        return Err(ErrorKind::FormConflict { column, first, second }.into());
                    }
                    _ => {}
                }
            }
            first.get_or_insert((set, mapping));
            schemas.push(schema);
        }
        let schema = match schemas.as_slice() {
            _ if schemas.len() < sets.len() => None,
            [] => None,
            [schema] => Some(Arc::clone(schema)),
            schemas => Some(schema::merge(schemas, |index| directory(&sets[index]))?),
        };
        let options = first.map(|(_, options)| options).unwrap_or_default();
        Ok(Self { schema, options, columns })
    }

    /// In which form the columns of `schema` stand: as they were written. A choice is one for a type, and holds where the
    /// column has the type that it had.
    fn mapping(&self, schema: &Schema) -> MappingOptions {
        let mut mapping = MappingOptions {
            choices: BTreeMap::new(),
            vocabularies: BTreeMap::new(),
            sequences: BTreeSet::new(),
            column_nulls: BTreeMap::new(),
            ..self.options.clone()
        };
        let everywhere = as_read(self.options.nulls.into());
        for field in schema.fields() {
            let Some(Form { data_type, options }) = self.columns.get(field.name()) else { continue };
            mapping.sequences.extend(options.sequences.iter().cloned());
            for (key, rule) in &options.column_nulls {
                if let Some(said) = self.options.column_nulls.get(key) {
                    mapping.column_nulls.insert(key.clone(), said.clone());
                } else if key != field.name() || *rule != everywhere {
                    mapping.column_nulls.insert(key.clone(), rule.clone());
                }
            }
            if field.data_type() == data_type {
                mapping.choices.extend(options.choices.clone());
                mapping.vocabularies.extend(options.vocabularies.clone());
            }
        }
        mapping
    }
}

/// The `schema.pbtxt` in the directory of the files, if they lie in one directory, or in the one that was named.
async fn beside(
    store: &Arc<dyn ObjectStore>,
    locations: &[Location],
    files: &TableFiles,
) -> Result<Option<(Path, bytes::Bytes)>> {
    let mut directories: Vec<Path> = files.listing.files().iter().filter_map(|file| file.location.parent()).collect();
    directories.dedup();
    let directory = match (directories.as_slice(), locations) {
        ([directory], _) => directory.clone(),
        (_, [location]) if !location.is_pattern() => location.prefix.clone(),
        _ => return Ok(None),
    };
    let path = directory.join(SCHEMA_NAME);
    match store.get(&path).await {
        Ok(got) => Ok(Some((path, got.bytes().await?))),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A file that was named, in whichever store.
async fn read_file(session: &dyn Session, file: &str) -> Result<bytes::Bytes> {
    let location = Location::parse(file)?;
    let (_, store) = store_of(session, std::slice::from_ref(&location))?;
    match store.get(&location.literal).await {
        Err(object_store::Error::NotFound { .. }) => {
            Err(directory::Error::from(directory::ErrorKind::NotFound { location: file.to_owned() }).into())
        }
        got => Ok(got?.bytes().await?),
    }
}

fn parse_pbtxt(file: &str, text: &[u8]) -> Result<SchemaRef> {
    let file = || file.to_owned();
    let text = std::str::from_utf8(text).map_err(|source| ErrorKind::SchemaText { file: file(), source })?;
    let schema = schema_from_pbtxt(text).map_err(|source| ErrorKind::SchemaFile { file: file(), source })?;
    Ok(Arc::new(schema))
}
