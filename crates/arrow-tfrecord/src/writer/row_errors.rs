//! [`Encoder::row_errors`]: finds the rows of a batch that cannot be written.

use arrow_array::RecordBatch;

use super::encoder::Encoder;
use crate::error::{Error, Result};

impl Encoder {
    /// Finds the rows of `batch` with a null or a value that the mapping does not allow. Returns an error for each, in
    /// the order of the rows: the one that a batch of this row alone would be refused with. It has a
    /// [row](Error::row) and a [column](Error::column).
    ///
    /// All other rows together can be [bound](Self::bind). Costs as much as binding the batch if every row fits.
    ///
    /// # Errors
    /// As [`bind`](Self::bind), if the error is not about a row: if the columns of the batch differ from the mapping's.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
    /// use arrow_tfrecord::{Encoder, Mapping, MappingOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let batch = RecordBatch::try_from_iter([("id", Arc::new(UInt64Array::from(vec![1, u64::MAX, 3])) as ArrayRef)])?;
    /// let encoder = Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default())?));
    /// let row_errors = encoder.row_errors(&batch)?;
    /// assert_eq!(row_errors.iter().map(|row_error| row_error.row()).collect::<Vec<_>>(), [Some(1)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn row_errors(&self, batch: &RecordBatch) -> Result<Vec<Error>> {
        let mut found = Vec::new();
        let mut ranges: Vec<_> = std::iter::once(0..batch.num_rows()).collect();
        while let Some(rows) = ranges.pop() {
            let Err(error) = self.bind(&batch.slice(rows.start, rows.len())) else { continue };
            let row = error.row().and_then(|row| usize::try_from(row).ok()).filter(|row| *row < rows.len());
            let Some(row) = row.map(|row| rows.start + row) else { return Err(error) };
            found.push(error.with_row_offset(rows.start as u64));
            // A row before it may have an error in a column that has not been reached. What follows is halved, so that
            // a batch without a single row that fits is not bound once for each row.
            let middle = row + (rows.end - row).div_ceil(2);
            ranges.extend(
                [rows.start..row, row + 1..middle, middle..rows.end].into_iter().filter(|rows| !rows.is_empty()),
            );
        }
        found.sort_by_key(Error::row);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, UInt64Array};
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;
    use crate::mapping::Mapping;
    use crate::options::MappingOptions;

    fn encoder(batch: &RecordBatch) -> Encoder {
        Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default()).expect("a mapping")))
    }

    /// The rows of errors, each as of a batch of the row alone.
    fn one_by_one(batch: &RecordBatch) -> Vec<(u64, String)> {
        let encoder = encoder(batch);
        let rows = (0..batch.num_rows()).filter_map(|row| Some((row, encoder.bind(&batch.slice(row, 1)).err()?)));
        rows.map(|(row, error)| (row as u64, error.with_row_offset(row as u64).to_string())).collect()
    }

    proptest! {
        #[test]
        fn row_errors_are_those_of_each_row_alone(rows in prop::collection::vec((0..4_u8, 0..4_u8), 0..200)) {
            let rows: Vec<_> = rows.into_iter().map(|(id, weight)| (id == 0, weight == 0)).collect();
            let ids = rows.iter().map(|(id, _)| if *id { u64::MAX } else { 1 });
            let weights = rows.iter().map(|(_, weight)| if *weight { -1e300 } else { 1.5 });
            let batch = RecordBatch::try_from_iter([
                ("b", Arc::new(UInt64Array::from_iter_values(ids)) as ArrayRef),
                ("a", Arc::new(Float64Array::from_iter_values(weights))),
            ]).expect("a batch");
            let found = encoder(&batch).row_errors(&batch).expect("rows");
            let found: Vec<_> = found.iter().map(|error| (error.row().expect("a row"), error.to_string())).collect();
            prop_assert_eq!(found, one_by_one(&batch));
        }
    }

    #[test]
    fn row_errors_of_a_batch_without_a_row_that_fits() {
        let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values((0..8_192).map(|row| u64::MAX - row)));
        let batch = RecordBatch::try_from_iter([("id", ids)]).expect("a batch");
        let found = encoder(&batch).row_errors(&batch).expect("rows");
        assert_eq!(found.iter().filter_map(Error::row).collect::<Vec<_>>(), (0..8_192).collect::<Vec<_>>());
        assert!(found.iter().all(|error| error.column() == Some("id")));
        assert_eq!(found[8_191].reason(), "18446744073709543424 does not fit an int64 (at most 9223372036854775807)");
    }

    #[test]
    fn row_errors_of_other_columns_are_an_error() {
        let batch = |name| RecordBatch::try_from_iter([(name, Arc::new(UInt64Array::from(vec![1])) as ArrayRef)]);
        let error = encoder(&batch("a").expect("a batch")).row_errors(&batch("b").expect("a batch"));
        assert!(matches!(error.expect_err("other columns").kind(), ErrorKind::SchemaMismatch { .. }));
    }
}
