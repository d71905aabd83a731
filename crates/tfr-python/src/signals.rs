//! [`interruptible`]: long work that Ctrl-C stops.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use tfrecord_shards::Progress;

use crate::error::{Failure, Result};

/// How often a wait looks for Ctrl-C.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// Runs `work` on another thread, without Python's lock. A signal whose handler raises stops it.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&Progress) -> Result<T> + Send) -> PyResult<T> {
    let progress = Progress::default();
    thread::scope(|scope| {
        let (send, receive) = sync_channel(1);
        let progress = &progress;
        scope.spawn(move || {
            // The receiver is gone after a signal.
            let _ = send.send(work(progress));
        });
        // The receiver is moved to where the lock is released.
        let mut receive = Some(receive);
        loop {
            let Some(waiting) = receive.take() else { return Err(stopped().into()) };
            let (received, waiting) = py.detach(move || (waiting.recv_timeout(INTERVAL), waiting));
            match received {
                Ok(done) => return Ok(done?),
                Err(RecvTimeoutError::Disconnected) => return Err(stopped().into()),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(signal) = py.check_signals() {
                        progress.stop();
                        // The scope waits for the thread, which stops soon.
                        return Err(signal);
                    }
                    receive = Some(waiting);
                }
            }
        }
    })
}

fn stopped() -> Failure {
    Failure::other("a thread has stopped".to_owned())
}
