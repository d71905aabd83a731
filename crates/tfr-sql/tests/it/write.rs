//! Rows to shards.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tfrecord_framing::{Compression, RecordReader};
use tfrecord_shards::Manifest;

use crate::workbench::{Workbench, assert_prints, check_report, tell};

fn shards(bench: &Workbench, dir: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(bench.path().join(dir)).unwrap().map(|entry| entry.unwrap().path());
    let mut shards: Vec<_> = entries.filter(|path| path.to_str().unwrap().contains(".tfrecord")).collect();
    shards.sort();
    shards
}

/// The records of all shards, in order.
fn records(bench: &Workbench, dir: &str, compression: Compression) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    for shard in shards(bench, dir) {
        let mut reader = RecordReader::with_compression(File::open(shard).unwrap(), compression);
        let mut record = Vec::new();
        while reader.read_record(&mut record).unwrap() {
            records.push(record.clone());
        }
    }
    records
}

#[test]
fn a_query_becomes_a_directory_of_shards() {
    let bench = Workbench::new();
    let query = "SELECT UserId, label FROM 'events.parquet'";
    assert_prints!(bench.tell(&[query, "--out", "shards", "--shards", "2", "--prefix", "train"]), @r##"
    exit 0
    -- stderr
    4 rows in 2 shards, 198 B, [seconds]: shards
    "##);
    let names: Vec<_> = shards(&bench, "shards").iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"]);
    assert_eq!(records(&bench, "shards", Compression::None).len(), 4);
    assert!(bench.path().join("shards/_SUCCESS").exists());
    assert_eq!(bench.leftovers(), [PathBuf::from("shards")]);
}

#[test]
fn compression_option_selects_codec_and_level() {
    let bench = Workbench::new();
    for (name, compression) in [("gzip", Compression::Gzip), ("zlib", Compression::Zlib)] {
        let output =
            bench.run(&["SELECT id FROM 'many.parquet'", "--out", name, "--compression", name, "--level", "9"]);
        assert!(output.status.success());
        assert_eq!(records(&bench, name, compression).len(), 10_000);
    }
}

#[test]
fn narrowed_columns_are_reported_once() {
    let query = "SELECT score, price FROM 'events.parquet'";
    assert_prints!(Workbench::new().tell(&[query, "--out", "shards"]), @r##"
    exit 0
    -- stderr
    warning: column "score" loses information: float32 of float64
    warning: column "price" loses information: float32 of decimal(9,2)
    4 rows in 1 shard, 205 B, [seconds]: shards
    "##);
    assert_prints!(Workbench::new().tell(&[query, "--out", "shards", "--quiet"]), @r##"
    exit 0
    "##);
}

#[test]
fn strict_option_rejects_narrowed_columns() {
    let bench = Workbench::new();
    let query = "SELECT score, price FROM 'events.parquet'";
    assert_prints!(bench.tell(&[query, "--out", "shards", "--strict"]), @r##"
    exit 1
    -- stderr
    error: columns would lose information: "score" (float32 of float64), "price" (float32 of decimal(9,2))

    hint: choose an exact form for each with --map 'column: choice', or run without --strict
    "##);
    assert!(bench.leftovers().is_empty());
    let exact = ["--map", "score: bits", "--map", "price: string", "--strict"];
    assert!(bench.run(&[&[query, "--out", "shards"], exact.as_slice()].concat()).status.success());
}

#[test]
fn nulls_may_be_forbidden() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&["SELECT label FROM 'events.parquet'", "--out", "shards", "--null", "error"]), @r##"
    exit 1
    -- stderr
    error: column "label", row 2: null, but null=error is set

    hint: replace nulls in the query with coalesce(label, ...), filter them out, or write them as absent
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn failed_query_leaves_nothing() {
    let bench = Workbench::new();
    let query = "SELECT 1 / (id - 9999) AS x FROM 'many.parquet'";
    assert_prints!(bench.tell(&[query, "--out", "shards", "--shard-rows", "100"]), @r##"
    exit 1
    -- stderr
    error: division by zero
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn write_to_a_full_disk_leaves_nothing() {
    let bench = Workbench::new();
    let command = bench.command(&["SELECT id FROM 'many.parquet'", "--out", "shards"]);
    // Files of at most 16 or 32 KiB, by the block size of the shell.
    let limited = Command::new("sh")
        .args(["-c", "ulimit -f 32; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(bench.path())
        .output()
        .unwrap();
    assert_prints!(tell(&limited), @r##"
    exit 1
    -- stderr
    error: shards: cannot write
      cause: File too large (os error 27)

    hint: make room, or write elsewhere: nothing of this run has been kept
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn no_rows_are_an_empty_shard() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&["SELECT id FROM 'many.parquet' WHERE id < 0", "--out", "shards"]), @r##"
    exit 0
    -- stderr
    the query yields no rows
    0 rows in 1 shard, 0 B, [seconds]: shards
    "##);
    assert_eq!(fs::metadata(&shards(&bench, "shards")[0]).unwrap().len(), 0);
}

#[test]
fn an_earlier_set_is_replaced_only_on_demand() {
    let bench = Workbench::new();
    let write = |query: &str, mode: &str| bench.run(&[query, "--out", "shards", "--mode", mode]);
    assert!(write("SELECT 1 AS one", "error").status.success());
    assert_prints!(bench.tell(&["SELECT 2 AS two", "--out", "shards"]), @r##"
    exit 1
    -- stderr
    error: [dir]/shards: not empty: it contains part-00000-of-00001.tfrecord, _SUCCESS, _manifest.json

    hint: this is a set already: --mode append adds to it, --mode overwrite replaces it; or choose another directory
    "##);
    assert!(write("SELECT id FROM 'many.parquet' LIMIT 7", "overwrite").status.success());
    assert_eq!(records(&bench, "shards", Compression::None).len(), 7);
    assert_eq!(bench.leftovers(), [PathBuf::from("shards")]);
}

#[test]
fn an_ordered_query_is_written_in_order() {
    let bench = Workbench::new();
    // A filter, so that the number of rows has to be counted.
    let ordered = "SELECT id FROM 'many.parquet' WHERE id % 3 = 0 ORDER BY id DESC";
    assert_prints!(bench.tell(&[ordered, "--out", "shards", "--shards", "5"]), @r##"
    exit 0
    -- stderr
    counting rows, so that each shard can contain a range of them
    3,334 rows in 5 shards, 104.1 KiB, [seconds]: shards
    "##);
    let expected = bench.run(&[
        "SELECT id FROM 'many.parquet' WHERE id % 3 = 0 ORDER BY id DESC",
        "--out",
        "one",
        "--shards",
        "1",
    ]);
    assert!(expected.status.success());
    let expected = records(&bench, "one", Compression::None);
    assert_eq!(records(&bench, "shards", Compression::None), expected);
    let manifest = Manifest::read(bench.path().join("shards")).unwrap();
    assert!(manifest.shards.iter().all(|shard| [666, 667].contains(&shard.rows)), "{manifest:?}");

    // The order of a derived table is that of the query.
    let derived =
        "SELECT x.id + 0 AS id FROM (SELECT id, -id AS key FROM 'many.parquet' ORDER BY key) x WHERE id % 3 = 0";
    assert!(bench.run(&[derived, "--out", "derived", "--shards", "5"]).status.success());
    assert_eq!(records(&bench, "derived", Compression::None), expected);
    let manifest = Manifest::read(bench.path().join("derived")).unwrap();
    assert!(manifest.shards.iter().all(|shard| [666, 667].contains(&shard.rows)), "{manifest:?}");
}

#[test]
fn write_report_matches_its_schema() {
    let bench = Workbench::new();
    let query = "SELECT score FROM 'events.parquet'";
    let output = bench.run(&[query, "--out", "shards", "--compression", "gzip", "--report", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_report(&report);

    let manifest = Manifest::read(bench.path().join("shards")).unwrap();
    assert_eq!(report["run"], manifest.run);
    assert_eq!(report["rows"], 4);
    assert_eq!(report["file_bytes"], manifest.totals.file_bytes);
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn write_shows_progress_on_request() {
    let output =
        Workbench::new().run(&["SELECT id FROM 'many.parquet'", "--out", "shards", "--progress", "always", "--quiet"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains(" rows, "));
}

#[test]
fn manifest_records_query_and_tables() {
    let bench = Workbench::new();
    let text = "SET datafusion.execution.batch_size = 2;
        CREATE EXTERNAL TABLE more STORED AS CSV LOCATION 'users.csv' OPTIONS (delimiter ';');
        SELECT id FROM users UNION ALL SELECT id FROM more";
    let output = bench.run(&[text, "--table", "users=users.csv,delimiter=;,types=string", "--out", "shards"]);
    assert!(output.status.success(), "{}", tell(&output));
    let manifest: Value =
        serde_json::from_slice(&fs::read(bench.path().join("shards/_manifest.json")).unwrap()).unwrap();
    let options = &manifest["options"];
    assert_eq!(
        options["tables"]["users"],
        serde_json::json!({"path": ["users.csv"], "delimiter": ";", "types": "string"})
    );
    assert_eq!(
        options["statements"],
        serde_json::json!([
            "SET datafusion.execution.batch_size = 2",
            "CREATE EXTERNAL TABLE more STORED AS CSV LOCATION 'users.csv' OPTIONS (delimiter)"
        ])
    );
}

#[test]
fn a_file_url_is_a_local_path() {
    let bench = Workbench::new();
    let out = format!("file://{}/my%20shards", bench.path().display());
    assert!(bench.run(&["SELECT 1 AS one", "--out", &out]).status.success());
    assert_eq!(records(&bench, "my shards", Compression::None).len(), 1);
    assert_eq!(bench.leftovers(), [PathBuf::from("my shards")]);
}

#[test]
fn a_name_with_a_slash_is_a_directory() {
    let bench = Workbench::new();
    assert!(bench.run(&["SELECT 1 AS one", "--out", "x.avro/"]).status.success());
    assert_eq!(records(&bench, "x.avro", Compression::None).len(), 1);
}

#[test]
fn map_option_ignores_the_case_of_columns() {
    let bench = Workbench::new();
    let query = "SELECT score FROM 'events.parquet'";
    let output = bench.run(&[query, "--out", "shards", "--map", "SCORE: bits", "--strict"]);
    assert!(output.status.success(), "{}", tell(&output));
    let twins = "SELECT score, score AS Score FROM 'events.parquet'";
    assert!(!bench.run(&[twins, "--out", "twins", "--map", "SCORE: bits"]).status.success());
    assert!(!bench.run(&[query, "--out", "twice", "--map", "SCORE: bits", "--map", "score: string"]).status.success());
}

#[test]
fn row_numbers_of_a_partition_are_explained() {
    let bench = Workbench::new();
    let query = "SELECT label FROM 'events.parquet' UNION ALL SELECT label FROM 'events.parquet'";
    let shown = bench.tell(&[query, "--out", "shards", "--null", "error"]);
    assert!(shown.contains("which counts its own rows"), "{shown}");
    assert!(
        shown.trim_end().ends_with("; run with --threads 1 to count rows, from 0, over the whole query"),
        "{shown}"
    );
}

/// The engine's own reservation for merging is larger than that.
#[test]
fn the_least_memory_is_enough_for_a_sort() {
    let bench = Workbench::new();
    let query = "SELECT value, md5(CAST(value AS VARCHAR)) AS hash FROM generate_series(1, 300000) ORDER BY hash";
    let output = bench.run(&[query, "--out", "shards", "--memory-limit", "8MiB", "--quiet"]);
    assert_eq!(tell(&output), "exit 0\n");
    assert_eq!(records(&bench, "shards", Compression::None).len(), 300_000);
}

#[test]
fn spill_of_a_failed_query_is_removed() {
    let bench = Workbench::new();
    fs::create_dir(bench.path().join("spill")).unwrap();
    // The row that fails comes last, when the sort has all others on disk.
    let query = "SELECT 1 / (value - 200000) AS x, md5(CAST(value AS VARCHAR)) AS hash FROM generate_series(1, 200000) \
         ORDER BY hash";
    let output = bench.run(&[query, "--out", "shards", "--memory-limit", "8MiB", "--temp-dir", "spill"]);
    assert_eq!(tell(&output), "exit 1\n-- stderr\nerror: division by zero\n");
    assert_eq!(bench.leftovers(), [PathBuf::from("spill")]);
    assert_eq!(fs::read_dir(bench.path().join("spill")).unwrap().count(), 0);
}

#[test]
fn spilling_lets_a_sort_finish_in_little_memory() {
    let bench = Workbench::new();
    fs::create_dir(bench.path().join("spill")).unwrap();
    let query = "SELECT value, md5(CAST(value AS VARCHAR)) AS hash FROM generate_series(1, 100000) ORDER BY hash";
    let limits = ["--memory-limit", "16MiB", "--temp-dir", "spill"];
    let output = bench.run(&[&[query, "--out", "shards"], limits.as_slice()].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(records(&bench, "shards", Compression::None).len(), 100_000);
    assert_eq!(fs::read_dir(bench.path().join("spill")).unwrap().count(), 0);
}

/// The usual soft limit on open files is lower than a usual number of shards.
#[test]
fn more_shards_than_files_may_be_open_at_first() {
    let bench = Workbench::new();
    let output = Command::new("sh")
        .current_dir(bench.path())
        .args(["-c", "ulimit -Sn 64; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tfr-sql")])
        .args(["SELECT * FROM 'many.parquet'", "--out", "shards", "--shards", "200", "--quiet"])
        .output()
        .unwrap();
    assert_eq!(tell(&output), "exit 0\n");
    let counts = Manifest::read(bench.path().join("shards")).unwrap().shards;
    assert!(counts.len() == 200 && counts.iter().all(|shard| (48..=52).contains(&shard.rows)));
}
