//! `--out x.parquet` and similar: writes the rows of a query atomically as a table in another format.
//!
//! [`WriteTable`] runs the plan and passes the batches of each partition to a separate thread, which has a
//! [`TableFile`]. The [`TableCommit`] keeps the files hidden until the last one is on disk. The [`TableUpload`] keeps
//! the file locally until it is uploaded.

mod dictionaries;
mod file;
mod parquet;
mod rejects;
mod rotation;
mod upload;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::Schema;
use datafusion::common::runtime::{JoinSet, SpawnedTask};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlanProperties as _, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::write::{local_inputs, spread};
use futures::StreamExt as _;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tfrecord_shards::{ErrorKind, RunId, SaveMode, TableCommit};
use tokio::sync::mpsc;

use crate::cli::{TableFormat, TableTarget};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::file_types::{self, FileTypes};
use crate::interrupt::Interrupt;
use crate::printer::Printer;
use crate::progress::ShownProgress;
use crate::query::Query;
use crate::report::{IgnoredReport, Outcome, Report, TableReport};
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;
use file::{FileStats, TableFile};
use upload::TableUpload;

pub use rejects::RejectedTable;

/// Batches queued for the thread that writes them.
const WAITING_BATCHES: usize = 2;

/// A run that writes a table.
pub struct WriteTable<'a> {
    /// The target.
    pub target: &'a TableTarget,
    /// What to do with an existing target.
    pub mode: SaveMode,
    /// The resources that the run may use.
    pub limits: Limits,
    /// The directory for a file to be uploaded.
    pub spill: &'a SpillDirectory,
    /// Receives notes and warnings.
    pub printer: &'a Printer,
    /// When the command started.
    pub started: Instant,
}

impl WriteTable<'_> {
    /// Runs the query and publishes its rows. The caller prints the report. Returns the exit status instead after a
    /// signal.
    pub async fn run(
        self,
        context: &SessionContext,
        query: Query,
        interrupt: &Interrupt,
    ) -> Result<Result<Report, ExitStatus>> {
        check_columns(self.target, &query.physical.schema())?;
        let plan = self.plan(context, &query)?;
        let inputs = local_inputs(&plan, &query.inputs.iter().cloned().collect::<Vec<_>>());
        let kept =
            || Report::new(Outcome::Ignored(IgnoredReport::new(&self.target.path, Vec::new())), self.started.elapsed());
        let begun = match &self.target.store {
            None => TableCommit::begin(self.target.files(), self.mode, RunId::new(), &inputs, |leftover| {
                let state = if leftover.live { "still going on" } else { "killed" };
                self.printer.warning(format!("{}: left by run {}, {state}", leftover.path.display(), leftover.run));
            })
            .map(|commit| TableOutput::Local(commit.into()))
            .map_err(Error::from),
            Some(location) => {
                let file = self.spill.table()?;
                tokio::select! {
                    begun = TableUpload::begin(location, self.mode, file, context) => begun.map(|upload| TableOutput::Store(upload.into())),
                    status = interrupt.received() => return Ok(Err(status)),
                }
            }
        };
        let output = match begun {
            Err(error) if self.mode == SaveMode::Ignore && is_occupied(&error) => return Ok(Ok(kept())),
            begun => begun?,
        };
        let ended = {
            let _progress = ShownProgress::of_plan(self.printer, Arc::clone(&plan))?;
            tokio::select! {
                files = self.write(context, plan, &output) => Ok(files?),
                status = interrupt.received() => Err(status),
            }
        };
        let files = match ended {
            Ok(files) => files,
            Err(status) => return Ok(Err(status)),
        };
        for finding in session::findings(context).unreported() {
            self.printer.warning(finding);
        }
        let totals = files.iter().fold(FileStats::default(), |sum, file| sum.with(*file));
        let published = output.run().to_string();
        let publication = match output {
            TableOutput::Local(commit) => {
                let published = SpawnedTask::spawn_blocking(move || commit.publish()).await.map_err(Error::stopped)?;
                published.map(Ok).map_err(Error::from)
            }
            TableOutput::Store(upload) => upload.publish(interrupt).await,
        };
        match publication {
            Ok(Ok(())) => {}
            Ok(Err(status)) => return Ok(Err(status)),
            // Another run has published first.
            Err(error) if self.mode == SaveMode::Ignore && is_occupied(&error) => return Ok(Ok(kept())),
            Err(error) => return Err(error),
        }
        let table = TableReport {
            out: self.target.path.display().to_string(),
            format: self.target.suffix(),
            run: published,
            rows: totals.rows,
            files: files.len() as u64,
            file_bytes: totals.bytes,
        };
        Ok(Ok(Report::new(Outcome::Table(table), self.started.elapsed())))
    }

    /// Returns the plan whose partitions become files. An ordered query has one partition.
    fn plan(&self, context: &SessionContext, query: &Query) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = Arc::clone(&query.physical);
        if !query.is_ordered() {
            return Ok(spread(plan, &context.state())?);
        }
        Ok(match plan.output_ordering().cloned() {
            Some(order) if plan.output_partitioning().partition_count() > 1 => {
                Arc::new(SortPreservingMergeExec::new(order, plan))
            }
            _ => plan,
        })
    }

    async fn write(
        &self,
        context: &SessionContext,
        plan: Arc<dyn ExecutionPlan>,
        output: &TableOutput,
    ) -> Result<Vec<FileStats>> {
        let partitions = plan.output_partitioning().partition_count();
        let task = session::task_context(context, plan.as_ref());
        let streams: Vec<SendableRecordBatchStream> = match self.target.is_directory {
            true => (0..partitions).map(|i| plan.execute(i, Arc::clone(&task))).collect::<Result<_, _>>()?,
            false if partitions > 1 => vec![rotation::rotate(&plan, &task)?],
            false => vec![execute_stream(plan, task)?],
        };
        let total = streams.len();
        let encoder = Encoder {
            session: context.state(),
            pool: encoder_pool(self.limits)?,
            row_group_bytes: row_group_bytes(self.limits.memory, total),
        };
        let held = MemoryConsumer::new("table files").register(&context.runtime_env().memory_pool);
        if self.target.format == TableFormat::Parquet {
            // Reserve the encoder's share, so that sorts do not use it.
            held.grow(encoder.row_group_bytes.saturating_mul(total));
        }
        let encoder = Arc::new(encoder);
        let mut writes = JoinSet::new();
        for (index, rows) in streams.into_iter().enumerate() {
            let types = FileTypes::new(&rows.schema(), self.target.format);
            let (path, shown) = output.file(index, total);
            let file = TableFile::create(path, shown, self.target, types, &encoder)?;
            writes.spawn(async move { (index, write_file(rows, file).await) });
        }
        let mut files = vec![FileStats::default(); total];
        while let Some(written) = writes.join_next().await {
            let (index, stats) = written.map_err(Error::stopped)?;
            files[index] = stats?;
        }
        Ok(files)
    }
}

/// Before anything runs, rejects columns that the format does not support, duplicate column names, and tables
/// without columns.
fn check_columns(target: &TableTarget, schema: &Schema) -> Result<()> {
    let nested = schema.fields().iter().filter(|field| field.data_type().is_nested());
    let columns: Vec<_> = nested.cloned().collect();
    if target.format == TableFormat::Csv && !columns.is_empty() {
        return Err(Error::NestedInCsv { path: target.path.clone(), columns });
    }
    if target.format == TableFormat::Parquet
        && let Some(column) = schema.fields().iter().find(|field| !file_types::is_in_parquet(field.data_type()))
    {
        return Err(Error::NotInParquet { path: target.path.clone(), column: Arc::clone(column) });
    }
    // A reader would find no rows.
    if schema.fields().is_empty() && matches!(target.format, TableFormat::Csv | TableFormat::Parquet) {
        return Err(Error::NoColumns { path: target.path.clone() });
    }
    // JSON readers keep one of them, Parquet readers reject the file.
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        Some(field) => Err(Error::TwoColumns { path: target.path.clone(), column: field.name().clone() }),
        None => Ok(()),
    }
}

/// Creates the threads that encode columns.
fn encoder_pool(limits: Limits) -> Result<ThreadPool> {
    ThreadPoolBuilder::new()
        .num_threads(limits.threads.get())
        .thread_name(|thread| format!("table-{thread}"))
        .build()
        .map_err(|error| Error::Start { what: "the threads that write", source: std::io::Error::other(error) })
}

/// Where the files of a table are until it is complete.
enum TableOutput {
    /// Next to the target.
    Local(Box<TableCommit>),
    /// In a local file, for a target in an object store.
    Store(Box<TableUpload>),
}

impl TableOutput {
    /// Returns the path of file `index` of `total`, and its name in messages.
    fn file(&self, index: usize, total: usize) -> (PathBuf, PathBuf) {
        match self {
            Self::Local(commit) => commit.file(index, total),
            Self::Store(upload) => upload.file(),
        }
    }

    /// Returns the run that writes the table.
    fn run(&self) -> &RunId {
        match self {
            Self::Local(commit) => commit.run(),
            Self::Store(upload) => upload.run(),
        }
    }
}

/// Whether a table was not written because its target exists.
fn is_occupied(error: &Error) -> bool {
    matches!(error, Error::Shards(error) if matches!(error.kind(), ErrorKind::AlreadyThere { .. }))
}

/// The column encoder, shared by all files of a table.
pub struct Encoder {
    /// Its settings affect the layout of Parquet files.
    session: SessionState,
    /// The threads that encode.
    pool: ThreadPool,
    /// Bytes of encoded columns at which a row group ends, if it does not end by its number of rows. They stay in
    /// memory until then.
    row_group_bytes: usize,
}

/// Bytes of a row group. The row groups of all files share an eighth of the memory.
fn row_group_bytes(memory: u64, files: usize) -> usize {
    const LEAST: usize = 1 << 20;
    const MOST: usize = 256 << 20;
    let share = usize::try_from(memory / 8).unwrap_or(usize::MAX) / files.max(1);
    share.clamp(LEAST, MOST)
}

/// Passes batches to a thread that writes them, because encoding and the disk take time.
async fn write_file(mut rows: SendableRecordBatchStream, mut file: TableFile) -> Result<FileStats> {
    let (sender, mut receiver) = mpsc::channel(WAITING_BATCHES);
    let writer = SpawnedTask::spawn_blocking(move || {
        while let Some(next) = receiver.blocking_recv() {
            match next {
                Some(batch) => file.write(&batch)?,
                None => return file.finish().map(Some),
            }
        }
        // The query has failed, or the receiver was dropped.
        Ok(None)
    });
    let mut failed = None;
    while let Some(batch) = rows.next().await {
        let sent = match batch {
            Ok(batch) => sender.send(Some(batch)).await.is_ok(),
            Err(error) => {
                failed = Some(error);
                false
            }
        };
        // If the writer has ended, it returns the reason.
        if !sent {
            break;
        }
    }
    if failed.is_none() {
        let _ = sender.send(None).await;
    }
    drop(sender);
    let written = writer.await.map_err(Error::stopped)?;
    match (failed, written?) {
        (None, Some(stats)) => Ok(stats),
        (Some(error), _) => Err(error.into()),
        (None, None) => Err(Error::Panic("a table file was given up without an error".to_owned())),
    }
}
