//! What schema a file without one is given.

use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{ErrorKind, FeatureNames, ReaderBuilder, RecordType, SchemaInference, infer_schema};
use insta::assert_snapshot;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{
    BytesList, Example, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List, SequenceExample,
};
use tfrecord_framing::{Position, RecordWriter};

fn ints(values: &[i64]) -> Option<Kind> {
    Some(Kind::Int64List(Int64List { value: values.to_vec() }))
}

fn floats(values: &[f32]) -> Option<Kind> {
    Some(Kind::FloatList(FloatList { value: values.to_vec() }))
}

fn bytes(values: &[&[u8]]) -> Option<Kind> {
    Some(Kind::BytesList(BytesList { value: values.iter().map(|value| value.to_vec()).collect() }))
}

/// A record with these features; one without a kind is there and unset.
fn record(features: &[(&str, Option<Kind>)]) -> Vec<u8> {
    let feature = features.iter().map(|(name, kind)| ((*name).to_owned(), Feature { kind: kind.clone() })).collect();
    Example { features: Some(Features { feature }) }.encode_to_vec()
}

/// The type of a feature that records have in these states; an outer none is a record without it.
fn inferred(states: &[Option<Option<Kind>>], fixed_size_lists: bool) -> Option<DataType> {
    let mut inference = SchemaInference::new().with_fixed_size_lists(fixed_size_lists);
    for state in states {
        let features: Vec<_> = state.iter().map(|kind| ("f", kind.clone())).collect();
        inference.observe(&record(&features), Position::default()).unwrap();
    }
    let schema = inference.finish();
    schema.fields().first().map(|field| field.data_type().clone())
}

#[test]
fn the_type_of_a_feature() {
    use DataType::{Binary, Float32, Int64, List, Null, Utf8};
    let list = |item| List(Field::new_list_field(item, true).into());
    let (absent, unset) = (None, Some(None));
    let cases = [
        (vec![Some(ints(&[1])), Some(ints(&[2]))], Some(Int64)),
        (vec![Some(floats(&[1.0]))], Some(Float32)),
        (vec![Some(bytes(&[b"a"])), Some(bytes(&["ç".as_bytes()]))], Some(Utf8)),
        (vec![Some(bytes(&[b"a"])), Some(bytes(&[b"\xff"]))], Some(Binary)),
        // Null is no second length.
        (vec![absent.clone(), Some(ints(&[1])), unset.clone()], Some(Int64)),
        (vec![Some(ints(&[1])), Some(ints(&[]))], Some(list(Int64))),
        (vec![Some(ints(&[])), Some(ints(&[1]))], Some(list(Int64))),
        (vec![Some(ints(&[]))], Some(list(Int64))),
        (vec![Some(ints(&[1, 2])), Some(ints(&[3, 4]))], Some(list(Int64))),
        (vec![Some(ints(&[1])), Some(ints(&[3, 4])), Some(ints(&[1]))], Some(list(Int64))),
        (vec![Some(bytes(&[b"a", b"\xff"]))], Some(list(Binary))),
        (vec![Some(bytes(&[])), absent.clone()], Some(list(Utf8))),
        (vec![unset.clone(), absent.clone()], Some(Null)),
        (vec![absent], None),
    ];
    for (states, expected) in cases {
        assert_eq!(inferred(&states, false), expected, "{states:?}");
    }
    let pairs = [Some(ints(&[1, 2])), None, Some(ints(&[3, 4]))];
    let fixed = DataType::FixedSizeList(Field::new_list_field(Int64, true).into(), 2);
    assert_eq!(inferred(&pairs, true), Some(fixed));
    assert_eq!(inferred(&[Some(ints(&[1]))], true), Some(Int64));
    assert_eq!(inferred(&[Some(ints(&[1, 2])), Some(ints(&[]))], true), Some(list(Int64)));
}

#[test]
fn columns_are_the_union_sorted_by_name() {
    let mut writer = RecordWriter::new(Vec::new());
    writer.write_record(&record(&[("z", ints(&[1])), ("b", ints(&[1]))])).unwrap();
    writer.write_record(&[]).unwrap();
    writer.write_record(&record(&[("a", floats(&[1.0])), ("ç", ints(&[1]))])).unwrap();
    let file = writer.finish().unwrap();
    let names = |most: Option<usize>| {
        let (schema, records) = infer_schema(file.as_slice(), most).unwrap();
        assert!(schema.fields().iter().all(|field| field.is_nullable()));
        (schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(" "), records)
    };
    assert_eq!(names(None), ("a b z ç".to_owned(), 3));
    assert_eq!(names(Some(2)), ("b z".to_owned(), 2));
    assert_eq!(names(Some(0)), (String::new(), 0));
}

/// No column can have it, so it has no say.
#[test]
fn a_feature_without_a_name_has_no_column() {
    let mut inference = SchemaInference::new();
    for unnamed in [ints(&[1]), floats(&[1.0])] {
        inference.observe(&record(&[("", unnamed), ("f", ints(&[1]))]), Position::default()).unwrap();
    }
    let schema = inference.finish();
    assert_eq!(schema.fields().iter().map(|field| field.name()).collect::<Vec<_>>(), ["f"]);
}

#[test]
fn infer_reports_position_of_features_without_a_type() {
    let mut inference = SchemaInference::new();
    inference.observe(&record(&[("f", ints(&[1]))]), Position::default()).unwrap();
    let at = Position { record: 1, byte: 37 };
    let mixed = inference.observe(&record(&[("f", floats(&[]))]), at).unwrap_err();
    assert!(matches!(mixed.kind(), ErrorKind::KindMismatch { .. }));
    let name = inference.observe(b"\x0a\x05\x0a\x03\x0a\x01\xff", at).unwrap_err();
    let cut = inference.observe(b"\x0a\x0b\x0a\x09\x0a\x01f\x12\x04\x1a\x02\x0a\x07", at).unwrap_err();
    assert_snapshot!(format!("{mixed}\n{name}\n{cut}"), @r#"
    record 1 at byte 37: feature "f": expected int64_list, found float_list
    record 1 at byte 37: the name of a feature that is not UTF-8, at byte 6 of its payload
    record 1 at byte 37: feature "f": a length that reaches past the end of its message, at byte 12 of its payload
    "#);
}

/// Protobuf would take them for Examples and pass over what they hold.
#[test]
fn infer_rejects_other_message_types() {
    let features = Example { features: Some(Features::default()) }.encode_to_vec();
    let refused = |record: &[u8]| {
        let position = Position { record: 3, byte: 64 };
        SchemaInference::new().observe(record, position).map_err(|error| error.to_string())
    };
    // As in a list of lists of Examples.
    let example = record(&[("f", ints(&[1]))]);
    let of_examples = |example: &[u8]| [&[0x0a, u8::try_from(example.len()).unwrap()], example].concat();
    assert_eq!(refused(&of_examples(&example)), Ok(()));
    assert!(refused(&of_examples(&of_examples(&example))).unwrap_err().contains("a message in place of a name"));
    let other = [features.clone(), vec![0x18, 0x01]].concat();
    assert_snapshot!(refused(&other).unwrap_err(), @"record 3 at byte 64: no feature, but fields that tf.train.Example does not have, at byte 2 of its payload");
    assert_snapshot!(refused(&[0x0a, 0x02, 0x10, 0x01]).unwrap_err(), @"record 3 at byte 64: no feature, but fields that tf.train.Example does not have, at byte 2 of its payload");
    // No features at all, and a field more beside one.
    for record in [vec![], features, [record(&[("f", ints(&[1]))]), vec![0x18, 0x01]].concat()] {
        assert_eq!(refused(&record), Ok(()));
    }
}

/// A `tf.train.SequenceExample` with these features and these steps of feature lists.
fn sequence(context: &[(&str, Option<Kind>)], lists: &[(&str, &[Option<Kind>])]) -> Vec<u8> {
    let feature = |kind: &Option<Kind>| Feature { kind: kind.clone() };
    let context = context.iter().map(|(name, kind)| ((*name).to_owned(), feature(kind))).collect();
    let list = |steps: &[Option<Kind>]| FeatureList { feature: steps.iter().map(feature).collect() };
    let lists = lists.iter().map(|(name, steps)| ((*name).to_owned(), list(steps))).collect();
    let (context, lists) = (Features { feature: context }, FeatureLists { feature_list: lists });
    SequenceExample { context: Some(context), feature_lists: Some(lists) }.encode_to_vec()
}

#[test]
fn the_type_of_a_feature_list() {
    let list = |item| DataType::List(Field::new_list_field(item, true).into());
    let of_two = |item| DataType::FixedSizeList(Field::new_list_field(item, true).into(), 2);
    let (one, two) = ([ints(&[1]), ints(&[2])], [ints(&[1, 2]), ints(&[3, 4])]);
    type Steps<'a> = &'a [Option<Kind>];
    let cases: [(&[Steps<'_>], DataType, bool); 7] = [
        (&[&one, &[], &[ints(&[3])]], list(DataType::Int64), true),
        (&[&one, &[ints(&[])]], list(list(DataType::Int64)), false),
        (&[&two], list(list(DataType::Int64)), false),
        (&[&[floats(&[0.5]), None]], list(DataType::Float32), true),
        (&[&[bytes(&[b"a"])], &[bytes(&[b"\xff"])]], list(DataType::Binary), true),
        (&[&[]], DataType::Null, false),
        (&[&[None]], DataType::Null, false),
    ];
    for (records, expected, is_sequence) in cases {
        let mut inference = SchemaInference::new();
        for steps in records {
            inference.observe(&sequence(&[], &[("q", steps)]), Position::default()).unwrap();
        }
        let mapping = inference.mapping();
        assert_eq!(mapping.record_type, RecordType::SequenceExample);
        assert_eq!(mapping.sequences.contains("q"), is_sequence, "{records:?}");
        assert_eq!(inference.finish().field(0).data_type(), &expected, "{records:?}");
    }
    let mut fixed = SchemaInference::new().with_fixed_size_lists(true);
    fixed.observe(&sequence(&[], &[("q", &two)]), Position::default()).unwrap();
    assert!(fixed.mapping().sequences.is_empty());
    assert_eq!(fixed.finish().field(0).data_type(), &list(of_two(DataType::Int64)));
}

#[test]
fn context_and_feature_lists_are_columns_by_name() {
    let mut inference = SchemaInference::new();
    let records = [
        record(&[("z", ints(&[1]))]),
        sequence(&[("b", ints(&[1]))], &[("a", &[ints(&[1])]), ("c", &[]), ("", &[ints(&[1])])]),
    ];
    let mut names = FeatureNames::default();
    for record in &records {
        inference.observe(record, Position::default()).unwrap();
        names.observe(record, Position::default()).unwrap();
    }
    let schema = inference.clone().finish();
    assert_eq!(schema.fields().iter().map(|field| field.name()).collect::<Vec<_>>(), ["a", "b", "c", "z"]);
    let found = [names.features(), names.feature_lists()];
    let found: [Vec<&str>; 2] = found.map(|names| names.iter().map(AsRef::as_ref).collect());
    assert_eq!(found, [vec!["b", "z"], vec!["a", "c"]]);
    assert_eq!((names.record_type(), names.records()), (RecordType::SequenceExample, 2));

    let at = Position { record: 2, byte: 90 };
    let both = inference.observe(&sequence(&[("a", ints(&[1]))], &[]), at).unwrap_err();
    assert_snapshot!(both, @r#"record 2 at byte 90: "a" is a feature of the context and also a feature list or a feature of the examples, and one column cannot be both"#);
}

/// Who reads Examples does not pass over what else there is, and `infer_schema` tells no mapping.
#[test]
fn example_reader_rejects_sequence_examples() {
    let mut writer = RecordWriter::new(Vec::new());
    writer.write_record(&sequence(&[("id", ints(&[1]))], &[("q", &[ints(&[1])])])).unwrap();
    let file = writer.finish().unwrap();
    let refused = infer_schema(file.as_slice(), None).unwrap_err();
    assert_snapshot!(refused, @"record 0 at byte 0: feature lists, which tf.train.SequenceExample has and tf.train.Example not, at byte 15 of its payload");
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
    let mut reader = ReaderBuilder::new(schema.into()).build(file.as_slice()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap_err().to_string(), format!("External error: {refused}"));
}
