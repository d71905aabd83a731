//! Cuts and joins the rows of a write partition into units, each encoded by one job.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_tfrecord::RecordBuffer;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::SendableRecordBatchStream;
use futures::stream;
use futures::{Stream, TryStreamExt};
use tfrecord_shards::ShardDeal;

use super::observe::RowsError;
use crate::error::{encode_error, sidecar_error};

/// Framed bytes to encode in one job: long compared to the cost of a job, short enough to have several in progress.
pub(super) const UNIT_BYTES: usize = 2 << 20;

/// Framed bytes to encode and append at a time, if records are appended as soon as they are encoded: a fraction of
/// the second-level cache.
const BLOCK_BYTES: usize = 256 << 10;

/// Maximum number of rows of a job: the rows of one batch of the engine.
const MAX_UNIT_ROWS: usize = 1 << 13;

/// Maximum memory of a job's batches; a job stops adding batches beyond this. Its number of rows follows from the
/// length of earlier records, so a job after short records could otherwise hold thousands of long ones.
const MAX_UNIT_MEMORY: usize = 8 * UNIT_BYTES;

/// Rows to encode in one job.
pub(super) struct Unit {
    /// Rows of the partition before these.
    pub(super) rows_before: u64,
    pub(super) batches: Vec<RecordBatch>,
}

/// Computes the number of rows per unit from the records so far.
pub(super) struct UnitSize {
    bytes: usize,
    /// Mean framed length of the last unit's records; 0 before the first.
    record_len: AtomicUsize,
}

impl UnitSize {
    /// Creates a size of about this many framed bytes per unit.
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, record_len: AtomicUsize::new(0) }
    }

    /// Updates the mean length from the records of a unit.
    pub(super) fn note(&self, records: &RecordBuffer) {
        self.record_len.store((records.bytes().len() / records.len().max(1)).max(1), Ordering::Relaxed);
    }

    /// Creates a buffer for the records of this many rows, sized if their length is known.
    pub(super) fn buffer(&self, rows: usize) -> RecordBuffer {
        match self.record_len.load(Ordering::Relaxed) {
            0 => RecordBuffer::default(),
            // An eighth more for longer records, and room for the encoder, which reserves the most that some rows may
            // take.
            len => RecordBuffer::with_capacity(len * (rows + rows / 8 + 2 * ShardDeal::MAX_BLOCK), rows),
        }
    }

    /// Returns the number of rows that are encoded and appended at a time.
    pub(super) fn block_rows(&self) -> usize {
        let rows = BLOCK_BYTES.checked_div(self.record_len.load(Ordering::Relaxed)).unwrap_or(ShardDeal::MAX_BLOCK);
        whole_blocks(rows.max(1))
    }

    /// Returns the number of rows of a unit that starts with this batch.
    fn rows(&self, first: &RecordBatch) -> usize {
        match self.record_len.load(Ordering::Relaxed) {
            // A slice reports the memory of its whole array. That overestimates, but only makes the first units
            // small.
            0 => {
                let len = first.get_array_memory_size() / first.num_rows().max(1);
                (self.bytes / len.max(1)).clamp(1, ShardDeal::MAX_BLOCK)
            }
            len => whole_blocks((self.bytes / len).clamp(1, MAX_UNIT_ROWS)),
        }
    }
}

/// Rounds a number of rows down to whole blocks, as used by encoding and round-robin assignment.
fn whole_blocks(rows: usize) -> usize {
    if rows < ShardDeal::MAX_BLOCK { rows } else { rows - rows % ShardDeal::MAX_BLOCK }
}

/// A write partition's number, for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartitionPlace {
    pub(super) partition: u32,
    /// The number of write partitions.
    pub(super) partitions: usize,
}

impl PartitionPlace {
    /// Creates the error of a row, with its number counted from the first row of the partition.
    pub(super) fn encode_error(self, error: RowsError, rows_before: u64) -> DataFusionError {
        self.locate(match error {
            RowsError::Encode(error) => encode_error(error.with_row_offset(rows_before)),
            RowsError::Snapshot(error) => sidecar_error(error).context(format!("of the rows from {rows_before} on")),
        })
    }

    /// Adds what rows are counted in, unless it is the whole query.
    pub(super) fn locate(self, error: DataFusionError) -> DataFusionError {
        let Self { partition, partitions } = self;
        if partitions == 1 {
            return error;
        }
        error.context(format!("write partition {partition} of {partitions}, which counts its own rows"))
    }
}

/// Cuts and joins batches into units.
pub(super) fn units(input: SendableRecordBatchStream, size: Arc<UnitSize>) -> impl Stream<Item = Result<Unit>> + Send {
    struct State {
        input: SendableRecordBatchStream,
        /// Rows that did not fit into the last unit.
        rest: Option<RecordBatch>,
        rows: u64,
        size: Arc<UnitSize>,
    }
    let state = State { input, rest: None, rows: 0, size };
    stream::try_unfold(state, |mut state| async move {
        let mut unit = Unit { rows_before: state.rows, batches: Vec::new() };
        let (mut room, mut memory) = (None, 0_usize);
        while room != Some(0) {
            let mut batch = match state.rest.take() {
                Some(rest) => rest,
                None if memory > MAX_UNIT_MEMORY => break,
                None => match state.input.try_next().await? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            let left = room.get_or_insert_with(|| state.size.rows(&batch));
            if batch.num_rows() > *left {
                state.rest = Some(batch.slice(*left, batch.num_rows() - *left));
                batch = batch.slice(0, *left);
            }
            if batch.num_rows() > 0 {
                *left -= batch.num_rows();
                state.rows += batch.num_rows() as u64;
                memory = memory.saturating_add(batch.get_array_memory_size());
                unit.batches.push(batch);
            }
        }
        Ok((!unit.batches.is_empty()).then_some((unit, state)))
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, StringArray};
    use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
    use futures::FutureExt;

    use super::*;

    /// Returns the rows of each unit, for batches with one text column.
    fn unit_rows(texts: &[&str], size: &Arc<UnitSize>) -> Vec<usize> {
        let batches: Vec<_> = texts
            .iter()
            .map(|text| {
                RecordBatch::try_from_iter([("t", Arc::new(StringArray::from(vec![*text])) as ArrayRef)]).unwrap()
            })
            .collect();
        let schema = batches[0].schema();
        let input = stream::iter(batches.into_iter().map(Ok));
        let input = Box::pin(RecordBatchStreamAdapter::new(schema, input));
        let units = units(input, Arc::clone(size)).map_ok(|unit| unit.batches.len()).try_collect::<Vec<_>>();
        units.now_or_never().unwrap().unwrap()
    }

    #[test]
    fn long_rows_behind_short_ones_do_not_pile_up_in_a_unit() {
        let size = Arc::new(UnitSize::new(UNIT_BYTES));
        size.record_len.store(10, Ordering::Relaxed);
        assert_eq!(unit_rows(&["short"; 100], &size), [100]);
        let long = "x".repeat(4 << 20);
        assert_eq!(unit_rows(&[long.as_str(); 12], &size), [4, 4, 4]);
    }
}
