//! Plans a query for a cluster: in the process that starts it, and again in each worker.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::write::{SharedWrite, WriteOptions, plan_tasks};
use datafusion_tfrecord::{TfRecordCommitExec, plan_write};

use super::fragments::Fragments;
use super::job_plan::JobPlan;
use crate::cli::QueryArgs;
use crate::error::{Error, Result, TaskError};
use crate::mapping::{self, Vocabularies};
use crate::query::Query;
use crate::session;
use crate::spill::SpillDirectory;

/// A query as a worker plans it.
#[derive(Debug)]
pub struct WorkerQuery {
    /// The parts of the plan of the rows.
    pub fragments: Fragments,
    /// The context for it.
    pub task: Arc<TaskContext>,
    /// What becomes of the rows.
    pub purpose: Purpose,
}

/// What becomes of the rows of a job.
#[derive(Debug)]
pub enum Purpose {
    /// They are written.
    Write {
        /// The plan of the write.
        commit: Arc<TfRecordCommitExec>,
        /// Where the shards are staged.
        staging: SharedWrite,
    },
    /// Their distinct values are collected.
    Values(Vocabularies),
    /// They are the result.
    Rows,
}

/// Bytes of input for each partition, where the user has not given a number of partitions.
const PARTITION_BYTES: u64 = 512 << 20;

/// Maximum number of partitions, where the user has not given one.
const MOST_PARTITIONS: u64 = 4096;

/// Plans a query again, with a number of partitions that follows from the size of its files. So the output does not depend
/// on the cluster.
///
/// # Errors
/// The query cannot be planned.
pub async fn divide(context: &SessionContext, query: &mut Query) -> Result<NonZeroUsize> {
    let partitions = file_bytes(&query.physical).div_ceil(PARTITION_BYTES).clamp(1, MOST_PARTITIONS);
    let partitions = usize::try_from(partitions).ok().and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN);
    context.state_ref().write().config_mut().options_mut().execution.target_partitions = partitions.get();
    query.physical = context.state().create_physical_plan(&query.logical).await?;
    Ok(partitions)
}

/// Returns the size of all files that a plan reads.
fn file_bytes(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let source = plan.downcast_ref::<DataSourceExec>();
    let scan = source.and_then(|source| source.data_source().downcast_ref::<FileScanConfig>());
    let groups = scan.into_iter().flat_map(|scan| &scan.file_groups).flat_map(|group| group.files());
    let own: u64 = groups.map(|file| file.effective_size()).sum();
    own + plan.children().into_iter().map(file_bytes).sum::<u64>()
}

/// Adapts a session to plans that are divided among processes.
pub fn prepare(context: &SessionContext) {
    crate::tasks::prepare(context);
    let state = context.state_ref();
    let mut state = state.write();
    let optimizer = &mut state.config_mut().options_mut().optimizer;
    // Its value would be in one process.
    optimizer.enable_physical_uncorrelated_scalar_subquery = false;
    // Other engines know only one kind of union.
    optimizer.prefer_existing_union = true;
}

/// Plans something, and cuts the plan of its rows. If a join depends on all partitions of its larger side, the query is
/// planned again, with joins that exchange the rows of both sides. `planned` returns what is planned and its rows.
///
/// # Errors
/// As `planned`, or the plan cannot be cut.
async fn cut<T>(
    context: &SessionContext,
    logical: &LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
    planned: impl Fn(Arc<dyn ExecutionPlan>) -> Result<(T, Arc<dyn ExecutionPlan>)>,
) -> Result<(T, Fragments)> {
    let (first, rows) = planned(physical)?;
    match Fragments::new(&rows, logical) {
        Err(Error::Task(TaskError::Distribution { .. })) => {}
        fragments => return Ok((first, fragments?)),
    }
    let mut state = context.state();
    let optimizer = &mut state.config_mut().options_mut().optimizer;
    optimizer.hash_join_single_partition_threshold = 0;
    optimizer.hash_join_single_partition_threshold_rows = 0;
    let (again, rows) = planned(state.create_physical_plan(logical).await?)?;
    Ok((again, Fragments::new(&rows, logical)?))
}

/// Plans the write of a query in the process that starts it.
///
/// # Errors
/// The query or the target cannot be written, or the plan cannot be cut.
pub async fn write(
    context: &SessionContext,
    query: &Query,
    options: &WriteOptions,
) -> Result<(Arc<TfRecordCommitExec>, Fragments)> {
    let planned = |rows| of_commit(plan_write(rows, options.clone(), &context.state())?);
    cut(context, &query.logical, Arc::clone(&query.physical), planned).await
}

type Commit = Arc<TfRecordCommitExec>;

fn of_commit(commit: Commit) -> Result<(Commit, Arc<dyn ExecutionPlan>)> {
    let rows = commit.task_input()?.0;
    Ok((commit, rows))
}

/// Plans the rows of a query.
///
/// # Errors
/// The plan cannot be cut.
pub async fn rows(context: &SessionContext, logical: &LogicalPlan) -> Result<(Arc<dyn ExecutionPlan>, Fragments)> {
    let physical = context.state().create_physical_plan(logical).await?;
    cut(context, logical, physical, |rows| Ok((Arc::clone(&rows), rows))).await
}

/// Returns a query for the number of rows of a query.
///
/// # Errors
/// The count cannot be planned, which is a bug.
pub fn count(query: &Query) -> Result<LogicalPlan> {
    let rows = LogicalPlanBuilder::from(query.logical.clone());
    Ok(rows.aggregate(Vec::<Expr>::new(), vec![count_all()])?.build()?)
}

/// Plans the query of a job in a worker.
///
/// # Errors
/// As in the process that started the job, or the plan or its files differ from those there.
pub async fn again(
    context: &SessionContext,
    args: &QueryArgs,
    text: &str,
    spill: &SpillDirectory,
    plan: JobPlan,
) -> Result<WorkerQuery> {
    prepare(context);
    let query = Query::plan(context, args, text, spill).await?;
    match plan {
        JobPlan::Write(plan) => {
            let plan = *plan;
            // A task is one of many that run at the same time in this process.
            let options = WriteOptions { threads: Some(NonZeroUsize::MIN), ..plan.options.clone() };
            let planned = |rows| of_commit(plan_tasks(rows, options.clone(), &context.state())?);
            let (commit, fragments) = cut(context, &query.logical, Arc::clone(&query.physical), planned).await?;
            plan.query.check_rows(&commit.task_input()?.0, false)?;
            let task = session::task_context(context, commit.as_ref());
            Ok(WorkerQuery { fragments, task, purpose: Purpose::Write { commit, staging: plan.staging } })
        }
        JobPlan::Values(stored) => {
            let schema = query.physical.schema();
            let vocabularies = Vocabularies::of(&mapping::options(&args.mapping, &schema)?, &schema);
            let (rows, fragments) = rows(context, &vocabularies.columns(&query.logical)?).await?;
            stored.check_rows(&rows, false)?;
            let task = session::task_context(context, rows.as_ref());
            Ok(WorkerQuery { fragments, task, purpose: Purpose::Values(vocabularies) })
        }
        JobPlan::Count(stored) => {
            let (rows, fragments) = rows(context, &count(&query)?).await?;
            stored.check_rows(&rows, false)?;
            let task = session::task_context(context, rows.as_ref());
            Ok(WorkerQuery { fragments, task, purpose: Purpose::Rows })
        }
    }
}
