//! [`JsonSource`]: reads JSON files as a scan of the engine.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Schema, SchemaRef};
use bytes::{Buf, Bytes};
use datafusion_common::Result;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_physical_expr::projection::ProjectionExprs;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_physical_plan::{DisplayFormatType, apply_expression_roots};
use datafusion_tfrecord::directory::FileNames;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::ObjectStore;

use super::decode;
use super::keys::Keys;
use super::options::JsonOptions;
use super::parse::Parser;
use crate::text::{self, TextStream};

/// The engine's batch size before it says otherwise.
const DEFAULT_BATCH_SIZE: usize = 8192;

/// How many values a batch has room for, be they there or not: objects with thousands of keys, of which each row has
/// others, come in smaller batches.
const MAX_BATCH_VALUES: usize = 4 << 20;

/// Reads JSON files as a scan of the engine.
#[derive(Debug, Clone)]
pub struct JsonSource {
    options: Arc<JsonOptions>,
    names: FileNames,
    declared: bool,
    table_schema: TableSchema,
    projection: SplitProjection,
    batch_size: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl JsonSource {
    /// A source of the whole of `table_schema`; `declared` if the user gave the types.
    pub fn new(options: Arc<JsonOptions>, names: FileNames, declared: bool, table_schema: TableSchema) -> Self {
        Self {
            options,
            names,
            declared,
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            batch_size: DEFAULT_BATCH_SIZE,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl FileSource for JsonSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let file_schema = self.table_schema.file_schema();
        let wanted = &self.projection.file_indices;
        let schema: Schema = file_schema.project(wanted)?;
        let names: Vec<&str> = file_schema.fields().iter().map(|field| field.name().as_str()).collect();
        let in_path = self.table_schema.table_partition_cols().iter().map(|field| field.name().clone()).collect();
        let values: usize = schema.fields().iter().map(|field| leaves(field.data_type())).sum();
        let opener = JsonOpener {
            store: object_store,
            options: Arc::clone(&self.options),
            names: self.names.clone(),
            declared: self.declared,
            keys: Arc::new(Keys::new(&names, wanted, in_path, self.declared)),
            schema: Arc::new(schema),
            batch_size: self.batch_size.min(MAX_BATCH_VALUES / values.max(1)).max(1),
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
        "json"
    }

    fn fmt_extra(&self, _t: DisplayFormatType, _f: &mut fmt::Formatter) -> fmt::Result {
        Ok(())
    }

    /// Only where a line end always ends an object. A compressed file is then read whole with its first part.
    fn supports_repartitioning(&self) -> bool {
        self.options.newlines_in_values == Some(false)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

/// How many columns without parts a type has.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(item) | DataType::LargeList(item) => leaves(item.data_type()),
        DataType::FixedSizeList(item, len) => {
            leaves(item.data_type()).saturating_mul(usize::try_from(*len).unwrap_or_default())
        }
        _ => 1,
    }
}

/// Opens one file or a part of one.
#[derive(Clone)]
struct JsonOpener {
    store: Arc<dyn ObjectStore>,
    options: Arc<JsonOptions>,
    names: FileNames,
    declared: bool,
    keys: Arc<Keys>,
    /// The columns wanted.
    schema: SchemaRef,
    batch_size: usize,
    bytes_scanned: Count,
}

impl FileOpener for JsonOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let name: Arc<str> = opener.names.name(&file.object_meta.location).into();
            let layout = opener.options.layout();
            let Some(part) = text::part(&opener.store, &file, &name, layout, &opener.bytes_scanned).await? else {
                return Ok(futures::stream::empty().boxed());
            };
            // The first part of several, too, must end where an object does.
            let is_first = file.range.as_ref().is_some_and(|range| (range.end as u64) < file.object_meta.size);
            let after_byte = part.after_byte.or(is_first.then_some(0));
            let parser = Parser::new(name, Some(Arc::clone(&opener.keys)), after_byte);
            let batches = Batches { opener, parser, text: part.text, piece: Bytes::new() };
            let batches = futures::stream::try_unfold(Some(batches), |batches| async {
                let Some(mut batches) = batches else { return Ok(None) };
                let (batch, more) = batches.next().await?;
                Ok(batch.map(|batch| (batch, more.then_some(batches))))
            });
            Ok(batches.boxed())
        }
        .boxed())
    }
}

/// The batches of one file or part.
struct Batches {
    opener: JsonOpener,
    parser: Parser,
    text: TextStream,
    piece: Bytes,
}

impl Batches {
    /// The next batch, if there are rows left, and whether there may be more after it.
    async fn next(&mut self) -> Result<(Option<RecordBatch>, bool)> {
        let batch_size = self.opener.batch_size;
        while !self.parser.is_full(batch_size) {
            if self.piece.is_empty() {
                match self.text.try_next().await? {
                    Some(piece) => self.piece = piece,
                    None => {
                        self.parser.finish()?;
                        return Ok((self.take_batch()?, false));
                    }
                }
                continue;
            }
            let read = self.parser.read(&self.piece, batch_size)?;
            self.piece.advance(read);
        }
        Ok((self.take_batch()?, true))
    }

    fn take_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.parser.tape().rows.is_empty() {
            return Ok(None);
        }
        let batch = decode::batch(&self.parser, &self.opener.schema, self.opener.declared)?;
        self.parser.clear();
        Ok(Some(batch))
    }
}
