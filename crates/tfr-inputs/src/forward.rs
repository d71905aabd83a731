//! What the readers of Avro and Arrow IPC share: files that say themselves which columns they have, read from the start
//! to the end.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use async_trait::async_trait;
use bytes::{Buf, Bytes, BytesMut};
use datafusion_common::{DataFusionError, Result, not_impl_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_physical_plan::metrics::Count;
use datafusion_session::Session;
use datafusion_tfrecord::directory::FileNames;
use futures::{FutureExt, StreamExt, TryStreamExt};
use memchr::memmem;
use object_store::{ObjectMeta, ObjectStore};

use crate::detect::{InputFormat, other_format};
use crate::error::{Error, ErrorKind};
use crate::reader::{Batches, FileReader, Scan};
use crate::text::{self, Bytestream};

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

/// Reads files that say themselves which columns they have.
#[async_trait]
pub(crate) trait ForwardReader: fmt::Debug + Send + Sync + 'static {
    /// The name of the format in plans.
    fn name(&self) -> &'static str;

    /// The format.
    fn format(&self) -> InputFormat;

    /// Whether a file can be read in parts.
    fn can_split(&self) -> bool;

    /// The columns of a file.
    async fn schema(&self, file: Input) -> Result<SchemaRef>;

    /// Those of the wanted columns that the file has, with its types and under their names, in any order.
    async fn batches(&self, part: Part) -> Result<Batches>;
}

/// The files of a [`ForwardReader`], which are named in messages as `names` says.
#[derive(Debug)]
pub(crate) struct ForwardFiles<R> {
    reader: R,
    names: FileNames,
}

impl<R: ForwardReader> ForwardFiles<R> {
    pub(crate) fn new(reader: R, names: FileNames) -> Self {
        Self { reader, names }
    }

    fn input(&self, store: &Arc<dyn ObjectStore>, meta: ObjectMeta) -> Input {
        let name = self.names.name(&meta.location).into();
        Input { store: Arc::clone(store), meta, name }
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
            Ok(schema) => Ok(schema),
            Err(error) => {
                let name = self.names.name(&meta.location);
                Err(other_format(store, meta, &name, self.reader.format()).await.map_or(error, Into::into))
            }
        }
    }

    fn opener(self: Arc<Self>, store: Arc<dyn ObjectStore>, scan: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        let (wanted, bytes_scanned) = (scan.schema()?, scan.bytes_scanned());
        Ok(Arc::new(ForwardOpener { files: self, store, wanted, batch_size: scan.batch_size, bytes_scanned }))
    }
}

/// Opens one file or a part of one.
struct ForwardOpener<R> {
    files: Arc<ForwardFiles<R>>,
    store: Arc<dyn ObjectStore>,
    wanted: SchemaRef,
    batch_size: usize,
    bytes_scanned: Count,
}

impl<R: ForwardReader> FileOpener for ForwardOpener<R> {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (wanted, size) = (Arc::clone(&self.wanted), self.batch_size);
        let meta = file.object_meta;
        let part = Part {
            range: file.range.map_or(0..meta.size, |range| range.start as u64..range.end as u64),
            file: self.files.input(&self.store, meta),
            wanted: Arc::clone(&wanted),
            batch_size: size,
            bytes_scanned: self.bytes_scanned.clone(),
        };
        let files = Arc::clone(&self.files);
        Ok(async move {
            let name = Arc::clone(&part.file.name);
            let after_byte = Some(part.range.start).filter(|start| *start > 0);
            let batches = files.reader.batches(part).await?;
            let mut rows = 0_u64;
            let adapted = batches.map_ok(move |batch| {
                let place = Place { file: Arc::clone(&name), row: rows, after_byte };
                rows += batch.num_rows() as u64;
                let wanted = Arc::clone(&wanted);
                let starts = (0..batch.num_rows()).step_by(size);
                futures::stream::iter(starts.map(move |start| {
                    let slice = batch.slice(start, size.min(batch.num_rows() - start));
                    let place = Place { row: place.row + start as u64, ..place.clone() };
                    adapt(&slice, &wanted, &place)
                }))
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

/// Where a batch begins.
#[derive(Clone)]
struct Place {
    file: Arc<str>,
    /// Counted from 0, from this byte on if it is not the first one.
    row: u64,
    after_byte: Option<u64>,
}

/// The wanted columns, null where the file lacks one, in the types of the table.
fn adapt(batch: &RecordBatch, wanted: &SchemaRef, place: &Place) -> Result<RecordBatch> {
    let columns = wanted.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) => resolved(column, field.data_type()).map_err(|error| match error {
            ArrowError::CastError(reason) => {
                let is_unfit = |row: &usize| resolved(&column.slice(*row, 1), field.data_type()).is_err();
                let unfit = (0..column.len()).find(is_unfit).unwrap_or_default();
                let (file, column) = (place.file.to_string(), field.name().clone());
                let (row, after_byte) = (place.row + unfit as u64, place.after_byte);
                DataFusionError::from(Error::from(ErrorKind::Unfit { file, row, after_byte, column, reason }))
            }
            error => error.into(),
        }),
        None => Ok(new_null_array(field.data_type(), batch.num_rows())),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(wanted), columns, &options)?)
}

/// The values in another type: a wider one of another file, or the declared one. Fields of structs are found by name, and
/// null where there is none.
fn resolved(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    match (array.data_type(), data_type) {
        (found, wanted) if found == wanted => Ok(Arc::clone(array)),
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let parts = array.as_struct();
            let columns = fields.iter().map(|field| match parts.column_by_name(field.name()) {
                Some(part) => resolved(part, field.data_type()),
                None => Ok(new_null_array(field.data_type(), parts.len())),
            });
            let (columns, nulls) = (columns.collect::<Result<_, _>>()?, parts.nulls().cloned());
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, parts.len())?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let lists = array.as_list::<i32>();
            let items = resolved(lists.values(), item.data_type())?;
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, nulls)?))
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let maps = array.as_map();
            let found: ArrayRef = Arc::new(maps.entries().clone());
            let found = resolved(&found, entries.data_type())?.as_struct().clone();
            let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, found, nulls, *sorted)?))
        }
        (DataType::Int64, DataType::Float64) => {
            let exact = array.as_primitive::<Int64Type>().try_unary::<_, Float64Type, _>(|value| {
                let float = value as f64;
                let is_exact = float as i128 == i128::from(value);
                is_exact.then_some(float).ok_or_else(|| ArrowError::CastError(format!("{value} is no Float64")))
            });
            Ok(Arc::new(exact?))
        }
        _ => cast_with_options(array, data_type, &CastOptions { safe: false, ..CastOptions::default() }),
    }
}
