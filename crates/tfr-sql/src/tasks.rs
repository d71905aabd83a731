//! Tasks: a write that several processes carry out, on any machines that see the same files.
//!
//! `--plan` plans a query, creates the staging directory and writes a [`PlanFile`]. Every task plans the same query again
//! and compares the result to the plan file: so no plan has to be encoded, and whatever differs is an error instead of
//! other rows. Then it runs one partition.
//!
//! The plan file also has what `--plan` has found out about tables ([`tfr_files::planned`]). So a task lists no files and
//! opens only those of its partition, which it compares with their planned states. A table of which the plan does not keep
//! enough is listed and opened again by every task, and all of its files are compared.

pub mod partitions;
pub mod plan_file;
pub mod planned_rows;
pub mod rows_digest;
pub mod scans;
pub mod stored_query;

use std::error::Error as StdError;
use std::ffi::OsString;
use std::future::Future;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::execution::TaskContext;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::TfRecordCommitExec;
use datafusion_tfrecord::write::{Detached, TaskStep, plan_tasks};
use tfr_files::planned::PlannedTables;
use tfr_stores::{StoreOptions, threads};
use tfrecord_shards::{AttemptError, Manifest};

use crate::access;
use crate::cli::{AbandonArgs, CutArgs, FinishArgs, ReportFormat, Resources, TaskArgs, TaskResources};
use crate::error::{Error, Result, TaskError, may_go_away};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::printer::counted;
use crate::query::Query;
use crate::report::{IgnoredReport, Outcome, Report, ShardsReport};
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;
use crate::tool::Work;
use crate::write::{WriteShards, count};

use plan_file::{Content, NewPlan, PlanFile, Published};
use planned_rows::Rows;
use stored_query::{ExpectedRows, StoredQuery};

/// A write by tasks.
pub struct TaskPlanning<'a> {
    /// The arguments of the command, from the program name on.
    pub arguments: &'a [OsString],
    /// The SQL text.
    pub text: &'a str,
    /// Number of partitions of the query.
    pub partitions: NonZeroUsize,
    /// The write.
    pub write: WriteShards<'a>,
}

/// Adapts a session to plans whose partitions run in different processes: those of a join would otherwise wait for the
/// others' contributions to a filter.
pub fn prepare(context: &SessionContext) {
    let state = context.state_ref();
    let mut state = state.write();
    let optimizer = &mut state.config_mut().options_mut().optimizer;
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
}

/// Sets the tables of a session that are recorded or replayed.
pub fn set_tables(context: &SessionContext, tables: PlannedTables) {
    context.state_ref().write().config_mut().set_extension(Arc::new(tables));
}

/// Plans tasks, and writes the plan file. Returns the exit status instead after a signal.
pub async fn plan(
    file: &Path,
    planning: TaskPlanning<'_>,
    context: &SessionContext,
    query: Query,
    interrupt: &Interrupt,
) -> Result<Result<(), ExitStatus>> {
    let TaskPlanning { arguments, text, partitions, write } = planning;
    let options =
        match write.counted(context, &query, interrupt, async || count(context, &query, &write.options).await).await? {
            Ok(options) => options,
            Err(status) => return Ok(Err(status)),
        };
    let out = PathBuf::from(options.out.to_string());
    let commit = datafusion_tfrecord::plan_write(Arc::clone(&query.physical), options, &context.state())?;
    for warning in commit.mapping().iter().flat_map(|mapping| mapping.warnings()) {
        write.printer.loss(&warning);
    }
    let tasks = commit.tasks()?;
    if query.inputs.contains("-") {
        return Err(TaskError::Unrepeatable { what: "standard input".to_owned() }.into());
    }
    let (input, stored) = commit.task_input()?;
    partitions::check(&input, &query.logical)?;
    let tables = PlannedTables::of(context.state_ref().read().config());
    let scans = tables.and_then(|tables| tables.recorded(&input));
    let rows = ExpectedRows::Whole(Rows::of(&input, scans.is_some())?);
    let stored_query = StoredQuery::new(arguments, text, session::time(context), partitions, rows)?;
    // Before there is anything to remove.
    let created = NewPlan::create(&plan_file::absolute(file)?)?;
    let written = async {
        let staging = match commit.detach(&context.task_ctx()).await? {
            Detached::Ignored(found) => return Ok(Err(found)),
            Detached::Tasks(staging) => staging,
        };
        let plan = PlanFile::new(stored_query, stored, staging.clone());
        let written = created.write(plan, scans);
        if written.is_err() {
            staging.abandon(commit.options(), &context.task_ctx()).await?;
        }
        written.map(Ok)
    };
    match written.await {
        Ok(Ok(())) => {}
        Ok(Err(found)) => {
            write.printer.note(
                Report::new(Outcome::Ignored(IgnoredReport::new(&out, found)), write.started.elapsed()).summary(),
            );
            return Ok(Ok(()));
        }
        Err(error) => return Err(error),
    }
    let steps = if commit.sorts_in_tasks()? { "; all of them twice, with a cut between" } else { "" };
    let gathering = if partitions.get() > 1 && tasks == 1 { partitions::gathering_operator(&input) } else { None };
    let reason = gathering.map(|name| format!(", because {name} needs the rows of all partitions"));
    let tasks = counted(tasks.into(), "task");
    write.printer.note(format!("{}: {tasks}{}{steps}", file.display(), reason.unwrap_or_default()));
    Ok(Ok(()))
}

/// `task`: runs an attempt of a task.
pub fn run(args: &TaskArgs, work: Work<'_>) -> Result<ExitStatus> {
    let index = args.index;
    work.door.check_path(&args.plan)?;
    let plan = plan_file::read_plan(&args.plan).map_err(try_again)?;
    if (plan.query.tasks()..=last_index(plan.query.partitions())).contains(&index) {
        // A job array has as many tasks as were asked for.
        work.printer
            .note(format!("task {index}: nothing to do, because the rows are in {} partitions", plan.query.tasks()));
        return Ok(ExitStatus::Done);
    }
    let ran = with_plan(&plan, Files::Task(index), &args.resources, &work, async |commit, context| {
        until(&work.interrupt, async { Ok(commit.run_task(&plan.staging, index, context).await?) }).await
    })?;
    let done = match ran {
        Ok(done) => done,
        Err(status) => return Ok(status),
    };
    let rows = counted(done.rows, "row");
    work.printer.note(match done.step {
        TaskStep::Write => format!("task {index}: {rows} in {}", counted(done.shards as u64, "shard")),
        TaskStep::Sort => format!("task {index}: {rows} sorted"),
        TaskStep::WriteSorted => format!("task {index}: {rows} of all, in {}", counted(done.shards as u64, "shard")),
    });
    Ok(ExitStatus::Done)
}

fn last_index(partitions: NonZeroUsize) -> u32 {
    u32::try_from(partitions.get() - 1).unwrap_or(u32::MAX)
}

/// `cut`: decides where shards begin.
pub fn cut(args: &CutArgs, work: Work<'_>) -> Result<ExitStatus> {
    work.door.check_path(&args.plan)?;
    let plan = plan_file::read_plan(&args.plan).map_err(try_again)?;
    let cut = with_plan(&plan, Files::None, &args.resources, &work, async |commit, context| {
        if !commit.sorts_in_tasks()? {
            return Err(TaskError::NothingToCut.into());
        }
        until(&work.interrupt, async { Ok(commit.cut_tasks(&plan.staging, context).await?) }).await
    })?;
    match cut {
        Ok(tasks) => {
            work.printer.note(format!("{} to write shards: run them, then finish", counted(tasks as u64, "task")))
        }
        Err(status) => return Ok(status),
    }
    Ok(ExitStatus::Done)
}

/// `finish`: publishes the set. Says so if it is published already.
pub fn finish(args: &FinishArgs, work: Work<'_>) -> Result<ExitStatus> {
    let path = plan_file::absolute(&args.plan)?;
    work.door.check_path(&path)?;
    let plan = match plan_file::read(&path).map_err(try_again)? {
        Content::Plan(plan) => plan,
        Content::Published(published) => return say_published(args, &published, &work),
    };
    if args.verify && plan.staging.is_in_store() {
        return Err(TaskError::VerifiedLater.into());
    }
    // A finish that was killed after it had published the set.
    let manifest = match plan.staging.published().map_err(try_again)? {
        Some(manifest) => Arc::new(manifest),
        None => match publish(args, &path, &plan, &work)? {
            Ok(manifest) => manifest,
            Err(status) => return Ok(status),
        },
    };
    let out = plan.options.out.to_string();
    let report = ShardsReport::new(Path::new(&out), &manifest, Vec::new());
    let report = Report::new(Outcome::Shards(report), work.started.elapsed());
    let run = manifest.last_run().to_owned();
    let time = manifest.appended.last().map_or(manifest.created, |appended| appended.created).to_string();
    let value = serde_json::from_str(&report.to_json()).unwrap_or_default();
    // The set is published, so this does not fail the command, which a job system would repeat.
    if let Err(error) = plan_file::put_note(&path, Published { run, out, time, report: value }) {
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        log::warn!("the set is published, but {error}{source}");
    }
    work.printer.note(report.summary());
    print_report(args, &report.to_json(), &work)?;
    Ok(ExitStatus::Done)
}

/// Publishes what the tasks have staged.
fn publish(
    args: &FinishArgs,
    path: &Path,
    plan: &PlanFile,
    work: &Work<'_>,
) -> Result<Result<Arc<Manifest>, ExitStatus>> {
    // Tasks whose shards are damaged are repeated.
    let files = if args.verify { Files::All } else { Files::None };
    let published = with_plan(plan, files, &args.resources, work, async |commit, context| {
        let finish = async { Ok(commit.finish_tasks(&plan.staging, args.verify, context).await?) };
        let ended = until(&work.interrupt, finish).await;
        commit.settled().await;
        // Even if the signal came just before the set was published.
        match commit.summary() {
            Some(manifest) => Ok(Ok(manifest)),
            None => ended,
        }
    });
    let keep = |error: Error| match error {
        Error::TryAgain(error) if prevents_publication(&error) => {
            Error::TryAgain(Box::new(TaskError::Unpublished { path: path.to_owned(), source: error }.into()))
        }
        error if prevents_publication(&error) => {
            TaskError::Unpublished { path: path.to_owned(), source: Box::new(error) }.into()
        }
        error => error,
    };
    published.map_err(keep)
}

/// Whether an error is that of a publication, and not of a plan that cannot be finished yet.
fn prevents_publication(error: &(dyn StdError + 'static)) -> bool {
    use tfrecord_shards::ErrorKind as Kind;
    let mut chain = std::iter::successors(Some(error), |&error| error.source());
    let error = chain.find_map(|error| error.downcast_ref::<tfrecord_shards::Error>());
    error.is_some_and(|error| {
        !matches!(
            error.kind(),
            Kind::Ended
                | Kind::Busy { .. }
                | Kind::Attempt(AttemptError::Missing { .. } | AttemptError::DamagedTask { .. })
        )
    })
}

fn say_published(args: &FinishArgs, published: &Published, work: &Work<'_>) -> Result<ExitStatus> {
    let Published { run, out, time, report } = published;
    work.printer.note(format!("{out}: published already: written at {time} by run {run}"));
    print_report(args, &format!("{report}\n"), work)?;
    Ok(ExitStatus::Done)
}

fn print_report(args: &FinishArgs, json: &str, work: &Work<'_>) -> Result<()> {
    match args.report {
        Some(ReportFormat::Json) => work.printer.data(json.as_bytes()).map_err(Error::Stdout),
        None => Ok(()),
    }
}

/// `abandon`: removes what the tasks have written.
pub fn abandon(args: &AbandonArgs, work: Work<'_>) -> Result<ExitStatus> {
    const MEMORY: NonZeroU64 = NonZeroU64::new(64 << 20).unwrap();
    let path = plan_file::absolute(&args.plan)?;
    work.door.check_path(&path)?;
    let plan = match plan_file::read(&path).map_err(try_again)? {
        Content::Plan(plan) => plan,
        Content::Published(published) => {
            plan_file::remove(&path).map_err(try_again)?;
            work.printer.note(format!("{}: published already, so it stays", published.out));
            return Ok(ExitStatus::Done);
        }
    };
    let one = Some(NonZeroUsize::MIN);
    let resources = Resources { threads: one, partitions: one, memory_limit: Some(MEMORY), temp_dir: None };
    let spill = SpillDirectory::none();
    let (args, _, door) = plan.query.arguments_there()?;
    let door = door.and(&work.door);
    plan.check_places(&door)?;
    let stores = if plan.staging.is_in_store() { args.stores.options(&door) } else { StoreOptions::default() };
    let abandoned =
        with_session(Limits::new(&resources)?, &spill, stores, plan.query.time(), &work, async |context| {
            let task = context.task_ctx();
            until(&work.interrupt, async { Ok(plan.staging.abandon(&plan.options, &task).await?) }).await
        })?;
    if let Err(status) = abandoned {
        return Ok(status);
    }
    plan_file::remove(&path).map_err(try_again)?;
    work.printer.note(format!("abandoned {}", counted(plan.query.tasks().into(), "task")));
    Ok(ExitStatus::Done)
}

/// The files of a plan that a command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    None,
    Task(u32),
    All,
}

/// Plans the rows of a plan file again, and does something with the plan. Changes to the directory of the plan.
fn with_plan<T>(
    plan: &PlanFile,
    files: Files,
    resources: &TaskResources,
    work: &Work<'_>,
    job: impl AsyncFnOnce(&TfRecordCommitExec, &TaskContext) -> Result<Result<T, ExitStatus>>,
) -> Result<Result<T, ExitStatus>> {
    let limits = Limits::new(&resources.with_partitions(plan.query.partitions()))?;
    log::info!("{limits}");
    // Before the directory is changed, which relative paths refer to.
    let spill = SpillDirectory::create(resources.temp_dir.as_deref(), &work.door).map_err(try_again)?;
    let temporary = plan_file::absolute(spill.parent())?;
    let (args, text, door) = plan.query.arguments_there()?;
    let door = door.and(&work.door);
    if door.check_path(&temporary).is_err() {
        return Err(Error::SpillOutside { path: temporary });
    }
    access::check_arguments(&args, &door)?;
    plan.check_places(&door)?;
    let (stores, time) = (args.stores.options(&door), plan.query.time());
    with_session(limits, &spill, stores, time, work, async |context| {
        let interrupt = &work.interrupt;
        if let Some(scans) = plan.scans() {
            set_tables(context, PlannedTables::replaying(Arc::new(scans.clone())));
        }
        let commit = match until(interrupt, async {
            let query = Query::plan(context, &args, &text, &spill).await?;
            session::findings(context).set_strict(plan.options.mapping.strict);
            let commit = plan_tasks(query.physical, plan.options.clone(), &context.state())?;
            let input = commit.task_input()?.0;
            plan.query.check_rows(&input, plan.scans().is_some())?;
            let (task, scans) = match (files, plan.scans()) {
                (_, None) | (Files::None, _) => return Ok(commit),
                (Files::Task(task), Some(scans)) => (Some(task), scans),
                (Files::All, Some(scans)) => (None, scans),
            };
            let input = scans::with_files_of(&input, task, (plan, scans), context).await?;
            Ok(Arc::new(commit.with_task_input(input)?))
        })
        .await?
        {
            Ok(commit) => commit,
            Err(status) => return Ok(Err(status)),
        };
        let task = session::task_context(context, commit.as_ref());
        let done = job(&commit, &task).await;
        // The files and uploads of an attempt that is not complete are removed before the command ends.
        commit.settled().await;
        done
    })
}

/// Does something in a session of its own.
fn with_session<T>(
    limits: Limits,
    spill: &SpillDirectory,
    stores: StoreOptions,
    time: DateTime<Utc>,
    work: &Work<'_>,
    job: impl AsyncFnOnce(&SessionContext) -> Result<Result<T, ExitStatus>>,
) -> Result<Result<T, ExitStatus>> {
    let runtime = threads::start("task", limits.threads.get(), session::WORKER_STACK)
        .map_err(|source| Error::Start { what: "the task's threads", source })?;
    let done = runtime.block_on(async {
        let context = session::open(limits, spill, stores, time, work.interrupt.stop())?;
        prepare(&context);
        job(&context).await
    });
    threads::end(runtime);
    done.map_err(try_again)
}

/// Marks an error that may not happen again as such, for the exit code.
fn try_again(error: impl Into<Error>) -> Error {
    let error = error.into();
    if may_go_away(&error) { Error::TryAgain(Box::new(error)) } else { error }
}

/// Waits for work, or returns the exit status after a signal.
async fn until<T>(interrupt: &Interrupt, work: impl Future<Output = Result<T>>) -> Result<Result<T, ExitStatus>> {
    tokio::select! {
        done = work => done.map(Ok),
        status = interrupt.received() => Ok(Err(status)),
    }
}
