//! [`Unreadable`]: what stands where the engine asks for a source that reads TFRecord.

use std::sync::Arc;

use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DataFusionError, Result};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::table_schema::TableSchema;
use datafusion_physical_expr::projection::ProjectionExprs;
use datafusion_physical_plan::PhysicalExpr;
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use object_store::ObjectStore;

use crate::error::ErrorKind;

/// The engine's interface has no way to say that there is no source, so this one refuses to open files.
#[derive(Debug, Clone)]
pub(super) struct Unreadable {
    schema: TableSchema,
    metrics: ExecutionPlanMetricsSet,
}

impl Unreadable {
    pub(super) fn new(schema: TableSchema) -> Self {
        Self { schema, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl FileSource for Unreadable {
    fn create_file_opener(&self, _: Arc<dyn ObjectStore>, _: &FileScanConfig, _: usize) -> Result<Arc<dyn FileOpener>> {
        Err(refuse_to_read())
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, _: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        super::EXTENSION
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn try_pushdown_projection(&self, _: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        Err(refuse_to_read())
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

pub(super) fn refuse_to_read() -> DataFusionError {
    let instead = "read the shards with TensorFlow, or query the table that they were written from";
    ErrorKind::Unsupported { what: "reading", instead }.into()
}
