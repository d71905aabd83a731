//! What `describe` says of directories that others wrote: what their records hold, and what they say of themselves.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use prost::Message;
use serde_json::Value;
use tfr_proto::tensorflow::metadata::v0::feature_name_statistics::{FieldId, Stats, Type};
use tfr_proto::tensorflow::metadata::v0::{CommonStatistics, DatasetFeatureStatisticsList, FeatureNameStatistics};
use tfr_tests::{Corpus, Feature, Record, Scratch, read_file, read_sequences, repository, run, tfr_sql};

use crate::tfrecords::{SEQUENCES, is_records};

/// Of a feature: its kind, the records that have it, and the least and the greatest number of its values in one.
type Held = BTreeMap<String, (&'static str, u64, u64, u64)>;

/// What records hold, by protobuf.
fn held(records: &[Record]) -> Held {
    let mut held = Held::new();
    for (name, feature) in records.iter().flatten() {
        let (kind, values) = match feature {
            Feature::Bytes(values) => ("bytes", values.len()),
            Feature::Float(values) => ("float", values.len()),
            Feature::Int64(values) => ("int64", values.len()),
            Feature::Unset => continue,
        };
        let values = values as u64;
        let (_, present, least, most) = held.entry(name.clone()).or_insert((kind, 0, values, values));
        (*present, *least, *most) = (*present + 1, values.min(*least), values.max(*most));
    }
    held
}

/// What `_stats.pb` says of that, and of how many records.
fn shown(dir: &Path) -> (u64, Held) {
    let list = DatasetFeatureStatisticsList::decode(&*fs::read(dir.join("_stats.pb")).unwrap()).unwrap();
    let [dataset] = &list.datasets[..] else { panic!("{} data sets", list.datasets.len()) };
    let features = dataset.features.iter().map(|feature| {
        let common = common(feature);
        let kind = match feature.r#type() {
            Type::Int => "int64",
            Type::Float => "float",
            Type::String | Type::Bytes => "bytes",
            Type::Struct => "struct",
        };
        assert_eq!(common.num_missing + common.num_non_missing, dataset.num_examples);
        (name(feature), (kind, common.num_non_missing, common.min_num_values, common.max_num_values))
    });
    (dataset.num_examples, features.collect())
}

fn name(feature: &FeatureNameStatistics) -> String {
    match feature.field_id.as_ref().unwrap() {
        FieldId::Path(path) => path.step.join("/"),
        FieldId::Name(name) => name.clone(),
    }
}

fn common(feature: &FeatureNameStatistics) -> &CommonStatistics {
    let common = match feature.stats.as_ref().unwrap() {
        Stats::NumStats(stats) => &stats.common_stats,
        Stats::StringStats(stats) => &stats.common_stats,
        Stats::BytesStats(stats) => &stats.common_stats,
        Stats::StructStats(stats) => &stats.common_stats,
    };
    common.as_ref().unwrap()
}

/// Every file of the corpus: a sound one by what protobuf finds in it, a damaged one by its place.
#[test]
fn describe_matches_protobuf_on_the_corpus() {
    let Some(corpus) = Corpus::find() else { return };
    let scratch = Scratch::default();
    let (mut compared, mut refused) = (0, 0);
    for (number, entry) in corpus.entries(&["tfrecord", "tfds"]).iter().filter(|entry| is_records(entry)).enumerate() {
        let (dir, file) = (scratch.join(number.to_string()), corpus.join(&entry.path));
        fs::create_dir(&dir).unwrap();
        fs::copy(&file, dir.join(file.file_name().unwrap())).unwrap();
        let described = run(tfr_sql().arg("describe").arg(&dir));
        match entry.expect.as_str() {
            "ok" => {
                described.success();
                let are_sequences = SEQUENCES.contains(&entry.path.as_str());
                let expected = if are_sequences {
                    held(&read_sequences(&file).into_iter().map(|record| record.context).collect::<Vec<_>>())
                } else {
                    held(&read_file(&file))
                };
                let (rows, mut features) = shown(&dir);
                // Feature lists stand beside the context, which is compared.
                features.retain(|name, _| expected.contains_key(name) || !are_sequences);
                assert_eq!((Some(rows), features), (entry.rows, expected), "{}", entry.path);
                compared += 1;
            }
            "error" => {
                let message = described.exits_with(1).stderr;
                assert!(message.contains(file.file_name().unwrap().to_str().unwrap()), "{message}");
                assert!(message.contains("record ") && message.contains(" at byte "), "{message}");
                assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "{}", entry.path);
                refused += 1;
            }
            _ => assert!(matches!(described.code, Some(0 | 1)), "{}: {}", entry.path, described.stderr),
        }
    }
    assert!(compared >= 38 && refused >= 16, "{compared} compared, {refused} refused");
}

/// Files of others are described where they lie, and nothing of theirs is touched.
#[test]
fn directories_of_spark_and_tensorflow() {
    let golden = repository().join("../shared/golden");
    if !golden.is_dir() {
        return eprintln!("skipped: {} is not at hand", golden.display());
    }
    let scratch = Scratch::default();
    let mut compared = 0;
    for folder in ["spark", "tf", "tfx_bsl"] {
        for file in fs::read_dir(golden.join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.file_name().unwrap().to_str().unwrap();
            if !name.ends_with(".tfrecord") {
                continue;
            }
            let dir = scratch.join(format!("{folder}-{name}"));
            fs::create_dir(&dir).unwrap();
            fs::copy(&file, dir.join("part-00000-of-00001.tfrecord")).unwrap();
            let described = run(tfr_sql().arg("describe").arg(&dir)).success();
            if !described.stderr.contains("left out tfmd") {
                compared += 1;
                for file in ["dataset_info.json", "features.json", "schema.pbtxt"] {
                    assert!(dir.join(file).is_file(), "{folder}/{name}: {file}: {}", described.stderr);
                }
            }
            assert!(dir.join("_stats.html").is_file() && dir.join("_parse_example.py").is_file(), "{folder}/{name}");
            run(tfr_sql().arg("describe").arg(&dir)).success();
            run(tfr_sql().arg("stats").arg(&dir)).success();
        }
    }
    assert!(compared > 50, "{compared}");
}

/// What TensorFlow Datasets has told of its own files is what we tell.
#[test]
fn directories_of_tensorflow_datasets() {
    let Some(corpus) = Corpus::find() else { return };
    let scratch = Scratch::default();
    let infos = corpus.entries(&["tfds"]).into_iter().filter(|entry| entry.path.ends_with("/dataset_info.json"));
    let mut compared = 0;
    for (number, entry) in infos.enumerate() {
        let (info, out) = (corpus.join(&entry.path), scratch.join(number.to_string()));
        let dir = info.parent().unwrap();
        let before = fs::read_dir(dir).unwrap().count();
        run(tfr_sql().arg("describe").arg(dir).args(["--emit", "tfds,tfmd,stats"]).arg("--out").arg(&out)).success();
        assert_eq!(fs::read_dir(dir).unwrap().count(), before);
        // Its first versions counted the frames of records, too.
        let frame_len = if entry.path.starts_with("tfds/trax/") { 16 } else { 0 };
        assert_eq!(splits(&out.join("dataset_info.json"), frame_len), splits(&info, 0), "{}", entry.path);
        // Beside the files theirs stand, and are left alone.
        let refused = run(tfr_sql().arg("describe").arg(dir).args(["--emit", "tfds"])).exits_with(1);
        assert!(refused.stderr.contains("--replace"), "{}", refused.stderr);
        compared += 1;
    }
    assert!(compared >= 4, "{compared}");
}

/// Of each split the records of its shards, and the bytes of all.
fn splits(info: &Path, frame_len: u64) -> BTreeMap<String, (Vec<u64>, u64)> {
    let info: Value = serde_json::from_slice(&fs::read(info).unwrap()).unwrap();
    // Numbers of 64 bits are texts in the JSON of protobuf.
    let number = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
    let shown = |split: &Value| {
        let records: Vec<u64> = split["shardLengths"].as_array().unwrap().iter().map(number).collect();
        let bytes = number(&split["numBytes"]) + frame_len * records.iter().sum::<u64>();
        (split["name"].as_str().unwrap().to_owned(), (records, bytes))
    };
    info["splits"].as_array().unwrap().iter().map(shown).collect()
}
