//! Formats of text that have a row a line, as a [`FileFormat`] and a [`FileSource`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use bytes::{Buf, Bytes};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{DataFusionError, Result, Statistics, not_impl_err};
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
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};

use super::lines::Lines;
use super::part::{Layout, part};
use super::{TextStream, bytes, text};
use crate::error::{Error, Line};

/// The engine's batch size before it says otherwise.
const DEFAULT_BATCH_SIZE: usize = 8192;

/// A batch is handed on early when it holds about this much.
const MAX_BATCH_LEN: usize = 64 << 20;

/// A format that has a row a line.
pub(crate) trait LineFormat: fmt::Debug + Send + Sync + 'static {
    /// How its files are text.
    fn layout(&self) -> Layout;

    /// How many lines at the start and at the end of a file are no rows. Where there are any, files are not split.
    fn margins(&self) -> Margins {
        Margins::default()
    }

    /// Looks at the first lines of a file for its columns.
    fn inference(&self, file: Arc<str>) -> Box<dyn Inference>;

    /// Makes batches of the columns `wanted` of `table`, indices into the columns that the files hold.
    ///
    /// # Errors
    /// A column has a type that the format cannot have.
    fn rows(&self, file: Arc<str>, table: &TableSchema, wanted: &[usize], odd_cells: Count) -> Result<Box<dyn Rows>>;
}

/// Lines that are no rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Margins {
    /// At the start of a file.
    pub(crate) header: usize,
    /// At its end.
    pub(crate) footer: usize,
}

/// Finds out what columns a file has.
pub(crate) trait Inference: Send {
    /// Looks at a line; `false`: it has seen enough.
    fn look(&mut self, line: &[u8], at: Line) -> Result<bool, Error>;

    /// The columns.
    fn schema(&self) -> Result<SchemaRef, Error>;
}

/// Turns lines into rows and rows into batches.
pub(crate) trait Rows: Send {
    /// Adds a row, or none for a line that holds none.
    fn push(&mut self, line: &[u8], at: Line) -> Result<(), Error>;

    /// How many rows there are since the last batch.
    fn len(&self) -> usize;

    /// About how many bytes they take.
    fn size(&self) -> usize;

    /// The rows.
    fn take(&mut self) -> Result<RecordBatch>;
}

/// A [`LineFormat`] as a [`FileFormat`].
#[derive(Debug)]
pub(crate) struct LineFileFormat {
    format: Arc<dyn LineFormat>,
    names: FileNames,
}

impl LineFileFormat {
    /// For files that are named in messages as `names` says.
    pub(crate) fn new(format: Arc<dyn LineFormat>, names: FileNames) -> Self {
        Self { format, names }
    }

    async fn infer_file(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<SchemaRef, Error> {
        let name: Arc<str> = self.names.name(&file.location).into();
        let Layout { format, compression, encoding, .. } = self.format.layout();
        let bytes = bytes(store, file, &name, 0..file.size).await?;
        let mut text = text(&name, format, bytes, compression, encoding).await?;
        let mut inference = self.format.inference(Arc::clone(&name));
        let mut lines = Lines::new(name, None);
        let mut header = self.format.margins().header;
        let mut wants_more = true;
        let mut look = |line: &[u8], at| {
            if header > 0 {
                header -= 1;
            } else {
                wants_more = inference.look(line, at)?;
            }
            Ok(wants_more)
        };
        let mut ended = false;
        while !ended {
            match text.try_next().await? {
                // One that is not read to its end held all lines that were wanted.
                Some(piece) => ended = lines.read(&piece, &mut look)? < piece.len(),
                None => {
                    lines.finish(&mut look)?;
                    ended = true;
                }
            }
        }
        inference.schema()
    }
}

#[async_trait]
impl FileFormat for LineFileFormat {
    fn get_ext(&self) -> String {
        "txt".to_owned()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        use datafusion_common::GetExt;
        Ok(format!("txt{}", compression.get_ext()))
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    /// The columns of the first file: a table asks for one file after the other.
    async fn infer_schema(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        match files.first() {
            Some(file) => Ok(self.infer_file(store, file).await?),
            None => Ok(self.format.inference("".into()).schema()?),
        }
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
            return not_impl_err!("a compression for the whole scan: it is told file by file");
        }
        Ok(DataSourceExec::from_data_source(config))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(LineSource {
            format: Arc::clone(&self.format),
            names: self.names.clone(),
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            batch_size: DEFAULT_BATCH_SIZE,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// Reads files of a [`LineFormat`] as a scan of the engine.
#[derive(Debug, Clone)]
struct LineSource {
    format: Arc<dyn LineFormat>,
    names: FileNames,
    table_schema: TableSchema,
    projection: SplitProjection,
    batch_size: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl FileSource for LineSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = LineOpener {
            store: object_store,
            format: Arc::clone(&self.format),
            names: self.names.clone(),
            table_schema: self.table_schema.clone(),
            wanted: self.projection.file_indices.clone(),
            batch_size: self.batch_size,
            bytes_scanned: MetricBuilder::new(&self.metrics).counter("bytes_scanned", partition),
            odd_cells: MetricBuilder::new(&self.metrics).counter("odd_cells", partition),
        };
        ProjectionOpener::try_new(self.projection.clone(), Arc::new(opener), self.table_schema.file_schema())
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
        self.format.layout().format.name()
    }

    fn fmt_extra(&self, _: DisplayFormatType, _: &mut fmt::Formatter) -> fmt::Result {
        Ok(())
    }

    fn supports_repartitioning(&self) -> bool {
        self.format.margins() == Margins::default()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

/// Opens one file or a part of one.
#[derive(Clone)]
struct LineOpener {
    store: Arc<dyn ObjectStore>,
    format: Arc<dyn LineFormat>,
    names: FileNames,
    table_schema: TableSchema,
    /// The columns wanted, as indices into those of the files.
    wanted: Vec<usize>,
    batch_size: usize,
    bytes_scanned: Count,
    odd_cells: Count,
}

impl FileOpener for LineOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let name: Arc<str> = opener.names.name(&file.object_meta.location).into();
            let layout = opener.format.layout();
            match part(&opener.store, &file, &name, layout, &opener.bytes_scanned).await? {
                Some(part) => {
                    let rows = opener.format.rows(
                        Arc::clone(&name),
                        &opener.table_schema,
                        &opener.wanted,
                        opener.odd_cells.clone(),
                    )?;
                    let lines = Lines::new(name, part.after_byte);
                    let feed = Feed { rows, margins: opener.format.margins(), held: VecDeque::new() };
                    let batches =
                        Batches { text: part.text, piece: Bytes::new(), lines, feed, batch_size: opener.batch_size };
                    Ok(batches.stream().boxed())
                }
                None => Ok(futures::stream::empty().boxed()),
            }
        }
        .boxed())
    }
}

/// The batches of one file or part.
struct Batches {
    text: TextStream,
    piece: Bytes,
    lines: Lines,
    feed: Feed,
    batch_size: usize,
}

impl Batches {
    fn stream(self) -> impl Stream<Item = Result<RecordBatch>> {
        futures::stream::try_unfold(Some(self), |batches| async {
            let Some(mut batches) = batches else { return Ok(None) };
            let (batch, more) = batches.next().await?;
            Ok::<_, DataFusionError>(batch.map(|batch| (batch, more.then_some(batches))))
        })
    }

    /// The next batch, if there are rows left, and whether there may be more after it.
    async fn next(&mut self) -> Result<(Option<RecordBatch>, bool)> {
        let Self { text, piece, lines, feed, batch_size } = self;
        loop {
            if piece.is_empty() {
                match text.try_next().await? {
                    Some(more) => *piece = more,
                    None => {
                        lines.finish(|line, at| feed.take(line, at, *batch_size))?;
                        let batch = if feed.rows.len() > 0 { Some(feed.rows.take()?) } else { None };
                        return Ok((batch, false));
                    }
                }
                continue;
            }
            let read = lines.read(piece, |line, at| feed.take(line, at, *batch_size))?;
            piece.advance(read);
            if feed.is_full(*batch_size) {
                return Ok((Some(feed.rows.take()?), true));
            }
        }
    }
}

/// Hands on the lines that are rows.
struct Feed {
    rows: Box<dyn Rows>,
    /// How many lines are still to be left out at the start, and how many at the end.
    margins: Margins,
    /// The last lines so far, which may be those at the end.
    held: VecDeque<(Vec<u8>, Line)>,
}

impl Feed {
    /// Whether more rows fit into the batch after this line.
    fn take(&mut self, line: &[u8], at: Line, batch_size: usize) -> Result<bool, Error> {
        if self.margins.header > 0 {
            self.margins.header -= 1;
            return Ok(true);
        }
        if self.margins.footer == 0 {
            self.rows.push(line, at)?;
        } else {
            self.held.push_back((line.to_vec(), at));
            if self.held.len() > self.margins.footer
                && let Some((line, at)) = self.held.pop_front()
            {
                self.rows.push(&line, at)?;
            }
        }
        Ok(!self.is_full(batch_size))
    }

    fn is_full(&self, batch_size: usize) -> bool {
        self.rows.len() >= batch_size || self.rows.size() >= MAX_BATCH_LEN
    }
}
