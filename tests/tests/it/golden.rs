//! Our bytes against those that TensorFlow wrote, and the rule wherever they differ.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_tfrecord::{Choice, Encoder, Error, ErrorKind, Mapping, MappingOptions, RecordBuffer, RecordType};
use tfr_tests::{Feature, Record, golden_table, read_file};

/// The same columns under the same rules.
const EQUAL: [&str; 16] = [
    "binary",
    "bool",
    "dictionary",
    "empty_table",
    "fixed_size_list",
    "float16",
    "ints",
    "large_list",
    "list_bytes",
    "long",
    "mixed",
    "names",
    "no_value_row",
    "nulls", // a column of type Null is absent from every record, as TensorFlow's file leaves it out
    "strings",
    "uints",
];

fn encode_with(batch: &RecordBatch, options: &MappingOptions) -> Result<Vec<u8>, Error> {
    let mapping = Mapping::try_new(&batch.schema(), options)?;
    let mut records = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records)?;
    Ok(records.bytes().to_vec())
}

fn encode(batch: &RecordBatch) -> Result<Vec<u8>, Error> {
    encode_with(batch, &MappingOptions::default())
}

fn tensorflow_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/tf").join(name)
}

/// TensorFlow's bytes for a table.
fn tensorflow(table: &str) -> Vec<u8> {
    fs::read(tensorflow_file(&format!("{table}.tfrecord"))).unwrap()
}

/// The records of framed bytes.
fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some(length) = bytes.first_chunk::<8>() {
        let (frame, rest) = bytes.split_at(usize::try_from(u64::from_le_bytes(*length)).unwrap() + 16);
        frames.push(frame);
        bytes = rest;
    }
    frames
}

#[test]
fn equal_to_tensorflow() {
    for table in EQUAL {
        let ours = encode(&golden_table(table)).unwrap_or_else(|error| panic!("{table}: {error}"));
        let theirs = tensorflow(table);
        for (number, (ours, theirs)) in frames(&ours).into_iter().zip(frames(&theirs)).enumerate() {
            assert_eq!(ours, theirs, "{table}: record {number}");
        }
        assert_eq!(ours.len(), theirs.len(), "{table}: bytes in all");
    }
}

/// Rule: features stand by name, a name before the longer ones that begin with it. TensorFlow's serializer has `l32`
/// before `l`.
#[test]
fn feature_name_sorts_before_longer_names() {
    let ours = encode(&golden_table("list_int64")).unwrap();
    let theirs = tensorflow("list_int64");
    assert_eq!(decode(&ours), decode(&theirs));
    assert_eq!(ours.len(), theirs.len());
    let position = |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).position(|window| window == name).unwrap();
    let first = frames(&ours)[0];
    assert!(position(first, b"\x0a\x01l") < position(first, b"\x0a\x03l32"));
}

/// Rule: no value changes in silence. TensorFlow writes a double beyond the range of float32 as infinity.
#[test]
fn a_double_that_would_become_infinite_is_refused() {
    // 1e300, and the midpoint above f32::MAX, which rounds to infinity
    for (table, column, beyond) in [("floats", "f64", &[2, 4][..]), ("list_float", "d", &[1])] {
        let doubles = golden_table(table);
        let theirs = tensorflow(table);
        for (row, theirs) in frames(&theirs).into_iter().enumerate() {
            let ours = encode(&doubles.slice(row, 1));
            if beyond.contains(&row) {
                let error = ours.unwrap_err();
                let kind = error.kind();
                assert!(matches!(kind, ErrorKind::OutOfRange { column: found, .. } if found == column), "{error}");
            } else {
                assert_eq!(ours.unwrap(), theirs, "{table}: row {row}");
            }
        }
    }
}

/// Rule: a decimal is the float nearest to its scaled value. TensorFlow has no rule; spark-tfrecord drops the scale.
#[test]
fn a_decimal_keeps_its_scale() {
    let records = decode(&encode(&golden_table("decimal")).unwrap());
    assert_eq!(text(&records[0]), "d15_2: [17.0], d38_10: [1.5]");
    assert_eq!(text(&records[1]), "d15_2: [-0.04], d38_10: [1.2345679e19]");
    assert_eq!(text(&records[2]), "");
}

/// Rule: dates and times are integers in the unit of their type. TensorFlow has no rule.
#[test]
fn temporal_values_keep_their_unit() {
    let records = decode(&encode(&golden_table("temporal")).unwrap());
    assert_eq!(text(&records[0]), "date: [0], ts_us: [0], ts_utc: [0]");
    assert_eq!(text(&records[1]), "date: [9568], ts_us: [1709209801000005], ts_utc: [1709209800000000]");
    assert_eq!(text(&records[2]), "");
}

/// The records of framed bytes, by protobuf.
fn decode(framed: &[u8]) -> Vec<Record> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("records.tfrecord");
    fs::write(&file, framed).unwrap();
    read_file(&file)
}

fn text(record: &Record) -> String {
    let features: Vec<_> = record
        .iter()
        .map(|(name, feature)| match feature {
            Feature::Int64(values) => format!("{name}: {values:?}"),
            Feature::Float(values) => format!("{name}: {values:?}"),
            other => format!("{name}: {other:?}"),
        })
        .collect();
    features.join(", ")
}

/// Rule: a null inside a list is refused. TensorFlow raises TypeError; other writers put 0 or "" in its place.
#[test]
fn a_null_inside_a_list_is_refused() {
    for (table, column) in [("list_int64_null_elem", "l"), ("list_bytes_null_elem", "s")] {
        let error = encode(&golden_table(table)).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NullElement { column: found, row: 0, .. } if found == column),
            "{table}: {error}"
        );
    }
}

/// Rule: a uint64 above 2^63-1 is refused unless `wrap` is chosen. TensorFlow raises ValueError.
#[test]
fn a_uint64_beyond_int64_is_refused_or_wrapped() {
    let table = golden_table("uint64_big");
    let error = encode(&table).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfRange { column, row: 0, .. } if column == "u64"), "{error}");

    let wrapped = encode_with(&table, &MappingOptions::default().with_choice("u64", Choice::Wrap)).unwrap();
    let records = decode(&wrapped);
    assert_eq!(text(&records[0]), "u64: [-9223372036854775808]");
    assert_eq!(text(&records[1]), "u64: [-1]");
}

/// Rule: lists of lists are feature lists of a `SequenceExample`, other columns its context.
#[test]
fn lists_of_lists_are_the_feature_lists_of_tensorflow() {
    let options = MappingOptions::default().with_record_type(RecordType::SequenceExample);
    for table in ["nested", "sequence"] {
        let ours = encode_with(&golden_table(table), &options).unwrap();
        let theirs = tensorflow(table);
        assert_eq!(frames(&ours), frames(&theirs), "{table}");
    }
}

/// Rule: in an `Example`, lists of lists are their values and the lengths of the rows, for `tf.io.RaggedFeature`; a
/// struct is its fields. TensorFlow has no rule; TensorFlow Datasets has the names.
#[test]
fn nested_columns_are_features_of_their_parts() {
    let records = decode(&encode(&golden_table("nested")).unwrap());
    assert!(
        text(&records[0]).contains("ii/ragged_flat_values: [1, 2, 3], ii/ragged_row_lengths_0: [2, 1]"),
        "{records:?}"
    );
    // [[]], [] and null
    assert!(text(&records[1]).contains("ii/ragged_flat_values: [], ii/ragged_row_lengths_0: [0]"), "{records:?}");
    assert!(text(&records[2]).contains("ii/ragged_flat_values: [], ii/ragged_row_lengths_0: []"), "{records:?}");
    assert_eq!(text(&records[3]), "");
    let structs = decode(&encode(&golden_table("struct")).unwrap());
    assert_eq!(structs.iter().map(text).collect::<Vec<_>>(), ["s/x: [1], s/y: Bytes([[97]])", ""]);
}

/// Compressed bytes depend on the compressor; what they hold does not.
#[test]
fn compressed_files_of_tensorflow_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let records = read_file(&tensorflow_file("mixed.tfrecord"));
    assert_eq!(records.len(), 3);
    for (theirs, ours) in [("mixed.tfrecord.gzip", "mixed.tfrecord.gz"), ("mixed.tfrecord.zlib", "mixed.tfrecord.zlib")]
    {
        let copy = directory.path().join(ours);
        fs::copy(tensorflow_file(theirs), &copy).unwrap();
        assert_eq!(read_file(&copy), records, "{theirs}");
    }
}
