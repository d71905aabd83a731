use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{
    BytesList, Example, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List, SequenceExample,
};

use super::*;

fn bytes<const N: usize>(values: [&[u8]; N]) -> Feature {
    Feature { kind: Some(Kind::BytesList(BytesList { value: values.map(<[u8]>::to_vec).to_vec() })) }
}

fn floats<const N: usize>(values: [f32; N]) -> Feature {
    Feature { kind: Some(Kind::FloatList(FloatList { value: values.to_vec() })) }
}

fn int64s<const N: usize>(values: [i64; N]) -> Feature {
    Feature { kind: Some(Kind::Int64List(Int64List { value: values.to_vec() })) }
}

fn features<const N: usize>(features: [(&str, Feature); N]) -> Features {
    Features { feature: features.map(|(name, feature)| (name.to_owned(), feature)).into() }
}

fn of_each_kind() -> Example {
    Example {
        features: Some(features([
            ("a é \"\n", int64s([1, -5])),
            ("bytes", bytes([b"caf\xc3\xa9 \"q\" 's' \\ \n\r\t\x00\x01\x7f\xff7", "é".as_bytes(), b""])),
            ("empty", int64s([])),
            (
                "floats",
                floats([1.0, 0.1, 10000000000.0, 1e-7, f32::MAX, 1e-45, f32::NAN, f32::NEG_INFINITY, -0.0, 123456.7]),
            ),
            ("unset", Feature { kind: None }),
        ])),
    }
}

fn a_sequence() -> SequenceExample {
    let steps = FeatureList { feature: vec![floats([2.0]), Feature { kind: None }] };
    let lists = [("steps".to_owned(), steps), ("zero".to_owned(), FeatureList::default())];
    SequenceExample {
        context: Some(features([("x", int64s([3]))])),
        feature_lists: Some(FeatureLists { feature_list: lists.into() }),
    }
}

/// As `str()` of protobuf's upb prints the messages, which has maps in another order.
#[test]
fn textproto_matches_protobuf() -> Result<()> {
    insta::assert_snapshot!(textproto(&of_each_kind().encode_to_vec())?);
    insta::assert_snapshot!(textproto(&a_sequence().encode_to_vec())?);
    assert_eq!(textproto(b"")?, "");
    assert_eq!(textproto(b"\x0a\x00")?, "features {\n}\n");
    Ok(())
}

#[test]
fn json_has_every_value() -> Result<()> {
    insta::assert_snapshot!(json_line(&of_each_kind().encode_to_vec())?, @r#"{"a é \"\n": [1, -5], "bytes": [{"b64": "Y2Fmw6kgInEiICdzJyBcIAoNCQABf/83"}, "é", ""], "empty": [], "floats": [1.0, 0.1, 10000000000.0, 1e-7, 3.4028235e38, 1e-45, "NaN", "-Infinity", -0.0, 123456.7], "unset": null}"#);
    insta::assert_snapshot!(json_line(&a_sequence().encode_to_vec())?, @r#"{"context": {"x": [3]}, "feature_lists": {"steps": [[2.0], null], "zero": []}}"#);
    assert_eq!(json_line(b"")?, "{}");
    // An ExampleListWithContext without examples.
    assert_eq!(json_line(b"\x12\x02\x0a\x00")?, r#"{"context": {}, "examples": []}"#);
    Ok(())
}

/// What protobuf allows and writers do.
#[test]
fn quirks_are_read_as_protobuf_reads_them() -> Result<()> {
    for (what, record, expected) in [
        (
            "order is the record's",
            &b"\x0a\x0e\x0a\x05\x0a\x01b\x12\x00\x0a\x05\x0a\x01a\x12\x00"[..],
            r#"{"b": null, "a": null}"#,
        ),
        (
            "the last of two counts",
            b"\x0a\x15\x0a\x05\x0a\x01a\x12\x00\x0a\x0c\x0a\x01a\x12\x07\x1a\x05\x0a\x03\x01\x02\x03",
            r#"{"a": [1, 2, 3]}"#,
        ),
        ("the value first", b"\x0a\x0c\x0a\x0a\x12\x05\x1a\x03\x0a\x01\x07\x0a\x01a", r#"{"a": [7]}"#),
        ("no key", b"\x0a\x09\x0a\x07\x12\x05\x1a\x03\x0a\x01\x07", r#"{"": [7]}"#),
        ("packed and not", b"\x0a\x0e\x0a\x0c\x0a\x01a\x12\x07\x1a\x05\x0a\x01\x07\x08\x08", r#"{"a": [7, 8]}"#),
        (
            "a list in parts",
            b"\x0a\x11\x0a\x0f\x0a\x01a\x12\x0a\x1a\x03\x0a\x01\x07\x1a\x03\x0a\x01\x08",
            r#"{"a": [7, 8]}"#,
        ),
        ("the last kind counts", b"\x0a\x0e\x0a\x0c\x0a\x01a\x12\x07\x1a\x03\x0a\x01\x07\x0a\x00", r#"{"a": []}"#),
        (
            "features in parts",
            b"\x0a\x07\x0a\x05\x0a\x01a\x12\x00\x0a\x07\x0a\x05\x0a\x01b\x12\x00",
            r#"{"a": null, "b": null}"#,
        ),
        (
            "unknown fields",
            b"\x78\x01\x0a\x0c\x0a\x0a\x0a\x01a\x12\x00\x1d\x00\x00\x00\x00\x7b\x08\x01\x7c",
            r#"{"a": null}"#,
        ),
    ] {
        let read = json_line(record).map_err(|error| format!("{error}"));
        assert_eq!(read.as_deref(), Ok(expected), "{what}");
    }
    Ok(())
}

#[test]
fn malformed_example_reports_the_byte() {
    for (record, expected) in [
        (&b"\x0a"[..], "byte 1 of the record, the message is cut"),
        (b"\x0a\x05\x0a\x01", "byte 0 of the record, a length reaches past the end"),
        (b"\x0a\x04\x0a\x07\x0a\x01a", "byte 2 of the record, a length reaches past the end"),
        (b"\x0a\x05\x0a\x07\x0a\x01a", "byte 2 of the record, a length reaches past the end"),
        (b"\x08\x01", "byte 0 of the record, expected features, found a number"),
        (b"\x10\x01", "byte 0 of the record, expected feature lists, found a number"),
        (b"\x0a\x05\x0a\x03\x0a\x01\xff", "byte 6 of the record, the name of a feature is not UTF-8"),
        (
            b"\x0a\x0b\x0a\x09\x0a\x01a\x12\x04\x12\x02\x08\x01",
            "byte 11 of the record, expected a float, found another number",
        ),
        (b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x12\x03\x0a\x01\x00", "byte 13 of the record, the message is cut"),
        (b"\x00\x01", "byte 0 of the record, found no field of a message"),
        (b"\x0f", "byte 0 of the record, found no field of a message"),
        (b"\x7c", "byte 0 of the record, a group ends that has not begun"),
        (b"\x7b", "byte 1 of the record, a group does not end"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "byte 0 of the record, a number has more than 64 bits"),
    ] {
        let found = json_line(record).unwrap_or_else(|error| error.to_string());
        assert_eq!(found, format!("not a tf.train.Example: at {expected}"), "{record:x?}");
        assert!(textproto(record).is_err());
    }
    assert!(json_line(&[0x7b; 1000]).is_err_and(|error| error.to_string().contains("nested too deep")));
}

#[test]
fn textproto_floats_match_c() {
    for (value, expected) in [
        (100_000.0, "100000"),
        (1e6, "1e+06"),
        (16_777_216.0, "16777216"),
        (1e-4, "0.0001"),
        (1e-5, "1e-05"),
        (2.5e20, "2.5e+20"),
        (999_999.5, "999999.5"),
        (0.333_333_34, "0.333333343"),
        (0.0, "0"),
    ] {
        assert_eq!(float(value), expected);
    }
}

fn any_feature() -> impl Strategy<Value = Feature> {
    let kind = prop_oneof![
        vec(vec(any::<u8>(), 0..6), 0..4).prop_map(|value| Kind::BytesList(BytesList { value })),
        vec("\\PC{0,6}", 0..4).prop_map(|text| {
            Kind::BytesList(BytesList { value: text.into_iter().map(String::into_bytes).collect() })
        }),
        vec(any::<u32>().prop_map(f32::from_bits), 0..4).prop_map(|value| Kind::FloatList(FloatList { value })),
        vec(any::<i64>(), 0..4).prop_map(|value| Kind::Int64List(Int64List { value })),
    ];
    proptest::option::of(kind).prop_map(|kind| Feature { kind })
}

fn any_features() -> impl Strategy<Value = Features> {
    btree_map("\\PC{0,4}", any_feature(), 0..5).prop_map(|feature| Features { feature })
}

/// The bits of NaN do not survive text.
fn without_nan_bits(features: &mut Features) {
    for feature in features.feature.values_mut() {
        if let Some(Kind::FloatList(list)) = &mut feature.kind {
            list.value.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = f32::NAN);
        }
    }
}

fn as_json(feature: &Feature) -> Value {
    let number = |value: f32| match value {
        value if value.is_nan() => json!("NaN"),
        f32::INFINITY => json!("Infinity"),
        f32::NEG_INFINITY => json!("-Infinity"),
        value => json!(f64::from(value)),
    };
    let blob = |value: &Vec<u8>| match String::from_utf8(value.clone()) {
        Ok(text) => json!(text),
        Err(_) => json!({"b64": BASE64_STANDARD.encode(value)}),
    };
    match &feature.kind {
        None => Value::Null,
        Some(Kind::BytesList(list)) => list.value.iter().map(blob).collect(),
        Some(Kind::FloatList(list)) => list.value.iter().copied().map(number).collect(),
        Some(Kind::Int64List(list)) => list.value.clone().into(),
    }
}

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(tfr_proto::FILE_DESCRIPTOR_SET).unwrap());

/// The values of a line, its numbers as the floats that they are the shortest digits of.
fn read(line: &str) -> BTreeMap<String, Value> {
    fn as_floats(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_f64() => {
                *value = json!(f64::from(number.to_string().parse::<f32>().unwrap()));
            }
            Value::Array(values) => values.iter_mut().for_each(as_floats),
            _ => {}
        }
    }
    let mut features: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
    features.values_mut().for_each(as_floats);
    features
}

proptest! {
    #[test]
    fn textproto_reads_back(mut features in any_features()) {
        without_nan_bits(&mut features);
        let example = Example { features: Some(features) };
        let text = textproto(&example.encode_to_vec()).unwrap();
        let descriptor = POOL.get_message_by_name("tensorflow.Example").unwrap();
        let read: Example = DynamicMessage::parse_text_format(descriptor, &text).unwrap().transcode_to().unwrap();
        prop_assert_eq!(format!("{read:?}"), format!("{example:?}"), "{}", text);
    }

    #[test]
    fn json_reads_back(features in any_features()) {
        let expected: BTreeMap<_, _> =
            features.feature.iter().map(|(name, feature)| (name.clone(), as_json(feature))).collect();
        let line = json_line(&Example { features: Some(features) }.encode_to_vec()).unwrap();
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(read(&line), expected);
    }

    /// Of damaged records too. What is refused here is no matter for prost: it reads map entries whatever their wire
    /// type is.
    #[test]
    fn record_parser_matches_prost(mut features in any_features(), at in any::<prop::sample::Index>(), byte: u8) {
        without_nan_bits(&mut features);
        let mut record = Example { features: Some(features) }.encode_to_vec();
        if !record.is_empty() {
            let at = at.index(record.len());
            record[at] = byte;
        }
        prop_assert_eq!(textproto(&record).is_ok(), json_line(&record).is_ok());
        if let Ok(Record::Example { .. }) = Record::read(&record) {
            let prost = Example::decode(record.as_slice()).unwrap().features.unwrap_or_default();
            let expected: BTreeMap<_, _> =
                prost.feature.iter().map(|(name, feature)| (name.clone(), as_json(feature))).collect();
            prop_assert_eq!(read(&json_line(&record).unwrap()), expected);
        }
    }

    #[test]
    fn no_bytes_panic(record in vec(any::<u8>(), 0..64)) {
        let _ = (json_line(&record), textproto(&record));
    }
}
