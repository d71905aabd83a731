//! What the readers of Avro and Arrow IPC share: files that say themselves which columns they have, read from the start
//! to the end.
//!
//! A format is a [`FileReader`]; [`ReaderFormat`] and [`ReaderSource`] make of it what the engine scans.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, Statistics, not_impl_err};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_compression_type::FileCompressionType;
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_physical_expr::projection::ProjectionExprs;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use datafusion_physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_physical_plan::{DisplayFormatType, ExecutionPlan, apply_expression_roots};
use datafusion_session::Session;
use datafusion_tfrecord::directory::FileNames;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use memchr::memmem;
use object_store::{ObjectMeta, ObjectStore};

use crate::error::{Error, ErrorKind};
use crate::text::{self, Bytestream};

/// The engine's batch size before it says otherwise.
const DEFAULT_BATCH_SIZE: usize = 8192;

/// A file to read.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) meta: ObjectMeta,
    /// Its name in messages.
    pub(crate) name: Arc<str>,
}

/// What is read of a file.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) file: Input,
    /// The bytes of the file in which this part begins.
    pub(crate) range: Range<u64>,
    /// The columns of the table that are wanted; the file may lack some.
    pub(crate) wanted: SchemaRef,
    /// How many rows a batch should have.
    pub(crate) batch_size: usize,
    /// Counts the bytes read.
    pub(crate) bytes_scanned: Count,
}

/// The batches of a file, with the types that it has.
pub(crate) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Reads the files of a format.
#[async_trait]
pub(crate) trait FileReader: fmt::Debug + Send + Sync + 'static {
    /// The name of the format in plans.
    fn name(&self) -> &'static str;

    /// Whether a file can be read in parts.
    fn can_split(&self) -> bool;

    /// The columns of a file.
    async fn schema(&self, file: Input) -> Result<SchemaRef>;

    /// Those of the wanted columns that the file has, under their names, in any order.
    async fn batches(&self, part: Part) -> Result<Batches>;
}

/// The files of a [`FileReader`] as a [`FileFormat`].
#[derive(Debug)]
pub(crate) struct ReaderFormat {
    reader: Arc<dyn FileReader>,
    names: FileNames,
}

impl ReaderFormat {
    /// Files that are named in messages as `names` says.
    pub(crate) fn new(reader: impl FileReader, names: FileNames) -> Self {
        Self { reader: Arc::new(reader), names }
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

    /// The columns of the one file given: a [`DirectoryTable`](datafusion_tfrecord::directory::DirectoryTable) asks file
    /// by file and merges.
    async fn infer_schema(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let [meta] = files else { return not_impl_err!("the columns of {} files at once", files.len()) };
        let name = self.names.name(&meta.location).into();
        self.reader.schema(Input { store: Arc::clone(store), meta: meta.clone(), name }).await
    }

    async fn infer_stats(
        &self,
        _session: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        _file: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&table_schema))
    }

    async fn create_physical_plan(
        &self,
        _session: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.file_compression_type.is_compressed() {
            return not_impl_err!("a compression around {} files", self.reader.name());
        }
        Ok(DataSourceExec::from_data_source(config))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(ReaderSource {
            reader: Arc::clone(&self.reader),
            names: self.names.clone(),
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            batch_size: DEFAULT_BATCH_SIZE,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// Reads the files of a [`FileReader`] as a scan of the engine.
#[derive(Debug, Clone)]
pub(crate) struct ReaderSource {
    reader: Arc<dyn FileReader>,
    names: FileNames,
    table_schema: TableSchema,
    projection: SplitProjection,
    batch_size: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl FileSource for ReaderSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let file_schema = self.table_schema.file_schema();
        let opener = ReaderOpener {
            reader: Arc::clone(&self.reader),
            store: object_store,
            names: self.names.clone(),
            wanted: Arc::new(file_schema.project(&self.projection.file_indices)?),
            batch_size: self.batch_size,
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
        self.reader.name()
    }

    fn fmt_extra(&self, _t: DisplayFormatType, _f: &mut fmt::Formatter) -> fmt::Result {
        Ok(())
    }

    fn supports_repartitioning(&self) -> bool {
        self.reader.can_split()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

/// Opens one file or a part of one.
#[derive(Debug, Clone)]
struct ReaderOpener {
    reader: Arc<dyn FileReader>,
    store: Arc<dyn ObjectStore>,
    names: FileNames,
    wanted: SchemaRef,
    batch_size: usize,
    bytes_scanned: Count,
}

impl FileOpener for ReaderOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let meta = file.object_meta;
            let range = file.range.map_or(0..meta.size, |range| range.start as u64..range.end as u64);
            let name = opener.names.name(&meta.location).into();
            let part = Part {
                file: Input { store: Arc::clone(&opener.store), meta, name },
                range,
                wanted: Arc::clone(&opener.wanted),
                batch_size: opener.batch_size,
                bytes_scanned: opener.bytes_scanned.clone(),
            };
            let batches = opener.reader.batches(part).await?;
            let (wanted, size) = (opener.wanted, opener.batch_size);
            let adapted = batches.map_ok(move |batch| {
                let wanted = Arc::clone(&wanted);
                let starts = (0..batch.num_rows()).step_by(size);
                let slices = starts.map(move |start| batch.slice(start, size.min(batch.num_rows() - start)));
                futures::stream::iter(slices.map(move |slice| adapt(&slice, &wanted)))
            });
            Ok(adapted.try_flatten().boxed())
        }
        .boxed())
    }
}

/// Reads a file from its start on.
pub(crate) struct Forward {
    file: Arc<str>,
    size: u64,
    bytes: Bytestream,
    /// What was read of the file but not yet taken.
    ahead: Bytes,
    position: u64,
}

impl Forward {
    pub(crate) async fn open(file: &Input) -> Result<Self, Error> {
        Self::open_at(file, 0).await
    }

    /// Reads from this byte on.
    pub(crate) async fn open_at(file: &Input, position: u64) -> Result<Self, Error> {
        let bytes = text::bytes(&file.store, &file.meta, &file.name, position..file.meta.size).await?;
        Ok(Self { file: Arc::clone(&file.name), size: file.meta.size, bytes, ahead: Bytes::new(), position })
    }

    /// Goes behind the next place where `marker` stands, or to the end of the file.
    pub(crate) async fn pass(&mut self, marker: &[u8]) -> Result<(), Error> {
        loop {
            let found = memmem::find(&self.ahead, marker);
            // The marker may begin with the last bytes that are there.
            let passed = found.map_or(self.ahead.len().saturating_sub(marker.len() - 1), |at| at + marker.len());
            self.position += passed as u64;
            self.ahead.advance(passed);
            if found.is_some() {
                return Ok(());
            }
            match self.bytes.try_next().await.map_err(|error| text::read_error(&self.file, error))? {
                Some(piece) => self.ahead = [self.ahead.as_ref(), piece.as_ref()].concat().into(),
                None => {
                    self.position = self.size;
                    self.ahead.clear();
                    return Ok(());
                }
            }
        }
    }

    /// Where in the file the next byte stands.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes the file still has.
    pub(crate) fn left(&self) -> u64 {
        self.size - self.position
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// The file has fewer, which is known before anything is allocated for them.
    pub(crate) async fn take(&mut self, len: u64) -> Result<Bytes, Error> {
        let (byte, left) = (self.position, self.left());
        let wanted = match usize::try_from(len) {
            Ok(wanted) if len <= left => wanted,
            _ => {
                let reason = format!("it is cut off: {len} bytes should follow, but {left} do");
                return Err(ErrorKind::Damaged { file: self.file.to_string(), byte, reason }.into());
            }
        };
        if self.ahead.len() < wanted {
            let mut all = BytesMut::with_capacity(wanted);
            all.extend_from_slice(&self.ahead);
            while all.len() < wanted {
                let failed = |error| text::read_error(&self.file, error);
                match self.bytes.try_next().await.map_err(failed)? {
                    Some(piece) => all.extend_from_slice(&piece),
                    None => return Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
                }
            }
            self.ahead = all.freeze();
        }
        self.position += len;
        Ok(self.ahead.split_to(wanted))
    }
}

/// The wanted columns, null where the file lacks one, in the types of the table.
fn adapt(batch: &RecordBatch, wanted: &SchemaRef) -> Result<RecordBatch> {
    let columns = wanted.fields().iter().map(|field| {
        let Some(column) = batch.column_by_name(field.name()) else {
            return Ok(new_null_array(field.data_type(), batch.num_rows()));
        };
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        // A wider type of another file, or the declared one.
        cast_with_options(column, field.data_type(), &CastOptions { safe: false, ..CastOptions::default() })
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(wanted), columns, &options)?)
}
