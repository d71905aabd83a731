//! [`ParquetHooks`]: what scans of Parquet files do differently from the engine's source.
//!
//! Files with dates in another calendar than the proleptic Gregorian one are each opened with an adapter of their own,
//! which rebases their columns. So filters on these columns are evaluated on the correct values. Bounds of pages and
//! row groups are not used, since they are of values that are not rebased.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use arrow_schema::Schema;
use async_trait::async_trait;
use datafusion_common::tree_node::TransformedResult;
use datafusion_common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::morsel::{MorselPlanner, Morselizer};
use datafusion_datasource_parquet::source::ParquetSource;
use datafusion_datasource_parquet::{CachedParquetFileReaderFactory, ParquetFileReaderFactory};
use datafusion_execution::cache::cache_manager::FileMetadataCache;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion_physical_expr::utils::collect_columns;
use datafusion_physical_expr_adapter::PhysicalExprAdapterFactory;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::Findings;
use tfr_files::scan::{ScanHooks, store_of_scan};
use tfr_stores::FileNames;

use super::adapter::ConvertingFactory;
use super::calendar::ColumnCalendars;
use super::footer::Footers;
use super::locate::Locator;
use super::reader::ReaderFactory;
use super::rebased::{CalendarAdapterFactory, Count, Counting};
use super::table;
use crate::calendar::{Watched, note};
use crate::field_access;
use crate::names::ColumnNames;

/// The calendars of a scan's files, if some have columns that are not read unchanged.
#[derive(Debug)]
pub(super) struct ScanCalendars {
    pub(super) files: HashMap<Path, Arc<ColumnCalendars>>,
    pub(super) names: FileNames,
    pub(super) columns: ColumnNames,
    /// Adapts expressions to a file whose columns are converted to their values' types.
    pub(super) adapter: Arc<dyn PhysicalExprAdapterFactory>,
    /// Collects the counts of ambiguous values.
    pub(super) findings: Option<Arc<Findings>>,
    /// Whether timestamps that are finer than their type are cut.
    pub(super) cuts: bool,
}

impl ScanCalendars {
    /// Returns the calendars if they matter for the files that `source` reads. Adds a note if a column that is read may
    /// have ambiguous values.
    pub(super) fn of_source(mut self, source: &Arc<dyn FileSource>) -> Option<Arc<Self>> {
        self.files.retain(|_, calendar| !calendar.is_empty());
        if self.files.is_empty() {
            return None;
        }
        self.note(source);
        Some(Arc::new(self))
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

    /// Returns what is counted in a file: the columns with ambiguous values, or with timestamps that may be cut, among those
    /// that `source` reads.
    fn count(&self, source: &Arc<dyn FileSource>, path: &Path, calendar: &ColumnCalendars) -> Option<Count> {
        let read = columns_read(source);
        let is_read = |watched: &&Arc<Watched>| read.contains(&self.columns.in_table(&watched.column));
        let watched: Vec<_> = calendar.watched.values().filter(is_read).cloned().collect();
        let cut = calendar.cut.iter().filter(|column| read.contains(&self.columns.in_table(column)));
        let cut: Vec<_> = cut.cloned().collect();
        let is_any = !watched.is_empty() || !cut.is_empty();
        let findings = Arc::clone(self.findings.as_ref().filter(|_| is_any)?);
        Some(Count { findings, file: self.names.name(path).into(), watched, cut })
    }
}

/// Returns the columns of the table that a source reads.
fn columns_read(source: &Arc<dyn FileSource>) -> Vec<String> {
    let Some(projection) = source.projection() else { return Vec::new() };
    let columns = projection.expr_iter().flat_map(|expr| collect_columns(&expr));
    columns.map(|column| column.name().to_owned()).collect()
}

/// What a scan needs to read its files.
#[derive(Debug, Clone)]
pub(super) struct ScanFiles {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) cache: Arc<FileMetadataCache>,
    pub(super) footers: Footers,
    pub(super) names: FileNames,
    pub(super) columns: ColumnNames,
}

impl ScanFiles {
    /// Returns the engine's source, which reads the files of `config` as they were listed, and its hooks. By itself the
    /// source would ignore the store that is passed to a scan.
    pub(super) fn bind(self, source: &ParquetSource, config: &FileScanConfig) -> (Arc<dyn FileSource>, ParquetHooks) {
        let store = store_of_scan(Arc::clone(&self.store), config, &self.names, None);
        let inner: Arc<dyn ParquetFileReaderFactory> =
            Arc::new(CachedParquetFileReaderFactory::new(Arc::clone(&store), Arc::clone(&self.cache)));
        let readers = ReaderFactory { inner, footers: self.footers.clone(), store: Arc::clone(&store) };
        let (footers, names, columns) = (self.footers.clone(), self.names.clone(), self.columns.clone());
        let locator = Locator { store, footers, names, columns };
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
        (Arc::new(source), ParquetHooks { files: self, locator, calendars: None, reads_leaves: false })
    }
}

/// What a scan does differently from the engine's source.
#[derive(Debug)]
pub(super) struct ParquetHooks {
    files: ScanFiles,
    pub(super) locator: Locator,
    /// The calendars of the files, if they matter.
    pub(super) calendars: Option<Arc<ScanCalendars>>,
    /// Whether access to fields of structs is left to the engine's reader where it is right, as the session has a
    /// function of its own for it.
    pub(super) reads_leaves: bool,
}

#[async_trait]
impl ScanHooks for ParquetHooks {
    /// A filter that reads a nested column, if some file is in the hybrid calendar, or has other names. The engine would
    /// decide by the original filter whether it can evaluate it on nested columns, and then fail on computed ones.
    fn withholds(&self, filter: &Arc<dyn PhysicalExpr>, table: &Schema) -> bool {
        let is_nested = |name: &str| table.field_with_name(name).is_ok_and(|field| field.data_type().is_nested());
        (self.calendars.is_some() || self.files.columns.mapped().is_some())
            && collect_columns(filter).iter().any(|column| is_nested(column.name()))
    }

    fn rewrite(
        &self,
        expr: Arc<dyn PhysicalExpr>,
        projection: &ProjectionExprs,
        table: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match self.reads_leaves {
            true => field_access::by_leaves(expr, projection, table).data(),
            false => Ok(expr),
        }
    }

    fn morselizer(
        &self,
        source: &Arc<dyn FileSource>,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let source = match self.files.columns.mapped() {
            // Columns with the same names need not be the same columns.
            Some(_) => &adapting(source),
            None => source,
        };
        let plain = source.create_morselizer(Arc::clone(&store), config, partition)?;
        let Some(calendars) = self.calendars.clone() else { return Ok(plain) };
        let (source, config) = (Arc::clone(source), config.clone());
        Ok(Box::new(CalendarMorselizer { plain, source, calendars, store, config, partition }))
    }

    fn rebind(
        &self,
        source: &Arc<dyn FileSource>,
        config: &FileScanConfig,
    ) -> Result<(Arc<dyn FileSource>, Arc<dyn ScanHooks>)> {
        match (source.downcast_ref::<ParquetSource>(), &self.calendars) {
            (Some(parquet), None) => {
                let (source, hooks) = self.files.clone().bind(parquet, config);
                Ok((source, Arc::new(ParquetHooks { reads_leaves: self.reads_leaves, ..hooks })))
            }
            // The calendars of other files are unknown.
            (Some(_), Some(_)) => internal_err!("a planned scan of files in several calendars"),
            (None, _) => internal_err!("the source of a planned scan is not that of Parquet"),
        }
    }

    fn known_text(&self, file: &PartitionedFile) -> Option<String> {
        table::known_text(file)
    }

    fn with_known(&self, groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
        table::with_known(groups)
    }

    async fn diagnose(&self, file: &ObjectMeta, columns: &[String], error: DataFusionError) -> DataFusionError {
        self.locator.diagnose(file, columns, error).await
    }
}

/// Opens files as the engine does, but uses a calendar adapter for files that need it.
struct CalendarMorselizer {
    plain: Box<dyn Morselizer>,
    source: Arc<dyn FileSource>,
    calendars: Arc<ScanCalendars>,
    store: Arc<dyn ObjectStore>,
    config: FileScanConfig,
    partition: usize,
}

impl Morselizer for CalendarMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let calendars = &self.calendars;
        let path = &file.object_meta.location;
        let Some(calendar) = calendars.files.get(path) else { return self.plain.plan_file(file) };
        let factory = CalendarAdapterFactory {
            inner: Arc::clone(&calendars.adapter),
            calendar: Arc::clone(calendar),
            count: calendars.count(&self.source, path, calendar),
        };
        let source = counting(&self.source, factory.count.is_some())?;
        // Values are rebased after conversion.
        let converting = ConvertingFactory::around(&calendars.columns, calendars.cuts, Arc::new(factory));
        let config = FileScanConfigBuilder::from(self.config.clone())
            .with_source(Arc::clone(&source))
            .with_expr_adapter(Some(converting))
            .build();
        source.create_morselizer(Arc::clone(&self.store), &config, self.partition)?.plan_file(file)
    }
}

impl fmt::Debug for CalendarMorselizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CalendarMorselizer").field("calendars", &self.calendars).finish_non_exhaustive()
    }
}

/// Returns the source, whose first column also counts ambiguous values if `counts`. The source always uses the adapter.
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
    Ok(adapting(&source))
}

/// Returns the source such that it always uses the adapter. The engine skips it for a file with exactly the table's
/// columns, unless there is a filter.
fn adapting(source: &Arc<dyn FileSource>) -> Arc<dyn FileSource> {
    match source.downcast_ref::<ParquetSource>() {
        Some(parquet) if source.filter().is_none() => {
            let all = Arc::new(Literal::new(ScalarValue::Boolean(Some(true))));
            Arc::new(parquet.with_predicate(all).with_pushdown_filters(false))
        }
        _ => Arc::clone(source),
    }
}
