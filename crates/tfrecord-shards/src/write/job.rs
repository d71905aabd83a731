//! [`Job`]: work on a rayon pool, whose results can be awaited in any order.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{ErrorKind, Result};

/// Work on a pool, and its result.
pub(crate) struct Job<T>(Receiver<thread::Result<T>>);

impl<T: Send + 'static> Job<T> {
    /// Starts work on the pool. On a thread of that pool it runs at once, because the thread could wait for itself.
    pub(crate) fn start(pool: &ThreadPool, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        let run = move || {
            // A panic drops everything the work has touched. If nobody waits any more, the result is dropped too.
            let _unwanted = sender.send(catch_unwind(AssertUnwindSafe(work)));
        };
        if pool.current_thread_index().is_some() {
            run()
        } else {
            pool.spawn(run)
        }
        Self(receiver)
    }

    /// Waits for the result. A panic of the work is resumed here.
    ///
    /// # Errors
    /// If the pool dropped the work.
    pub(crate) fn wait(self) -> Result<T> {
        match self.0.recv() {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(ErrorKind::Failed.into()),
        }
    }

    /// Waits until the work has released its values, whatever its result. Must not be called on a thread of the pool,
    /// which could wait for itself.
    pub(crate) fn end(self, pool: &ThreadPool) {
        if pool.current_thread_index().is_none() {
            let _unwanted = self.0.recv();
        }
    }
}

/// Creates a pool with one thread per core.
pub(crate) fn thread_pool() -> Result<Arc<ThreadPool>> {
    Ok(Arc::new(ThreadPoolBuilder::new().thread_name(|index| format!("tfrecord-{index}")).build()?))
}
