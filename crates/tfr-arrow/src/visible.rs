//! Values hidden by a null, which an Arrow array may store: the fields of a null struct, the items of a null list, the
//! entries of a null map.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericListViewArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, UInt64Array,
    UnionArray, new_null_array,
};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, FieldRef, UnionFields};
use arrow_select::concat::concat;
use arrow_select::nullif::nullif;
use arrow_select::take::take;

use crate::nested::{Lists, map_array};

/// Applies [`visible`] to every column of the batch.
///
/// # Errors
/// As [`visible`].
pub fn visible_batch(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(visible).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// Removes the values stored under nulls, at any depth. A null struct gets a null in every field. A null list has no
/// items (nulls, if its size is fixed), and a null map no entries. A dictionary key that points to a null becomes
/// null. An array without hidden values is returned unchanged.
///
/// # Errors
/// A null struct has a field of a union type, none of whose branches can be null.
pub fn visible(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Struct(_) => map_array(array, |column| visible(&masked(column, array.nulls())?)),
        DataType::FixedSizeList(_, len) => {
            let len = usize::try_from(*len).unwrap_or_default();
            let nulls = array.nulls().map(|nulls| nulls.expand(len));
            map_array(array, |items| visible(&masked(items, nulls.as_ref())?))
        }
        DataType::ListView(_) => map_array(&empty_null_views(array, array.as_list_view::<i32>())?, visible),
        DataType::LargeListView(_) => map_array(&empty_null_views(array, array.as_list_view::<i64>())?, visible),
        DataType::Dictionary(..) => with_null_keys(&map_array(array, visible)?),
        _ => map_array(&without_null_ranges(array)?, visible),
    }
}

/// Makes the views of null lists empty.
fn empty_null_views<O: OffsetSizeTrait>(
    array: &ArrayRef,
    lists: &GenericListViewArray<O>,
) -> Result<ArrayRef, ArrowError> {
    let is_hidden = |row: usize| lists.is_null(row) && lists.value_size(row) > O::zero();
    if lists.null_count() == 0 || !(0..lists.len()).any(is_hidden) {
        return Ok(Arc::clone(array));
    }
    let (field, offsets, sizes, values, nulls) = lists.clone().into_parts();
    let sizes = sizes.iter().enumerate();
    let sizes: Vec<O> = sizes.map(|(row, size)| if lists.is_null(row) { O::zero() } else { *size }).collect();
    Ok(Arc::new(GenericListViewArray::try_new(field, offsets, sizes.into(), values, nulls)?))
}

/// Removes the items of null lists and the entries of null maps. Arrays of other types are returned unchanged.
///
/// # Errors
/// Arrow cannot copy the rows.
pub fn without_null_ranges(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let is_list = matches!(array.data_type(), DataType::List(_) | DataType::LargeList(_) | DataType::Map(..));
    let Some(lists) = Lists::of(array).filter(|_| is_list && array.null_count() > 0) else {
        return Ok(Arc::clone(array));
    };
    if !(0..array.len()).any(|row| array.is_null(row) && !lists.range(row).is_empty()) {
        return Ok(Arc::clone(array));
    }
    let rows: UInt64Array = (0..array.len()).map(|row| array.is_valid(row).then_some(row as u64)).collect();
    take(array, &rows, None)
}

/// Makes each dictionary key null that points to a null. Arrow kernels check only the keys, and would take the null for
/// an empty text or a zero.
///
/// # Errors
/// Arrow cannot copy the keys.
pub fn with_null_keys(dictionary: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match dictionary.logical_nulls() {
        Some(nulls) if nulls.null_count() > dictionary.null_count() => nulled(dictionary, &nulls),
        _ => Ok(Arc::clone(dictionary)),
    }
}

/// Adds nulls to the array.
///
/// # Errors
/// The array is a union, none of whose branches can be null.
pub fn masked(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else { return Ok(Arc::clone(array)) };
    if array.logical_nulls().is_some_and(|own| own.contains(nulls)) {
        return Ok(Arc::clone(array));
    }
    match array.data_type() {
        DataType::Null => Ok(Arc::clone(array)),
        // The next two types have no null buffer.
        DataType::Union(fields, _) => masked_union(array.as_union(), fields, nulls),
        DataType::RunEndEncoded(_, values) => {
            let plain = masked(&cast(array, values.data_type())?, Some(nulls))?;
            cast(&plain, array.data_type())
        }
        _ => nulled(array, nulls),
    }
}

/// Adds nulls to a union, in one of its branches.
fn masked_union(union: &UnionArray, fields: &UnionFields, nulls: &NullBuffer) -> Result<ArrayRef, ArrowError> {
    let Some((null_id, _)) = fields.iter().find(|(_, field)| field.is_nullable()) else {
        let reason = "a null struct has a field of a union type, of which no branch can be null";
        return Err(ArrowError::ComputeError(reason.to_owned()));
    };
    let type_ids = (0..union.len()).map(|row| if nulls.is_null(row) { null_id } else { union.type_id(row) });
    let type_ids: Vec<i8> = type_ids.collect();
    let offsets: Option<Vec<i32>> = union.offsets().map(|_| {
        let end = i32::try_from(union.child(null_id).len()).unwrap_or(i32::MAX);
        let offset = |row| i32::try_from(union.value_offset(row)).unwrap_or(i32::MAX);
        (0..union.len()).map(|row| if nulls.is_null(row) { end } else { offset(row) }).collect()
    });
    let child = |(id, field): (i8, &FieldRef)| match union.child(id) {
        child if id != null_id => Ok(Arc::clone(child)),
        // Dense branches contain only the values of their own rows.
        child if offsets.is_some() => concat(&[child, &new_null_array(field.data_type(), 1)]),
        child => masked(child, Some(nulls)),
    };
    let children = fields.iter().map(child).collect::<Result<Vec<_>, _>>()?;
    let offsets = offsets.map(Into::into);
    Ok(Arc::new(UnionArray::try_new(fields.clone(), type_ids.into(), offsets, children)?))
}

/// Adds nulls to an array of a type with a null buffer.
fn nulled(array: &ArrayRef, nulls: &NullBuffer) -> Result<ArrayRef, ArrowError> {
    nullif(array, &BooleanArray::new(!nulls.inner(), None))
}

#[cfg(test)]
mod tests;
