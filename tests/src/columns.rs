//! The rows of a table as records: what a table of the types that inference gives must hold.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Int64Type};

use crate::shards::{Feature, Record, Sequence};

/// The record of each row. A null is a feature that is not there.
///
/// # Panics
/// If a column has another type than inference gives: `Int64`, `Float32`, `Utf8`, `Binary`, a `List` of one, `Null`.
pub fn records(rows: &RecordBatch) -> Vec<Record> {
    let schema = rows.schema();
    let record = |row| {
        let columns = schema.fields().iter().zip(rows.columns());
        let features = columns.filter(|(_, column)| column.is_valid(row) && *column.data_type() != DataType::Null);
        let mut record: Record = features.map(|(field, column)| (field.name().clone(), feature(column, row))).collect();
        record.sort_by(|(a, _), (b, _)| a.cmp(b));
        record
    };
    (0..rows.num_rows()).map(record).collect()
}

/// The record of each row, where the columns `lists` are feature lists. A null element is a step without a kind.
///
/// # Panics
/// As [`records`] does, of elements where a column is a feature list.
pub fn sequences(rows: &RecordBatch, lists: &BTreeSet<String>) -> Vec<Sequence> {
    let (mut context, mut steps) = (Vec::new(), Vec::new());
    for (position, field) in rows.schema().fields().iter().enumerate() {
        match lists.contains(field.name()) {
            true => steps.push((field.name().clone(), rows.column(position))),
            false => context.push(position),
        }
    }
    steps.sort_by(|(a, _), (b, _)| a.cmp(b));
    let of_row = |column: &ArrayRef, row| {
        let elements = column.as_list::<i32>().value(row);
        let step = |step| if elements.is_null(step) { Feature::Unset } else { feature(&elements, step) };
        (0..elements.len()).map(step).collect()
    };
    let is_present = |column: &ArrayRef, row| column.is_valid(row) && *column.data_type() != DataType::Null;
    let context = records(&rows.project(&context).expect("columns of the table"));
    let sequence = |(row, context)| {
        let there = steps.iter().filter(|(_, column)| is_present(column, row));
        Sequence { context, lists: there.map(|(name, column)| (name.clone(), of_row(column, row))).collect() }
    };
    context.into_iter().enumerate().map(sequence).collect()
}

fn feature(column: &ArrayRef, row: usize) -> Feature {
    let values = match column.data_type() {
        DataType::List(_) => column.as_list::<i32>().value(row),
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        _ => column.slice(row, 1),
    };
    assert_eq!(values.null_count(), 0, "a null inside a list");
    match values.data_type() {
        DataType::Int64 => Feature::Int64(values.as_primitive::<Int64Type>().values().to_vec()),
        DataType::Float32 => Feature::Float(values.as_primitive::<Float32Type>().values().to_vec()),
        DataType::Utf8 => {
            Feature::Bytes(values.as_string::<i32>().iter().flatten().map(|text| text.as_bytes().to_vec()).collect())
        }
        DataType::Binary => Feature::Bytes(values.as_binary::<i32>().iter().flatten().map(<[u8]>::to_vec).collect()),
        other => panic!("{other} is no type that inference gives"),
    }
}
