//! [`Runs`]: counts the runs of a plan that are not cleaned up yet. [`Begun`]: whether one has begun.
//! [`blocking`]: a job that waits for a file system.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use tokio::sync::watch;

/// Counts the runs of a plan that still have something to clean up.
#[derive(Debug, Clone)]
pub(crate) struct Runs(Arc<watch::Sender<usize>>);

impl Default for Runs {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Runs {
    pub(crate) fn start(&self) -> Running {
        self.0.send_modify(|running| *running += 1);
        Running(self.clone())
    }

    /// Waits until no run is left.
    pub(crate) async fn settled(&self) {
        // `self` owns the sender, so the channel is not closed.
        let _ = self.0.subscribe().wait_for(|running| *running == 0).await;
    }
}

/// One run that has not been cleaned up.
#[derive(Debug)]
pub(crate) struct Running(Runs);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.send_modify(|running| *running -= 1);
    }
}

/// The initial state of a run.
pub(crate) enum Begun<T> {
    Run(T),
    /// There is nothing to do, since these files exist.
    Ignored(Vec<String>),
}

/// Runs a job that waits for a file system on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let joined = SpawnedTask::spawn_blocking(job).await;
    joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}
