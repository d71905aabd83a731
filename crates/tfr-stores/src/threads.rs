//! Starts and ends the threads of async work.

use std::io;
use std::mem;
use std::sync::mpsc::{self, RecvTimeoutError, SendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{self, Runtime};

/// How long a thread for blocking work is kept: always.
const KEPT: Duration = Duration::from_hours(24 * 365);

/// How long [`end`] waits for threads that are busy.
const PATIENCE: Duration = Duration::from_millis(100);

/// Starts a runtime with this many worker threads of this name, whose stacks have this many bytes. One more thread is
/// started for blocking work, and kept: when the system has no threads to spare later, blocking work waits for it.
///
/// # Errors
/// If so many threads cannot be started. The runtime itself would panic, or wait for ever.
pub fn start(name: &str, workers: usize, stack_bytes: usize) -> io::Result<Runtime> {
    try_threads(workers.saturating_add(1), stack_bytes)?;
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .thread_name(name)
        .thread_stack_size(stack_bytes)
        .thread_keep_alive(KEPT)
        .enable_all()
        .build()?;
    let (started, has_started) = mpsc::channel();
    runtime.spawn_blocking(move || started.send(()));
    has_started.recv().map_err(io::Error::other)?;
    Ok(runtime)
}

/// Starts this many threads, which live at the same time and end.
fn try_threads(number: usize, stack_bytes: usize) -> io::Result<()> {
    let mut waiting: Vec<(mpsc::Sender<()>, JoinHandle<()>)> = Vec::new();
    let mut started = Ok(());
    while started.is_ok() && waiting.len() < number {
        let (sender, receiver) = mpsc::channel();
        let thread = thread::Builder::new().stack_size(stack_bytes);
        let wait = move || {
            let _closed = receiver.recv();
        };
        started = thread.spawn(wait).map(|thread| waiting.push((sender, thread)));
    }
    for (sender, thread) in waiting {
        drop(sender);
        thread.join().map_err(|_| io::Error::other("a thread has panicked"))?;
    }
    started
}

/// Ends a runtime, and waits a moment for its threads. Those that are still busy, such as one in a system call that does not
/// return, go on until the process ends.
///
/// No thread is detached while it ends, which can crash the process:
/// [glibc's bug 19951](https://sourceware.org/bugzilla/show_bug.cgi?id=19951).
pub fn end(runtime: Runtime) {
    let (sender, receiver) = mpsc::channel::<Runtime>();
    let (done, is_done) = mpsc::channel();
    let join_all = move || {
        // Joins the threads. Not allowed on the threads of another runtime, one of which may be the caller.
        drop(receiver.recv());
        // The caller may not wait any more.
        let _unwanted = done.send(());
    };
    match thread::Builder::new().name("end".to_owned()).spawn(join_all) {
        Ok(thread) => {
            if let Err(SendError(runtime)) = sender.send(runtime) {
                mem::forget(runtime);
            }
            match is_done.recv_timeout(PATIENCE) {
                Err(RecvTimeoutError::Timeout) => mem::forget(thread),
                Ok(()) | Err(RecvTimeoutError::Disconnected) => drop(thread.join()),
            }
        }
        Err(_) => mem::forget(runtime),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn runtime_end_waits_for_its_threads() {
        let runtime = start("work", 2, 1 << 20).unwrap();
        let held = Arc::new(());
        for _ in 0..4 {
            let held = Arc::clone(&held);
            runtime.spawn_blocking(move || drop(held));
        }
        end(runtime);
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[test]
    fn runtime_end_does_not_wait_for_blocked_threads() {
        let runtime = start("work", 1, 1 << 20).unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        let (began, has_begun) = mpsc::channel();
        let ended = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ended);
        runtime.spawn_blocking(move || {
            began.send(()).unwrap();
            let _closed = receiver.recv();
            count.fetch_add(1, Ordering::SeqCst);
        });
        has_begun.recv().unwrap();
        end(runtime);
        assert_eq!(ended.load(Ordering::SeqCst), 0);
        drop(sender);
    }

    #[test]
    fn runtime_start_reports_threads_that_cannot_be_created() {
        // No address space has room for such a stack.
        assert!(start("work", 1, usize::MAX >> 1).is_err());
    }
}
