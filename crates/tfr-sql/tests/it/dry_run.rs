use crate::workbench::{Workbench, assert_prints, check_report};

#[test]
fn dry_run_prints_the_plan_and_writes_nothing() {
    let bench = Workbench::new();
    let query = "SELECT * FROM 'events.parquet'";
    assert_prints!(bench.tell(&[query, "--out", "shards", "--shards", "2", "--compression", "gzip", "--dry-run"]), @r##"
    exit 0
    -- stdout
    column  type              feature  class                              nulls   read with
    UserId  Int64             int64    exact                              absent  tf.io.VarLenFeature(tf.int64)
    label   Utf8View          bytes    exact                              absent  tf.io.VarLenFeature(tf.string)
    score   Float64           float    narrowed: float32 of float64       absent  tf.io.VarLenFeature(tf.float32)
    price   Decimal128(9, 2)  float    narrowed: float32 of decimal(9,2)  absent  tf.io.VarLenFeature(tf.float32)

    rows    4 (exact, from the files' statistics)
    size    72 B to 380 B of records before compression, and the values of label
    shards  2 shards, about 2 rows each: part-00000-of-00002.tfrecord.gz ...
    "##);
    assert_prints!(bench.tell(&[query, "--dry-run", "--map", "score: bits", "--map", "price: string", "--shard-rows", "3"]), @r##"
    exit 0
    -- stdout
    column  type              feature  class                          nulls   read with
    UserId  Int64             int64    exact                          absent  tf.io.VarLenFeature(tf.int64)
    label   Utf8View          bytes    exact                          absent  tf.io.VarLenFeature(tf.string)
    score   Float64           int64    encoded: bits of float64       absent  tf.io.VarLenFeature(tf.int64)
    price   Decimal128(9, 2)  bytes    encoded: text of decimal(9,2)  absent  tf.io.VarLenFeature(tf.string)

    rows    4 (exact, from the files' statistics)
    size    72 B to 380 B of records before compression, and the values of label, price
    shards  about 2 shards, at most 3 rows each: part-00000-of-?????.tfrecord ...
    "##);
    assert_prints!(bench.tell(&["SELECT id FROM 'many.parquet' WHERE id > 5 ORDER BY id", "--dry-run"]), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls   read with
    id      Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)

    rows    about 10,000 (estimated from the files' statistics)
    size    about 302.7 KiB to 390.6 KiB of records before compression
    shards  about 1 shard, at most 128.0 MiB each, in the query's order: part-00000-of-?????.tfrecord ...
    "##);
    let more = ["--emit", "index,stats,tfds"];
    assert_prints!(bench.tell(&[&["SELECT id FROM 'many.parquet'", "--dry-run"], more.as_slice()].concat()), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls   read with
    id      Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)

    rows    10,000 (exact, from the files' statistics)
    size    175.8 KiB to 390.6 KiB of records before compression
    shards  about 1 shard, at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    beside  dataset_info.json, features.json, _stats.pb, _stats.html, _<shard>.idx
    "##);
    assert_prints!(bench.tell(&["SELECT * FROM users", "--table", "users=users.csv,delimiter=;", "--dry-run"]), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls   read with
    id      Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)
    name    Utf8   bytes    exact  absent  tf.io.VarLenFeature(tf.string)

    rows    unknown before the input is read
    size    unknown before the input is read
    shards  at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn dry_run_without_output_estimates_the_size_of_shards() {
    let bench = Workbench::new();
    let query = "SELECT 1 AS a";
    assert_prints!(bench.tell(&[query, "--dry-run"]), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls  read with
    a       Int64  int64    exact  -      tf.io.FixedLenFeature([], tf.int64)

    rows    1 (exact)
    size    30 B to 39 B of records before compression
    shards  about 1 shard, at most 128.0 MiB each: part-00000-of-?????.tfrecord ...
    "##);
    assert!(bench.tell(&[query, "--out", "shards"]).contains("1 row in 1 shard, 30 B, "));
}

#[test]
fn dry_run_reports_what_a_write_would_reject() {
    assert_prints!(Workbench::new().tell(&["SELECT id FROM 'many.parquet' WHERE random() < 0.5 ORDER BY id", "--out", "shards", "--shards", "3", "--dry-run"]), @r##"
    exit 1
    -- stderr
    error: cannot cut the rows into 3 ordered shards: they are counted first, and their number may differ each time

    hint: cut them with --shard-size or --shard-rows, or take random() and the like out of what selects rows
    "##);
    assert_prints!(Workbench::new().tell(&["SELECT score FROM 'events.parquet'", "--strict", "--dry-run"]), @r##"
    exit 1
    -- stderr
    error: a column would lose information: "score" (float32 of float64)

    hint: choose an exact form for each with --map 'column: choice', or run without --strict
    "##);
}

#[test]
fn a_plan_is_reported_to_programs() {
    let bench = Workbench::new();
    let arguments = ["SELECT label, score FROM 'events.parquet'", "--dry-run", "--split", "train=0.5,val=0.5"];
    let text = String::from_utf8(bench.run(&arguments).stdout).unwrap();
    let output = bench.run(&[&arguments[..], &["--report", "json"]].concat());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    check_report(&report);
    assert_eq!((report["report"].as_str(), report["text"].as_str()), (Some("plan"), Some(text.as_str())));
    assert_eq!((&report["rows"], &report["rows_are_exact"]), (&4.into(), &true.into()));
    assert_eq!(report["mapping"]["columns"][1]["class"], "narrowed");
    assert_eq!(report["shards"].as_array().unwrap().len(), 2);
    assert!(bench.leftovers().is_empty());
}
