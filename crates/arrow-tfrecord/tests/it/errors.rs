//! Texts that users read: every error, and the table of the mapping.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_tfrecord::{Choice, Encoder, Mapping, MappingOptions, NullPolicy, ReaderBuilder, RecordBuffer};
use insta::assert_snapshot;
use tfrecord_framing::Position;

use crate::tables;

fn refusal(fields: Vec<Field>, options: &MappingOptions) -> String {
    Mapping::try_new(&Arc::new(Schema::new(fields)), options).unwrap_err().to_string()
}

/// The error that encoding one column gives, which must leave nothing behind.
fn failure(field: Field, array: impl Array + 'static, options: &MappingOptions) -> String {
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    let mapping = Mapping::try_new(&schema, options).unwrap();
    let batch = RecordBatch::try_new(
        Arc::new(Schema::new(vec![schema.field(0).clone().with_nullable(true)])),
        vec![Arc::new(array)],
    )
    .unwrap();
    let mut records = RecordBuffer::default();
    let error = Encoder::new(Arc::new(mapping)).encode(&batch, &mut records).unwrap_err();
    assert!(records.is_empty() && records.bytes().is_empty());
    error.to_string()
}

#[test]
fn error_reports_column_row_and_position() {
    let id = |data_type| Arc::new(Schema::new(vec![Field::new("id", data_type, true)]));
    let written = id(DataType::UInt64);
    let batch = |values: Vec<u64>| {
        RecordBatch::try_new(SchemaRef::clone(&written), vec![Arc::new(UInt64Array::from(values))]).unwrap()
    };
    let encoder = Encoder::new(Arc::new(Mapping::try_new(&written, &MappingOptions::default()).unwrap()));
    let mut records = RecordBuffer::default();
    let error = encoder.encode(&batch(vec![1, u64::MAX]), &mut records).unwrap_err();
    assert_eq!((error.column(), error.row(), error.position()), (Some("id"), Some(1), None));

    encoder.encode(&batch(vec![1, 2, 300]), &mut records).unwrap();
    let read = |bytes: &[u8]| {
        let mut decoder = ReaderBuilder::new(id(DataType::UInt8)).build_decoder().unwrap();
        match decoder.decode(bytes).and_then(|_| decoder.decode(&[])) {
            Ok(_) => decoder.flush().unwrap_err(),
            Err(error) => error,
        }
    };
    let last = Position { record: 2, byte: records.record_start(2) as u64 };
    let error = read(records.bytes());
    assert_eq!((error.column(), error.row(), error.position()), (Some("id"), None, Some(last)));
    let error = read(&records.bytes()[..records.bytes().len() - 1]);
    assert_eq!((error.column(), error.row(), error.position()), (None, None, Some(last)));

    let options = MappingOptions::default().with_choice("prise", Choice::Bits);
    let error = Mapping::try_new(&written, &options).unwrap_err();
    assert_eq!((error.column(), error.row(), error.position()), (None, None, None));
}

#[test]
fn mapping_rejects_unsupported_types() {
    let refusals: Vec<_> =
        tables::refused().into_iter().map(|field| refusal(vec![field], &MappingOptions::default())).collect();
    assert_snapshot!(refusals.join("\n\n"));
}

#[test]
fn mapping_rejects_unsuitable_options() {
    let fields = || {
        vec![
            Field::new("id", DataType::Int64, false),
            Field::new("price", DataType::Float64, true),
            Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        ]
    };
    let options = MappingOptions::default;
    let refusals = [
        refusal(fields(), &options().with_choice("prise", Choice::Bits)),
        refusal(fields(), &options().with_choice("id", Choice::Bits)),
        refusal(fields(), &options().with_choice("price", Choice::Unscaled)),
        refusal(fields(), &options().with_choice("at", Choice::Millis).with_strict(true)),
        refusal(vec![Field::new("a", DataType::Int8, true), Field::new("a", DataType::Utf8, true)], &options()),
        refusal(vec![Field::new("", DataType::Int8, true)], &options()),
    ];
    assert_snapshot!(refusals.join("\n\n"));
    assert!("bitz".parse::<Choice>().unwrap_err().to_string().contains("wrap, bits, string"));
}

#[test]
fn encoder_rejects_values_that_features_cannot_represent() {
    let options = MappingOptions::default;
    let field = |data_type| Field::new("c", data_type, true);
    let mut lists = ListBuilder::new(Int64Builder::new());
    lists.append_value([Some(1)]);
    lists.append_null();
    lists.append_value([Some(2), None]);
    let lists = lists.finish();
    let decimal = Decimal256Array::from(vec![None, arrow_buffer::i256::from_string(&"9".repeat(76))])
        .with_precision_and_scale(76, 0)
        .unwrap();
    // Arrow does not see to it, and files have them.
    let of_many_digits = Decimal128Array::from(vec![9_999, -10_000]).with_precision_and_scale(4, 2).unwrap();
    let failures = [
        failure(field(DataType::UInt64), UInt64Array::from(vec![1, u64::MAX]), &options()),
        failure(field(DataType::Float64), Float64Array::from(vec![f64::INFINITY, f64::NAN, -1e300]), &options()),
        failure(field(decimal.data_type().clone()), decimal.clone(), &options()),
        failure(field(decimal.data_type().clone()), decimal, &options().with_choice("c", Choice::Unscaled)),
        failure(field(of_many_digits.data_type().clone()), of_many_digits.clone(), &options()),
        failure(
            field(of_many_digits.data_type().clone()),
            of_many_digits.clone(),
            &options().with_choice("c", Choice::Unscaled),
        ),
        failure(field(of_many_digits.data_type().clone()), of_many_digits, &options().with_choice("c", Choice::String)),
        failure(
            field(DataType::Timestamp(TimeUnit::Second, None)),
            TimestampSecondArray::from(vec![0, i64::MAX]),
            &options().with_choice("c", Choice::Micros),
        ),
        failure(field(lists.data_type().clone()), lists, &options()),
        failure(
            field(DataType::Int64),
            Int64Array::from(vec![Some(1), None]),
            &options().with_nulls(NullPolicy::Error),
        ),
        failure(Field::new("c", DataType::Int64, false), Int64Array::from(vec![Some(1), None]), &options()),
        failure(
            field(DataType::Timestamp(TimeUnit::Second, None)),
            TimestampSecondArray::from(vec![0, i64::MAX]),
            &options().with_choice("c", Choice::String),
        ),
    ];
    assert_snapshot!(failures.join("\n\n"));
}

/// A nested column has as many features as parts, each with a name of its own.
#[test]
fn nested_columns_in_the_table() {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let point = vec![Field::new("x", DataType::Float64, false), Field::new("at", DataType::Date32, true)];
    let shape = [
        ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
        ("ARROW:extension:metadata".to_owned(), r#"{"shape":[2,3]}"#.to_owned()),
    ];
    let fields = vec![
        Field::new("point", DataType::Struct(point.clone().into()), true),
        Field::new("path", DataType::List(item(DataType::Struct(point.into()))), true),
        Field::new("words", DataType::List(item(DataType::List(item(DataType::Utf8)))), true),
        Field::new("image", DataType::FixedSizeList(item(DataType::Float32), 6), false).with_metadata(shape.into()),
    ];
    let schema = Arc::new(Schema::new(fields));
    let options = MappingOptions::default()
        .with_choice("point/x", Choice::Bits)
        .with_choice("path", Choice::Tensor)
        .with_choice("path/at", Choice::String)
        .with_column_nulls("words", NullPolicy::Mask)
        .with_column_nulls("path", NullPolicy::Empty)
        .with_column_nulls("path/at", NullPolicy::Absent)
        .with_separator(".");
    assert!(Mapping::try_new(&schema, &options).is_err(), "parts have the names of their features");
    let mapping = Mapping::try_new(&schema, &MappingOptions { separator: "/".to_owned(), ..options }).unwrap();
    assert_snapshot!(format!("{mapping}\n{}", mapping.warnings().join("\n")));
    assert_snapshot!("nested_json", serde_json::to_string_pretty(&mapping.columns()[2]).unwrap());

    let dotted = Mapping::try_new(&schema, &MappingOptions::default().with_separator(".")).unwrap();
    assert_eq!(dotted.columns()[2].features[1].name, "words.ragged_row_lengths_0");
    let struct_of = |name: &str, data_type| DataType::Struct(vec![Field::new(name, data_type, true)].into());
    let refusals = [
        refusal(
            vec![
                Field::new("point", struct_of("x", DataType::Int8), true),
                Field::new("point/x", DataType::Int8, true),
            ],
            &MappingOptions::default(),
        ),
        refusal(
            vec![
                Field::new("a", struct_of("b", struct_of("c", DataType::Int8)), true),
                Field::new("a/b", DataType::Int8, true),
            ],
            &MappingOptions::default(),
        ),
        refusal(
            schema.fields().iter().map(|field| field.as_ref().clone()).collect(),
            &MappingOptions::default().with_choice("point", Choice::Wrap),
        ),
        refusal(
            schema.fields().iter().map(|field| field.as_ref().clone()).collect(),
            &MappingOptions::default().with_choice("words", Choice::Bits),
        ),
    ];
    assert_snapshot!("nested_refusals", refusals.join("\n\n"));
}

/// Values under a null and unused values of a dictionary are unspecified.
#[test]
fn encoder_ignores_values_that_no_row_shows() {
    let hidden = UInt64Array::new(vec![u64::MAX, 1].into(), Some(NullBuffer::from(vec![false, true])));
    let keys = Int8Array::from(vec![Some(1), None]);
    let unused = DictionaryArray::<Int8Type>::new(keys, Arc::new(UInt64Array::from(vec![u64::MAX, 1])));
    for array in [Arc::new(hidden) as ArrayRef, Arc::new(unused)] {
        let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
        let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap();
        let mut records = RecordBuffer::default();
        Encoder::new(Arc::new(mapping)).encode(&batch, &mut records).unwrap();
        assert_eq!(records.len(), 2);
    }
}

/// Columns of equal types in another order would be written under each other's names, and so would fields of structs.
#[test]
fn batch_of_other_columns_is_refused() {
    let number = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let pair = |first: &str, second: &str| {
        let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
        let columns = vec![(field(first), number(1)), (field(second), number(2))];
        Arc::new(StructArray::from(columns)) as ArrayRef
    };
    let batch = |columns: Vec<(&'static str, ArrayRef)>| RecordBatch::try_from_iter(columns).unwrap();
    let made_for = batch(vec![("a", number(1)), ("b", number(2)), ("s", pair("x", "y"))]);
    let encoder = Encoder::new(Arc::new(Mapping::try_new(&made_for.schema(), &MappingOptions::default()).unwrap()));
    let others = [
        batch(vec![("a", Arc::new(Int32Array::from(vec![1]))), ("b", number(2)), ("s", pair("x", "y"))]),
        batch(vec![("b", number(2)), ("a", number(1)), ("s", pair("x", "y"))]),
        batch(vec![("a", number(1)), ("b", number(2)), ("s", pair("y", "x"))]),
        batch(vec![("a", number(1)), ("b", number(2))]),
    ];
    let mut records = RecordBuffer::default();
    let mut refused = |other| encoder.encode(other, &mut records).unwrap_err().to_string() + "\n";
    let errors: String = others.iter().map(&mut refused).collect();
    assert_eq!(records.len(), 0);
    assert_snapshot!(errors, @r#"
    expected column "a" of type Int64, found column "a" of type Int32
    expected column "a" of type Int64, found column "b" of type Int64
    expected column "s" of type Struct("x": Int64, "y": Int64), found column "s" of type Struct("y": Int64, "x": Int64)
    expected 3 columns, found 2
    "#);
    encoder.encode(&made_for, &mut records).unwrap();
    assert_eq!(records.len(), 1);
}

#[test]
fn the_table_of_a_mapping() {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let fields = vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("score", DataType::Float64, true),
        Field::new("fare", DataType::Decimal128(9, 2), true),
        Field::new("tip", DataType::Decimal128(9, 2), true),
        Field::new("city", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("day", DataType::Date32, true),
        Field::new("tags", DataType::List(item(DataType::Utf8)), true),
        Field::new("embedding", DataType::FixedSizeList(item(DataType::Float32), 64), false),
        Field::new("later", DataType::Null, true),
    ];
    let options = MappingOptions::default().with_choice("tip", Choice::String).with_choice("at", Choice::Seconds);
    let mapping = Mapping::try_new(&Arc::new(Schema::new(fields)), &options).unwrap();
    assert_snapshot!(format!("{mapping}\n{}", mapping.warnings().join("\n")));
    assert_snapshot!("json", serde_json::to_string_pretty(&mapping.columns()[3]).unwrap());
}
