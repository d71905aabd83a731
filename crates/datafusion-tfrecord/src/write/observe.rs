//! [`Observer`]: what is gathered of the rows of a write partition while they are encoded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;
use arrow_tfrecord::{BoundBatch, Encoder, Mapping, RecordBuffer};
use datafusion_common::{Result, internal_datafusion_err};
use tfrecord_sidecars::snapshot::Snapshot;
use tfrecord_sidecars::stats::{Detail, Statistics};

use super::options::{Layout, WriteOptions};
use crate::error::sidecar_error;

/// Encodes batches, and gathers statistics of what is encoded if sidecars need them.
///
/// Batches are encoded at the same time, but added in the order of their rows, so that threads do not show: the one who
/// has encoded what comes next adds it, and whatever others have left for it meanwhile. Nobody waits. What is only counted is
/// added at once, since sums have no order.
#[derive(Debug, Clone)]
pub(super) struct RowEncoder {
    encoder: Encoder,
    observer: Option<Arc<Observer>>,
    snapshot: Option<Arc<Snapshot>>,
}

/// How rows become elements of a saved dataset, if that is asked for.
///
/// # Errors
/// A column that has no place in one.
pub(super) fn snapshot(mapping: &Mapping, options: &WriteOptions) -> Result<Option<Snapshot>> {
    let Layout::Snapshot(nulls) = options.layout else { return Ok(None) };
    Snapshot::try_new(mapping.schema(), nulls).map(Some).map_err(sidecar_error)
}

/// Why rows do not become records.
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

/// The statistics of a write partition.
#[derive(Debug)]
pub(super) struct Observer {
    detail: Detail,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What is gathered; none while somebody adds to it.
    statistics: Option<Statistics>,
    /// Rows that are in there.
    rows: u64,
    /// Batches that are encoded and not added, by the rows before.
    waiting: BTreeMap<u64, RecordBatch>,
}

impl RowEncoder {
    /// Of one write partition, with the observer if there is something to observe.
    ///
    /// # Errors
    /// A column that has no place in a saved dataset.
    pub(super) fn new(mapping: &Arc<Mapping>, options: &WriteOptions) -> Result<Self> {
        let observer = options.emit.detail().map(|detail| Arc::new(Observer::new(mapping, detail)));
        let snapshot = snapshot(mapping, options)?.map(Arc::new);
        Ok(Self { encoder: Encoder::new(Arc::clone(mapping)), observer, snapshot })
    }

    /// What the columns become.
    pub(super) fn mapping(&self) -> &Mapping {
        self.encoder.mapping()
    }

    /// How many records a row becomes.
    pub(super) fn records_per_row(&self) -> usize {
        self.snapshot.as_ref().map_or(1, |snapshot| snapshot.records_per_element())
    }

    /// What is gathered.
    pub(super) fn observer(&self) -> Option<Arc<Observer>> {
        self.observer.clone()
    }

    /// Whether the rows of a batch can be encoded some at a time: by [`bind`](Self::bind).
    pub(super) fn encodes_some(&self) -> bool {
        self.snapshot.is_none()
    }

    /// Appends the records of every row of a batch, or on error nothing. `rows_before` are those of the partition before it.
    ///
    /// # Errors
    /// As [`Encoder::encode`] and [`Snapshot::encode`].
    pub(super) fn encode(&self, rows: &RecordBatch, rows_before: u64, out: &mut RecordBuffer) -> Result<(), RowsError> {
        if let Some(snapshot) = &self.snapshot {
            return Ok(snapshot.encode(rows, out)?);
        }
        let bound = self.bind(rows)?;
        bound.encode(0..rows.num_rows(), out)?;
        self.observe(&bound, rows, rows_before)
    }

    /// Checks the values of a batch, whose rows can be encoded then, and are to be [observed](Self::observe).
    ///
    /// # Errors
    /// As [`Encoder::bind`].
    pub(super) fn bind(&self, rows: &RecordBatch) -> Result<BoundBatch<'_>, RowsError> {
        Ok(self.encoder.bind(rows)?)
    }

    /// Gathers what sidecars need of a batch. `rows_before` are those of the partition before it.
    ///
    /// # Errors
    /// As [`bind`](Self::bind), of batches that others have left.
    pub(super) fn observe(
        &self,
        bound: &BoundBatch<'_>,
        rows: &RecordBatch,
        rows_before: u64,
    ) -> Result<(), RowsError> {
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
        // Whatever others have left, up to a gap, or until somebody else is at it.
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
        Self { detail, state: Mutex::new(State { statistics, rows: 0, waiting: BTreeMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was gathered of all rows of the partition, of which there are so many.
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
