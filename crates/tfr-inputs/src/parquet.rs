//! The Parquet format, set up to lose nothing and to believe no footer.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion_common::{Result, Statistics};
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_compression_type::FileCompressionType;
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource_parquet::CachedParquetFileReaderFactory;
use datafusion_datasource_parquet::file_format::ParquetFormat;
use datafusion_datasource_parquet::metadata::DFParquetMetadata;
use datafusion_datasource_parquet::source::ParquetSource;
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_session::Session;
use datafusion_tfrecord::directory::{FileNames, GuardedSource, ReadAhead};
use object_store::{ObjectMeta, ObjectStore};
use parquet::basic::{SortOrder, Type};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics as ParquetStatistics;

use crate::detect::{InputFormat, other_format};
use crate::error::{Error, ErrorKind};
use crate::field_access;
use crate::names::ColumnNames;

/// Parquet with the session's options, but INT96 timestamps in microseconds unless the session says otherwise:
/// nanoseconds, the engine's default, overflow in silence beyond the year 2262.
pub(crate) fn format(session: &dyn Session, names: FileNames, columns: ColumnNames) -> Arc<dyn FileFormat> {
    let mut options = session.default_table_options().parquet;
    options.global.coerce_int96.get_or_insert_with(|| "us".to_owned());
    Arc::new(CheckedParquet {
        inner: ParquetFormat::default().with_options(options),
        names,
        columns,
        legacy_bounds: AtomicBool::new(false),
    })
}

/// The engine's Parquet, but for files whose footer contradicts itself or names two columns alike.
#[derive(Debug)]
struct CheckedParquet {
    inner: ParquetFormat,
    names: FileNames,
    columns: ColumnNames,
    /// Whether a file that was checked has bounds that do not hold its values.
    legacy_bounds: AtomicBool,
}

impl CheckedParquet {
    async fn check(&self, session: &dyn Session, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<()> {
        let fetched = DFParquetMetadata::new(store.as_ref(), file)
            .with_metadata_size_hint(self.inner.metadata_size_hint())
            .with_file_metadata_cache(Some(session.runtime_env().cache_manager.get_file_metadata_cache()))
            .fetch_metadata()
            .await;
        let metadata = match fetched {
            Ok(metadata) => metadata,
            Err(error) => {
                let other = other_format(store, file, &self.names.name(&file.location), InputFormat::Parquet).await;
                return Err(other.map_or(error, Into::into));
            }
        };
        let file = || self.names.name(&file.location);
        if let Some(column) = duplicate_column(&metadata) {
            return Err(Error::from(ErrorKind::DuplicateColumn { file: file(), column }).into());
        }
        if let Some(reason) = contradiction(&metadata) {
            return Err(Error::from(ErrorKind::Footer { file: file(), reason }).into());
        }
        if has_legacy_bounds(&metadata) {
            self.legacy_bounds.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A name that two columns have. The engine would keep one of them, in silence.
fn duplicate_column(metadata: &ParquetMetaData) -> Option<String> {
    let mut names = HashSet::new();
    let columns = metadata.file_metadata().schema().get_fields();
    columns.iter().find(|column| !names.insert(column.name())).map(|column| column.name().to_owned())
}

/// What a reader that believed the footer would come to grief over: a column chunk that holds fewer values than its
/// row group has rows makes it yield rows without end. A footer that counts fewer rows than its row groups makes it drop
/// rows.
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
    (rows != total).then(|| format!("the footer counts {rows} rows, but its row groups hold {total}"))
}

/// Whether a column has bounds in the deprecated fields alone, which writers before 2018 filled in an order of signed
/// bytes: `é` came before `a`. The format tells readers to ignore them where the order matters; the engine does not.
fn has_legacy_bounds(metadata: &ParquetMetaData) -> bool {
    let mut chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    chunks.any(|chunk| {
        let is_legacy = |statistics: &ParquetStatistics| {
            let has_bounds = statistics.min_bytes_opt().is_some() || statistics.max_bytes_opt().is_some();
            statistics.is_min_max_deprecated() && has_bounds
        };
        let is_number =
            matches!(chunk.column_type(), Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE);
        let in_order = is_number && chunk.column_descr().sort_order() == SortOrder::SIGNED;
        !in_order && chunk.statistics().is_some_and(is_legacy)
    })
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
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        for file in files {
            self.check(session, store, file).await?;
        }
        let schema = self.inner.infer_schema(session, store, files).await?;
        self.columns.schema(&schema).map_err(|column| {
            let file = files.first().map(|file| self.names.name(&file.location)).unwrap_or_default();
            Error::from(ErrorKind::DuplicateColumn { file, column }).into()
        })
    }

    async fn infer_stats(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Statistics> {
        self.check(session, store, file).await?;
        let statistics = self.inner.infer_stats(session, store, Arc::clone(&table_schema), file).await?;
        // The engine takes equal bounds for the value of every row. They are not: NaN is in no bounds, a row group may
        // have none, and long texts have shortened ones. Row groups and pages are still pruned by their own.
        Ok(Statistics { column_statistics: Statistics::unknown_column(&table_schema), ..statistics })
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
        let mut source = Arc::clone(config.file_source());
        if let Some(parquet) = source.downcast_ref::<ParquetSource>()
            && config.object_store_url != ObjectStoreUrl::local_filesystem()
        {
            // The source has its own way to a store, which does not see the one that a scan is given.
            let runtime = session.runtime_env();
            let store = ReadAhead::new(runtime.object_store(&config.object_store_url)?, &config.file_groups);
            let cache = runtime.cache_manager.get_file_metadata_cache();
            let readers = CachedParquetFileReaderFactory::new(Arc::new(store), cache);
            source = Arc::new(parquet.clone().with_parquet_file_reader_factory(Arc::new(readers)));
        }
        if self.legacy_bounds.load(Ordering::Relaxed) {
            source = Arc::new(GuardedSource::new(source, self.names.clone()).without_filters());
        }
        Ok(DataSourceExec::from_data_source(
            FileScanConfigBuilder::from(config)
                .with_source(source)
                .with_expr_adapter(Some(field_access::by_leaves(self.columns.adapter())))
                .build(),
        ))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
    }
}
