//! Directories that TensorFlow Datasets wrote: `tests/data/tfds`, with what it reads from them (`make.py` there).

use std::fs;
use std::path::Path;

use serde_json::Value;
use tfr_tests::{Run, Scratch, repository, run, tfr_sql};

/// The rows of `query`, where `t` is the data set `name`, in the order of its files.
fn read(name: &str, options: &str, query: &str) -> Run {
    let table = format!("t={}{options}", repository().join("tests/data/tfds").join(name).join("1.0.0").display());
    run(tfr_sql().args(["--table", &table, query, "--format", "jsonl"]))
}

fn rows(jsonl: &str) -> Vec<Value> {
    jsonl.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether two values are equal. Both name the nearest number of 32 bits, one of them with more digits.
#[expect(clippy::cast_possible_truncation, reason = "to compare as 32 bits")]
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) if ours.is_f64() || theirs.is_f64() => {
            ours.as_f64().map(|number| number as f32) == theirs.as_f64().map(|number| number as f32)
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| is_same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(name, ours)| theirs.get(name).is_some_and(|theirs| is_same(ours, theirs)))
        }
        _ => ours == theirs,
    }
}

/// Compares the rows of a split with what TensorFlow Datasets reads, without the columns in `unread`.
fn assert_split(name: &str, split: &str, unread: &[&str]) {
    let found = read(name, &format!(",split={split}"), "SELECT * FROM t").success();
    let expected = repository().join("tests/data/tfds").join(format!("{name}-{split}.jsonl"));
    let (found, expected) = (rows(&found.stdout), rows(&fs::read_to_string(expected).unwrap()));
    assert_eq!(found.len(), expected.len());
    for (row, (ours, theirs)) in found.iter().zip(&expected).enumerate() {
        for (column, theirs) in theirs.as_object().unwrap().iter().filter(|(name, _)| !unread.contains(&name.as_str()))
        {
            assert!(is_same(&ours[column], theirs), "row {row}, {column}: {} instead of {theirs}", ours[column]);
        }
    }
}

#[test]
fn tfds_directories_have_the_rows_of_tfds() {
    assert_split("kinds", "train", &["packed", "free"]);
    assert_split("kinds", "test", &["packed", "free"]);
    assert_split("robot", "train", &[]);
    let all = read("kinds", "", "SELECT count(*) AS n FROM t").success();
    assert_eq!(all.stdout, "{\"n\":10}\n");
}

/// What features.json describes in no way that a column can have is read as before, with a warning.
#[test]
fn tfds_encoded_tensors_are_bytes() {
    let found =
        read("kinds", ",split=test", "SELECT \"free/shape\", octet_length(\"free/value\") AS bytes FROM t").success();
    assert_eq!(found.stdout.lines().next(), Some("{\"free/shape\":[2,2],\"bytes\":16}"));
    for problem in
        ["feature \"free\": its tensors are encoded as bytes", "feature \"packed\": its tensors are encoded as zlib"]
    {
        assert_eq!(found.stderr.matches(problem).count(), 1, "{}", found.stderr);
    }
}

/// Whoever names the format wants the features of the records.
#[test]
fn tfds_directories_are_read_as_records_on_request() {
    let query = "SELECT \"episode_metadata/file_path\" AS path, \"steps/action\" AS action FROM t";
    let found = read("robot", ",format=tfrecord", query).success();
    let first = &rows(&found.stdout)[0];
    assert_eq!(first["path"], "/data/4.h5");
    assert_eq!(first["action"].as_array().unwrap().len(), 2 * 5);
}

#[test]
fn tfds_splits_are_found_by_name() {
    let refused = read("kinds", ",split=val", "SELECT * FROM t").exits_with(1);
    assert!(refused.stderr.contains("the splits are: test, train"), "{}", refused.stderr);
}

/// A set of our own has its splits in the manifest.
#[test]
fn splits_of_a_set_are_read_alone() {
    let scratch = Scratch::default();
    let out = scratch.join("set");
    let query = "SELECT value AS id FROM generate_series(1, 100)";
    run(tfr_sql().arg(query).args(["--shuffle", "--split", "train=80rows,val=20rows", "--out"]).arg(&out)).success();
    let count = |split: &str| {
        let table = format!("t={},split={split}", out.display());
        run(tfr_sql().args(["--table", &table, "SELECT count(*) FROM t", "--format", "csv"])).success().stdout
    };
    assert_eq!((count("train"), count("val")), ("count(*)\n80\n".to_owned(), "count(*)\n20\n".to_owned()));
    let (copy, table) = (scratch.join("copy"), format!("t={},split=val", out.display()));
    run(tfr_sql().args(["--table", &table, "SELECT * FROM t", "--out"]).arg(&copy)).success();
    let manifest: Value = serde_json::from_slice(&fs::read(copy.join("_manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["options"]["tables"]["t"]["split"], "val");
}

/// A shard that ends early has sound records. `dataset_info.json` states how many there are.
#[test]
fn tfds_shard_with_fewer_records_fails() {
    let scratch = Scratch::default();
    let directory = scratch.join("robot");
    fs::create_dir(&directory).unwrap();
    for file in fs::read_dir(repository().join("tests/data/tfds/robot/1.0.0")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), directory.join(file.file_name())).unwrap();
    }
    let shard = directory.join("robot-train.tfrecord-00000-of-00001");
    cut_last_record(&shard);
    for query in ["SELECT count(*) FROM t", "SELECT * FROM t"] {
        let table = format!("t={}", directory.display());
        let refused = run(tfr_sql().args(["--table", &table, query])).exits_with(1);
        assert!(refused.stderr.contains("the records end before record 4"), "{}", refused.stderr);
    }
}

#[test]
fn tfds_features_of_another_form_leave_the_columns_of_the_records() {
    let scratch = Scratch::default();
    let directory = scratch.join("robot");
    fs::create_dir(&directory).unwrap();
    let shard = "robot-train.tfrecord-00000-of-00001";
    fs::copy(repository().join("tests/data/tfds/robot/1.0.0").join(shard), directory.join(shard)).unwrap();
    let table = format!("t={}", directory.display());
    let query = "SELECT \"episode_metadata/file_path\" AS path FROM t LIMIT 1";
    let read = || run(tfr_sql().args(["--table", &table, query, "--format", "csv"]));
    let before_4_4 = r#"{"type": "tensorflow_datasets.core.features.features_dict.FeaturesDict", "content": {}}"#;
    for (text, problem) in [(before_4_4, "before 4.4"), ("[]", "not a FeaturesDict")] {
        fs::write(directory.join("features.json"), text).unwrap();
        let found = read().success();
        assert_eq!(found.stdout, "path\n/data/4.h5\n");
        assert_eq!(found.stderr.matches(problem).count(), 1, "{}", found.stderr);
    }
    fs::write(directory.join("features.json"), "{").unwrap();
    let refused = read().exits_with(1);
    assert!(refused.stderr.contains("line 1 column 1"), "{}", refused.stderr);
}

fn cut_last_record(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let (mut last, mut next) = (0, 0);
    while next < bytes.len() {
        last = next;
        let length = u64::from_le_bytes(bytes[next..next + 8].try_into().unwrap());
        next += 16 + usize::try_from(length).unwrap();
    }
    fs::write(path, &bytes[..last]).unwrap();
}

/// The description has the masks as columns of their own.
#[test]
fn tfds_description_with_masks_warns_of_nulls() {
    let scratch = Scratch::default();
    let out = scratch.join("set");
    let query = "SELECT [[1, NULL], [3]] AS grid";
    run(tfr_sql().args([query, "--null", "mask", "--emit", "tfds", "--out"]).arg(&out)).success();
    let table = format!("SELECT grid FROM '{}'", out.display());
    let print = || run(tfr_sql().args([&table, "--format", "jsonl"])).success();
    let written = print();
    assert_eq!((written.stdout.as_str(), written.stderr.as_str()), ("{\"grid\":[[1,null],[3]]}\n", ""));
    for file in ["_manifest.json", "_SUCCESS"] {
        fs::remove_file(out.join(file)).unwrap();
    }
    let read = print();
    assert_eq!(read.stdout, "{\"grid\":[[1,0],[3]]}\n");
    assert!(read.stderr.contains("column \"grid\": nulls in it are read as values"), "{}", read.stderr);
}

/// What `--emit tfds` describes comes back in the same types without the manifest.
#[test]
fn tfds_description_of_a_set_reads_back() {
    let scratch = Scratch::default();
    let out = scratch.join("set");
    let query = "SELECT id, name, score, ok, tags, point FROM (VALUES \
         (1, 'x', 0.5, true, [7, 8], {x: 1, y: 2.5}), (2, 'y', 1.5, false, [9], {x: 3, y: 4.5})) \
         AS t(id, name, score, ok, tags, point) ORDER BY id";
    let table = format!("SELECT * FROM '{}' ORDER BY id", out.display());
    run(tfr_sql().arg(query).args(["--emit", "tfds", "--out"]).arg(&out)).success();
    let print = || run(tfr_sql().args([&table, "--format", "jsonl"])).success().stdout;
    let written = rows(&print());
    for file in ["_manifest.json", "_SUCCESS"] {
        fs::remove_file(out.join(file)).unwrap();
    }
    let read = rows(&print());
    for (written, read) in written.iter().zip(&read) {
        for (column, value) in written.as_object().unwrap() {
            assert!(is_same(&read[column], value), "{column}: {} instead of {value}", read[column]);
        }
    }
    assert_eq!((written.len(), read.len()), (2, 2));
}
