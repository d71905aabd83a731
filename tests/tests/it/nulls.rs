//! What TensorFlow reads of nulls that are written by the policies for which no golden table is: by the module that the
//! command prints.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
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

/// What TensorFlow reads of the first rows of it.
struct Case {
    policy: &'static str,
    arguments: Vec<&'static str>,
    rows: usize,
    /// By feature; those that are not named may be anything.
    expected: Value,
}

impl Case {
    fn new(policy: &'static str, rows: usize, expected: Value) -> Self {
        Self { policy, arguments: Vec::new(), rows, expected }
    }

    fn rules<const N: usize>(mut self, rules: [&'static str; N]) -> Self {
        self.arguments.extend(rules.into_iter().flat_map(|rule| ["--map", rule]));
        self
    }

    fn sequences(mut self) -> Self {
        self.arguments.extend(["--record-type", "sequence-example", "--sequence", "tags"]);
        self
    }
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        // A feature without a kind is a missing one.
        Case::new(
            "unset",
            2,
            json!({
                "x": [1, 0], "word": ["a", ""], "tags": [["a", "b"], []], "pair": [[1, 2], []],
                "point/x": [1, 0], "point/y": [[1.5], []], "grid": [[[1, 2], []], []],
            }),
        ),
        // A feature without values is no single value, so TensorFlow reads those as sparse ones.
        Case::new(
            "empty",
            2,
            json!({
                "x": [[1], []], "word": [["a"], []], "tags": [["a", "b"], []], "pair": [[1, 2], []],
                "point/x": [[1], []], "point/y": [[1.5], []], "grid": [[[1, 2], []], []],
            }),
        ),
        // Elements that are null are left out of lists, whether these are values or lists; all else is as by `absent`.
        Case::new(
            "drop",
            3,
            json!({
                "x": [1, 0, 3], "word": ["a", "", ""], "tags": [["a", "b"], [], ["c"]], "pair": [[1, 2], [], [3, 4]],
                "point/x": [1, 0, 0], "point/y": [[1.5], [], []], "grid": [[[1, 2], []], [], [[3], [4]]],
            }),
        ),
        // The value is there, in a list or not; and TensorFlow is told that it always is.
        Case::new(
            "absent",
            3,
            json!({
                "x": [1, 7, 3], "word": ["a", "none", ""], "tags": [["a", "b"], ["none"], ["c", "none"]],
                "pair": [[1, 2], [8, 8], [3, 4]], "point/x": [1, 9, 9], "point/y": [[1.5], [9.0], []],
                "grid": [[[1, 2], []], [[6]], [[3], [6], [4]]],
            }),
        )
        .rules([
            "x: null=default=7",
            "word: null=default=none",
            "tags: null=default=none",
            "pair: null=default=8",
            "point: null=default=9",
            "grid: null=default=6",
        ]),
        // A null is written by the rule of the part that is null, whatever is said of the parts in it.
        Case::new("drop", 3, json!({"point/x": [1, 0, 5], "point/y": [[1.5], [], []]})).rules([
            "point: null=unset",
            "point/x: null=default=5",
            "point/y: null=empty",
        ]),
        Case::new("drop", 3, json!({"tags": [["a", "b"], [], ["c"]], "x": [1, 0, 3]})).sequences(),
    ];
    // Among the steps of a feature list, and in the context, where TensorFlow takes no feature without a kind for a missing
    // one.
    for policy in ["unset", "empty"] {
        let expected = json!({
            "x": [[1], [], [3]], "word": [["a"], [], [""]], "tags": [[["a"], ["b"]], [], [["c"], []]],
            "pair": [[1, 2], [], [3, 4]], "point/x": [[1], [], []], "point/y": [[1.5], [], []],
            "grid": [[[1, 2], []], [], [[3], [], [4]]],
        });
        cases.push(Case::new(policy, 3, expected).sequences());
    }
    cases
}

fn table() -> RecordBatch {
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
    reader.next().unwrap().unwrap()
}

/// All in one process of Python: it starts more slowly than it reads.
#[test]
fn null_policies_read_in_tensorflow_as_documented() {
    let (scratch, table, cases) = (Scratch::default(), table(), cases());
    let mut sets = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let parquet = scratch.parquet(&format!("{number}.parquet"), &table.slice(0, case.rows), 1024);
        let out = scratch.join(format!("{number}"));
        let mut command = tfr_sql();
        command.arg(format!("SELECT * FROM '{}'", parquet.display())).arg("--out").arg(&out).args(["--shards", "1"]);
        run(command.args(["--null", case.policy]).args(&case.arguments)).success();
        let module = run(tfr_sql().arg("schema").arg(&out).args(["--as", "python"])).success().stdout;
        sets.extend([scratch.text(&format!("{number}.py"), &module), out]);
    }
    let Some(read) = with_tensorflow("tests/interop/read_module.py", |command| command.args(&sets)) else { return };
    let read: Vec<Value> = read.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read.len(), cases.len());
    for (mut read, Case { policy, arguments, expected, .. }) in read.into_iter().zip(cases) {
        let features = read.as_object_mut().unwrap();
        assert_eq!(features.len(), 7, "{policy} {arguments:?}: {features:?}");
        features.retain(|name, _| expected.get(name).is_some());
        assert_eq!(read, expected, "{policy} {arguments:?}");
    }
}

/// A partition in which all values are NULL must not change the filter that MIN and MAX give to the other scans.
#[test]
fn nulls_of_whole_files_leave_min_and_max_as_they_are() {
    let scratch = Scratch::default();
    for (file, values) in [vec![None; 3], vec![Some(-5)], vec![Some(40), None], vec![Some(3)]].into_iter().enumerate() {
        let column = Arc::new(Int64Array::from(values)) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
        scratch.parquet(&format!("t/{file}.parquet"), &batch, 10);
    }
    // With the filter, three runs in five were wrong.
    for _ in 0..15 {
        let mut command = tfr_sql();
        let query = "SELECT min(a) AS low, max(a) AS high FROM 't/'";
        command.current_dir(scratch.path()).args(["--threads", "4", "--partitions", "4", "--format", "csv", query]);
        assert_eq!(run(&mut command).success().stdout, "low,high\n-5,40\n");
    }
}
