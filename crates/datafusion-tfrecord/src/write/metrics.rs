//! What write partitions count.

use datafusion_physical_plan::metrics::{Count, Time};

/// What a partition counts.
#[derive(Debug, Clone)]
pub(super) struct WriteMetrics {
    pub(super) rows_written: Count,
    /// Framed bytes.
    pub(super) bytes_written: Count,
    pub(super) shards: Count,
    pub(super) elapsed_compute: Time,
}

/// What a write partition counts while it sorts.
#[derive(Debug, Clone)]
pub(super) struct SortMetrics {
    /// Rows whose records have been encoded.
    pub(super) rows_encoded: Count,
    pub(super) spill_count: Count,
    pub(super) spilled_bytes: Count,
}
