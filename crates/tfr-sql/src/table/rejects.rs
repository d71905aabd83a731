//! [`RejectedTable`]: the table of the rows that do not fit, next to a set of shards.
//!
//! The rows of each partition go to a temporary file as they come, so that any number of them takes little memory. When
//! all are there, one Parquet file is made of them, in the order of partitions and rows.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion_tfrecord::write::{RejectTable, WriteTarget, reject_schema};
use tfrecord_shards::{ErrorKind, RunId, SaveMode, TableCommit};

use super::{Encoder, TableFile, check_columns, encoder_pool, row_group_bytes};
use crate::cli::{TableFormat, TableTarget};
use crate::error::{Error, Result};
use crate::file_types::FileTypes;
use crate::session::Limits;
use crate::spill::SpillPlace;

/// A table of rejected rows on its way to its directory.
pub struct RejectedTable {
    target: TableTarget,
    mode: SaveMode,
    /// What the directory must not overlap: the inputs, and the directory of the set.
    apart: Vec<PathBuf>,
    out: Option<PathBuf>,
    /// The types of the rows in temporary files.
    types: FileTypes,
    session: SessionState,
    limits: Limits,
    spill: Arc<SpillPlace>,
    state: Mutex<StagedRows>,
}

#[derive(Default)]
struct StagedRows {
    commit: Option<TableCommit>,
    partitions: BTreeMap<u32, Partition>,
}

/// The rejected rows of a partition.
struct Partition {
    path: PathBuf,
    writer: StreamWriter<BufWriter<File>>,
    rows: usize,
}

impl RejectedTable {
    /// Describes the table of the rejected rows of a set at `out`, whose rows have this schema.
    ///
    /// # Errors
    /// A column has the name of a column that the table adds, or a type that Parquet lacks.
    pub fn new(
        directory: &Path,
        mode: SaveMode,
        (rows, out, inputs): (&SchemaRef, &WriteTarget, Vec<PathBuf>),
        (session, limits, spill): (SessionState, Limits, Arc<SpillPlace>),
    ) -> Result<Self> {
        let (path, store) = (directory.to_owned(), None);
        let target = TableTarget { path, store, format: TableFormat::Parquet, gzip: false, is_directory: true };
        let schema = reject_schema(rows)?;
        check_columns(&target, &schema)?;
        // A set that is added to keeps its rejected rows: those of each run have a directory of their own.
        let mode = if mode == SaveMode::Overwrite { SaveMode::Overwrite } else { SaveMode::Error };
        let out = out.local().map(Path::to_owned);
        let apart = inputs.into_iter().chain(out.clone()).collect();
        let types = FileTypes::of_stream(&schema);
        Ok(Self { target, mode, apart, out, types, session, limits, spill, state: Mutex::default() })
    }

    /// Checks that the table may be written to its directory. Creates nothing.
    pub fn check(&self) -> Result<()> {
        TableCommit::check(&self.target.files(), self.mode, &self.apart).map_err(|error| self.refused(error))
    }

    /// Names the set instead of an input that it is not.
    fn refused(&self, error: tfrecord_shards::Error) -> Error {
        match (error.kind(), &self.out) {
            (ErrorKind::Overlap { input, .. }, Some(out)) if input == out => {
                Error::RejectsOverlap { rejects: self.target.path.clone(), out: out.clone() }
            }
            _ => error.into(),
        }
    }

    fn state(&self) -> MutexGuard<'_, StagedRows> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, number: u32, rows: &RecordBatch) -> Result<()> {
        let mut state = self.state();
        let partition = match state.partitions.remove(&number) {
            Some(partition) => partition,
            None => self.partition(number)?,
        };
        let partition = state.partitions.entry(number).or_insert(partition);
        let mut write = || {
            self.types.apply(&tfr_arrow::visible::visible_batch(rows)?)?.iter().try_for_each(|rows| {
                partition.rows += rows.num_rows();
                partition.writer.write(rows)
            })
        };
        write().map_err(|source| self.spilled(&partition.path, source))
    }

    /// Creates the temporary file of a partition.
    fn partition(&self, number: u32) -> Result<Partition> {
        let (path, file) = self.spill.create_rejects(number)?;
        let writer = StreamWriter::try_new(BufWriter::new(file), self.types.schema());
        let writer = writer.map_err(|source| self.spilled(&path, source))?;
        Ok(Partition { path, writer, rows: 0 })
    }

    /// The error of a temporary file.
    fn spilled(&self, path: &Path, source: ArrowError) -> Error {
        Error::Write { path: path.to_owned(), source: source.into() }
    }

    /// Makes the table's file of the temporary files.
    fn write(&self, commit: &TableCommit, partitions: BTreeMap<u32, Partition>) -> Result<()> {
        let row_group_bytes = row_group_bytes(self.limits.memory, 1);
        let held = MemoryConsumer::new("rejected rows").register(&self.session.runtime_env().memory_pool);
        held.grow(row_group_bytes);
        let encoder = Encoder { session: self.session.clone(), pool: encoder_pool(self.limits)?, row_group_bytes };
        let types = FileTypes::new(self.types.schema(), self.target.format);
        let (path, shown) = commit.file(0, 1);
        let mut file = TableFile::create(path, shown, &self.target, types, &Arc::new(encoder))?;
        for Partition { path, writer, rows } in partitions.into_values() {
            let ended = writer.into_inner().and_then(|mut file| Ok(file.flush()?));
            ended.map_err(|source| self.spilled(&path, source))?;
            let unread = |source: ArrowError| self.spilled(&path, source);
            let opened = File::open(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
            let mut found = 0;
            for rows in StreamReader::try_new(BufReader::new(opened), None).map_err(unread)? {
                let rows = rows.map_err(unread)?;
                found += rows.num_rows();
                file.write(&rows)?;
            }
            // A stream that has lost its end is a valid, shorter one.
            if found != rows {
                let problem = format!("{found} rows instead of {rows}");
                return Err(unread(ArrowError::IpcError(problem)));
            }
        }
        file.finish().map(drop)
    }
}

impl RejectTable for RejectedTable {
    fn location(&self) -> String {
        self.target.path.display().to_string()
    }

    fn begin(&self) -> Result<(), DataFusionError> {
        let commit = TableCommit::begin(self.target.files(), self.mode, RunId::new(), &self.apart, |leftover| {
            let state = if leftover.live { "still going on" } else { "killed" };
            log::warn!("{}: left by run {}, {state}", leftover.path.display(), leftover.run);
        });
        self.state().commit = Some(commit.map_err(|error| external(self.refused(error)))?);
        Ok(())
    }

    fn add(&self, partition: u32, rows: RecordBatch) -> Result<(), DataFusionError> {
        self.append(partition, &rows).map_err(external)
    }

    fn publish(&self) -> Result<(), DataFusionError> {
        let StagedRows { commit, partitions } = std::mem::take(&mut *self.state());
        let mut commit = commit.ok_or_else(|| DataFusionError::Internal("rejected rows without a table".to_owned()))?;
        self.write(&commit, partitions).map_err(external)?;
        commit.show().map_err(|error| external(error.into()))?;
        self.state().commit = Some(commit);
        Ok(())
    }

    fn withdraw(&self) {
        drop(self.state().commit.take());
    }

    fn keep(&self) {
        if let Some(commit) = self.state().commit.take() {
            commit.keep();
        }
    }
}

impl fmt::Debug for RejectedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectedTable").field("target", &self.target).field("mode", &self.mode).finish_non_exhaustive()
    }
}

fn external(error: Error) -> DataFusionError {
    match error {
        Error::Engine(error) => error,
        error => DataFusionError::External(Box::new(error)),
    }
}
