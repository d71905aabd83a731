//! `--record-format array_record`: Google's reader and TensorFlow Datasets find the records of the same set as TFRecord.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tfr_examples::trips_path;
use tfr_tests::{S3Server, Scratch, repository, run, shard_files, tfr_sql};

use crate::checker::with_tensorflow;

/// Rows of all lengths: records of some bytes, and some of more than a block of 64 KiB.
const ROWS: &str = "SELECT value AS id, concat('row ', value % 7) AS name, \
                    CASE WHEN value % 97 = 0 THEN repeat('x', 100000 + value) ELSE repeat('y', value % 301) END AS text \
                    FROM generate_series(1, 3000)";

const ARRAY_RECORD: [&str; 2] = ["--record-format", "array_record"];

fn trips() -> String {
    format!("SELECT * FROM '{}'", trips_path().display())
}

fn write(query: &str, out: &Path, arguments: &[&str]) {
    run(tfr_sql().arg(query).arg("--out").arg(out).args(arguments)).success();
}

fn manifest(directory: &Path) -> Value {
    serde_json::from_slice(&fs::read(directory.join("_manifest.json")).unwrap()).unwrap()
}

/// The figures of each shard that do not depend on the format.
fn figures(manifest: &Value) -> Vec<(String, Value, Value)> {
    let shards = manifest["shards"].as_array().unwrap().iter();
    let stem = |path: &Value| path.as_str().unwrap().rsplit_once('.').unwrap().0.to_owned();
    shards.map(|shard| (stem(&shard["path"]), shard["rows"].clone(), shard["framed_bytes"].clone())).collect()
}

/// Every way to write a set, in both formats: the same records in the same shards.
#[test]
fn array_record_sets_have_the_records_of_the_same_sets_as_tfrecord() {
    let scratch = Scratch::default();
    let nothing = format!("SELECT * FROM ({ROWS}) WHERE id < 0");
    let cases: [(&str, &str, &[&str]); 9] = [
        ("count", ROWS, &["--shards", "3"]),
        ("sized", ROWS, &["--shard-size", "200KiB"]),
        ("empty", &nothing, &["--shards", "2"]),
        ("shuffled", ROWS, &["--shards", "4", "--shuffle", "--seed", "7"]),
        ("split", ROWS, &["--split", "train=0.9,val=0.1", "--shards", "train=3,val=1", "--emit", "tfds,tfmd,stats"]),
        ("tfds", &trips(), &["--shards", "2", "--emit", "tfds"]),
        ("partitioned", ROWS, &["--partition-by", "name", "--shards", "1"]),
        ("groups", ROWS, &["--shards", "2"]),
        ("zstd", ROWS, &["--shards", "2", "--emit", "tfds"]),
    ];
    let mut pairs = Vec::new();
    for (name, query, arguments) in cases {
        let (plain, array) = (scratch.join(format!("{name}-tfrecord")), scratch.join(name));
        write(query, &plain, arguments);
        let more: &[&str] = match name {
            "groups" => &["--group-size", "128"],
            "zstd" => &["--group-size", "16", "--compression", "zstd"],
            _ => &[],
        };
        write(query, &array, &[arguments, &ARRAY_RECORD, more].concat());
        assert_eq!(figures(&manifest(&plain)), figures(&manifest(&array)), "{name}");
        // Again, byte for byte, on one thread.
        let again = scratch.join(format!("{name}-again"));
        write(query, &again, &[arguments, &ARRAY_RECORD, more, &["--threads", "1"]].concat());
        assert_eq!(manifest(&array)["shards"], manifest(&again)["shards"], "{name}");
        pairs.extend([plain, array]);
    }
    let Some(read) = with_tensorflow("tests/interop/check_array_record.py", |command| command.args(&pairs)) else {
        return;
    };
    assert!(read.stdout.ends_with(" files\n"), "{}", read.stdout);
}

#[test]
fn array_record_append_checks_the_format() {
    let scratch = Scratch::default();
    let (plain, array) = (scratch.join("plain"), scratch.join("array"));
    for (out, format) in [(&plain, &[][..]), (&array, &ARRAY_RECORD[..])] {
        write(ROWS, out, &[&["--shards", "2"], format].concat());
    }
    let append = |out: &Path, arguments: &[&str]| {
        run(tfr_sql().arg(ROWS).arg("--out").arg(out).args(["--mode", "append", "--shards", "1"]).args(arguments))
    };
    let zstd = [&ARRAY_RECORD[..], &["--compression", "zstd"]].concat();
    let grouped = [&ARRAY_RECORD[..], &["--group-size", "2"]].concat();
    for (out, arguments, expected) in [
        (&plain, &ARRAY_RECORD[..], "the record format is array_record, in the set it is tfrecord"),
        (&array, &[], "the record format is tfrecord, in the set it is array_record"),
        (&array, &zstd, "the compression is zstd, in the set it is none"),
        (&array, &grouped, "the group size is 2, in the set it is 1"),
    ] {
        let refused = append(out, arguments).exits_with(1);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
        assert_eq!(manifest(out)["shards"].as_array().unwrap().len(), 2);
    }
    append(&plain, &[]).success();
    append(&array, &ARRAY_RECORD).success();
    assert_eq!(figures(&manifest(&plain)).len(), 3);
    let last = &manifest(&array)["shards"][2];
    assert!(last["path"].as_str().unwrap().ends_with("-00000-of-00001.array_record"), "{last}");
}

#[test]
fn array_record_manifest_states_the_format_and_the_chunks() {
    let scratch = Scratch::default();
    let out = scratch.join("out");
    write(
        ROWS,
        &out,
        &[&ARRAY_RECORD[..], &["--shards", "1", "--group-size", "128", "--compression", "zstd"]].concat(),
    );
    let manifest = manifest(&out);
    assert_eq!(manifest["record_format"], "array_record");
    assert_eq!(manifest["chunks"], json!({ "group_size": 128, "compression": "zstd" }));
    assert_eq!((&manifest["compression"], &manifest["options"]["level"]), (&json!("none"), &Value::Null));
    let schema = fs::read(repository().join("schemas/manifest.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_slice(&schema).unwrap()).unwrap();
    assert!(schema.is_valid(&manifest));
}

#[test]
fn array_record_rejects_what_it_does_not_have() {
    let scratch = Scratch::default();
    let out = scratch.join("out");
    let refused = |arguments: &[&str]| {
        let refused = run(tfr_sql().arg(ROWS).arg("--out").arg(&out).args(arguments)).exits_with(2);
        assert!(!out.exists());
        refused.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let array = |arguments: &[&'static str]| refused(&[&ARRAY_RECORD[..], arguments].concat());
    insta::assert_debug_snapshot!([
        array(&["--compression", "gzip"]),
        array(&["--compression", "brotli"]),
        array(&["--compression", "zstd", "--level", "3"]),
        array(&["--group-size", "0"]),
        array(&["--group-size", "65537"]),
        array(&["--emit", "index"]),
        array(&["--emit", "parse-fn"]),
        array(&["--layout", "snapshot"]),
        refused(&["--compression", "zstd"]),
        refused(&["--group-size", "2"]),
        refused(&["--record-format", "tfrecord", "--group-size", "2"]),
        refused(&["--record-format", "riegeli"]),
    ], @r#"
    [
        "error: --compression gzip cannot be used with --record-format array_record, which has none or zstd",
        "error: invalid value 'brotli' for '--compression <NAME>': expected none, gzip or zlib, or zstd with array_record",
        "error: --level 3 cannot be used with --record-format array_record: only gzip and zlib have levels",
        "error: invalid value '0' for '--group-size <N>': expected a number from 1 to 65536",
        "error: invalid value '65537' for '--group-size <N>': expected a number from 1 to 65536",
        "error: --emit index cannot be used with --record-format array_record: its files have an index themselves",
        "error: --emit parse-fn cannot be used with --record-format array_record: the module reads TFRecord",
        "error: the argument '--record-format <FORMAT>' is for shards of records and cannot be used with '--layout snapshot'",
        "error: --compression zstd cannot be used with --record-format tfrecord, which has none, gzip or zlib",
        "error: the following required arguments were not provided:",
        "error: --group-size needs --record-format array_record: only its files have groups of records",
        "error: invalid value 'riegeli' for '--record-format <FORMAT>': expected tfrecord or array_record",
    ]
    "#);
}

#[test]
fn array_record_shards_in_an_object_store_are_those_on_a_disk() {
    let scratch = Scratch::default();
    let out = scratch.join("out");
    let arguments = [&ARRAY_RECORD[..], &["--shards", "3", "--group-size", "8"]].concat();
    write(ROWS, &out, &arguments);
    let server = S3Server::default();
    run(server.tfr_sql().arg(ROWS).arg("--out").arg(server.url("set/")).args(&arguments)).success();
    let files = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let shards: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "array_record")).collect();
    assert_eq!(shards.len(), 3);
    for shard in shards {
        let name = shard.file_name().unwrap().to_str().unwrap();
        assert!(server.object(&format!("set/{name}")) == fs::read(&shard).unwrap(), "{name}");
    }
}

/// The records of TFRecord files, moved without being decoded.
#[test]
fn array_record_reshard_moves_records() {
    let scratch = Scratch::default();
    let (plain, moved, direct) = (scratch.join("plain"), scratch.join("moved"), scratch.join("direct"));
    write(ROWS, &plain, &["--shards", "1"]);
    let arguments = [&ARRAY_RECORD[..], &["--shards", "1", "--compression", "zstd", "--group-size", "5"]].concat();
    run(tfr_sql().arg("reshard").arg(&plain).arg("--out").arg(&moved).args(&arguments)).success();
    write(ROWS, &direct, &arguments);
    let file = |out: &Path| fs::read(out.join("part-00000-of-00001.array_record")).unwrap();
    assert!(file(&moved) == file(&direct));
    assert_eq!(shard_files(&plain).len(), 1);
}

/// The module that `schema --as python` prints reads the rows, and the statement of `--as ddl` names the format.
#[test]
fn array_record_schema_opens_array_record() {
    let scratch = Scratch::default();
    let mut sets = Vec::new();
    for (name, format) in [("plain", &[][..]), ("array", &ARRAY_RECORD[..]), ("inferred", &ARRAY_RECORD[..])] {
        let out = scratch.join(name);
        let query =
            "SELECT id, name, 'é' || name AS text, [id, id] AS list FROM (VALUES (1, 'a'), (2, 'b')) AS t(id, name)";
        write(query, &out, &[&["--shards", "1"], format].concat());
        if name == "inferred" {
            fs::remove_file(out.join("_manifest.json")).unwrap();
        }
        let schema = |form: &str| run(tfr_sql().arg("schema").arg(&out).args(["--as", form])).success().stdout;
        let stored = if format.is_empty() { "\nSTORED AS TFRECORD\n" } else { "\nSTORED AS ARRAYRECORD\n" };
        assert!(schema("ddl").contains(stored), "{}", schema("ddl"));
        sets.extend([scratch.text(&format!("{name}.py"), &schema("python")), out]);
    }
    let Some(read) = with_tensorflow("tests/interop/read_module.py", |command| command.args(&sets)) else { return };
    let rows: Vec<Value> = read.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[0], json!({ "id": [1, 2], "name": ["a", "b"], "text": ["éa", "éb"], "list": [[1, 1], [2, 2]] }));
    assert_eq!(rows[1], rows[0]);
    // Without the manifest, columns are inferred: lists of one length are dense.
    assert_eq!(rows[2], rows[0]);
}

#[test]
fn array_record_summary_has_the_size_before_compression_if_there_is_one() {
    let scratch = Scratch::default();
    let summary = |arguments: &[&str]| {
        let out = scratch.join(format!("{}", arguments.len()));
        let finished = run(tfr_sql().arg(ROWS).arg("--out").arg(&out).args(ARRAY_RECORD).args(arguments)).success();
        finished.stderr.contains("before compression")
    };
    assert!(!summary(&[]) && !summary(&["--group-size", "128"]));
    assert!(summary(&["--group-size", "128", "--compression", "zstd"]));
}

/// `rebuild` writes the same files from the manifest.
#[test]
fn array_record_sets_are_rebuilt() {
    let scratch = Scratch::default();
    let (out, again) = (scratch.join("out"), scratch.join("again"));
    write(ROWS, &out, &[&ARRAY_RECORD[..], &["--shards", "2", "--group-size", "3", "--compression", "zstd"]].concat());
    run(tfr_sql().arg("rebuild").arg(&out).arg("--out").arg(&again)).success();
    assert_eq!(manifest(&out)["shards"], manifest(&again)["shards"]);
}
