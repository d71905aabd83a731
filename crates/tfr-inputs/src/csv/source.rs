//! [`CsvSource`]: reads CSV files as a scan of the engine.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema, SchemaRef};
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
use datafusion_tfrecord::directory::{self, FileNames};
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};

use super::decode::{Columns, Records};
use super::options::CsvOptions;
use crate::detect::InputFormat;
use crate::error::{Error, ErrorKind};
use crate::text::{self, Part, TextStream};

/// The engine's batch size before it says otherwise.
const DEFAULT_BATCH_SIZE: usize = 8192;

/// Reads CSV files as a scan of the engine.
#[derive(Debug, Clone)]
pub struct CsvSource {
    options: Arc<CsvOptions>,
    names: FileNames,
    declared: bool,
    table_schema: TableSchema,
    projection: SplitProjection,
    batch_size: usize,
    metrics: ExecutionPlanMetricsSet,
}

impl CsvSource {
    /// A source of the whole of `table_schema`; `declared` if the user gave the types.
    pub fn new(options: Arc<CsvOptions>, names: FileNames, declared: bool, table_schema: TableSchema) -> Self {
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

impl FileSource for CsvSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        _config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let file_schema = self.table_schema.file_schema();
        let opener = CsvOpener {
            store: object_store,
            options: Arc::clone(&self.options),
            names: self.names.clone(),
            declared: self.declared,
            file_schema: Arc::clone(file_schema),
            path_columns: self.table_schema.table_partition_cols().to_vec(),
            wanted: self.projection.file_indices.clone(),
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
        "csv"
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, ", has_header={}", self.options.header)
            }
            DisplayFormatType::TreeRender => Ok(()),
        }
    }

    /// Only where a line end always ends a record. A compressed file is then read whole with its first part.
    fn supports_repartitioning(&self) -> bool {
        !self.options.newlines_in_values
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
struct CsvOpener {
    store: Arc<dyn ObjectStore>,
    options: Arc<CsvOptions>,
    names: FileNames,
    declared: bool,
    file_schema: SchemaRef,
    /// The columns that stand in the path and must not stand in the file too.
    path_columns: Vec<FieldRef>,
    /// The columns wanted, as indices into `file_schema`.
    wanted: Vec<usize>,
    batch_size: usize,
    bytes_scanned: Count,
}

impl FileOpener for CsvOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let name: Arc<str> = opener.names.name(&file.object_meta.location).into();
            match opener.part(&name, &file).await? {
                Some((part, header)) => Ok(opener.batches(name, part, header)?.boxed()),
                None => Ok(futures::stream::empty().boxed()),
            }
        }
        .boxed())
    }
}

impl CsvOpener {
    /// The text to read and, of a part without the first record, the header.
    async fn part(&self, name: &str, file: &PartitionedFile) -> Result<Option<(Part, Option<Vec<String>>)>, Error> {
        let options = &self.options;
        let part = text::part(&self.store, file, name, options.layout(), &self.bytes_scanned).await?;
        let Some(part) = part else { return Ok(None) };
        let header = match options.header && part.after_byte.is_some() {
            true => Some(read_header(&self.store, &file.object_meta, name, options).await?),
            false => None,
        };
        Ok(Some((part, header)))
    }

    fn batches(
        &self,
        file: Arc<str>,
        part: Part,
        header: Option<Vec<String>>,
    ) -> Result<impl Stream<Item = Result<RecordBatch>> + use<>> {
        let schema: Schema = self.file_schema.project(&self.wanted)?;
        let columns = Columns {
            schema: Arc::new(schema),
            cells: self.wanted.iter().copied().map(Some).collect(),
            nulls: self.options.null_texts().into(),
            declared: self.declared,
        };
        let width = (!self.options.header).then(|| self.file_schema.fields().len());
        let mut batches = Batches {
            records: Records::new(Arc::clone(&file), &self.options, width, part.after_byte),
            file,
            opener: self.clone(),
            columns,
            text: part.text,
            piece: Bytes::new(),
            header_read: !self.options.header,
        };
        if let Some(header) = header {
            batches.take_header(&header)?;
        }
        Ok(futures::stream::try_unfold(Some(batches), |batches| async {
            let Some(mut batches) = batches else { return Ok(None) };
            let (batch, more) = batches.next().await?;
            Ok(batch.map(|batch| (batch, more.then_some(batches))))
        }))
    }
}

/// The batches of one file or part.
struct Batches {
    file: Arc<str>,
    opener: CsvOpener,
    records: Records,
    columns: Columns,
    text: TextStream,
    piece: Bytes,
    header_read: bool,
}

impl Batches {
    /// The next batch, if there are rows left, and whether there may be more after it.
    async fn next(&mut self) -> Result<(Option<RecordBatch>, bool)> {
        let batch_size = self.opener.batch_size;
        loop {
            if self.piece.is_empty() {
                match self.text.try_next().await? {
                    Some(piece) => self.piece = piece,
                    None => {
                        self.records.finish()?;
                        self.header_from_records()?;
                        return Ok((self.take_batch()?, false));
                    }
                }
                continue;
            }
            let wanted = if self.header_read { batch_size } else { 1 };
            let read = self.records.read(&self.piece, wanted)?;
            self.piece.advance(read);
            self.header_from_records()?;
            if self.records.is_full(batch_size) {
                return Ok((self.take_batch()?, true));
            }
        }
    }

    fn take_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.records.len() == 0 {
            return Ok(None);
        }
        let batch = self.columns.batch(&self.records)?;
        self.records.clear();
        Ok(Some(batch))
    }

    fn header_from_records(&mut self) -> Result<()> {
        if self.header_read || self.records.len() == 0 {
            return Ok(());
        }
        let header = column_names(&self.records)?;
        self.records.clear();
        self.take_header(&header)
    }

    /// Finds the columns of the table in the header by name.
    fn take_header(&mut self, header: &[String]) -> Result<()> {
        let opener = &self.opener;
        if let Some(field) = opener.path_columns.iter().find(|field| header.contains(field.name())) {
            let (file, column) = (self.file.to_string(), field.name().clone());
            return Err(directory::Error::from(directory::ErrorKind::ColumnInPath { file, column }).into());
        }
        let position = |name: &str| header.iter().position(|other| other == name);
        if self.opener.declared
            && let Some(field) = opener.file_schema.fields().iter().find(|field| position(field.name()).is_none())
        {
            let (file, column) = (self.file.to_string(), field.name().clone());
            return Err(Error::from(ErrorKind::MissingColumn { file, column, header: header.to_vec() }).into());
        }
        self.columns.cells = self.columns.schema.fields().iter().map(|field| position(field.name())).collect();
        self.records.set_width(header.len());
        self.header_read = true;
        Ok(())
    }
}

/// The names that the first record gives to the columns: an empty one is `column_N`, a repeated one gets a number.
pub(super) fn column_names(records: &Records) -> Result<Vec<String>, Error> {
    let cells = records.cells()?;
    let header: Vec<&str> = (0..cells.width()).map(|column| cells.get(0, column)).collect();
    let mut names: Vec<String> = Vec::with_capacity(header.len());
    let mut taken: HashSet<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let mut seen = HashSet::new();
    for (column, name) in header.into_iter().enumerate() {
        if !name.is_empty() && seen.insert(name) {
            names.push(name.to_owned());
            continue;
        }
        let stem = if name.is_empty() { format!("column_{}", column + 1) } else { name.to_owned() };
        let mut unique = stem.clone();
        let mut number = 0;
        while (number == 0 && !name.is_empty()) || !taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{stem}_{number}");
        }
        names.push(unique);
    }
    Ok(names)
}

async fn read_header(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    name: &str,
    options: &Arc<CsvOptions>,
) -> Result<Vec<String>, Error> {
    let bytes = text::bytes(store, meta, name, 0..meta.size).await?;
    let mut text = text::text(name, InputFormat::Csv, bytes, options.compression, options.encoding).await?;
    let mut records = Records::new(name.into(), options, None, None);
    while records.len() == 0 {
        match text.try_next().await? {
            Some(piece) if piece.is_empty() => {}
            Some(piece) => drop(records.read(&piece, 1)?),
            None => {
                records.finish()?;
                break;
            }
        }
    }
    column_names(&records)
}
