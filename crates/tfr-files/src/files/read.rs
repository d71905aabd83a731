//! [`Files`]: converts a run of files to batches, and reads some of them ahead.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use tfr_stores::{Change, FileNames};

use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::SchemaRef;
use bytes::Bytes;
use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use datafusion_common_runtime::SpawnedTask;
use datafusion_physical_expr::projection::Projector;
use datafusion_physical_plan::metrics::Count;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::run::{CONTENT, Run};
use crate::error::{Error, ErrorKind};
use crate::memory::ReadBounds;

/// Maximum bytes of a batch, if the memory limit does not require shorter ones. A single longer file is a batch of its
/// own.
const BATCH_BYTES: u64 = 16 << 20;

/// Number of files that a partition reads concurrently. The latency of a remote store is several times the transfer
/// time of an image.
const FILES_AHEAD: usize = 16;

/// Number of batches whose bytes a partition reads concurrently. A single longer file is read alone.
const BATCHES_AHEAD: u64 = 2;

/// Maximum bytes of a value of a column of binary values.
const MAX_VALUE_LEN: u64 = i32::MAX as u64;

/// The projection of a scan.
#[derive(Debug)]
pub(super) struct Projection {
    /// The required columns, by their indices in the table.
    pub(super) columns: Vec<usize>,
    /// Their schema.
    pub(super) schema: SchemaRef,
    /// Computes the projected expressions.
    pub(super) projector: Projector,
}

/// The rows of a run.
pub(super) struct Files {
    store: Arc<dyn ObjectStore>,
    names: FileNames,
    run: Arc<Run>,
    projection: Arc<Projection>,
    batch_size: usize,
    /// Maximum bytes of a batch.
    batch_bytes: u64,
    /// Maximum bytes of a file.
    file_bytes: u64,
    /// Counts the bytes read, if contents are read.
    bytes_scanned: Option<Count>,
    /// The first file of the next batch.
    next: usize,
    /// The requested contents, starting with that of `next`.
    ahead: VecDeque<SpawnedTask<object_store::Result<Bytes>>>,
    /// Their total size in bytes.
    ahead_bytes: u64,
}

impl Files {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        names: FileNames,
        run: Arc<Run>,
        projection: Arc<Projection>,
        batch_size: usize,
        bounds: ReadBounds,
        bytes_scanned: Option<Count>,
    ) -> Self {
        let (next, ahead, ahead_bytes) = (0, VecDeque::new(), 0);
        let (batch_bytes, file_bytes) = (BATCH_BYTES.min(bounds.batch as u64), bounds.record() as u64);
        Self {
            store,
            names,
            run,
            projection,
            batch_size,
            batch_bytes,
            file_bytes,
            bytes_scanned,
            next,
            ahead,
            ahead_bytes,
        }
    }

    /// Returns the next batch; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let files = self.next..self.next + self.fitting();
        if files.is_empty() {
            return Ok(None);
        }
        let contents = match self.bytes_scanned.is_some() {
            true => Some(self.contents(files.clone()).await?),
            false => None,
        };
        self.next = files.end;
        let column = |column: &usize| match (&contents, *column) {
            (Some(contents), CONTENT) => Ok(Arc::clone(contents)),
            (_, column) => self.run.column(column, files.clone(), &self.names),
        };
        let columns = self.projection.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        let rows = RecordBatchOptions::new().with_row_count(Some(files.len()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.projection.schema), columns, &rows)?;
        let projected = self.projection.projector.project_batch(&rows);
        projected.map(Some).map_err(|error| self.name_row(&rows, &files, error))
    }

    /// Returns the number of files in the next batch.
    fn fitting(&self) -> usize {
        let most = self.batch_size.min(self.run.len() - self.next);
        if self.bytes_scanned.is_none() {
            return most;
        }
        let mut bytes: u64 = 0;
        let fits = |file: &usize| {
            bytes = bytes.saturating_add(self.run.meta(self.next + file).size);
            *file == 0 || bytes <= self.batch_bytes
        };
        (0..most).take_while(fits).count()
    }

    /// Returns the contents of files, in order.
    async fn contents(&mut self, files: Range<usize>) -> Result<ArrayRef> {
        // The size is reported by the store, so no more than the usual amount is allocated for it.
        let bytes = files.clone().fold(0, |bytes: u64, file| bytes.saturating_add(self.run.meta(file).size));
        let mut contents = match files.len() {
            1 => None,
            len => Some(BinaryBuilder::with_capacity(len, bytes.min(self.batch_bytes) as usize)),
        };
        for file in files {
            let (size, most) = (self.run.meta(file).size, self.file_bytes.min(MAX_VALUE_LEN));
            if size > most {
                let file = self.name(file);
                return Err(Error::from(ErrorKind::FileTooLong { file, size, most }).into());
            }
            self.read_ahead(file);
            let Some(content) = self.ahead.pop_front() else {
                return Err(internal_datafusion_err!("{} was not asked for", self.name(file)));
            };
            self.ahead_bytes = self.ahead_bytes.saturating_sub(size);
            let content = content.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            let content = content.map_err(|error| self.read_error(file, error))?;
            let found = content.len() as u64;
            if found != size {
                let (file, change) = (self.name(file), Change::Size { expected: size, found });
                return Err(Error::from(ErrorKind::Changed { file, change }).into());
            }
            if let Some(count) = &self.bytes_scanned {
                count.add(content.len());
            }
            match &mut contents {
                Some(contents) => contents.append_value(&content),
                // The batch has only this file, which is not copied.
                None => {
                    let offsets = OffsetBuffer::from_lengths([content.len()]);
                    return Ok(Arc::new(BinaryArray::try_new(offsets, Buffer::from(content), None)?));
                }
            }
        }
        Ok(Arc::new(contents.unwrap_or_default().finish()))
    }

    /// Requests files from `file` on, within the limits.
    fn read_ahead(&mut self, file: usize) {
        let mut next = file + self.ahead.len();
        while next < self.run.len() && self.ahead.len() < FILES_AHEAD {
            let meta = self.run.meta(next);
            if !self.ahead.is_empty() && self.ahead_bytes.saturating_add(meta.size) > BATCHES_AHEAD * self.batch_bytes {
                break;
            }
            self.ahead_bytes = self.ahead_bytes.saturating_add(meta.size);
            self.ahead.push_back(content(Arc::clone(&self.store), meta));
            next += 1;
        }
    }

    fn name(&self, file: usize) -> String {
        self.names.name(&self.run.meta(file).location)
    }

    fn read_error(&self, file: usize, error: object_store::Error) -> DataFusionError {
        match Error::change_in(&error) {
            Some(changed) => changed.into(),
            None => {
                let (file, source) = (self.name(file), error.into());
                Error::from(ErrorKind::Read { file, source }).into()
            }
        }
    }

    /// Returns the error of the first row that fails by itself, with the name of its file.
    fn name_row(&self, rows: &RecordBatch, files: &Range<usize>, error: DataFusionError) -> DataFusionError {
        let of_row = |row: usize| self.projection.projector.project_batch(&rows.slice(row, 1)).err();
        let failing = (0..rows.num_rows()).find_map(|row| Some((row, of_row(row)?)));
        match failing {
            Some((row, source)) => {
                let file = self.name(files.start + row);
                Error::from(ErrorKind::Row { file, source }).into()
            }
            None => error,
        }
    }
}

fn content(store: Arc<dyn ObjectStore>, meta: &ObjectMeta) -> SpawnedTask<object_store::Result<Bytes>> {
    let (path, size) = (meta.location.clone(), meta.size);
    SpawnedTask::spawn(async move {
        if size == 0 {
            return Ok(Bytes::new());
        }
        store.get(&path).await?.bytes().await
    })
}
