//! Plans a query for a cluster: in the process that starts it, and again in each worker.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::write::{WriteOptions, plan_tasks};
use datafusion_tfrecord::{TfRecordCommitExec, plan_write};

use super::fragments::Fragments;
use crate::cli::QueryArgs;
use crate::error::{Error, Result, TaskError};
use crate::query::Query;
use crate::session;
use crate::spill::SpillDirectory;
use crate::tasks::plan_file::{PlanFile, Rows};

/// A query as a worker plans it.
#[derive(Debug)]
pub struct Planned {
    /// The job.
    pub plan: PlanFile,
    /// The parts of the plan of the rows.
    pub fragments: Fragments,
    /// The plan of the write.
    pub commit: Arc<TfRecordCommitExec>,
    /// The context for both.
    pub task: Arc<TaskContext>,
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

/// Plans the write of a query, and cuts the plan of its rows. If a join depends on all partitions of its larger side, the
/// query is planned again, with joins that exchange the rows of both sides.
///
/// # Errors
/// The query cannot be written, or its plan cannot be cut.
pub async fn cut(
    context: &SessionContext,
    query: &Query,
    write: impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<TfRecordCommitExec>>,
) -> Result<(Arc<TfRecordCommitExec>, Fragments)> {
    let commit = write(Arc::clone(&query.physical))?;
    match Fragments::new(&commit.task_input()?.0, &query.logical) {
        Err(Error::Task(TaskError::Distribution { .. })) => {}
        fragments => return Ok((commit, fragments?)),
    }
    {
        let state = context.state_ref();
        let mut state = state.write();
        let optimizer = &mut state.config_mut().options_mut().optimizer;
        optimizer.hash_join_single_partition_threshold = 0;
        optimizer.hash_join_single_partition_threshold_rows = 0;
    }
    let commit = write(context.state().create_physical_plan(&query.logical).await?)?;
    let fragments = Fragments::new(&commit.task_input()?.0, &query.logical)?;
    Ok((commit, fragments))
}

/// Plans the write of a query in the process that starts it.
///
/// # Errors
/// As [`cut`], or the target cannot be written.
pub async fn first(
    context: &SessionContext,
    query: &Query,
    options: &WriteOptions,
) -> Result<(Arc<TfRecordCommitExec>, Fragments)> {
    cut(context, query, |rows| Ok(plan_write(rows, options.clone(), &context.state())?)).await
}

/// Plans the query of a job in a worker.
///
/// # Errors
/// As [`first`], or the plan or its files differ from those of the process that started the job.
pub async fn again(
    context: &SessionContext,
    args: &QueryArgs,
    text: &str,
    spill: &SpillDirectory,
    plan: PlanFile,
) -> Result<Planned> {
    prepare(context);
    let query = Query::plan(context, args, text, spill).await?;
    // A task is one of many that run at the same time in this process.
    let options = WriteOptions { threads: Some(NonZeroUsize::MIN), ..plan.options.options()? };
    let write = |rows| Ok(plan_tasks(rows, options.clone(), &context.state())?);
    let (commit, fragments) = cut(context, &query, write).await?;
    plan.rows.check(&Rows::of(&commit.task_input()?.0))?;
    let task = session::task_context(context, commit.as_ref());
    Ok(Planned { plan, fragments, commit, task })
}
