//! From what the user wrote to a table.

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion_catalog::{TableProvider, TableProviderFactory};
use datafusion_common::{DataFusionError, plan_err};
use datafusion_datasource::file_format::FileFormat;
use datafusion_expr::CreateExternalTable;
use datafusion_session::Session;
use datafusion_tfrecord::directory::{self, DirectoryTable, Listing, Location};
use datafusion_tfrecord::{ReadOptions, read};

use crate::csv::CsvFormat;
use crate::detect::{InputFormat, by_name, detect};
use crate::error::{ErrorKind, Result};
use crate::names::ColumnNames;
use crate::options::InputOptions;
use crate::parquet;
use crate::spec::TableSpec;
use crate::{arrow, avro, hive_text, json, libsvm, orc};

/// Opens the table that `spec` describes.
///
/// # Errors
/// A location is missing, empty or of a format that is not read; an option is for another format; files disagree.
pub async fn open_table(session: &dyn Session, spec: &TableSpec) -> Result<Arc<DirectoryTable>, DataFusionError> {
    open_locations(session, &spec.locations, &spec.options, None).await
}

/// Opens the files at `locations` as one table, with the given columns or those that the files hold.
///
/// # Errors
/// As [`open_table`].
pub async fn open_locations(
    session: &dyn Session,
    locations: &[String],
    options: &InputOptions,
    schema: Option<SchemaRef>,
) -> Result<Arc<DirectoryTable>, DataFusionError> {
    let locations = locations.iter().map(|text| Location::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let listing = Listing::list(session, &locations).await;
    let listing = match listing {
        // A set of shards without rows.
        Err(error) if matches!(error.kind(), directory::ErrorKind::Empty { .. }) => {
            if !read::is_set(session, &locations).await? {
                return Err(error.into());
            }
            return open_records(session, &locations, options, schema).await;
        }
        listing => listing?,
    };
    let names = listing.names().clone();
    let columns = ColumnNames::new(options.names, schema.as_ref(), listing.partitions().fields());
    let format = match format_of(&listing, options).await? {
        InputFormat::TfRecord => return open_records(session, &locations, options, schema).await,
        InputFormat::Csv => {
            let format = CsvFormat::new(options.csv.clone(), names).with_declared(schema.is_some());
            let schema = match schema {
                Some(schema) => schema,
                None => infer_csv(session, &listing, &format).await?,
            };
            return Ok(Arc::new(DirectoryTable::with_schema(listing, Arc::new(format), &schema)));
        }
        InputFormat::Json => return Ok(Arc::new(json::open(session, listing, &options.json, schema).await?)),
        InputFormat::Parquet => parquet::format(session, names, columns),
        InputFormat::Avro => avro::format(names),
        InputFormat::Arrow => arrow::format(names),
        InputFormat::Orc => orc::format(names, &options.orc, columns),
        InputFormat::HiveText => {
            let declared = options.hive_text.columns.as_ref().map(|columns| Arc::new(columns.schema()));
            if let Some(declared) = &declared {
                if schema.is_some() {
                    return plan_err!("the columns are declared twice: by the statement and by its option schema");
                }
                // Its cells would be taken for those of the next column.
                let mut path = listing.partitions().fields().iter();
                if let Some(field) = path.find(|field| declared.column_with_name(field.name()).is_some()) {
                    let (file, column) = (listing.file_names().next().unwrap_or_default(), field.name().clone());
                    return Err(directory::Error::from(directory::ErrorKind::ColumnInPath { file, column }).into());
                }
            }
            let format = hive_text::format(options.hive_text.clone(), names);
            return open_hive_text(session, listing, format, schema.or(declared)).await;
        }
        InputFormat::LibSvm => libsvm::format(options.libsvm.clone(), names, schema.is_some())?,
    };
    let table = match schema {
        Some(schema) => DirectoryTable::try_declared(session, listing, format, &schema).await?,
        None => DirectoryTable::try_new(session, listing, format).await?,
    };
    Ok(Arc::new(table))
}

async fn open_records(
    session: &dyn Session,
    locations: &[Location],
    options: &InputOptions,
    schema: Option<SchemaRef>,
) -> Result<Arc<DirectoryTable>, DataFusionError> {
    read::open(session, locations, &ReadOptions { schema, ..options.tfrecord.clone() }).await
}

/// Columns are cells by their position; only those that were not declared are looked for in the files.
async fn open_hive_text(
    session: &dyn Session,
    listing: Listing,
    format: Arc<dyn FileFormat>,
    declared: Option<SchemaRef>,
) -> Result<Arc<DirectoryTable>, DataFusionError> {
    if let Some(declared) = declared {
        return Ok(Arc::new(DirectoryTable::with_schema(listing, format, &declared)));
    }
    let file = listing.file_names().next().unwrap_or_default();
    let table = DirectoryTable::try_new(session, listing, format).await?;
    match table.schema().fields().len() == table.listing().partitions().fields().len() {
        true => Err(crate::Error::from(ErrorKind::NoColumns { file }).into()),
        false => Ok(Arc::new(table)),
    }
}

/// The columns of all files together: a column of integers here and of fractions there holds fractions.
async fn infer_csv(session: &dyn Session, listing: &Listing, format: &CsvFormat) -> Result<SchemaRef, DataFusionError> {
    let schema = format.infer_schema(session, listing.store(), listing.files()).await?;
    let in_path = |schema: &SchemaRef| {
        let path = listing.partitions().fields().iter();
        path.map(|field| field.name()).find(|name| schema.column_with_name(name).is_some()).cloned()
    };
    if in_path(&schema).is_none() {
        return Ok(schema);
    }
    for (meta, file) in listing.files().iter().zip(listing.file_names()) {
        let of_file = format.infer_schema(session, listing.store(), std::slice::from_ref(meta)).await?;
        if let Some(column) = in_path(&of_file) {
            return Err(directory::Error::from(directory::ErrorKind::ColumnInPath { file, column }).into());
        }
    }
    Ok(schema)
}

/// The format of the first file stands for all; the readers refuse a file that is something else.
async fn format_of(listing: &Listing, options: &InputOptions) -> Result<InputFormat> {
    let Some((file, name)) = listing.files().iter().zip(listing.file_names()).next() else {
        return Ok(options.format.unwrap_or(InputFormat::Csv));
    };
    let found = detect(listing.store(), file, &name, options.format).await?;
    let format = match options.format {
        None if found.is_text() => options.text_format(found),
        _ => found,
    };
    // The readers of texts take one another's files for rows; where names tell them apart, names are believed.
    if format.is_text() && options.format.is_none() {
        let other = |other: &String| by_name(other).is_some_and(|named| named.is_text() && named != format);
        if let Some(file) = listing.file_names().find(other) {
            let found = by_name(&file).map_or("text", InputFormat::name);
            return Err(ErrorKind::SeveralFormats { file, found, first: name, format: format.name() }.into());
        }
    }
    match options.foreign_to(format) {
        Some((key, formats)) => {
            let (key, formats, found) = (key.to_owned(), formats.to_vec(), format.name());
            Err(ErrorKind::OptionForOtherFormat { file: name, key, formats, found }.into())
        }
        None => Ok(format),
    }
}

/// The names that [`table_factory`] goes by in `STORED AS`, as a session's table factories know them.
pub const STORED_AS: &[&str] =
    &["PARQUET", "CSV", "TSV", "TFRECORD", "ORC", "AVRO", "JSON", "ARROW", "TEXTFILE", "LIBSVM"];

/// The factory for `CREATE EXTERNAL TABLE ... STORED AS ... LOCATION '...' OPTIONS (...)`.
///
/// Register it in the session's table factories under each of [`STORED_AS`].
pub fn table_factory() -> Arc<dyn TableProviderFactory> {
    Arc::new(InputTableFactory)
}

#[derive(Debug)]
struct InputTableFactory;

#[async_trait]
impl TableProviderFactory for InputTableFactory {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        if command.unbounded {
            return plan_err!("CREATE UNBOUNDED EXTERNAL TABLE {}: streams are not supported", command.name);
        }
        if !command.order_exprs.is_empty() {
            return plan_err!("CREATE EXTERNAL TABLE {}: WITH ORDER is not supported", command.name);
        }
        let mut options = InputOptions::default();
        options.set("format", &command.file_type)?;
        // The engine hands `OPTIONS (delimiter ';')` on as `format.delimiter`. Sorted, so that errors do not vary.
        let mut given: Vec<_> = command.options.iter().collect();
        given.sort();
        for (key, value) in given {
            let key = key.to_ascii_lowercase();
            let key = ["format.", "tfrecord."].iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(&key);
            options.set(key, value)?;
        }
        let declared: SchemaRef = Arc::clone(command.schema.inner());
        let schema = (!declared.fields().is_empty()).then_some(declared);
        let table = open_locations(session, &command.locations, &options, schema).await?;
        check_partitions(command, &table)?;
        Ok(table)
    }
}

/// `PARTITIONED BY` must name the directories that are there, with the types that their values have.
fn check_partitions(command: &CreateExternalTable, table: &DirectoryTable) -> Result<(), DataFusionError> {
    let found = table.listing().partitions().fields();
    let names: Vec<_> = found.iter().map(|field| field.name().as_str()).collect();
    if !command.table_partition_cols.is_empty() && command.table_partition_cols != names {
        return plan_err!(
            "CREATE EXTERNAL TABLE {}: PARTITIONED BY ({}), but the directories are ({})",
            command.name,
            command.table_partition_cols.join(", "),
            names.join(", ")
        );
    }
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    for found in found {
        let Ok(declared) = command.schema.field_with_unqualified_name(found.name()) else { continue };
        let (declared, found_type) = (declared.data_type(), found.data_type());
        if declared != found_type && !(is_text(declared) && is_text(found_type)) {
            return plan_err!(
                "CREATE EXTERNAL TABLE {}: column \"{}\" is declared as {declared}, but its directories hold {found_type}; \
                 declare it so and CAST it in the query",
                command.name,
                found.name()
            );
        }
    }
    Ok(())
}
