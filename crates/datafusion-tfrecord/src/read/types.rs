//! [`Types`]: the columns of a table, and in which form they stand in the records.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_tfrecord::{Choice, MappingOptions, NullPolicy, NullRule, RecordType};
use datafusion_common::Result;
use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tfrecord_shards::MANIFEST_NAME;
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
        /// How many records were looked at.
        records: u64,
        /// Whether these are all records of all files. If not, there may be features that are no columns.
        is_all: bool,
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
    let declared = options.schema.is_some() || options.schema_file.is_some();
    if !declared && !is_raw(options) {
        written.check_files(files)?;
    }
    let mut inferred = false;
    let (schema, origin) = if let Some(declared) = &options.schema {
        (Arc::clone(declared), ColumnOrigin::Declared)
    } else if let Some(file) = &options.schema_file {
        let text = read_file(session, file).await?;
        (parse_pbtxt(file, &text)?, ColumnOrigin::SchemaFile { file: file.clone() })
    } else if is_raw(options) {
        (Arc::new(raw_records()), ColumnOrigin::Declared)
    } else if let Some(schema) = written.schema.clone() {
        (schema, ColumnOrigin::Manifest)
    } else if let Some((file, text)) = beside(files.listing.store(), locations, files).await? {
        let file = names.name(&file);
        (parse_pbtxt(&file, &text)?, ColumnOrigin::SchemaFile { file })
    } else {
        let listing = &files.listing;
        let Inferred { schema, compressions, looked_into, records, is_all } =
            infer(session, listing.store(), listing.files(), &names, options).await?;
        inferred = !is_all;
        for (known, compression) in files.known.iter_mut().zip(compressions) {
            if compression.is_some() {
                known.get_or_insert_default().compression = compression;
            }
        }
        (Arc::new(schema), ColumnOrigin::Records { looked_into, files: files.known.len(), records, is_all })
    };
    // Declared columns may be those of the path; what the manifest says stands in the files.
    let in_files = if options.schema.is_some() { written.schema.as_ref() } else { Some(&schema) };
    let file = |_| files.listing.file_names().next().unwrap_or_default();
    schema::check_path_columns(files.listing.partitions().fields(), in_files.map_or(&[], std::slice::from_ref), file)?;
    let mapping = match &options.mapping {
        Some(given) if is_raw(options) => given.clone(),
        given => {
            let given = given.clone().unwrap_or_default();
            written.check_units(&schema, &given)?;
            over(written.mapping(&schema), &given)
        }
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
    /// The columns of each set that tells them, and its directory.
    sets: Vec<(Path, SchemaRef)>,
    names: FileNames,
    /// How each column was written.
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
        let mut told: Vec<(Path, SchemaRef)> = Vec::with_capacity(sets.len());
        let mut columns = BTreeMap::new();
        let mut first: Option<(&Set, MappingOptions)> = None;
        for set in sets {
            let manifest = names.name(&set.directory.clone().join(MANIFEST_NAME));
            let unreadable = |error: tfrecord_shards::Error| shards_error(error.with_path(manifest.as_ref()));
            let Some(schema) = set.manifest.arrow_schema().map_err(unreadable)? else { continue };
            let mapping = set.manifest.mapping_options().map_err(unreadable)?;
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
            if let Some((first, other)) = &first
                && (other.record_type, &other.separator) != (mapping.record_type, &mapping.separator)
            {
                let (first, second) = (directory(first), directory(set));
                let column = schema.fields().first().map(|field| field.name().clone()).unwrap_or_default();
                return Err(ErrorKind::FormConflict { column, first, second }.into());
            }
            first.get_or_insert((set, mapping));
            told.push((set.directory.clone(), schema));
        }
        let schemas: Vec<_> = told.iter().map(|(_, schema)| Arc::clone(schema)).collect();
        let schema = match schemas.as_slice() {
            _ if schemas.len() < sets.len() => None,
            [] => None,
            [schema] => Some(Arc::clone(schema)),
            schemas => Some(schema::merge(schemas, |index| directory(&sets[index]))?),
        };
        let options = first.map(|(_, options)| options).unwrap_or_default();
        Ok(Self { schema, options, sets: told, names: names.clone(), columns })
    }

    /// Refuses files of which no manifest tells the types, where one does of others: the values of both would not be told
    /// apart.
    fn check_files(&self, files: &TableFiles) -> Result<()> {
        let Some((first, _)) = self.sets.first() else { return Ok(()) };
        let tells = |directory: &Path| self.sets.iter().any(|(told, _)| told == directory);
        let is_told = |set: &Option<usize>| set.is_some_and(|set| tells(&files.sets[set].directory));
        let Some(stray) = files.listed.iter().position(|set| !is_told(set)) else { return Ok(()) };
        let stray = &files.listing.files()[stray].location;
        let beside = stray.parent().filter(tells);
        let (file, directory) = (self.names.name(stray), self.names.name(beside.as_ref().unwrap_or(first)));
        Err(ErrorKind::StrayFile { file, directory }.into())
    }

    /// Refuses a column that would be misread: of dates, times, timestamps or durations in another unit than the one in which
    /// it was written, since records hold plain numbers; or nested in another way, since its features have other names. Not where another form is `given`.
    fn check_units(&self, declared: &Schema, given: &MappingOptions) -> Result<()> {
        for (directory, written) in &self.sets {
            for field in declared.fields().iter().filter(|field| !given.choices.contains_key(field.name())) {
                let Some((_, written)) = written.column_with_name(field.name()) else { continue };
                let form = self.columns.get(field.name()).map(|form| &form.options);
                if form.is_some_and(|form| form.choices.get(field.name()) == Some(&Choice::Tensor)) {
                    continue;
                }
                let (declared, found) = (field.data_type(), written.data_type());
                // What is chosen for a part is kept or left for the whole column.
                let has_parts = is_nested(found) && form.is_some_and(|form| !form.choices.is_empty());
                if !fits(declared, found) || (has_parts && !is_same_shape(declared, found)) {
                    return Err(ErrorKind::DeclaredUnit {
                        directory: self.names.name(directory),
                        column: field.name().clone(),
                        written: written.data_type().clone(),
                        declared: field.data_type().clone(),
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    /// In which form the columns of `schema` stand: as they were written. A choice is one for a type, and holds where the
    /// values have the type that they had.
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
            if is_same_shape(field.data_type(), data_type) {
                mapping.choices.extend(options.choices.clone());
                mapping.vocabularies.extend(options.vocabularies.clone());
            }
        }
        mapping
    }
}

/// The type of a column's values, however they are encoded; lists of a fixed size in each other are one list.
fn plain(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        DataType::FixedSizeList(item, _) if matches!(item.data_type(), DataType::FixedSizeList(..)) => {
            plain(item.data_type())
        }
        other => other,
    }
}

/// The items of a list.
fn item(data_type: &DataType) -> Option<&DataType> {
    match plain(data_type) {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(plain(item.data_type())),
        _ => None,
    }
}

/// Whether a column has several features.
fn is_nested(data_type: &DataType) -> bool {
    let is_group = |data_type: &DataType| matches!(data_type, DataType::Struct(_) | DataType::Map(..));
    is_group(plain(data_type)) || item(data_type).is_some_and(|of| is_group(of) || item(of).is_some())
}

/// Whether every declared part is where it was written, in the unit in which it was written.
fn fits(declared: &DataType, written: &DataType) -> bool {
    compare(declared, written, &|declared, written| {
        !(declared.is_temporal() && written.is_temporal()) || is_same_form(declared, written)
    })
}

/// Whether every declared part is where it was written, and the same bytes in a record are the same value in it.
fn is_same_shape(declared: &DataType, written: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    compare(declared, written, &|declared, written| {
        is_same_form(declared, written)
            || matches!((declared, written), (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View))
            || matches!((declared, written), (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView))
    })
}

/// Compares types value by value. A list and a single value stand in a record alike.
fn compare(declared: &DataType, written: &DataType, values: &dyn Fn(&DataType, &DataType) -> bool) -> bool {
    let (declared, written) = (plain(declared), plain(written));
    match (declared, written) {
        (DataType::Struct(declared), DataType::Struct(written)) => declared.iter().all(|field| {
            let found = written.find(field.name());
            found.is_some_and(|(_, found)| compare(field.data_type(), found.data_type(), values))
        }),
        (DataType::Map(declared, _), DataType::Map(written, _)) => match (declared.data_type(), written.data_type()) {
            (DataType::Struct(declared), DataType::Struct(written)) => {
                let mut parts = declared.iter().zip(written);
                parts.all(|(declared, written)| compare(declared.data_type(), written.data_type(), values))
            }
            _ => false,
        },
        (DataType::Struct(_) | DataType::Map(..), _) | (_, DataType::Struct(_) | DataType::Map(..)) => false,
        _ => match (item(declared), item(written)) {
            (Some(declared), Some(written)) => {
                item(declared).is_some() == item(written).is_some() && compare(declared, written, values)
            }
            (Some(of), None) => !is_nested(declared) && values(of, written),
            (None, Some(of)) => !is_nested(written) && values(declared, of),
            (None, None) => values(declared, written),
        },
    }
}

/// Whether the same number in a record is the same value in both types.
fn is_same_form(one: &DataType, other: &DataType) -> bool {
    let scale = |data_type: &DataType| match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    };
    match (one, other) {
        // The zone is for show: numbers are in UTC.
        (DataType::Timestamp(one, _), DataType::Timestamp(other, _)) => one == other,
        (DataType::Time32(one) | DataType::Time64(one), DataType::Time32(other) | DataType::Time64(other)) => {
            one == other
        }
        _ => one == other || scale(one).is_some_and(|one| Some(one) == scale(other)),
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
