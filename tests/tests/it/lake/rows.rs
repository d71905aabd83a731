//! Rows as the expected files have them.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType,
};
use arrow::ipc::reader::StreamReader;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

/// The rows of an Arrow stream.
pub fn rows_of(stream: &[u8]) -> Vec<Value> {
    let mut rows = Vec::new();
    for batch in StreamReader::try_new(stream, None).unwrap() {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            let schema = batch.schema();
            let cells = schema.fields().iter().zip(batch.columns());
            let cells = cells.map(|(field, column)| (field.name().clone(), value(column, row)));
            rows.push(Value::Object(cells.collect::<Map<_, _>>()));
        }
    }
    rows
}

/// Rows as texts, in the order of the texts.
pub fn sorted(rows: Vec<Value>) -> Vec<String> {
    // The keys of objects are sorted.
    let mut texts: Vec<_> = rows.iter().map(Value::to_string).collect();
    texts.sort();
    texts
}

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    let all = |items: ArrayRef| (0..items.len()).map(|index| value(&items, index)).collect::<Vec<_>>();
    match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::Utf8View => json!(array.as_string_view().value(row)),
        DataType::Binary => json!({"$b64": BASE64_STANDARD.encode(array.as_binary::<i32>().value(row))}),
        DataType::BinaryView => json!({"$b64": BASE64_STANDARD.encode(array.as_binary_view().value(row))}),
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int8 => json!(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => json!(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => json!(array.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Date32 => json!(array.as_primitive::<Date32Type>().value_as_date(row).unwrap().to_string()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let time = array.as_primitive::<TimestampMicrosecondType>().value_as_datetime(row).unwrap();
            let zone = if zone.is_some() { "+00:00" } else { "" };
            // As Python prints it.
            let fraction = match time.and_utc().timestamp_subsec_micros() {
                0 => "",
                _ => "%.6f",
            };
            json!(time.format(&format!("%Y-%m-%dT%H:%M:%S{fraction}{zone}")).to_string())
        }
        DataType::List(_) => json!(all(array.as_list::<i32>().value(row))),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (all(entries.column(0).clone()), all(entries.column(1).clone()));
            keys.into_iter().zip(values).map(|(key, value)| json!([key, value])).collect()
        }
        DataType::Struct(fields) => {
            let parts = fields.iter().zip(array.as_struct().columns());
            Value::Object(parts.map(|(field, part)| (field.name().clone(), value(part, row))).collect())
        }
        other => panic!("a column of type {other}"),
    }
}

fn float(value: f64) -> Value {
    match value {
        value if value.is_nan() => json!("NaN"),
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    }
}
