//! [`Progress`]: how far a long run has come, and the way to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{ErrorKind, Result};

/// How far a run over files has come, to be watched from another thread, and the way to stop it.
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
    /// Bytes read after which the run stops by itself, for tests; 0 for never.
    stop_after: AtomicU64,
}

impl Progress {
    /// Bytes of the files that have been read. A file that is read twice counts twice.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes that are to be read, as far as is known: 0 until the files have been found.
    pub fn bytes_total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Lets the run end soon, with [`ErrorKind::Stopped`] and nothing left behind. A set that is being published by
    /// then is published.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Stops the run when it has read this many bytes.
    #[doc(hidden)]
    pub fn stop_after(&self, bytes: u64) {
        self.stop_after.store(bytes, Ordering::Relaxed);
    }

    /// There are more bytes to read.
    pub(crate) fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// More bytes have been read. Called for every block, at least.
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
