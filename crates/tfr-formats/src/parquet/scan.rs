//! [`ScanCalendars`]: scans of Parquet files with dates in other calendars than the proleptic Gregorian one.
//!
//! [`CalendarSource`] wraps the engine's source if a file has such columns. It opens each of these files with an
//! adapter of its own, which rebases the columns. So filters on these columns are evaluated on the correct values.
//! Bounds of pages and row groups are not used, since they are of values that are not rebased.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::morsel::{MorselPlanner, Morselizer};
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_datasource_parquet::source::ParquetSource;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion_physical_expr::utils::collect_columns;
use datafusion_physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion_physical_expr_adapter::PhysicalExprAdapterFactory;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use object_store::ObjectStore;
use object_store::path::Path;
use tfr_files::FileNames;
use tfr_files::Findings;

use super::adapter::ConvertingFactory;
use super::calendar::FileCalendar;
use super::rebased::{CalendarAdapterFactory, Count, Counting};
use crate::calendar::note;
use crate::names::ColumnNames;

/// The calendars of a scan's files, if some have columns that are not read unchanged.
#[derive(Debug)]
pub(super) struct ScanCalendars {
    pub(super) files: HashMap<Path, Arc<FileCalendar>>,
    pub(super) names: FileNames,
    pub(super) columns: ColumnNames,
    /// Adapts expressions to a file whose columns are converted to their values' types.
    pub(super) adapter: Arc<dyn PhysicalExprAdapterFactory>,
    /// Collects the counts of ambiguous values.
    pub(super) findings: Option<Arc<Findings>>,
}

impl ScanCalendars {
    /// Returns the scan's source, wrapped if calendars matter. Adds a note if a column that is read may have ambiguous
    /// values.
    /// doubtful values.
    pub(super) fn around(mut self, source: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        self.files.retain(|_, calendar| !calendar.is_empty());
        if self.files.is_empty() {
            return source;
        }
        self.note(&source);
        Arc::new(CalendarSource { inner: source, calendars: Arc::new(self) })
    }

    fn note(&self, source: &Arc<dyn FileSource>) {
        let Some(findings) = &self.findings else { return };
        let read = columns_read(source);
        let mut files: BTreeMap<&'static str, (Vec<String>, Vec<String>)> = BTreeMap::new();
        for (path, calendar) in &self.files {
            for watched in
                calendar.watched.values().filter(|watched| read.contains(&self.columns.in_table(&watched.column)))
            {
                for reason in watched.leaves.iter().filter_map(|watch| watch.reason()) {
                    let (files, columns) = files.entry(reason.describe()).or_default();
                    files.push(self.names.name(path));
                    columns.push(watched.column.clone());
                }
            }
        }
        for (reason, (files, columns)) in files {
            findings.note(note(reason, files, columns));
        }
    }
}

/// Returns the columns of the table that a source reads.
fn columns_read(source: &Arc<dyn FileSource>) -> Vec<String> {
    let Some(projection) = source.projection() else { return Vec::new() };
    let columns = projection.expr_iter().flat_map(|expr| collect_columns(&expr));
    columns.map(|column| column.name().to_owned()).collect()
}

/// The engine's Parquet source, for files with some dates in the hybrid or an unknown calendar.
#[derive(Clone)]
struct CalendarSource {
    inner: Arc<dyn FileSource>,
    calendars: Arc<ScanCalendars>,
}

impl CalendarSource {
    fn around(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self { inner, calendars: Arc::clone(&self.calendars) })
    }

    /// Returns what is counted in a file: the columns with ambiguous values among those that are read.
    fn count(&self, path: &Path, calendar: &FileCalendar) -> Option<Count> {
        let ScanCalendars { names, columns, findings, .. } = self.calendars.as_ref();
        let read = columns_read(&self.inner);
        let watched = calendar.watched.values().filter(|watched| read.contains(&columns.in_table(&watched.column)));
        let watched: Vec<_> = watched.cloned().collect();
        let findings = Arc::clone(findings.as_ref().filter(|_| !watched.is_empty())?);
        Some(Count { findings, file: names.name(path).into(), watched })
    }

    /// Whether the filter reads a nested column that some file has in the hybrid calendar. The engine would decide by
    /// the original filter whether it can evaluate it on nested columns, and then fail on rebased ones.
    fn reads_parts(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let schema = self.inner.table_schema().table_schema();
        let is_nested = |name: &str| schema.field_with_name(name).is_ok_and(|field| field.data_type().is_nested());
        collect_columns(filter).iter().any(|column| is_nested(column.name()))
    }
}

impl FileSource for CalendarSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner.create_file_opener(object_store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let plain = self.inner.create_morselizer(Arc::clone(&object_store), base_config, partition)?;
        let (config, source) = (base_config.clone(), self.clone());
        Ok(Box::new(CalendarMorselizer { plain, source, object_store, config, partition }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        self.around(self.inner.with_batch_size(batch_size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        self.inner.fmt_extra(t, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        self.inner.repartitioned(target_partitions, repartition_file_min_size, output_ordering, config)
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let kept: Vec<bool> = filters.iter().map(|filter| self.reads_parts(filter)).collect();
        let rest = filters.into_iter().zip(&kept).filter_map(|(filter, kept)| (!kept).then_some(filter)).collect();
        let pushed = self.inner.try_pushdown_filters(rest, config)?;
        let mut of_rest = pushed.filters.into_iter();
        let of_all = kept.iter().map(|kept| match kept {
            true => PushedDown::No,
            false => of_rest.next().unwrap_or(PushedDown::No),
        });
        let updated_node = pushed.updated_node.map(|inner| self.around(inner));
        Ok(FilterPushdownPropagation { filters: of_all.collect(), updated_node })
    }

    /// The order of row groups follows from bounds in the hybrid calendar. It is only a hint.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        eq_properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_sort(order, eq_properties)?.map(|inner| self.around(inner)))
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        Ok(self.inner.try_pushdown_projection(projection)?.map(|inner| self.around(inner)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

impl fmt::Debug for CalendarSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CalendarSource").field("calendars", &self.calendars).finish_non_exhaustive()
    }
}

/// Opens files as the engine does, but uses a calendar adapter for files that need it.
#[derive(Debug)]
struct CalendarMorselizer {
    plain: Box<dyn Morselizer>,
    source: CalendarSource,
    object_store: Arc<dyn ObjectStore>,
    config: FileScanConfig,
    partition: usize,
}

impl Morselizer for CalendarMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let calendars = &self.source.calendars;
        let path = &file.object_meta.location;
        let Some(calendar) = calendars.files.get(path) else { return self.plain.plan_file(file) };
        let factory = CalendarAdapterFactory {
            inner: Arc::clone(&calendars.adapter),
            calendar: Arc::clone(calendar),
            count: self.source.count(path, calendar),
        };
        let source = counting(&self.source.inner, factory.count.is_some())?;
        // Values are rebased after conversion.
        let converting = ConvertingFactory::around(calendars.columns.clone(), Arc::new(factory));
        let config = FileScanConfigBuilder::from(self.config.clone())
            .with_source(Arc::clone(&source))
            .with_expr_adapter(Some(Arc::new(converting)))
            .build();
        source.create_morselizer(Arc::clone(&self.object_store), &config, self.partition)?.plan_file(file)
    }
}

/// Returns the source, whose first column also counts ambiguous values if `counts`. The source then always uses the
/// adapter. The engine skips it for a file with exactly the table's columns, unless there is a filter.
fn counting(source: &Arc<dyn FileSource>, counts: bool) -> Result<Arc<dyn FileSource>> {
    let schema = match source.projection() {
        Some(projection) => projection.project_schema(source.table_schema().table_schema())?,
        None => return internal_err!("a Parquet source without a projection"),
    };
    let mut source = Arc::clone(source);
    if counts && !schema.fields().is_empty() {
        let columns = schema.fields().iter().enumerate().map(|(index, field)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
            let expr: Arc<dyn PhysicalExpr> = match index {
                0 => Arc::new(Counting::try_new(column)?),
                _ => column,
            };
            Ok(ProjectionExpr::new(expr, field.name()))
        });
        let projection = ProjectionExprs::new(columns.collect::<Result<Vec<_>>>()?);
        let Some(counting) = source.try_pushdown_projection(&projection)? else {
            return internal_err!("a Parquet source that takes no projection");
        };
        source = counting;
    }
    if let Some(parquet) = source.downcast_ref::<ParquetSource>()
        && source.filter().is_none()
    {
        let all = Arc::new(Literal::new(ScalarValue::Boolean(Some(true))));
        source = Arc::new(parquet.with_predicate(all).with_pushdown_filters(false));
    }
    Ok(source)
}
