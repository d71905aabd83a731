//! [`ScanHooks`]: what the scans of a format do differently from the engine's source of that format.

use std::fmt;
use std::sync::Arc;

use arrow_schema::Schema;
use async_trait::async_trait;
use datafusion_common::{DataFusionError, Result};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::morsel::Morselizer;
use datafusion_physical_expr::projection::ProjectionExprs;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use object_store::{ObjectMeta, ObjectStore};

/// What the scans of a format do differently from the engine's source of that format.
/// [`GuardedSource`](crate::GuardedSource) calls these functions, so that a format need not wrap its source again.
#[async_trait]
pub trait ScanHooks: fmt::Debug + Send + Sync {
    /// Whether the source must not get a filter, given the schema of the table.
    fn withholds(&self, filter: &Arc<dyn PhysicalExpr>, table: &Schema) -> bool;

    /// Rewrites an expression that is pushed into the scan, given the scan's projection and the schema of the table.
    ///
    /// # Errors
    /// The expression cannot be built.
    fn rewrite(
        &self,
        expr: Arc<dyn PhysicalExpr>,
        projection: &ProjectionExprs,
        table: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>>;

    /// Creates the reader of a partition's files.
    ///
    /// # Errors
    /// The source fails.
    fn morselizer(
        &self,
        source: &Arc<dyn FileSource>,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>>;

    /// Returns the source that reads the files of `config` instead of those that it was planned with, and its hooks.
    ///
    /// # Errors
    /// The source is not one of the format, or cannot read other files.
    fn rebind(
        &self,
        source: &Arc<dyn FileSource>,
        config: &FileScanConfig,
    ) -> Result<(Arc<dyn FileSource>, Arc<dyn ScanHooks>)>;

    /// As [`FileReader::known_text`](crate::FileReader::known_text).
    fn known_text(&self, _file: &PartitionedFile) -> Option<String> {
        None
    }

    /// As [`FileReader::with_known`](crate::FileReader::with_known).
    ///
    /// # Errors
    /// A text is not one of this format.
    fn with_known(&self, groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
        Ok(groups)
    }

    /// Returns a more precise error for a failure to read rows, or `error` itself. `columns` are the columns of the
    /// table that were read.
    async fn diagnose(&self, file: &ObjectMeta, columns: &[String], error: DataFusionError) -> DataFusionError;
}
