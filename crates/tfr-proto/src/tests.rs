use prost::Message;

use crate::tensorflow::{Example, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List, feature::Kind};

fn int64(value: Vec<i64>) -> Feature {
    Feature { kind: Some(Kind::Int64List(Int64List { value })) }
}

fn features<const N: usize>(features: [(&str, Feature); N]) -> Features {
    Features { feature: features.into_iter().map(|(name, feature)| (name.to_owned(), feature)).collect() }
}

#[test]
fn features_are_sorted_and_lists_packed() {
    let float = Feature { kind: Some(Kind::FloatList(FloatList { value: vec![1.0] })) };
    let example = Example { features: Some(features([("b", int64(vec![1, 300])), ("a", float)])) };
    let expected: &[u8] = &[
        0x0a, 0x1d, // features
        0x0a, 0x0d, 0x0a, 1, b'a', 0x12, 8, 0x12, 6, 0x0a, 4, 0, 0, 0x80, 0x3f, // float_list
        0x0a, 0x0c, 0x0a, 1, b'b', 0x12, 7, 0x1a, 5, 0x0a, 3, 1, 0xac, 2, // int64_list
    ];
    assert_eq!(example.encode_to_vec(), expected);
}

#[test]
fn an_empty_list_keeps_its_kind() {
    let bytes = features([("a", int64(vec![]))]).encode_to_vec();
    assert_eq!(bytes, [0x0a, 7, 0x0a, 1, b'a', 0x12, 2, 0x1a, 0]);
    assert_eq!(Features::decode(bytes.as_slice()).unwrap(), features([("a", int64(vec![]))]));
}

/// What the crate's documentation warns of: entries that TensorFlow's parser refuses.
#[test]
fn map_entries_omit_default_values() {
    assert_eq!(features([("a", Feature { kind: None })]).encode_to_vec(), [0x0a, 3, 0x0a, 1, b'a']);
    assert_eq!(features([("", int64(vec![]))]).encode_to_vec(), [0x0a, 4, 0x12, 2, 0x1a, 0]);
    let lists = FeatureLists { feature_list: [("a".to_owned(), FeatureList::default())].into() };
    assert_eq!(lists.encode_to_vec(), [0x0a, 3, 0x0a, 1, b'a']);
}
