//! [`with_null_keys`]: nulls among the values of dictionaries.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType};
use tfr_arrow::nested::{any_type, map_array};
use tfr_arrow::visible;

/// Makes every dictionary key that points to a null value null itself, at any depth.
pub(crate) fn with_null_keys(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(has_dictionary) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(mended).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn has_dictionary(array: &ArrayRef) -> bool {
    any_type(array.data_type(), |data_type| matches!(data_type, DataType::Dictionary(..)))
}

fn mended(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_dictionary(array) {
        return Ok(Arc::clone(array));
    }
    let array = map_array(array, mended)?;
    match array.data_type() {
        DataType::Dictionary(..) => visible::with_null_keys(&array),
        _ => Ok(array),
    }
}
