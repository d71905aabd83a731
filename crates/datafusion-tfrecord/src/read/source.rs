//! [`TfRecordSource`]: TFRecord files as a scan of the engine.

use std::fmt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use arrow_tfrecord::{MappingOptions, ReaderBuilder};
use datafusion_common::Result;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_physical_expr::projection::ProjectionExprs;
use datafusion_physical_expr::{LexOrdering, conjunction};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion_physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_physical_plan::{DisplayFormatType, apply_expression_roots};
use object_store::ObjectStore;
use tfrecord_framing::{Compression, CrcPolicy};

use super::filter::{file_columns, row_filter};
use super::opener::RecordOpener;
use super::options::ReadOptions;
use super::split::divide;
use super::types::ColumnOrigin;
use tfr_files::FileNames;
use tfr_files::memory::ReadBounds;

/// The engine's batch size before it says otherwise.
const DEFAULT_BATCH_SIZE: usize = 8192;

/// Reads TFRecord files as a scan of the engine.
///
/// Only the wanted features of a record are decoded; the others are passed over by their length. A filter that
/// reads few of these is asked first, and the others are decoded of the records that pass. Apart from metrics its state
/// is plain data.
#[derive(Debug, Clone)]
pub struct TfRecordSource {
    form: RecordForm,
    names: FileNames,
    table_schema: TableSchema,
    projection: SplitProjection,
    /// Over `table_schema`. A row that one of them does not let pass is left out.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    batch_size: usize,
    bounds: ReadBounds,
    metrics: ExecutionPlanMetricsSet,
}

/// How rows stand in files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecordForm {
    /// In which form columns stand in the records.
    pub mapping: MappingOptions,
    /// The columns of the files as they are decoded, if not as they are in the table: structs with more fields, which tell
    /// where they are null, and with nulls only where some were written.
    pub decoded: Option<SchemaRef>,
    /// The compression; `None`: told from the content of each file.
    pub compression: Option<Compression>,
    /// Whether checksums are checked.
    pub crc: CrcPolicy,
    /// Whether the types of the columns were inferred from some of the records, which matters to those who find that they
    /// do not fit another.
    pub inferred: bool,
    /// What told the columns.
    pub origin: ColumnOrigin,
}

impl RecordForm {
    /// The form that the options name, of columns that were inferred if none were declared.
    pub(crate) fn of(options: &ReadOptions) -> Self {
        Self {
            mapping: options.mapping.clone().unwrap_or_default(),
            decoded: None,
            compression: options.compression,
            crc: options.crc,
            inferred: options.schema.is_none(),
            origin: ColumnOrigin::default(),
        }
    }
}

impl TfRecordSource {
    /// A source of the whole of `table_schema`. Files are named in messages as `names` says.
    pub fn new(form: RecordForm, names: FileNames, table_schema: TableSchema) -> Self {
        Self {
            form,
            names,
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            filters: Vec::new(),
            batch_size: DEFAULT_BATCH_SIZE,
            bounds: ReadBounds::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same source with batches within these bounds.
    pub(crate) fn within(&self, bounds: ReadBounds) -> Self {
        Self { bounds, ..self.clone() }
    }

    /// How many rows are read at most, where that is how many records are, too.
    fn few_rows(&self, config: &FileScanConfig) -> Option<usize> {
        config.limit.filter(|_| self.filters.is_empty())
    }

    /// How rows stand in the files.
    pub fn form(&self) -> &RecordForm {
        &self.form
    }
}

impl FileSource for TfRecordSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let RecordForm { mapping, compression, crc, inferred, decoded, .. } = &self.form;
        let file_schema = self.table_schema.file_schema();
        let decoded = decoded.as_ref().unwrap_or(file_schema);
        // Rows past the limit would be decoded in vain.
        let batch_size = self.few_rows(config).map_or(self.batch_size, |rows| self.batch_size.min(rows));
        let mut reader = ReaderBuilder::new(Arc::clone(decoded))
            .with_mapping(mapping.clone())
            .with_projection(self.projection.file_indices.clone())
            .with_batch_size(batch_size)
            .with_batch_bytes(self.bounds.batch);
        if let Some(filter) = row_filter(&self.filters, file_schema)? {
            reader = reader.with_row_filter(filter);
        }
        let opener = RecordOpener {
            store: object_store,
            names: self.names.clone(),
            reader,
            schema: Arc::new(file_schema.project(&self.projection.file_indices)?),
            compression: *compression,
            crc: *crc,
            inferred: *inferred,
            limited: self.few_rows(config).is_some(),
            bytes_scanned: MetricBuilder::new(&self.metrics).counter("bytes_scanned", partition),
        };
        ProjectionOpener::try_new(self.projection.clone(), Arc::new(opener), file_schema)
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_size: batch_size.max(1), ..self.clone() })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        (!self.filters.is_empty()).then(|| conjunction(self.filters.iter().cloned()))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.table_schema.file_schema(), &merged);
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "tfrecord"
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        if t == DisplayFormatType::TreeRender {
            return Ok(());
        }
        if let Some(filter) = self.filter() {
            write!(f, ", predicate={filter}")?;
        }
        match self.form.crc {
            CrcPolicy::Verify => Ok(()),
            CrcPolicy::Skip => f.write_str(", crc=skip"),
        }
    }

    /// Takes the filters that read fewer columns of the files than are to be decoded, so that the others are decoded of
    /// the rows that pass only. Nothing would be gained by other filters here.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let file_schema = self.table_schema.file_schema();
        let pays = |filter: &Arc<dyn PhysicalExpr>| {
            file_columns(filter, file_schema)
                .is_some_and(|read| self.projection.file_indices.iter().any(|column| !read.contains(column)))
        };
        let mut taken = self.filters.clone();
        let mut answers = Vec::with_capacity(filters.len());
        for filter in filters {
            let pays = pays(&filter);
            answers.push(if pays { PushedDown::Yes } else { PushedDown::No });
            taken.extend(pays.then_some(filter));
        }
        let answers = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if taken.len() == self.filters.len() {
            return Ok(answers);
        }
        Ok(answers.with_updated_node(Arc::new(Self { filters: taken, ..self.clone() })))
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        if output_ordering.is_some() {
            return Ok(None);
        }
        // Headers tell the truth only where their checksums are checked.
        let can_survey = config.object_store_url == ObjectStoreUrl::local_filesystem()
            && self.form.crc == CrcPolicy::Verify
            && self.form.compression.unwrap_or_default() == Compression::None
            && self.few_rows(config).is_none();
        let divided = divide(&config.file_groups, target_partitions, repartition_file_min_size, can_survey);
        Ok(divided.map(|file_groups| {
            let mut config = config.clone();
            config.file_groups = file_groups;
            config
        }))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let projected = self.projection.source.iter().map(|projected| &projected.expr);
        apply_expression_roots(projected.chain(&self.filters), f)
    }
}
