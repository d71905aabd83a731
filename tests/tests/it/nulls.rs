//! What TensorFlow reads of nulls that are written by the policies for which no golden table is: by the module that the
//! command prints.

use std::fs;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::json::ReaderBuilder;
use serde_json::{Value, json};
use tfr_tests::{Scratch, run, tfr_sql};

use crate::checker::with_tensorflow;

/// A row without nulls, one of nulls, and one with nulls in lists.
const ROWS: &str = r#"
{"x": 1, "word": "a", "tags": ["a", "b"], "pair": [1, 2], "point": {"x": 1, "y": [1.5]}, "grid": [[1, 2], []]}
{}
{"x": 3, "word": "", "tags": ["c", null], "pair": [3, 4], "point": {"x": null, "y": []}, "grid": [[3], null, [4]]}
"#;

/// The first two rows of it, or all.
fn read(policy: &str, arguments: &[&str], rows: usize) -> Option<Value> {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let list = |data_type| DataType::List(item(data_type));
    let point = [Field::new("x", DataType::Int64, true), Field::new("y", list(DataType::Float32), true)];
    let columns = [
        ("x", DataType::Int64),
        ("word", DataType::Utf8),
        ("tags", list(DataType::Utf8)),
        ("pair", DataType::FixedSizeList(item(DataType::Int64), 2)),
        ("point", DataType::Struct(Fields::from_iter(point))),
        ("grid", list(list(DataType::Int64))),
    ];
    let fields = columns.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec();
    let mut reader = ReaderBuilder::new(Arc::new(Schema::new(fields))).build(ROWS.as_bytes()).unwrap();
    let table = reader.next().unwrap().unwrap().slice(0, rows);

    let scratch = Scratch::default();
    let (parquet, out, module) =
        (scratch.parquet("nulls.parquet", &table, 1024), scratch.join("out"), scratch.join("m.py"));
    let mut command = tfr_sql();
    command.arg(format!("SELECT * FROM '{}'", parquet.display())).arg("--out").arg(&out).args(["--shards", "1"]);
    run(command.args(["--null", policy]).args(arguments)).success();
    fs::write(&module, run(tfr_sql().arg("schema").arg(&out).args(["--as", "python"])).success().stdout).unwrap();
    let read = with_tensorflow("tests/interop/read_module.py", |command| command.arg(&module).arg(&out))?;
    Some(serde_json::from_str(&read.stdout).unwrap_or_else(|error| panic!("{error}: {}", read.stdout)))
}

/// A feature without a kind is a missing one.
#[test]
fn null_unset_reads_as_a_missing_feature() {
    let Some(read) = read("unset", &[], 2) else { return };
    let expected = json!({
        "x": [1, 0], "word": ["a", ""], "tags": [["a", "b"], []], "pair": [[1, 2], []],
        "point/x": [1, 0], "point/y": [[1.5], []], "grid": [[[1, 2], []], []],
    });
    assert_eq!(read, expected);
}

/// A feature without values is no single value, so TensorFlow reads those as sparse ones.
#[test]
fn null_empty_reads_as_a_sparse_feature() {
    let Some(read) = read("empty", &[], 2) else { return };
    let expected = json!({
        "x": [[1], []], "word": [["a"], []], "tags": [["a", "b"], []], "pair": [[1, 2], []],
        "point/x": [[1], []], "point/y": [[1.5], []], "grid": [[[1, 2], []], []],
    });
    assert_eq!(read, expected);
}

/// Elements that are null are left out of lists, whether these are values or lists; all else is as by `absent`.
#[test]
fn null_drop_omits_null_elements() {
    let Some(read) = read("drop", &[], 3) else { return };
    let expected = json!({
        "x": [1, 0, 3], "word": ["a", "", ""], "tags": [["a", "b"], [], ["c"]], "pair": [[1, 2], [], [3, 4]],
        "point/x": [1, 0, 0], "point/y": [[1.5], [], []], "grid": [[[1, 2], []], [], [[3], [4]]],
    });
    assert_eq!(read, expected);
}

/// The value is there, in a list or not; and TensorFlow is told that it always is.
#[test]
fn null_default_reads_as_the_value() {
    let rules = ["x: null=default=7", "word: null=default=none", "tags: null=default=none", "pair: null=default=8"];
    let rules = rules.into_iter().chain(["point: null=default=9", "grid: null=default=6"]);
    let arguments: Vec<_> = rules.flat_map(|rule| ["--map", rule]).collect();
    let Some(read) = read("absent", &arguments, 3) else { return };
    let expected = json!({
        "x": [1, 7, 3], "word": ["a", "none", ""], "tags": [["a", "b"], ["none"], ["c", "none"]],
        "pair": [[1, 2], [8, 8], [3, 4]], "point/x": [1, 9, 9], "point/y": [[1.5], [9.0], []],
        "grid": [[[1, 2], []], [[6]], [[3], [6], [4]]],
    });
    assert_eq!(read, expected);
}

/// A null is written by the rule of the part that is null, whatever is said of the parts in it.
#[test]
fn null_parent_is_written_by_its_own_rule() {
    let rules = ["point: null=unset", "point/x: null=default=5", "point/y: null=empty"];
    let arguments: Vec<_> = rules.into_iter().flat_map(|rule| ["--map", rule]).collect();
    let Some(read) = read("drop", &arguments, 3) else { return };
    assert_eq!((&read["point/x"], &read["point/y"]), (&json!([1, 0, 5]), &json!([[1.5], [], []])));
}

/// Among the steps of a feature list, and in the context, where TensorFlow takes no feature without a kind for a missing
/// one.
#[test]
fn null_policies_apply_to_sequence_steps() {
    let sequences = ["--record-type", "sequence-example", "--sequence", "tags"];
    for policy in ["unset", "empty"] {
        let Some(read) = read(policy, &sequences, 3) else { return };
        let expected = json!({
            "x": [[1], [], [3]], "word": [["a"], [], [""]], "tags": [[["a"], ["b"]], [], [["c"], []]],
            "pair": [[1, 2], [], [3, 4]], "point/x": [[1], [], []], "point/y": [[1.5], [], []],
            "grid": [[[1, 2], []], [], [[3], [], [4]]],
        });
        assert_eq!(read, expected, "{policy}");
    }
    let Some(read) = read("drop", &sequences, 3) else { return };
    assert_eq!((&read["tags"], &read["x"]), (&json!([["a", "b"], [], ["c"]]), &json!([1, 0, 3])));
}
