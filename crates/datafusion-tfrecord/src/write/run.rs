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
use tfrecord_framing::{Compression, Level};
use tfrecord_sidecars::SidecarKind;
use tfrecord_sidecars::stats::Statistics;
use tokio::sync::oneshot;

use super::observe::Observer;
use super::options::WriteOptions;
use super::running::Running;
use super::staging::Staging;
use crate::error::{ErrorKind, shards_error, sidecar_error};

/// What the nodes of a write plan share while it runs: the set that is being made, and the threads that encode and
/// compress. The committer makes one for each execution and keeps it; every job keeps it too, until it is done.
pub(crate) struct Run {
    /// The set. With the last one who holds it goes what is staged, unless it has been published.
    pub(crate) staging: Staging,
    pub(crate) compression: Compression,
    pub(crate) level: Level,
    /// Where the set goes, for messages.
    out: PathBuf,
    pool: ThreadPool,
    /// Whether shards are to have indexes.
    pub(crate) indexed: bool,
    /// What was gathered of the rows of each write partition; of two attempts the later counts.
    statistics: Mutex<BTreeMap<u32, Statistics>>,
    /// What the write partitions share beside the set: see [`Run::shared`].
    shared: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
    /// Behind `staging`, so that what is staged is gone when this is. Uploads have their own, since they are aborted later.
    _running: Option<Running>,
}

impl Run {
    pub(crate) fn begin(staging: Staging, options: &WriteOptions, running: Option<Running>) -> Result<Arc<Self>> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(options.threads.map_or(0, NonZeroUsize::get))
            .thread_name(|thread| format!("tfrecord-{thread}"))
            .build()
            .map_err(|error| shards_error(error.into()))?;
        let (compression, level, out) = (options.compression, options.level, options.out.named());
        let indexed = options.emit.has(SidecarKind::Index);
        let (statistics, shared) = (Mutex::default(), Mutex::default());
        Ok(Arc::new(Self { staging, compression, level, out, pool, indexed, statistics, shared, _running: running }))
    }

    /// The error of a shard that could not be written.
    pub(crate) fn write_error(&self, error: tfrecord_shards::Error) -> DataFusionError {
        shards_error(error.with_path(&self.out))
    }

    /// Keeps what was gathered of all rows of a write partition.
    ///
    /// # Errors
    /// When rows are missing.
    pub(super) fn keep_statistics(&self, partition: u32, rows: u64, observer: Option<&Observer>) -> Result<()> {
        if let Some(observer) = observer {
            let statistics = observer.finish(rows)?;
            self.statistics.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, statistics);
        }
        Ok(())
    }

    /// What was gathered of all rows, one partition after the other.
    pub(super) fn take_statistics(&self) -> Result<Option<Statistics>> {
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        let mut partitions = std::mem::take(&mut *statistics).into_values();
        let Some(mut all) = partitions.next() else { return Ok(None) };
        for partition in partitions {
            all.merge(&partition).map_err(sidecar_error)?;
        }
        Ok(Some(all))
    }

    /// What the write partitions share, made by the first of them.
    ///
    /// # Errors
    /// When they share a value of another type.
    pub(super) fn shared<T: Any + Send + Sync>(&self, begin: impl FnOnce() -> T) -> Result<Arc<T>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = Arc::clone(shared.get_or_insert_with(|| Arc::new(begin())));
        shared.downcast().map_err(|_| internal_datafusion_err!("write partitions share values of two types"))
    }

    /// Ends what the write partitions share: its memory and temporary files go with the last of them that uses it.
    pub(super) fn end_shared(&self) {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Threads that encode and compress.
    pub(crate) fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs a job on the pool. The job starts whether the future is polled or not; it is skipped if the future is gone
    /// before it starts. A job that has started keeps the run alive to its end.
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
            // If nobody waits any more, what the job made goes before the run does.
            drop(sender.send(result));
            drop(run);
        });
        async move { receiver.await.unwrap_or_else(|_| Err(internal_datafusion_err!("a job went away without a result"))) }
    }

    /// Runs a job that waits for the disk on a thread of its own. What it computes in parallel runs on the pool.
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

/// Runs a job whose panic is an error.
pub(crate) fn contain_panic<T>(job: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing of a job that panicked is looked at again.
    catch_unwind(AssertUnwindSafe(job))
        .unwrap_or_else(|panic| Err(ErrorKind::Panic { message: describe_panic(&*panic) }.into()))
}

/// What a panic said, for the error that it becomes.
pub(crate) fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a task panicked: {}", message.unwrap_or("it left no message"))
}

/// How the write nodes find their run: it travels in the configuration of the task, so that a plan can be run twice and
/// its nodes never change. It does not keep the run alive, since some operators hold on to their context.
struct CurrentRun(Weak<Run>);

/// The context for the plan below the committer.
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

/// The run that a write node belongs to.
pub(crate) fn current_run(context: &TaskContext) -> Result<Arc<Run>> {
    let current = context.session_config().get_extension::<CurrentRun>();
    current.and_then(|current| current.0.upgrade()).ok_or_else(|| ErrorKind::NoCommit.into())
}
