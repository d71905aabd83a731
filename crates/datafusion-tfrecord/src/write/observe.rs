//! [`Observer`]: gathers statistics of a write partition's rows while they are encoded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_tfrecord::{BoundBatch, Encoder, Mapping, RecordBuffer};
use datafusion_common::{Result, internal_datafusion_err};
use tfrecord_shards::UnitRecords;
use tfrecord_sidecars::snapshot::Snapshot;
use tfrecord_sidecars::stats::{Detail, Statistics};

use super::options::{Layout, WriteOptions};
use super::units::{PartitionPlace, RowsError, Unit, UnitError};
use crate::error::sidecar_error;

/// Encodes batches, and gathers statistics if sidecar files need them.
///
/// Batches are encoded concurrently but added in the order of their rows, so that the result does not depend on
/// threads. The thread that has encoded the next batch adds it, along with later batches that other threads have left
/// meanwhile. No thread waits. Plain counts are added at once, since sums do not depend on order.
#[derive(Debug, Clone)]
pub(super) struct RowEncoder {
    encoder: Encoder,
    observer: Option<Arc<Observer>>,
    snapshot: Option<Arc<Snapshot>>,
}

/// Returns how rows become elements of a saved dataset, if one is requested.
///
/// # Errors
/// A column that a saved dataset cannot contain.
pub(super) fn snapshot(mapping: &Mapping, options: &WriteOptions) -> Result<Option<Snapshot>> {
    let Layout::Snapshot(nulls) = options.layout else { return Ok(None) };
    Snapshot::try_new(mapping.schema(), nulls).map(Some).map_err(sidecar_error)
}

/// The statistics of a write partition.
#[derive(Debug)]
pub(super) struct Observer {
    detail: Detail,
    state: Mutex<OrderedStatistics>,
}

#[derive(Debug)]
struct OrderedStatistics {
    /// `None` while a thread adds to the statistics.
    statistics: Option<Statistics>,
    /// Number of rows added.
    rows: u64,
    /// Encoded batches that have not been added, by the number of rows before them.
    waiting: BTreeMap<u64, RecordBatch>,
}

impl RowEncoder {
    /// Creates the encoder of one write partition, with an observer if statistics are needed.
    ///
    /// # Errors
    /// A column that a saved dataset cannot contain.
    pub(super) fn new(mapping: &Arc<Mapping>, options: &WriteOptions) -> Result<Self> {
        let observer = options.emit.detail().map(|detail| Arc::new(Observer::new(mapping, detail)));
        let snapshot = snapshot(mapping, options)?.map(Arc::new);
        Ok(Self { encoder: Encoder::new(Arc::clone(mapping)), observer, snapshot })
    }

    /// Returns the number of records per row.
    pub(super) fn records_per_row(&self) -> usize {
        self.snapshot.as_ref().map_or(1, |snapshot| snapshot.records_per_element())
    }

    /// Returns the observer, if statistics are needed.
    pub(super) fn observer(&self) -> Option<Arc<Observer>> {
        self.observer.clone()
    }

    /// Appends the records of every row of a batch, or nothing on error. `rows_before` is the number of rows of the
    /// partition before the batch.
    ///
    /// # Errors
    /// Same as [`Encoder::encode`] and [`Snapshot::encode`].
    pub(super) fn encode(&self, rows: &RecordBatch, rows_before: u64, out: &mut RecordBuffer) -> Result<(), RowsError> {
        if let Some(snapshot) = &self.snapshot {
            return Ok(snapshot.encode(rows, out)?);
        }
        let bound = self.bind(rows)?;
        bound.encode(0..rows.num_rows(), out)?;
        self.observe(&bound, rows, rows_before)
    }

    /// Adds the records of a unit, block by block. Errors are located at `place`.
    ///
    /// # Errors
    /// Same as [`encode`](Self::encode), and if blocks cannot be appended.
    pub(super) fn encode_unit(
        &self,
        unit: &Unit,
        place: PartitionPlace,
        records: &mut UnitRecords<'_>,
    ) -> Result<(), UnitError> {
        let mut first_row = unit.rows_before;
        for rows in &unit.batches {
            let located = |error| UnitError::Rows(place.encode_error(error, first_row));
            if let Some(snapshot) = &self.snapshot {
                snapshot.encode(rows, records.buffer()).map_err(|error| located(error.into()))?;
                records.end_block()?;
            } else {
                let bound = self.bind(rows).map_err(located)?;
                for block in records.blocks(rows.num_rows()) {
                    bound.encode(block, records.buffer()).map_err(|error| located(error.into()))?;
                    records.end_block()?;
                }
                self.observe(&bound, rows, first_row).map_err(located)?;
            }
            first_row += rows.num_rows() as u64;
        }
        Ok(())
    }

    /// Checks the values of a batch. The caller may then encode its rows, and must [observe](Self::observe) them.
    ///
    /// # Errors
    /// Same as [`Encoder::bind`].
    fn bind(&self, rows: &RecordBatch) -> Result<BoundBatch<'_>, RowsError> {
        Ok(self.encoder.bind(rows)?)
    }

    /// Adds a batch to the statistics that sidecar files need. `rows_before` is the number of rows of the partition
    /// before the batch.
    ///
    /// # Errors
    /// Same as [`bind`](Self::bind), including errors of batches that other threads have left.
    fn observe(&self, bound: &BoundBatch<'_>, rows: &RecordBatch, rows_before: u64) -> Result<(), RowsError> {
        let Some(observer) = &self.observer else { return Ok(()) };
        if rows.num_rows() == 0 {
            return Ok(());
        }
        if observer.detail == Detail::Presence {
            if let Some(statistics) = &mut observer.state().statistics {
                statistics.update(bound);
            }
            return Ok(());
        }
        let mut state = observer.state();
        if state.rows != rows_before || state.statistics.is_none() {
            state.waiting.insert(rows_before, rows.clone());
        } else if let Some(mut statistics) = state.statistics.take() {
            drop(state);
            statistics.update(bound);
            state = observer.state();
            state.rows += rows.num_rows() as u64;
            state.statistics = Some(statistics);
        }
        // Adds batches that others have left, up to a gap or until another thread takes over.
        loop {
            let next = state.rows;
            if state.statistics.is_none() || !state.waiting.contains_key(&next) {
                return Ok(());
            }
            let (Some(batch), Some(mut statistics)) = (state.waiting.remove(&next), state.statistics.take()) else {
                return Ok(());
            };
            drop(state);
            statistics.update(&self.encoder.bind(&batch)?);
            state = observer.state();
            state.rows += batch.num_rows() as u64;
            state.statistics = Some(statistics);
        }
    }
}

impl Observer {
    fn new(mapping: &Mapping, detail: Detail) -> Self {
        let statistics = Some(Statistics::new(mapping, detail));
        Self { detail, state: Mutex::new(OrderedStatistics { statistics, rows: 0, waiting: BTreeMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, OrderedStatistics> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the statistics of all `rows` rows of the partition.
    pub(super) fn finish(&self, rows: u64) -> Result<Statistics> {
        let statistics = self.state().statistics.take();
        match statistics {
            Some(statistics) if statistics.rows() == rows => Ok(statistics),
            other => {
                let found = other.map_or(0, |statistics| statistics.rows());
                Err(internal_datafusion_err!("statistics of {found} rows, of {rows} that were written"))
            }
        }
    }
}
