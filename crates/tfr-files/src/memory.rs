//! How much memory the parts of a run may take that do not reserve it.

use datafusion_execution::memory_pool::MemoryLimit;
use datafusion_session::Session;

/// Bytes of a batch, whatever the limit: shorter ones cost time, and longer ones save none.
const BATCH_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(64 << 20);

/// Batches under way in a partition: read, computed, held by an operator, encoded.
const BATCHES_UNDER_WAY: u64 = 16;

/// Bytes of a batch, where so many partitions share a limit.
pub fn batch_bytes(limit: u64, partitions: usize) -> u64 {
    let share = limit / (partitions.max(1) as u64).saturating_mul(BATCHES_UNDER_WAY);
    share.clamp(*BATCH_BYTES.start(), *BATCH_BYTES.end())
}

/// What a session bounds of what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBounds {
    /// Bytes of a batch. A row that is longer is a batch of its own.
    pub batch: usize,
    /// Bytes of what has to be decoded as a whole, such as a page of Parquet; the limit.
    pub value: u64,
}

impl ReadBounds {
    /// Those of a session.
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
    /// Bytes of a record that is held while it is read, copied to a batch and written: a quarter of the limit.
    pub fn record(&self) -> usize {
        usize::try_from(self.value / 4).unwrap_or(usize::MAX)
    }
}

impl Default for ReadBounds {
    /// Those without a limit.
    fn default() -> Self {
        Self { batch: 64 << 20, value: u64::MAX }
    }
}
