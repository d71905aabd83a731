//! Lists and tensors as one serialized tensor each, and tensors as their values.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, Int32Builder, ListBuilder};
use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{
    Choice, Encoder, Error, LossClass, Mapping, MappingOptions, NullRule, ReaderBuilder, RecordBuffer,
};
use insta::assert_snapshot;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{Example, TensorProto};
use tfrecord_framing::RecordReader;

fn encoded(batch: &RecordBatch, options: &MappingOptions) -> Result<Vec<u8>, Error> {
    let mapping = Mapping::try_new(&batch.schema(), options)?;
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records)?;
    Ok(records.bytes().to_vec())
}

/// The features of the records, after they were seen to come back.
fn through(field: Field, array: ArrayRef, options: &MappingOptions) -> Vec<Vec<(String, Kind)>> {
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
    let mapping = Mapping::try_new(&batch.schema(), options).unwrap();
    assert_ne!(mapping.columns()[0].class, LossClass::Narrowed);
    let file = encoded(&batch, options).unwrap();
    let mut reader = ReaderBuilder::new(batch.schema()).with_mapping(options.clone()).build(file.as_slice()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), batch);
    let (mut records, mut record, mut reader) = (Vec::new(), Vec::new(), RecordReader::new(file.as_slice()));
    while reader.read_record(&mut record).unwrap() {
        let features = Example::decode(record.as_slice()).unwrap().features.unwrap().feature;
        records.push(features.into_iter().map(|(name, feature)| (name, feature.kind.unwrap())).collect());
    }
    records
}

fn tensors(kind: &Kind) -> Vec<(Vec<i64>, Vec<u8>)> {
    let Kind::BytesList(list) = kind else { panic!("{kind:?}") };
    let tensor = |bytes: &Vec<u8>| {
        let tensor = TensorProto::decode(bytes.as_slice()).unwrap();
        (tensor.tensor_shape.unwrap().dim.iter().map(|dim| dim.size).collect(), tensor.tensor_content)
    };
    list.value.iter().map(tensor).collect()
}

fn by_tensor() -> MappingOptions {
    MappingOptions::default().with_choice("c", Choice::Tensor)
}

/// `arrow.fixed_shape_tensor` of shape [2, 3], with a null.
fn fixed_shape() -> (Field, ArrayRef) {
    let mut images = FixedSizeListBuilder::new(Float32Builder::new(), 6);
    images.values().append_slice(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    images.append(true);
    images.values().append_nulls(6);
    images.append(false);
    let images = images.finish();
    let metadata = [
        ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
        ("ARROW:extension:metadata".to_owned(), r#"{"shape":[2,3],"dim_names":["H","W"]}"#.to_owned()),
    ];
    (Field::new("c", images.data_type().clone(), true).with_metadata(metadata.into()), Arc::new(images))
}

/// `arrow.variable_shape_tensor`: 2 times 1, nothing at all, 1 times 3.
fn variable_shape() -> (Field, ArrayRef) {
    let data = ListArray::from_iter_primitive::<Float32Type, _, _>([
        Some(vec![Some(0.5), Some(1.5)]),
        None,
        Some(vec![Some(1.0), Some(2.0), Some(3.0)]),
    ]);
    let pair = |a, b| Some(vec![Some(a), Some(b)]);
    let shape = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>([pair(2, 1), None, pair(1, 3)], 2);
    let fields =
        vec![Field::new("data", data.data_type().clone(), true), Field::new("shape", shape.data_type().clone(), true)];
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let array = StructArray::new(fields.into(), vec![Arc::new(data), Arc::new(shape)], nulls);
    let metadata = [("ARROW:extension:name".to_owned(), "arrow.variable_shape_tensor".to_owned())];
    (Field::new("c", array.data_type().clone(), true).with_metadata(metadata.into()), Arc::new(array))
}

#[test]
fn tensors_of_a_fixed_shape() {
    let (field, array) = fixed_shape();
    let flat = through(field.clone(), ArrayRef::clone(&array), &MappingOptions::default());
    let Kind::FloatList(values) = &flat[0][0].1 else { panic!("floats") };
    assert_eq!(values.value, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let records = through(field, array, &by_tensor());
    assert_eq!(tensors(&records[0][0].1)[0].0, [2, 3]);
    assert!(records[1].is_empty());
}

#[test]
fn tensors_of_any_shape() {
    let (field, array) = variable_shape();
    let records = through(field.clone(), ArrayRef::clone(&array), &MappingOptions::default());
    let names = |record: usize| records[record].iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    assert_eq!((names(0), names(1)), (vec!["c", "c/shape"], vec![]));
    let Kind::Int64List(shape) = &records[2][1].1 else { panic!("whole numbers") };
    assert_eq!(shape.value, [1, 3]);
    let records = through(field, array, &by_tensor());
    assert_eq!(tensors(&records[0][0].1)[0].0, [2, 1]);
    assert_eq!(tensors(&records[2][0].1)[0].0, [1, 3]);
}

/// Each a tensor of its own.
#[test]
fn tensors_of_any_shape_in_a_list() {
    let (field, tensors) = variable_shape();
    let item = Arc::new(field.with_name("item"));
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([1, 0]);
    let array: ArrayRef = Arc::new(ListArray::new(item, offsets, tensors, None));
    let records = through(Field::new("c", array.data_type().clone(), true), array, &by_tensor());
    assert_eq!(records[0][0].0, "c");
    assert_eq!(tensors_of(&records[0][0].1), [[2, 1]]);
    assert!(tensors_of(&records[1][0].1).is_empty());
}

fn tensors_of(kind: &Kind) -> Vec<Vec<i64>> {
    tensors(kind).into_iter().map(|(shape, _)| shape).collect()
}

#[test]
fn tensor_choice_rejects_values_that_do_not_fill_the_shape() {
    let (field, array) = variable_shape();
    let short = ListArray::from_iter_primitive::<Float32Type, _, _>([Some(vec![Some(0.5)]), None, Some(vec![])]);
    let (fields, mut columns, nulls) = array.as_any().downcast_ref::<StructArray>().unwrap().clone().into_parts();
    columns[0] = Arc::new(short);
    let array: ArrayRef = Arc::new(StructArray::new(fields, columns, nulls));
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
    let error = encoded(&batch, &by_tensor()).unwrap_err();
    assert_snapshot!(error.to_string(), @r#"column "c", row 0: 1 values, which make no tensor of shape [2, 1]"#);
}

fn matrices(rows: &[Option<&[&[i32]]>]) -> ArrayRef {
    let mut builder = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    for matrix in rows {
        for list in matrix.unwrap_or_default() {
            builder.values().append_value(list.iter().copied().map(Some));
        }
        builder.append(matrix.is_some());
    }
    Arc::new(builder.finish())
}

#[test]
fn tensor_choice_accepts_only_dense_nested_lists() {
    let dense = matrices(&[Some(&[&[1, 2], &[3, 4], &[5, 6]]), None, Some(&[])]);
    let field = Field::new("c", dense.data_type().clone(), true);
    let records = through(field.clone(), dense, &by_tensor());
    assert_eq!(tensors(&records[0][0].1)[0].0, [3, 2]);
    assert_eq!(tensors(&records[2][0].1)[0].0, [0, 0]);

    let ragged = matrices(&[Some(&[]), Some(&[&[1], &[2, 3]])]);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![ragged]).unwrap();
    let error = encoded(&batch, &by_tensor()).unwrap_err();
    assert_snapshot!(error, @r#"column "c", row 1: lists of different lengths, which make no tensor"#);
}

/// A list in a struct in a list: a tensor for each, some of them null.
#[test]
fn tensors_in_nested_columns() {
    let lists = matrices(&[Some(&[&[1, 2]]), None, Some(&[&[3], &[4]])]);
    let fields = vec![Field::new("m", lists.data_type().clone(), true)];
    let structs = StructArray::new(fields.into(), vec![lists], None);
    let item = Arc::new(Field::new_list_field(structs.data_type().clone(), false));
    let offsets = arrow_buffer::OffsetBuffer::from_lengths([2, 0, 1]);
    let array: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(structs), None));
    let field = Field::new("c", array.data_type().clone(), true);
    let options = MappingOptions::default()
        .with_choice("c/m", Choice::Tensor)
        .with_column_nulls("c/m", arrow_tfrecord::NullPolicy::Mask);
    let records = through(field, array, &options);
    let names: Vec<_> = records[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["c/m", "c/m/is_null"]);
    let Kind::BytesList(values) = &records[0][0].1 else { panic!("bytes") };
    assert_eq!(values.value.len(), 2);
    assert!(values.value[1].is_empty());
}

/// As a text is cast to a list: one element.
#[test]
fn tensor_choice_writes_null_default_as_tensor() {
    let array: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    let options = by_tensor().with_column_nulls("c", NullRule::Default("2.5".to_owned()));
    let file = encoded(&batch, &options).unwrap();
    let mut reader = ReaderBuilder::new(batch.schema()).with_mapping(options).build(file.as_slice()).unwrap();
    let back = reader.next().unwrap().unwrap();
    assert_eq!(back.column(0).as_ref(), &Float64Array::from(vec![1.5, 2.5]) as &dyn Array);
}

/// Unions have a text form, which is for people.
#[test]
fn unions_are_texts() {
    let fields = arrow_schema::UnionFields::try_new(
        [0, 1],
        [Field::new("n", DataType::Int32, true), Field::new("s", DataType::Utf8, true)],
    );
    let children: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![1, 0])), Arc::new(StringArray::from(vec!["", "b"]))];
    let array: ArrayRef = Arc::new(UnionArray::try_new(fields.unwrap(), vec![0i8, 1].into(), None, children).unwrap());
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    let options = MappingOptions::default().with_choice("c", Choice::String);
    let mapping = Mapping::try_new(&batch.schema(), &options).unwrap();
    assert_eq!(mapping.columns()[0].class, LossClass::Narrowed);
    let file = encoded(&batch, &options).unwrap();
    let mut record = Vec::new();
    let mut reader = RecordReader::new(file.as_slice());
    let mut texts = Vec::new();
    while reader.read_record(&mut record).unwrap() {
        let Example { features } = Example::decode(record.as_slice()).unwrap();
        let Some(Kind::BytesList(list)) = features.unwrap().feature.remove("c").unwrap().kind else { panic!("bytes") };
        texts.push(String::from_utf8(list.value.concat()).unwrap());
    }
    assert_eq!(texts, ["{n=1}", "{s=b}"]);
    let error = ReaderBuilder::new(batch.schema()).with_mapping(options).build_decoder().unwrap_err();
    assert!(error.to_string().ends_with("cannot be read from text"), "{error}");
}
