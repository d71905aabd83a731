//! [`OrcFormat`]: what the engine wants to know of ORC files before a scan.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_common::stats::Precision;
use datafusion_common::{Result, Statistics, not_impl_err};
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_compression_type::FileCompressionType;
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::source::DataSourceExec;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_session::Session;
use object_store::{ObjectMeta, ObjectStore};

use super::source::OrcSource;
use super::tails::Tails;

/// The ORC format, over files whose tails are fetched once.
#[derive(Debug)]
pub(super) struct OrcFormat {
    tails: Arc<Tails>,
}

impl OrcFormat {
    pub(super) fn new(tails: Tails) -> Self {
        Self { tails: Arc::new(tails) }
    }
}

#[async_trait]
impl FileFormat for OrcFormat {
    fn get_ext(&self) -> String {
        "orc".to_owned()
    }

    fn get_ext_with_compression(&self, _compression: &FileCompressionType) -> Result<String> {
        Ok(self.get_ext())
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    /// The columns of all files together, as they are in the first that has them.
    async fn infer_schema(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let mut fields: Vec<Field> = Vec::new();
        for file in files {
            let tail = self.tails.get(store, file).await?;
            for (name, column) in self.tails.column_names(&tail).into_iter().zip(&tail.columns) {
                if !fields.iter().any(|field| *field.name() == name) {
                    fields.push(Field::new(name, column.data_type.clone(), true));
                }
            }
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    /// The number of rows. What a footer says of values is not believed: bounds know nothing of NaN, and some writers
    /// got those of texts and timestamps wrong.
    async fn infer_stats(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Statistics> {
        let tail = self.tails.get(store, file).await?;
        let num_rows = usize::try_from(tail.rows).map_or(Precision::Absent, Precision::Exact);
        Ok(Statistics { num_rows, ..Statistics::new_unknown(&table_schema) })
    }

    async fn create_physical_plan(
        &self,
        _session: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.file_compression_type.is_compressed() {
            return not_impl_err!("a compression around ORC files");
        }
        Ok(DataSourceExec::from_data_source(config))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(OrcSource::new(Arc::clone(&self.tails), table_schema))
    }
}
