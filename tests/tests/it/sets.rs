//! What a shard set says of itself, and that it is the same set every time.

use std::fs::{self, File};
use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;
use tfr_examples::{TRIPS, trips_path};
use tfr_tests::{Run, Scratch, read_file, read_shards, repository, run, shard_files, tfr_sql};

fn convert(out: &Path, arguments: &[&str]) -> Run {
    let query = format!("SELECT * FROM '{}' WHERE fare > 10 OR tip IS NULL", trips_path().display());
    run(tfr_sql().arg(query).arg("--out").arg(out).args(arguments)).success()
}

fn json(path: &Path) -> Value {
    serde_json::from_reader(File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).unwrap()
}

fn schema(name: &str) -> Validator {
    jsonschema::validator_for(&json(&repository().join("schemas").join(name))).unwrap()
}

#[track_caller]
fn assert_valid(schema: &Validator, value: &Value) {
    let errors: Vec<_> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
}

#[test]
fn the_same_command_makes_the_same_set() {
    let scratch = Scratch::default();
    let arguments = ["--shards", "5", "--compression", "gzip", "--threads", "2"];
    let sets = ["one", "two"].map(|name| {
        let out = scratch.join(name);
        convert(&out, &arguments);
        let mut manifest = json(&out.join("_manifest.json"));
        assert_ne!(manifest["run"].take(), Value::Null);
        assert_ne!(manifest["created"].take(), Value::Null);
        assert_ne!(manifest["manifest_crc32c"].take(), Value::Null);
        let shards: Vec<_> = shard_files(&out).iter().map(|path| fs::read(path).unwrap()).collect();
        assert_eq!(shards.len(), 5);
        (manifest, shards)
    });
    assert_eq!(sets[0].0, sets[1].0);
    assert!(sets[0].1 == sets[1].1, "the bytes differ");
}

#[test]
fn rows_do_not_depend_on_threads() {
    let scratch = Scratch::default();
    let sorted = ["1", "2", "5"].map(|threads| {
        let out = scratch.join(threads);
        convert(&out, &["--threads", threads, "--shards", "3"]);
        let mut records: Vec<_> = read_shards(&out).iter().map(|record| format!("{record:?}")).collect();
        records.sort();
        records
    });
    assert!(!sorted[0].is_empty());
    assert!(sorted[1] == sorted[0] && sorted[2] == sorted[0]);
}

#[test]
fn bytes_depend_on_partitions_and_not_on_threads() {
    let scratch = Scratch::default();
    let input = scratch.join("in");
    fs::create_dir(&input).unwrap();
    for copy in 0..6 {
        fs::copy(trips_path(), input.join(format!("{copy}.parquet"))).unwrap();
    }
    let shards = |threads: &str, partitions: &str, options: &[&str]| {
        let out = scratch.join("out");
        let query = format!("SELECT * FROM '{}/*.parquet'", input.display());
        let resources = ["--threads", threads, "--partitions", partitions, "--mode", "overwrite"];
        run(tfr_sql().arg(query).arg("--out").arg(&out).args(resources).args(options)).success();
        let manifest = json(&out.join("_manifest.json"));
        assert_eq!(manifest["write_partitions"], partitions.parse::<u64>().unwrap());
        shard_files(&out).iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    for options in [&["--shards", "3"][..], &["--shard-rows", "700"], &["--split", "train=0.8,test=0.2"]] {
        let three = shards("1", "3", options);
        assert!(three == shards("4", "3", options), "{options:?}: the bytes depend on the threads");
        // Rows that are sorted by split keep the order of the files.
        let is_sorted = options.contains(&"--split");
        assert!((three == shards("4", "2", options)) == is_sorted, "{options:?}: other bytes for other partitions");
    }
}

#[test]
fn shards_are_balanced() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    run(tfr_sql()
        .arg(format!("SELECT * FROM '{}'", trips_path().display()))
        .arg("--out")
        .arg(&out)
        .args(["--shards", "16"]))
    .success();
    let rows: Vec<_> = shard_files(&out).iter().map(|path| read_file(path).len()).collect();
    assert_eq!(rows.iter().sum::<usize>(), TRIPS as usize);
    let even = TRIPS as usize / 16;
    assert!(rows.iter().all(|rows| rows.abs_diff(even) * 20 <= even), "{rows:?}: more than 5 % from {even}");
}

#[test]
fn manifest_and_report_follow_their_schemas() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let finished = convert(&out, &["--shard-rows", "700", "--map", "distance_km: bits", "--report", "json"]);
    let manifest = json(&out.join("_manifest.json"));
    assert_valid(&schema("manifest.schema.json"), &manifest);
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_valid(&schema("report.schema.json"), &report);
    assert_eq!(report["rows"], manifest["totals"]["rows"]);
    let shards = manifest["shards"].as_array().unwrap();
    assert_eq!(shards.len(), shard_files(&out).len());
    for (shard, file) in shards.iter().zip(shard_files(&out)) {
        let bytes = fs::read(&file).unwrap();
        let crc = tfrecord_framing::unmask_crc(tfrecord_framing::masked_crc32c(&bytes));
        assert_eq!(shard["crc32c"], format!("{crc:08x}"), "{}", file.display());
        assert_eq!(shard["file_bytes"], bytes.len());
        assert_eq!(shard["rows"], read_file(&file).len());
    }
}
