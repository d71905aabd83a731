//! Metrics of write partitions.

use datafusion_physical_plan::metrics::{Count, Time};

/// Metrics of a write partition.
#[derive(Debug, Clone)]
pub(super) struct WriteMetrics {
    pub(super) rows_written: Count,
    /// Framed bytes.
    pub(super) bytes_written: Count,
    pub(super) shards: Count,
    pub(super) elapsed_compute: Time,
}

/// Metrics of a write partition that sorts.
#[derive(Debug, Clone)]
pub(super) struct SortMetrics {
    /// Rows whose records have been encoded.
    pub(super) rows_encoded: Count,
    pub(super) spill_count: Count,
    pub(super) spilled_bytes: Count,
}
