//! [`PipeStream`]: an Arrow stream on a pipe, and [`PipeTable`], the table that reads it while it arrives.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result as EngineResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use tfr_formats::ArrowPipe;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::error::{Error, Result};
use crate::spill::{SpillPlace, copy_pipe};

/// Bytes read from a pipe at a time: what Linux allows a pipe to contain.
const PIECE: usize = 1 << 20;

/// Pieces that are read ahead.
const PIECES_AHEAD: usize = 2;

/// The file that a pipe is copied to.
#[derive(Clone, Debug)]
pub struct PipeCopy {
    place: Arc<SpillPlace>,
    /// The path of the pipe, or `None` for standard input.
    pipe: Option<PathBuf>,
}

impl PipeCopy {
    /// Describes the copy of a pipe, or of standard input.
    pub fn new(place: Arc<SpillPlace>, pipe: Option<PathBuf>) -> Self {
        Self { place, pipe }
    }

    /// Writes the copy of a pipe of which `head` has been read. Returns its path.
    pub async fn write(self, head: Bytes, rest: File) -> Result<PathBuf> {
        let copied = spawn_blocking(move || {
            let input = self.pipe.clone().unwrap_or_else(|| PathBuf::from("standard input"));
            let (path, file) = self.place.create_input(self.pipe.as_deref())?;
            match copy_pipe(&head, rest, file, &path) {
                Ok(bytes) => {
                    log::info!("{}: {bytes} bytes, kept in {} for the query", input.display(), path.display());
                    Ok(path)
                }
                Err(source) => Err(Error::SpoolInput { input, path, source }),
            }
        });
        copied.await.map_err(Error::stopped)?
    }
}

/// An Arrow stream on a pipe. It can be read once, or as often as needed after it has been copied to a file.
#[derive(Debug)]
pub struct PipeStream {
    /// The name in messages.
    name: String,
    /// The file to copy the stream to, if it is read more than once.
    copy: PipeCopy,
    /// Whether the end-of-stream marker is required.
    needs_end: bool,
    /// The bytes that have been read to detect the format.
    head: Bytes,
    rest: Mutex<Rest>,
    /// How many scans of the stream have been planned.
    scans: AtomicUsize,
}

/// The bytes after the head.
#[derive(Debug)]
enum Rest {
    /// They were not read yet.
    Waiting(File),
    /// They are in the copy, like the head.
    Copied(PathBuf),
    /// A scan reads them.
    Taken,
}

impl PipeStream {
    /// Describes a stream of which `head` has been read.
    pub fn new(name: String, copy: PipeCopy, needs_end: bool, head: Bytes, rest: File) -> Self {
        Self { name, copy, needs_end, head, rest: Mutex::new(Rest::Waiting(rest)), scans: AtomicUsize::new(0) }
    }

    /// Returns how many scans of the stream have been planned.
    pub fn scans(&self) -> usize {
        self.scans.load(Ordering::Relaxed)
    }

    /// Copies the stream to its file, unless that has been done. Returns the file.
    pub async fn keep(&self) -> Result<PathBuf> {
        let rest = {
            let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
            match std::mem::replace(&mut *rest, Rest::Taken) {
                Rest::Waiting(file) => file,
                Rest::Copied(copy) => {
                    *rest = Rest::Copied(copy.clone());
                    return Ok(copy);
                }
                Rest::Taken => return Err(Error::Read { path: PathBuf::from(&self.name), source: read_twice() }),
            }
        };
        let copy = self.copy.clone().write(self.head.clone(), rest).await?;
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Rest::Copied(copy.clone());
        Ok(copy)
    }

    /// Returns all bytes. Without a copy, this succeeds once.
    fn bytes(&self) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *rest, Rest::Taken) {
            Rest::Waiting(file) => Ok(stream::iter([Ok(self.head.clone())]).chain(pieces(file)).boxed()),
            Rest::Copied(copy) => {
                let file = File::open(&copy)?;
                *rest = Rest::Copied(copy);
                Ok(pieces(file))
            }
            Rest::Taken => Err(read_twice()),
        }
    }

    async fn open(&self) -> EngineResult<ArrowPipe> {
        Ok(ArrowPipe::open(&self.name, self.bytes()?, self.needs_end).await?)
    }
}

fn read_twice() -> io::Error {
    io::Error::other("a pipe was to be read twice, which planning should have noticed")
}

/// Reads a file or pipe to its end, on a thread that may wait.
fn pieces(mut file: File) -> BoxStream<'static, io::Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    // Ends with the file, or when nobody reads any more.
    drop(spawn_blocking(move || {
        let mut buffer = vec![0; PIECE];
        loop {
            let piece = match file.read(&mut buffer) {
                Ok(0) => return,
                Ok(len) => Ok(Bytes::copy_from_slice(buffer.get(..len).unwrap_or_default())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_error = piece.is_err();
            if sender.blocking_send(piece).is_err() || is_error {
                return;
            }
        }
    }));
    stream::unfold(receiver, |mut receiver| async { receiver.recv().await.map(|piece| (piece, receiver)) }).boxed()
}

/// The rows of a [`PipeStream`].
#[derive(Debug)]
pub struct PipeTable {
    stream: Arc<PipeStream>,
    table: StreamingTable,
}

impl PipeTable {
    /// Creates the table of a stream with these columns.
    pub fn try_new(stream: Arc<PipeStream>, schema: SchemaRef) -> EngineResult<Self> {
        let rows = Arc::new(PipeRows { stream: Arc::clone(&stream), schema: Arc::clone(&schema) });
        Ok(Self { stream, table: StreamingTable::try_new(schema, vec![rows])? })
    }
}

#[async_trait]
impl TableProvider for PipeTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        self.stream.scans.fetch_add(1, Ordering::Relaxed);
        self.table.scan(session, projection, filters, limit).await
    }
}

/// The one partition of a [`PipeTable`].
#[derive(Debug)]
struct PipeRows {
    stream: Arc<PipeStream>,
    schema: SchemaRef,
}

impl PartitionStream for PipeRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = Arc::clone(&self.stream);
        let rows = context.session_config().batch_size();
        let schema = Arc::clone(&self.schema);
        let opened = async move { Ok::<_, DataFusionError>(stream.open().await?.batches(rows)) };
        // A batch has the metadata of the stream; the table's schema is the one that was planned with.
        let batches = stream::once(opened).try_flatten().and_then(move |batch| {
            let schema = Arc::clone(&schema);
            async move { Ok(batch.with_schema(schema)?) }
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
