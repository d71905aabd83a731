//! TensorFlow reads every table of `golden/tables`, and every choice of a form, value for value.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Date64Array, Decimal128Array, Float64Array, Int64Array, ListArray, RecordBatch,
    Time32MillisecondArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt64Array,
};
use arrow::datatypes::Float64Type;
use tfr_examples::trips_path;
use tfr_tests::{Scratch, golden_table, repository, run, shard_files, tfr_sql};

use crate::came_back::Rules;
use crate::checker::{Job, check, with_tensorflow};
use crate::kinds::{self, Case};

pub const GOLDEN: [&str; 27] = [
    "binary",
    "bool",
    "decimal",
    "dictionary",
    "empty_table",
    "fixed_size_list",
    "float16",
    "floats",
    "ints",
    "large_list",
    "list_bytes",
    "list_bytes_null_elem",
    "list_float",
    "list_int64",
    "list_int64_null_elem",
    "long",
    "mixed",
    "names",
    "nested",
    "no_value_row",
    "nulls",
    "sequence",
    "strings",
    "struct",
    "temporal",
    "uint64_big",
    "uints",
];

/// Columns with a form to choose, and the choices that each has.
pub const CHOICES: [(&str, &[&str]); 14] = [
    ("u64", &["wrap"]),
    ("f64", &["bits", "string", "tensor"]),
    ("list_f64", &["bits", "string", "tensor"]),
    ("decimal", &["string", "unscaled"]),
    ("date32", TEMPORAL),
    ("date64", TEMPORAL),
    ("time_ms", TEMPORAL),
    ("time_us", TEMPORAL),
    ("ts_s", TEMPORAL),
    ("ts_us", TEMPORAL),
    ("ts_ns", TEMPORAL),
    ("ts_utc", TEMPORAL),
    ("ts_zone", TEMPORAL),
    ("list_ts", TEMPORAL),
];
const TEMPORAL: &[&str] = &["string", "seconds", "millis", "micros"];

#[test]
fn tensorflow_reads_what_we_write() {
    let scratch = Scratch::default();
    let mut jobs: Vec<Job> = GOLDEN.iter().map(|table| golden(&scratch, table)).collect();
    let with_nulls = ["list_bytes_null_elem", "list_int64_null_elem", "nested", "nulls", "sequence", "struct"];
    jobs.extend(with_nulls.map(|table| masked(&scratch, table)));
    jobs.extend(kinds::cases().into_iter().map(|case| kind(&scratch, case)));
    jobs.extend(choices(&scratch));
    jobs.extend(layouts(&scratch));
    let Some(answers) = check(&jobs) else { return };

    let wrong: Vec<_> = answers.iter().filter(|answer| answer.outcome != refused(&answer.name)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The outcome of a table: "value" is what refuses it.
pub fn refused(name: &str) -> &'static str {
    match name {
        _ if name.ends_with("masks") || name.ends_with("masked") => "masked",
        // A double beyond float32, a null inside a list, an integer beyond int64.
        "floats" | "list_float" | "list_bytes_null_elem" | "list_int64_null_elem" | "uint64_big" => "value",
        _ => "converted",
    }
}

/// A golden table, by way of Parquet and the command.
fn golden(scratch: &Scratch, table: &str) -> Job {
    let batch = golden_table(table);
    let parquet = scratch.parquet(&format!("{table}.parquet"), &batch, 1024);
    let out = scratch.join(format!("golden/{table}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/tables/{table}.arrow"));
    Job::new(table, source, &out, run(convert(&parquet, &out).args(["--shards", "1", "--threads", "1"])))
}

/// A golden table, with masks for its nulls.
fn masked(scratch: &Scratch, table: &str) -> Job {
    let parquet = scratch.parquet(&format!("{table}.masked.parquet"), &golden_table(table), 1024);
    let out = scratch.join(format!("masked/{table}"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/tables/{table}.arrow"));
    let rules = Rules { masks: true, ..Rules::default() };
    let outcome = run(convert(&parquet, &out).args(["--shards", "1"]).args(rules.arguments()));
    Job::new(format!("{table} with masks"), source, &out, outcome).rules(&rules)
}

/// Nested columns of every kind.
fn kind(scratch: &Scratch, case: Case) -> Job {
    let (parquet, out) =
        (scratch.parquet(&format!("{}.parquet", case.name), &case.table, 1024), scratch.join(case.name));
    let source = scratch.arrow(&format!("{}.arrow", case.name), &case.table);
    let outcome = run(convert(&parquet, &out).args(["--shards", "1"]).args(case.rules.arguments()));
    Job::new(case.name, source, &out, outcome).rules(&case.rules)
}

/// Every choice of a form, each in a run of all columns that have one more.
fn choices(scratch: &Scratch) -> Vec<Job> {
    let batch = table_of_choices();
    let (table, source) = (scratch.parquet("choices.parquet", &batch, 2), scratch.arrow("choices.arrow", &batch));
    let most = CHOICES.iter().map(|(_, choices)| choices.len()).max().unwrap();
    (0..most)
        .map(|turn| {
            let out = scratch.join(format!("choices/{turn}"));
            let chosen = CHOICES.map(|(column, choices)| (column, choices[turn % choices.len()]));
            let mut command = convert(&table, &out);
            let rules = Rules { choices: chosen.into(), ..Rules::default() };
            command.args(["--shards", "1", "--threads", "1"]).args(rules.arguments());
            Job::new(format!("choices, turn {turn}"), &source, &out, run(&mut command)).rules(&rules)
        })
        .collect()
}

pub fn table_of_choices() -> RecordBatch {
    let micros = [Some(0), Some(1_709_209_801_000_005), Some(-1), None];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ("u64", Arc::new(UInt64Array::from(vec![Some(0), Some(u64::MAX), Some(1 << 63), None]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(0.1), Some(1e300), Some(-0.0), None]))),
        (
            "list_f64",
            Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([
                Some(vec![Some(0.1), Some(f64::INFINITY)]),
                Some(vec![]),
                None,
                Some(vec![Some(5e-324)]),
            ])),
        ),
        (
            "decimal",
            Arc::new(
                Decimal128Array::from(vec![Some(1700), Some(-4), Some(12_345_678_901), None])
                    .with_precision_and_scale(15, 2)
                    .unwrap(),
            ),
        ),
        ("date32", Arc::new(Date32Array::from(vec![Some(0), Some(9568), Some(-1), None]))),
        ("date64", Arc::new(Date64Array::from(vec![Some(0), Some(826_675_200_000), Some(-86_400_000), None]))),
        ("time_ms", Arc::new(Time32MillisecondArray::from(vec![Some(0), Some(86_399_999), Some(1), None]))),
        ("time_us", Arc::new(Time64MicrosecondArray::from(vec![Some(0), Some(86_399_999_999), Some(1), None]))),
        ("ts_s", Arc::new(TimestampSecondArray::from(vec![Some(0), Some(1_709_209_801), Some(-1), None]))),
        ("ts_us", Arc::new(TimestampMicrosecondArray::from(micros.to_vec()))),
        (
            "ts_ns",
            Arc::new(TimestampNanosecondArray::from(vec![Some(0), Some(1_709_209_801_000_000_005), Some(-1), None])),
        ),
        ("ts_utc", Arc::new(TimestampMicrosecondArray::from(micros.to_vec()).with_timezone("UTC"))),
        ("ts_zone", Arc::new(TimestampMicrosecondArray::from(micros.to_vec()).with_timezone("America/New_York"))),
        (
            "list_ts",
            Arc::new(ListArray::from_iter_primitive::<arrow::datatypes::TimestampMillisecondType, _, _>([
                Some(vec![Some(0), Some(1_709_209_801_001)]),
                Some(vec![]),
                None,
                Some(vec![Some(-1)]),
            ])),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The same rows, whatever the shards, the compression and the threads.
fn layouts(scratch: &Scratch) -> Vec<Job> {
    let layouts: [(&str, usize, &[&str]); 5] = [
        ("3 shards", 3, &["--shards", "3"]),
        ("7 shards, gzip", 7, &["--shards", "7", "--compression", "gzip"]),
        ("shards of 300 rows, zlib", 7, &["--shard-rows", "300", "--compression", "zlib", "--threads", "1"]),
        ("named, 1 thread", 2, &["--shards", "2", "--prefix", "train", "--threads", "1"]),
        ("more shards than rows in a block", 64, &["--shards", "64", "--threads", "2"]),
    ];
    layouts
        .into_iter()
        .map(|(name, shards, arguments)| {
            let out = scratch.join(format!("layouts/{name}"));
            let outcome = run(convert(&trips_path(), &out).args(arguments)).success();
            assert_eq!(shard_files(&out).len(), shards, "{name}");
            Job::new(name, trips_path(), &out, outcome).key("trip_id")
        })
        .collect()
}

fn convert(table: &Path, out: &Path) -> std::process::Command {
    let mut command = tfr_sql();
    command.arg(format!("SELECT * FROM '{}'", table.display())).arg("--out").arg(out);
    command
}

/// The snippet of `examples/` that a training job starts from.
#[test]
fn read_shards_example() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    run(convert(&trips_path(), &out).args(["--shards", "4"])).success();
    let Some(read) = with_tensorflow("examples/read_shards.py", |command| command.arg(out.join(""))) else { return };
    assert_eq!(read.stdout.trim(), "2000 trips, 2929 stops, 60589 in fares");
}

/// A list of positions beside a list of values is what `tf.io.SparseFeature` reads; a map is both.
#[test]
fn tensorflow_reads_a_map_as_a_sparse_tensor() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let query = "SELECT map_keys(weights) AS at, map_values(weights) AS weight FROM (VALUES \
                 (1, MAP {3: 0.5, 99: 1.5}), (2, MAP {0: 2.5})) AS t(id, weights) ORDER BY id";
    run(tfr_sql().arg(query).arg("--out").arg(&out).args(["--shards", "1"])).success();
    let Some(read) = with_tensorflow("tests/interop/read_sparse.py", |command| command.arg(&out)) else { return };
    assert_eq!(read.stdout.trim(), "[[[3, 0.5], [99, 1.5]], [[0, 2.5]]]");
}

/// Records of type elwc are messages of protobuf, whose Examples TensorFlow reads, also by the module of `--as python`.
#[test]
fn tensorflow_reads_lists_of_examples() {
    let scratch = Scratch::default();
    let (out, module) = (scratch.join("shards"), scratch.join("reader.py"));
    let query = "SELECT query, array_agg({id: id, score: CAST(score AS REAL), tags: tags} ORDER BY id) AS docs FROM (VALUES \
                 ('a', 1, 0.5, ['x', 'y']), ('a', 2, NULL, make_array()), ('b', 3, 1.5, NULL)) AS t(query, id, score, tags) \
                 GROUP BY query UNION ALL SELECT 'none', [] ORDER BY query";
    run(tfr_sql().arg(query).arg("--out").arg(&out).args(["--shards", "1", "--record-type", "elwc"])).success();
    let printed = run(tfr_sql().arg("schema").arg(&out).args(["--as", "python"])).success();
    fs::write(&module, printed.stdout).unwrap();
    let descriptors = repository().join("crates/tfr-proto/src/generated/descriptors.bin");
    let script = "tests/interop/read_lists.py";
    let Some(read) = with_tensorflow(script, |command| command.arg(&out).arg(&module).arg(&descriptors)) else {
        return;
    };
    let found: serde_json::Value = serde_json::from_str(&read.stdout).unwrap();
    let expected = serde_json::json!({
        "messages": [
            [{"query": ["a"]}, [{"id": [1], "score": [0.5], "tags": ["x", "y"]}, {"id": [2], "tags": []}]],
            [{"query": ["b"]}, [{"id": [3], "score": [1.5]}]],
            [{"query": ["none"]}, []],
        ],
        "tensors": {
            "id": [[1, 2], [3], []],
            "query": ["a", "b", "none"],
            "score": [[0.5, null], [1.5], []],
            "tags": [[["x", "y"], []], [[]], []],
        },
    });
    assert_eq!(found, expected);
}
