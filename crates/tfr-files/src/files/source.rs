//! [`FilesSource`]: scans files as rows.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_physical_expr::LexOrdering;
use datafusion_physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion_physical_expr::utils::reassign_expr_columns;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::apply_expression_roots;
use datafusion_physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;
use tfr_stores::FileNames;

use super::read::{Files, Projection};
use super::run::{CONTENT, Place, Run};
use crate::memory::ReadBounds;
use crate::scan::store::unchanged_files;

/// The default batch size of the engine.
const DEFAULT_BATCH_SIZE: usize = 8192;

/// Reads whole files, with one row per file. Apart from metrics its state is plain data.
///
/// The files of a partition are read one after the other, some of them ahead, and share batches.
#[derive(Debug, Clone)]
pub struct FilesSource {
    names: FileNames,
    table_schema: TableSchema,
    projection: ProjectionExprs,
    batch_size: usize,
    bounds: ReadBounds,
    metrics: ExecutionPlanMetricsSet,
    /// The number of the scan, if it is recorded or replayed.
    planned: Option<usize>,
}

impl FilesSource {
    /// Creates a source of all columns of a [`FilesTable`](super::FilesTable). Files are named as `names` specifies.
    pub fn new(names: FileNames, table_schema: TableSchema) -> Self {
        let all: Vec<_> = (0..table_schema.table_schema().fields().len()).collect();
        Self {
            names,
            projection: ProjectionExprs::from_indices(&all, table_schema.table_schema()),
            table_schema,
            batch_size: DEFAULT_BATCH_SIZE,
            bounds: ReadBounds::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            planned: None,
        }
    }

    /// Limits batches and files to the session's bounds.
    #[must_use]
    pub fn within(self, bounds: ReadBounds) -> Self {
        Self { bounds, ..self }
    }

    /// Sets the number of the scan, if it is recorded or replayed.
    pub(crate) fn with_planned(self, planned: Option<usize>) -> Self {
        Self { planned, ..self }
    }

    pub(crate) fn planned(&self) -> Option<usize> {
        self.planned
    }

    /// Returns the columns to read and the expressions to compute.
    fn projection_of_rows(&self) -> Result<Projection> {
        let columns = self.projection.column_indices();
        let schema: SchemaRef = Arc::new(Schema::project(self.table_schema.table_schema(), &columns)?);
        let of_columns = |projected: &ProjectionExpr| {
            let expr = reassign_expr_columns(Arc::clone(&projected.expr), &schema)?;
            Ok(ProjectionExpr::new(expr, projected.alias.clone()))
        };
        let projection: ProjectionExprs = self.projection.iter().map(of_columns).collect::<Result<Vec<_>>>()?.into();
        Ok(Projection { projector: projection.make_projector(&schema)?, columns, schema })
    }
}

impl FileSource for FilesSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let store = unchanged_files(store, config, &self.names, Some(partition));
        let projection = Arc::new(self.projection_of_rows()?);
        let reads_content = projection.columns.contains(&CONTENT);
        let bytes_scanned = MetricBuilder::new(&self.metrics).counter("bytes_scanned", partition);
        let (names, batch_size, bounds) = (self.names.clone(), self.batch_size, self.bounds);
        Ok(Arc::new(FilesOpener { store, names, projection, reads_content, batch_size, bounds, bytes_scanned }))
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_size: batch_size.max(1), ..self.clone() })
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let projection = self.projection.try_merge(projection)?;
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "files"
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    /// A file is a single row, and the table has already divided the files.
    fn repartitioned(
        &self,
        _: usize,
        _: usize,
        _: Option<LexOrdering>,
        _: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.iter().map(|projected| &projected.expr), f)
    }
}

/// Opens all files of a partition together with the first one.
#[derive(Clone)]
struct FilesOpener {
    store: Arc<dyn ObjectStore>,
    names: FileNames,
    projection: Arc<Projection>,
    reads_content: bool,
    batch_size: usize,
    bounds: ReadBounds,
    bytes_scanned: Count,
}

impl FileOpener for FilesOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let run = match file.extension::<Place>() {
            Some(Place::First(run)) => Arc::clone(run),
            Some(Place::Later) => return Ok(async { Ok(futures::stream::empty().boxed()) }.boxed()),
            // A plan that was sent to another process contains only the file itself.
            None => Arc::new(Run::Planned(vec![file])),
        };
        let Self { store, names, projection, reads_content, batch_size, bounds, bytes_scanned } = self.clone();
        let bytes_scanned = reads_content.then_some(bytes_scanned);
        let files = Files::new(store, names, run, projection, batch_size, bounds, bytes_scanned);
        let batches = futures::stream::try_unfold(files, |mut files| async {
            Ok(files.next().await?.map(|batch| (batch, files)))
        });
        Ok(async { Ok(batches.boxed()) }.boxed())
    }
}
