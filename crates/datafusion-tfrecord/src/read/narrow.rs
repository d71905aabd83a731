//! [`narrowed`]: removes struct fields that the table does not have.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait,
    RecordBatch, RecordBatchOptions, StructArray,
};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, SchemaRef};

/// Converts a batch to the types of `schema`, which has the same columns, but may omit fields of structs.
pub(super) fn narrowed(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    if batch.schema_ref().fields() == schema.fields() {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| narrow(array, field.data_type()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)
}

fn narrow(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    Ok(match data_type {
        DataType::Struct(fields) => Arc::new(narrow_struct(array.as_struct(), fields)?),
        DataType::List(item) => Arc::new(narrow_list::<i32>(array, item)?),
        DataType::LargeList(item) => Arc::new(narrow_list::<i64>(array, item)?),
        DataType::ListView(item) => Arc::new(narrow_list_view::<i32>(array, item)?),
        DataType::LargeListView(item) => Arc::new(narrow_list_view::<i64>(array, item)?),
        DataType::FixedSizeList(item, len) => {
            let list = array.as_fixed_size_list();
            let values = narrow(list.values(), item.data_type())?;
            let (item, nulls) = (Arc::clone(item), list.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new_with_length(item, *len, values, nulls, list.len())?)
        }
        DataType::Map(entries, is_sorted) => {
            let map = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else { return Ok(Arc::clone(array)) };
            let narrow_one = |(array, field): (&ArrayRef, &FieldRef)| narrow(array, field.data_type());
            let columns = map.entries().columns().iter().zip(fields).map(narrow_one).collect::<Result<_, _>>()?;
            let inner = StructArray::try_new(fields.clone(), columns, None)?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, inner, nulls, *is_sorted)?)
        }
        _ => Arc::clone(array),
    })
}

/// Selects fields by their names.
fn narrow_struct(array: &StructArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    let column = |field: &FieldRef| match array.column_by_name(field.name()) {
        Some(column) => narrow(column, field.data_type()),
        None => Err(ArrowError::SchemaError(format!("no field {:?}", field.name()))),
    };
    let columns = fields.iter().map(column).collect::<Result<_, _>>()?;
    StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())
}

fn narrow_list<O: OffsetSizeTrait>(array: &ArrayRef, item: &FieldRef) -> Result<GenericListArray<O>, ArrowError> {
    let list = array.as_list::<O>();
    let values = narrow(list.values(), item.data_type())?;
    GenericListArray::try_new(Arc::clone(item), list.offsets().clone(), values, list.nulls().cloned())
}

fn narrow_list_view<O: OffsetSizeTrait>(
    array: &ArrayRef,
    item: &FieldRef,
) -> Result<GenericListViewArray<O>, ArrowError> {
    let list = array.as_list_view::<O>();
    let values = narrow(list.values(), item.data_type())?;
    let (offsets, sizes) = (list.offsets().clone(), list.sizes().clone());
    GenericListViewArray::try_new(Arc::clone(item), offsets, sizes, values, list.nulls().cloned())
}
