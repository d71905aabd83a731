//! Records and options that are easily mistaken for others.

use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StructArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_tfrecord::{
    Encoder, ErrorKind, FeatureNames, Mapping, MappingOptions, NullPolicy, ReaderBuilder, RecordType, SchemaInference,
    is_example_list,
};
use prost::Message;
use tfr_proto::tensorflow::serving::ExampleListWithContext;
use tfr_proto::tensorflow::{Example, Feature, Features};
use tfrecord_framing::Position;

use super::{documents, error_of, example, floats, framed, ints, lists, message, of_lists, payloads, queries, read};

fn column(name: &str, data_type: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, data_type, true)]))
}

/// A list of structs that is not named as the examples is not read as them, even if it is the only one that is read.
#[test]
fn elwc_reader_without_the_examples_reads_other_lists() {
    let of_ids = |ids: Vec<i64>, lengths: &[usize]| {
        let field = Arc::new(Field::new("id", DataType::Int64, true));
        let structs = StructArray::from(vec![(field, Arc::new(Int64Array::from(ids)) as ArrayRef)]);
        Arc::new(lists(structs, lengths, None)) as ArrayRef
    };
    let (ads, docs) = (of_ids(vec![7, 8], &[1, 1]), of_ids(vec![1, 2, 3], &[2, 1]));
    let batch = RecordBatch::try_from_iter([("ads", ads), ("docs", docs)]).unwrap();
    let options = of_lists().with_sequence("docs");
    let records = payloads(&batch, &options).unwrap();
    let only_ads = batch.project(&[0]).unwrap();
    assert_eq!(read(&only_ads.schema(), &options, &records).unwrap(), only_ads);
    assert_eq!(of_lists().with_items_named(&batch.project(&[1]).unwrap().schema()), options);
    // A writer needs the column.
    let error = Mapping::of_writer(&only_ads.schema(), &options).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UnknownColumn { column, .. } if column == "docs"), "{error}");
}

#[test]
fn elwc_context_alone_rejects_examples() {
    let single = example(&[("id", ints(&[1])), ("query", ints(&[1]))]).encode_to_vec();
    let unset = Features { feature: [("a".to_owned(), Feature { kind: None })].into() };
    let features = [unset.encode_to_vec(), example(&[("b", ints(&[1]))]).features.unwrap().encode_to_vec()].concat();
    let starts_unset = [&[0x0a, u8::try_from(features.len()).unwrap()], features.as_slice()].concat();
    assert!(Example::decode(starts_unset.as_slice()).is_ok());
    let context = column("query", DataType::Int64);
    for record in [single, starts_unset] {
        let error = read(&context, &of_lists(), &[record]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed { .. }), "{error}");
    }
}

/// An example without features is two bytes, and has a place in a column of lists of a fixed size.
#[test]
fn elwc_reader_limits_examples_by_their_size() {
    let vector = DataType::new_fixed_size_list(DataType::Float32, 1024, true);
    let docs = DataType::new_list(DataType::Struct(vec![Field::new("v", vector, true)].into()), true);
    let schema = column("docs", docs);
    let error = read(&schema, &of_lists(), &[b"\x0a\x00".repeat(100_000)]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ExamplesTooLong { examples: 100_000, .. }), "{error}");
    // Batches end by the size of the examples, not by that of the records.
    let records = framed(&vec![b"\x0a\x00".repeat(10); 300]);
    let reader = ReaderBuilder::new(schema).with_mapping(of_lists()).with_batch_bytes(1 << 20);
    let batches: Vec<_> = reader.build(records.as_slice()).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 300);
    assert!(batches.len() > 1, "{}", batches.len());
    // Values that are there may take more.
    let mut values = FixedSizeListBuilder::new(Float32Builder::new(), 1024);
    for _ in 0..40_000 {
        values.values().append_slice(&[0.5; 1024]);
        values.append(true);
    }
    let v: ArrayRef = Arc::new(values.finish());
    let structs = StructArray::from(vec![(Arc::new(Field::new("v", v.data_type().clone(), true)), v)]);
    let docs: ArrayRef = Arc::new(lists(structs, &[40_000], None));
    let batch = RecordBatch::try_from_iter([("docs", docs)]).unwrap();
    let back = read(&batch.schema(), &of_lists(), &payloads(&batch, &of_lists()).unwrap()).unwrap();
    assert_eq!(back.column(0).to_data(), batch.column(0).to_data());
}

#[test]
fn elwc_statistics_count_records_that_lack_a_feature() {
    let rows = [(1, None, Some(0.5)), (2, None, None), (3, Some("c"), None)];
    let docs: ArrayRef = Arc::new(lists(documents(&rows, None), &[2, 0, 1], None));
    let batch = RecordBatch::try_from_iter([("docs", docs)]).unwrap();
    let encoder = Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), &of_lists()).unwrap()));
    let bound = encoder.bind(&batch).unwrap();
    let lengths: Vec<_> =
        bound.features().map(|feature| (feature.mapping().name.clone(), feature.lengths().unwrap())).collect();
    let expected = [
        ("id", vec![Some(2), None, Some(1)]),
        ("score", vec![Some(1), None, None]),
        ("title", vec![None, None, Some(1)]),
    ];
    assert_eq!(lengths, expected.map(|(name, lengths)| (name.to_owned(), lengths)));
}

/// A name may begin like a message.
#[test]
fn example_names_that_begin_with_a_line_break_are_read() {
    let record = b"\x0a\x06\x0a\x04\x0a\x02\x0ax".to_vec();
    assert!(Example::decode(record.as_slice()).unwrap().features.unwrap().feature.contains_key("\nx"));
    let batch = read(&column("a", DataType::Int64), &MappingOptions::default(), std::slice::from_ref(&record)).unwrap();
    assert_eq!((batch.num_rows(), batch.column(0).null_count()), (1, 1));
    let mut names = FeatureNames::default();
    names.observe(&record, Position::default()).unwrap();
    assert!(names.features().contains("\nx"));
}

#[test]
fn elwc_is_detected_behind_features_without_values() {
    let unset = Features { feature: [("a".to_owned(), Feature { kind: None })].into() };
    let features = [
        b"\x0a\x03\x0a\x01a".to_vec(),
        unset.encode_to_vec(),
        example(&[("b", floats(&[1.0]))]).features.unwrap().encode_to_vec(),
    ]
    .concat();
    let len = u8::try_from(features.len()).unwrap();
    let record = [&[0x0a, len + 2, 0x0a, len], features.as_slice()].concat();
    assert_eq!(ExampleListWithContext::decode(record.as_slice()).unwrap().examples.len(), 1);
    assert!(is_example_list(&record));
    // The type is also given where nothing distinguishes it.
    let undecided = b"\x0a\x07\x0a\x05\x0a\x03\x0a\x01a";
    let mut names = FeatureNames::default().with_record_type(RecordType::ExampleListWithContext);
    names.observe(undecided, Position::default()).unwrap();
    assert_eq!(names.example_features().iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["a"]);
}

#[test]
fn elwc_without_examples_is_no_sequence() {
    let record = message(&[], &[("query", ints(&[1]))]).encode_to_vec();
    let steps = MappingOptions::default().with_record_type(RecordType::SequenceExample).with_sequence("q");
    let error = read(&column("q", DataType::new_list(DataType::Int64, true)), &steps, &[record]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Malformed { .. }), "{error}");
    // Without a context, it could be either.
    let empty = payloads(&queries().project(&[1]).unwrap(), &of_lists()).unwrap().remove(2);
    let mut inference = SchemaInference::new();
    inference.observe(&empty, Position::default()).unwrap();
    assert_eq!((inference.mapping().record_type, inference.unnamed()), (RecordType::Example, 0));
    let sound = message(&[&[("id", ints(&[1]))]], &[]).encode_to_vec();
    inference.observe(&sound, Position::default()).unwrap();
    assert_eq!(inference.mapping(), of_lists());
    assert!(matches!(error_of(&[empty]).kind(), ErrorKind::MissingFeature { feature, .. } if feature == "user"));
}

/// The list and its elements have a mask each, and a writer leaves out that of a part that is never null.
#[test]
fn elwc_masks_are_read_as_far_as_they_were_written() {
    let masked = of_lists().with_column_nulls("docs", NullPolicy::Mask);
    let rows = [(1, Some("a"), Some(0.5)), (0, None, None), (3, None, Some(2.0))];
    let elements = Some(NullBuffer::from(vec![true, false, true]));
    let docs: ArrayRef = Arc::new(lists(documents(&rows, elements), &[2, 0, 1], None));
    let batch = RecordBatch::try_from_iter_with_nullable([("docs", Arc::clone(&docs), false)]).unwrap();
    let records = payloads(&batch, &masked).unwrap();
    let back = read(&column("docs", docs.data_type().clone()), &masked, &records).unwrap();
    let found = back.column(0).as_list::<i32>();
    assert_eq!((found.null_count(), found.values().null_count()), (0, 1));
    let ids = found.values().as_struct().column(0);
    assert_eq!(ids.as_primitive::<Int64Type>().iter().flatten().collect::<Vec<_>>(), [1, 3]);
}
