//! Filters of rows: [`RowFilter`].

use std::fmt;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::ArrowError;

/// Selects the records that become rows, by some of their columns. Passed to [`ReaderBuilder::with_row_filter`].
///
/// A filter is one predicate, or several in [sequence](Self::and). A predicate receives batches of its columns and
/// returns a boolean for each row. Rows with true pass; rows with false or null do not. The columns of a later
/// predicate are decoded only for the rows that passed the earlier ones, and all other columns only for the rows that
/// passed all. No column is decoded twice.
///
/// [`ReaderBuilder::with_row_filter`]: crate::ReaderBuilder::with_row_filter
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::cast::AsArray;
/// use arrow_array::types::Int64Type;
/// use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
/// use arrow_tfrecord::{ReaderBuilder, RowFilter, WriterBuilder};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter_with_nullable([
///     ("id", Arc::new(Int64Array::from(vec![Some(1), Some(2), None])) as ArrayRef, true),
///     ("label", Arc::new(StringArray::from(vec!["cat", "dog", "owl"])), false),
/// ])?;
/// let mut writer = WriterBuilder::new(batch.schema()).build(Vec::new())?;
/// writer.write(&batch)?;
/// let file = writer.finish()?;
///
/// let filter = RowFilter::new(vec![0], |batch: RecordBatch| {
///     let ids = batch.column(0).as_primitive::<Int64Type>();
///     Ok(BooleanArray::from_unary(ids, |id| id > 1))
/// });
/// let mut reader = ReaderBuilder::new(batch.schema()).with_row_filter(filter).build(file.as_slice())?;
/// assert_eq!(reader.next().transpose()?, Some(batch.slice(1, 1)));
/// assert!(reader.next().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RowFilter {
    pub(super) predicates: Vec<Predicate>,
}

#[derive(Clone)]
pub(super) struct Predicate {
    pub(super) columns: Vec<usize>,
    pub(super) evaluate: Arc<Evaluate>,
}

pub(super) type Evaluate = dyn Fn(RecordBatch) -> Result<BooleanArray, ArrowError> + Send + Sync;

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl RowFilter {
    /// Creates a filter of `columns`, positions in the schema of the reader. The predicate receives them in this order.
    /// They need not be in the projection.
    pub fn new<F>(columns: Vec<usize>, predicate: F) -> Self
    where
        F: Fn(RecordBatch) -> Result<BooleanArray, ArrowError> + Send + Sync + 'static,
    {
        Self { predicates: vec![Predicate { columns, evaluate: Arc::new(predicate) }] }
    }

    /// Evaluates `other` on the rows that pass this filter. Put the cheaper or more selective filter first.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.predicates.extend(other.predicates);
        self
    }
}
