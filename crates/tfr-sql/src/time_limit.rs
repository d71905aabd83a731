//! [`TimeLimit`]: asks a run to stop when the time of `--timeout` has passed.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;

/// Watches the time of a run until it is dropped.
#[derive(Debug)]
pub struct TimeLimit {
    /// Closed to end the thread. `None` once it has ended.
    run: Option<(Sender<()>, JoinHandle<()>)>,
}

impl TimeLimit {
    /// Requests [`ExitStatus::TimedOut`] after `limit`.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub fn start(limit: Duration, interrupt: Interrupt) -> io::Result<Self> {
        let (running, ended) = mpsc::channel();
        let thread = thread::Builder::new().name("timeout".to_owned()).spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                interrupt.request(ExitStatus::TimedOut);
            }
        })?;
        Ok(Self { run: Some((running, thread)) })
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        if let Some((running, thread)) = self.run.take() {
            drop(running);
            // It cannot panic. No thread may be left when the process ends.
            let _ = thread.join();
        }
    }
}
