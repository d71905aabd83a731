//! Any batch encodes to what messages built value by value serialise to.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
use proptest::prelude::*;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{BytesList, Example, Feature, Features, FloatList, Int64List};

use crate::tables;

/// One value, told from an array of one element by another way than the encoder's.
enum Value {
    Int64(i64),
    Float(f32),
    Bytes(Vec<u8>),
}

fn value(array: &ArrayRef) -> Value {
    use DataType as T;
    assert_eq!(array.len(), 1);
    let int64 = || arrow_cast::cast(array, &T::Int64).unwrap().as_primitive::<Int64Type>().value(0);
    let binary = || arrow_cast::cast(array, &T::LargeBinary).unwrap().as_binary::<i64>().value(0).to_vec();
    match array.data_type() {
        T::Boolean => Value::Int64(array.as_boolean().value(0).into()),
        T::Float16 => Value::Float(array.as_primitive::<Float16Type>().value(0).into()),
        T::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(0)),
        T::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(0) as f32),
        // Rust reads decimal digits to the nearest float.
        decimal if decimal.is_decimal() => Value::Float(array_value_to_string(array, 0).unwrap().parse().unwrap()),
        T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView => Value::Bytes(binary()),
        T::FixedSizeBinary(_) => Value::Bytes(array.as_fixed_size_binary().value(0).to_vec()),
        _ => Value::Int64(int64()),
    }
}

fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Dictionary(_, values) => arrow_cast::cast(array, values).unwrap(),
        DataType::RunEndEncoded(_, values) => arrow_cast::cast(array, values.data_type()).unwrap(),
        _ => ArrayRef::clone(array),
    }
}

fn kind_of(data_type: &DataType) -> Kind {
    match data_type {
        DataType::Dictionary(_, values) => kind_of(values),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Kind::FloatList(FloatList::default()),
        decimal if decimal.is_decimal() => Kind::FloatList(FloatList::default()),
        text if text.is_string() || text.is_binary() => Kind::BytesList(BytesList::default()),
        _ => Kind::Int64List(Int64List::default()),
    }
}

fn feature(array: &ArrayRef, row: usize) -> Option<Feature> {
    let row = array.slice(row, 1);
    let elements = match row.data_type() {
        DataType::Null => return None,
        _ if row.logical_nulls().is_some_and(|nulls| nulls.is_null(0)) => return None,
        DataType::List(_) => row.as_list::<i32>().value(0),
        DataType::LargeList(_) => row.as_list::<i64>().value(0),
        DataType::FixedSizeList(..) => row.as_fixed_size_list().value(0),
        DataType::ListView(_) => row.as_list_view::<i32>().value(0),
        DataType::LargeListView(_) => row.as_list_view::<i64>().value(0),
        _ => row,
    };
    let elements = plain(&elements);
    let mut kind = kind_of(elements.data_type());
    for element in 0..elements.len() {
        match (&mut kind, value(&elements.slice(element, 1))) {
            (Kind::Int64List(list), Value::Int64(value)) => list.value.push(value),
            (Kind::FloatList(list), Value::Float(value)) => list.value.push(value),
            (Kind::BytesList(list), Value::Bytes(value)) => list.value.push(value),
            _ => unreachable!("the kind is that of the type"),
        }
    }
    Some(Feature { kind: Some(kind) })
}

fn framed(batch: &RecordBatch) -> Vec<u8> {
    let schema = batch.schema();
    let mut file = Vec::new();
    for row in 0..batch.num_rows() {
        let columns = schema.fields().iter().zip(batch.columns());
        let feature: BTreeMap<_, _> =
            columns.filter_map(|(field, array)| Some((field.name().clone(), feature(array, row)?))).collect();
        let example = Example { features: Some(Features { feature }) };
        tfrecord_framing::append_record(&mut file, |out| example.encode(out)).unwrap();
    }
    file
}

fn encoder(batch: &RecordBatch) -> Encoder {
    Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap()))
}

/// Decimals of 256 bits may be outside of a float's range; they are not made here.
fn encoded(batch: &RecordBatch) -> RecordBuffer {
    let mut records = RecordBuffer::default();
    encoder(batch).encode(batch, &mut records).unwrap();
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn encoder_matches_prost_for_any_batch(batch in tables::batch()) {
        let records = encoded(&batch);
        prop_assert_eq!(records.len(), batch.num_rows());
        prop_assert_eq!(records.bytes(), framed(&batch));
    }

    #[test]
    fn encoder_output_is_independent_of_batch_cuts(batch in tables::batch(), cut in 0..40usize) {
        let whole = encoded(&batch);
        let cut = cut.min(batch.num_rows());
        let encoder = encoder(&batch);

        let mut pieces = RecordBuffer::default();
        encoder.encode(&batch.slice(0, cut), &mut pieces).unwrap();
        encoder.encode(&batch.slice(cut, batch.num_rows() - cut), &mut pieces).unwrap();
        prop_assert_eq!(pieces.bytes(), whole.bytes());

        let bound = encoder.bind(&batch).unwrap();
        pieces.clear();
        bound.encode(cut..usize::MAX, &mut pieces).unwrap();
        prop_assert_eq!(pieces.bytes(), whole.slice(cut..whole.len()));
    }
}

/// More rows than a block has, and rows longer than a block may be.
#[test]
fn encoder_output_is_independent_of_blocks() {
    let rows = 700;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(arrow_array::Int64Array::from_iter_values(0..rows))),
        (
            "blob",
            Arc::new(arrow_array::BinaryArray::from_iter_values((0..rows).map(|row| vec![7u8; (row * 40) as usize]))),
        ),
        (
            "text",
            Arc::new(arrow_array::StringViewArray::from_iter_values((0..rows).map(|row| "ab".repeat(row as usize)))),
        ),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    assert!(encoded(&batch).bytes() == framed(&batch));
}
