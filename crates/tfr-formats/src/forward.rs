//! Shared by the readers of Avro and Arrow IPC: self-describing files that are read from start to end.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use datafusion_common::{DataFusionError, Result, not_impl_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_physical_plan::metrics::Count;
use datafusion_session::Session;
use futures::{FutureExt, StreamExt, TryStreamExt};
use memchr::memmem;
use object_store::{ObjectMeta, ObjectStore};
use tfr_arrow::convert::convert;
use tfr_files::DeletedRows;
use tfr_files::memory::ReadBounds;
use tfr_stores::FileNames;

use crate::content::other_format;
use crate::error::{Error, ErrorKind, FilePlace, Within};
use crate::input_format::InputFormat;
use crate::mapped::RecordedRows;
use crate::names::ColumnNames;
use crate::text::{self, Bytestream};
use tfr_files::scan::{Batches, FileReader, Scan};

/// A file to read.
#[derive(Debug, Clone)]
pub(crate) struct InputFile {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) meta: ObjectMeta,
    /// The file's name in messages.
    pub(crate) name: Arc<str>,
}

/// The part of a file to read.
#[derive(Debug, Clone)]
pub(crate) struct FilePart {
    pub(crate) file: InputFile,
    /// Byte range of the file in which this part begins.
    pub(crate) range: Range<u64>,
    /// The requested columns of the table; the file may lack some.
    pub(crate) wanted: SchemaRef,
    /// Maps the file's column names to the table's.
    pub(crate) columns: ColumnNames,
    /// Rows per batch.
    pub(crate) batch_size: usize,
    /// Bounds of batches and of what must be decompressed as a whole.
    pub(crate) bounds: ReadBounds,
    /// Counts the bytes read.
    pub(crate) bytes_scanned: Count,
    /// The rows of the file that are not part of the table.
    pub(crate) deleted: Option<Arc<DeletedRows>>,
    /// The number of rows in the file that the metadata of the table records.
    pub(crate) recorded: Option<RecordedRows>,
}

impl FilePart {
    /// Whether the file's column `name` is requested.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.wanted.column_with_name(&self.columns.in_table(name)).is_some()
    }
}

/// Reads self-describing files.
#[async_trait]
pub(crate) trait ForwardReader: fmt::Debug + Send + Sync + 'static {
    /// Returns the format's name in plans.
    fn name(&self) -> &'static str;

    /// Returns the format.
    fn format(&self) -> InputFormat;

    /// Whether a file can be read in parts.
    fn can_split(&self) -> bool;

    /// Returns the columns of a file, with their ids if the metadata of the table determines its columns by ids.
    async fn schema(&self, file: InputFile) -> Result<SchemaRef>;

    /// Reads the requested columns that the file has, with its types and the table's names, in any order. If the
    /// metadata of the table determines its columns, reads them in the types of the table, without deleted rows.
    async fn batches(&self, part: FilePart) -> Result<Batches>;
}

/// The files of a [`ForwardReader`]; `names` determines their names in messages.
#[derive(Debug)]
pub(crate) struct ForwardFiles<R> {
    reader: R,
    names: FileNames,
    columns: ColumnNames,
}

impl<R: ForwardReader> ForwardFiles<R> {
    pub(crate) fn new(reader: R, names: FileNames, columns: ColumnNames) -> Self {
        Self { reader, names, columns }
    }

    fn input(&self, store: &Arc<dyn ObjectStore>, meta: ObjectMeta) -> InputFile {
        let name = self.names.name(&meta.location).into();
        InputFile { store: Arc::clone(store), meta, name }
    }
}

#[async_trait]
impl<R: ForwardReader> FileReader for ForwardFiles<R> {
    fn name(&self) -> &'static str {
        self.reader.name()
    }

    fn can_split(&self) -> bool {
        self.reader.can_split()
    }

    async fn schema(
        &self,
        _session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let [meta] = files else { return not_impl_err!("the columns of {} files at once", files.len()) };
        match self.reader.schema(self.input(store, meta.clone())).await {
            Ok(schema) => self.columns.schema(&schema).map_err(|column| {
                let file = self.names.name(&meta.location);
                Error::from(ErrorKind::DuplicateColumn { file, column }).into()
            }),
            Err(error) => {
                let name = self.names.name(&meta.location);
                Err(other_format(store, meta, &name, self.reader.format()).await.map_or(error, Into::into))
            }
        }
    }

    fn opener(self: Arc<Self>, store: Arc<dyn ObjectStore>, scan: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        let (wanted, bytes_scanned) = (scan.schema()?, scan.bytes_scanned());
        let (batch_size, bounds) = (scan.batch_size, scan.bounds);
        Ok(Arc::new(ForwardOpener { files: self, store, wanted, batch_size, bounds, bytes_scanned }))
    }
}

/// Opens one file or a part of one.
struct ForwardOpener<R> {
    files: Arc<ForwardFiles<R>>,
    store: Arc<dyn ObjectStore>,
    wanted: SchemaRef,
    batch_size: usize,
    bounds: ReadBounds,
    bytes_scanned: Count,
}

impl<R: ForwardReader> FileOpener for ForwardOpener<R> {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (wanted, size) = (Arc::clone(&self.wanted), self.batch_size);
        let deleted = file.extensions.get_arc::<DeletedRows>();
        let recorded = file.extensions.get::<RecordedRows>().copied();
        let meta = file.object_meta;
        let part = FilePart {
            range: file.range.map_or(0..meta.size, |range| range.start as u64..range.end as u64),
            file: self.files.input(&self.store, meta),
            wanted: Arc::clone(&wanted),
            columns: self.files.columns.clone(),
            batch_size: size,
            bounds: self.bounds,
            bytes_scanned: self.bytes_scanned.clone(),
            deleted,
            recorded,
        };
        let files = Arc::clone(&self.files);
        Ok(async move {
            let name = Arc::clone(&part.file.name);
            let after_byte = Some(part.range.start).filter(|start| *start > 0);
            let names = match part.columns.mapped() {
                Some(_) => ColumnNames::default(),
                None => part.columns.clone(),
            };
            let batches = files.reader.batches(part).await?;
            let mut rows = 0_u64;
            let adapted = batches.map_ok(move |batch| {
                let position = BatchPosition { file: Arc::clone(&name), row: rows, after_byte };
                rows += batch.num_rows() as u64;
                let (wanted, names) = (Arc::clone(&wanted), names.clone());
                let starts = (0..batch.num_rows()).step_by(size);
                futures::stream::iter(starts.map(move |start| {
                    let slice = batch.slice(start, size.min(batch.num_rows() - start));
                    let position = BatchPosition { row: position.row + start as u64, ..position.clone() };
                    adapt(&slice, &wanted, &names, &position)
                }))
            });
            Ok(adapted.try_flatten().boxed())
        }
        .boxed())
    }
}

/// Bytes allocated for a part of a pipe before it has arrived.
const PIPE_BUFFER: usize = 1 << 20;

/// Reads a file or a pipe sequentially.
pub(crate) struct Forward {
    file: Arc<str>,
    /// The length of the file in bytes. `None` for a pipe, whose length is unknown.
    size: Option<u64>,
    bytes: Bytestream,
    /// Bytes read from the file but not yet consumed.
    ahead: Bytes,
    position: u64,
}

impl Forward {
    pub(crate) async fn open(file: &InputFile) -> Result<Self, Error> {
        Self::open_at(file, 0).await
    }

    /// Starts reading at this byte.
    pub(crate) async fn open_at(file: &InputFile, position: u64) -> Result<Self, Error> {
        let bytes = text::bytes(&file.store, &file.meta, &file.name, position..file.meta.size).await?;
        Ok(Self { file: Arc::clone(&file.name), size: Some(file.meta.size), bytes, ahead: Bytes::new(), position })
    }

    /// Reads a pipe, which is called `name` in messages.
    pub(crate) fn of_pipe(name: &Arc<str>, bytes: Bytestream) -> Self {
        Self { file: Arc::clone(name), size: None, bytes, ahead: Bytes::new(), position: 0 }
    }

    /// Skips past the next occurrence of `marker`, or to the end of the file.
    pub(crate) async fn pass(&mut self, marker: &[u8]) -> Result<(), Error> {
        loop {
            let found = memmem::find(&self.ahead, marker);
            // The marker may begin in the last bytes read.
            let passed = found.map_or(self.ahead.len().saturating_sub(marker.len() - 1), |at| at + marker.len());
            self.position += passed as u64;
            self.ahead.advance(passed);
            if found.is_some() {
                return Ok(());
            }
            match self.bytes.try_next().await.map_err(|error| Error::read(&self.file, error))? {
                Some(piece) => self.ahead = [self.ahead.as_ref(), piece.as_ref()].concat().into(),
                None => {
                    self.position = self.size.unwrap_or(self.position + self.ahead.len() as u64);
                    self.ahead.clear();
                    return Ok(());
                }
            }
        }
    }

    /// Returns the offset of the next byte in the file.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of remaining bytes of a file, and of a pipe the greatest number.
    pub(crate) fn left(&self) -> u64 {
        self.size.map_or(u64::MAX, |size| size - self.position)
    }

    /// Whether all bytes have been taken. Waits for the writer of a pipe.
    pub(crate) async fn is_at_end(&mut self) -> Result<bool, Error> {
        if let Some(size) = self.size {
            return Ok(self.position == size);
        }
        while self.ahead.is_empty() {
            match self.bytes.try_next().await.map_err(|error| Error::read(&self.file, error))? {
                Some(piece) => self.ahead = piece,
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Returns the next `len` bytes.
    ///
    /// # Errors
    /// There are fewer. This is checked before allocating, and for a pipe while reading.
    pub(crate) async fn take(&mut self, len: u64) -> Result<Bytes, Error> {
        let (byte, left) = (self.position, self.left());
        let cut_off = |file: &str, left: u64| -> Error {
            let reason = format!("it is cut off: {len} bytes should follow, but {left} do");
            Error::damaged(file, Within::Byte(byte), &reason)
        };
        let wanted = match usize::try_from(len) {
            Ok(wanted) if len <= left => wanted,
            _ => return Err(cut_off(&self.file, left)),
        };
        if self.ahead.len() < wanted {
            let mut all = BytesMut::with_capacity(if self.size.is_some() { wanted } else { wanted.min(PIPE_BUFFER) });
            all.extend_from_slice(&self.ahead);
            while all.len() < wanted {
                let failed = |error| Error::read(&self.file, error);
                match self.bytes.try_next().await.map_err(failed)? {
                    Some(piece) => all.extend_from_slice(&piece),
                    None if self.size.is_none() => return Err(cut_off(&self.file, all.len() as u64)),
                    None => return Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
                }
            }
            self.ahead = all.freeze();
        }
        self.position += len;
        Ok(self.ahead.split_to(wanted))
    }
}

/// The position at which a batch begins.
#[derive(Clone)]
struct BatchPosition {
    file: Arc<str>,
    /// Counted from 0, starting at `after_byte` if that is set.
    row: u64,
    after_byte: Option<u64>,
}

/// Selects the requested columns and converts them to the table's types. Columns missing from the file are null.
fn adapt(
    batch: &RecordBatch,
    wanted: &SchemaRef,
    names: &ColumnNames,
    position: &BatchPosition,
) -> Result<RecordBatch> {
    let found = batch.schema();
    let found: HashMap<String, &ArrayRef> =
        found.fields().iter().map(|field| names.in_table(field.name())).zip(batch.columns()).collect();
    let columns = wanted.fields().iter().map(|field| match found.get(field.name()) {
        Some(column) => convert(column, field.data_type()).map_err(|unfit| {
            let within = Within::Row { row: position.row + unfit.row as u64, after_byte: position.after_byte };
            let place = FilePlace::new(&position.file, within).column(field.name());
            DataFusionError::from(Error::from(ErrorKind::Unfit { place, reason: unfit.to_string() }))
        }),
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(wanted), columns, &options)?)
}
