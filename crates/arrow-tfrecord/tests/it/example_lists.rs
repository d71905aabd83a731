//! Records of type elwc: the ExampleListWithContext of TensorFlow Ranking.

mod damaged;
mod faults;

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type, Int64Type};
use arrow_array::*;
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use arrow_tfrecord::{
    Choice, Encoder, Error, ErrorKind, FeatureNames, LossClass, Mapping, MappingOptions, NullPolicy, NullRule,
    ReaderBuilder, RecordBuffer, RecordType, SchemaInference,
};
use insta::assert_snapshot;
use proptest::prelude::*;
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::serving::ExampleListWithContext;
use tfr_proto::tensorflow::{BytesList, Example, Feature, Features, FloatList, Int64List};
use tfrecord_framing::{Position, RecordReader, RecordWriter};

use crate::nested_tables::{self, Nulls};

fn of_lists() -> MappingOptions {
    MappingOptions::default().with_record_type(RecordType::ExampleListWithContext)
}

fn ints(value: &[i64]) -> Kind {
    Kind::Int64List(Int64List { value: value.to_vec() })
}

fn floats(value: &[f32]) -> Kind {
    Kind::FloatList(FloatList { value: value.to_vec() })
}

fn texts(value: &[&str]) -> Kind {
    Kind::BytesList(BytesList { value: value.iter().map(|text| text.as_bytes().to_vec()).collect() })
}

fn example(features: &[(&str, Kind)]) -> Example {
    let feature = |kind: &Kind| Feature { kind: Some(kind.clone()) };
    let feature = features.iter().map(|(name, kind)| ((*name).to_owned(), feature(kind))).collect();
    Example { features: Some(Features { feature }) }
}

fn message(examples: &[&[(&str, Kind)]], context: &[(&str, Kind)]) -> ExampleListWithContext {
    let examples = examples.iter().map(|features| example(features)).collect();
    ExampleListWithContext { examples, context: Some(example(context)) }
}

fn mapping(schema: &SchemaRef, options: &MappingOptions) -> Result<Mapping, Error> {
    Mapping::try_new(schema, options)
}

/// The payloads of the records of a batch.
fn payloads(batch: &RecordBatch, options: &MappingOptions) -> Result<Vec<Vec<u8>>, Error> {
    let mut buffer = RecordBuffer::default();
    Encoder::new(Arc::new(mapping(&batch.schema(), options)?)).encode(batch, &mut buffer)?;
    let (mut records, mut record, mut reader) = (Vec::new(), Vec::new(), RecordReader::new(buffer.bytes()));
    while reader.read_record(&mut record).unwrap() {
        records.push(record.clone());
    }
    Ok(records)
}

fn read(schema: &SchemaRef, options: &MappingOptions, records: &[Vec<u8>]) -> Result<RecordBatch, Error> {
    let mut decoder = ReaderBuilder::new(Arc::clone(schema)).with_mapping(options.clone()).build_decoder()?;
    decoder.decode(&framed(records))?;
    Ok(decoder.flush()?.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(schema))))
}

/// The values come back as they are.
fn comes_back(batch: &RecordBatch, options: &MappingOptions) {
    let back = read(&batch.schema(), options, &payloads(batch, options).unwrap()).unwrap();
    for (back, written) in back.columns().iter().zip(batch.columns()) {
        assert_eq!(back.to_data(), written.to_data());
    }
}

/// The fields of a document.
fn document() -> Fields {
    Fields::from(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("title", DataType::Utf8, true),
        Field::new("score", DataType::Float32, true),
    ])
}

fn documents(rows: &[(i64, Option<&str>, Option<f32>)], nulls: Option<NullBuffer>) -> StructArray {
    let ids: Int64Array = rows.iter().map(|(id, ..)| *id).collect::<Vec<_>>().into();
    let titles: StringArray = rows.iter().map(|(_, title, _)| *title).collect();
    let scores: Float32Array = rows.iter().map(|(.., score)| *score).collect();
    StructArray::new(document(), vec![Arc::new(ids), Arc::new(titles), Arc::new(scores)], nulls)
}

fn lists(items: StructArray, lengths: &[usize], nulls: Option<NullBuffer>) -> ListArray {
    let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    ListArray::new(item, OffsetBuffer::from_lengths(lengths.iter().copied()), Arc::new(items), nulls)
}

/// Two queries with their documents, and one without any.
fn queries() -> RecordBatch {
    let rows = [(1, Some("a"), Some(0.5)), (2, None, Some(-1.0)), (3, Some(""), None)];
    RecordBatch::try_from_iter_with_nullable([
        ("query", Arc::new(StringArray::from(vec![Some("pizza"), Some("taco"), None])) as ArrayRef, true),
        ("docs", Arc::new(lists(documents(&rows, None), &[2, 1, 0], None)), true),
        ("user", Arc::new(Int64Array::from(vec![7, 8, 9])), false),
    ])
    .unwrap()
}

#[test]
fn elwc_records_are_messages_of_protobuf() {
    let batch = queries();
    let found = payloads(&batch, &of_lists()).unwrap();
    let expected = [
        message(
            &[
                &[("id", ints(&[1])), ("title", texts(&["a"])), ("score", floats(&[0.5]))],
                &[("id", ints(&[2])), ("score", floats(&[-1.0]))],
            ],
            &[("query", texts(&["pizza"])), ("user", ints(&[7]))],
        ),
        message(
            &[&[("id", ints(&[3])), ("title", texts(&[""]))]],
            &[("query", texts(&["taco"])), ("user", ints(&[8]))],
        ),
        message(&[], &[("user", ints(&[9]))]),
    ];
    assert_eq!(found, expected.map(|message| message.encode_to_vec()));
    comes_back(&batch, &of_lists());
}

#[test]
fn elwc_prints_its_mapping() {
    assert_snapshot!(mapping(&queries().schema(), &of_lists()).unwrap().to_string());
    let masked = of_lists().with_nulls(NullPolicy::Mask);
    assert_snapshot!(mapping(&queries().schema(), &masked).unwrap().to_string());
}

#[test]
fn elwc_without_a_context_has_an_empty_one() {
    let batch = queries().project(&[1]).unwrap();
    let found = payloads(&batch, &of_lists()).unwrap();
    assert_eq!(found[2], b"\x12\x02\x0a\x00");
    comes_back(&batch, &of_lists());
    // Others may leave it out.
    let without = ExampleListWithContext { context: None, ..message(&[&[("id", ints(&[5]))]], &[]) };
    let back = read(&queries().schema(), &of_lists(), &[without.encode_to_vec()]);
    assert!(matches!(back.unwrap_err().kind(), ErrorKind::MissingFeature { feature, .. } if feature == "user"));
    let back = read(&batch.schema(), &of_lists(), &[without.encode_to_vec()]).unwrap();
    assert_eq!(back.column(0).as_list::<i32>().value_length(0), 1);
}

/// A column of documents in another layout has the same records, and comes back in its own.
#[test]
fn elwc_lists_of_every_layout() {
    let plain = queries();
    let DataType::List(item) = plain.schema().field(1).data_type().clone() else { panic!("a list") };
    let expected = payloads(&plain, &of_lists()).unwrap();
    let with = |docs: ArrayRef| {
        let columns = [("query", Arc::clone(plain.column(0)), true), ("docs", docs, true)];
        let user = ("user", Arc::clone(plain.column(2)), false);
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().chain([user])).unwrap()
    };
    let docs = plain.column(1);
    let large = cast(docs, &DataType::LargeList(Arc::clone(&item))).unwrap();
    let items = Arc::clone(docs.as_list::<i32>().values());
    // The views are in another order than their elements.
    let reversed = arrow_select::take::take(&items, &Int32Array::from(vec![2, 0, 1]), None).unwrap();
    let (offsets, sizes) = (ScalarBuffer::from(vec![1, 0, 3]), ScalarBuffer::from(vec![2, 1, 0]));
    let views: ArrayRef = Arc::new(ListViewArray::new(Arc::clone(&item), offsets, sizes, Arc::clone(&reversed), None));
    let (offsets, sizes) = (ScalarBuffer::from(vec![1_i64, 0, 3]), ScalarBuffer::from(vec![2_i64, 1, 0]));
    let large_views: ArrayRef = Arc::new(LargeListViewArray::new(Arc::clone(&item), offsets, sizes, reversed, None));
    // A dictionary of structs within the list.
    let packed = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0, 1, 2]), items);
    let packed_item = Arc::new(Field::new_list_field(packed.data_type().clone(), true));
    let packed: ArrayRef =
        Arc::new(ListArray::new(packed_item, OffsetBuffer::from_lengths([2, 1, 0]), Arc::new(packed), None));
    let dictionary: ArrayRef =
        Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0, 1, 2]), Arc::clone(docs)));
    for docs in [large, views, large_views, packed, dictionary] {
        let batch = with(docs);
        assert_eq!(payloads(&batch, &of_lists()).unwrap(), expected, "{}", batch.schema().field(1));
        let back = read(&batch.schema(), &of_lists(), &expected).unwrap();
        assert_eq!(back.schema(), batch.schema());
        assert_eq!(payloads(&back, &of_lists()).unwrap(), expected, "{}", batch.schema().field(1));
    }
    // A slice of the table.
    assert_eq!(payloads(&plain.slice(1, 2), &of_lists()).unwrap(), expected[1..]);
}

fn nested_items() -> RecordBatch {
    let mut tags = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    tags.values().append_value([Some("x"), Some("y")]);
    tags.values().append_value([None::<&str>; 0]);
    tags.append(true);
    tags.append(true);
    tags.append(false);
    let tags = tags.finish();
    let mut clicks = ListBuilder::new(Int64Builder::new());
    clicks.append_value([Some(1), Some(2)]);
    clicks.append_null();
    clicks.append_value([None::<i64>; 0]);
    let clicks = clicks.finish();
    let labels: DictionaryArray<Int32Type> = vec![Some("b"), None, Some("b")].into_iter().collect();
    let point = StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Float64, true)),
        Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::NAN)])) as ArrayRef,
    )]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("tags", Arc::new(tags)),
        ("clicks", Arc::new(clicks)),
        ("label", Arc::new(labels)),
        ("at", Arc::new(point)),
    ];
    let fields: Fields =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let items = StructArray::new(fields, columns.into_iter().map(|(_, array)| array).collect(), None);
    RecordBatch::try_from_iter([("docs", Arc::new(lists(items, &[1, 2], None)) as ArrayRef)]).unwrap()
}

#[test]
fn elwc_items_have_nested_fields() {
    let batch = nested_items();
    let options = of_lists().with_choice("at/x", Choice::Bits);
    let found = payloads(&batch, &options).unwrap();
    let found = ExampleListWithContext::decode(found[0].as_slice()).unwrap();
    let expected = message(
        &[&[
            ("tags/ragged_flat_values", texts(&["x", "y"])),
            ("tags/ragged_row_lengths_0", ints(&[2, 0])),
            ("clicks", ints(&[1, 2])),
            ("label", texts(&["b"])),
            ("at/x", ints(&[1.5_f64.to_bits().cast_signed()])),
        ]],
        &[],
    );
    assert_eq!(found, expected);
    let back = read(&batch.schema(), &options, &payloads(&batch, &options).unwrap()).unwrap();
    assert_eq!(payloads(&back, &options).unwrap(), payloads(&batch, &options).unwrap());
    let specs = mapping(&batch.schema(), &options).unwrap().columns()[0].parse_specs();
    assert_snapshot!(specs.into_iter().map(|(key, spec)| format!("{key}: {spec}")).collect::<Vec<_>>().join("\n"), @r#"
    tags: tf.io.RaggedFeature(tf.string, "tags/ragged_flat_values", [tf.io.RaggedFeature.RowLengths("tags/ragged_row_lengths_0")])
    clicks: tf.io.RaggedFeature(tf.int64)
    label: tf.io.VarLenFeature(tf.string)
    at/x: tf.io.VarLenFeature(tf.int64)
    "#);
}

/// What becomes of a null list, a null element, and a null field of an element.
#[test]
fn elwc_nulls_by_rule() {
    let rows = [(1, Some("a"), Some(0.5)), (0, None, None), (3, None, Some(2.0))];
    let items = |nulls: &[bool]| documents(&rows, Some(NullBuffer::from(nulls.to_vec())));
    let lengths = [2, 0, 1];
    let of = |docs: ListArray| RecordBatch::try_from_iter([("docs", Arc::new(docs) as ArrayRef)]).unwrap();
    let null_list = of(lists(documents(&rows, None), &lengths, Some(NullBuffer::from(vec![true, false, true]))));
    // An element under a null list has no meaning.
    let hidden = of(lists(documents(&rows, None), &[1, 1, 1], Some(NullBuffer::from(vec![true, false, true]))));
    let null_item = of(lists(items(&[true, false, true]), &lengths, None));
    let null_field = of(lists(documents(&rows, None), &lengths, None));
    let rules = NullPolicy::ALL.iter().map(|policy| NullRule::Policy(*policy));
    let mut outcomes = String::new();
    for rule in rules.chain([NullRule::Default("4".to_owned())]) {
        let options = of_lists().with_column_nulls("docs", rule.clone()).with_column_nulls("title", NullPolicy::Absent);
        for (what, batch) in [("list", &null_list), ("hidden", &hidden), ("item", &null_item), ("field", &null_field)] {
            let found = match payloads(batch, &options) {
                Err(error) => error.to_string(),
                Ok(records) => {
                    let class = mapping(&batch.schema(), &options).unwrap().columns()[0].class;
                    let back = read(&batch.schema(), &options, &records).unwrap();
                    let same = if back == *batch { "same" } else { "differs" };
                    assert!(same == "same" || class == LossClass::Narrowed || what == "hidden", "{rule} {what}");
                    format!(
                        "{class}, {same}: {}",
                        cast(back.column(0), &DataType::Utf8).map_or_else(
                            |_| format!(
                                "{} lists, {} items",
                                back.column(0).len() - back.column(0).null_count(),
                                back.column(0).as_list::<i32>().values().len()
                            ),
                            |text| format!("{:?}", text.as_string::<i32>().iter().collect::<Vec<_>>()),
                        )
                    )
                }
            };
            outcomes += &format!("{rule} {what}: {found}\n");
        }
    }
    assert_snapshot!(outcomes);
}

#[test]
fn elwc_rejects_unsuitable_tables() {
    let int = |name: &str| Field::new(name, DataType::Int64, true);
    let docs = |name: &str, fields: Vec<Field>| {
        Field::new(name, DataType::new_list(DataType::Struct(fields.into()), true), true)
    };
    let refused = |fields: Vec<Field>, options: MappingOptions| {
        Mapping::of_writer(&Arc::new(Schema::new(fields)), &options).unwrap_err().to_string()
    };
    let fixed = DataType::new_fixed_size_list(DataType::Struct(vec![int("x")].into()), 2, true);
    let ints = Field::new("ints", DataType::new_list(DataType::Int64, true), true);
    let refusals = [
        refused(vec![int("a"), ints.clone()], of_lists()),
        refused(vec![docs("d", vec![int("x")]), docs("e", vec![int("y")])], of_lists()),
        refused(
            vec![docs("d", vec![int("x")]), docs("e", vec![int("y")])],
            of_lists().with_sequence("d").with_sequence("e"),
        ),
        refused(vec![int("a"), ints.clone()], of_lists().with_sequence("ints")),
        refused(vec![Field::new("f", fixed.clone(), true)], of_lists()),
        refused(vec![Field::new("f", fixed, true)], of_lists().with_sequence("f")),
        refused(vec![docs("d", vec![int("x")])], of_lists().with_sequence("e")),
        refused(vec![docs("d", vec![int("x")])], of_lists().with_choice("y", Choice::String)),
        refused(vec![docs("d", vec![int("x")])], of_lists().with_choice("x", Choice::String)),
        refused(vec![int("x"), docs("d", vec![int("x")])], of_lists()),
        refused(vec![docs("d", vec![int("d")])], of_lists()),
        refused(vec![docs("d", vec![])], of_lists()),
        refused(vec![docs("d", vec![Field::new("x", DataType::Null, true)])], of_lists()),
        refused(vec![docs("d", vec![Field::new("x", DataType::Float64, true)])], of_lists().with_strict(true)),
    ];
    assert_snapshot!(refusals.join("\n"));
    // With a name, the other list is a column of the context.
    let both = vec![docs("d", vec![int("x")]), docs("e", vec![int("y")]), ints];
    let named = mapping(&Arc::new(Schema::new(both)), &of_lists().with_sequence("e")).unwrap();
    assert_snapshot!(named.to_string());
}

fn error_of(records: &[Vec<u8>]) -> Error {
    read(&queries().schema(), &of_lists(), records).unwrap_err()
}

#[test]
fn elwc_reader_rejects_other_records() {
    let context: &[(&str, Kind)] = &[("query", texts(&["q"])), ("user", ints(&[1]))];
    let sound = message(&[&[("id", ints(&[1]))]], context).encode_to_vec();
    let single = example(&[("id", ints(&[1])), ("user", ints(&[1]))]).encode_to_vec();
    // A SequenceExample with a feature list alone.
    let sequence =
        b"\x12\x15\x0a\x13\x0a\x01q\x12\x0e\x0a\x05\x1a\x03\x0a\x01\x07\x0a\x05\x1a\x03\x0a\x01\x08".to_vec();
    let item_of_sequences = [&[0x0a, 23][..], &sequence].concat();
    let refused = |record: Vec<u8>| {
        let error = error_of(&[sound.clone(), record]);
        assert_eq!(error.position(), Some(Position { record: 1, byte: sound.len() as u64 + 16 }));
        format!("{error} [{}]", format!("{:?}", error.kind()).split([' ', '{']).next().unwrap())
    };
    let of = |items: &[&[(&str, Kind)]]| message(items, context).encode_to_vec();
    let refusals = [
        refused(single),
        refused(sequence),
        refused(item_of_sequences),
        refused(b"plain text".to_vec()),
        refused(vec![0x08, 0x01]),
        refused(of(&[&[("id", floats(&[1.0]))]])),
        refused(of(&[&[("id", ints(&[1]))], &[("title", texts(&["t"]))]])),
        refused(of(&[&[("id", ints(&[1, 2]))]])),
        refused(of(&[&[("id", ints(&[1])), ("title", Kind::BytesList(BytesList { value: vec![vec![0xff]] }))]])),
        refused(message(&[&[("id", ints(&[1]))]], &[("query", texts(&["q"]))]).encode_to_vec()),
    ];
    assert_snapshot!(refusals.join("\n"));
    // Records of this type where others are expected.
    let plain = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
    for options in [MappingOptions::default(), MappingOptions::default().with_record_type(RecordType::SequenceExample)]
    {
        for record in [
            sound.clone(),
            ExampleListWithContext { context: None, ..message(&[&[("id", ints(&[1]))]], &[]) }.encode_to_vec(),
        ] {
            let error = read(&plain, &options, &[record]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Malformed { .. }), "{error}");
        }
    }
}

/// Protobuf joins the parts of a message that is there twice, and passes over fields that it does not know.
#[test]
fn elwc_reader_merges_parts_as_protobuf_does() {
    let first =
        message(&[&[("id", ints(&[1])), ("other", ints(&[1]))]], &[("query", texts(&["a"])), ("user", ints(&[1]))]);
    let second =
        message(&[&[("id", ints(&[2])), ("title", texts(&["t"]))]], &[("query", texts(&["b"])), ("rest", ints(&[]))]);
    let unknown = b"\x18\x01\x22\x03abc";
    let mut record = [&first.encode_to_vec()[..], unknown, &second.encode_to_vec()].concat();
    // An example of two parts.
    let part = |features: &[(&str, Kind)]| example(features).encode_to_vec();
    let halves = [part(&[("id", ints(&[3]))]), part(&[("id", ints(&[4])), ("score", floats(&[1.5]))])].concat();
    record.extend([&[0x0a, u8::try_from(halves.len()).unwrap()], halves.as_slice()].concat());
    let decoded = ExampleListWithContext::decode(record.as_slice()).unwrap();
    let canonical = decoded.encode_to_vec();
    assert_ne!(canonical, record);
    let (schema, options) = (queries().schema(), of_lists());
    let back = read(&schema, &options, &[record.clone()]).unwrap();
    assert_eq!(back, read(&schema, &options, &[canonical]).unwrap());
    assert_eq!(back.column(0).as_string::<i32>().value(0), "b");
    let docs = back.column(1).as_list::<i32>().value(0);
    assert_eq!(docs.as_struct().column(0).as_primitive::<Int64Type>().values(), &[1, 2, 4]);
    assert_eq!(docs.as_struct().column(2).as_primitive::<Float32Type>().value(2), 1.5);
    // Features without a column are counted by records.
    let mut writer = RecordWriter::new(Vec::new());
    (0..2).for_each(|_| writer.write_record(&record).unwrap());
    let builder = ReaderBuilder::new(schema).with_mapping(options).with_unknown_features(true);
    let mut decoder = builder.build_decoder().unwrap();
    decoder.decode(&writer.finish().unwrap()).unwrap();
    decoder.flush().unwrap();
    let unknown = decoder.take_unknown_features();
    let unknown: Vec<_> = unknown.iter().map(|unknown| (unknown.name.as_str(), unknown.records)).collect();
    assert_eq!(unknown, [("rest", 2), ("other", 2)]);
}

#[test]
fn elwc_columns_are_inferred() {
    let mut inference = SchemaInference::new();
    let mut names = FeatureNames::default();
    let records = [
        message(&[], &[("query", texts(&["q"]))]),
        message(
            &[&[("id", ints(&[1])), ("v", floats(&[1.0, 2.0]))], &[("id", ints(&[2]))]],
            &[("query", texts(&["q"]))],
        ),
        message(&[&[], &[("image", Kind::BytesList(BytesList { value: vec![vec![0xff]] }))]], &[]),
    ];
    for record in &records {
        inference.observe(&record.encode_to_vec(), Position::default()).unwrap();
        names.observe(&record.encode_to_vec(), Position::default()).unwrap();
    }
    let words =
        |names: &std::collections::BTreeSet<Box<str>>| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        (words(names.features()), words(names.example_features())),
        (vec!["query".to_owned()], vec!["id".to_owned(), "image".to_owned(), "v".to_owned()])
    );
    assert_eq!((names.record_type(), names.records()), (RecordType::ExampleListWithContext, 3));
    let (options, schema) = (inference.mapping(), Arc::new(inference.finish()));
    assert_eq!(options, of_lists());
    let fields: Vec<_> =
        schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect();
    assert_snapshot!(fields.join("\n"));
    assert!(names.unmapped(&mapping(&schema, &options).unwrap()).is_empty());
    let back = read(&schema, &options, &records.map(|record| record.encode_to_vec())).unwrap();
    let lengths = (0..3).map(|row| back.column(0).as_list::<i32>().value_length(row));
    assert_eq!(lengths.collect::<Vec<_>>(), [0, 2, 2]);
}

/// A reader may read the context alone, and whatever the examples are called.
#[test]
fn elwc_examples_without_features_are_no_column() {
    let unset = Example { features: Some(Features { feature: [("x".to_owned(), Feature { kind: None })].into() }) };
    let records =
        [ExampleListWithContext { examples: vec![unset, Example::default()], ..message(&[], &[("q", ints(&[1]))]) }];
    let records = records.map(|message| message.encode_to_vec());
    let mut inference = SchemaInference::new().with_record_type(RecordType::ExampleListWithContext);
    inference.observe(&records[0], Position::default()).unwrap();
    let schema = Arc::new(inference.finish());
    assert_eq!(schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["q"]);
    let back = read(&schema, &of_lists(), &records).unwrap();
    assert_eq!(back.column(0).as_primitive::<Int64Type>().values(), &[1]);
    let mut taken = SchemaInference::new();
    let named = message(&[&[("examples", ints(&[1]))]], &[("examples_", ints(&[2]))]).encode_to_vec();
    taken.observe(&named, Position::default()).unwrap();
    let schema = Arc::new(taken.finish());
    assert_eq!(
        schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
        ["examples_", "examples__"]
    );
    let back = read(&schema, &of_lists(), &[named]).unwrap();
    assert_eq!(back.column(1).as_list::<i32>().value_length(0), 1);
}

#[test]
fn elwc_inference_rejects_mixed_records() {
    let list = message(&[&[("id", ints(&[1]))]], &[("query", texts(&["q"]))]).encode_to_vec();
    let single = example(&[("id", ints(&[1]))]).encode_to_vec();
    let shared = message(&[&[("query", ints(&[1]))]], &[("query", texts(&["q"]))]).encode_to_vec();
    let refused = |records: &[&Vec<u8>]| {
        let mut inference = SchemaInference::new();
        let mut observe = records.iter().map(|record| inference.observe(record, Position::default()));
        observe.find_map(Result::err).unwrap().to_string()
    };
    assert_snapshot!([refused(&[&list, &single]), refused(&[&single, &list]), refused(&[&shared])].join("\n"));
    let mut said = SchemaInference::new().with_record_type(RecordType::ExampleListWithContext);
    assert!(said.observe(&single, Position::default()).is_err());
    assert!(arrow_tfrecord::infer_schema(framed(&[list]).as_slice(), None).is_err());
}

fn framed(records: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = RecordWriter::new(Vec::new());
    records.iter().for_each(|record| writer.write_record(record).unwrap());
    writer.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Each element is what a record of type example would be, and so is the context.
    #[test]
    fn elwc_items_are_examples_of_their_fields(
        items in nested_tables::batch(Nulls::OutsideOfLists),
        context in nested_tables::batch(Nulls::OutsideOfLists),
        masks in any::<bool>(),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let nulls = if masks { NullPolicy::Mask } else { NullPolicy::Absent };
        let plain = MappingOptions::default().with_nulls(nulls);
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(items.num_rows() + 1)).collect();
        ends.truncate(context.num_rows().saturating_sub(1));
        ends.sort_unstable();
        ends.resize(context.num_rows(), items.num_rows());
        let lengths = ends.iter().enumerate().map(|(row, end)| end - row.checked_sub(1).map_or(0, |row| ends[row]));
        let lengths: Vec<_> = lengths.collect();
        let used = ends.last().copied().unwrap_or_default();
        let items = items.slice(0, used);
        let structs = StructArray::new(items.schema().fields().clone(), items.columns().to_vec(), None);
        let item = Arc::new(Field::new_list_field(structs.data_type().clone(), false));
        let docs = ListArray::new(item, OffsetBuffer::from_lengths(lengths.iter().copied()), Arc::new(structs), None);
        let renamed = context.schema().fields().iter().map(|field| field.as_ref().clone().with_name(format!("Q{}", field.name()))).collect::<Vec<_>>();
        let mut fields = renamed.clone();
        fields.push(Field::new("DOCS", docs.data_type().clone(), false));
        let context = RecordBatch::try_new(Arc::new(Schema::new(renamed)), context.columns().to_vec()).unwrap();
        let columns = context.columns().iter().cloned().chain([Arc::new(docs) as ArrayRef]).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        let options = of_lists().with_nulls(nulls).with_sequence("DOCS");
        let (of_items, of_context) = (payloads(&items, &plain).unwrap(), payloads(&context, &plain).unwrap());
        let mut of_items = of_items.iter().map(|payload| Example::decode(payload.as_slice()).unwrap());
        let expected = of_context.iter().zip(&lengths).map(|(context, len)| ExampleListWithContext {
            examples: of_items.by_ref().take(*len).collect(),
            context: Some(Example::decode(context.as_slice()).unwrap()),
        });
        let expected: Vec<_> = expected.collect();
        let records = payloads(&batch, &options).unwrap();
        let found: Vec<_> = records.iter().map(|record| ExampleListWithContext::decode(record.as_slice()).unwrap()).collect();
        prop_assert_eq!(found, expected);
        let back = read(&batch.schema(), &options, &records).unwrap();
        prop_assert_eq!(payloads(&back, &options).unwrap(), records);
        let mapping = mapping(&batch.schema(), &options).unwrap();
        for (column, mapped) in mapping.columns().iter().enumerate() {
            if mapped.class != LossClass::Narrowed {
                prop_assert_eq!(back.column(column).to_data(), batch.column(column).to_data());
            }
        }
    }
}
