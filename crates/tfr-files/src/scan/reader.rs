//! Implements DataFusion's file format traits once, for all formats read here.
//!
//! A format implements [`FileReader`]. [`ReaderFormat`] and [`ReaderSource`] adapt it to the engine.

use std::fmt;
use std::sync::Arc;

use crate::memory::ReadBounds;
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_common::config::ConfigOptions;
use datafusion_common::stats::Precision;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, Statistics, not_impl_err};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_compression_type::FileCompressionType;
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_groups::{FileGroup, FileGroupPartitioner};
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_physical_expr::projection::ProjectionExprs;
use datafusion_physical_expr::{LexOrdering, conjunction};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion_physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_physical_plan::{DisplayFormatType, ExecutionPlan, apply_expression_roots};
use datafusion_session::Session;
use futures::stream::BoxStream;
use object_store::{ObjectMeta, ObjectStore};

/// The default batch size of the engine.
const DEFAULT_BATCH_SIZE: usize = 8192;

/// The batches of a file or a part of one.
pub type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Reads the files of a format.
#[async_trait]
pub trait FileReader: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the format in plans.
    fn name(&self) -> &'static str;

    /// Appends details to a plan's description of the scan, starting with a comma.
    fn describe(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// Whether a file can be read in parts.
    fn can_split(&self) -> bool;

    /// Returns how an opener uses a filter over the columns of `table`, if the columns at the indices `wanted` are
    /// read.
    fn filter_use(&self, _filter: &Arc<dyn PhysicalExpr>, _table: &TableSchema, _wanted: &[usize]) -> FilterUse {
        FilterUse::None
    }

    /// Divides the files of a scan among partitions. `None` leaves them unchanged.
    fn divide(&self, files: &[FileGroup], division: &Division) -> Option<Vec<FileGroup>> {
        let partitioner = FileGroupPartitioner::new()
            .with_target_partitions(division.partitions)
            .with_repartition_file_min_size(division.min_size)
            .with_preserve_order_within_groups(division.is_ordered);
        partitioner.repartition_file_groups(files).filter(|_| self.can_split())
    }

    /// Returns the columns of these files together. A [`DirectoryTable`](crate::DirectoryTable) calls this for each
    /// file, and merges.
    async fn schema(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef>;

    /// Returns the number of rows of a file, if it is known without reading them.
    async fn rows(&self, _store: &Arc<dyn ObjectStore>, _file: &ObjectMeta) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Returns what the table has attached to a file or a part of one, as text that a plan keeps; `None` if there is nothing,
    /// or nothing that has a text.
    fn known_text(&self, _file: &PartitionedFile) -> Option<String> {
        None
    }

    /// Replaces each [`KnownText`](crate::planned::KnownText) of the files of a scan by what the table had attached.
    ///
    /// # Errors
    /// A text is not one of this format.
    fn with_known(&self, groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
        Ok(groups)
    }

    /// Called when a scan has been planned, with its files and the columns that it reads from them.
    fn planned(&self, _files: &[&ObjectMeta], _columns: &Schema) {}

    /// Creates an opener of files and parts of files, for one partition of a scan.
    fn opener(self: Arc<Self>, store: Arc<dyn ObjectStore>, scan: &Scan<'_>) -> Result<Arc<dyn FileOpener>>;
}

/// How an opener uses a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterUse {
    /// It ignores the filter.
    None,
    /// It skips parts of files in which no row passes.
    Parts,
    /// It removes every row that does not pass.
    Rows,
}

/// How to divide the files of a scan.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Division {
    /// Number of partitions.
    pub partitions: usize,
    /// Minimum total size in bytes of files to divide.
    pub min_size: usize,
    /// Whether the rows of each group have an order that must be preserved.
    pub is_ordered: bool,
    /// Maximum number of rows to read, if known.
    pub limit: Option<usize>,
    /// Whether files are fetched over a network.
    pub is_remote: bool,
}

/// The scan of one partition.
#[derive(Debug)]
pub struct Scan<'a> {
    /// The columns of the files and of their paths.
    pub table: &'a TableSchema,
    /// The columns to read, as indices into those of the files. Batches have them in this order.
    pub wanted: &'a [usize],
    /// Target number of rows of a batch.
    pub batch_size: usize,
    /// Size limits of batches and values.
    pub bounds: ReadBounds,
    /// The filter on rows of the table: all filters that the reader makes some [`FilterUse`] of.
    pub filter: Option<&'a Arc<dyn PhysicalExpr>>,
    /// Maximum number of rows to read, if known.
    pub limit: Option<usize>,
    /// Whether files are fetched over a network.
    pub is_remote: bool,
    metrics: &'a ExecutionPlanMetricsSet,
    partition: usize,
}

impl Scan<'_> {
    /// Returns the schema of the batches.
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(Arc::new(self.table.file_schema().project(self.wanted)?))
    }

    /// Returns a metric of the scan.
    pub fn counter(&self, name: &'static str) -> Count {
        MetricBuilder::new(self.metrics).counter(name, self.partition)
    }

    /// Returns the metric of bytes read.
    pub fn bytes_scanned(&self) -> Count {
        self.counter("bytes_scanned")
    }
}

/// Adapts a [`FileReader`] to [`FileFormat`].
#[derive(Debug)]
pub struct ReaderFormat {
    reader: Arc<dyn FileReader>,
}

impl ReaderFormat {
    /// Creates the format of `reader`.
    pub fn new(reader: impl FileReader) -> Self {
        Self { reader: Arc::new(reader) }
    }

    /// Limits the batches of a [`FileReader`]'s scan to the bounds of the session. Other scans are unchanged.
    pub fn planned(session: &dyn Session, config: FileScanConfig) -> Result<FileScanConfig> {
        let Some(source) = config.file_source().downcast_ref::<ReaderSource>() else { return Ok(config) };
        let columns = source.table_schema.file_schema().project(&source.projection.file_indices)?;
        let files: Vec<_> = config.file_groups.iter().flat_map(|group| group.files()).collect();
        source.reader.planned(&files.iter().map(|file| &file.object_meta).collect::<Vec<_>>(), &columns);
        let bounded = Arc::new(ReaderSource { bounds: ReadBounds::of(session), ..source.clone() });
        Ok(FileScanConfigBuilder::from(config).with_source(bounded).build())
    }
}

#[async_trait]
impl FileFormat for ReaderFormat {
    fn get_ext(&self) -> String {
        self.reader.name().to_owned()
    }

    fn get_ext_with_compression(&self, _compression: &FileCompressionType) -> Result<String> {
        Ok(self.get_ext())
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.reader.schema(session, store, files).await
    }

    async fn infer_stats(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Statistics> {
        let rows = self.reader.rows(store, file).await?.and_then(|rows| usize::try_from(rows).ok());
        let num_rows = rows.map_or(Precision::Absent, Precision::Exact);
        Ok(Statistics { num_rows, ..Statistics::new_unknown(&table_schema) })
    }

    async fn create_physical_plan(
        &self,
        session: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.file_compression_type.is_compressed() {
            return not_impl_err!("a compression for a whole scan of {} files", self.reader.name());
        }
        Ok(DataSourceExec::from_data_source(Self::planned(session, config)?))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(ReaderSource {
            reader: Arc::clone(&self.reader),
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            batch_size: DEFAULT_BATCH_SIZE,
            bounds: ReadBounds::default(),
            filter: None,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// Scans the files of a [`FileReader`].
#[derive(Debug, Clone)]
pub(crate) struct ReaderSource {
    pub(crate) reader: Arc<dyn FileReader>,
    table_schema: TableSchema,
    projection: SplitProjection,
    batch_size: usize,
    bounds: ReadBounds,
    filter: Option<Arc<dyn PhysicalExpr>>,
    metrics: ExecutionPlanMetricsSet,
}

impl ReaderSource {
    /// Returns the maximum number of rows to read, if no filter removes rows.
    fn limit(&self, config: &FileScanConfig) -> Option<usize> {
        config.limit.filter(|_| self.filter.is_none())
    }
}

fn is_remote(config: &FileScanConfig) -> bool {
    config.object_store_url != ObjectStoreUrl::local_filesystem()
}

impl FileSource for ReaderSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let scan = Scan {
            table: &self.table_schema,
            wanted: &self.projection.file_indices,
            batch_size: self.batch_size,
            bounds: self.bounds,
            filter: self.filter.as_ref(),
            limit: self.limit(config),
            is_remote: is_remote(config),
            metrics: &self.metrics,
            partition,
        };
        let opener = Arc::clone(&self.reader).opener(object_store, &scan)?;
        ProjectionOpener::try_new(self.projection.clone(), opener, self.table_schema.file_schema())
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_size: batch_size.max(1), ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.filter.clone()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.table_schema.file_schema(), &merged);
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let mut used: Vec<_> = self.filter.iter().cloned().collect();
        let before = used.len();
        let answers = filters.into_iter().map(|filter| {
            let filter_use = self.reader.filter_use(&filter, &self.table_schema, &self.projection.file_indices);
            used.extend((filter_use != FilterUse::None).then_some(filter));
            if filter_use == FilterUse::Rows { PushedDown::Yes } else { PushedDown::No }
        });
        let answers = FilterPushdownPropagation::with_parent_pushdown_result(answers.collect());
        if used.len() == before {
            return Ok(answers);
        }
        Ok(answers.with_updated_node(Arc::new(Self { filter: Some(conjunction(used)), ..self.clone() })))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        self.reader.name()
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match (t, &self.filter) {
            (DisplayFormatType::TreeRender, _) => Ok(()),
            (_, None) => self.reader.describe(f),
            (_, Some(filter)) => {
                self.reader.describe(f)?;
                write!(f, ", predicate={filter}")
            }
        }
    }

    fn supports_repartitioning(&self) -> bool {
        self.reader.can_split()
    }

    fn repartitioned(
        &self,
        partitions: usize,
        min_size: usize,
        order: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        let (limit, is_remote) = (self.limit(config), is_remote(config));
        let division = Division { partitions, min_size, is_ordered: order.is_some(), limit, is_remote };
        let divided = self.reader.divide(&config.file_groups, &division);
        Ok(divided.map(|groups| FileScanConfigBuilder::from(config.clone()).with_file_groups(groups).build()))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let projected = self.projection.source.iter().map(|projected| &projected.expr);
        apply_expression_roots(self.filter.iter().chain(projected), f)
    }
}
