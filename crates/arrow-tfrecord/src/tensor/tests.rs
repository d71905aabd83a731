use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Int64Builder, ListBuilder};
use arrow_array::types::{Float32Type, Int8Type, Int64Type};
use arrow_array::*;
use arrow_schema::Field;
use half::f16;
use proptest::prelude::*;
use prost::Message;
use tfr_proto::tensorflow::{TensorProto, TensorShapeProto, tensor_shape_proto::Dim};

use super::*;
use crate::dtype::STRING;

fn serialized(values: impl Array + 'static) -> Vec<u8> {
    serialize_tensor(&(Arc::new(values) as ArrayRef), None).unwrap().value(0).to_vec()
}

fn parsed(tensors: &[&TensorProto], data_type: &DataType) -> Result<ArrayRef> {
    let tensors: ArrayRef =
        Arc::new(BinaryArray::from_iter_values(tensors.iter().map(|tensor| tensor.encode_to_vec())));
    parse_tensor(&tensors, data_type)
}

fn shape(sizes: &[i64]) -> Option<TensorShapeProto> {
    let dim = sizes.iter().map(|size| Dim { size: *size, ..Default::default() }).collect();
    Some(TensorShapeProto { dim, ..Default::default() })
}

fn int64s(lists: Vec<Vec<i64>>) -> ListArray {
    let mut builder = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    for list in lists {
        builder.values().append_value(list.into_iter().map(Some));
    }
    builder.append(true);
    builder.finish()
}

/// What TensorFlow 2.21 gives for the same values.
#[test]
fn serialize_tensor_matches_tensorflow() {
    let texts = |values: Vec<&str>| {
        let mut builder = ListBuilder::new(builder::StringViewBuilder::new());
        builder.append_value(values.into_iter().map(Some));
        builder.finish()
    };
    assert_eq!(serialized(StringArray::from(vec!["hello"])), b"\x08\x07\x12\x00B\x05hello");
    assert_eq!(serialized(texts(vec!["a", "", "bcd"])), b"\x08\x07\x12\x04\x12\x02\x08\x03B\x01aB\x00B\x03bcd");
    assert_eq!(serialized(texts(vec![])), b"\x08\x07\x12\x02\x12\x00");
    assert_eq!(serialized(BooleanArray::from(vec![true])), b"\x08\x0a\x12\x00\"\x01\x01");
    assert_eq!(serialized(Float16Array::from(vec![f16::from_f32(1.5)])), b"\x08\x13\x12\x00\"\x02\x00>");
    assert_eq!(serialized(UInt64Array::from(vec![1 << 63])), b"\x08\x17\x12\x00\"\x08\x00\x00\x00\x00\x00\x00\x00\x80");
    let list = ListArray::from_iter_primitive::<Int8Type, _, _>([Some([Some(1), Some(-1)])]);
    assert_eq!(serialized(list), b"\x08\x06\x12\x04\x12\x02\x08\x02\"\x02\x01\xff");
    let mut matrix = b"\x08\x09\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02\x22\x20".to_vec();
    (1..=4i64).for_each(|value| matrix.extend(value.to_le_bytes()));
    assert_eq!(serialized(int64s(vec![vec![1, 2], vec![3, 4]])), matrix);
    let mut empty = ListBuilder::new(FixedSizeListBuilder::new(builder::Float32Builder::new(), 3));
    empty.append(true);
    assert_eq!(serialized(empty.finish()), b"\x08\x01\x12\x06\x12\x00\x12\x02\x08\x03");
}

fn column(rows: usize) -> BoxedStrategy<ArrayRef> {
    let types = proptest::sample::select(vec![
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(1),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
    ]);
    let sizes = proptest::collection::vec((0..4usize, any::<bool>()), 0..3);
    (types, sizes, proptest::collection::vec(any::<bool>(), rows))
        .prop_flat_map(move |(data_type, sizes, valid)| {
            let values: usize = rows * sizes.iter().map(|(size, _)| size).product::<usize>();
            let values = proptest::collection::vec(0..2i32, values);
            (Just(data_type), Just(sizes), Just(valid), values)
        })
        .prop_map(|(data_type, sizes, valid, values)| {
            let leaf: ArrayRef = Arc::new(Int32Array::from(values.clone()));
            let via = if dtype(value_type(&data_type)) == Some(STRING) { DataType::Utf8 } else { DataType::Int32 };
            let leaf = match data_type {
                DataType::FixedSizeBinary(_) => {
                    let bytes = values.iter().map(|value| [*value as u8]);
                    Arc::new(
                        FixedSizeBinaryArray::try_from_iter(bytes)
                            .unwrap_or_else(|_| FixedSizeBinaryArray::new_null(1, 0)),
                    )
                }
                _ => arrow_cast::cast(&arrow_cast::cast(&leaf, &via).unwrap(), &data_type).unwrap(),
            };
            let nulls = arrow_buffer::NullBuffer::from(valid);
            let rows = nulls.len();
            let mut array = leaf;
            for (depth, (size, is_fixed)) in sizes.iter().enumerate().rev() {
                let lists = rows * sizes[..depth].iter().map(|(size, _)| size).product::<usize>();
                let item = Arc::new(Field::new_list_field(array.data_type().clone(), true));
                let nulls = (depth == 0).then(|| nulls.clone());
                array = if *is_fixed {
                    Arc::new(FixedSizeListArray::try_new_with_length(item, *size as i32, array, nulls, lists).unwrap())
                } else {
                    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(*size, lists));
                    Arc::new(ListArray::new(item, offsets, array, nulls))
                };
            }
            array
        })
        .boxed()
}

proptest! {
    #[test]
    fn tensor_round_trips(array in (0..6usize).prop_flat_map(column), skip in 0..3usize) {
        let skip = skip.min(array.len());
        let array = array.slice(skip, array.len() - skip);
        let tensors: ArrayRef = Arc::new(serialize_tensor(&array, None).unwrap());
        for tensor in tensors.as_binary::<i64>().iter().flatten() {
            let message = TensorProto::decode(tensor).unwrap();
            prop_assert_eq!(message.encode_to_vec(), tensor);
        }
        let back = parse_tensor(&tensors, array.data_type()).unwrap();
        prop_assert_eq!(back.to_data(), array.to_data());
    }

    #[test]
    fn parse_tensor_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let tensors: ArrayRef = Arc::new(BinaryArray::from_iter_values([&bytes]));
        let list = DataType::new_list(DataType::Int64, true);
        for data_type in [DataType::Utf8, list.clone(), DataType::new_list(list, true)] {
            let _ = parse_tensor(&tensors, &data_type);
        }
    }
}

/// As `tf.make_tensor_proto` and older writers put values beside the content.
#[test]
fn parse_tensor_reads_values_outside_tensor_content() {
    let list = |item: DataType| DataType::new_list(item, true);
    let dtype = |data_type: &DataType| i32::from(dtype(data_type).unwrap());
    let tensor = |data_type: &DataType, sizes: &[i64]| TensorProto {
        dtype: dtype(data_type),
        tensor_shape: shape(sizes),
        ..Default::default()
    };
    let floats = TensorProto { float_val: vec![1.5, 2.0], ..tensor(&DataType::Float32, &[4]) };
    let back = parsed(&[&floats], &list(DataType::Float32)).unwrap();
    assert_eq!(back.as_list::<i32>().value(0).as_primitive::<Float32Type>().values(), &[1.5, 2.0, 2.0, 2.0]);
    let doubles = TensorProto { double_val: vec![0.1], ..tensor(&DataType::Float64, &[]) };
    assert_eq!(
        &parsed(&[&doubles], &DataType::Float64).unwrap(),
        &(Arc::new(Float64Array::from(vec![0.1])) as ArrayRef)
    );
    let bytes = TensorProto { int_val: vec![-1, 7], ..tensor(&DataType::Int8, &[2]) };
    let back = parsed(&[&bytes], &list(DataType::Int8)).unwrap();
    assert_eq!(back.as_list::<i32>().value(0).as_primitive::<Int8Type>().values(), &[-1, 7]);
    let longs = TensorProto { int64_val: vec![i64::MIN], ..tensor(&DataType::Int64, &[1]) };
    let back = parsed(&[&longs], &list(DataType::Int64)).unwrap();
    assert_eq!(back.as_list::<i32>().value(0).as_primitive::<Int64Type>().values(), &[i64::MIN]);
    let half = TensorProto { half_val: vec![0x3e00], ..tensor(&DataType::Float16, &[]) };
    let expected: ArrayRef = Arc::new(Float16Array::from(vec![f16::from_f32(1.5)]));
    assert_eq!(&parsed(&[&half], &DataType::Float16).unwrap(), &expected);
    let bools = TensorProto { bool_val: vec![true], ..tensor(&DataType::Boolean, &[]) };
    assert_eq!(
        &parsed(&[&bools], &DataType::Boolean).unwrap(),
        &(Arc::new(BooleanArray::from(vec![true])) as ArrayRef)
    );
    let unpacked =
        b"\x08\x02\x12\x04\x12\x02\x08\x02\x31\x00\x00\x00\x00\x00\x00\xf8\x3f\x31\x00\x00\x00\x00\x00\x00\x00\x40";
    let tensors: ArrayRef = Arc::new(BinaryArray::from_iter_values([unpacked]));
    let back = parse_tensor(&tensors, &list(DataType::Float64)).unwrap();
    assert_eq!(back.as_list::<i32>().value(0).as_primitive::<types::Float64Type>().values(), &[1.5, 2.0]);
    let zeros = parsed(&[&tensor(&DataType::Int32, &[3])], &list(DataType::Int32)).unwrap();
    assert_eq!(zeros.as_list::<i32>().value(0).as_primitive::<types::Int32Type>().values(), &[0, 0, 0]);
}

/// As `arrow.variable_shape_tensor` has them.
#[test]
fn serialize_tensor_accepts_variable_shape_structs() {
    let data = || int64s(vec![vec![1, 2, 3, 4, 5, 6], vec![]]).values().clone();
    let sizes = |sizes: [i32; 4]| {
        let sizes = Arc::new(Int32Array::from(sizes.to_vec())) as ArrayRef;
        FixedSizeListArray::new(Arc::new(Field::new_list_field(DataType::Int32, true)), 2, sizes, None)
    };
    let structs = |sizes: FixedSizeListArray| {
        let fields = vec![("data", data()), ("shape", Arc::new(sizes) as ArrayRef)];
        Arc::new(StructArray::try_from(fields).unwrap()) as ArrayRef
    };
    let values = structs(sizes([2, 3, 0, 4]));
    let tensors: ArrayRef = Arc::new(serialize_tensor(&values, None).unwrap());
    let sizes_of = |row| {
        let shape = TensorProto::decode(tensors.as_binary::<i64>().value(row)).unwrap().tensor_shape.unwrap();
        shape.dim.iter().map(|dim| dim.size).collect::<Vec<_>>()
    };
    assert_eq!((sizes_of(0), sizes_of(1)), (vec![2, 3], vec![0, 4]));
    assert_eq!(&parse_tensor(&tensors, values.data_type()).unwrap(), &values);
    let mismatch = serialize_tensor(&structs(sizes([2, 2, 0, 4])), None).unwrap_err();
    assert_eq!(mismatch.to_string(), "row 0: 6 values, which make no tensor of shape [2, 2]");
}

#[test]
fn parse_tensor_rejects_mismatched_tensors() {
    let message = |tensor: TensorProto, data_type: &DataType| parsed(&[&tensor], data_type).unwrap_err().to_string();
    let list = |item: DataType| DataType::new_list(item, true);
    let int64s = |sizes: &[i64], values: Vec<i64>| TensorProto {
        dtype: 9,
        tensor_shape: shape(sizes),
        int64_val: values,
        ..Default::default()
    };
    let of_two = int64s(&[2], vec![1, 2]);
    assert_eq!(message(of_two.clone(), &DataType::Int64), "row 0: a tensor of shape [2]");
    assert_eq!(message(of_two.clone(), &list(list(DataType::Int64))), "row 0: a tensor of shape [2]");
    assert_eq!(message(of_two, &list(DataType::Int32)), "row 0: a tensor of dtype int64, where int32 is expected,");
    let none = "row 0: a value that is not a TensorProto";
    assert_eq!(message(int64s(&[2], vec![1, 2, 3]), &list(DataType::Int64)), none);
    assert_eq!(message(int64s(&[-1], vec![1]), &list(DataType::Int64)), none);
    assert_eq!(message(int64s(&[i64::MAX, 3], vec![1]), &list(DataType::Int64)), none);
    // What a few bytes ask for is not made.
    assert_eq!(message(int64s(&[1 << 40], vec![1]), &list(DataType::Int64)), none);
    let vast = message(int64s(&[1 << 40, 0], vec![]), &list(list(DataType::Int64)));
    assert_eq!(vast, "row 0: a tensor of shape [1099511627776, 0]");
    let complex = TensorProto { dtype: 8, tensor_shape: shape(&[1]), ..Default::default() };
    assert_eq!(
        message(complex, &list(DataType::Float32)),
        "row 0: a tensor of dtype complex64, which no Arrow type has"
    );
    assert_eq!(message(TensorProto { dtype: 77, ..Default::default() }, &DataType::Int64), none);
    let days = parsed(&[], &DataType::Date32).unwrap_err();
    assert_eq!(days.to_string(), r#"column "tensor": type Date32 cannot be written as a feature"#);
}

#[test]
fn serialize_tensor_rejects_ragged_lists_and_nulls() {
    let message = |array: ArrayRef, shape: Option<&[i64]>| serialize_tensor(&array, shape).unwrap_err().to_string();
    let ragged = || Arc::new(int64s(vec![vec![1], vec![2, 3]])) as ArrayRef;
    assert_eq!(message(ragged(), None), "row 0: lists of different lengths, which make no tensor");
    let list = || {
        let lists = [Some(vec![Some(1), Some(2)]), Some(vec![Some(3), None])];
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)) as ArrayRef
    };
    assert_eq!(message(list(), None), "row 1: a null, which a tensor cannot represent");
    assert_eq!(message(list(), Some(&[3])), "row 0: 2 values, which make no tensor of shape [3]");
    assert_eq!(message(list(), Some(&[0, -1])), "row 0: 2 values, which make no tensor of shape [0, -1]");
    assert_eq!(
        message(list(), Some(&[-1, -1])),
        "row 0: [-1, -1] is not a shape: expected sizes of 0 or more, and at most one -1"
    );
    let shaped = serialize_tensor(&list().slice(0, 1), Some(&[1, -1, 1])).unwrap();
    let sizes = TensorProto::decode(shaped.value(0)).unwrap().tensor_shape.unwrap().dim;
    assert_eq!(sizes.iter().map(|dim| dim.size).collect::<Vec<_>>(), [1, 2, 1]);
}
