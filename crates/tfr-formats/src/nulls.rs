//! [`with_null_keys`]: nulls among the values of dictionaries.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow_schema::{ArrowError, DataType};
use arrow_select::nullif::nullif;

/// Makes every dictionary key that points to a null value null itself, at any depth. Arrow's kernels look only at the
/// keys, and would take the null for an empty text or a zero.
pub(crate) fn with_null_keys(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(|column| has_dictionary(column.data_type())) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(mended).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn has_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_dictionary(item.data_type()),
        _ => false,
    }
}

fn mended(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_dictionary(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let dictionary = dictionary.with_values(mended(dictionary.values())?);
            match dictionary.logical_nulls() {
                Some(nulls) if nulls.null_count() > dictionary.null_count() => {
                    nullif(&dictionary, &BooleanArray::new(!nulls.inner(), None))?
                }
                _ => dictionary,
            }
        }
        DataType::Struct(_) => {
            let (fields, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = columns.iter().map(mended).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields, columns, nulls, array.len())?)
        }
        DataType::List(_) => list(array.as_list::<i32>())?,
        DataType::LargeList(_) => list(array.as_list::<i64>())?,
        DataType::ListView(_) => list_view(array.as_list_view::<i32>())?,
        DataType::LargeListView(_) => list_view(array.as_list_view::<i64>())?,
        DataType::FixedSizeList(..) => {
            let (field, size, values, nulls) = array.as_fixed_size_list().clone().into_parts();
            Arc::new(FixedSizeListArray::try_new_with_length(field, size, mended(&values)?, nulls, array.len())?)
        }
        DataType::Map(..) => {
            let (field, offsets, entries, nulls, sorted) = array.as_map().clone().into_parts();
            let (fields, columns, _) = entries.into_parts();
            let columns = columns.iter().map(mended).collect::<Result<_, _>>()?;
            Arc::new(MapArray::try_new(field, offsets, StructArray::try_new(fields, columns, None)?, nulls, sorted)?)
        }
        _ => Arc::clone(array),
    })
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Result<ArrayRef, ArrowError> {
    let (field, offsets, values, nulls) = array.clone().into_parts();
    Ok(Arc::new(GenericListArray::try_new(field, offsets, mended(&values)?, nulls)?))
}

fn list_view<O: OffsetSizeTrait>(array: &GenericListViewArray<O>) -> Result<ArrayRef, ArrowError> {
    let (field, offsets, sizes, values, nulls) = array.clone().into_parts();
    Ok(Arc::new(GenericListViewArray::try_new(field, offsets, sizes, mended(&values)?, nulls)?))
}
