//! Files that TensorFlow, tfx_bsl and spark-tfrecord wrote, against TensorFlow's own reading of them.

use std::fs;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use arrow_tfrecord::{ReaderBuilder, infer_schema};
use serde_json::Value;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden");

/// The values of a row, as a list has them or a scalar.
fn values(column: &ArrayRef, row: usize) -> Option<ArrayRef> {
    match column.data_type() {
        _ if column.is_null(row) || *column.data_type() == DataType::Null => None,
        DataType::List(_) => Some(column.as_list::<i32>().value(row)),
        _ => Some(column.slice(row, 1)),
    }
}

fn is_same(values: &ArrayRef, element: usize, expected: &Value) -> bool {
    match values.data_type() {
        DataType::Int64 => expected.as_i64() == Some(values.as_primitive::<Int64Type>().value(element)),
        DataType::Float32 => {
            let value = values.as_primitive::<Float32Type>().value(element);
            match expected.as_str() {
                Some("nan") => value.is_nan(),
                Some(text) => text.parse::<f32>().is_ok_and(|other| other.to_bits() == value.to_bits()),
                None => expected.as_f64().map(|expected| expected as f32) == Some(value),
            }
        }
        _ => {
            let binary = arrow_cast::cast(values, &DataType::Binary).unwrap();
            let value = binary.as_binary::<i32>().value(element);
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            let expected = expected.as_str().and_then(|text| text.strip_prefix("hex:")).unwrap();
            match expected.split_once("..") {
                Some((start, len)) => hex.starts_with(start) && len == format!("({})", value.len()),
                None => hex == expected,
            }
        }
    }
}

fn check_row(batch: &RecordBatch, row: usize, expected: &Value, file: &str) {
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let expected = expected.get(field.name()).and_then(|feature| feature.get(1)).and_then(Value::as_array);
        let values = values(column, row);
        let what = format!("{file}, row {row}, {:?}", field.name());
        let (Some(values), Some(expected)) = (&values, expected) else {
            assert!(values.is_none() && expected.is_none(), "{what}: {values:?}, expected {expected:?}");
            continue;
        };
        // A long list is cut, and its length comes last: "..(127)".
        let (expected, len) = match expected.split_last() {
            Some((Value::String(last), first)) if last.starts_with("..(") => {
                (first, last.trim_matches(['.', '(', ')']).parse().unwrap())
            }
            _ => (expected.as_slice(), expected.len()),
        };
        assert_eq!(values.len(), len, "{what}");
        for (element, expected) in expected.iter().enumerate() {
            assert!(is_same(values, element, expected), "{what}: {values:?}, expected {expected}");
        }
    }
    let known = expected.as_object().unwrap().keys();
    known.for_each(|name| assert!(batch.column_by_name(name).is_some(), "{file}: no column {name:?}"));
}

#[test]
fn golden_files_read_as_tensorflow_reads_them() {
    let golden = Path::new(GOLDEN);
    let Ok(readback) = fs::read(golden.join("readback/tf.json")) else {
        eprintln!("skipped: there is no {GOLDEN}");
        return;
    };
    let readback: Value = serde_json::from_slice(&readback).unwrap();
    let mut files = 0;
    for (name, rows) in readback.as_object().unwrap() {
        let rows = rows.as_array().unwrap();
        // A tf.train.SequenceExample is another type of record.
        if rows.iter().any(|row| row.get("lists").is_some()) {
            continue;
        }
        let path = golden.join(name).with_extension("tfrecord");
        let compressed = ["gzip", "zlib"].map(|suffix| golden.join(format!("{name}.tfrecord.{suffix}")));
        for path in [path].iter().chain(compressed.iter().filter(|path| path.exists())) {
            let file = fs::read(path).unwrap();
            let (schema, records) = infer_schema(file.as_slice(), None).unwrap();
            assert_eq!(records, rows.len(), "{name}");
            let reader = ReaderBuilder::new(schema.into()).with_batch_size(2).build(file.as_slice()).unwrap();
            let mut read = 0;
            for batch in reader {
                let batch = batch.unwrap();
                (0..batch.num_rows()).for_each(|row| check_row(&batch, row, &rows[read + row], name));
                read += batch.num_rows();
            }
            assert_eq!(read, rows.len(), "{name}");
            files += 1;
        }
    }
    assert!(files > 50, "{files} files");
}
