//! `--out x.parquet` and its kin: the rows of a query as a table in another format, there whole or not at all.
//!
//! [`WriteTable`] runs the plan and hands each partition's batches to a thread of its own, which has a [`TableFile`]; the
//! [`TableCommit`] keeps the files where nobody looks until the last one is on disk, the [`TableUpload`] until it can be
//! uploaded.

mod dictionaries;
mod file;
mod parquet;
mod rotation;
mod types;
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
use crate::interrupt::Interrupt;
use crate::printer::Printer;
use crate::progress::ShownProgress;
use crate::query::Query;
use crate::report::{IgnoredReport, Outcome, Report, TableReport};
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;
use file::{FileStats, TableFile};
use types::FileTypes;
use upload::TableUpload;

/// Batches that wait for the thread that writes them.
const WAITING_BATCHES: usize = 2;

/// A run that writes a table.
pub struct WriteTable<'a> {
    /// Where it goes.
    pub target: &'a TableTarget,
    /// What to do with what is there.
    pub mode: SaveMode,
    /// What the run may use.
    pub limits: Limits,
    /// Where a file waits that is uploaded.
    pub spill: &'a SpillDirectory,
    /// Who is told.
    pub printer: &'a Printer,
    /// When the command started.
    pub started: Instant,
}

impl WriteTable<'_> {
    /// Runs the query and publishes its rows. The report is for the caller to give; there is none after a signal.
    pub async fn run(
        self,
        context: &SessionContext,
        query: Query,
        interrupt: &Interrupt,
    ) -> Result<Result<Report, ExitStatus>> {
        self.check(&query.physical.schema())?;
        let plan = self.plan(context, &query)?;
        let inputs = local_inputs(&plan, &query.inputs.iter().cloned().collect::<Vec<_>>());
        let kept =
            || Report::new(Outcome::Ignored(IgnoredReport::new(&self.target.path, Vec::new())), self.started.elapsed());
        let begun = match &self.target.store {
            None => TableCommit::begin(self.target.files(), self.mode, RunId::new(), &inputs, |leftover| {
                let state = if leftover.live { "still going on" } else { "killed" };
                self.printer.warning(format!("{}: left by run {}, {state}", leftover.path.display(), leftover.run));
            })
            .map(|commit| Place::Here(commit.into()))
            .map_err(Error::from),
            Some(location) => tokio::select! {
                begun = TableUpload::begin(location, self.mode, self.spill.table(), context) => begun.map(|upload| Place::Store(upload.into())),
                status = interrupt.received() => return Ok(Err(status)),
            },
        };
        let place = match begun {
            Err(error) if self.mode == SaveMode::Ignore && is_there_already(&error) => return Ok(Ok(kept())),
            begun => begun?,
        };
        let ended = {
            let _progress = ShownProgress::of_plan(self.printer, Arc::clone(&plan))?;
            tokio::select! {
                files = self.write(context, plan, &place) => Ok(files?),
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
        let published = place.run().to_string();
        let publication = match place {
            Place::Here(commit) => {
                let published = SpawnedTask::spawn_blocking(move || commit.publish()).await.map_err(Error::stopped)?;
                published.map(Ok).map_err(Error::from)
            }
            Place::Store(upload) => upload.publish(interrupt).await,
        };
        match publication {
            Ok(Ok(())) => {}
            Ok(Err(status)) => return Ok(Err(status)),
            // Another run was quicker.
            Err(error) if self.mode == SaveMode::Ignore && is_there_already(&error) => return Ok(Ok(kept())),
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

    /// Refuses columns that the format does not have, two of one name, and none, before anything runs.
    fn check(&self, schema: &Schema) -> Result<()> {
        let nested = schema.fields().iter().filter(|field| field.data_type().is_nested());
        let columns: Vec<_> = nested.cloned().collect();
        if self.target.format == TableFormat::Csv && !columns.is_empty() {
            return Err(Error::NestedInCsv { path: self.target.path.clone(), columns });
        }
        if self.target.format == TableFormat::Parquet
            && let Some(column) = schema.fields().iter().find(|field| !types::is_in_parquet(field.data_type()))
        {
            return Err(Error::NotInParquet { path: self.target.path.clone(), column: Arc::clone(column) });
        }
        // A reader would find no rows.
        if schema.fields().is_empty() && matches!(self.target.format, TableFormat::Csv | TableFormat::Parquet) {
            return Err(Error::NoColumns { path: self.target.path.clone() });
        }
        // Readers of JSON keep one of them, those of Parquet refuse the file.
        let mut names = HashSet::new();
        match schema.fields().iter().find(|field| !names.insert(field.name())) {
            Some(field) => Err(Error::TwoColumns { path: self.target.path.clone(), column: field.name().clone() }),
            None => Ok(()),
        }
    }

    /// The plan whose partitions become files, of which an ordered query has one.
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
        place: &Place,
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
            pool: self.pool()?,
            row_group_bytes: row_group_bytes(self.limits.memory, total),
        };
        let held = MemoryConsumer::new("table files").register(&context.runtime_env().memory_pool);
        if self.target.format == TableFormat::Parquet {
            // A share that no sort will count on.
            held.grow(encoder.row_group_bytes.saturating_mul(total));
        }
        let encoder = Arc::new(encoder);
        let mut writes = JoinSet::new();
        for (index, rows) in streams.into_iter().enumerate() {
            let types = FileTypes::new(&rows.schema(), self.target.format);
            let (path, shown) = place.file(index, total);
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

    /// The threads that encode columns.
    fn pool(&self) -> Result<ThreadPool> {
        ThreadPoolBuilder::new()
            .num_threads(self.limits.threads.get())
            .thread_name(|thread| format!("table-{thread}"))
            .build()
            .map_err(|error| Error::Start { what: "the threads that write", source: std::io::Error::other(error) })
    }
}

/// Where the files of a table lie until they are whole.
enum Place {
    /// Beside the target.
    Here(Box<TableCommit>),
    /// Here, while the target is elsewhere.
    Store(Box<TableUpload>),
}

impl Place {
    /// Where file `index` of `total` is to be created, and what it is called in messages.
    fn file(&self, index: usize, total: usize) -> (PathBuf, PathBuf) {
        match self {
            Self::Here(commit) => commit.file(index, total),
            Self::Store(upload) => upload.file(),
        }
    }

    /// The run that writes the table.
    fn run(&self) -> &RunId {
        match self {
            Self::Here(commit) => commit.run(),
            Self::Store(upload) => upload.run(),
        }
    }
}

/// Whether a table was not written because its target exists.
fn is_there_already(error: &Error) -> bool {
    matches!(error, Error::Shards(error) if matches!(error.kind(), ErrorKind::AlreadyThere { .. }))
}

/// How columns are encoded, by all files of a table.
pub struct Encoder {
    /// Its settings have a say in what Parquet files are like.
    session: SessionState,
    /// The threads that encode.
    pool: ThreadPool,
    /// Bytes of encoded columns at which a row group ends, if not by its rows: they stay in memory until then.
    row_group_bytes: usize,
}

/// An eighth of the memory is for the row groups of all files.
fn row_group_bytes(memory: u64, files: usize) -> usize {
    const LEAST: usize = 1 << 20;
    const MOST: usize = 256 << 20;
    let share = usize::try_from(memory / 8).unwrap_or(usize::MAX) / files.max(1);
    share.clamp(LEAST, MOST)
}

/// Hands batches to a thread that writes them, since encoding and the disk take their time.
async fn write_file(mut rows: SendableRecordBatchStream, mut file: TableFile) -> Result<FileStats> {
    let (sender, mut receiver) = mpsc::channel(WAITING_BATCHES);
    let writer = SpawnedTask::spawn_blocking(move || {
        while let Some(next) = receiver.blocking_recv() {
            match next {
                Some(batch) => file.write(&batch)?,
                None => return file.finish().map(Some),
            }
        }
        // The query has failed, or nobody wants its rows any more.
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
        // If it was the writer that has ended, it will say why.
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
