//! Writes on a cluster: an engine runs parts of the plan in other processes, and this one commits.
//!
//! No plan is encoded. This process plans the query and cuts the plan of its rows where rows are exchanged; each worker
//! plans the same query again, compares the result and all files that it reads by a digest, and takes the part that it is
//! asked for.
//! So no option, expression or file can be lost on the way, and whatever differs is an error. What travels is
//! [`FragmentExec`], which says which part to compute, and the exchanges of the engine.
//!
//! Parts of the root write shards as the tasks of `--plan` do: each attempt has files of its own, and the newest complete
//! one counts.

mod fragments;
mod input;
mod job;
mod job_plan;
mod planning;
mod worker;

use std::ffi::OsString;
use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::TfRecordCommitExec;
use datafusion_tfrecord::write::{Detached, SharedWrite, TaskProgress, TaskStep};
use tokio::time;

use crate::cli::values;
use crate::error::{Error, Result, TaskError};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::listener::Progress;
use crate::mapping::Vocabularies;
use crate::printer::Printer;
use crate::progress::ShownProgress;
use crate::query::Query;
use crate::report::{IgnoredReport, Outcome, Report, ShardsReport};
use crate::session;
use crate::tasks::plan_file::PlanFile;
use crate::tasks::planned_rows::Rows;
use crate::tasks::rows_digest::RowsDigest;
use crate::tasks::stored_query::{ExpectedRows, StoredQuery};
use crate::write::WriteShards;

use fragments::Fragments;
use job_plan::JobPlan;

pub use crate::error::{ClusterError, RemoteError, Retry};
pub use job::{EncodedFragment, FragmentExec};
pub(crate) use planning::{divide, prepare};
pub use worker::{Worker, WorkerOptions};

/// An engine that runs plans in other processes.
#[async_trait]
pub trait Cluster: fmt::Debug + Send + Sync {
    /// Computes all partitions of a plan, and discards the rows. If the future is dropped, the engine stops.
    ///
    /// # Errors
    /// The engine cannot be reached, or the plan failed.
    async fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<(), ClusterError>;

    /// As [`run`](Self::run), and returns the rows, which are few.
    ///
    /// # Errors
    /// As [`run`](Self::run), or the rows were lost on the way.
    async fn collect(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, ClusterError>;
}

/// Parses an amount of memory such as `512MiB`, as `--memory-limit` of the command does.
///
/// # Errors
/// It is none, or less than 8 MiB.
pub fn memory_limit(text: &str) -> Result<NonZeroU64, String> {
    values::memory(text)
}

/// Returns the cluster at an address of `--cluster`, without connecting to it.
pub type Connect = Arc<dyn Fn(&str) -> Result<Arc<dyn Cluster>, ClusterError> + Send + Sync>;

/// Cluster support, which only some builds of the command have.
#[derive(Clone)]
pub struct ClusterSupport {
    /// Finds the cluster of `--cluster`.
    pub connect: Connect,
    /// The processes of a cluster, for the list of tools. The build runs them itself.
    pub processes: Vec<clap::Command>,
}

impl From<Connect> for ClusterSupport {
    fn from(connect: Connect) -> Self {
        Self { connect, processes: Vec::new() }
    }
}

/// A query that runs on a cluster.
pub(crate) struct ClusterQuery<'a> {
    /// The cluster.
    pub cluster: &'a dyn Cluster,
    /// The session that plans it.
    pub context: &'a SessionContext,
    /// The arguments of the command, from the program name on.
    pub arguments: &'a [OsString],
    /// The SQL text.
    pub text: &'a str,
    /// Number of partitions.
    pub partitions: NonZeroUsize,
}

impl ClusterQuery<'_> {
    fn stored(&self, query: &Query, rows: &Arc<dyn ExecutionPlan>) -> Result<StoredQuery> {
        if query.inputs.contains("-") {
            return Err(TaskError::Unrepeatable { what: "standard input".to_owned() }.into());
        }
        let rows = ExpectedRows::Digest(RowsDigest::of(&Rows::of(rows, false)?));
        StoredQuery::new(self.arguments, self.text, session::time(self.context), self.partitions, rows)
    }

    /// Collects the vocabularies of a query.
    pub async fn collect_values(&self, query: &Query, vocabularies: &mut Vocabularies) -> Result<()> {
        let (rows, fragments) = planning::rows(self.context, &vocabularies.columns(&query.logical)?).await?;
        let plan = JobPlan::Values(self.stored(query, &rows)?).to_json()?;
        let found = self.cluster.collect(FragmentExec::values(&fragments, &plan)?).await?;
        let partitions = fragments.get(Fragments::ROOT)?.plan.output_partitioning().partition_count();
        if found.len() != partitions {
            let message = format!("expected the values of {partitions} partitions, found those of {}", found.len());
            return Err(ClusterError::failed(&message).into());
        }
        found.iter().try_for_each(|batch| vocabularies.merge(batch))
    }

    /// Counts the rows of a query.
    pub async fn count(&self, query: &Query) -> Result<u64> {
        let (rows, fragments) = planning::rows(self.context, &planning::count(query)?).await?;
        let plan = JobPlan::Count(self.stored(query, &rows)?).to_json()?;
        let found = self.cluster.collect(FragmentExec::rows(&fragments, Fragments::ROOT, &plan)?).await?;
        let counts = found.iter().filter(|batch| batch.num_rows() > 0).flat_map(RecordBatch::columns).next();
        let count = counts.and_then(|counts| counts.as_primitive_opt::<Int64Type>()).map(|counts| counts.value(0));
        let expected = || Error::Cluster(ClusterError::failed("expected the number of rows, found nothing"));
        count.and_then(|count| u64::try_from(count).ok()).ok_or_else(expected)
    }

    /// Writes the rows of a query. Returns the exit status instead after a signal.
    pub async fn write(
        &self,
        write: WriteShards<'_>,
        query: Query,
        interrupt: &Interrupt,
    ) -> Result<Result<Report, ExitStatus>> {
        let context = self.context;
        let options = match write.counted(context, &query, interrupt, async || self.count(&query).await).await? {
            Ok(options) => options,
            Err(status) => return Ok(Err(status)),
        };
        let out = PathBuf::from(options.out.to_string());
        let (commit, fragments) = planning::write(context, &query, &options).await?;
        let warnings = commit.mapping().map(|mapping| mapping.warnings()).unwrap_or_default();
        warnings.iter().for_each(|warning| write.printer.loss(warning));
        let (input, stored) = commit.task_input()?;
        let stored_query = self.stored(&query, &input)?;
        let task = session::task_context(context, commit.as_ref());
        let staging = match commit.detach(&task).await? {
            Detached::Ignored(found) => {
                let outcome = Outcome::Ignored(IgnoredReport::new(&out, found));
                return Ok(Ok(Report::new(outcome, write.started.elapsed())));
            }
            Detached::Tasks(staging) => staging,
        };
        let work = async {
            let plan = JobPlan::Write(Box::new(PlanFile::new(stored_query, stored, staging.clone()))).to_json()?;
            let (commit, fragments, staging, task) = (commit.as_ref(), &fragments, &staging, task.as_ref());
            let job =
                ClusterJob { cluster: self.cluster, commit, fragments, plan, staging, task, printer: write.printer };
            job.run().await?;
            commit.finish_tasks(staging, false, task).await?;
            Ok::<_, Error>(())
        };
        let ended = tokio::select! {
            done = work => done.map(|()| None),
            status = interrupt.received() => Ok(Some(status)),
        };
        commit.settled().await;
        // Even if the signal came just before the set was published.
        if let Some(manifest) = commit.summary() {
            let outcome = Outcome::Shards(ShardsReport::new(&out, &manifest, warnings));
            return Ok(Ok(Report::new(outcome, write.started.elapsed())));
        }
        let abandoned = staging.abandon(&options, &task).await;
        let ended = ended.inspect_err(|_| {
            // The reason why the write failed is more useful than that of what is left behind.
            if let Err(error) = &abandoned {
                log::warn!("what was staged could not be removed: {error}");
            }
        })?;
        abandoned?;
        match ended {
            Some(status) => Ok(Err(status)),
            None => Err(Error::Panic("the shards were written, but no set came of it".to_owned())),
        }
    }
}

/// How often the reports of tasks are counted, each time by a request if they are in an object store.
const WATCH: Duration = Duration::from_secs(2);

fn progress(found: &TaskProgress) -> Progress {
    let TaskProgress { step, done, tasks } = *found;
    let what = match step {
        TaskStep::Write => "have written their rows",
        TaskStep::Sort => "have sorted their rows",
        TaskStep::WriteSorted => "have written their shards",
    };
    let share = (tasks > 0).then(|| done as f64 / tasks as f64);
    Progress { share, rows: None, message: format!("{done} of {tasks} tasks {what}") }
}

/// The jobs of one write.
struct ClusterJob<'a> {
    cluster: &'a dyn Cluster,
    commit: &'a TfRecordCommitExec,
    fragments: &'a Fragments,
    plan: Arc<[u8]>,
    staging: &'a SharedWrite,
    task: &'a TaskContext,
    printer: &'a Printer,
}

impl ClusterJob<'_> {
    /// Stages all shards.
    async fn run(&self) -> Result<()> {
        let tasks = self.commit.tasks()? as usize;
        self.step(FragmentExec::write(self.fragments, &self.plan, tasks)?).await?;
        if self.commit.sorts_in_tasks()? {
            let writers = self.commit.cut_tasks(self.staging, self.task).await?;
            if writers > 0 {
                self.step(FragmentExec::write_sorted(&self.plan, writers)?).await?;
            }
        }
        Ok(())
    }

    /// Runs a step of the write, and shows how many of its tasks are complete.
    async fn step(&self, plan: Arc<dyn ExecutionPlan>) -> Result<()> {
        if self.printer.progress_interval().is_none() {
            return Ok(self.cluster.run(plan).await?);
        }
        let found = Arc::new(Mutex::new(self.commit.task_progress(self.staging, self.task).await?));
        let shown = Arc::clone(&found);
        let _progress = ShownProgress::start(self.printer, move || {
            progress(&shown.lock().unwrap_or_else(PoisonError::into_inner))
        })?;
        let watch = async {
            loop {
                time::sleep(WATCH).await;
                match self.commit.task_progress(self.staging, self.task).await {
                    Ok(newer) => *found.lock().unwrap_or_else(PoisonError::into_inner) = newer,
                    // The job has errors of its own.
                    Err(error) => log::debug!("the progress is not known: {error}"),
                }
            }
        };
        tokio::select! {
            done = self.cluster.run(plan) => Ok(done?),
            () = watch => Ok(()),
        }
    }
}
