//! [`Work`]: what the tools have in common.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use futures::executor::block_on;
use futures::future::{Either, select};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tfrecord_shards::{ErrorKind, Progress};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::listener;
use crate::printer::{Printer, bytes};
use crate::progress::ShownProgress;

/// A tool at work: whom it tells, and how it is stopped.
pub struct Work<'a> {
    /// Who is told.
    pub printer: &'a Printer,
    /// How the caller stops it.
    pub interrupt: Interrupt,
    /// Ends requests that the job waits for, once it was told to stop.
    pub reads: CancellationToken,
    /// When the command started.
    pub started: Instant,
}

impl<'a> Work<'a> {
    /// Work that starts now.
    pub fn new(printer: &'a Printer, interrupt: Interrupt) -> Self {
        Self { printer, interrupt, reads: CancellationToken::new(), started: Instant::now() }
    }

    /// Runs a job that leaves nothing behind wherever it stands when a signal comes: it is not waited for then.
    pub fn until_signal<T: Send + 'static>(
        &mut self,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Result<T, ExitStatus>> {
        let job = Job::start(job)?;
        let received = Box::pin(self.interrupt.received());
        match block_on(select(job.done, received)) {
            Either::Left((done, _)) => done.unwrap_or_else(|_| Err(panicked(job.thread))).map(Ok),
            Either::Right((status, _)) => Ok(Err(status)),
        }
    }

    /// Runs a job over the bytes of files, with its progress shown. At a signal it is told to stop, and waited for.
    pub fn with_progress<T: Send + 'static>(
        &mut self,
        threads: Option<NonZeroUsize>,
        job: impl FnOnce(&Progress, &Arc<ThreadPool>) -> tfrecord_shards::Result<T> + Send + 'static,
    ) -> Result<Result<T, ExitStatus>> {
        let pool = pool(threads)?;
        let progress = Arc::new(Progress::default());
        let (shown, started) = (Arc::clone(&progress), self.started);
        let shown = ShownProgress::start(self.printer, move || share_of(&shown, started))?;
        let watched = Arc::clone(&progress);
        let job = Job::start(move || Ok(pool.install(|| job(&watched, &pool))?))?;
        let received = Box::pin(self.interrupt.received());
        let (done, status) = match block_on(select(job.done, received)) {
            Either::Left((done, _)) => (done, None),
            Either::Right((status, done)) => {
                progress.stop();
                self.reads.cancel();
                (block_on(done), Some(status))
            }
        };
        drop(shown);
        let done = done.unwrap_or_else(|_| Err(panicked(job.thread)));
        match (done, status) {
            (Err(Error::Shards(error)), Some(status)) if matches!(error.kind(), ErrorKind::Stopped) => Ok(Err(status)),
            // Also if the signal came when all was as good as done.
            (done, _) => done.map(Ok),
        }
    }
}

/// A job on a thread of its own.
struct Job<T> {
    done: oneshot::Receiver<Result<T>>,
    thread: thread::JoinHandle<()>,
}

impl<T: Send + 'static> Job<T> {
    fn start(job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<Self> {
        let (sender, done) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("tool".to_owned())
            // After a signal nobody listens any more.
            .spawn(move || drop(sender.send(job())))
            .map_err(|source| Error::Start { what: "a thread", source })?;
        Ok(Self { done, thread })
    }
}

/// The error of a job that ended without a result.
fn panicked(thread: thread::JoinHandle<()>) -> Error {
    match thread.join() {
        Err(panic) => Error::panic(panic.as_ref()),
        Ok(()) => Error::Panic("a job went away without a result".to_owned()),
    }
}

fn pool(threads: Option<NonZeroUsize>) -> Result<Arc<ThreadPool>> {
    ThreadPoolBuilder::new()
        .num_threads(threads.map_or(0, NonZeroUsize::get))
        .thread_name(|thread| format!("tool-{thread}"))
        .build()
        .map(Arc::new)
        .map_err(|error| Error::Start { what: "the threads", source: io::Error::other(error) })
}

fn share_of(read: &Progress, started: Instant) -> listener::Progress {
    let (read, total) = (read.bytes_read(), read.bytes_total());
    let speed = (read as f64 / started.elapsed().as_secs_f64().max(0.001)) as u64;
    let share = if total == 0 { 0.0 } else { (read as f64 / total as f64).min(1.0) };
    let message = format!("{} of {}, {}/s, {:.0} %", bytes(read), bytes(total), bytes(speed), share * 100.0);
    listener::Progress { share: Some(share), message }
}
