//! The Parquet format, configured so that no data is lost and no footer is trusted.
//!
//! Footers are corrected before the library decodes them (`footer`), so that it reads the same files as other readers.
//! These include files of old and of later writers, and files with some columns of unknown types. Values that the
//! library would change are decoded as bytes (`schema`), and converted in the scan (`adapter`, `values`).

mod adapter;
mod calendar;
mod extension;
mod footer;
mod hint;
mod index;
mod locate;
mod metadata;
mod old;
mod pages;
mod reader;
mod rebased;
mod scan;
mod schema;
mod statistics;
mod table;
mod thrift;
mod units;
mod values;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion_common::stats::Precision;
use datafusion_common::{Result, Statistics};
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_compression_type::FileCompressionType;
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource_parquet::file_format::ParquetFormat;
use datafusion_datasource_parquet::source::ParquetSource;
use datafusion_datasource_parquet::{transform_binary_to_string, transform_schema_to_view};
use datafusion_physical_expr_adapter::PhysicalExprAdapterFactory;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_session::Session;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use parquet::file::metadata::ParquetMetaData;
use serde::{Deserialize, Serialize};
use tfr_arrow::nested::any_type;
use tfr_files::Findings;
use tfr_files::memory::ReadBounds;
use tfr_files::planned::PlannedTables;
use tfr_files::schema::only_extension;
use tfr_files::{ColumnsInFiles, GuardedSource, Listing, UsedColumns, unreadable_field};
use tfr_stores::FileNames;

use crate::calendar::CalendarOption;
use crate::content::other_format;
use crate::error::{Error, ErrorKind, Within};
use crate::field_access;
use crate::hugging_face;
use crate::input_format::InputFormat;
use crate::names::ColumnNames;
use crate::orc::TimestampUnit;

use adapter::ConvertingFactory;
use calendar::ColumnCalendars;
use footer::{CorrectedFooter, Footers};
use hint::bytes_type;
use scan::{ScanCalendars, ScanFiles};
use units::Units;

pub use pages::PageTooLong;
pub(crate) use table::{mapped_format, open as open_table};

/// Options for Parquet files.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ParquetOptions {
    /// The unit of INT96 timestamps; `None`: nanoseconds, or microseconds for columns with values beyond their range.
    /// They are cut only in sessions that have [`Findings`], which are not strict.
    pub timestamps: Option<TimestampUnit>,
    /// The columns whose texts are read as bytes, by name in the table.
    pub binary: BTreeSet<String>,
    /// Whether the checksums of pages are ignored.
    pub skip_crc: bool,
}

/// What the footers of all files have shown, if it is all that planning needs of them: no column has dates to rebase, or
/// timestamps of an unknown unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlannedParquet {
    /// The columns, by their names in the files, whose texts are read as bytes.
    as_bytes: BTreeSet<String>,
    /// The columns, by their names in the files, that are bytes in some file.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    bytes: BTreeSet<String>,
}

impl PlannedParquet {
    /// Returns what was found out about the files of a format; `None` if another process must read all footers, too.
    pub(crate) fn of(format: &Arc<dyn FileFormat>) -> Option<&Self> {
        format.downcast_ref::<CheckedParquet>()?.planned.as_ref()
    }
}

/// Returns how the metadata of a table determines the columns of its Parquet files.
pub(crate) fn columns_in_files(format: &Arc<dyn FileFormat>) -> Option<&Arc<ColumnsInFiles>> {
    format.downcast_ref::<CheckedParquet>()?.columns.mapped()
}

/// Returns the format for the files of a listing.
///
/// Fetches all footers, unless another process has (`planned`). If nothing else determines the unit of INT96 timestamps,
/// such columns are read once.
///
/// # Errors
/// A file is not Parquet, or is damaged; or a column to be read as bytes is not text.
pub(crate) async fn format(
    session: &dyn Session,
    listing: &Listing,
    options: &ParquetOptions,
    calendar: CalendarOption,
    columns: ColumnNames,
    declared: Option<SchemaRef>,
    planned: Option<PlannedParquet>,
) -> Result<Arc<dyn FileFormat>> {
    let mut engine = session.default_table_options().parquet;
    let asked = match (options.timestamps, engine.global.coerce_int96.take().as_deref()) {
        (Some(unit), _) => Some(unit.into()),
        (None, Some("ns")) => Some(TimeUnit::Nanosecond),
        (None, Some("us")) => Some(TimeUnit::Microsecond),
        (None, Some("ms")) => Some(TimeUnit::Millisecond),
        (None, Some("s")) => Some(TimeUnit::Second),
        (None, _) => None,
    };
    let bound = ReadBounds::of(session).value;
    let cache = session.runtime_env().cache_manager.get_file_metadata_cache();
    let size_hint = engine.global.metadata_size_hint;
    let mut format = CheckedParquet {
        inner: ParquetFormat::default().with_options(engine),
        names: listing.names().clone(),
        footers: Footers::new(cache, size_hint, bound, options.skip_crc),
        units: Units::new(asked, declared.clone()),
        columns,
        bytes: Arc::default(),
        calendar,
        // Without a place for the count, nothing is cut.
        cuts: options.timestamps == Some(TimestampUnit::MicrosecondCut)
            && Findings::of(session.config()).is_some_and(|findings| !findings.is_strict()),
        findings: Findings::of(session.config()),
        planned: None,
    };
    if let Some(planned) = planned {
        format.footers = format.footers.with_bytes(planned.as_bytes.clone());
        format.bytes = Arc::new(planned.bytes.clone());
        format.planned = Some(planned);
        return Ok(Arc::new(format));
    }
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    let fetches: Vec<_> = listing.files().iter().map(|file| format.footer(listing.store(), file)).collect();
    let footers: Vec<_> = futures::stream::iter(fetches).buffered(concurrency.max(1)).try_collect().await?;

    let as_bytes = texts_as_bytes(&footers, &format.columns, options, declared.as_deref())?;
    format.footers = format.footers.with_bytes(as_bytes.clone());
    let fields = footers.iter().flat_map(|footer| footer.schema.fields());
    let is_bytes = |field: &&FieldRef| {
        matches!(field.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
    };
    let bytes: BTreeSet<_> = fields.filter(is_bytes).map(|field| field.name().clone()).collect();
    format.bytes = Arc::new(bytes.clone());
    let used = session.config().get_extension::<UsedColumns>();
    let is_used = |column: &str| used.as_ref().is_none_or(|used| used.contains(column));
    let of_footers = footers.iter().map(|footer| ColumnCalendars::of(footer, &format.calendar, format.cuts));
    let has_plain_dates =
        PlannedTables::of(session.config()).is_some() && of_footers.into_iter().all(|calendar| calendar.is_empty());
    let undecided = listing.files().iter().zip(footers).filter_map(|(file, footer)| {
        let leaves = format.units.undecided(&footer, &format.columns, is_used);
        (!leaves.is_empty()).then(|| (file.clone(), footer, leaves))
    });
    let undecided: Vec<_> = undecided.collect();
    format.planned = (has_plain_dates && undecided.is_empty()).then_some(PlannedParquet { as_bytes, bytes });
    format.units.decide(listing.store(), undecided, concurrency).await;
    Ok(Arc::new(format))
}

/// Returns the columns, by their names in the files, whose texts are read as bytes: by option or by declaration.
fn texts_as_bytes(
    footers: &[Arc<CorrectedFooter>],
    columns: &ColumnNames,
    options: &ParquetOptions,
    declared: Option<&Schema>,
) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut missing = options.binary.clone();
    for field in footers.iter().flat_map(|footer| footer.schema.fields()) {
        let name = columns.in_table(field.name());
        let has_text = bytes_type(field.data_type()) != *field.data_type();
        let declared = declared.and_then(|declared| declared.field_with_name(&name).ok());
        let is_asked = options.binary.contains(&name) || declared.is_some_and(|field| is_bytes(field.data_type()));
        if has_text && is_asked {
            found.insert(field.name().clone());
        }
        missing.remove(&name);
    }
    match missing.pop_first() {
        Some(value) => {
            let (key, expected) = ("binary".to_owned(), "the names of columns of the files".to_owned());
            Err(Error::from(ErrorKind::OptionValue { key, value, expected }).into())
        }
        None => Ok(found),
    }
}

/// Whether a declared type contains bytes and no text.
fn is_bytes(data_type: &DataType) -> bool {
    any_type(data_type, DataType::is_binary) && !any_type(data_type, DataType::is_string)
}

/// The engine's Parquet format; rejects files whose footer is inconsistent or repeats a column name.
#[derive(Debug)]
struct CheckedParquet {
    inner: ParquetFormat,
    names: FileNames,
    columns: ColumnNames,
    /// The columns, by their names in the files, that are bytes in some file.
    bytes: Arc<BTreeSet<String>>,
    footers: Footers,
    units: Units,
    /// The calendar of files that do not record one.
    calendar: CalendarOption,
    /// Whether timestamps that are finer than their type are cut and counted.
    cuts: bool,
    findings: Option<Arc<Findings>>,
    /// What the footers of all files have shown, if that is all that planning needs.
    planned: Option<PlannedParquet>,
}

impl CheckedParquet {
    /// Returns the footer of a file after validating it.
    async fn footer(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Arc<CorrectedFooter>> {
        let name = || self.names.name(&file.location);
        let footer = match self.footers.get(store.as_ref(), file).await {
            Ok(footer) => footer,
            Err(error) => {
                let other = other_format(store, file, &name(), InputFormat::Parquet).await;
                return Err(match other {
                    Some(other) => other.into(),
                    None => {
                        tfr_files::Error::from(tfr_files::ErrorKind::Read { file: name(), source: error.into() }).into()
                    }
                });
            }
        };
        if let Some(column) = duplicate_column(&footer) {
            return Err(Error::from(ErrorKind::DuplicateColumn { file: name(), column }).into());
        }
        match contradiction(&footer.metadata) {
            Some(reason) => Err(Error::damaged(&name(), Within::File, &reason).into()),
            None => Ok(footer),
        }
    }

    /// Returns the columns of a file in the types of the table, with unreadable ones marked.
    fn schema(&self, file: &ObjectMeta, footer: &CorrectedFooter) -> Schema {
        let mut schema = self.units.schema(footer, &self.columns);
        let options = &self.inner.options().global;
        if options.binary_as_string {
            schema = transform_binary_to_string(&schema);
        }
        if options.schema_force_view_types {
            schema = transform_schema_to_view(&schema);
        }
        let fields = footer.columns.iter().filter_map(|name| match footer.unreadable.get(name) {
            Some(reason) => Some(unreadable_field(name, &self.names.name(&file.location), reason)),
            None => {
                let field: Field = schema.field_with_name(name).ok()?.clone();
                let is_plain = options.skip_metadata;
                Some(if is_plain { only_extension(field) } else { field })
            }
        });
        Schema::new(hugging_face::with_labels(fields.collect(), schema.metadata()))
    }

    /// Returns the columns, by their names in the files, that are bytes in some file and text in the table. The engine
    /// compares names as they are, and would have the library decode these as text without a check.
    fn texts(&self, table: &Schema) -> BTreeSet<String> {
        let is_text = |name: &str| table.field_with_name(name).is_ok_and(|field| field.data_type().is_string());
        // With other names in the table, another column may have the name.
        let is_named = |name: &str| self.columns.mapped().is_none() && is_text(name);
        let texts = self.bytes.iter().filter(|name| is_named(name) || is_text(&self.columns.in_table(name)));
        texts.cloned().collect()
    }

    /// Returns the calendars of the files of a scan.
    async fn calendars(
        &self,
        store: &Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        adapter: Arc<dyn PhysicalExprAdapterFactory>,
    ) -> Result<ScanCalendars> {
        let mut files = HashMap::new();
        let groups = if self.planned.is_some() { &[] } else { config.file_groups.as_slice() };
        for file in groups.iter().flat_map(|group| group.files()) {
            let footer = self.footer(store, &file.object_meta).await?;
            let calendar = ColumnCalendars::of(&footer, &self.calendar, self.cuts);
            files.insert(file.object_meta.location.clone(), Arc::new(calendar));
        }
        let (names, columns, findings) = (self.names.clone(), self.columns.clone(), self.findings.clone());
        Ok(ScanCalendars { files, names, columns, adapter, findings, cuts: self.cuts })
    }
}

/// Returns a name that two columns have. The engine would silently use one of them.
fn duplicate_column(footer: &CorrectedFooter) -> Option<String> {
    let mut names = HashSet::new();
    footer.columns.iter().find(|column| !names.insert(*column)).cloned()
}

/// Describes an inconsistency that would mislead a reader that trusts the footer. If a column chunk has fewer values
/// than its row group has rows, it would return rows without end. If the footer counts fewer rows than the row groups,
/// it would drop rows.
fn contradiction(metadata: &ParquetMetaData) -> Option<String> {
    let mut total = 0_i64;
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let rows = group.num_rows();
        if rows < 0 {
            return Some(format!("row group {index} has {rows} rows"));
        }
        for column in group.columns() {
            let descriptor = column.column_descr();
            if descriptor.max_rep_level() == 0 && column.num_values() < rows {
                let (name, values) = (descriptor.path().string(), column.num_values());
                return Some(format!("row group {index} has {rows} rows, but its column \"{name}\" {values} values"));
            }
        }
        total = total.saturating_add(rows);
    }
    let rows = metadata.file_metadata().num_rows();
    (rows != total).then(|| format!("the footer counts {rows} rows, but its row groups contain {total}"))
}

#[async_trait]
impl FileFormat for CheckedParquet {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let mut schemas = Vec::with_capacity(files.len());
        for file in files {
            let footer = self.footer(store, file).await?;
            hugging_face::warn_of_damage(footer.schema.metadata(), &self.names.name(&file.location));
            schemas.push(self.schema(file, &footer));
        }
        let schema = Arc::new(Schema::try_merge(schemas)?);
        self.columns.schema(&schema).map_err(|column| {
            let file = files.first().map(|file| self.names.name(&file.location)).unwrap_or_default();
            Error::from(ErrorKind::DuplicateColumn { file, column }).into()
        })
    }

    /// Returns only the number of rows. The engine takes equal bounds as the value of every row, which they are not:
    /// bounds ignore NaN, a row group may lack them, and those of long texts are truncated. Row groups and pages are
    /// still pruned by their own bounds.
    async fn infer_stats(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Statistics> {
        let footer = self.footer(store, file).await?;
        let rows = usize::try_from(footer.metadata.file_metadata().num_rows());
        let bytes =
            footer.metadata.row_groups().iter().fold(0_i64, |sum, group| sum.saturating_add(group.total_byte_size()));
        Ok(Statistics {
            num_rows: rows.map_or(Precision::Absent, Precision::Exact),
            total_byte_size: usize::try_from(bytes).map_or(Precision::Absent, Precision::Inexact),
            column_statistics: Statistics::unknown_column(&table_schema),
        })
    }

    async fn create_physical_plan(
        &self,
        session: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(session, config).await?;
        let scan = plan.downcast_ref::<DataSourceExec>();
        let config = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>()).cloned();
        let Some(config) = config else { return Ok(plan) };
        let Some(parquet) = config.file_source().downcast_ref::<ParquetSource>() else { return Ok(plan) };
        let runtime = session.runtime_env();
        let files = ScanFiles {
            store: runtime.object_store(&config.object_store_url)?,
            cache: runtime.cache_manager.get_file_metadata_cache(),
            footers: self.footers.with_text(self.texts(config.file_schema())),
            names: self.names.clone(),
            columns: self.columns.clone(),
        };
        let (source, mut hooks) = files.bind(parquet, &config);
        let mut adapter = self.columns.adapter();
        // The version that respects nulls, if the session has it. It does not see through names.
        if let Some(get_field) = field_access::corrected(session.scalar_functions())
            && self.columns.mapped().is_none()
        {
            adapter = field_access::adapter(adapter, Arc::clone(get_field));
            hooks.reads_leaves = true;
        }
        let calendars = self.calendars(&hooks.locator.store, &config, Arc::clone(&adapter)).await?;
        hooks.calendars = calendars.of_source(&source);
        let guarded = GuardedSource::new(source, self.names.clone()).with_hooks(Arc::new(hooks));
        let converting = ConvertingFactory::around(&self.columns, self.cuts, adapter);
        Ok(DataSourceExec::from_data_source(
            FileScanConfigBuilder::from(config)
                .with_source(Arc::new(guarded))
                .with_expr_adapter(Some(converting))
                .build(),
        ))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
    }
}
