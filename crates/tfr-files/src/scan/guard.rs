//! Adds the file's name to every error of a scan.
//!
//! Readers of columnar formats often report what failed but not where, and some panic on malicious content.
//! [`GuardedSource`] wraps the [`FileSource`] of any format and converts both to an [`Error`](crate::error::Error).
//! It also withholds filters on floating point columns, for which the format would give wrong results from
//! statistics.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Schema};
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, Result};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{Column, Literal};
use datafusion_physical_expr::projection::ProjectionExprs;
use datafusion_physical_expr::utils::collect_columns;
use datafusion_physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_physical_plan::{DisplayFormatType, ExecutionPlan, SortOrderPushdownResult};
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use object_store::{ObjectMeta, ObjectStore};
use tfr_arrow::nested::any_type;
use tfr_stores::FileNames;

use crate::error::ErrorKind;
use crate::listing::listed::Listing;
use crate::scan::file_name::{is_file_name, named};
use crate::scan::hooks::ScanHooks;
use crate::scan::store::store_of_scan;
use crate::schema::adapter::UnfitInColumn;
use crate::table_files::DeletedRows;

/// The function that returns a field of a struct.
const FIELD_ACCESS: &str = "get_field";

/// A [`FileSource`] whose errors name the file, and whose panics become errors. By default it passes no filters on
/// floating point columns to the format.
#[derive(Clone)]
pub struct GuardedSource {
    inner: Arc<dyn FileSource>,
    names: FileNames,
    /// Whether filters on floating point columns are passed to the format too.
    passes_floats: bool,
    locations: Arc<[String]>,
    hooks: Option<Arc<dyn ScanHooks>>,
    /// The number of the scan, if it is recorded or replayed.
    planned: Option<usize>,
}

impl GuardedSource {
    /// Wraps `inner`. Files are named as `names` specifies.
    pub fn new(inner: Arc<dyn FileSource>, names: FileNames) -> Self {
        Self { inner, names, passes_floats: false, locations: Arc::default(), hooks: None, planned: None }
    }

    /// Passes every filter to the format, because it evaluates rows instead of statistics.
    pub fn with_all_filters(mut self) -> Self {
        self.passes_floats = true;
        self
    }

    /// Sets what the format does differently from its source.
    pub fn with_hooks(mut self, hooks: Arc<dyn ScanHooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Returns a source that reads the files of `config`.
    pub(crate) fn of_files(&self, config: &FileScanConfig) -> Result<Self> {
        let Some(hooks) = &self.hooks else { return Ok(self.clone()) };
        let (inner, hooks) = hooks.rebind(&self.inner, config)?;
        Ok(Self { inner, hooks: Some(hooks), ..self.clone() })
    }

    /// Returns the number of the scan, if it is recorded or replayed.
    pub(crate) fn planned(&self) -> Option<usize> {
        self.planned
    }

    /// Records the locations of the files, as the user wrote them.
    pub(crate) fn with_locations(mut self, locations: &[String]) -> Self {
        self.locations = locations.into();
        self
    }

    /// Returns the locations of the files, as the user wrote them.
    pub fn locations(&self) -> &[String] {
        &self.locations
    }

    /// Returns the format's own source.
    pub fn inner(&self) -> &Arc<dyn FileSource> {
        &self.inner
    }

    pub(crate) fn hooks(&self) -> Option<&Arc<dyn ScanHooks>> {
        self.hooks.as_ref()
    }

    fn around(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self { inner, ..self.clone() })
    }
}

impl FileSource for GuardedSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let store = store_of_scan(object_store, base_config, &self.names, Some(partition));
        self.inner.create_file_opener(store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let store = store_of_scan(object_store, base_config, &self.names, Some(partition));
        let inner = match &self.hooks {
            Some(hooks) => hooks.morselizer(&self.inner, store, base_config, partition)?,
            None => self.inner.create_morselizer(store, base_config, partition)?,
        };
        let is_computed = |expr: &Arc<dyn PhysicalExpr>| !expr.is::<Column>();
        let evaluates = self.inner.filter().is_some()
            || self.inner.projection().is_some_and(|projection| projection.iter().any(|part| is_computed(&part.expr)));
        let counts_rows = self.inner.filter().is_none();
        let projected = self.inner.projection().into_iter().flat_map(|projection| projection.iter());
        let read = projected.map(|projected| Arc::clone(&projected.expr)).chain(self.inner.filter());
        let columns = read.flat_map(|expr| collect_columns(&expr)).map(|column| column.name().to_owned()).collect();
        let (names, hooks) = (self.names.clone(), self.hooks.clone());
        Ok(Box::new(GuardedMorselizer { inner, names, evaluates, counts_rows, columns, hooks }))
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
        let schema = self.table_schema().table_schema();
        let kept = |filter| {
            let by_hooks = self.hooks.as_ref().is_some_and(|hooks| hooks.withholds(filter, schema));
            by_hooks || (!self.passes_floats && reads_floats(filter, schema))
        };
        let kept: Vec<bool> = filters.iter().map(kept).collect();
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
        let output = match self.inner.projection() {
            Some(current) => current.project_schema(self.table_schema().table_schema())?,
            None => self.table_schema().table_schema().as_ref().clone(),
        };
        for projected in projection.iter() {
            if computes_long_values(&projected.expr, &output)? {
                return Ok(None);
            }
        }
        let mut projection = projection.clone().try_map_exprs(|expr| named(expr, &self.names))?;
        if let (Some(hooks), Some(current)) = (&self.hooks, self.inner.projection()) {
            let schema = self.table_schema().table_schema();
            projection = projection.try_map_exprs(|expr| hooks.rewrite(expr, current, schema))?;
        }
        let pushed = self.inner.try_pushdown_projection(&projection)?;
        Ok(pushed.map(|inner| self.around(inner)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

/// Whether an expression computes values of variable length, so that its batches must be cut beforehand: file readers
/// share long values among rows, and size batches by rows.
fn computes_long_values(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<bool> {
    // Only a scan knows the name of the file.
    if expr.exists(|expr| Ok(is_file_name(expr)))? {
        return Ok(false);
    }
    let mut computes = false;
    expr.apply(|expr| {
        let hands_on = expr.is::<Column>()
            || expr.is::<Literal>()
            || expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|call| call.name() == FIELD_ACCESS);
        computes |= !hands_on && !expr.data_type(input)?.is_primitive() && expr.data_type(input)? != DataType::Boolean;
        Ok(if computes { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(computes)
}

/// Whether the filter depends on a floating point column.
///
/// Formats prune by bounds, and bounds exclude NaN (as the Parquet format requires), while in Arrow's order NaN is
/// above every number: a page of `[1.0, NaN]` contains a row with `x > 2.0`.
fn reads_floats(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let holds_floats = |name: &str| {
        schema.field_with_name(name).map_or(true, |field| any_type(field.data_type(), DataType::is_floating))
    };
    collect_columns(filter).iter().any(|column| holds_floats(column.name()))
}

struct GuardedMorselizer {
    inner: Box<dyn Morselizer>,
    names: FileNames,
    /// Whether the scan computes expressions, not only columns.
    evaluates: bool,
    /// Whether the scan returns every row of a file.
    counts_rows: bool,
    /// The columns of the table that are read.
    columns: Arc<[String]>,
    hooks: Option<Arc<dyn ScanHooks>>,
}

/// The part of a file that a stream reads.
#[derive(Debug, Clone)]
struct Origin {
    file: Arc<str>,
    /// Whether the scan computes expressions, not only columns.
    evaluates: bool,
    /// Number of rows of the file before the next batch, if they are counted.
    row: Option<u64>,
    diagnosis: Option<FileDiagnosis>,
}

/// Diagnoses failures in one file.
#[derive(Debug, Clone)]
struct FileDiagnosis {
    meta: Arc<ObjectMeta>,
    columns: Arc<[String]>,
    hooks: Arc<dyn ScanHooks>,
}

impl Origin {
    fn of(file: &str) -> Self {
        Self { file: file.into(), evaluates: false, row: None, diagnosis: None }
    }

    async fn diagnosed(&self, error: DataFusionError) -> DataFusionError {
        match &self.diagnosis {
            // The file that failed can no longer be read.
            _ if crate::error::Error::change_in(&error).is_some() => error,
            Some(FileDiagnosis { meta, columns, hooks }) => hooks.diagnose(meta, columns, error).await,
            None => error,
        }
    }
}

impl Morselizer for GuardedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let name: Arc<str> = self.names.name(&file.object_meta.location).into();
        let begins_file = file.range.as_ref().is_none_or(|range| range.start == 0);
        let is_whole = !file.extensions.contains::<DeletedRows>();
        let row = (self.counts_rows && begins_file && is_whole).then_some(0);
        let diagnosis = self.hooks.as_ref().map(|hooks| FileDiagnosis {
            meta: Arc::new(file.object_meta.clone()),
            columns: Arc::clone(&self.columns),
            hooks: Arc::clone(hooks),
        });
        let origin = Origin { file: name, evaluates: self.evaluates, row, diagnosis };
        let inner = guard_origin(&origin, || self.inner.plan_file(file))?;
        Ok(Box::new(GuardedPlanner { inner, origin }))
    }
}

struct GuardedPlanner {
    inner: Box<dyn MorselPlanner>,
    origin: Origin,
}

impl GuardedPlanner {
    fn around(inner: Box<dyn MorselPlanner>, origin: &Origin) -> Box<dyn MorselPlanner> {
        Box::new(Self { inner, origin: origin.clone() })
    }
}

impl MorselPlanner for GuardedPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, mut origin } = *self;
        let Some(mut plan) = guard_origin(&origin, || inner.plan())? else { return Ok(None) };
        let (morsels, planners) = (plan.take_morsels(), plan.take_ready_planners());
        // Of several parts of a file, only the first starts with row 0.
        if morsels.len() + planners.len() > 1 {
            origin.row = None;
        }
        let morsels = morsels.into_iter().map(|inner| {
            let morsel: Box<dyn Morsel> = Box::new(GuardedMorsel { inner, origin: origin.clone() });
            morsel
        });
        let morsels: Vec<_> = morsels.collect();
        let has_morsels = !morsels.is_empty();
        let planners = planners.into_iter().map(|inner| Self::around(inner, &origin));
        let mut guarded = MorselPlan::new().with_planners(planners.collect()).with_morsels(morsels);
        if let Some(pending) = plan.take_pending_planner() {
            if has_morsels {
                origin.row = None;
            }
            guarded.set_pending_planner(async move {
                let inner = guarded_future(&origin, pending.into_future()).await?;
                Ok(Self::around(inner, &origin))
            });
        }
        Ok(Some(guarded))
    }
}

struct GuardedMorsel {
    inner: Box<dyn Morsel>,
    origin: Origin,
}

impl Morsel for GuardedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let Self { inner, origin } = *self;
        match guard_origin(&origin, || Ok(inner.into_stream())) {
            Ok(stream) => guard_stream(origin, stream).boxed(),
            Err(error) => futures::stream::once(async { Err(error) }).boxed(),
        }
    }
}

/// Ends at the first failure, so that a stream is never polled again after a panic.
fn guard_stream(
    origin: Origin,
    stream: BoxStream<'static, Result<RecordBatch>>,
) -> impl Stream<Item = Result<RecordBatch>> {
    futures::stream::unfold(Some((origin, stream)), async |state| {
        let (mut origin, mut stream) = state?;
        match guarded_future(&origin, stream.next().map(Option::transpose)).await {
            Ok(batch) => {
                let batch = batch?;
                origin.row = origin.row.map(|row| row + batch.num_rows() as u64);
                Some((Ok(batch), Some((origin, stream))))
            }
            Err(error) => Some((Err(origin.diagnosed(error).await), None)),
        }
    })
}

pub(crate) async fn guard_future<T>(file: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    guarded_future(&Origin::of(file), work).await
}

fn guard_origin<T>(origin: &Origin, work: impl FnOnce() -> Result<T>) -> Result<T> {
    settle(origin, catch_unwind(AssertUnwindSafe(work)))
}

async fn guarded_future<T>(origin: &Origin, work: impl Future<Output = Result<T>>) -> Result<T> {
    settle(origin, AssertUnwindSafe(work).catch_unwind().await)
}

fn settle<T>(origin: &Origin, outcome: std::thread::Result<Result<T>>) -> Result<T> {
    outcome
        .unwrap_or_else(|panic| {
            let (file, message) = (origin.file.to_string(), panic_message(panic.as_ref()));
            Err(crate::error::Error::from(ErrorKind::Panicked { file, message }).into())
        })
        .map_err(|error| name_file(origin, error))
}

/// Adds the file to an error about its content, or about an expression that the scan computes. The query's own errors
/// (such as a division by zero) and errors that already name a position are unchanged.
fn name_file(origin: &Origin, error: DataFusionError) -> DataFusionError {
    let file = origin.file.to_string();
    if let Some(changed) = crate::error::Error::change_in(&error) {
        return changed.into();
    }
    if let DataFusionError::External(source) = error.find_root()
        && let Some(UnfitInColumn { column, unfit }) = source.downcast_ref()
    {
        let (column, value) = (column.clone(), unfit.value.clone());
        let row = origin.row.map(|row| row + unfit.row as u64);
        let (found, expected) = (unfit.found.clone(), unfit.expected.clone());
        return crate::error::Error::from(ErrorKind::UnfitValue { file, row, column, value, found, expected }).into();
    }
    let is_of_reader = match &error {
        DataFusionError::Execution(_)
        | DataFusionError::Internal(_)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::SchemaError(..) => !origin.evaluates,
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            ArrowError::DivideByZero
            | ArrowError::ArithmeticOverflow(_)
            | ArrowError::ComputeError(_)
            | ArrowError::CastError(_)
            | ArrowError::ParseError(_) => return error,
            ArrowError::ParquetError(_) | ArrowError::IoError(..) | ArrowError::ExternalError(_) => true,
            _ => !origin.evaluates,
        },
        DataFusionError::Plan(_)
        | DataFusionError::Configuration(_)
        | DataFusionError::ExecutionJoin(_)
        | DataFusionError::ResourcesExhausted(_)
        | DataFusionError::External(_)
        | DataFusionError::Context(..)
        | DataFusionError::Substrait(_)
        | DataFusionError::Diagnostic(..)
        | DataFusionError::Collection(_)
        | DataFusionError::Shared(_)
        | DataFusionError::Ffi(_) => return error,
        // Errors of files: of I/O, of stores and of formats. The last exist only with features that formats ask for.
        _ => true,
    };
    let kind = match is_of_reader {
        true => ErrorKind::Read { file, source: error },
        false => ErrorKind::Expression { file, source: error },
    };
    crate::error::Error::from(kind).into()
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    message.unwrap_or("no message").to_owned()
}

impl fmt::Debug for GuardedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedSource").field("file_type", &self.inner.file_type()).finish_non_exhaustive()
    }
}

impl fmt::Debug for GuardedMorselizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardedMorselizer").field(&self.inner).finish()
    }
}

impl fmt::Debug for GuardedPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardedPlanner").field(&self.inner).finish()
    }
}

impl fmt::Debug for GuardedMorsel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("GuardedMorsel").field(&self.inner).finish()
    }
}

/// Returns the scan of files that a plan is.
pub(crate) fn scan_config(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// Wraps the source of a format's scan in a [`GuardedSource`], unless the format has done so, and adds the listing's
/// names and locations to it.
pub(crate) fn guarded(
    plan: Arc<dyn ExecutionPlan>,
    listing: &Listing,
    planned: Option<usize>,
) -> Arc<dyn ExecutionPlan> {
    let Some(config) = scan_config(&plan).cloned() else { return plan };
    let source = match config.file_source().downcast_ref::<GuardedSource>() {
        Some(guarded) => guarded.clone(),
        None => GuardedSource::new(Arc::clone(config.file_source()), listing.names().clone()),
    };
    let source = GuardedSource { planned, ..source.with_locations(listing.locations()) };
    DataSourceExec::from_data_source(FileScanConfigBuilder::from(config).with_source(Arc::new(source)).build())
}

#[cfg(test)]
mod tests;
