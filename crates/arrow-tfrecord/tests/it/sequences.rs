//! Records of sequences, and records that are bytes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::types::Int64Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{
    Encoder, Error, LossClass, Mapping, MappingOptions, NullPolicy, NullRule, ReaderBuilder, RecordBuffer, RecordType,
};
use insta::assert_snapshot;
use prost::Message;
use tfr_proto::tensorflow::SequenceExample;
use tfr_proto::tensorflow::feature::Kind;
use tfrecord_framing::{RecordReader, RecordWriter};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden/tf");

fn of_sequences() -> MappingOptions {
    MappingOptions::default().with_record_type(RecordType::SequenceExample)
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn encoded(batch: &RecordBatch, options: &MappingOptions) -> Result<Vec<u8>, Error> {
    let mapping = Mapping::try_new(&batch.schema(), options)?;
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records)?;
    Ok(records.bytes().to_vec())
}

fn decoded(batch: &RecordBatch, options: &MappingOptions, file: &[u8]) -> RecordBatch {
    let mut reader = ReaderBuilder::new(batch.schema()).with_mapping(options.clone()).build(file).unwrap();
    reader.next().unwrap().unwrap()
}

macro_rules! lists_of_lists {
    ($builder:ty, $rows:expr) => {{
        let mut rows = ListBuilder::new(ListBuilder::new(<$builder>::new()));
        for row in $rows {
            if let Some(lists) = &row {
                for list in lists {
                    rows.values().append_value(list.iter().copied().map(Some));
                }
            }
            rows.append(row.is_some());
        }
        Arc::new(rows.finish()) as ArrayRef
    }};
}

/// The table `nested` that TensorFlow wrote.
fn nested() -> RecordBatch {
    let ints: [Option<Vec<Vec<i64>>>; 4] = [Some(vec![vec![1, 2], vec![3]]), Some(vec![vec![]]), Some(vec![]), None];
    let floats: [Option<Vec<Vec<f32>>>; 4] = [Some(vec![vec![0.5]]), Some(vec![vec![1.0], vec![]]), Some(vec![]), None];
    let texts: [Option<Vec<Vec<&str>>>; 4] =
        [Some(vec![vec!["a"], vec!["b", "c"]]), Some(vec![vec![""]]), Some(vec![]), None];
    batch(vec![
        ("ii", lists_of_lists!(Int64Builder, ints)),
        ("ff", lists_of_lists!(Float32Builder, floats)),
        ("ss", lists_of_lists!(StringBuilder, texts)),
    ])
}

/// The table `sequence` that TensorFlow wrote.
fn sequence() -> RecordBatch {
    let mut weights = ListBuilder::new(Float32Builder::new());
    weights.append_value([Some(0.5), Some(1.5)]);
    weights.append_value([]);
    let tokens = [Some(vec![vec!["hello"], vec!["big", "world"]]), Some(vec![vec!["x"]])];
    let features = [Some(vec![vec![1.0, 2.0], vec![3.0, 4.0]]), Some(vec![vec![5.0, 6.0]])];
    batch(vec![
        ("id", Arc::new(Int64Array::from(vec![7, 8]))),
        ("user", Arc::new(StringArray::from(vec![Some("u1"), None]))),
        ("w", Arc::new(weights.finish())),
        ("tokens", lists_of_lists!(StringBuilder, tokens)),
        ("feats", lists_of_lists!(Float32Builder, features)),
    ])
}

#[test]
fn sequence_examples_match_tensorflow() {
    if !Path::new(GOLDEN).exists() {
        return println!("skipped: no golden files beside the repository");
    }
    for (name, batch) in [("nested", nested()), ("sequence", sequence())] {
        let theirs = fs::read(format!("{GOLDEN}/{name}.tfrecord")).unwrap();
        assert_eq!(encoded(&batch, &of_sequences()).unwrap(), theirs, "{name}");
        assert_eq!(decoded(&batch, &of_sequences(), &theirs), batch, "{name}");
    }
}

/// What stands in the feature lists of every record.
fn lists(file: &[u8]) -> String {
    let (mut record, mut lines, mut reader) = (Vec::new(), Vec::new(), RecordReader::new(file));
    while reader.read_record(&mut record).unwrap() {
        let lists = SequenceExample::decode(record.as_slice()).unwrap().feature_lists.unwrap().feature_list;
        let lists = lists.iter().map(|(name, list)| {
            let steps = list.feature.iter().map(|feature| match &feature.kind {
                None => "unset".to_owned(),
                Some(Kind::Int64List(list)) => format!("{:?}", list.value),
                other => format!("{other:?}"),
            });
            format!("{name}: {}", steps.collect::<Vec<_>>().join(" "))
        });
        lines.push(format!("  {{{}}}", lists.collect::<Vec<_>>().join(", ")));
    }
    lines.join("\n")
}

fn rules() -> Vec<NullRule> {
    let policies = NullPolicy::ALL.iter().map(|policy| NullRule::from(*policy));
    policies.chain([NullRule::Default("7".to_owned())]).collect()
}

fn stories(array: &ArrayRef) -> String {
    let story = |rule: NullRule| {
        let batch = batch(vec![("c", ArrayRef::clone(array))]);
        let options = of_sequences().with_sequence("c").with_column_nulls("c", rule.clone());
        let class = Mapping::try_new(&batch.schema(), &options).unwrap().columns()[0].class;
        match encoded(&batch, &options) {
            Err(error) => format!("{rule}: {class}\n  {error}"),
            Ok(file) => {
                let back = decoded(&batch, &options, &file);
                let is_same = back.column(0).to_data() == array.to_data();
                assert!(is_same || class == LossClass::Narrowed, "{rule}: {back:?}");
                assert_eq!(encoded(&back, &options).unwrap(), file);
                format!("{rule}: {class}\n{}", lists(&file))
            }
        }
    };
    rules().into_iter().map(story).collect::<Vec<_>>().join("\n")
}

#[test]
fn nulls_among_steps() {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(1), None]),
        None,
        Some(vec![]),
        Some(vec![None]),
    ]);
    assert_snapshot!(stories(&(Arc::new(lists) as ArrayRef)));
}

#[test]
fn null_lists_among_steps() {
    let mut rows = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    rows.values().append_value([Some(1), Some(2)]);
    rows.values().append(false);
    rows.values().append_value([]);
    rows.append(true);
    rows.append(false);
    assert_snapshot!(stories(&(Arc::new(rows.finish()) as ArrayRef)));
}

#[test]
fn sequence_option_rejects_unsuitable_columns() {
    let refused = |data_type: DataType, options: MappingOptions| {
        let schema = Arc::new(Schema::new(vec![Field::new("c", data_type, true)]));
        Mapping::try_new(&schema, &options).unwrap_err().to_string()
    };
    let list = DataType::new_list(DataType::Int64, true);
    let refusals = [
        refused(DataType::Int64, of_sequences().with_sequence("c")),
        refused(DataType::new_fixed_size_list(DataType::Int64, 2, true), of_sequences().with_sequence("c")),
        refused(list.clone(), of_sequences().with_sequence("d")),
        refused(list, MappingOptions::default().with_sequence("c")),
    ];
    assert_snapshot!(refusals.join("\n\n"));
}

#[test]
fn a_projection_reads_its_lists() {
    let batch = sequence();
    let file = encoded(&batch, &of_sequences()).unwrap();
    for projection in [vec![4], vec![3, 0], vec![3, 3], vec![1]] {
        let builder = ReaderBuilder::new(batch.schema()).with_mapping(of_sequences());
        let mut reader = builder.with_projection(projection.clone()).with_batch_size(1).build(file.as_slice()).unwrap();
        let rows: Vec<_> = [reader.next(), reader.next()].map(|row| row.unwrap().unwrap()).into();
        assert_eq!(rows[1], batch.project(&projection).unwrap().slice(1, 1), "{projection:?}");
    }
}

/// More steps in a row, and in all rows, than are decoded at a time.
#[test]
fn many_steps() {
    let mut rows = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    for row in 0..300usize {
        for step in 0..row * 7 % 1000 {
            rows.values().append_value((0..step % 3).map(|value| Some((row + step + value) as i64)));
        }
        rows.append(row % 11 > 0);
    }
    let batch = batch(vec![("c", Arc::new(rows.finish()) as ArrayRef)]);
    let file = encoded(&batch, &of_sequences()).unwrap();
    assert_eq!(decoded(&batch, &of_sequences(), &file), batch);
}

/// As protobuf allows: lists before the context, entries in pieces and twice, values before keys.
#[test]
fn feature_lists_written_in_unusual_ways() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::new_list(DataType::Int64, true), true),
    ]));
    let records: [&[u8]; 4] = [
        // { lists: { s: [[1]] } } twice, and between them { context: { a: 5 } }: the last s counts.
        b"\x12\x0e\x0a\x0c\x0a\x01s\x12\x07\x0a\x05\x1a\x03\x0a\x01\x01\
          \x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x05\
          \x12\x0e\x0a\x0c\x0a\x01s\x12\x07\x0a\x05\x1a\x03\x0a\x01\x02",
        // One entry with its list in two pieces, and the value before the key.
        b"\x12\x17\x0a\x15\x12\x07\x0a\x05\x1a\x03\x0a\x01\x03\x0a\x01s\x12\x07\x0a\x05\x1a\x03\x0a\x01\x04",
        // Not packed, and in two pieces of one feature.
        b"\x12\x11\x0a\x0f\x0a\x01s\x12\x0a\x0a\x08\x1a\x00\x1a\x02\x08\x09\x1a\x00",
        // An entry without a value is an empty list, and so is a list that is not there null.
        b"\x12\x05\x0a\x03\x0a\x01s",
    ];
    let mut writer = RecordWriter::new(Vec::new());
    records.iter().for_each(|record| writer.write_record(record).unwrap());
    writer.write_record(b"").unwrap();
    let file = writer.finish().unwrap();
    let options = of_sequences().with_sequence("s");
    let reader = ReaderBuilder::new(Arc::clone(&schema)).with_mapping(options).build(file.as_slice()).unwrap();
    let batch = reader.map(|batch| batch.unwrap()).next().unwrap();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(2)]),
        Some(vec![Some(3), Some(4)]),
        Some(vec![Some(9)]),
        Some(vec![]),
        None,
    ]);
    assert_eq!(batch.column(0).as_ref(), &Int64Array::from(vec![Some(5), None, None, None, None]) as &dyn Array);
    assert_eq!(batch.column(1).to_data(), lists.to_data());
}

fn of_bytes() -> MappingOptions {
    MappingOptions::default().with_record_type(RecordType::Bytes)
}

#[test]
fn bytes_record_type_writes_values_as_records() {
    let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["", "one", "a value that is longer than a view"]));
    let blobs: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values([&b"\xff"[..], &[7; 100_000], b""]));
    let keys = Int8Array::from(vec![1, 0, 1]);
    let dictionary: ArrayRef =
        Arc::new(DictionaryArray::new(keys, Arc::new(BinaryArray::from_iter_values([b"a", b"b"]))));
    for array in [texts, blobs, dictionary] {
        let batch = RecordBatch::try_from_iter_with_nullable([("any name", ArrayRef::clone(&array), false)]).unwrap();
        let file = encoded(&batch, &of_bytes()).unwrap();
        let plain = arrow_cast::cast(&array, &DataType::LargeBinary).unwrap();
        let plain = plain.as_any().downcast_ref::<LargeBinaryArray>().unwrap();
        let mut expected = RecordWriter::new(Vec::new());
        plain.iter().for_each(|value| expected.write_record(value.unwrap()).unwrap());
        assert_eq!(file, expected.finish().unwrap());
        assert_eq!(decoded(&batch, &of_bytes(), &file).column(0).to_data(), array.to_data());
    }
}

#[test]
fn bytes_record_type_prints_its_mapping() {
    let schema = Arc::new(Schema::new(vec![Field::new("jpeg", DataType::Binary, false)]));
    assert_snapshot!(Mapping::try_new(&schema, &of_bytes()).unwrap().to_string(), @r"
    column  type    feature     class  nulls  read with
    jpeg    Binary  the record  exact  -      -
    ");
}

#[test]
fn bytes_record_type_rejects_other_tables() {
    let texts = || Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef;
    let numbers = || Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef;
    let refused = |columns: Vec<(&str, ArrayRef)>| encoded(&batch(columns), &of_bytes()).unwrap_err().to_string();
    let refusals = [
        refused(vec![("a", numbers())]),
        refused(vec![("a", texts()), ("b", numbers())]),
        refused(vec![("a", texts())]),
    ];
    assert_snapshot!(refusals.join("\n\n"));

    let batch = batch(vec![("a", texts())]);
    let options = of_bytes().with_column_nulls("a", NullRule::Default("none".to_owned()));
    let back = decoded(&batch, &options, &encoded(&batch, &options).unwrap());
    assert_eq!(back.column(0).as_ref(), &StringArray::from(vec!["a", "none"]) as &dyn Array);
    let options = of_bytes().with_nulls(NullPolicy::Empty);
    assert_eq!(Mapping::try_new(&batch.schema(), &options).unwrap().columns()[0].class, LossClass::Narrowed);
    let back = decoded(&batch, &options, &encoded(&batch, &options).unwrap());
    assert_eq!(back.column(0).as_ref(), &StringArray::from(vec!["a", ""]) as &dyn Array);
}
