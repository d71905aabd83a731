//! [`Run`]: one execution of a write plan.

use std::any::Any;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::TaskContext;
use futures::Future;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tfrecord_framing::Framing;
use tokio::sync::oneshot;

use super::options::WriteOptions;
use super::rejects::RejectCounts;
use super::report::PartitionReport;
use super::running::Running;
use super::staging::Staging;
use crate::error::{ErrorKind, refused, shards_error};

/// The state shared by the nodes of a write plan while it runs: the set being written, and the threads that encode
/// and compress. The committer creates one for each execution. Every job keeps a reference until it is done.
pub(crate) struct Run {
    /// The staged set. Removed when the last reference is dropped, unless it has been published.
    pub(crate) staging: Staging,
    pub(crate) framing: Framing,
    /// The target, for messages.
    out: PathBuf,
    pool: ThreadPool,
    /// By the partition's number, over all processes. If a partition is attempted twice, the later attempt counts.
    reports: Mutex<BTreeMap<u32, PartitionReport>>,
    /// Counts the rows that do not fit.
    pub(super) rejects: Arc<RejectCounts>,
    /// Further state shared by the write partitions: see [`Run::shared`].
    shared: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
    /// Declared after `staging`, so that staged files are removed before this is dropped. Uploads have their own,
    /// since they are aborted later.
    _running: Option<Running>,
}

impl Run {
    pub(crate) fn begin(staging: Staging, options: &WriteOptions, running: Option<Running>) -> Result<Arc<Self>> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(options.threads.map_or(0, NonZeroUsize::get))
            .thread_name(|thread| format!("tfrecord-{thread}"))
            .build()
            .map_err(|error| shards_error(error.into()))?;
        let (framing, out) = (options.framing().map_err(ErrorKind::from)?, options.out.named());
        let (reports, rejects, shared) = Default::default();
        let _running = running;
        Ok(Arc::new(Self { staging, framing, out, pool, reports, rejects, shared, _running }))
    }

    /// Converts the error of a shard that could not be written.
    pub(crate) fn write_error(&self, error: tfrecord_shards::Error) -> DataFusionError {
        shards_error(error.with_path(&self.out))
    }

    /// Records what a write partition has done.
    pub(super) fn report(&self, partition: u32, report: PartitionReport) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, report);
    }

    /// Returns the reports of all write partitions that are done.
    pub(super) fn take_reports(&self) -> BTreeMap<u32, PartitionReport> {
        std::mem::take(&mut *self.reports.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how many of `partitions` write partitions this process runs at the same time.
    pub(super) fn partitions_here(&self, partitions: usize) -> usize {
        if self.staging.task.is_some() { 1 } else { partitions }
    }

    /// Returns how many jobs one of `partitions` write partitions may have in progress: enough for its share of the pool,
    /// and one more to start when one is done.
    pub(super) fn window(&self, partitions: usize) -> usize {
        self.threads().div_ceil(self.partitions_here(partitions)) + 1
    }

    /// Returns state shared by the write partitions. The first partition creates it.
    ///
    /// # Errors
    /// The partitions already share a value of another type.
    pub(super) fn shared<T: Any + Send + Sync>(&self, begin: impl FnOnce() -> T) -> Result<Arc<T>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = Arc::clone(shared.get_or_insert_with(|| Arc::new(begin())));
        shared.downcast().map_err(|_| internal_datafusion_err!("write partitions share values of two types"))
    }

    /// Releases the shared state. Its memory and temporary files are freed by the last partition that uses it.
    pub(super) fn end_shared(&self) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Returns the number of threads that encode and compress.
    pub(crate) fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs a job on the pool. The job starts whether or not the future is polled, and is skipped if the future is
    /// dropped first. A started job keeps the run alive until it ends.
    pub(crate) fn compute<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send + 'static {
        let (sender, receiver) = oneshot::channel();
        let run = Arc::clone(self);
        self.pool.spawn(move || {
            if sender.is_closed() {
                return;
            }
            let result = contain_panic(|| job(&run));
            // If the receiver is gone, the result must be dropped before the run.
            drop(sender.send(result));
            drop(run);
        });
        async move { receiver.await.unwrap_or_else(|_| Err(internal_datafusion_err!("a job went away without a result"))) }
    }

    /// Runs a job that waits for the disk on a blocking thread. Its parallel computations run on the pool.
    pub(crate) fn wait_for_disk<T: Send + 'static>(
        self: &Arc<Self>,
        job: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> SpawnedTask<Result<T>> {
        let run = Arc::clone(self);
        SpawnedTask::spawn_blocking(move || {
            let result = contain_panic(|| job(&run));
            drop(run);
            result
        })
    }
}

/// Runs a job and converts a panic to an error.
pub(crate) fn contain_panic<T>(job: impl FnOnce() -> Result<T>) -> Result<T> {
    // State of a job that panicked is not used again.
    catch_unwind(AssertUnwindSafe(job))
        .unwrap_or_else(|panic| Err(ErrorKind::Panic { message: describe_panic(&*panic) }.into()))
}

/// Returns a panic's message, for the error it becomes.
pub(crate) fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a task panicked: {}", message.unwrap_or("it left no message"))
}

/// Passes the run to the write nodes through the task's configuration. A plan can thus be run twice without changing
/// its nodes. The reference is weak, since some operators retain their context.
struct CurrentRun(Weak<Run>);

/// Returns the context for the plan below the committer.
pub(crate) fn with_run(context: &TaskContext, run: &Arc<Run>) -> TaskContext {
    let config = context.session_config().clone().with_extension(Arc::new(CurrentRun(Arc::downgrade(run))));
    TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    )
}

/// Returns the run of a write node.
pub(crate) fn current_run(context: &TaskContext) -> Result<Arc<Run>> {
    let current = context.session_config().get_extension::<CurrentRun>();
    let without = "TfRecordWriteExec runs only below the TfRecordCommitExec that it was planned with";
    current.and_then(|current| current.0.upgrade()).ok_or_else(|| refused(without).into())
}
