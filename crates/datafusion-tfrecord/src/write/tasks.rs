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
//!
//! In an object store the staged shards are uploads that are not completed. Their ids and the reports are objects below
//! the prefix, which [`tfrecord_shards::objects`] describes; sorted rows are in a directory,
//! [`WriteOptions::scratch`](super::WriteOptions::scratch). A publication that has failed can be repeated in both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion_common::{Result, exec_err, internal_err};
use datafusion_execution::TaskContext;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::TryStreamExt;
use tfr_files::Findings;
use tfrecord_shards::{AttemptError, Manifest, SharedStaging, StagedShard, TaskReport, choose_reports};
use tfrecord_sidecars::stats::Statistics;

use super::attempt_store::AttemptStore;
use super::commit::{TfRecordCommitExec, WriteOutcome};
use super::metrics::WriteMetrics;
use super::options::{Layout, WriteOptions};
use super::report::PartitionReport;
use super::run::{Run, with_run};
use super::running::{Begun, blocking};
use super::shards::Shards;
use super::shared::SharedWrite;
use super::sorted::{Arrangement, SetCut};
use super::staging::Staging;
use super::task_reports::TaskReports;
use super::task_staging::TaskStaging;
use crate::error::{ErrorKind, refused, shards_error, sidecar_error};

/// The start of a run whose partitions are written by tasks.
#[derive(Debug)]
pub enum Detached {
    /// What all processes must know, apart from the plan.
    Tasks(SharedWrite),
    /// There is nothing to do, since these files exist.
    Ignored(Vec<String>),
}

/// What a task has done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
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

/// How far a step of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskProgress {
    /// The step.
    pub step: TaskStep,
    /// Number of tasks that are complete.
    pub done: usize,
    /// Number of tasks.
    pub tasks: usize,
}

impl TfRecordCommitExec {
    /// Returns the number of tasks: one for each write partition.
    ///
    /// # Errors
    /// The plan has no write node.
    pub fn tasks(&self) -> Result<u32> {
        let partitions = self.commit_task()?.write_partitions;
        u32::try_from(partitions).map_err(|_| too_many_tasks(partitions).into())
    }

    /// Returns what [`plan_tasks`](super::plan_tasks) of another process needs: the plan of the rows, and the options.
    ///
    /// # Errors
    /// The set is a saved dataset, which tasks do not write, or rows are to be rejected ([`ErrorKind::Refused`]).
    pub fn task_input(&self) -> Result<(Arc<dyn ExecutionPlan>, WriteOptions)> {
        let (input, expected_rows) = self.write_node(|write| (Arc::clone(write.input()), write.expected_rows()))?;
        if self.options().layout != Layout::Shards {
            return Err(refused("tasks do not write a saved dataset of tf.data").into());
        }
        if self.options().rejects.is_some() {
            return Err(refused("tasks do not reject rows").into());
        }
        Ok((input, WriteOptions { expected_rows, ..self.options().clone() }))
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

    /// Creates the staging directory, or what takes its place in an object store, and leaves it to the tasks.
    ///
    /// # Errors
    /// The target cannot be written, or there is no directory for rows that tasks must sort
    /// ([`ErrorKind::NoScratch`]).
    pub async fn detach(&self, context: &TaskContext) -> Result<Detached> {
        let (sorts, out, scratch) = (self.sorts_in_tasks()?, &self.options().out, &self.options().scratch);
        if sorts && out.local().is_none() && scratch.is_none() {
            return Err(ErrorKind::NoScratch.into());
        }
        if self.options().rejects.is_some() {
            return Err(refused("tasks do not reject rows").into());
        }
        let run = match self.commit_task()?.begin(context).await? {
            Begun::Ignored(found) => return Ok(Detached::Ignored(found)),
            Begun::Run(run) => run,
        };
        let Some(commit) = run.staging.commit.clone() else { return internal_err!("a run without a set") };
        // Before the run outlives this process.
        let scratch = match scratch.clone().filter(|_| sorts) {
            Some(dir) => {
                let id = commit.run().clone();
                Some(blocking(move || SharedStaging::create_scratch(&dir, id).map_err(shards_error)).await?)
            }
            None => None,
        };
        let shards = run.compute(move |_| commit.detach().map_err(shards_error));
        match (shards.await, scratch) {
            (Ok(shards), scratch) => Ok(Detached::Tasks(SharedWrite { shards, scratch })),
            (Err(error), Some(scratch)) => {
                // What cannot be removed now has an expired lease one day.
                let _unremoved = blocking(move || scratch.remove_scratch().map_err(shards_error)).await;
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Runs a new attempt of a task: the step that the run is in. It is complete when this returns.
    ///
    /// # Errors
    /// The rows cannot be read or written, or the set was published or abandoned meanwhile.
    pub async fn run_task(&self, at: &SharedWrite, task: u32, context: &TaskContext) -> Result<TaskOutcome> {
        let tasks = self.tasks()?;
        if task >= tasks {
            return Err(refused(format!("there is no task {task}: expected one of {tasks}, from 0")).into());
        }
        let (shards, staging) = at.join(self.options(), context, self.start_run()).await?;
        let cut = staging.cut()?;
        let held = Staging { shards, commit: None, task: Some(staging.clone()) };
        let run = Run::begin(held, self.options(), Some(self.start_run()))?;
        let done = match cut {
            Some(cut) => self.write_sorted(&run, &staging, &cut, task).await,
            None => self.write_partition(&run, &staging, task, context).await,
        };
        run.end_shared();
        done
    }

    /// Writes or sorts the rows of a partition.
    async fn write_partition(
        &self,
        run: &Arc<Run>,
        staging: &TaskStaging,
        task: u32,
        context: &TaskContext,
    ) -> Result<TaskOutcome> {
        let context = Arc::new(with_run(context, run));
        let stream = self.write_node(|write| write.execute(task as usize, Arc::clone(&context)))??;
        let _counts: Vec<_> = stream.try_collect().await?;
        let Some(PartitionReport { rows, shards, statistics, sorted }) = run.take_reports().remove(&task) else {
            return exec_err!("task {task} has not reported");
        };
        let mut report = staging.report(task, shards);
        let mut step = TaskStep::Write;
        if let Some((runs, groups)) = sorted {
            report = report.with_runs(&runs, groups).map_err(shards_error)?;
            step = TaskStep::Sort;
        }
        if let Some(statistics) = statistics {
            report = report.with_statistics(statistics.to_bytes().map_err(sidecar_error)?);
        }
        let findings = Findings::of(context.session_config());
        for finding in findings.iter().flat_map(|findings| findings.unreported()) {
            report = report.with_note(finding.to_string());
        }
        report = report.with_damaged_records(findings.map_or(0, |findings| findings.damaged_records()));
        let shards = report.shards.len();
        put_report(run, staging, report).await?;
        Ok(TaskOutcome { step, rows, shards })
    }

    /// Writes some of the shards of sorted rows.
    async fn write_sorted(&self, run: &Arc<Run>, staging: &TaskStaging, cut: &[u8], task: u32) -> Result<TaskOutcome> {
        let (cut, plan) = SetCut::parse(cut)?;
        // After those of the tasks that have sorted the rows.
        let partition = u32::try_from(cut.sorted.len()).ok().and_then(|sorted| sorted.checked_add(task));
        let partition = partition.ok_or_else(|| too_many_tasks(cut.sorted.len()))?;
        let metrics = WriteMetrics::new(&ExecutionPlanMetricsSet::new(), task as usize);
        let shards = cut.write(&plan, task as usize, (run, partition), &metrics).await?;
        let (rows, number) = (shards.iter().map(|shard| shard.rows).sum(), shards.len());
        put_report(run, staging, staging.report(partition, shards)).await?;
        Ok(TaskOutcome { step: TaskStep::WriteSorted, rows, shards: number })
    }

    /// Decides where the shards of sorted rows begin, if all tasks have sorted theirs. Returns the number of tasks that
    /// have shards to write: those from 0 on. Decides once, whatever attempts come later.
    ///
    /// # Errors
    /// Tasks have not reported, or temporary files fail.
    pub async fn cut_tasks(&self, at: &SharedWrite, context: &TaskContext) -> Result<usize> {
        let Some(arrangement) = self.sort_order()? else { return Ok(0) };
        let reports = TaskReports::open(at, self.options(), context).await?;
        if let Some(bytes) = reports.cut()? {
            return Ok(SetCut::parse(&bytes)?.0.tasks.len());
        }
        let (tasks, options, area) = (self.tasks()?, Arc::new(self.options().clone()), reports.rows()?.clone());
        let sorted = reports.all().await?.into_iter().filter(|report| report.partition < tasks);
        let sorted = choose_reports(sorted, Some(tasks)).map_err(shards_error)?;
        let staging = Staging { shards: Shards::Files(Arc::new(area.clone())), commit: None, task: None };
        let run = Run::begin(staging, &options, Some(self.start_run()))?;
        let job = move |_: &Run| {
            let cut = SetCut::decide(area.runs(), &sorted, &arrangement, &options)?;
            let bytes = area.put_cut(&cut).map_err(shards_error)?;
            Ok(SetCut::parse(&bytes)?.0.tasks.len())
        };
        run.compute(job).await
    }

    /// Returns how many tasks of the step that the run is in are complete.
    ///
    /// # Errors
    /// The set is published or abandoned, or the file system or the store fails.
    pub async fn task_progress(&self, at: &SharedWrite, context: &TaskContext) -> Result<TaskProgress> {
        let tasks = self.tasks()?;
        let reports = TaskReports::open(at, self.options(), context).await?;
        let complete = reports.complete().await?;
        let done = |numbers: &dyn Fn(u32) -> bool| complete.iter().filter(|task| numbers(**task)).count();
        if let Some(cut) = reports.cut()? {
            let writers = SetCut::parse(&cut)?.0.tasks.len();
            return Ok(TaskProgress { step: TaskStep::WriteSorted, done: done(&|task| task >= tasks), tasks: writers });
        }
        let step = if self.sorts_in_tasks()? { TaskStep::Sort } else { TaskStep::Write };
        Ok(TaskProgress { step, done: done(&|task| task < tasks), tasks: tasks as usize })
    }

    /// Publishes the set. Sorted rows that are not written yet are written here. With `verify`, the checksums of shards
    /// in a directory are compared first.
    ///
    /// Can be repeated whatever has become of an earlier call. If the set is published already, returns its manifest.
    ///
    /// # Errors
    /// Tasks have not reported, or the set cannot be published. What the tasks have staged is retained until the run is
    /// finished or [abandoned](SharedWrite::abandon).
    pub async fn finish_tasks(&self, at: &SharedWrite, verify: bool, context: &TaskContext) -> Result<Arc<Manifest>> {
        let attempts = at.attempts(self.options(), context)?;
        let (manifest, completed) = match attempts.published().await? {
            Some(manifest) => (Arc::new(manifest), BTreeSet::new()),
            None => self.publish_tasks(at, attempts.as_ref(), verify, context).await?,
        };
        attempts.end(&completed).await?;
        at.remove_scratch().await?;
        Ok(manifest)
    }

    /// Publishes the set, and returns its manifest and the ids of its uploads.
    async fn publish_tasks(
        &self,
        at: &SharedWrite,
        attempts: &dyn AttemptStore,
        verify: bool,
        context: &TaskContext,
    ) -> Result<(Arc<Manifest>, BTreeSet<String>)> {
        // First: it brings back the files that a process which failed to publish the set has moved.
        let resumed = attempts.resume().await?;
        let mut complete = self.complete(at, context).await?;
        let mut repeated = BTreeSet::new();
        while verify && let Err(error) = resumed.verify(&complete.written).await? {
            self.run_task(at, self.repeatable(error, &mut repeated)?, context).await?;
            complete = self.complete(at, context).await?;
        }
        let Complete { partitions, written, created, damaged_records } = complete;
        let (staging, mut shards) = resumed.adopt(written, created, self.start_run()).await?;
        let completed = shards.iter().filter_map(|shard| Some(shard.upload.as_ref()?.id.clone())).collect();
        if self.sorts_in_tasks()? {
            // Shards of sorted rows are numbered over the whole set.
            shards.iter_mut().for_each(|shard| shard.partition = 0);
        }
        let mut of_partition: BTreeMap<u32, Vec<StagedShard>> = BTreeMap::new();
        for shard in shards {
            of_partition.entry(shard.partition).or_default().push(shard);
        }
        let report = |(partition, rows, statistics)| {
            let shards = of_partition.remove(&partition).unwrap_or_default();
            (partition, PartitionReport { rows, shards, statistics, sorted: None })
        };
        let reports = partitions.into_iter().map(report).collect();
        let run = Run::begin(staging, self.options(), Some(self.start_run()))?;
        self.commit_task()?.publish(&run, reports, damaged_records).await?;
        match self.outcome() {
            Some(WriteOutcome::Written(manifest)) => Ok((manifest, completed)),
            Some(WriteOutcome::Ignored { found }) => {
                let path = self.options().out.named();
                Err(shards_error(tfrecord_shards::ErrorKind::NotEmpty { path, found }.into()))
            }
            None => internal_err!("the set was published without a manifest"),
        }
    }

    /// Returns the task that has staged damaged shards of sorted rows, if it is in none of `repeated`. It can be run again
    /// here, as tasks that have not written theirs are.
    ///
    /// # Errors
    /// `error`, if it is another one.
    fn repeatable(&self, error: tfrecord_shards::Error, repeated: &mut BTreeSet<u32>) -> Result<u32> {
        let task = match error.kind() {
            tfrecord_shards::ErrorKind::Attempt(AttemptError::DamagedTask { task, .. }) => {
                task.checked_sub(self.tasks()?)
            }
            _ => None,
        };
        task.filter(|writer| repeated.insert(*writer)).ok_or_else(|| shards_error(error))
    }

    /// Returns what there is to publish, once all tasks are complete.
    async fn complete(&self, at: &SharedWrite, context: &TaskContext) -> Result<Complete> {
        let tasks = self.tasks()?;
        let writers = self.cut_tasks(at, context).await?;
        let reports = TaskReports::open(at, self.options(), context).await?;
        let mut repeated = BTreeSet::new();
        let reported = loop {
            match reports.sound().await? {
                Ok(sound) => break sound.into_iter().map(|report| report.partition).collect::<BTreeSet<_>>(),
                Err(error) => {
                    self.run_task(at, self.repeatable(error, &mut repeated)?, context).await?;
                }
            }
        };
        for writer in 0..writers as u32 {
            if !reported.contains(&tasks.saturating_add(writer)) {
                self.run_task(at, writer, context).await?;
            }
        }
        let all = reports.all().await?;
        let (sorted, (written, created)) = match reports.cut()? {
            None => {
                let chosen = choose_reports(all, Some(tasks)).map_err(shards_error)?;
                let (written, created) = reports.choose(chosen).await?;
                (written.clone(), (written, created))
            }
            Some(cut) => {
                let sorted = reports.of((0..).zip(SetCut::parse(&cut)?.0.sorted).collect()).await?;
                // Reports are in the order of attempts.
                let newest: BTreeMap<_, _> = all.into_iter().map(|report| (report.partition, report)).collect();
                let written = newest.into_values().filter(|report| report.partition >= tasks).collect();
                (sorted, reports.choose(written).await?)
            }
        };
        let mut partitions = Vec::with_capacity(sorted.len());
        for report in &sorted {
            report.notes.iter().for_each(|note| log::warn!("{note}"));
            let statistics = report.statistics.as_deref().map(Statistics::from_bytes).transpose();
            partitions.push((report.partition, report.rows, statistics.map_err(sidecar_error)?));
        }
        let damaged_records = sorted.iter().map(|report| report.damaged_records).fold(0, u64::saturating_add);
        Ok(Complete { partitions, written, created, damaged_records })
    }
}

/// Puts the report of an attempt, which makes it complete.
async fn put_report(run: &Arc<Run>, staging: &TaskStaging, report: TaskReport) -> Result<()> {
    let staging = staging.clone();
    run.compute(move |_| staging.put_report(&report).map_err(shards_error)).await
}

/// Returns the error of more tasks than can be numbered.
fn too_many_tasks(partitions: usize) -> ErrorKind {
    refused(format!("{partitions} partitions are too many for tasks"))
}

/// What complete tasks have staged.
struct Complete {
    /// The number of each write partition, and the number and statistics of its rows.
    partitions: Vec<(u32, u64, Option<Statistics>)>,
    /// The reports of the shards.
    written: Vec<TaskReport>,
    /// When the publication began.
    created: DateTime<Utc>,
    /// The number of damaged records that the tasks passed over.
    damaged_records: u64,
}
