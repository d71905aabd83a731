//! [`Rejects`]: where rows go whose values their features cannot represent, and how many may.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::Result;

use super::units::{PartitionPlace, RowsError};
use crate::error::ErrorKind;

/// Rejects rows whose values their features cannot represent, in place of an error. The set is the one of all other
/// rows.
///
/// A row is rejected if the encoder refuses one of its values ([`arrow_tfrecord::Encoder::row_errors`]). Values that cannot
/// name directories or splits, and records that are too long, remain errors.
#[derive(Debug, Clone)]
pub struct Rejects {
    /// The maximum number of rejected rows. With more the run fails, and nothing is published.
    pub most: u64,
    /// Receives the rows.
    pub table: Arc<dyn RejectTable>,
}

/// A table of rejected rows: the [place and the reason](reject_schema) of each, and its columns.
///
/// It is published directly before the set, so that no set appears without its rejected rows. Methods may block. What
/// is not published is removed when the table is dropped.
pub trait RejectTable: fmt::Debug + Send + Sync {
    /// Returns the location, as the manifest records it. It must not contain secrets.
    fn location(&self) -> String;

    /// Prepares for the rows of a run. Called before any are read.
    ///
    /// # Errors
    /// The table cannot be written to its target.
    fn begin(&self) -> Result<()>;

    /// Appends rows of a write partition. Those of one partition come in their order, and the table has the rows of one
    /// partition after the other.
    ///
    /// # Errors
    /// The rows cannot be stored.
    fn add(&self, partition: u32, rows: RecordBatch) -> Result<()>;

    /// Publishes the table, which may have no rows.
    ///
    /// # Errors
    /// The target has changed, or the file system fails. The target is then as before.
    fn publish(&self) -> Result<()>;

    /// Ends a table that is not kept. After [`publish`](Self::publish), restores what was there before, because the set
    /// was not published.
    fn withdraw(&self);

    /// Ends the table, because the set is published.
    fn keep(&self);
}

/// The columns of a [`RejectTable`] before those of the rows.
const COLUMNS: [(&str, DataType); 4] = [
    ("_reject_column", DataType::Utf8),
    ("_reject_reason", DataType::Utf8),
    ("_reject_partition", DataType::Int64),
    ("_reject_row", DataType::Int64),
];

/// Returns the schema of the table of rejected rows:
///
/// | column | |
/// |---|---|
/// | `_reject_column` | the column or nested part whose value does not fit |
/// | `_reject_reason` | why it does not fit |
/// | `_reject_partition` | the write partition, from 0 |
/// | `_reject_row` | the row of this partition, from 0 |
///
/// and the columns of the rows.
///
/// # Errors
/// The rows have a column of one of these names ([`ErrorKind::RejectColumn`]).
pub fn reject_schema(rows: &Schema) -> Result<SchemaRef> {
    let is_own = |name: &str| COLUMNS.iter().any(|(own, _)| name.eq_ignore_ascii_case(own));
    if let Some(field) = rows.fields().iter().find(|field| is_own(field.name())) {
        return Err(ErrorKind::RejectColumn { column: field.name().clone() }.into());
    }
    let own = COLUMNS.into_iter().map(|(name, data_type)| FieldRef::new(Field::new(name, data_type, false)));
    let fields: Vec<_> = own.chain(rows.fields().iter().cloned()).collect();
    Ok(Arc::new(Schema::new_with_metadata(fields, rows.metadata().clone())))
}

/// Returns rejected rows with their places and reasons. `row_errors` are their errors, with the rows of the partition.
pub(super) fn reject_batch(
    schema: &SchemaRef,
    rows: &RecordBatch,
    row_errors: &[arrow_tfrecord::Error],
    partition: u32,
) -> Result<RecordBatch> {
    let row =
        |row_error: &arrow_tfrecord::Error| row_error.row().and_then(|row| i64::try_from(row).ok()).unwrap_or(i64::MAX);
    let own: [ArrayRef; 4] = [
        Arc::new(StringArray::from_iter_values(
            row_errors.iter().map(|row_error| row_error.column().unwrap_or_default()),
        )),
        Arc::new(StringArray::from_iter_values(row_errors.iter().map(arrow_tfrecord::Error::reason))),
        Arc::new(Int64Array::from_iter_values(row_errors.iter().map(|_| i64::from(partition)))),
        Arc::new(Int64Array::from_iter_values(row_errors.iter().map(row))),
    ];
    let columns = own.into_iter().chain(rows.columns().iter().cloned()).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// The rows of a run that were checked, and those of them that were rejected.
#[derive(Debug, Default)]
pub(super) struct RejectCounts {
    checked: AtomicU64,
    rejected: Mutex<Rejected>,
}

#[derive(Debug, Default)]
struct Rejected {
    rows: u64,
    /// The first of them in the order of partitions and rows.
    first: Option<FirstReject>,
}

#[derive(Debug)]
struct FirstReject {
    place: PartitionPlace,
    error: arrow_tfrecord::Error,
}

impl FirstReject {
    fn order(&self) -> (u32, Option<u64>) {
        (self.place.partition, self.error.row())
    }
}

impl RejectCounts {
    /// Counts rows of a partition, of which `row_errors` are rejected.
    ///
    /// # Errors
    /// More than `most` rows have been rejected.
    pub(super) fn count(
        &self,
        rows: u64,
        row_errors: Vec<arrow_tfrecord::Error>,
        place: PartitionPlace,
        most: u64,
    ) -> Result<()> {
        self.checked.fetch_add(rows, Ordering::Relaxed);
        let more = row_errors.len() as u64;
        let Some(error) = row_errors.into_iter().next() else { return Ok(()) };
        let mut rejected = self.rejected.lock().unwrap_or_else(PoisonError::into_inner);
        rejected.rows += more;
        let found = FirstReject { place, error };
        let first = match rejected.first.take() {
            Some(first) if first.order() < found.order() => first,
            _ => found,
        };
        if rejected.rows <= most {
            rejected.first = Some(first);
            return Ok(());
        }
        let source = first.place.encode_error(RowsError::Encode(first.error), 0);
        Err(ErrorKind::TooManyRejects { most, rejected: rejected.rows, source }.into())
    }

    /// Returns the number of rows that were checked.
    pub(super) fn checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// Returns the number of rows that were rejected.
    pub(super) fn rejected(&self) -> u64 {
        self.rejected.lock().unwrap_or_else(PoisonError::into_inner).rows
    }
}
