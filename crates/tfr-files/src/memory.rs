//! Memory bounds for parts of a run that do not reserve memory.

use datafusion_execution::memory_pool::MemoryLimit;
use datafusion_session::Session;

/// Range of batch sizes in bytes, whatever the limit: shorter batches cost time, and longer ones gain nothing.
const BATCH_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(64 << 20);

/// Number of batches in progress in a partition: being read, computed, held by an operator, or encoded.
const BATCHES_UNDER_WAY: u64 = 16;

/// Returns the bytes per batch if this many partitions share a limit.
pub fn batch_bytes(limit: u64, partitions: usize) -> u64 {
    let share = limit / (partitions.max(1) as u64).saturating_mul(BATCHES_UNDER_WAY);
    share.clamp(*BATCH_BYTES.start(), *BATCH_BYTES.end())
}

/// A session's memory bounds for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBounds {
    /// Bytes of a batch. A longer row is a batch of its own.
    pub batch: usize,
    /// Maximum bytes of a value that must be decoded as a whole, such as a Parquet page: the memory limit.
    pub value: u64,
}

impl ReadBounds {
    /// Returns the bounds of a session.
    pub fn of(session: &dyn Session) -> Self {
        match session.runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(limit) => {
                let partitions = session.config().target_partitions();
                let batch = batch_bytes(limit as u64, partitions);
                Self { batch: usize::try_from(batch).unwrap_or(usize::MAX), value: limit as u64 }
            }
            MemoryLimit::Infinite | MemoryLimit::Unknown => Self::default(),
        }
    }
}

impl ReadBounds {
    /// Maximum bytes of a record that is held while it is read, copied to a batch and written: a quarter of the
    /// limit.
    pub fn record(&self) -> usize {
        usize::try_from(self.value / 4).unwrap_or(usize::MAX)
    }
}

impl Default for ReadBounds {
    /// The bounds without a memory limit.
    fn default() -> Self {
        Self { batch: 64 << 20, value: u64::MAX }
    }
}
