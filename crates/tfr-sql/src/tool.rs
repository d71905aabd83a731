//! [`Work`]: runs the jobs of the tools.

use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use futures::executor::block_on;
use futures::future::{Either, select};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tfr_stores::Door;
use tfrecord_shards::{ErrorKind, Progress};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::listener;
use crate::printer::{Printer, bytes};
use crate::progress::ShownProgress;

/// A running tool: its printer, and how it is stopped.
pub struct Work<'a> {
    /// Receives notes and warnings.
    pub printer: &'a Printer,
    /// What the tool may open.
    pub door: Door,
    /// The caller's request to stop.
    pub interrupt: Interrupt,
    /// Cancels the requests that the job waits for, after it was asked to stop.
    pub reads: CancellationToken,
    /// When the command started.
    pub started: Instant,
}

impl<'a> Work<'a> {
    /// Creates work that starts now.
    pub fn new(printer: &'a Printer, door: Door, interrupt: Interrupt) -> Self {
        Self { printer, door, interrupt, reads: CancellationToken::new(), started: Instant::now() }
    }

    /// Runs a job that leaves nothing behind. A signal ends the wait for it at any point.
    pub fn until_signal<T: Send + 'static>(
        &mut self,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Result<T, ExitStatus>> {
        let job = ThreadJob::start(job)?;
        let received = Box::pin(self.interrupt.received());
        match block_on(select(job.done, received)) {
            Either::Left((done, _)) => ended(done, job.thread).map(Ok),
            Either::Right((status, _)) => {
                // It goes on until the process ends, and must not be detached while it ends.
                mem::forget(job.thread);
                Ok(Err(status))
            }
        }
    }

    /// Runs a job over the bytes of files and shows its progress. After a signal, asks it to stop and waits for it.
    pub fn with_progress<T: Send + 'static>(
        &mut self,
        threads: Option<NonZeroUsize>,
        job: impl FnOnce(&Progress, &Arc<ThreadPool>) -> tfrecord_shards::Result<T> + Send + 'static,
    ) -> Result<Result<T, ExitStatus>> {
        let progress = Arc::new(Progress::default());
        let (shown, started) = (Arc::clone(&progress), self.started);
        let shown = ShownProgress::start(self.printer, move || share_of(&shown, started))?;
        let watched = Arc::clone(&progress);
        let job = ThreadJob::start(move || {
            // Thousands of threads take a while to start, and a signal does not wait for them.
            let pool = pool(threads)?;
            Ok(pool.install(|| job(&watched, &pool))?)
        })?;
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
        match (ended(done, job.thread), status) {
            (Err(Error::Shards(error)), Some(status)) if matches!(error.kind(), ErrorKind::Stopped) => Ok(Err(status)),
            // Even if the signal came just before the end.
            (done, _) => done.map(Ok),
        }
    }
}

/// A job on its own thread.
struct ThreadJob<T> {
    done: oneshot::Receiver<Result<T>>,
    thread: thread::JoinHandle<()>,
}

impl<T: Send + 'static> ThreadJob<T> {
    fn start(job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<Self> {
        let (sender, done) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("tool".to_owned())
            // After a signal the receiver is gone.
            .spawn(move || drop(sender.send(job())))
            .map_err(|source| Error::Start { what: "a thread", source })?;
        Ok(Self { done, thread })
    }
}

/// Returns the result of a job. Without one, the error.
fn ended<T>(done: Result<Result<T>, oneshot::error::RecvError>, thread: thread::JoinHandle<()>) -> Result<T> {
    match (thread.join(), done) {
        (_, Ok(done)) => done,
        (Err(panic), Err(_)) => Err(Error::panic(panic.as_ref())),
        (Ok(()), Err(_)) => Err(Error::Panic("a job went away without a result".to_owned())),
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
    listener::Progress { share: Some(share), rows: None, message }
}
