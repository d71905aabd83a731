//! Writing a set by tasks in several processes.
//!
//! ```text
//! one process            detach         creates the staging directory
//! a process per task     run_task       writes the shards of a partition, or sorts its rows
//! one process            cut_tasks      only if rows were sorted: decides where shards begin
//! a process per task     run_task       only then: writes some of the shards
//! one process            finish_tasks   publishes, and does what is left of the two steps before
//! ```
//!
//! All processes have the same plan. The set is that of one process with as many partitions, byte for byte. A task can
//! be run any number of times, also at the same time: each attempt has its own files, and the newest complete one of
//! each task counts. A task is complete once its report is on disk.
//!
//! Where all partitions write every shard together, tasks cannot: they sort their rows by the same order that a shuffle
//! or splits need, in files next to the staged shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion_common::{DataFusionError, Result, exec_err, internal_datafusion_err};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::TaskContext;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::TryStreamExt;
use tfr_files::Findings;
use tfrecord_shards::{
    AttemptId, LocalCommit, Manifest, SharedStaging, StagedShard, StagingArea, TaskReport, choose_reports,
};
use tfrecord_sidecars::stats::Statistics;

use super::commit::{Begun, TfRecordCommitExec};
use super::metrics::WriteMetrics;
use super::options::WriteOptions;
use super::report::PartitionReport;
use super::run::{Run, with_run};
use super::sorted::{Arrangement, SetCut};
use super::staging::Staging;
use super::stored_options::StoredOptions;
use crate::error::{ErrorKind, shards_error, sidecar_error};

/// The start of a run whose partitions are written by tasks.
#[derive(Debug)]
pub enum Detached {
    /// What all processes must know, apart from the plan.
    Tasks(SharedStaging),
    /// There is nothing to do, since these files exist.
    Ignored(Vec<String>),
}

/// What a task has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOutcome {
    /// The step of the run.
    pub step: TaskStep,
    /// Number of rows that the task has taken.
    pub rows: u64,
    /// Number of shards that it has staged.
    pub shards: usize,
}

/// A step of a run by tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStep {
    /// The rows of the task's partition were written to shards.
    Write,
    /// The rows of the task's partition were sorted, and are yet to be written.
    Sort,
    /// Sorted rows of all partitions were written to some of the shards.
    WriteSorted,
}

impl TfRecordCommitExec {
    /// Returns the number of tasks: one for each write partition.
    ///
    /// # Errors
    /// The plan has no write node.
    pub fn tasks(&self) -> Result<u32> {
        let partitions = self.commit_task()?.write_partitions;
        u32::try_from(partitions).map_err(|_| ErrorKind::TooManyTasks { partitions }.into())
    }

    /// Returns what [`plan_tasks`](super::plan_tasks) of another process needs: the plan of the rows, and the options.
    ///
    /// # Errors
    /// Tasks do not write such a set.
    pub fn task_input(&self) -> Result<(Arc<dyn ExecutionPlan>, StoredOptions)> {
        let (input, expected_rows) = self.write_node(|write| (Arc::clone(write.input()), write.expected_rows()))?;
        let options = WriteOptions { expected_rows, ..self.options().clone() };
        Ok((input, StoredOptions::new(&options)?))
    }

    /// Whether tasks first sort their rows, so that there are two steps of tasks.
    ///
    /// # Errors
    /// The plan has no write node.
    pub fn sorts_in_tasks(&self) -> Result<bool> {
        Ok(self.sort_order()?.is_some())
    }

    fn sort_order(&self) -> Result<Option<Arrangement>> {
        self.write_node(|write| write.sort_order(true))?
    }

    /// Creates the staging directory, and leaves it to the tasks.
    ///
    /// # Errors
    /// The target cannot be written, or is not a local directory.
    pub async fn detach(&self, context: &TaskContext) -> Result<Detached> {
        let out = &self.options().out;
        if out.local().is_none() {
            return Err(ErrorKind::TasksInStore { out: out.to_string() }.into());
        }
        match self.commit_task()?.begin(context).await? {
            Begun::Ignored(found) => Ok(Detached::Ignored(found)),
            Begun::Run(run) => {
                blocking(move || {
                    let Staging::Local(commit) = &run.staging else { return exec_err!("tasks need a local directory") };
                    Ok(Detached::Tasks(commit.clone().detach().map_err(shards_error)?))
                })
                .await
            }
        }
    }

    /// Runs a new attempt of a task: the step that the run is in. It is complete when this returns.
    ///
    /// # Errors
    /// The rows cannot be read or written, or the set was published or abandoned meanwhile.
    pub async fn run_task(&self, at: &SharedStaging, task: u32, context: &TaskContext) -> Result<TaskOutcome> {
        let tasks = self.tasks()?;
        if task >= tasks {
            return Err(ErrorKind::NoTask { task, tasks }.into());
        }
        let area = StagingArea::join(at, AttemptId::new()).map_err(shards_error)?;
        let run = Run::begin(Staging::Task(area.clone()), self.options(), Some(self.start_run()))?;
        let done = match area.cut().map_err(shards_error)? {
            Some(cut) => self.write_sorted(&run, &area, &cut, task).await,
            None => self.write_partition(&run, &area, task, context).await,
        };
        run.end_shared();
        done
    }

    /// Writes or sorts the rows of a partition.
    async fn write_partition(
        &self,
        run: &Arc<Run>,
        area: &StagingArea,
        task: u32,
        context: &TaskContext,
    ) -> Result<TaskOutcome> {
        let context = Arc::new(with_run(context, run));
        let stream = self.write_node(|write| write.execute(task as usize, Arc::clone(&context)))??;
        let batches: Vec<_> = stream.try_collect().await?;
        let reports: Vec<_> = batches.iter().map(PartitionReport::from_batch).collect::<Result<_>>()?;
        let Some(PartitionReport { rows, shards, .. }) = reports.into_iter().flatten().next() else {
            return exec_err!("task {task} has not reported");
        };
        let mut report = area.report(task, shards);
        let mut step = TaskStep::Write;
        if let Some((runs, groups)) = run.take_sorted() {
            report = report.with_runs(&runs, groups).map_err(shards_error)?;
            step = TaskStep::Sort;
        }
        if let Some(statistics) = run.take_statistics()? {
            report = report.with_statistics(statistics.to_bytes().map_err(sidecar_error)?);
        }
        for finding in Findings::of(context.session_config()).iter().flat_map(|findings| findings.unreported()) {
            report = report.with_note(finding.to_string());
        }
        let shards = report.shards.len();
        put(area, report).await?;
        Ok(TaskOutcome { step, rows, shards })
    }

    /// Writes some of the shards of sorted rows.
    async fn write_sorted(&self, run: &Arc<Run>, area: &StagingArea, cut: &[u8], task: u32) -> Result<TaskOutcome> {
        let (cut, plan) = SetCut::parse(cut)?;
        // After those of the tasks that have sorted the rows.
        let partition = u32::try_from(cut.sorted.len()).ok().and_then(|sorted| sorted.checked_add(task));
        let partition = partition.ok_or(ErrorKind::TooManyTasks { partitions: cut.sorted.len() })?;
        let metrics = WriteMetrics::new(&ExecutionPlanMetricsSet::new(), task as usize);
        let shards = cut.write(&plan, task as usize, (run, partition), &metrics).await?;
        let (rows, number) = (shards.iter().map(|shard| shard.rows).sum(), shards.len());
        put(area, area.report(partition, shards)).await?;
        Ok(TaskOutcome { step: TaskStep::WriteSorted, rows, shards: number })
    }

    /// Decides where the shards of sorted rows begin, if all tasks have sorted theirs. Returns the number of tasks that
    /// have shards to write: those from 0 on. Decides once, whatever attempts come later.
    ///
    /// # Errors
    /// Tasks have not reported, or temporary files fail.
    pub async fn cut_tasks(&self, at: &SharedStaging) -> Result<usize> {
        let Some(arrangement) = self.sort_order()? else { return Ok(0) };
        let area = StagingArea::join(at, AttemptId::new()).map_err(shards_error)?;
        let (tasks, options) = (self.tasks()?, Arc::new(self.options().clone()));
        let run = Run::begin(Staging::Task(area.clone()), &options, Some(self.start_run()))?;
        let job = move |_: &Run| {
            let bytes = match area.cut().map_err(shards_error)? {
                Some(bytes) => bytes,
                None => {
                    let reports = area.reports().map_err(shards_error)?.into_iter();
                    let sorted = reports.filter(|report| report.partition < tasks);
                    let reports = choose_reports(sorted, Some(tasks)).map_err(shards_error)?;
                    area.put_cut(&SetCut::decide(&area, &reports, &arrangement, &options)?).map_err(shards_error)?
                }
            };
            Ok(SetCut::parse(&bytes)?.0.tasks.len())
        };
        run.compute(job).await
    }

    /// Publishes the set. Sorted rows that are not written yet are written here.
    ///
    /// # Errors
    /// Tasks have not reported; then nothing changes, and the run can be finished later. Or the set cannot be
    /// published; then everything staged is removed.
    pub async fn finish_tasks(&self, at: &SharedStaging, context: &TaskContext) -> Result<Arc<Manifest>> {
        let Complete { rows, written, statistics } = self.complete(at, context).await?;
        let (mode, at) = (self.options().mode, at.clone());
        let (commit, mut shards) = blocking(move || {
            let commit = LocalCommit::resume(&at, mode).map_err(shards_error)?;
            let shards = commit.adopt(&written).map_err(shards_error)?;
            Ok((commit, shards))
        })
        .await?;
        if self.sorts_in_tasks()? {
            // Shards of sorted rows are numbered over the whole set.
            shards.iter_mut().for_each(|shard| shard.partition = 0);
        }
        let mut of_partition: BTreeMap<u32, Vec<StagedShard>> = BTreeMap::new();
        for shard in shards {
            of_partition.entry(shard.partition).or_default().push(shard);
        }
        let report = |(partition, rows)| {
            let shards = of_partition.remove(&partition).unwrap_or_default();
            (partition, PartitionReport { partition, rows, shards })
        };
        let reports = rows.into_iter().map(report).collect();
        let run = Run::begin(Staging::Local(commit), self.options(), Some(self.start_run()))?;
        self.commit_task()?.publish(&run, reports, statistics).await?;
        self.summary().ok_or_else(|| internal_datafusion_err!("the set was published without a manifest"))
    }

    /// Returns what there is to publish, once all tasks are complete.
    async fn complete(&self, at: &SharedStaging, context: &TaskContext) -> Result<Complete> {
        let tasks = self.tasks()?;
        let writers = self.cut_tasks(at).await?;
        for writer in 0..writers {
            let partition = tasks as usize + writer;
            let area = StagingArea::join(at, AttemptId::new()).map_err(shards_error)?;
            let mut reports = area.reports().map_err(shards_error)?.into_iter();
            if !reports.any(|report| report.partition as usize == partition) {
                self.run_task(at, writer as u32, context).await?;
            }
        }
        let area = StagingArea::join(at, AttemptId::new()).map_err(shards_error)?;
        let reports = area.reports().map_err(shards_error)?;
        let (sorted, written) = match area.cut().map_err(shards_error)? {
            None => {
                let reports = choose_reports(reports, Some(tasks)).map_err(shards_error)?;
                (reports.clone(), reports)
            }
            Some(cut) => {
                let attempts = (0..).zip(SetCut::parse(&cut)?.0.sorted);
                let sorted = attempts.map(|(task, attempt)| area.report_of(task, attempt));
                let sorted = sorted.collect::<Result<Vec<_>, _>>().map_err(shards_error)?;
                // Reports are in the order of attempts.
                let newest: BTreeMap<_, _> = reports.into_iter().map(|report| (report.partition, report)).collect();
                (sorted, newest.into_values().filter(|report| report.partition >= tasks).collect())
            }
        };
        let mut statistics: Option<Statistics> = None;
        for report in &sorted {
            report.notes.iter().for_each(|note| log::warn!("{note}"));
            let Some(bytes) = &report.statistics else { continue };
            let of_task = Statistics::from_bytes(bytes).map_err(sidecar_error)?;
            match &mut statistics {
                Some(all) => all.merge(&of_task).map_err(sidecar_error)?,
                None => statistics = Some(of_task),
            }
        }
        let rows = sorted.iter().map(|report| (report.partition, report.rows)).collect();
        Ok(Complete { rows, written, statistics })
    }
}

/// What complete tasks have staged.
struct Complete {
    /// The number of rows of each write partition.
    rows: Vec<(u32, u64)>,
    /// The reports of the shards.
    written: Vec<TaskReport>,
    statistics: Option<Statistics>,
}

/// Puts the report of a task, which makes it complete.
async fn put(area: &StagingArea, report: TaskReport) -> Result<()> {
    let area = area.clone();
    blocking(move || area.put_report(&report).map_err(shards_error)).await
}

async fn blocking<T: Send + 'static>(job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let joined = SpawnedTask::spawn_blocking(job).await;
    joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}
