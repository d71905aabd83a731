//! [`narrowed`]: removes struct fields that the table does not have.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};
use tfr_arrow::nested::{child_arrays, children, with_children};

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
    match data_type {
        same if array.data_type() == same => Ok(Arc::clone(array)),
        // Fields are selected by their names.
        DataType::Struct(fields) => {
            let column = |field: &FieldRef| match array.as_struct().column_by_name(field.name()) {
                Some(column) => narrow(column, field.data_type()),
                None => Err(ArrowError::SchemaError(format!("no field {:?}", field.name()))),
            };
            let columns = fields.iter().map(column).collect::<Result<_, _>>()?;
            let nulls = array.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?))
        }
        nested if nested.is_nested() => {
            let parts = child_arrays(array).into_iter().zip(children(nested));
            let parts = parts.map(|(part, data_type)| narrow(&part, data_type)).collect::<Result<Vec<_>, _>>()?;
            with_children(array, nested, &parts)
        }
        _ => Ok(Arc::clone(array)),
    }
}
