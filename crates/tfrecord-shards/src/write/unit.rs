//! Units of rows, each encoded by one job: their size, and their records.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_tfrecord::{Encoder, RecordBuffer};

use crate::error::Result;
use crate::write::sharding::ShardDeal;

/// Framed bytes to encode in one job: long compared with the cost of a job, short enough for several jobs per thread.
const UNIT_BYTES: usize = 2 << 20;

/// Framed bytes to encode and append at a time, if records are appended as soon as they are encoded: a fraction of the
/// second-level cache.
const BLOCK_BYTES: usize = 256 << 10;

/// Maximum rows of a unit, for records of a few bytes: the rows of one batch of DataFusion.
const MAX_UNIT_ROWS: usize = 1 << 13;

/// Computes the number of rows per unit from the records so far.
#[derive(Debug)]
pub struct UnitSize {
    bytes: usize,
    /// Mean framed length of the last records; 0 before the first.
    record_len: AtomicUsize,
}

impl Default for UnitSize {
    /// 2 MiB of framed records per unit.
    fn default() -> Self {
        Self::new(UNIT_BYTES)
    }
}

impl UnitSize {
    /// Creates a size of about this many framed bytes per unit.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, record_len: AtomicUsize::new(0) }
    }

    /// Updates the mean length of a record from these records.
    pub fn note(&self, records: &RecordBuffer) {
        if !records.is_empty() {
            self.record_len.store((records.bytes().len() / records.len()).max(1), Ordering::Relaxed);
        }
    }

    /// Creates a buffer for the records of this many rows, sized if their length is known.
    pub fn buffer(&self, rows: usize) -> RecordBuffer {
        match self.record_len.load(Ordering::Relaxed) {
            0 => RecordBuffer::default(),
            // An eighth more for longer records, and room for the encoder, which reserves the most that some rows may
            // take.
            len => RecordBuffer::with_capacity(len * (rows + rows / 8 + 2 * ShardDeal::MAX_BLOCK), rows),
        }
    }

    /// Returns the number of rows of a unit that starts with this batch.
    pub fn rows(&self, first: &RecordBatch) -> usize {
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

    /// Divides a batch into units. Each is sized when it is taken.
    pub(crate) fn units(&self, batch: RecordBatch) -> impl Iterator<Item = RecordBatch> {
        let mut rest = batch;
        std::iter::from_fn(move || {
            let rows = self.rows(&rest).min(rest.num_rows());
            let unit = rest.slice(0, rows);
            rest = rest.slice(rows, rest.num_rows() - rows);
            (rows > 0).then_some(unit)
        })
    }

    /// Returns the number of rows that are encoded and appended at a time.
    pub(crate) fn block_rows(&self) -> usize {
        let rows = BLOCK_BYTES.checked_div(self.record_len.load(Ordering::Relaxed)).unwrap_or(ShardDeal::MAX_BLOCK);
        whole_blocks(rows.max(1))
    }
}

/// Returns work that encodes a unit, the rows of an input after the first `rows_before`.
pub(crate) fn encode_unit(
    encoder: Encoder,
    unit: RecordBatch,
    rows_before: u64,
) -> impl FnOnce(&mut UnitRecords<'_>) -> Result<()> + Send + 'static {
    move |records| {
        let located = |error: arrow_tfrecord::Error| error.with_row_offset(rows_before);
        let bound = encoder.bind(&unit).map_err(located)?;
        for block in records.blocks(unit.num_rows()) {
            bound.encode(block, records.buffer()).map_err(located)?;
            records.end_block()?;
        }
        Ok(())
    }
}

/// Rounds a number of rows down to whole blocks, as used by encoding and round-robin assignment.
fn whole_blocks(rows: usize) -> usize {
    if rows < ShardDeal::MAX_BLOCK { rows } else { rows - rows % ShardDeal::MAX_BLOCK }
}

/// The records of a unit.
pub(crate) struct EncodedUnit {
    pub(crate) rows_before: u64,
    pub(crate) records: RecordBuffer,
}

/// Receives the records of a unit, which may be appended to shards before the unit is encoded completely.
///
/// An encoder divides its rows into [blocks](Self::blocks), adds the records of each block to the
/// [buffer](Self::buffer), and [ends](Self::end_block) it.
pub struct UnitRecords<'a> {
    records: &'a mut RecordBuffer,
    blocks: Option<Blocks<'a>>,
}

/// Appends blocks of records.
struct Blocks<'a> {
    /// Rows of a block.
    rows: usize,
    append: &'a mut AppendBlock<'a>,
    /// The first record that is not ended.
    start: usize,
}

/// Appends the records from this one on, and removes those that are no longer needed.
type AppendBlock<'a> = dyn FnMut(&mut RecordBuffer, usize) -> Result<()> + 'a;

impl<'a> UnitRecords<'a> {
    /// Keeps all records in a buffer.
    pub(crate) fn whole(records: &'a mut RecordBuffer) -> Self {
        Self { records, blocks: None }
    }

    /// Appends blocks of this many rows.
    pub(crate) fn in_blocks(records: &'a mut RecordBuffer, rows: usize, append: &'a mut AppendBlock<'a>) -> Self {
        Self { records, blocks: Some(Blocks { rows: rows.max(1), append, start: 0 }) }
    }

    /// Returns the buffer to add records to.
    pub fn buffer(&mut self) -> &mut RecordBuffer {
        self.records
    }

    /// Divides the rows of a batch into blocks.
    pub fn blocks(&self, rows: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let block_rows = self.blocks.as_ref().map_or(rows, |blocks| blocks.rows).max(1);
        (0..rows).step_by(block_rows).map(move |start| start..rows.min(start.saturating_add(block_rows)))
    }

    /// Ends a block. Its records may be appended to shards and removed from the buffer.
    ///
    /// # Errors
    /// If a shard cannot be created or written to.
    pub fn end_block(&mut self) -> Result<()> {
        let Some(blocks) = &mut self.blocks else { return Ok(()) };
        if self.records.len() > blocks.start {
            (blocks.append)(self.records, blocks.start)?;
            blocks.start = self.records.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(rows: usize, block_rows: usize) -> Vec<Range<usize>> {
        let (mut records, mut append) = (RecordBuffer::default(), |_: &mut RecordBuffer, _: usize| Ok(()));
        UnitRecords::in_blocks(&mut records, block_rows, &mut append).blocks(rows).collect()
    }

    #[test]
    fn blocks_cover_all_rows() {
        assert_eq!(blocks(5, 2), [0..2, 2..4, 4..5]);
        assert_eq!(blocks(2, 0), [0..1, 1..2]);
        assert!(blocks(0, 3).is_empty());
        assert!(UnitRecords::whole(&mut RecordBuffer::default()).blocks(5).eq(std::iter::once(0..5)));
    }
}
