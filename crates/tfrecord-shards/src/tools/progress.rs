//! [`Progress`]: the progress of a long operation, and a way to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{ErrorKind, Result};

/// The progress of an operation on files. Another thread can watch it and stop the operation.
///
/// ```
/// use tfrecord_shards::{ErrorKind, Progress, verify};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let file = dir.path().join("a.tfrecord");
/// # std::fs::write(&file, b"not records")?;
/// let progress = Progress::default();
/// progress.stop();
/// let error = verify(&[file], &progress).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::Stopped));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    total: AtomicU64,
    stopped: AtomicBool,
    /// Number of bytes read after which the operation stops, for tests; 0 for never.
    stop_after: AtomicU64,
}

impl Progress {
    /// Returns the number of bytes read from the files. A file that is read twice counts twice.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes to read, as far as known: 0 until the files have been found.
    pub fn bytes_total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Stops the operation soon, with [`ErrorKind::Stopped`] and nothing left behind. A set that is being published is
    /// still published.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the operation is to stop.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Stops the operation after this many bytes.
    #[doc(hidden)]
    pub fn stop_after(&self, bytes: u64) {
        self.stop_after.store(bytes, Ordering::Relaxed);
    }

    /// Adds to the number of bytes to read.
    pub(crate) fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds to the number of bytes read. Called at least for every block.
    ///
    /// # Errors
    /// [`ErrorKind::Stopped`].
    pub(crate) fn advance(&self, bytes: u64) -> Result<()> {
        let read = self.read.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let stop_after = self.stop_after.load(Ordering::Relaxed);
        if (stop_after > 0 && read >= stop_after) || self.stopped.load(Ordering::Relaxed) {
            return Err(ErrorKind::Stopped.into());
        }
        Ok(())
    }
}
