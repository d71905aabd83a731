//! [`hide_under_nulls`]: values of a struct or map that is null, which nobody must see.
//!
//! A null struct has something in its fields, and a null map may have entries. The engine's access to them gives that, and not null
//! (apache/datafusion#25120, mended after version 55), so it is made null where a file is read.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, LargeListArray, ListArray, MapArray, RecordBatch, RecordBatchOptions,
    StructArray, UInt64Array, make_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;

/// The same batch, with a null in every field of a struct that is null, and no entries in a map that is.
pub(crate) fn hide_under_nulls(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(|column| can_hide(column.data_type())) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(hidden).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn can_hide(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(_) | DataType::Map(..) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            can_hide(item.data_type())
        }
        _ => false,
    }
}

fn hidden(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !can_hide(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Struct(_) => {
            let (fields, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = columns.iter().map(|column| hidden(&masked(column, nulls.as_ref())?));
            let columns = columns.collect::<Result<_, ArrowError>>()?;
            Arc::new(StructArray::try_new_with_length(fields, columns, nulls, array.len())?)
        }
        DataType::List(_) => {
            let (field, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(field, offsets, hidden(&values)?, nulls)?)
        }
        DataType::LargeList(_) => {
            let (field, offsets, values, nulls) = array.as_list::<i64>().clone().into_parts();
            Arc::new(LargeListArray::try_new(field, offsets, hidden(&values)?, nulls)?)
        }
        DataType::FixedSizeList(..) => {
            let len = array.len();
            let (field, size, values, nulls) = array.as_fixed_size_list().clone().into_parts();
            Arc::new(FixedSizeListArray::try_new_with_length(field, size, hidden(&values)?, nulls, len)?)
        }
        DataType::Map(..) => {
            let (field, offsets, entries, nulls, sorted) = without_null_entries(array.as_map())?.into_parts();
            let (fields, columns, _) = entries.into_parts();
            let columns = columns.iter().map(hidden).collect::<Result<_, _>>()?;
            Arc::new(MapArray::try_new(field, offsets, StructArray::try_new(fields, columns, None)?, nulls, sorted)?)
        }
        _ => Arc::clone(array),
    })
}

/// The maps, of which those that are null have no entries.
fn without_null_entries(maps: &MapArray) -> Result<MapArray, ArrowError> {
    let is_hidden = |row: usize| maps.is_null(row) && maps.value_length(row) > 0;
    if maps.null_count() == 0 || !(0..maps.len()).any(is_hidden) {
        return Ok(maps.clone());
    }
    let rows: UInt64Array = (0..maps.len()).map(|row| maps.is_valid(row).then_some(row as u64)).collect();
    Ok(take(maps, &rows, None)?.as_map().clone())
}

/// The array with these nulls, too.
fn masked(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(Arc::clone(array)) };
    // These have no place for nulls of their own.
    if matches!(array.data_type(), DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..)) {
        return Ok(Arc::clone(array));
    }
    let nulls = NullBuffer::union(array.nulls(), Some(nulls));
    Ok(make_array(array.to_data().into_builder().nulls(nulls).build()?))
}
