//! Errors that users read for records that do not fit.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, StringDictionaryBuilder};
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use arrow_tfrecord::{Choice, Error, MappingOptions, ReaderBuilder, WriterBuilder};
use insta::assert_snapshot;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{BytesList, Example, Feature, Features, FloatList, Int64List};
use tfrecord_framing::RecordWriter;

fn file(records: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new());
    records.iter().for_each(|record| writer.write_record(record).unwrap());
    writer.finish().unwrap()
}

fn record(kind: Option<Kind>) -> Vec<u8> {
    let feature = [("f".to_owned(), Feature { kind })].into();
    Example { features: Some(Features { feature }) }.encode_to_vec()
}

fn ints(values: &[i64]) -> Vec<u8> {
    record(Some(Kind::Int64List(Int64List { value: values.to_vec() })))
}

fn floats(values: &[f32]) -> Vec<u8> {
    record(Some(Kind::FloatList(FloatList { value: values.to_vec() })))
}

fn bytes(values: &[&[u8]]) -> Vec<u8> {
    record(Some(Kind::BytesList(BytesList { value: values.iter().map(|value| value.to_vec()).collect() })))
}

fn shown(error: &Error) -> String {
    error.to_string()
}

/// The error of a file whose second record is the bad one.
fn refusal(field: Field, choice: Option<Choice>, bad: Vec<u8>) -> String {
    let mut options = MappingOptions::default();
    options.choices.extend(choice.map(|choice| ("f".to_owned(), choice)));
    // Whatever the type, without the feature there is no value; except where there has to be one.
    let good = if field.is_nullable() { Vec::new() } else { ints(&[1]) };
    let builder = ReaderBuilder::new(Arc::new(Schema::new(vec![field]))).with_mapping(options);
    let mut decoder = builder.build_decoder().unwrap();
    decoder.decode(&file(&[good.clone(), bad])).unwrap();
    let error = decoder.flush().unwrap_err();
    // What came before is gone with the error, and the decoder goes on.
    let next = decoder.decode(&file(&[good])).and_then(|_| decoder.flush()).unwrap().unwrap();
    assert_eq!(next.num_rows(), 1);
    shown(&error)
}

#[test]
fn reader_rejects_features_of_another_kind_or_count() {
    let field = |data_type| Field::new("f", data_type, true);
    let list = |item| DataType::List(Field::new_list_field(item, true).into());
    let pair = |item| DataType::FixedSizeList(Field::new_list_field(item, true).into(), 2);
    let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let refusals = [
        refusal(field(DataType::Int64), None, floats(&[1.0])),
        refusal(field(DataType::Float32), None, bytes(&[])),
        refusal(field(DataType::Null), None, ints(&[])),
        refusal(field(DataType::Int64), None, ints(&[])),
        refusal(field(DataType::Int64), None, ints(&[1, 2])),
        refusal(field(pair(DataType::Int64)), None, ints(&[1])),
        refusal(Field::new("f", DataType::Int64, false), None, record(None)),
        refusal(field(DataType::Int8), None, ints(&[128])),
        refusal(field(list(DataType::UInt16)), None, ints(&[1, -1])),
        refusal(field(pair(DataType::UInt16)), None, ints(&[1, -1])),
        refusal(field(DataType::UInt64), None, ints(&[-1])),
        refusal(field(DataType::Boolean), None, ints(&[2])),
        refusal(field(DataType::Date32), None, ints(&[i64::MAX])),
        refusal(field(DataType::Date32), Some(Choice::Seconds), ints(&[86_401])),
        refusal(field(timestamp), Some(Choice::Seconds), ints(&[i64::MAX])),
        refusal(field(DataType::Decimal128(5, 2)), Some(Choice::Unscaled), ints(&[100_000])),
        refusal(field(DataType::Decimal128(5, 2)), None, floats(&[f32::NAN])),
        refusal(field(DataType::Decimal128(5, 2)), Some(Choice::String), bytes(&[b"1.2.3"])),
        refusal(field(DataType::Date32), Some(Choice::String), bytes(&[b"yesterday"])),
        refusal(field(DataType::Float16), None, floats(&[1e6])),
        refusal(field(DataType::Float64), Some(Choice::Tensor), bytes(&[b"\x08\x01"])),
        refusal(field(pair(DataType::Float64)), Some(Choice::Tensor), bytes(&[b"\x08\x02\x12\x00"])),
        refusal(field(DataType::Utf8), None, bytes(&[b"\xff"])),
        refusal(field(list(DataType::Utf8View)), None, bytes(&[b"a", b"\xc3", b"\xa7"])),
        refusal(field(DataType::FixedSizeBinary(3)), None, bytes(&[b"ab"])),
        refusal(field(DataType::Int64), None, b"\x0a\x07\x0a\x09".to_vec()),
        refusal(field(DataType::Int64), None, b"\x0a\x0b\x0a\x09\x0a\x01f\x12\x04\x1a\x02\x0a\x07".to_vec()),
        refusal(field(list(DataType::Float32)), None, b"\x0a\x0e\x0a\x0c\x0a\x01f\x12\x07\x12\x05\x0a\x03abc".to_vec()),
        refusal(field(DataType::Int64), None, b"not a record".to_vec()),
    ];
    assert_snapshot!(refusals.join("\n\n"));
}

#[test]
fn reader_rejects_unsupported_schema_before_reading() {
    let item = Field::new_list_field(DataType::Null, true);
    let schema = Arc::new(Schema::new(vec![Field::new("f", DataType::List(item.into()), true)]));
    let nested = ReaderBuilder::new(schema).build_decoder().unwrap_err();
    let schema = Arc::new(Schema::new(vec![Field::new("f", DataType::Int64, true)]));
    let beyond = ReaderBuilder::new(schema).with_projection(vec![0, 1]).build_decoder().unwrap_err();
    assert_snapshot!(format!("{}\n\n{}", shown(&nested), shown(&beyond)));
}

/// Or a schema of some lines would take all memory.
#[test]
fn reader_rejects_rows_larger_than_a_batch_before_reading() {
    let list = |item, len| DataType::FixedSizeList(Field::new_list_field(item, true).into(), len);
    let refused = |data_type| {
        let schema = Schema::new(vec![Field::new("x", DataType::Int64, true), Field::new("f", data_type, true)]);
        ReaderBuilder::new(Arc::new(schema)).with_projection(vec![0]).build_decoder().map_err(|error| shown(&error))
    };
    assert_snapshot!(refused(list(DataType::Float32, i32::MAX)).unwrap_err(), @r#"
    column "f": one row of type FixedSizeList(2147483647 x Float32) takes 17179869176 bytes, even if it is null; a batch has at most 268435456
    "#);
    assert_snapshot!(refused(DataType::FixedSizeBinary(i32::MAX)).unwrap_err(), @r#"
    column "f": one row of type FixedSizeBinary(2147483647) takes 2147483647 bytes, even if it is null; a batch has at most 268435456
    "#);
    assert!(refused(list(DataType::Float32, 1 << 20)).is_ok());
    assert!(refused(DataType::FixedSizeBinary(1 << 20)).is_ok());
}

#[test]
fn more_distinct_values_than_keys() {
    let mut words = StringDictionaryBuilder::<Int8Type>::new();
    let key = words.append("0").unwrap();
    assert_eq!(key, 0);
    let few: ArrayRef = Arc::new(words.finish());
    let schema = Arc::new(Schema::new(vec![Field::new("f", few.data_type().clone(), true)]));
    let records: Vec<_> = (0..200).map(|record| bytes(&[record.to_string().as_bytes()])).collect();
    let builder = ReaderBuilder::new(schema);
    let file = file(&records);
    let error = builder.clone().build(file.as_slice()).unwrap().next().unwrap().unwrap_err();
    assert_snapshot!(
        error.to_string(),
        @r#"External error: column "f": 200 rows have more values than Dictionary(Int8, Utf8) can hold in one batch"#
    );
    let fewer = builder.with_batch_size(100).build(file.as_slice()).unwrap();
    assert_eq!(fewer.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 200);
}

#[test]
fn a_reader_ends_with_its_first_error() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let mut writer = WriterBuilder::new(batch.schema()).build(Vec::new()).unwrap();
    writer.write(&batch).unwrap();
    let mut file = writer.finish().unwrap();
    file.pop();
    let mut reader = ReaderBuilder::new(batch.schema()).with_batch_size(4).build(file.as_slice()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), batch.slice(0, 4));
    assert_eq!(reader.next().unwrap().unwrap(), batch.slice(4, 4));
    let arrow_schema::ArrowError::ExternalError(error) = reader.next().unwrap().unwrap_err() else { panic!("ours") };
    assert_snapshot!(shown(error.downcast_ref::<Error>().unwrap()), @r"
    record 9 at byte 279: truncated, expected 31 bytes of a framed record, found 30
    ");
    assert!(reader.next().is_none());
}

/// Absent and without a kind are null; empty is not.
#[test]
fn reader_distinguishes_null_from_empty_list() {
    let records = [Vec::new(), record(None), ints(&[]), ints(&[1])];
    let list = DataType::List(Field::new_list_field(DataType::Int32, true).into());
    let schema = Arc::new(Schema::new(vec![Field::new("f", list, true)]));
    let mut reader = ReaderBuilder::new(schema).build(file(&records).as_slice()).unwrap().collect::<Vec<_>>();
    let mut expected = arrow_array::builder::ListBuilder::new(Int32Builder::new());
    expected.append(false);
    expected.append(false);
    expected.append(true);
    expected.append_value([Some(1)]);
    assert_eq!(reader.remove(0).unwrap().column(0).as_ref(), &expected.finish() as &dyn Array);
}

/// Fixed-size lists take up space even if null. A short file must not cause an allocation of terabytes.
#[test]
fn batches_of_long_lists_are_short() {
    let list = DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Float32, true)), 8 << 20);
    let schema = Arc::new(Schema::new(vec![Field::new("f", list, true)]));
    let file = file(&vec![Vec::new(); 5]);
    let reader = ReaderBuilder::new(schema).build(file.as_slice()).unwrap();
    let rows: Vec<_> = reader.map(|batch| batch.unwrap().num_rows()).collect();
    assert_eq!(rows, [4, 1]);
}
