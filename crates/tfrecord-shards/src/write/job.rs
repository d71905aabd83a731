//! [`Job`]: work on a rayon pool, to be waited for in any order.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{ErrorKind, Result};

/// Work that runs on a pool, and its result.
pub(crate) struct Job<T>(Receiver<thread::Result<T>>);

impl<T: Send + 'static> Job<T> {
    /// Starts work on the pool. From a thread of that pool it is done at once: the thread could wait for itself.
    pub(crate) fn start(pool: &ThreadPool, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        let run = move || {
            // What the work has touched goes away with the panic. If nobody waits any more, so does the result.
            let _unwanted = sender.send(catch_unwind(AssertUnwindSafe(work)));
        };
        if pool.current_thread_index().is_some() {
            run()
        } else {
            pool.spawn(run)
        }
        Self(receiver)
    }

    /// Waits for the result. A panic of the work goes on here.
    ///
    /// # Errors
    /// When the pool has dropped the work.
    pub(crate) fn wait(self) -> Result<T> {
        match self.0.recv() {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(ErrorKind::Failed.into()),
        }
    }

    /// Waits until the work is done with what it has, whatever comes of it. Not from a thread of the pool, which could wait
    /// for itself.
    pub(crate) fn end(self, pool: &ThreadPool) {
        if pool.current_thread_index().is_none() {
            let _unwanted = self.0.recv();
        }
    }
}

/// As many threads as there are cores.
pub(crate) fn thread_pool() -> Result<Arc<ThreadPool>> {
    Ok(Arc::new(ThreadPoolBuilder::new().thread_name(|index| format!("tfrecord-{index}")).build()?))
}
