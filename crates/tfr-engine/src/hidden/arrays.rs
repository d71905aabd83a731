//! [`visible`]: removes values stored under nulls from arrays.

use std::sync::Arc;

use arrow::array::cast::AsArray;
use arrow::array::{
    AnyDictionaryArray, Array, ArrayRef, BooleanArray, BooleanBufferBuilder, FixedSizeListArray, GenericListArray,
    GenericListViewArray, MapArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, StructArray, UInt64Array,
    UnionArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, concat, nullif, take};
use arrow_schema::{ArrowError, DataType, FieldRef, UnionFields};

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
        DataType::Struct(_) => visible_struct(array, array.as_struct()),
        DataType::List(_) => visible_list(array, array.as_list::<i32>()),
        DataType::LargeList(_) => visible_list(array, array.as_list::<i64>()),
        DataType::ListView(_) => visible_list_view(array, array.as_list_view::<i32>()),
        DataType::LargeListView(_) => visible_list_view(array, array.as_list_view::<i64>()),
        DataType::FixedSizeList(..) => visible_fixed_size_list(array, array.as_fixed_size_list()),
        DataType::Map(..) => visible_map(array),
        DataType::Dictionary(..) => visible_dictionary(array, array.as_any_dictionary()),
        _ => Ok(Arc::clone(array)),
    }
}

fn visible_struct(array: &ArrayRef, structs: &StructArray) -> Result<ArrayRef, ArrowError> {
    let columns = structs.columns().iter().map(|column| visible(&masked(column, structs.nulls())?));
    let columns: Vec<_> = columns.collect::<Result<_, _>>()?;
    if columns.iter().zip(structs.columns()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(Arc::clone(array));
    }
    let (fields, nulls) = (structs.fields().clone(), structs.nulls().cloned());
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, nulls, structs.len())?))
}

fn visible_list<O: OffsetSizeTrait>(array: &ArrayRef, lists: &GenericListArray<O>) -> Result<ArrayRef, ArrowError> {
    let array = without_null_ranges(array, |row| lists.value_length(row) > O::zero())?;
    let lists = array.as_list::<O>();
    let values = visible(lists.values())?;
    if Arc::ptr_eq(&values, lists.values()) {
        return Ok(array);
    }
    let (field, offsets, _, nulls) = lists.clone().into_parts();
    Ok(Arc::new(GenericListArray::try_new(field, offsets, values, nulls)?))
}

fn visible_list_view<O: OffsetSizeTrait>(
    array: &ArrayRef,
    lists: &GenericListViewArray<O>,
) -> Result<ArrayRef, ArrowError> {
    let values = visible(lists.values())?;
    let is_hidden = |row: usize| lists.is_null(row) && lists.value_size(row) > O::zero();
    let hides = lists.null_count() > 0 && (0..lists.len()).any(is_hidden);
    if !hides && Arc::ptr_eq(&values, lists.values()) {
        return Ok(Arc::clone(array));
    }
    let (field, offsets, sizes, _, nulls) = lists.clone().into_parts();
    let sizes = sizes.iter().enumerate();
    let sizes: Vec<O> = sizes.map(|(row, size)| if lists.is_null(row) { O::zero() } else { *size }).collect();
    Ok(Arc::new(GenericListViewArray::try_new(field, offsets, sizes.into(), values, nulls)?))
}

fn visible_fixed_size_list(array: &ArrayRef, lists: &FixedSizeListArray) -> Result<ArrayRef, ArrowError> {
    let size = usize::try_from(lists.value_length()).unwrap_or_default();
    let expanded = lists.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| {
        let mut items = BooleanBufferBuilder::new(lists.values().len());
        nulls.iter().for_each(|is_valid| items.append_n(size, is_valid));
        NullBuffer::new(items.finish())
    });
    let values = visible(&masked(lists.values(), expanded.as_ref())?)?;
    if Arc::ptr_eq(&values, lists.values()) {
        return Ok(Arc::clone(array));
    }
    let (field, size, _, nulls) = lists.clone().into_parts();
    Ok(Arc::new(FixedSizeListArray::try_new_with_length(field, size, values, nulls, lists.len())?))
}

fn visible_map(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let array = without_null_entries(array)?;
    let maps = array.as_map();
    let columns = maps.entries().columns().iter().map(visible).collect::<Result<Vec<_>, _>>()?;
    if columns.iter().zip(maps.entries().columns()).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(array);
    }
    let (field, offsets, entries, nulls, sorted) = maps.clone().into_parts();
    let (fields, _, _) = entries.into_parts();
    Ok(Arc::new(MapArray::try_new(field, offsets, StructArray::try_new(fields, columns, None)?, nulls, sorted)?))
}

/// Removes the entries of null maps.
pub(super) fn without_null_entries(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let maps = array.as_map();
    without_null_ranges(array, |row| maps.value_length(row) > 0)
}

/// Removes the value ranges of null lists or maps. `has_range` returns whether a row has a non-empty range.
fn without_null_ranges(array: &ArrayRef, has_range: impl Fn(usize) -> bool) -> Result<ArrayRef, ArrowError> {
    if array.null_count() == 0 || !(0..array.len()).any(|row| array.is_null(row) && has_range(row)) {
        return Ok(Arc::clone(array));
    }
    let rows: UInt64Array = (0..array.len()).map(|row| array.is_valid(row).then_some(row as u64)).collect();
    take(array, &rows, None)
}

fn visible_dictionary(array: &ArrayRef, dictionary: &dyn AnyDictionaryArray) -> Result<ArrayRef, ArrowError> {
    let values = visible(dictionary.values())?;
    match Arc::ptr_eq(&values, dictionary.values()) {
        true => with_null_keys(array),
        false => with_null_keys(&dictionary.with_values(values)),
    }
}

/// Makes each dictionary key null that points to a null. Arrow kernels check only the keys.
pub(super) fn with_null_keys(dictionary: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match dictionary.logical_nulls() {
        Some(nulls) if nulls.null_count() > dictionary.null_count() => nulled(dictionary, &nulls),
        _ => Ok(Arc::clone(dictionary)),
    }
}

/// Adds nulls to the array.
pub(super) fn masked(array: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
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
