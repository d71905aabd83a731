//! [`Job`]: work on a rayon pool, whose results can be awaited in any order.

use std::collections::VecDeque;
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

/// A limited number of jobs, whose results are taken in the order of their start.
pub(crate) struct Jobs<T> {
    pool: Arc<ThreadPool>,
    /// Oldest first.
    started: VecDeque<Job<T>>,
    most: usize,
}

impl<T: Send + 'static> Jobs<T> {
    pub(crate) fn new(pool: &Arc<ThreadPool>) -> Self {
        // One job in progress on each thread, and one more for each to continue with.
        Self { pool: Arc::clone(pool), started: VecDeque::new(), most: 2 * pool.current_num_threads() }
    }

    /// Waits for the result of the oldest job if there are as many jobs as permitted.
    pub(crate) fn make_room(&mut self) -> Option<Result<T>> {
        if self.started.len() < self.most { None } else { self.next() }
    }

    /// Waits for the result of the oldest job.
    pub(crate) fn next(&mut self) -> Option<Result<T>> {
        self.started.pop_front().map(Job::wait)
    }

    pub(crate) fn start(&mut self, work: impl FnOnce() -> T + Send + 'static) {
        self.started.push_back(Job::start(&self.pool, work));
    }

    /// Waits until all jobs have released their values.
    pub(crate) fn end(&mut self) {
        for job in self.started.drain(..) {
            job.end(&self.pool);
        }
    }
}

/// Creates a pool with one thread per core.
pub(crate) fn thread_pool() -> Result<Arc<ThreadPool>> {
    Ok(Arc::new(ThreadPoolBuilder::new().thread_name(|index| format!("tfrecord-{index}")).build()?))
}
