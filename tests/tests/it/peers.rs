//! Where other converters of tables drop, zero, cut or crash: what is right here, or refused by name.
//!
//! The converters: spark-tfrecord and spark-tensorflow-connector ("Spark"), tfx_bsl, the `ExampleGen` of TFX, Ray Data.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, ListBuilder, MapBuilder, NullArray, RecordBatch, StringArray,
    StringBuilder, StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type, Int32Type, Int64Type, Schema};
use arrow::error::ArrowError;
use arrow_tfrecord::{
    Encoder, Error, ErrorKind, Mapping, MappingOptions, NullPolicy, ReaderBuilder, RecordBuffer, RecordType,
};
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{BytesList, Example, Feature, Features, Int64List};
use tfr_tests::{Record, Scratch, read_file};

use crate::session;

fn table(array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap()
}

fn encode(batch: &RecordBatch, options: &MappingOptions) -> Result<Vec<u8>, Error> {
    let mapping = Mapping::try_new(&batch.schema(), options)?;
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records)?;
    Ok(records.bytes().to_vec())
}

/// The records of a column, by protobuf.
fn records(array: ArrayRef) -> Vec<Record> {
    let scratch = Scratch::default();
    let file = scratch.join("records.tfrecord");
    fs::write(&file, encode(&table(array), &MappingOptions::default()).unwrap()).unwrap();
    read_file(&file)
}

/// What a column is once it was written and read.
fn back(array: &ArrayRef, options: &MappingOptions) -> Result<ArrayRef, Error> {
    let batch = table(Arc::clone(array));
    Ok(read_as(&encode(&batch, options)?, array.data_type(), options).unwrap())
}

fn read_as(file: &[u8], data_type: &DataType, options: &MappingOptions) -> Result<ArrayRef, ArrowError> {
    let schema = Arc::new(Schema::new(vec![Field::new("c", data_type.clone(), true)]));
    let mut reader = ReaderBuilder::new(schema).with_mapping(options.clone()).build(file).unwrap();
    Ok(Arc::clone(reader.next().expect("a batch")?.column(0)))
}

#[track_caller]
fn comes_back(array: ArrayRef) {
    comes_back_with(array, &MappingOptions::default());
}

#[track_caller]
fn comes_back_with(array: ArrayRef, options: &MappingOptions) {
    let found = back(&array, options).unwrap_or_else(|error| panic!("{}: {error}", array.data_type()));
    assert_eq!(found.to_data(), array.to_data());
}

fn int64s(values: &[i64]) -> Kind {
    Kind::Int64List(Int64List { value: values.to_vec() })
}

/// A file of records with one feature each at most.
fn write_file(path: &Path, features: impl IntoIterator<Item = Vec<(&'static str, Option<Kind>)>>) {
    let mut file = Vec::new();
    for record in features {
        let feature = record.into_iter().map(|(name, kind)| (name.to_owned(), Feature { kind })).collect();
        let example = Example { features: Some(Features { feature }) };
        tfrecord_framing::append_record(&mut file, |out| example.encode(out)).unwrap();
    }
    fs::write(path, file).unwrap();
}

async fn inferred(path: &Path) -> RecordBatch {
    session::select_all(&session::of_command(1), path).await.unwrap()
}

/// Spark: 12345.0 of a decimal(10,2) of 123.45, an address of a decimal(38,18), 150.0 of 1.50 in a list.
#[test]
fn decimals_keep_their_scale() {
    let short = Decimal128Array::from(vec![12345]).with_precision_and_scale(10, 2).unwrap();
    let long = Decimal128Array::from(vec![123_450_000_000_000_000_000]).with_precision_and_scale(38, 18).unwrap();
    let expected = [vec![("c".to_owned(), tfr_tests::Feature::Float(vec![123.45]))]];
    assert_eq!(records(Arc::new(short)), expected);
    assert_eq!(records(Arc::new(long)), expected);

    let items = Decimal128Array::from(vec![150, 225]).with_precision_and_scale(10, 2).unwrap();
    let mut lists = ListBuilder::new(arrow::array::Float64Builder::new());
    lists.append_value([Some(1.5), Some(2.25)]);
    let list = DataType::new_list(items.data_type().clone(), true);
    let lists = cast(&(Arc::new(lists.finish()) as ArrayRef), &list).unwrap();
    assert_eq!(records(Arc::clone(&lists)), [vec![("c".to_owned(), tfr_tests::Feature::Float(vec![1.5, 2.25]))]]);
    comes_back(lists);
}

/// tfx_bsl: the lower 32 bits of the values in feature lists.
#[test]
fn feature_lists_hold_64_bits() {
    let mut steps = ListBuilder::new(ListBuilder::new(arrow::array::Int64Builder::new()));
    steps.values().append_value([Some((1 << 40) + 5), Some(i64::MIN)]);
    steps.values().append_value([]);
    steps.append(true);
    comes_back_with(Arc::new(steps.finish()), &MappingOptions::default().with_record_type(RecordType::SequenceExample));
}

/// Spark: 0 of 2^40 where an int is asked for.
#[test]
fn read_rejects_values_outside_the_requested_type() {
    let options = MappingOptions::default();
    let file = encode(&table(Arc::new(Int64Array::from(vec![1, 1 << 40]))), &options).unwrap();
    let error = read_as(&file, &DataType::Int32, &options).unwrap_err().to_string();
    assert!(error.contains("\"c\"") && error.contains("1099511627776"), "{error}");
}

/// Spark and tfx_bsl: 0 or "" in place of a null inside a list; TFX and Ray: TypeError.
#[test]
fn nulls_inside_lists_are_kept_by_masks_or_refused() {
    let mut texts = ListBuilder::new(StringBuilder::new());
    texts.append_value([Some("a"), None, Some("")]);
    texts.append_null();
    texts.append_value([None::<&str>]);
    let arrays: [ArrayRef; 3] = [
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None, Some(0)]), None])),
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>([Some(vec![Some(0.0), None]), Some(vec![])])),
        Arc::new(texts.finish()),
    ];
    for array in arrays {
        let error = back(&array, &MappingOptions::default()).unwrap_err();
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::NullElement { column, row: 0, .. } if column == "c"), "{error}");
        comes_back_with(array, &MappingOptions::default().with_nulls(NullPolicy::Mask));
    }
}

/// Nobody but tfx_bsl tells null from empty both ways; Ray writes an empty list for every null.
#[tokio::test]
async fn null_is_not_empty() {
    comes_back(Arc::new(StringArray::from(vec![Some(""), None])));
    comes_back(Arc::new(BinaryArray::from(vec![Some(&b""[..]), None])));
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![]), None, Some(vec![Some(0)])]);
    comes_back(Arc::new(lists.clone()));

    // Also where nothing tells the types. The way back from an unset feature, which Spark cannot read, is null too.
    let scratch = Scratch::default();
    let file = scratch.join("records.tfrecord");
    write_file(&file, [vec![("c", Some(int64s(&[])))], vec![("c", None)], vec![], vec![("c", Some(int64s(&[0])))]]);
    let expected = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![]), None, None, Some(vec![Some(0)])]);
    assert_eq!(inferred(&file).await.column(0).to_data(), expected.to_data());
}

/// Spark: the first value of a list where a scalar is asked for, or where the first file had scalars.
#[tokio::test]
async fn a_list_is_not_cut_to_a_scalar() {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(7)]), Some(vec![Some(8), Some(9)])]);
    let options = MappingOptions::default();
    let file = encode(&table(Arc::new(lists.clone())), &options).unwrap();
    let error = read_as(&file, &DataType::Int64, &options).unwrap_err().to_string();
    assert!(error.contains("record 1") && error.contains("\"c\""), "{error}");

    let scratch = Scratch::default();
    let directory = scratch.join("set");
    fs::create_dir(&directory).unwrap();
    write_file(&directory.join("0.tfrecord"), [vec![("c", Some(int64s(&[7])))]]);
    write_file(&directory.join("1.tfrecord"), [vec![("c", Some(int64s(&[8, 9])))]]);
    assert_eq!(inferred(&directory).await.column(0).to_data(), lists.to_data());
}

/// Ray: one type for a record, another for the next. Here the column has the type that fits both, in either order.
#[tokio::test]
async fn a_column_has_one_type() {
    let scratch = Scratch::default();
    let file = scratch.join("records.tfrecord");
    for values in [[&[1][..], &[2, 3], &[]], [&[], &[2, 3], &[1]]] {
        write_file(&file, values.iter().map(|values| vec![("c", Some(int64s(values)))]));
        let lists = values.map(|values| Some(values.iter().map(|value| Some(*value)).collect::<Vec<_>>()));
        let expected = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        assert_eq!(inferred(&file).await.column(0).to_data(), expected.to_data());
    }
}

/// TFX: 0, 0.0, false, "" and [] become missing values.
#[test]
fn falsy_values_are_not_null() {
    comes_back(Arc::new(Int64Array::from(vec![Some(0), None])));
    comes_back(Arc::new(Float32Array::from(vec![Some(0.0), Some(-0.0), None])));
    comes_back(Arc::new(BooleanArray::from(vec![Some(false), None])));
    comes_back(Arc::new(StringArray::from(vec![Some(""), None])));
    comes_back(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![]), None])));
    for falsy in [
        Arc::new(Int64Array::from(vec![0])) as ArrayRef,
        Arc::new(Float64Array::from(vec![0.0])),
        Arc::new(BooleanArray::from(vec![false])),
        Arc::new(StringArray::from(vec![""])),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![])])),
    ] {
        let [record] = records(falsy).try_into().unwrap();
        assert!(matches!(record.as_slice(), [(_, feature)] if *feature != tfr_tests::Feature::Unset), "{record:?}");
    }
}

/// Spark, Ray, tfx_bsl: RuntimeException, ValueError and "Bad field type" for all of these.
#[test]
fn types_that_other_tools_reject_round_trip() {
    let lists = |item: DataType| {
        let lists =
            ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), Some(0)]), Some(vec![]), None]);
        cast(&(Arc::new(lists) as ArrayRef), &DataType::new_list(item, true)).unwrap()
    };
    comes_back(Arc::new(Int8Array::from(vec![Some(i8::MIN), Some(i8::MAX), None])));
    comes_back(Arc::new(Int16Array::from(vec![Some(i16::MIN), Some(i16::MAX), None])));
    comes_back(Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])));
    comes_back(Arc::new(Date32Array::from(vec![Some(-1), Some(20_000), None])));
    comes_back(Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None]).with_timezone("Europe/Lisbon")));
    for item in [DataType::Int8, DataType::Int16, DataType::UInt64, DataType::Boolean, DataType::Date32] {
        comes_back(lists(item));
    }
    let x = (Arc::new(Field::new("x", DataType::Int16, false)), Arc::new(Int16Array::from(vec![1, 2])) as ArrayRef);
    comes_back(Arc::new(StructArray::from(vec![x])));
    let mut maps = MapBuilder::new(None, StringBuilder::new(), arrow::array::Int8Builder::new());
    maps.keys().append_value("a");
    maps.values().append_value(1);
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    comes_back_with(Arc::new(maps.finish()), &MappingOptions::default().with_nulls(NullPolicy::Mask));
    comes_back(Arc::new(NullArray::new(2)));
}

/// Spark: ClassCastException for lists of lists in an `Example`, and for those of three levels in any record.
#[test]
fn lists_of_lists_of_lists() {
    let mut cubes = ListBuilder::new(ListBuilder::new(ListBuilder::new(arrow::array::Int64Builder::new())));
    cubes.values().values().append_value([Some(1), Some(2)]);
    cubes.values().values().append_value([]);
    cubes.values().append(true);
    cubes.values().append(true);
    cubes.append(true);
    cubes.append(true);
    cubes.append(false);
    let cubes: ArrayRef = Arc::new(cubes.finish());
    comes_back(Arc::clone(&cubes));
    comes_back_with(cubes, &MappingOptions::default().with_record_type(RecordType::SequenceExample));
}

/// Spark: an unsigned integer of 64 bits is another number.
#[test]
fn an_integer_beyond_int64_is_refused() {
    let error = back(&(Arc::new(UInt64Array::from(vec![1, u64::MAX])) as ArrayRef), &MappingOptions::default());
    let error = error.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfRange { column, row: 1, .. } if column == "c"), "{error}");
}

/// Spark: U+FFFD for every byte that is not UTF-8. TFX: an error.
#[tokio::test]
async fn bytes_that_are_not_utf8_round_trip() {
    let bytes = BinaryArray::from(vec![&b"text"[..], b"\xff\xfe\x00", b"\xc3"]);
    comes_back(Arc::new(bytes.clone()));
    let scratch = Scratch::default();
    let file = scratch.join("records.tfrecord");
    let feature = |value: &[u8]| vec![("c", Some(Kind::BytesList(BytesList { value: vec![value.to_vec()] })))];
    write_file(&file, bytes.iter().flatten().map(feature));
    assert_eq!(inferred(&file).await.column(0).to_data(), bytes.to_data());

    let options = MappingOptions::default();
    let error = read_as(&fs::read(&file).unwrap(), &DataType::Utf8, &options).unwrap_err().to_string();
    assert!(error.contains("record 1") && error.contains("UTF-8"), "{error}");
}

/// Spark: the value of the row before where a feature is missing; columns in the order of a hash; columns of later
/// files lost.
#[tokio::test]
async fn rows_and_files_keep_their_own_values() {
    let scratch = Scratch::default();
    let directory = scratch.join("set");
    fs::create_dir(&directory).unwrap();
    write_file(
        &directory.join("0.tfrecord"),
        [vec![("c7", Some(int64s(&[1]))), ("c10", Some(int64s(&[2])))], vec![("c7", Some(int64s(&[3])))]],
    );
    write_file(&directory.join("1.tfrecord"), [vec![("a", Some(int64s(&[4])))]]);
    let expected = RecordBatch::try_from_iter_with_nullable([
        ("a", Arc::new(Int64Array::from(vec![None, None, Some(4)])) as ArrayRef, true),
        ("c10", Arc::new(Int64Array::from(vec![Some(2), None, None])), true),
        ("c7", Arc::new(Int64Array::from(vec![Some(1), Some(3), None])), true),
    ]);
    assert_eq!(inferred(&directory).await, expected.unwrap());
}

/// Spark: kinds that differ are a type that is neither. Here, an error that names both.
#[tokio::test]
async fn feature_of_two_kinds_is_rejected() {
    let scratch = Scratch::default();
    let file = scratch.join("records.tfrecord");
    let text = Kind::BytesList(BytesList { value: vec![b"1".to_vec()] });
    write_file(&file, [vec![("c", Some(int64s(&[1])))], vec![("c", Some(text))]]);
    let error = session::select_all(&session::of_command(1), &file).await.unwrap_err().to_string();
    assert!(error.contains("\"c\"") && error.contains("int64") && error.contains("bytes"), "{error}");
}

/// Ray and TFX: an error, or no column at all, of a column without values.
#[test]
fn column_of_nulls_round_trips() {
    comes_back(Arc::new(Int32Array::from(vec![None, None])));
    comes_back(Arc::new(NullArray::new(2)));
    assert_eq!(records(Arc::new(Int32Array::from(vec![None, None]))), [vec![], vec![]]);
}
