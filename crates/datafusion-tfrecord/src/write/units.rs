//! Rows of a write partition, cut and joined to what one job encodes.

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

/// Framed bytes to encode in one job: long against the price of a job, short enough to keep several under way.
pub(super) const UNIT_BYTES: usize = 2 << 20;

/// Framed bytes to encode and append at a time, where records are appended as soon as they are encoded: a fraction of the
/// second-level cache.
const BLOCK_BYTES: usize = 256 << 10;

/// Most rows of a job: those of one batch of the engine.
const MAX_UNIT_ROWS: usize = 1 << 13;

/// Bytes of batches after which a job takes no further batch. The number of rows of a job follows from the length of the records
/// before it, so a job after short records would hold thousands of long ones.
const MAX_UNIT_MEMORY: usize = 8 * UNIT_BYTES;

/// Some rows to encode in one job.
pub(super) struct Unit {
    /// Rows of the partition before these.
    pub(super) rows_before: u64,
    pub(super) batches: Vec<RecordBatch>,
}

/// How many rows make a unit, learned from the records so far.
pub(super) struct UnitSize {
    bytes: usize,
    /// Mean framed length of the last unit's records; 0 before the first.
    record_len: AtomicUsize,
}

impl UnitSize {
    /// Units of about so many framed bytes.
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes, record_len: AtomicUsize::new(0) }
    }

    /// Learns from the records of a unit.
    pub(super) fn note(&self, records: &RecordBuffer) {
        self.record_len.store((records.bytes().len() / records.len().max(1)).max(1), Ordering::Relaxed);
    }

    /// A buffer for the records of so many rows, if it is known how long they are.
    pub(super) fn buffer(&self, rows: usize) -> RecordBuffer {
        match self.record_len.load(Ordering::Relaxed) {
            0 => RecordBuffer::default(),
            // An eighth for longer ones, and room for the encoder, which reserves the most that some rows may take.
            len => RecordBuffer::with_capacity(len * (rows + rows / 8 + 2 * ShardDeal::MAX_BLOCK), rows),
        }
    }

    /// Rows that are encoded and appended at a time.
    pub(super) fn block_rows(&self) -> usize {
        let rows = BLOCK_BYTES.checked_div(self.record_len.load(Ordering::Relaxed)).unwrap_or(ShardDeal::MAX_BLOCK);
        whole_blocks(rows.max(1))
    }

    /// Rows of a unit that starts with this batch.
    fn rows(&self, first: &RecordBatch) -> usize {
        match self.record_len.load(Ordering::Relaxed) {
            // A slice tells the memory of the whole; too much, but that only makes the first units small.
            0 => {
                let len = first.get_array_memory_size() / first.num_rows().max(1);
                (self.bytes / len.max(1)).clamp(1, ShardDeal::MAX_BLOCK)
            }
            len => whole_blocks((self.bytes / len).clamp(1, MAX_UNIT_ROWS)),
        }
    }
}

/// So many rows, or somewhat fewer that make whole blocks of what encoding and dealing do at a time.
fn whole_blocks(rows: usize) -> usize {
    if rows < ShardDeal::MAX_BLOCK { rows } else { rows - rows % ShardDeal::MAX_BLOCK }
}

/// A write partition among others, as errors name it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartitionPlace {
    pub(super) partition: u32,
    /// The number of write partitions.
    pub(super) partitions: usize,
}

impl PartitionPlace {
    /// The error of a row, which counts from the first row of the partition on.
    pub(super) fn encode_error(self, error: RowsError, rows_before: u64) -> DataFusionError {
        self.locate(match error {
            RowsError::Encode(error) => encode_error(error.with_row_offset(rows_before)),
            RowsError::Snapshot(error) => sidecar_error(error).context(format!("of the rows from {rows_before} on")),
        })
    }

    /// Says what rows are counted in, where it is not the whole query.
    pub(super) fn locate(self, error: DataFusionError) -> DataFusionError {
        let Self { partition, partitions } = self;
        if partitions == 1 {
            return error;
        }
        error.context(format!("write partition {partition} of {partitions}, which counts its own rows"))
    }
}

/// Cuts and joins batches to units.
pub(super) fn units(input: SendableRecordBatchStream, size: Arc<UnitSize>) -> impl Stream<Item = Result<Unit>> + Send {
    struct State {
        input: SendableRecordBatchStream,
        /// What did not fit the last unit.
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

    /// Rows of the units of which the engine gives batches with one text each.
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
