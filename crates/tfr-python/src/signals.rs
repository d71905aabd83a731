//! [`interruptible`]: long work that Ctrl-C stops; [`each_batch`]: a wait for batches that it ends.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchReader};
use pyo3::prelude::*;
use tfrecord_shards::Progress;

use crate::error::{Failure, Result};

/// How often a wait looks for Ctrl-C.
pub(crate) const INTERVAL: Duration = Duration::from_millis(50);

/// Runs `work` on another thread, without Python's lock. A signal whose handler raises stops it.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<Progress>) -> Result<T> + Send,
) -> PyResult<T> {
    let progress = Arc::new(Progress::default());
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

/// Number of rows, and of bytes in memory, that are processed between two looks for Ctrl-C.
const ROWS: usize = 8192;
const BYTES: usize = 16 << 20;

/// The lowest number of rows between two looks, if rows are large.
const LEAST_ROWS: usize = 8;

/// Calls `process` with the batches of a reader, a part of a batch at a time, without Python's lock. A signal whose
/// handler raises ends it, also while the reader waits for its source.
pub(crate) fn each_batch(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
    process: impl Fn(&RecordBatch) -> Result<()> + Sync,
) -> PyResult<()> {
    // After a signal, the thread ends when its source returns. Nothing waits for it.
    let (send, receive) = sync_channel(0);
    let read = move || {
        for batch in reader {
            if send.send(Some(batch)).is_err() {
                return;
            }
        }
        let _unread = send.send(None);
    };
    thread::Builder::new()
        .name("tfr-batches".to_owned())
        .spawn(read)
        .map_err(|error| Failure::other(format!("cannot start a thread: {error}")))?;
    // The receiver is moved to where the lock is released.
    let mut receive = Some(receive);
    loop {
        let Some(waiting) = receive.take() else { return Err(stopped().into()) };
        let (received, waiting) = py.detach(move || (waiting.recv_timeout(INTERVAL), waiting));
        receive = Some(waiting);
        match received {
            Ok(Some(batch)) => {
                let batch = batch.map_err(|error| Failure::other(format!("the data cannot be read: {error}")))?;
                let row_len = batch.get_array_memory_size() / batch.num_rows().max(1);
                let step = BYTES.checked_div(row_len).unwrap_or(ROWS).clamp(LEAST_ROWS, ROWS);
                // Once for a batch without rows, whose columns may be wrong.
                for start in (0..batch.num_rows().max(1)).step_by(step) {
                    let part = batch.slice(start, step.min(batch.num_rows() - start));
                    py.detach(|| process(&part))?;
                    py.check_signals()?;
                }
            }
            Ok(None) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => return Err(stopped().into()),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
    }
}

fn stopped() -> Failure {
    Failure::other("a thread has stopped".to_owned())
}
