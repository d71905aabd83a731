//! Opens tables: detects the format of the files and builds the table that the user specified.

mod factory;
mod planned;

use std::sync::Arc;

use arrow_schema::{FieldRef, Schema, SchemaRef};
use datafusion_catalog::TableProvider;
use datafusion_common::{DataFusionError, internal_err, plan_datafusion_err, plan_err};
use datafusion_datasource::file_format::FileFormat;
use datafusion_session::Session;
use datafusion_tfrecord::ReadOptions;
use datafusion_tfrecord::read::{self, PlannedRecords};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use tfr_arrow::common_type::LeafRule;
use tfr_files::Findings;
use tfr_files::memory::ReadBounds;
use tfr_files::planned::PlannedTables;
use tfr_files::{DirectoryTable, Listing, OwnedFiles, TableFormat, named_compression};
use tfr_stores::{Location, LocationText};
use tfrecord_framing::Container;

use crate::csv::CsvFormat;
use crate::detect::{detect, text_of};
use crate::error::{ErrorKind, Result, TableError};
use crate::hive_acid::Opened;
use crate::input_format::InputFormat;
use crate::names::ColumnNames;
use crate::options::InputOptions;
use crate::parquet::{self, PlannedParquet};
use crate::piped::PipedFiles;
use crate::spec::TableSpec;
use crate::text::Encoding;
use crate::{arrow, avro, delta, hive_acid, hive_text, hugging_face, iceberg, json, libsvm, orc};
use tfr_files::scan::{FileReader, ReaderFormat};

pub use factory::{STORED_AS, table_factory};
use planned::{PlannedFormat, PlannedLake, open_planned};

/// Opens the table that `spec` describes.
///
/// # Errors
/// A location is missing, empty or of an unsupported format; an option belongs to another format; or files disagree.
pub async fn open_table(session: &dyn Session, spec: &TableSpec) -> Result<Arc<DirectoryTable>, DataFusionError> {
    let table = open_locations(session, &spec.locations, &spec.options, None).await?;
    check_partitions(&spec.options, &table)?;
    Ok(table)
}

/// Opens the files at `locations` as one table, with the given columns or those of the files.
///
/// The first file determines the format. Every reader of a binary format rejects files of another format. Text files
/// must be of one format. That is determined by their names or, if an extension is not conclusive, by their content:
/// the first 4 KiB, unpacked, of up to 32 files. These include the first, the last and others spaced evenly between
/// them.
///
/// # Errors
/// As [`open_table`].
pub async fn open_locations(
    session: &dyn Session,
    locations: &[LocationText],
    options: &InputOptions,
    schema: Option<SchemaRef>,
) -> Result<Arc<DirectoryTable>, DataFusionError> {
    let tables = PlannedTables::of(session.config());
    let key = tables.as_ref().map(|tables| tables.next_key(locations)).unwrap_or_default();
    let parsed = locations.iter().map(|text| Location::parse(text.with_secrets()));
    let locations = parsed.collect::<Result<Vec<_>, _>>().map_err(tfr_files::Error::from)?;
    if let Some(tables) = &tables
        && let Some(table) = tables.table(&key)
    {
        let table = open_planned(session, &locations, options, schema, table).await?;
        return Ok(Arc::new(table.replaying(Arc::clone(tables), key)));
    }
    let recording = tables.filter(|tables| tables.records()).map(|tables| (tables, key));
    if let Some(format @ (InputFormat::Delta | InputFormat::Iceberg)) = options.format {
        return open_lake(session, &locations, options, schema, format, recording).await;
    }
    if options.write_ids.is_some() {
        return match locations.as_slice() {
            [location] if !location.is_pattern() => {
                let table = open_transactional(session, location, options, schema).await?;
                table.ok_or_else(|| plan_datafusion_err!("{location}: no committed write ids"))
            }
            _ => plan_err!("a transactional table is in one directory, which no pattern names"),
        };
    }
    if options.format.is_none()
        && let [location] = locations.as_slice()
        && iceberg::is_metadata_file(session, location).await?
    {
        return open_lake(session, &locations, options, schema, InputFormat::Iceberg, recording).await;
    }
    let owned = if options.bare_files { OwnedFiles::Report } else { OwnedFiles::Refuse };
    let listing = Listing::list_with(session, &locations, owned).await;
    let lake = match &listing {
        Err(error) if options.format.is_none() => lake_format(session, &locations, error).await?,
        _ => None,
    };
    if let Some(format) = lake {
        return open_lake(session, &locations, options, schema, format, recording).await;
    }
    if let (Err(error), [location]) = (&listing, locations.as_slice())
        && let tfr_files::ErrorKind::OwnedByTable { owner, .. } = error.kind()
        && owner.format == TableFormat::HiveAcid
        && !location.is_pattern()
        && let Some(table) = open_transactional(session, location, options, schema.clone()).await?
    {
        return Ok(table);
    }
    let listing = match listing {
        // A shard set without rows.
        Err(error) if matches!(error.kind(), tfr_files::ErrorKind::Empty { .. }) => {
            if read::is_set(session, &locations).await? {
                return open_records(session, &locations, options, schema, recording).await;
            }
            let declared =
                schema.or_else(|| options.hive_text.columns.as_ref().map(|columns| Arc::new(columns.schema())));
            return match (declared, error.kind()) {
                (Some(declared), tfr_files::ErrorKind::Empty { skipped, .. }) if skipped.is_without_rows() => {
                    without_rows(session, &locations, options, &declared)
                }
                _ => Err(error.into()),
            };
        }
        listing => listing?,
    };
    if let (None, false, [location]) = (options.format, options.bare_files, locations.as_slice()) {
        iceberg::check_not_metadata(location, listing.files())?;
    }
    let split = options.tfrecord.split.as_deref();
    let (listing, is_data_set) = match options.format {
        None | Some(InputFormat::Arrow) => match hugging_face::files(session, &locations, &listing, split).await? {
            Some(files) => (files, true),
            None => (listing, false),
        },
        Some(_) => (listing, false),
    };
    if let Some(error) = empty_compressed(&listing, options)
        && !read::is_set(session, &locations).await?
    {
        return Err(error.into());
    }
    open_listing(session, &locations, listing, is_data_set, options, schema, recording).await
}

/// Opens files that were listed, with the given columns or those of the files. `is_data_set` says that they are those of
/// the split of a data set that the options name. `recording` is where what is found out about the table is
/// recorded.
pub(crate) async fn open_listing(
    session: &dyn Session,
    locations: &[Location],
    listing: Listing,
    is_data_set: bool,
    options: &InputOptions,
    schema: Option<SchemaRef>,
    recording: Option<Recording>,
) -> Result<Arc<DirectoryTable>, DataFusionError> {
    let split = options.tfrecord.split.as_deref();
    warn_of_owners(&listing);
    check_finished(session, &listing)?;
    let typed = options.partitions.iter().flat_map(|typed| typed.fields()).map(|field| field.name().as_str());
    let listing = listing.with_partition_names(typed.chain(options.partition_names.iter().map(String::as_str)));
    let declared = schema.iter().chain(&options.partitions);
    let listing = declared.cloned().try_fold(listing, |listing, declared| listing.with_partition_types(&declared))?;
    let found = format_of(session, &listing, options).await?;
    let schema = declared_columns(options, found, schema, &listing)?;
    let columns = ColumnNames::new(options.names, schema.as_ref(), listing.partitions().fields());
    if schema.is_some() && options.types.is_some() {
        return plan_err!("the columns are declared twice: by the statement and by its option types");
    }
    let (table, opened) = match found {
        InputFormat::TfRecord | InputFormat::ArrayRecord => {
            return open_records(session, locations, options, schema, recording).await;
        }
        InputFormat::Delta | InputFormat::Iceberg => {
            return open_lake(session, locations, options, schema, found, recording).await;
        }
        InputFormat::Csv => {
            let format = csv_format(session, &listing, options, columns, schema.is_some());
            let schema = match schema {
                Some(schema) => schema,
                None => infer_csv(session, &listing, &format).await?,
            };
            let format = Arc::new(ReaderFormat::new(format));
            (DirectoryTable::with_schema(listing, format, &schema), Some(PlannedFormat::Reader(found)))
        }
        InputFormat::Json => {
            let (table, newlines_in_values) = json::open(session, listing, &options.json, columns, schema).await?;
            (table, Some(PlannedFormat::Json { newlines_in_values }))
        }
        InputFormat::HiveText => {
            let format = reader_format(session, &listing, found, options, columns, schema.as_ref())?;
            (open_hive_text(session, listing, format, schema).await?, Some(PlannedFormat::Reader(found)))
        }
        InputFormat::Parquet | InputFormat::Avro | InputFormat::Arrow | InputFormat::Orc | InputFormat::LibSvm => {
            let (format, planned) = match found {
                InputFormat::Parquet => {
                    let (parquet, calendar) = (&options.parquet, options.calendar.clone());
                    let declared = schema.clone();
                    let format = parquet::format(session, &listing, parquet, calendar, columns, declared, None).await?;
                    let planned = PlannedParquet::of(&format).cloned().map(PlannedFormat::Parquet);
                    (format, planned)
                }
                InputFormat::Arrow if split.is_some() && !is_data_set => {
                    let table = listing.locations().join(", ");
                    let problem = format!("no split {:?}; it has no splits", split.unwrap_or_default());
                    return Err(crate::Error::from(TableError::unusable(table, problem)).into());
                }
                InputFormat::Orc if options.orc.by_position && schema.is_none() => {
                    return plan_err!("the columns are found by position, but none are declared");
                }
                _ => {
                    let format = reader_format(session, &listing, found, options, columns, schema.as_ref())?;
                    (format, Some(PlannedFormat::Reader(found)))
                }
            };
            let table = match schema {
                Some(schema) => {
                    DirectoryTable::try_declared(session, listing, format, &schema, options.absent_is_null).await?
                }
                None => {
                    let rule: LeafRule = if found == InputFormat::Avro { avro::promoted } else { |_, _| None };
                    DirectoryTable::try_merged(session, listing, format, options.types.as_deref(), rule).await?
                }
            };
            (table, planned)
        }
    };
    Ok(Arc::new(recorded(table, recording, opened)?))
}

/// Where a table is recorded that a session opens, and its key.
pub(crate) type Recording = (Arc<PlannedTables>, String);

/// Records what was found out about a table, if it is to be recorded and a plan can keep it.
fn recorded(
    table: DirectoryTable,
    recording: Option<Recording>,
    opened: Option<PlannedFormat>,
) -> Result<DirectoryTable, DataFusionError> {
    let (Some((tables, key)), Some(opened)) = (recording, opened) else { return Ok(table) };
    let opened = serde_json::to_value(opened).map_err(|error| DataFusionError::External(error.into()))?;
    Ok(table.recorded(tables, key, opened))
}

fn csv_format(
    session: &dyn Session,
    listing: &Listing,
    options: &InputOptions,
    columns: ColumnNames,
    is_declared: bool,
) -> CsvFormat {
    CsvFormat::new(options.csv.clone(), listing.names().clone(), columns)
        .within(ReadBounds::of(session))
        .with_declared(is_declared)
}

/// Returns the format of files that are opened one by one, each of which shows all that its reader must know.
fn reader_format(
    session: &dyn Session,
    listing: &Listing,
    found: InputFormat,
    options: &InputOptions,
    columns: ColumnNames,
    declared: Option<&SchemaRef>,
) -> Result<Arc<dyn FileFormat>, DataFusionError> {
    let names = listing.names().clone();
    let calendar = options.calendar.clone();
    Ok(match found {
        InputFormat::Csv => {
            Arc::new(ReaderFormat::new(csv_format(session, listing, options, columns, declared.is_some())))
        }
        InputFormat::Avro => avro::format(session, names, columns, calendar),
        InputFormat::Arrow => {
            let piped = PipedFiles::of(session.config());
            let is_piped = |file: &ObjectMeta| piped.as_ref().is_some_and(|piped| piped.contains(&file.location));
            let needs_end = listing.files().iter().any(is_piped);
            arrow::format(names, columns, needs_end)
        }
        InputFormat::Orc => orc::format(names, &options.orc, calendar, columns, Findings::of(session.config())),
        InputFormat::HiveText => hive_text::format(options.hive_text.clone(), names),
        InputFormat::LibSvm => libsvm::format(options.libsvm.clone(), names, declared.map(AsRef::as_ref))?,
        _ => return internal_err!("files of {found} have no reader of their own"),
    })
}

/// Returns the declared columns: those of the statement, or those of the option `schema`.
fn declared_columns(
    options: &InputOptions,
    found: InputFormat,
    schema: Option<SchemaRef>,
    listing: &Listing,
) -> Result<Option<SchemaRef>, DataFusionError> {
    // There the option is a file.
    let Some(columns) = options.hive_text.columns.as_ref().filter(|_| !found.is_records()) else {
        return Ok(schema);
    };
    if schema.is_some() {
        return plan_err!("the columns are declared twice: by the statement and by its option schema");
    }
    let declared = columns.schema();
    // Cells would be mistaken for those of the next column.
    let mut path = listing.partitions().fields().iter();
    if let Some(field) = path.find(|field| declared.column_with_name(field.name()).is_some()) {
        let (file, column) = (listing.file_names().next().unwrap_or_default(), field.name().clone());
        return Err(tfr_files::Error::from(tfr_files::ErrorKind::ColumnInPath { file, column }).into());
    }
    Ok(Some(Arc::new(declared)))
}

/// Returns the format of the table in the directory at the location, after its files were refused as those of one.
async fn lake_format(
    session: &dyn Session,
    locations: &[Location],
    error: &tfr_files::Error,
) -> Result<Option<InputFormat>, DataFusionError> {
    let (tfr_files::ErrorKind::OwnedByTable { owner, .. }, [location]) = (error.kind(), locations) else {
        return Ok(None);
    };
    let (format, is_table) = match owner.format {
        TableFormat::Delta => (InputFormat::Delta, delta::is_table(session, location).await?),
        TableFormat::Iceberg => (InputFormat::Iceberg, iceberg::is_table(session, location).await?),
        _ => return Ok(None),
    };
    Ok(is_table.then_some(format))
}

/// Opens a transactional table of Hive. `None` if it needs write ids, and none are given.
async fn open_transactional(
    session: &dyn Session,
    location: &Location,
    options: &InputOptions,
    schema: Option<SchemaRef>,
) -> Result<Option<Arc<DirectoryTable>>, DataFusionError> {
    Ok(match hive_acid::open(session, location, options, schema.clone()).await? {
        Some(Opened::Table(table)) => Some(table),
        Some(Opened::Files(listing)) => {
            let locations = std::slice::from_ref(location);
            Some(open_listing(session, locations, *listing, false, options, schema, None).await?)
        }
        None => None,
    })
}

/// Opens a table whose metadata determines its files and its columns.
async fn open_lake(
    session: &dyn Session,
    locations: &[Location],
    options: &InputOptions,
    schema: Option<SchemaRef>,
    format: InputFormat,
    recording: Option<Recording>,
) -> Result<Arc<DirectoryTable>, DataFusionError> {
    let [location] = locations else {
        return plan_err!("a table of {format} is in one directory, not in {}", locations.len());
    };
    if location.is_pattern() {
        return plan_err!("a table of {format} is in one directory, but {location} is a pattern");
    }
    if let Some((key, formats)) = options.foreign_to(format) {
        let (file, key, formats) = (location.to_string(), key.to_owned(), formats.to_vec());
        return Err(
            crate::Error::from(ErrorKind::OptionForOtherFormat { file, key, formats, found: format.name() }).into()
        );
    }
    if schema.is_some() || options.partitions.is_some() || !options.partition_names.is_empty() {
        return plan_err!("the columns of a table of {format} are in its metadata, and cannot be declared");
    }
    let calendar = options.calendar.clone();
    let table = match format {
        InputFormat::Iceberg => iceberg::open(session, location, &options.iceberg, calendar).await?,
        _ => delta::open(session, location, &options.delta, calendar).await?,
    };
    let planned = recording.is_some().then(|| PlannedLake::of(&table)).flatten().map(PlannedFormat::Table);
    Ok(Arc::new(recorded(table, recording, planned)?))
}

/// Opens TFRecord files that were already listed, so that the tables that own them are detected.
async fn open_records(
    session: &dyn Session,
    locations: &[Location],
    options: &InputOptions,
    schema: Option<SchemaRef>,
    recording: Option<Recording>,
) -> Result<Arc<DirectoryTable>, DataFusionError> {
    let table = read::open(session, locations, &record_options(options, schema)).await?;
    if recording.is_none() {
        return Ok(table);
    }
    let planned = PlannedRecords::of(table.format().as_ref()).map(PlannedFormat::Records);
    Ok(Arc::new(recorded(Arc::unwrap_or_clone(table), recording, planned)?))
}

/// Returns how records are read.
fn record_options(options: &InputOptions, schema: Option<SchemaRef>) -> ReadOptions {
    let (types, partition_types) = (options.types.clone(), options.partitions.clone());
    let owned = if options.bare_files { OwnedFiles::Report } else { OwnedFiles::Ignore };
    // Whoever names the format wants the features of the records.
    let features_file = options.format.is_none();
    let container = match options.format {
        Some(InputFormat::ArrayRecord) => Some(Container::ArrayRecord),
        _ => options.tfrecord.container,
    };
    ReadOptions { schema, types, partition_types, owned, features_file, container, ..options.tfrecord.clone() }
}

/// A table with declared columns whose files are all empty.
fn without_rows(
    session: &dyn Session,
    locations: &[Location],
    options: &InputOptions,
    declared: &Schema,
) -> Result<Arc<DirectoryTable>, DataFusionError> {
    let listing = Listing::empty(session, locations, options.partitions.as_deref())?;
    log::warn!("{}: all files are empty (0 bytes), so the table has no rows", listing.locations().join(", "));
    // It never reads anything.
    let format = CsvFormat::new(options.csv.clone(), listing.names().clone(), ColumnNames::default());
    Ok(Arc::new(DirectoryTable::with_schema(listing, Arc::new(ReaderFormat::new(format)), declared)))
}

/// Returns the error for an empty file with the name of a compressed one: it was cut off. The reader of TFRecord detects
/// these itself, since only it knows whether a file is one of its set.
fn empty_compressed(listing: &Listing, options: &InputOptions) -> Option<crate::Error> {
    let is_records =
        |name: &str| options.format.or_else(|| InputFormat::of_file_name(name)).is_some_and(InputFormat::is_records);
    // The option is one of all text formats.
    if options.csv.compression.is_some() {
        return None;
    }
    let empty = listing.files().iter().zip(listing.file_names()).filter(|(file, _)| file.size == 0);
    empty.filter(|(_, name)| !is_records(name)).find_map(|(meta, file)| {
        let codec = named_compression(meta.location.filename()?)?;
        Some(ErrorKind::NotCompressed { file, codec, found: "an empty file".to_owned() }.into())
    })
}

/// Warns once about files that are read although they belong to a table format.
fn warn_of_owners(listing: &Listing) {
    let Some((first, others)) = listing.owners().split_first() else { return };
    let others = match others.len() {
        0 => String::new(),
        1 => ", and those of another one".to_owned(),
        count => format!(", and those of {count} others"),
    };
    log::warn!(
        "{}: reading the files of {} as they are{others}: deleted, replaced and uncommitted rows may be among them",
        first.directory,
        first.format.table()
    );
}

/// Warns of directories that another tool's job has not finished, so that files may be missing. With `--strict` that is
/// an error.
fn check_finished(session: &dyn Session, listing: &Listing) -> Result<(), tfr_files::Error> {
    let is_strict = Findings::of(session.config()).is_some_and(|findings| findings.is_strict());
    for directory in listing.unfinished() {
        let error = tfr_files::Error::from(tfr_files::ErrorKind::Unfinished { directory: directory.clone() });
        if is_strict {
            return Err(error);
        }
        log::warn!("{error}");
    }
    Ok(())
}

/// Cells map to columns by position. The files are inspected only if no columns were declared.
async fn open_hive_text(
    session: &dyn Session,
    listing: Listing,
    format: Arc<dyn FileFormat>,
    declared: Option<SchemaRef>,
) -> Result<DirectoryTable, DataFusionError> {
    if let Some(declared) = declared {
        return Ok(DirectoryTable::with_schema(listing, format, &declared));
    }
    let file = listing.file_names().next().unwrap_or_default();
    let table = DirectoryTable::try_new(session, listing, format).await?;
    match table.schema().fields().len() == table.listing().partitions().fields().len() {
        true => Err(crate::Error::from(ErrorKind::NoColumns { file }).into()),
        false => Ok(table),
    }
}

/// Infers the columns of all files together: a column with integers in one file and fractions in another is float64.
async fn infer_csv(session: &dyn Session, listing: &Listing, format: &CsvFormat) -> Result<SchemaRef, DataFusionError> {
    let schema = format.schema(session, listing.store(), listing.files()).await?;
    let in_path = |schema: &SchemaRef| {
        let path = listing.partitions().fields().iter();
        path.map(|field| field.name()).find(|name| schema.column_with_name(name).is_some()).cloned()
    };
    if in_path(&schema).is_none() {
        return Ok(schema);
    }
    for (meta, file) in listing.files().iter().zip(listing.file_names()) {
        let of_file = format.schema(session, listing.store(), std::slice::from_ref(meta)).await?;
        if let Some(column) = in_path(&of_file) {
            return Err(tfr_files::Error::from(tfr_files::ErrorKind::ColumnInPath { file, column }).into());
        }
    }
    Ok(schema)
}

/// Maximum number of files with inconclusive names whose content is probed for its text format.
const MAX_TEXT_PROBES: usize = 32;

/// Detects the format from the first file; the readers reject files of another format.
///
/// Readers of text formats would accept one another's files. So all texts must be of one format, unless the format was
/// specified. It is determined by the names, or if these are inconclusive, by the first 4 KiB (unpacked) of up to 32
/// evenly spaced files. If options determine the format against the content, only names are compared.
async fn format_of(session: &dyn Session, listing: &Listing, options: &InputOptions) -> Result<InputFormat> {
    let Some((file, name)) = listing.files().iter().zip(listing.file_names()).next() else {
        return Ok(options.format.unwrap_or(InputFormat::Csv));
    };
    let found =
        match detect(listing.store(), file, &name, options.format, options.csv.encoding == Encoding::Utf8).await? {
            // The options say that the file only looks like libsvm.
            InputFormat::LibSvm
                if InputFormat::of_file_name(&name).is_none() && options.foreign_to(InputFormat::LibSvm).is_some() =>
            {
                InputFormat::Csv
            }
            found => found,
        };
    let format = match options.format {
        // If the name is conclusive, no option overrides it.
        None if found.is_text() && InputFormat::of_file_name(&name).is_none() => options.text_format(found),
        _ => found,
    };
    if format.is_text()
        && options.format.is_none()
        && let Some((file, found)) = other_text(session, listing, format, format == found).await?
    {
        let (by_name, found, format) = (InputFormat::of_file_name(&file).is_some(), found.name(), format.name());
        return Err(ErrorKind::SeveralFormats { file, found, by_name, first: name, format }.into());
    }
    match options.foreign_to(format) {
        Some((key, formats)) => {
            let (key, formats, found) = (key.to_owned(), formats.to_vec(), format.name());
            Err(ErrorKind::OptionForOtherFormat { file: name, key, formats, found }.into())
        }
        None => Ok(format),
    }
}

/// Returns a file whose text format is not `format`, by its name or, with `probes_content`, by its first bytes.
async fn other_text(
    session: &dyn Session,
    listing: &Listing,
    format: InputFormat,
    probes_content: bool,
) -> Result<Option<(String, InputFormat)>> {
    use InputFormat::{Csv, HiveText, Json, LibSvm};
    let files = || listing.files().iter().zip(listing.file_names());
    let named = files().filter_map(|(_, name)| Some((InputFormat::of_file_name(&name)?, name)));
    if let Some((found, name)) = named.into_iter().find(|(named, _)| named.is_text() && *named != format) {
        return Ok(Some((name, found)));
    }
    let unnamed =
        &files().filter(|(_, name)| probes_content && InputFormat::of_file_name(name).is_none()).collect::<Vec<_>>();
    let count = unnamed.len().min(MAX_TEXT_PROBES);
    // The first and the last file are included.
    let spaced = (0..count).map(|index| index * (unnamed.len() - 1) / (count - 1).max(1));
    let probe = |index: usize| async move {
        let (meta, name) = &unnamed[index];
        Ok::<_, crate::Error>(text_of(listing.store(), meta, name).await?.map(|found| (name, found)))
    };
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let probes: Vec<_> = spaced.map(probe).collect();
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    let found: Vec<_> = futures::stream::iter(probes).buffered(concurrency).try_collect().await?;
    // A line of Hive text may have one cell, and libsvm resembles any text.
    let is_other = |found: InputFormat| match found {
        Json => format != Json,
        HiveText => matches!(format, Csv | Json),
        Csv | LibSvm => format == Json,
        _ => false,
    };
    let other = found.into_iter().flatten().find(|(_, found)| is_other(*found));
    Ok(other.map(|(name, found)| (name.clone(), found)))
}

/// Requires that partition columns with declared types exist.
fn check_partitions(options: &InputOptions, table: &DirectoryTable) -> Result<()> {
    let found = table.listing().partitions().fields();
    let is_absent = |field: &&FieldRef| !found.iter().any(|found| found.name() == field.name());
    let declared = options.partitions.iter().flat_map(|schema| schema.fields());
    match declared.clone().find(is_absent) {
        Some(field) => {
            let found: Vec<_> = found.iter().map(|field| field.name().as_str()).collect();
            Err(crate::Error::not_in_path(field.name(), &found))
        }
        None => Ok(()),
    }
}
