use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{Choice, Encoder, MappingOptions, NullPolicy};

use super::*;
use crate::stats::Detail;

fn shard(path: &str, rows: u64) -> ShardFile {
    ShardFile { path: path.to_owned(), split: None, rows, framed_bytes: rows * 20 }
}

fn splits(shards: &[ShardFile]) -> Vec<(String, String, Vec<u64>)> {
    let info = DatasetInfo::try_new("set", shards.to_vec()).unwrap();
    let split = |split: &Split| (split.name.clone(), split.filepath_template.clone(), split.shard_lengths.clone());
    info.splits().iter().map(split).collect()
}

#[test]
fn tfds_splits_are_derived_from_shard_names() {
    let cases = [
        ("part-00000-of-00001.tfrecord", "train", "part-{SHARD_X_OF_Y}.{FILEFORMAT}"),
        ("train-00000-of-00001.tfrecord", "train", "{SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}"),
        ("validation-00000-of-00001", "validation", "{SPLIT}-{SHARD_X_OF_Y}"),
        ("mnist-test.tfrecord-00000-of-00001", "test", "mnist-test.tfrecord-{SHARD_X_OF_Y}"),
        ("data_tfrecord-00000-of-00001", "data_tfrecord", "{SPLIT}-{SHARD_X_OF_Y}"),
        ("00000-of-00001.tfrecords", "train", "{SHARD_X_OF_Y}.tfrecords"),
    ];
    for (path, name, template) in cases {
        assert_eq!(splits(&[shard(path, 7)]), [(name.to_owned(), template.to_owned(), vec![7])]);
    }
    let of_manifest = ShardFile { split: Some("val".to_owned()), ..shard("part-00000-of-00001.tfrecord", 1) };
    assert_eq!(splits(&[of_manifest])[0].0, "val");
}

#[test]
fn shards_are_in_their_order() {
    let [zero, one] = ["00000", "00001"].map(|index| format!("train-{index}-of-00002.tfrecord"));
    let found = splits(&[shard(&one, 1), shard("val-00000-of-00001.tfrecord", 5), shard(&zero, 2)]);
    assert_eq!(found.iter().map(|(_, _, rows)| rows.clone()).collect::<Vec<_>>(), [vec![2, 1], vec![5]]);
}

/// As many digits as the number has, five at least.
#[test]
fn tfds_accepts_shard_names_with_more_digits() {
    let all = (0..100_001).map(|index| shard(&format!("part-{index:06}-of-100001.tfrecord"), 1));
    assert_eq!(DatasetInfo::try_new("set", all).unwrap().splits()[0].shard_lengths.len(), 100_001);
}

#[test]
fn tfds_rejects_sets_that_tensorflow_datasets_cannot_find() {
    let refusals = [
        (vec![], "there is no shard"),
        (vec!["part-00000-of-00002.tfrecord"], "expected 2 shards part-...tfrecord, found 1"),
        (vec!["part-00000-of-00001.tfrecord.gz"], "compressed files (gz)"),
        (vec!["dt=1/part-00000-of-00001.tfrecord"], "in one directory"),
        (vec!["part-00000-00001.tfrecord"], "its name is not like"),
        (vec!["part-0-of-1.tfrecord"], "its name is not like"),
        (vec!["part-00002-of-00002.tfrecord"], "its name is not like"),
        (vec!["a{b}-00000-of-00001.tfrecord"], "braces"),
        (vec!["part-00000-of-00001.tfrecord", "data-00000-of-00001.tfrecord"], "split \"train\" has shards"),
    ];
    for (paths, message) in refusals {
        let error = DatasetInfo::try_new("set", paths.iter().map(|path| shard(path, 1))).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn tfds_format_is_that_of_the_files_whatever_their_names() {
    let info = |path: &str, container| {
        let info = DatasetInfo::of_files("set", [shard(path, 1)], container).unwrap();
        let json: Value = serde_json::from_str(&info.to_json().unwrap()).unwrap();
        (json["fileFormat"].as_str().unwrap().to_owned(), info.splits()[0].filepath_template.clone())
    };
    let (tfrecord, array_record) = (Some(Container::PLAIN), Some(Container::ArrayRecord));
    let owned = |format: &str, template: &str| (format.to_owned(), template.to_owned());
    let (plain, array) = ("part-00000-of-00001.tfrecord", "part-00000-of-00001.array_record");
    assert_eq!(info(plain, tfrecord), owned("tfrecord", "part-{SHARD_X_OF_Y}.{FILEFORMAT}"));
    assert_eq!(info(array, array_record), owned("array_record", "part-{SHARD_X_OF_Y}.{FILEFORMAT}"));
    assert_eq!(info(plain, array_record), owned("array_record", "part-{SHARD_X_OF_Y}.tfrecord"));
    assert_eq!(info(array, tfrecord), owned("tfrecord", "part-{SHARD_X_OF_Y}.array_record"));
    assert_eq!(info("part-00000-of-00001", array_record), owned("array_record", "part-{SHARD_X_OF_Y}"));
    assert!(DatasetInfo::of_files("set", [shard(plain, 1)], None).is_err());
}

#[test]
fn names_and_versions() {
    let info = |name: &str| DatasetInfo::try_new(name, [shard("part-00000-of-00001", 1)]).unwrap();
    let named = |name: &str| serde_json::from_str::<Value>(&info(name).to_json().unwrap()).unwrap()["name"].clone();
    assert_eq!((named("my-set é"), named("2024"), named("")), ("my_set__".into(), "set_2024".into(), "set_".into()));
    for version in ["", "1.0", "1.0.0-beta", "1..0"] {
        assert!(info("set").with_version(version).to_json().is_err(), "{version}");
    }
    assert!(info("set").with_version("10.2.30").to_json().is_ok());
}

/// The payload, which is what TensorFlow Datasets itself counts.
#[test]
fn tfds_byte_counts_exclude_frames() {
    let info = DatasetInfo::try_new("set", [shard("part-00000-of-00001", 3)]).unwrap();
    assert_eq!(info.splits()[0].num_bytes, 3 * (20 - 16));
}

fn labels(nullable: bool) -> (Mapping, RecordBatch) {
    let schema = Schema::new(vec![
        Field::new("label", DataType::Utf8, nullable),
        Field::new("a", DataType::Struct(vec![Field::new("b", DataType::Utf8, nullable)].into()), nullable),
    ]);
    let words = |words: [&str; 2]| words.map(str::to_owned).to_vec();
    let mut options = MappingOptions::default().with_vocabulary("label", words(["cat", "dog"]));
    options = options.with_choice("label", Choice::Index).with_choice("a/b", Choice::Index);
    options = options.with_vocabulary("a/b", words(["x", " y"]));
    let schema = Arc::new(schema);
    let mapping = Mapping::try_new(&schema, &options).unwrap();
    let text: ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["dog"]));
    let inner: ArrayRef = Arc::new(arrow_array::StringArray::from(vec!["x"]));
    let DataType::Struct(fields) = schema.field(1).data_type().clone() else { unreachable!() };
    let parts = arrow_array::StructArray::new(fields, vec![inner], None);
    (mapping, RecordBatch::try_new(schema, vec![text, Arc::new(parts)]).unwrap())
}

fn class_of(features: &str, pointer: &str) -> String {
    let features: Value = serde_json::from_str(features).unwrap();
    let class = features.pointer(pointer).unwrap_or(&Value::Null)["pythonClassName"].clone();
    class.as_str().unwrap_or_default().rsplit('.').next().unwrap_or_default().to_owned()
}

const LABEL: &str = "/featuresDict/features/label";

/// A label that may be missing is no label to TensorFlow Datasets; one that could be missing, and is not, is.
#[test]
fn labels_that_may_be_missing() {
    let (never, _) = labels(false);
    assert_eq!(class_of(&features_json(&never, None).unwrap(), LABEL), "ClassLabel");

    let (mapping, batch) = labels(true);
    let json = features_json(&mapping, None).unwrap();
    assert_eq!(class_of(&json, LABEL), "Scalar");
    assert_eq!(label_files(&mapping, None).unwrap(), []);

    let mut statistics = Statistics::new(&mapping, Detail::Presence);
    statistics.update_batch(&Encoder::new(Arc::new(mapping.clone())), &batch).unwrap();
    let json = features_json(&mapping, Some(&statistics)).unwrap();
    assert_eq!(class_of(&json, LABEL), "ClassLabel");
    assert_eq!(class_of(&json, "/featuresDict/features/a/featuresDict/features/b"), "ClassLabel");
    // Of the other, Python would strip a word.
    let files = label_files(&mapping, Some(&statistics)).unwrap();
    assert_eq!(files, [("label.labels.txt".to_owned(), "cat\ndog\n".to_owned())]);
}

/// Before the first row nothing is known.
#[test]
fn tfds_features_ignore_statistics_without_rows() {
    let (mapping, _) = labels(true);
    let statistics = Statistics::new(&mapping, Detail::Presence);
    assert_eq!(features_json(&mapping, Some(&statistics)).unwrap(), features_json(&mapping, None).unwrap());
}

#[test]
fn images_are_columns_of_bytes() {
    let fields =
        |nullable| vec![Field::new("image", DataType::Binary, nullable), Field::new("id", DataType::Int64, false)];
    let mapping = |nullable| Mapping::try_new(&Arc::new(Schema::new(fields(nullable))), &Default::default()).unwrap();
    let images = |name: &str| BTreeMap::from([(name.to_owned(), ImageFormat::Png)]);
    let json = features_json_with_images(&mapping(false), None, &images("image")).unwrap();
    assert_eq!(class_of(&json, "/featuresDict/features/image"), "Image");
    for (nullable, name) in [(true, "image"), (false, "id"), (false, "other")] {
        let error = features_json_with_images(&mapping(nullable), None, &images(name)).unwrap_err();
        assert!(error.to_string().contains(&format!("column {name:?} cannot be read as images")), "{error}");
    }
}

/// The header of a PNG file with 8 bits in each of the channels of this type of color, and its pixels.
fn png(color: u8) -> Vec<u8> {
    let header =
        [b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08".as_slice(), &[color], b"\0\0\0crc."].concat();
    [header.as_slice(), b"\0\0\0\x01IDATxcrc."].concat()
}

fn observed(batch: &RecordBatch) -> Value {
    let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap();
    let mut statistics = Statistics::new(&mapping, Detail::Presence);
    statistics.update_batch(&Encoder::new(Arc::new(mapping.clone())), batch).unwrap();
    let statistics = Statistics::from_bytes(&statistics.to_bytes().unwrap()).unwrap();
    serde_json::from_str(&features_json(&mapping, Some(&statistics)).unwrap()).unwrap()
}

#[test]
fn tfds_bytes_are_images_if_all_values_are() {
    let column = |values: Vec<Vec<u8>>| -> Value {
        let values: ArrayRef = Arc::new(arrow_array::BinaryArray::from_iter_values(values));
        observed(&RecordBatch::try_from_iter([("image", values)]).unwrap())["featuresDict"]["features"]["image"].clone()
    };
    let expected = json!({
        "pythonClassName": "tensorflow_datasets.core.features.image_feature.Image",
        "image": { "shape": { "dimensions": ["-1", "-1", "4"] }, "dtype": "uint8", "encodingFormat": "png" },
    });
    assert_eq!(column(vec![png(0), png(6)]), expected);
    for values in [vec![], vec![png(2), b"text".to_vec()]] {
        assert_eq!(column(values)["tensor"]["dtype"], "object");
    }
}

/// An episode of RLDS: a list `steps` of structs with the flags of a step.
#[test]
fn tfds_steps_of_an_episode_are_a_dataset() {
    let steps = |flags: &[&str]| {
        let images: ArrayRef = Arc::new(arrow_array::BinaryArray::from_iter_values([png(2), png(2)]));
        let image = Arc::new(Field::new("image", DataType::Binary, false));
        let observation = arrow_array::StructArray::from(vec![(image, images)]);
        let mut fields: Vec<(&str, ArrayRef)> = vec![("observation", Arc::new(observation))];
        for flag in flags {
            fields.push((*flag, Arc::new(arrow_array::BooleanArray::from(vec![true, false]))));
        }
        let fields = fields
            .into_iter()
            .map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), false)), array));
        let step = arrow_array::StructArray::from(fields.collect::<Vec<_>>());
        let item = Arc::new(Field::new_list_field(step.data_type().clone(), false));
        let lengths = arrow_buffer::OffsetBuffer::from_lengths([2]);
        Arc::new(arrow_array::ListArray::new(item, lengths, Arc::new(step), None)) as ArrayRef
    };
    let class = |name: &str, flags: &[&str]| {
        let features = observed(&RecordBatch::try_from_iter([(name, steps(flags))]).unwrap()).to_string();
        let column = format!("/featuresDict/features/{name}");
        let image = format!("{column}/sequence/feature/featuresDict/features/observation/featuresDict/features/image");
        (class_of(&features, &column), class_of(&features, &image))
    };
    let owned = |class: &str, image: &str| (class.to_owned(), image.to_owned());
    assert_eq!(class("steps", &["is_first", "is_last", "is_terminal"]), owned("Dataset", "Image"));
    // Sequences are decoded as a whole, and images may differ in size.
    assert_eq!(class("steps", &["is_first"]), owned("Sequence", "Scalar"));
    assert_eq!(class("frames", &["is_first", "is_last"]), owned("Sequence", "Scalar"));
}

/// Masks, and parts that another separator sets off, are features by themselves.
#[test]
fn tfds_features_outside_the_columns_are_separate() {
    let point = DataType::Struct(vec![Field::new("x", DataType::Int64, false)].into());
    let grid = DataType::new_list(DataType::new_list(DataType::Int64, true), true);
    let fields = [("point", point), ("id", DataType::Int64), ("grid", grid)];
    let fields: Vec<_> = fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let masked = MappingOptions { nulls: NullPolicy::Mask, ..MappingOptions::default() };
    let json = features_json(&Mapping::try_new(&schema, &masked).unwrap(), None).unwrap();
    let class = |name: &str| class_of(&json, &format!("/featuresDict/features/{name}"));
    let classes = ["point/featuresDict/features/x", "id", "id~1is_null", "grid", "grid~1is_null"].map(class);
    assert_eq!(classes, ["Scalar", "Scalar", "Scalar", "Sequence", "Tensor"], "{json}");

    let dotted = MappingOptions { separator: ".".to_owned(), ..MappingOptions::default() };
    let json = features_json(&Mapping::try_new(&schema.project(&[0]).unwrap().into(), &dotted).unwrap(), None).unwrap();
    assert_eq!(class_of(&json, "/featuresDict/features/point.x"), "Scalar", "{json}");
}

/// A list of two lists of any length has no shape, and no feature of TensorFlow Datasets.
#[test]
fn tfds_features_of_fixed_lists_of_lists_are_separate() {
    let pair = |item| DataType::new_fixed_size_list(item, 2, false);
    let list = |item| DataType::new_list(item, false);
    let column = list(list(pair(list(DataType::Int64))));
    let schema = Arc::new(Schema::new(vec![Field::new("c", column, false)]));
    let json = features_json(&Mapping::try_new(&schema, &MappingOptions::default()).unwrap(), None).unwrap();
    for name in ["c~1ragged_flat_values", "c~1ragged_row_lengths_0"] {
        assert_eq!(class_of(&json, &format!("/featuresDict/features/{name}")), "Tensor", "{json}");
    }
}
