//! Converts values of any type to JSON, for comparison with the corpus's expectations.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::array::{Array, AsArray, RecordBatch, UnionArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit};
use serde_json::{Value, json};

/// Returns the rows of batches as objects, without null columns.
pub fn objects(batches: &[RecordBatch]) -> Vec<Value> {
    let row = |batch: &RecordBatch, row: usize| {
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        Value::Object(columns.map(|(field, column)| (field.name().clone(), value(column, row))).collect())
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |index| row(batch, index))).collect()
}

/// Converts one value. Numbers of all types become numbers, dates and times their stored numbers, bytes
/// `{"$b64": ...}`, decimals text, and maps lists of pairs.
pub fn value(array: &dyn Array, row: usize) -> Value {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary,
        Duration, FixedSizeBinary, FixedSizeList, Float16, Float32, Float64, Interval, LargeBinary, LargeList,
        LargeListView, LargeUtf8, List, ListView, Map, RunEndEncoded, Struct, Time32, Time64, Timestamp, Union, Utf8,
        Utf8View,
    };
    let array_type = array.data_type();
    if let Union(..) = array_type {
        let union = array.as_any().downcast_ref::<UnionArray>().expect("a union");
        return value(&union.value(row), 0);
    }
    if let RunEndEncoded(_, values) = array_type {
        let plain = cast(&array.slice(row, 1), values.data_type()).expect("runs can be spelled out");
        return value(&plain, 0);
    }
    if array.is_null(row) || array_type == &DataType::Null {
        return Value::Null;
    }
    let as_type = |data_type: &DataType| cast(&array.slice(row, 1), data_type).expect("a cast");
    let list = |items: &dyn Array| Value::Array((0..items.len()).map(|item| value(items, item)).collect());
    match array_type {
        Boolean => json!(array.as_boolean().value(row)),
        Utf8 => json!(array.as_string::<i32>().value(row)),
        LargeUtf8 => json!(array.as_string::<i64>().value(row)),
        Utf8View => json!(array.as_string_view().value(row)),
        Binary => bytes(array.as_binary::<i32>().value(row)),
        LargeBinary => bytes(array.as_binary::<i64>().value(row)),
        BinaryView => bytes(array.as_binary_view().value(row)),
        FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(row)),
        List(_) => list(&array.as_list::<i32>().value(row)),
        LargeList(_) => list(&array.as_list::<i64>().value(row)),
        ListView(_) => list(&array.as_list_view::<i32>().value(row)),
        LargeListView(_) => list(&array.as_list_view::<i64>().value(row)),
        FixedSizeList(..) => list(&array.as_fixed_size_list().value(row)),
        Map(..) => {
            let entries = array.as_map().value(row);
            let pair = |row| json!([value(entries.column(0), row), value(entries.column(1), row)]);
            Value::Array((0..entries.len()).map(pair).collect())
        }
        Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            // As pairs: names may repeat.
            Value::Array(columns.map(|(field, column)| json!([field.name(), value(column, row)])).collect())
        }
        Dictionary(_, values) => value(&as_type(values), 0),
        Float16 | Float32 | Float64 => {
            let number = as_type(&Float64);
            let number = number.as_primitive::<datafusion::arrow::datatypes::Float64Type>().value(0);
            // JSON has no other numbers.
            if number.is_finite() { json!(number) } else { json!(number.to_string()) }
        }
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => value(&as_type(&Utf8), 0),
        Date32 | Time32(_) => value(&as_type(&DataType::Int32), 0),
        Date64 | Time64(_) | Timestamp(..) | Duration(_) => value(&as_type(&DataType::Int64), 0),
        Interval(IntervalUnit::MonthDayNano) => {
            let interval = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            json!([interval.months, interval.days, interval.nanoseconds])
        }
        Interval(_) => json!(texts(array, row)),
        DataType::UInt64 => json!(array.as_primitive::<datafusion::arrow::datatypes::UInt64Type>().value(row)),
        _ => json!(as_type(&DataType::Int64).as_primitive::<datafusion::arrow::datatypes::Int64Type>().value(0)),
    }
}

fn texts(array: &dyn Array, row: usize) -> String {
    datafusion::arrow::util::display::array_value_to_string(array, row).expect("a text")
}

fn bytes(bytes: &[u8]) -> Value {
    json!({ "$b64": STANDARD.encode(bytes) })
}

/// Reads the lines of an expectation.
pub fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the expectation is there");
    text.lines().map(|line| serde_json::from_str(line).expect("expectations are JSON")).collect()
}

/// Returns a message about the first row that differs.
pub fn first_difference(
    found: &[Value],
    expected: &[Value],
    same: impl Fn(&Value, &Value) -> bool,
) -> Result<(), String> {
    match expected
        .iter()
        .enumerate()
        .find(|(row, expected)| !found.get(*row).is_some_and(|found| same(found, expected)))
    {
        Some((row, expected)) => {
            let found = found.get(row).map_or("nothing".to_owned(), Value::to_string);
            Err(format!("row {row}: {found:.500}, expected {:.500}", expected.to_string()))
        }
        None => Ok(()),
    }
}

/// Returns the members of an object, or of a list of pairs, that are not null.
pub fn members(value: &Value) -> Option<BTreeMap<String, &Value>> {
    let members: Option<Vec<(String, &Value)>> = match value {
        Value::Object(members) => Some(members.iter().map(|(name, value)| (name.clone(), value)).collect()),
        Value::Array(pairs) => pairs
            .iter()
            .map(|pair| match pair.as_array()?.as_slice() {
                [Value::String(name), value] => Some((name.clone(), value)),
                _ => None,
            })
            .collect(),
        _ => None,
    };
    Some(members?.into_iter().filter(|(_, value)| !value.is_null()).collect())
}
