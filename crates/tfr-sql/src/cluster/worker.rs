//! [`Worker`]: computes fragments of plans in a process of a cluster.

use std::collections::VecDeque;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use datafusion::arrow::array::{RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result as EngineResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion_tfrecord::TfRecordCommitExec;
use datafusion_tfrecord::write::SharedWrite;
use futures::{Stream, StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use tfr_stores::{Door, threads};
use tokio::runtime::{self, Runtime};
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fragments::{Fragment, Fragments};
use super::input::{ExchangeFailure, FragmentInput};
use super::job_plan::JobPlan;
use super::planning::{self, Purpose, WorkerQuery};
use crate::access;
use crate::cli::{AllowArgs, Resources};
use crate::error::{Error, RemoteError, Result, Retry, TaskError};
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;

/// Plans that a worker keeps for further partitions.
const KEPT_PLANS: usize = 4;

/// Stack size in bytes of threads that plan, which traverse plans recursively.
const PLANNING_STACK: usize = 256 << 20;

/// What a worker may use.
#[derive(Clone, Debug, Default)]
pub struct WorkerOptions {
    /// Number of threads. `None` means all cores.
    pub threads: Option<NonZeroUsize>,
    /// Bytes of memory for the operators of a query before they spill. `None` means 60 % of the memory.
    pub memory_limit: Option<NonZeroU64>,
    /// Where to spill. `None` means the system's directory for temporary files.
    pub temp_dir: Option<PathBuf>,
    /// Whether the engine handles this error of its exchanges. For others the task runs again, as the network or a disk
    /// failed.
    pub handles: Option<fn(&DataFusionError) -> bool>,
    /// Finds how often the engine has begun what is between two exchanges before. `None` if it never begins it again.
    pub attempt_of: Option<fn(&TaskContext) -> Option<usize>>,
}

/// Computes fragments. Plans each query once, as the process that started it did.
#[derive(Debug)]
pub struct Worker {
    options: WorkerOptions,
    /// What the environment of this process allows.
    door: Door,
    spill: SpillDirectory,
    /// Has threads with large stacks. `None` once it is dropped.
    runtime: Option<Runtime>,
    plans: Mutex<VecDeque<KeptPlan>>,
    /// Held while the process is in the directory of a plan.
    directory: tokio::sync::Mutex<()>,
}

/// A plan, as it arrived, and what became of it.
type KeptPlan = (Arc<[u8]>, Arc<OnceCell<Arc<WorkerQuery>>>);

/// What a job does with a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Step {
    /// Computes its rows.
    Rows {
        /// The number of the fragment.
        fragment: usize,
        /// Whether they are exchanged or collected, and not read by the fragment of a union in the same task.
        is_exchanged: bool,
    },
    /// Computes the rows of the root. Yields their vocabularies.
    Values,
    /// Computes the rows of the root, and writes or sorts them. Yields the number of rows of each task.
    Write,
    /// Writes shards of sorted rows. Yields the number of rows of each task.
    WriteSorted,
}

impl Step {
    /// Whether other tasks, or the client, read what it yields.
    pub(super) fn is_exchanged(self) -> bool {
        match self {
            Self::Rows { is_exchanged, .. } => is_exchanged,
            Self::Values => true,
            Self::Write | Self::WriteSorted => false,
        }
    }
}

/// A partition to compute.
pub(super) struct Part {
    pub plan: Arc<[u8]>,
    pub step: Step,
    pub partition: usize,
    pub inputs: Vec<FragmentInput>,
    /// Has the error of `inputs`.
    pub failure: ExchangeFailure,
    /// The expected columns.
    pub schema: SchemaRef,
}

impl Worker {
    /// Starts the threads.
    ///
    /// # Errors
    /// The directory for temporary files cannot be used, or threads cannot be started.
    pub fn start(options: WorkerOptions) -> Result<Arc<Self>, RemoteError> {
        let start = || {
            let door = access::door(&AllowArgs::default())?;
            let spill = SpillDirectory::create(options.temp_dir.as_deref(), &door)?;
            let number = options.threads.map_or_else(thread::available_parallelism, Ok);
            let runtime = number
                .and_then(|number| threads::start("fragments", number.get(), session::WORKER_STACK))
                .map_err(|source| Error::Start { what: "the threads of a worker", source })?;
            Ok::<_, Error>(Arc::new(Self {
                options: options.clone(),
                door,
                spill,
                runtime: Some(runtime),
                plans: Mutex::default(),
                directory: tokio::sync::Mutex::default(),
            }))
        };
        start().map_err(|error| RemoteError::of(&error))
    }

    /// Computes a partition on the threads of the worker. Dropping the rows stops it.
    pub(super) fn compute(
        self: Arc<Self>,
        part: Part,
    ) -> EngineResult<impl Stream<Item = EngineResult<RecordBatch>> + Send + 'static> {
        let Some(runtime) = &self.runtime else {
            return Err(DataFusionError::Execution("the worker has stopped".to_owned()));
        };
        let (sender, receiver) = mpsc::channel(2);
        let (worker, failure) = (Arc::clone(&self), part.failure.clone());
        let task = runtime.spawn(async move {
            if let Err(error) = worker.run(part, &sender).await {
                // If the reader is gone, so is the need for the error.
                let error = match failure.take() {
                    Some(error) => worker.of_exchange(error),
                    None => described(&error).into(),
                };
                let _ = sender.send(Err(error)).await;
            }
        });
        let rows = stream::unfold((receiver, Stopped(Some(task))), |(mut receiver, mut task)| async {
            if let Some(batch) = receiver.recv().await {
                return Some((batch, (receiver, task)));
            }
            // A panic must not look like the end of the rows.
            let ended = task.0.take()?.await.err()?;
            Some((Err(RemoteError::of(&Error::stopped(ended)).into()), (receiver, task)))
        });
        Ok(rows)
    }

    /// Checks that no task reads rows of this one twice. Its rows are exchanged, and those that it reads were.
    ///
    /// When rows that tasks of a stage read are lost, Ballista 55 begins the stage again. But what its complete tasks have
    /// exchanged stays among what the next stage reads, beside the same rows of the new tasks. A stage that was complete
    /// has new attempts, too, for its lost tasks alone, which do no harm. To a task, both look alike.
    /// Stages that read no exchanged rows are not begun again, and of shards only those of one attempt count.
    pub(super) fn check_attempt(&self, context: &TaskContext) -> EngineResult<()> {
        let Some(attempt_of) = self.options.attempt_of else { return Ok(()) };
        let error = match attempt_of(context) {
            Some(0) => return Ok(()),
            Some(_) => TaskError::ExchangedRowsLost,
            None => TaskError::Plan {
                expected: "a task with the number of its attempt".to_owned(),
                found: format!("{:?}", context.task_id()),
            },
        };
        Err(described(&error.into()).into())
    }

    /// Returns the error of an exchange as the engine runs the lost tasks again for it.
    fn of_exchange(&self, error: DataFusionError) -> DataFusionError {
        if self.options.handles.is_some_and(|handles| handles(&error)) {
            return error;
        }
        RemoteError { retry: Retry::Task, ..RemoteError::of(&error) }.into()
    }

    async fn run(self: &Arc<Self>, part: Part, rows: &mpsc::Sender<EngineResult<RecordBatch>>) -> Result<()> {
        let Part { plan, step, partition, inputs, schema, .. } = part;
        let planned = self.planned(&plan).await?;
        let WorkerQuery { fragments, task, purpose } = planned.as_ref();
        let input = |number| -> Result<_> { Ok(reset_plan_states(fragments.get(number)?.with_inputs(inputs)?)?) };
        let count = match (step, purpose) {
            (Step::Rows { fragment, .. }, _) => {
                check_columns(fragments.get(fragment)?, &schema)?;
                let mut batches = input(fragment)?.execute(partition, Arc::clone(task))?;
                while let Some(batch) = batches.next().await {
                    if rows.send(Ok(batch?)).await.is_err() {
                        break;
                    }
                }
                return Ok(());
            }
            (Step::Values, Purpose::Values(vocabularies)) => {
                let mut vocabularies = vocabularies.clone();
                let mut batches = input(Fragments::ROOT)?.execute(partition, Arc::clone(task))?;
                while let Some(batch) = batches.next().await {
                    vocabularies.observe(&batch?)?;
                }
                let _ = rows.send(Ok(vocabularies.into_batch()?)).await;
                return Ok(());
            }
            (Step::Write, Purpose::Write { commit, staging }) => {
                run_task(&commit.with_task_input(input(Fragments::ROOT)?)?, staging, partition, task).await?
            }
            (Step::WriteSorted, Purpose::Write { commit, staging }) => {
                run_task(commit, staging, partition, task).await?
            }
            (Step::Values | Step::Write | Step::WriteSorted, _) => {
                return Err(TaskError::Plan { expected: format!("{step:?}"), found: "another job".to_owned() }.into());
            }
        };
        let counts = RecordBatch::try_new(schema, vec![Arc::new(UInt64Array::from(vec![count]))]);
        let _ = rows.send(counts.map_err(Into::into)).await;
        Ok(())
    }

    /// Returns a plan, which is made only once.
    async fn planned(self: &Arc<Self>, bytes: &Arc<[u8]>) -> Result<Arc<WorkerQuery>> {
        let cell = {
            let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            match plans.iter().find(|(known, _)| known == bytes) {
                Some((_, cell)) => Arc::clone(cell),
                None => {
                    let cell = Arc::<OnceCell<_>>::default();
                    plans.push_back((Arc::clone(bytes), Arc::clone(&cell)));
                    if plans.len() > KEPT_PLANS {
                        plans.pop_front();
                    }
                    cell
                }
            }
        };
        let planned = cell.get_or_try_init(|| self.plan(bytes)).await?;
        Ok(Arc::clone(planned))
    }

    /// Plans the query of a job, on a thread with a large stack.
    async fn plan(self: &Arc<Self>, bytes: &Arc<[u8]>) -> Result<Arc<WorkerQuery>> {
        let plan = JobPlan::from_json(bytes)?;
        let WorkerOptions { threads, memory_limit, temp_dir, .. } = self.options.clone();
        let limits =
            Limits::new(&Resources { threads, partitions: Some(plan.query().partitions()), memory_limit, temp_dir })?;
        let _directory = self.directory.lock().await;
        let (args, text, door) = plan.query().arguments_anywhere()?;
        let door = door.and(&self.door);
        access::check_arguments(&args, &door)?;
        plan.check_places(&door)?;
        let (stores, time) = (args.stores.options(&door), plan.query().time());
        let context = session::open(limits, &self.spill, stores, time, CancellationToken::new())?;
        let (sender, receiver) = oneshot::channel();
        let (runtime, worker) = (runtime::Handle::current(), Arc::clone(self));
        let planning = move || {
            let _ = sender.send(runtime.block_on(planning::again(&context, &args, &text, &worker.spill, plan)));
        };
        let thread = thread::Builder::new().name("planning".to_owned()).stack_size(PLANNING_STACK);
        let thread = thread.spawn(planning).map_err(|source| Error::Start { what: "a thread", source })?;
        let planned = receiver.await.unwrap_or_else(|stopped| Err(Error::stopped(stopped))).map(Arc::new);
        // It has nothing more to do, and must not be detached while it ends.
        drop(thread.join());
        planned
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            threads::end(runtime);
        }
    }
}

/// Aborts a task when dropped.
struct Stopped(Option<JoinHandle<()>>);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Describes an error for the process that started the job.
fn described(error: &Error) -> RemoteError {
    let described = RemoteError::of(error);
    match error {
        Error::Task(TaskError::Input { .. } | TaskError::Plan { .. }) => {
            RemoteError { hint: Some("run the query again, while its inputs do not change".to_owned()), ..described }
        }
        Error::Task(TaskError::ExchangedRowsLost) => RemoteError { retry: Retry::Query, ..described },
        _ => described,
    }
}

/// Runs a task of a write, and returns the number of its rows.
async fn run_task(
    commit: &TfRecordCommitExec,
    staging: &SharedWrite,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<u64> {
    let task = u32::try_from(partition).unwrap_or(u32::MAX);
    let done = commit.run_task(staging, task, context).await;
    commit.settled().await;
    Ok(done?.rows)
}

fn check_columns(fragment: &Fragment, expected: &SchemaRef) -> Result<(), TaskError> {
    let found = fragment.plan.schema();
    if found == *expected {
        return Ok(());
    }
    Err(TaskError::Plan { expected: expected.to_string(), found: found.to_string() })
}
