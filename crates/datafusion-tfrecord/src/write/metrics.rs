//! Metrics of write partitions.

use datafusion_physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use tfrecord_shards::WriteListener;

/// Metrics of a write partition.
#[derive(Debug, Clone)]
pub(super) struct WriteMetrics {
    pub(super) rows_written: Count,
    /// Framed bytes.
    pub(super) bytes_written: Count,
    pub(super) shards: Count,
    pub(super) elapsed_compute: Time,
}

impl WriteMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            rows_written: counter("rows_written"),
            bytes_written: counter("bytes_written"),
            shards: counter("shards"),
            elapsed_compute: MetricBuilder::new(metrics).elapsed_compute(partition),
        }
    }
}

impl WriteListener for WriteMetrics {
    fn appended(&self, _: usize, records: usize, framed_bytes: usize) {
        self.rows_written.add(records);
        self.bytes_written.add(framed_bytes);
    }
}

/// Metrics of a write partition that sorts.
#[derive(Debug, Clone)]
pub(super) struct SortMetrics {
    /// Rows whose records have been encoded.
    pub(super) rows_encoded: Count,
    pub(super) spill_count: Count,
    pub(super) spilled_bytes: Count,
}

impl SortMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        Self {
            rows_encoded: MetricBuilder::new(metrics).counter("rows_encoded", partition),
            spill_count: MetricBuilder::new(metrics).spill_count(partition),
            spilled_bytes: MetricBuilder::new(metrics).spilled_bytes(partition),
        }
    }
}
