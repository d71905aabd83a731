//! Cuts and joins the rows of a write partition into units, each encoded by one job.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::RecordBatch;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::SendableRecordBatchStream;
use futures::stream;
use futures::{Stream, TryStreamExt};
use tfrecord_shards::{ShardDeal, UnitSize};

use crate::error::{ErrorKind, encode_error, sidecar_error};

/// Maximum memory of a job's batches; a job stops adding batches beyond this. Its number of rows follows from the
/// length of earlier records, so a job after short records could otherwise hold thousands of long ones.
const MAX_UNIT_MEMORY: usize = 16 << 20;

/// Rows to encode in one job.
pub(super) struct Unit {
    /// Rows of the partition before these.
    pub(super) rows_before: u64,
    pub(super) batches: Vec<RecordBatch>,
}

impl Unit {
    /// Returns the number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }
}

/// Why rows cannot be encoded.
#[derive(Debug)]
pub(super) enum RowsError {
    Encode(arrow_tfrecord::Error),
    Snapshot(tfrecord_sidecars::Error),
}

impl From<arrow_tfrecord::Error> for RowsError {
    fn from(error: arrow_tfrecord::Error) -> Self {
        Self::Encode(error)
    }
}

impl From<tfrecord_sidecars::Error> for RowsError {
    fn from(error: tfrecord_sidecars::Error) -> Self {
        Self::Snapshot(error)
    }
}

/// Why a unit cannot be written.
#[derive(Debug)]
pub(super) enum UnitError {
    /// Its rows cannot be encoded.
    Rows(DataFusionError),
    Shards(tfrecord_shards::Error),
}

impl From<tfrecord_shards::Error> for UnitError {
    fn from(error: tfrecord_shards::Error) -> Self {
        Self::Shards(error)
    }
}

/// A write partition's number, for errors.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartitionPlace {
    pub(super) partition: u32,
    /// The number of write partitions.
    pub(super) partitions: usize,
}

impl PartitionPlace {
    /// Returns the round-robin assignment of this partition's rows.
    pub(super) fn deal(self, shards: NonZeroUsize) -> ShardDeal {
        let Self { partition, partitions } = self;
        let partitions = NonZeroUsize::new(partitions).unwrap_or(NonZeroUsize::MIN);
        ShardDeal::of_input(shards, partition as usize, partitions)
    }

    /// Creates the error of a row, with its number counted from the first row of the partition.
    pub(super) fn encode_error(self, error: RowsError, rows_before: u64) -> DataFusionError {
        self.locate(match error {
            RowsError::Encode(error) => encode_error(error.with_row_offset(rows_before)),
            RowsError::Snapshot(error) => sidecar_error(error).context(format!("of the rows from {rows_before} on")),
        })
    }

    /// Adds what rows are counted in, unless it is the whole query.
    pub(super) fn locate(self, source: DataFusionError) -> DataFusionError {
        let Self { partition, partitions } = self;
        match partitions {
            1 => source,
            _ => ErrorKind::PartitionRows { partition, partitions, source }.into(),
        }
    }
}

/// Cuts and joins batches into units.
pub(super) fn units(input: SendableRecordBatchStream, size: Arc<UnitSize>) -> impl Stream<Item = Result<Unit>> + Send {
    struct UnitCutter {
        input: SendableRecordBatchStream,
        /// Rows that did not fit into the last unit.
        rest: Option<RecordBatch>,
        rows: u64,
        size: Arc<UnitSize>,
    }
    let state = UnitCutter { input, rest: None, rows: 0, size };
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
    use arrow_tfrecord::RecordBuffer;
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
        let size = Arc::new(UnitSize::default());
        let mut short = RecordBuffer::default();
        short.push_frame(&[0; 20]);
        size.note(&short);
        assert_eq!(unit_rows(&["short"; 100], &size), [100]);
        let long = "x".repeat(4 << 20);
        assert_eq!(unit_rows(&[long.as_str(); 12], &size), [4, 4, 4]);
    }
}
