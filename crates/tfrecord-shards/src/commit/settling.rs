//! [`Settling`]: work that a process should not be ended in.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of values that exist in this process.
static EXISTING: AtomicUsize = AtomicUsize::new(0);

/// Exists while a set or a table is published, or staged files are removed. Whoever ends the process because it does not
/// react can see [whether any exists](Self::is_any), and wait.
///
/// ```
/// use tfrecord_shards::Settling;
///
/// let settling = Settling::begin();
/// assert!(Settling::is_any());
/// drop(settling);
/// ```
#[derive(Debug)]
#[must_use = "the work ends when it is dropped"]
pub struct Settling(());

impl Settling {
    /// Begins such work.
    pub fn begin() -> Self {
        EXISTING.fetch_add(1, Ordering::SeqCst);
        Self(())
    }

    /// Whether the process does such work.
    pub fn is_any() -> bool {
        EXISTING.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        EXISTING.fetch_sub(1, Ordering::SeqCst);
    }
}
