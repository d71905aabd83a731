//! Reads the actions in the files of a log: lines of JSON, and Parquet in checkpoints.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use serde_json::{Map, Value};
use tfr_arrow::nested::{item, key_and_value, struct_fields};

use super::actions::Action;

/// The actions of a checkpoint that a reader needs.
const NEEDED: &[&str] = &["add", "metaData", "protocol", "sidecar", "checkpointMetadata"];

/// The parts of an action that repeat others in another form, and the only leaf of them that is needed.
const PARSED: &[&str] = &["stats_parsed", "partitionValues_parsed"];
const ROWS: &[&str] = &["add", "stats_parsed", "numRecords"];

/// Reads the actions of a file with a line of JSON each. The error is a description of the defect.
pub(super) fn of_json(bytes: &[u8]) -> Result<Vec<Action>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut actions = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        // Of an array, the first element would be the first kind of action.
        if !line.trim_start().starts_with('{') {
            return Err(format!("line {}: it is not an object", index + 1));
        }
        let action = serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        actions.push(action);
    }
    match actions.is_empty() {
        true => Err("it contains nothing".to_owned()),
        false => Ok(actions),
    }
}

/// Reads the actions of a Parquet file. The error is a description of the defect.
pub(super) fn of_parquet(bytes: Bytes) -> Result<Vec<Action>, String> {
    // The library may panic on malformed files.
    let read = catch_unwind(AssertUnwindSafe(|| read_parquet(bytes)));
    read.unwrap_or_else(|_| Err("the reader failed on malformed content".to_owned()))
}

fn read_parquet(bytes: Bytes) -> Result<Vec<Action>, String> {
    let text = |error: parquet::errors::ParquetError| error.to_string();
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options).map_err(text)?;
    let leaves = builder.parquet_schema().columns().iter().enumerate().filter(|(_, leaf)| {
        let parts = leaf.path().parts();
        let is_parsed = parts.get(1).is_some_and(|part| PARSED.contains(&part.as_str()));
        parts.first().is_some_and(|root| NEEDED.contains(&root.as_str()))
            && (!is_parsed || parts.iter().map(String::as_str).eq(ROWS.iter().copied()))
    });
    let mask = ProjectionMask::leaves(builder.parquet_schema(), leaves.map(|(index, _)| index).collect::<Vec<_>>());
    let mut actions = Vec::new();
    for batch in builder.with_projection(mask).build().map_err(text)? {
        let rows = StructArray::from(batch.map_err(|error| error.to_string())?);
        for row in 0..rows.len() {
            let value = object(&rows, row)?;
            actions.push(serde_json::from_value(value).map_err(|error| error.to_string())?);
        }
    }
    Ok(actions)
}

/// Returns a struct without its nulls.
fn object(array: &StructArray, row: usize) -> Result<Value, String> {
    let mut object = Map::new();
    for (field, part) in array.fields().iter().zip(array.columns()) {
        if part.is_valid(row) {
            object.insert(field.name().clone(), value(part, row)?);
        }
    }
    Ok(Value::Object(object))
}

fn value(array: &ArrayRef, row: usize) -> Result<Value, String> {
    let data_type = array.data_type();
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    if struct_fields(data_type).is_some() {
        return object(array.as_struct(), row);
    }
    if key_and_value(data_type).is_some() {
        let entries = array.as_map().value(row);
        let (keys, values) = (entries.column(0), entries.column(1));
        let pairs = (0..entries.len()).map(|index| match value(keys, index)? {
            Value::String(key) => Ok((key, value(values, index)?)),
            other => Err(format!("a key {other}")),
        });
        return pairs.collect::<Result<Map<_, _>, _>>().map(Value::Object);
    }
    if item(data_type).is_some() {
        let items = array.as_list_opt::<i32>().ok_or_else(|| format!("the type {data_type}"))?.value(row);
        return (0..items.len()).map(|index| value(&items, index)).collect::<Result<Vec<_>, _>>().map(Value::Array);
    }
    Ok(match data_type {
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        other => return Err(format!("a value of type {other}")),
    })
}
