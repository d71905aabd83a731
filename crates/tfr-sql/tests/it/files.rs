//! Values of files that come through, or are missed with a message.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workbench::{Workbench, assert_prints};

/// A file of the tests' data.
fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/values").join(name)
}

/// A scratch directory with copies of these files.
fn with(names: &[&str]) -> Workbench {
    let bench = Workbench::new();
    for name in names {
        fs::copy(data(name), bench.path().join(name)).unwrap();
    }
    bench
}

/// Four records in one file, of which the first has neither a label nor a price.
fn records() -> Workbench {
    let bench = Workbench::new();
    let query = "SELECT label, score, price FROM 'events.parquet' ORDER BY score";
    assert_eq!(bench.tell(&[query, "--out", "shards", "--shards", "1", "--quiet"]), "exit 0\n");
    fs::rename(bench.path().join("shards/part-00000-of-00001.tfrecord"), bench.path().join("late.tfrecord")).unwrap();
    bench
}

#[test]
fn features_that_only_later_records_have_are_counted() {
    let bench = records();
    let first = ["--infer-records", "1"];
    let shown = |arguments: &[&str]| bench.tell(&[arguments, first.as_slice()].concat());
    assert_prints!(shown(&["SELECT * FROM 'late.tfrecord'"]), @r##"
    exit 0
    -- stdout
    price,score
    0.99,0.1
    ,0.25
    10.5,0.5
    -0.01,1.0
    -- stderr
    note: the columns of 'late.tfrecord' are those of only 1 record in 1 file; --infer-records all inspects every record
    warning: late.tfrecord: column "label": records with a feature that is no column, because the inspected records lack it: 3, the first in row 1: not read
    "##);
    // A query that names its columns loses nothing.
    assert_prints!(shown(&["SELECT score FROM 'late.tfrecord' WHERE score > 0.5"]), @r##"
    exit 0
    -- stdout
    score
    1.0
    -- stderr
    note: the columns of 'late.tfrecord' are those of only 1 record in 1 file; --infer-records all inspects every record
    "##);
    assert_prints!(shown(&["SELECT * FROM 'late.tfrecord'", "--strict", "--out", "x", "--quiet"]), @r##"
    exit 1
    -- stderr
    error: late.tfrecord: record 1: the feature "label" is no column, because the inspected records lack it

    hint: inspect every record first: infer_records=all, infer_files=all; or declare the columns
    "##);
    assert!(!bench.path().join("x").exists());
    let all = ["SELECT * FROM 'late.tfrecord'", "--infer-records", "all", "--strict", "--out", "x", "--quiet"];
    assert_eq!(bench.tell(&all), "exit 0\n");
}

#[test]
fn extension_types_are_kept() {
    let bench = with(&["tensor.parquet", "uuid.parquet"]);
    for (query, out) in [
        ("SELECT * FROM 'uuid.parquet'", "a.parquet"),
        ("SELECT * FROM 'a.parquet'", "b.arrow"),
        ("SELECT * FROM 'b.arrow'", "shards"),
        ("SELECT * FROM 'shards'", "c.arrow"),
        ("SELECT * FROM 'shards'", "c.parquet"),
    ] {
        assert_eq!(bench.tell(&[query, "--out", out, "--quiet"]), "exit 0\n", "{out}");
    }
    for file in ["a.parquet", "b.arrow", "shards/_manifest.json", "c.arrow", "c.parquet"] {
        let bytes = fs::read(bench.path().join(file)).unwrap();
        // The footer of Parquet has Arrow's schema in base64.
        let (schema, content) = (bench.tell_tool(&["schema", file, "--as", "json"]), String::from_utf8_lossy(&bytes));
        for extension in ["arrow.uuid", "arrow.json", "arrow.bool8"] {
            assert!(schema.contains(extension) || content.contains(extension), "{file}: {extension}: {schema}");
        }
    }
    // Of shape [2, 3], and of a permutation.
    let dry = |query: &str, map: &[&str]| bench.tell(&[&[query, "--out", "t", "--dry-run"], map].concat());
    let shown = dry("SELECT t FROM 'tensor.parquet'", &[]);
    assert!(shown.contains("[tf.io.RaggedFeature.UniformRowLength(3)]"), "{shown}");
    assert_prints!(dry("SELECT p FROM 'tensor.parquet'", &["--map", "p: tensor"]), @r##"
    exit 1
    -- stderr
    error: column "p": tensors with the permutation [1, 0], whose values are not in the order of their dimensions, are not supported

    hint: write the values in the order in which they lie in memory, without --map 'p: tensor'
    "##);
}

#[test]
fn unnest_names_columns_after_their_values() {
    let bench = with(&["structs.parquet"]);
    assert_prints!(bench.tell(&["SELECT id, unnest(s) FROM 'structs.parquet' WHERE id = 2"]), @r##"
    exit 0
    -- stdout
    id,s.a,s.b
    2,1,
    "##);
    assert_prints!(bench.tell(&["SELECT unnest([id, 7]), id FROM 'structs.parquet' WHERE id = 2"]), @r##"
    exit 0
    -- stdout
    "unnest(make_array(id,Int64(7)))",id
    2,2
    7,2
    "##);
}

#[test]
fn integers_and_floats_in_one_feature_are_doubles() {
    let bench = with(&["int_or_float.tfrecord"]);
    let shown = bench.tell(&["SELECT * FROM 'int_or_float.tfrecord'"]);
    assert!(shown.contains("declare x as DOUBLE"), "{shown}");
    let declared = |columns: &str| {
        bench.tell(&[&format!(
            "CREATE EXTERNAL TABLE t ({columns}) STORED AS TFRECORD LOCATION 'int_or_float.tfrecord'; SELECT * FROM t LIMIT 3"
        )])
    };
    assert_prints!(declared("id BIGINT, x DOUBLE"), @r##"
    exit 0
    -- stdout
    id,x
    0,1.5
    1,1.0
    2,1.5
    "##);
    let shown = declared("x BIGINT");
    assert!(shown.contains("declare x as DOUBLE"), "{shown}");
}

#[test]
fn ragged_features_of_transform_are_one_column() {
    let bench = with(&["transform_ragged.tfrecord"]);
    let rows = "{\"id\":0,\"x\":[]}\n{\"id\":1,\"x\":[[0.0]]}\n{\"id\":2,\"x\":[[0.0,1.0]]}\n";
    let found = bench.tell(&["SELECT id, x FROM 'transform_ragged.tfrecord'", "--format", "jsonl"]);
    assert_eq!(found, format!("exit 0\n-- stdout\n{rows}"));
    bench.text(
        "schema.txt",
        r#"feature { name: "id" type: INT presence { min_fraction: 1.0 } shape { dim { size: 1 } } }
        feature { name: "x$ragged_values" type: FLOAT }
        feature { name: "x$row_lengths_1" type: INT }
        tensor_representation_group { key: "" value { tensor_representation { key: "x" value { ragged_tensor {
            feature_path { step: "x$ragged_values" } partition { row_length: "x$row_lengths_1" } } } } } }"#,
    );
    let table = "t=transform_ragged.tfrecord,schema=schema.txt";
    let found = bench.tell(&["SELECT id, x FROM t", "--table", table, "--format", "jsonl"]);
    assert_eq!(found, format!("exit 0\n-- stdout\n{rows}"));
}
