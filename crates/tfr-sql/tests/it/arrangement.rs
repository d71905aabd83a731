//! Sets for training: shuffled, in splits, in partition directories, and what becomes of the set that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tfrecord_shards::Manifest;

use crate::workbench::{Workbench, assert_prints, check_report, tell};

/// 3,000 rows of 300 users, in three days.
const EVENTS: &str = "SELECT value % 300 AS \"UserId\", value AS event, \
                      CASE WHEN value % 3 = 0 THEN NULL ELSE concat('2026-01-0', value % 3) END AS dt \
                      FROM generate_series(1, 3000)";

fn write(bench: &Workbench, out: &str, arguments: &[&str]) {
    let output = bench.run(&[&[EVENTS, "--out", out, "--quiet"], arguments].concat());
    assert_eq!(tell(&output), "exit 0\n", "{arguments:?}");
}

/// What a query prints, without the line of names.
fn rows(bench: &Workbench, query: &str) -> Vec<String> {
    let output = bench.run(&[query, "--format", "csv", "--quiet"]);
    assert!(output.status.success(), "{}", tell(&output));
    String::from_utf8(output.stdout).unwrap().lines().skip(1).map(str::to_owned).collect()
}

/// Every shard by its path, with its bytes.
fn shards(bench: &Workbench, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let dir = bench.path().join(dir);
    let paths = Manifest::read(&dir).unwrap().shards.into_iter().map(|shard| shard.path);
    paths.map(|path| (path.clone(), fs::read(dir.join(path)).unwrap())).collect()
}

#[test]
fn a_shuffle_depends_on_rows_and_seed_alone() {
    let bench = Workbench::new();
    write(&bench, "plain", &["--shards", "3"]);
    write(&bench, "seven", &["--shards", "3", "--shuffle", "--seed", "7"]);
    let seven = shards(&bench, "seven");
    let sizes: Vec<_> =
        Manifest::read(bench.path().join("seven")).unwrap().shards.iter().map(|shard| shard.rows).collect();
    assert_eq!(sizes, [1000; 3]);
    assert_ne!(seven, shards(&bench, "plain"));
    let count = "SELECT count(DISTINCT event), min(event), max(event), count(*) FROM 'seven/'";
    assert_eq!(rows(&bench, count), ["3000,1,3000,3000"]);

    // The same rows from a file, from behind, on one thread.
    let again = "SELECT * FROM 'plain/' ORDER BY event DESC LIMIT 5000";
    let arguments = [again, "--out", "again", "--shards", "3", "--shuffle", "--seed", "7", "--quiet", "--threads", "1"];
    assert_eq!(tell(&bench.run_tool(&arguments)), "exit 0\n");
    assert_eq!(shards(&bench, "again"), seven);

    write(&bench, "eight", &["--shards", "3", "--shuffle", "--seed", "8"]);
    assert_ne!(shards(&bench, "eight"), seven);
    write(&bench, "unseeded", &["--shards", "3", "--shuffle"]);
    write(&bench, "zero", &["--shards", "3", "--shuffle", "--seed", "0"]);
    assert_eq!(shards(&bench, "unseeded"), shards(&bench, "zero"));
    assert_eq!(Manifest::read(bench.path().join("unseeded")).unwrap().seed, Some(0));
}

#[test]
fn shuffle_warns_that_it_undoes_order_by() {
    let bench = Workbench::new();
    let shown = bench.tell(&["SELECT id FROM 'many.parquet' ORDER BY id DESC", "--out", "all", "--shuffle"]);
    assert!(shown.contains("--shuffle undoes the ORDER BY of the query\n"), "{shown}");
    // Here the order says which rows there are.
    let shown = bench.tell(&["SELECT id FROM 'many.parquet' ORDER BY id DESC LIMIT 10", "--out", "some", "--shuffle"]);
    assert!(shown.starts_with("exit 0\n") && !shown.contains("ORDER BY"), "{shown}");
}

#[test]
fn no_key_is_in_two_splits() {
    let bench = Workbench::new();
    let arguments = ["--split", "train=0.8,val=0.2", "--split-by", "userid", "--shards", "train=4,val=2"];
    write(&bench, "set", &[&arguments, ["--shuffle"].as_slice()].concat());
    let names: Vec<_> = shards(&bench, "set").into_keys().collect();
    assert_eq!(
        names,
        [
            "train-00000-of-00004.tfrecord",
            "train-00001-of-00004.tfrecord",
            "train-00002-of-00004.tfrecord",
            "train-00003-of-00004.tfrecord",
            "val-00000-of-00002.tfrecord",
            "val-00001-of-00002.tfrecord",
        ]
    );
    let in_both =
        "SELECT count(*) FROM (SELECT \"UserId\" FROM 'set/train-*' INTERSECT SELECT \"UserId\" FROM 'set/val-*')";
    assert_eq!(rows(&bench, in_both), ["0"]);
    let elsewhere = "SELECT count(*) FILTER (WHERE tf_split('train=0.8,val=0.2', \"UserId\") <> 'val'), \
                     count(DISTINCT \"UserId\") BETWEEN 35 AND 85 FROM 'set/val-*'";
    assert_eq!(rows(&bench, elsewhere), ["0,true"]);

    let manifest = Manifest::read(bench.path().join("set")).unwrap();
    let described: Vec<_> = manifest.splits.iter().map(|split| (split.name.as_str(), split.fraction)).collect();
    assert_eq!((described, manifest.split_by), (vec![("train", 0.8), ("val", 0.2)], vec!["UserId".to_owned()]));
}

#[test]
fn exact_splits_and_splits_by_a_column_are_reported_before_and_after() {
    let bench = Workbench::new();
    let exact = ["--split", "train=rest,val=500rows", "--shuffle", "--dry-run"];
    let shown = bench.tell(&[&[EVENTS], exact.as_slice()].concat());
    assert!(shown.contains("splits  train=rest,val=500rows, cut from the shuffled rows\n"), "{shown}");
    let two = ["--split", "train=rest,val=500rows", "--shuffle", "--shards", "val=2"];
    assert_prints!(bench.tell(&[&[EVENTS, "--out", "exact"], two.as_slice()].concat()), @r##"
    exit 0
    -- stderr
    3,000 rows (train 2,500, val 500) in 3 shards, 196.9 KiB, [seconds]: exact
    "##);
    assert_prints!(bench.tell(&[EVENTS, "--out", "wrong", "--split", "a=1rows,b=2rows", "--shuffle"]), @r##"
    exit 1
    -- stderr
    error: splits a=1rows,b=2rows: expected 3 rows, found 3000

    hint: change the numbers, or give one split all other rows: train=rest
    "##);
    assert_prints!(bench.tell(&[EVENTS, "--out", "wrong", "--split", "a=3000rows"]), @r##"
    exit 1
    -- stderr
    error: splits a=3000rows: exact numbers of rows are cut from shuffled rows, and these are not shuffled

    hint: add --shuffle; fractions, such as train=0.8,val=0.2, keep the order
    "##);
    let by_key = ["--split", "a=3000rows", "--split-by", "dt", "--shuffle"];
    let shown = bench.tell(&[&[EVENTS, "--out", "wrong"], by_key.as_slice()].concat());
    let conflict = "error: --split-by cannot be used with exact numbers of rows, which would divide keys\n";
    assert!(shown.starts_with("exit 2\n") && shown.contains(conflict), "{shown}");
    assert!(!bench.path().join("wrong").exists());
    let named = "SELECT *, CASE WHEN \"UserId\" < 30 THEN 'val' ELSE 'train' END AS Part FROM (";
    let named = format!("{named}{EVENTS})");
    let shown = bench.tell(&[&named, "--split-column", "part", "--dry-run"]);
    assert!(shown.contains("splits  those that the values of Part name\n"), "{shown}");
    assert_prints!(bench.tell(&[&named, "--out", "named", "--split-column", "part"]), @r##"
    exit 0
    -- stderr
    3,000 rows (train 2,700, val 300) in 2 shards, 196.9 KiB, [seconds]: named
    "##);
}

#[test]
fn without_key_columns_the_record_is_the_key() {
    let bench = Workbench::new();
    write(&bench, "set", &["--split", "a=0.5,b=0.5"]);
    let elsewhere = "SELECT count(*) FILTER (WHERE tf_split('a=0.5,b=0.5', \
                     tf_example({UserId: \"UserId\", event: event, dt: dt})) <> 'b'), count(*) > 1000 FROM 'set/b-*'";
    assert_eq!(rows(&bench, elsewhere), ["0,true"]);
}

#[test]
fn split_by_key_moves_no_row_when_rows_are_added() {
    let bench = Workbench::new();
    let split = ["--split", "a=0.5,b=0.5", "--split-by", "event", "--quiet", "--out"];
    let half = format!("{EVENTS} WHERE value % 2 = 0");
    assert_eq!(tell(&bench.run(&[&[half.as_str()], split.as_slice(), &["half"]].concat())), "exit 0\n");
    assert_eq!(tell(&bench.run(&[&[EVENTS], split.as_slice(), &["all"]].concat())), "exit 0\n");
    let moved = "SELECT event FROM 'half/a-*' EXCEPT SELECT event FROM 'all/a-*'";
    assert_eq!(rows(&bench, moved), [""; 0]);
}

#[test]
fn partition_by_replaces_columns_by_directories() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&[EVENTS, "--out", "set", "--partition-by", "DT", "--shards", "2", "--compression", "gzip"]), @r##"
    exit 0
    -- stderr
    3,000 rows in 6 shards of 3 directories, 26.6 KiB (153.9 KiB before compression), [seconds]: set
    "##);
    let paths: Vec<_> = shards(&bench, "set").into_keys().collect();
    assert_eq!(
        paths,
        [
            "dt=2026-01-01/part-00000-of-00002.tfrecord.gz",
            "dt=2026-01-01/part-00001-of-00002.tfrecord.gz",
            "dt=2026-01-02/part-00000-of-00002.tfrecord.gz",
            "dt=2026-01-02/part-00001-of-00002.tfrecord.gz",
            "dt=__HIVE_DEFAULT_PARTITION__/part-00000-of-00002.tfrecord.gz",
            "dt=__HIVE_DEFAULT_PARTITION__/part-00001-of-00002.tfrecord.gz",
        ]
    );
    let head = bench.run_tool(&["head", "-n", "1", "set/dt=2026-01-01/part-00000-of-00002.tfrecord.gz"]);
    assert!(!String::from_utf8_lossy(&head.stdout).contains("dt"), "{}", tell(&head));
    // And back, as they were.
    let back = "SELECT dt, count(*), sum(event) FROM 'set/' GROUP BY dt ORDER BY dt";
    let expected = format!("SELECT dt, count(*), sum(event) FROM ({EVENTS}) GROUP BY dt ORDER BY dt");
    assert_eq!(rows(&bench, back), rows(&bench, &expected));

    write(&bench, "kept", &["--partition-by", "dt", "--keep-partition-columns"]);
    let head = bench.run_tool(&["head", "-n", "1", "kept/dt=2026-01-01/part-00000-of-00001.tfrecord"]);
    assert!(String::from_utf8_lossy(&head.stdout).contains("2026-01-01"), "{}", tell(&head));
}

#[test]
fn split_with_partition_by_writes_splits_into_directories() {
    let bench = Workbench::new();
    let arguments = ["--split", "train=0.8,val=0.2", "--split-by", "UserId", "--partition-by", "dt", "--shuffle"];
    let output = bench.run(&[&[EVENTS, "--out", "set", "--report", "json"], arguments.as_slice()].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", tell(&output)));
    check_report(&report);
    assert_eq!((&report["rows"], &report["partitions"], &report["shards"]), (&json!(3000), &json!(3), &json!(6)));
    let splits: Vec<_> = report["splits"].as_array().unwrap().iter().map(|split| &split["name"]).collect();
    assert_eq!(splits, ["train", "val"]);
    assert!(bench.path().join("set/dt=2026-01-02/val-00000-of-00001.tfrecord").exists());
    let verified = bench.run_tool(&["verify", "set", "--quiet"]);
    assert_eq!(tell(&verified), "exit 0\n");
}

#[test]
fn unknown_split_and_partition_columns_are_named() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&[EVENTS, "--out", "set", "--split", "a=1", "--split-by", "user"]), @r##"
    exit 1
    -- stderr
    error: no split column "user": the columns are UserId, event, dt

    hint: did you mean "UserId"? a name is matched as it is spelled
    "##);
    assert_prints!(bench.tell(&[EVENTS, "--out", "set", "--partition-by", "day"]), @r##"
    exit 1
    -- stderr
    error: no partition column "day": the columns are UserId, event, dt
    "##);
    assert_prints!(bench.tell(&["SELECT [1, 2] AS dt, 1 AS x", "--out", "set", "--partition-by", "dt"]), @r##"
    exit 1
    -- stderr
    error: partition column "dt": values of type List(Int64) cannot name directories

    hint: CAST dt in the query to text, a number, a date or a timestamp
    "##);
    assert_prints!(bench.tell(&["SELECT 1 AS dt", "--partition-by", "dt", "--dry-run"]), @r##"
    exit 1
    -- stderr
    error: no column is left for the records: all are in the names of directories: dt

    hint: select more columns, or keep the partition columns in the records, too
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn append_mode_adds_rows_to_a_set() {
    let bench = Workbench::new();
    let add = |query: &str, arguments: &[&str]| {
        bench.tell(&[&[query, "--out", "set", "--mode", "append"], arguments].concat())
    };
    assert_prints!(add("SELECT id FROM 'many.parquet' WHERE id < 10", &[]), @r##"
    exit 0
    -- stderr
    10 rows in 1 shard, 310 B, [seconds]: set
    "##);
    assert_prints!(add("SELECT id FROM 'many.parquet' WHERE id >= 10 AND id < 30", &["--shards", "2"]), @r##"
    exit 0
    -- stderr
    20 rows in 2 shards, 620 B, [seconds]: set, now 30 rows in 3 shards
    "##);
    assert_eq!(rows(&bench, "SELECT count(DISTINCT id), count(*) FROM 'set/'"), ["30,30"]);
    assert_eq!(tell(&bench.run_tool(&["verify", "set", "--quiet"])), "exit 0\n");

    assert_prints!(add("SELECT 'x' AS id", &[]), @r##"
    exit 1
    -- stderr
    error: set: not appended to: column "id" is Utf8, in the set it is Int64

    hint: write it as the set was written: tfr-sql schema prints its columns, _manifest.json has all options (CAST changes a column's type, NULL AS name adds a column that may be null); or write it to another directory
    "##);
    assert_prints!(add("SELECT 1 AS id", &["--compression", "gzip"]), @r##"
    exit 1
    -- stderr
    error: set: not appended to: the compression is gzip, in the set it is none

    hint: write it as the set was written: tfr-sql schema prints its columns, _manifest.json has all options (CAST changes a column's type, NULL AS name adds a column that may be null); or write it to another directory
    "##);
    assert_prints!(add("SELECT 1 AS id, 2 AS more", &[]), @r##"
    exit 1
    -- stderr
    error: set: not appended to: the set does not have the column "more"

    hint: add --add-columns to the query, and they are null in the existing rows; or leave them out
    "##);
    assert_prints!(add("SELECT 1 AS id, 2 AS more", &["--partition-by", "more"]), @r##"
    exit 1
    -- stderr
    error: set: not appended to: partitioning is by more (Int64), in the set it is none

    hint: write it as the set was written: tfr-sql schema prints its columns, _manifest.json has all options (CAST changes a column's type, NULL AS name adds a column that may be null); or write it to another directory
    "##);
    assert_eq!(rows(&bench, "SELECT count(*) FROM 'set/'"), ["30"]);
    let query = "SELECT id FROM 'many.parquet' WHERE id = 99";
    let output = bench.run(&[query, "--out", "set", "--mode", "append", "--report", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", tell(&output)));
    check_report(&report);
    assert_eq!((&report["rows"], &report["set"]["rows"]), (&json!(1), &json!(31)));
}

#[test]
fn overwrite_partitions_mode_replaces_directories() {
    let bench = Workbench::new();
    let write = |query: &str, arguments: &[&str]| {
        let mode = ["--partition-by", "day", "--mode", "overwrite-partitions"];
        bench.run(&[&[query, "--out", "set"], &mode[..], arguments].concat())
    };
    let days = "SELECT id, id % 3 AS day FROM 'many.parquet'";
    assert_prints!(tell(&write(&format!("{days} WHERE id < 30"), &[])), @r##"
    exit 0
    -- stderr
    30 rows in 3 shards of 3 directories, 930 B, [seconds]: set
    "##);
    let two = format!("SELECT id, id % 2 + 2 AS day FROM ({days}) WHERE id >= 100 AND id < 120");
    assert_prints!(tell(&write(&two, &[])), @r##"
    exit 0
    -- stderr
    20 rows in 2 shards of 2 directories (1 replaced), 620 B, [seconds]: set, now 40 rows in 4 shards
    "##);
    assert_eq!(
        rows(&bench, "SELECT day, count(*), min(id) FROM 'set/' GROUP BY day ORDER BY day"),
        ["0,10,0", "1,10,1", "2,10,100", "3,10,101"]
    );
    let output = write(&two, &["--report", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", tell(&output)));
    check_report(&report);
    assert_eq!((&report["partitions"], &report["replaced_partitions"]), (&json!(2), &json!(2)));
    assert_eq!((&report["rows"], &report["set"]["rows"]), (&json!(20), &json!(40)));
    assert_eq!(tell(&bench.run_tool(&["verify", "set", "--quiet"])), "exit 0\n");

    let plain = |query: &str, out: &str, arguments: &[&str]| {
        let shown = bench.tell(&[&[query, "--out", out, "--mode", "overwrite-partitions"], arguments].concat());
        shown.split("\n\nUsage").next().unwrap().to_owned()
    };
    assert_prints!(plain(days, "set", &[]), @r##"
    exit 2
    -- stderr
    error: --mode overwrite-partitions needs --partition-by, whose directories it replaces

    hint: name the columns that the set is partitioned by, or replace all of it with --mode overwrite
    "##);
    assert_prints!(plain(days, "x.parquet", &[]), @r##"
    exit 2
    -- stderr
    error: --mode overwrite-partitions is for TFRecord shards and cannot be used with '--out x.parquet', a Parquet file

    hint: write it to a directory of its own, and read both with a pattern
    "##);
    let shown = tell(&bench.run_tool(&["reshard", "set", "--out", "again", "--mode", "overwrite-partitions"]));
    assert!(shown.contains("error: --mode overwrite-partitions is for a query with --partition-by\n"), "{shown}");
}

#[test]
fn ignore_mode_keeps_existing_output() {
    let bench = Workbench::new();
    let write =
        |arguments: &[&str]| bench.run(&[&["SELECT id FROM 'many.parquet'", "--mode", "ignore"], arguments].concat());
    assert!(write(&["--out", "set"]).status.success());
    let before = shards(&bench, "set");
    let output = bench.run(&["SELECT 1 AS id", "--out", "set", "--mode", "ignore", "--report", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", tell(&output)));
    check_report(&report);
    assert_eq!((output.status.code(), &report["report"], &report["out"]), (Some(0), &json!("ignored"), &json!("set")));
    assert_eq!(shards(&bench, "set"), before);
    assert_prints!(bench.tell(&["SELECT 1 AS id", "--out", "set", "--mode", "ignore"]), @r##"
    exit 0
    -- stderr
    kept the existing files: set contains part-00000-of-00001.tfrecord, _SUCCESS, _manifest.json
    "##);

    bench.text("table.csv", "kept");
    assert_prints!(bench.tell(&["SELECT 1 AS id", "--out", "table.csv", "--mode", "ignore"]), @r##"
    exit 0
    -- stderr
    kept the existing files: table.csv
    "##);
    assert_eq!(fs::read_to_string(bench.path().join("table.csv")).unwrap(), "kept");
    assert_prints!(bench.tell_tool(&["reshard", "set", "--out", "users.csv", "--mode", "ignore"]), @r##"
    exit 1
    -- stderr
    error: [dir]/users.csv: expected a directory, found a file

    hint: name a directory for the set alone
    "##);
    fs::create_dir(bench.path().join("foreign")).unwrap();
    bench.text("foreign/notes.txt", "kept");
    assert_prints!(bench.tell_tool(&["reshard", "set", "--out", "foreign", "--mode", "ignore"]), @r##"
    exit 0
    -- stderr
    kept the existing files: foreign contains notes.txt
    "##);
    let names: BTreeSet<_> = bench.leftovers().into_iter().collect();
    assert_eq!(names, ["foreign", "set", "table.csv"].map(PathBuf::from).into());
}

#[test]
fn shards_are_cut_for_hosts() {
    let bench = Workbench::new();
    // Less than 100 MiB altogether.
    write(&bench, "set", &["--hosts", "4"]);
    assert_eq!(shards(&bench, "set").into_keys().collect::<Vec<_>>(), ["part-00000-of-00001.tfrecord"]);
}

#[test]
fn shard_count_above_row_count_warns_of_empty_shards() {
    let bench = Workbench::new();
    for arguments in [["--prefix", "part"].as_slice(), &["--shuffle"]] {
        let shown = bench.tell(
            &[
                &["SELECT UserId FROM 'events.parquet'", "--out", "set", "--shards", "6", "--mode", "overwrite"],
                arguments,
            ]
            .concat(),
        );
        assert!(shown.contains("2 of 6 shards are empty: the query yields 4 rows\n"), "{shown}");
    }
}

#[test]
fn dry_run_shows_splits_and_partitions() {
    let bench = Workbench::new();
    let query = "SELECT id, id % 10 AS user, concat('h', id % 3) AS h FROM 'many.parquet'";
    let split =
        ["--split", "train=0.9,val=0.1", "--split-by", "USER", "--shuffle", "--seed", "7", "--memory-limit", "1GiB"];
    assert_prints!(bench.tell(&[&[query, "--dry-run", "--shards", "train=256,val=16"], split.as_slice()].concat()), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls   read with
    id      Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)
    user    Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)
    h       Utf8   bytes    exact  absent  tf.io.VarLenFeature(tf.string)

    rows    10,000 (exact, from the files' statistics)
    size    175.8 KiB to 712.9 KiB of records before compression, and the values of h
    order   shuffled with seed 7
    splits  train 0.9 (about 9,000 rows), val 0.1 (about 1,000 rows), by hash of user
    memory  1.0 GiB for the query and its rows, and files in --temp-dir for more
    shards  256 shards, about 36 rows each: train-00000-of-00256.tfrecord ...
            16 shards, about 63 rows each: val-00000-of-00016.tfrecord ...
    "##);
    assert_prints!(bench.tell(&[query, "--dry-run", "--partition-by", "h", "--memory-limit", "1GiB", "--out", "set"]), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls   read with
    id      Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)
    user    Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)

    rows    10,000 (exact, from the files' statistics)
    size    175.8 KiB to 625.0 KiB of records before compression
    paths   h=.../
    memory  1.0 GiB for the query and its rows, and files in --temp-dir for more
    shards  at most 128.0 MiB each in each directory: h=.../part-00000-of-?????.tfrecord ...
    "##);
    assert_prints!(bench.tell(&["SELECT id FROM 'many.parquet'", "--dry-run", "--hosts", "8", "--memory-limit", "1GiB"]), @r##"
    exit 0
    -- stdout
    column  type   feature  class  nulls   read with
    id      Int64  int64    exact  absent  tf.io.VarLenFeature(tf.int64)

    rows    10,000 (exact, from the files' statistics)
    size    175.8 KiB to 390.6 KiB of records before compression
    memory  1.0 GiB for the query and its rows, and files in --temp-dir for more
    shards  about 1 shard, at most 10 for each of 8 hosts, none under 100 MiB: part-00000-of-?????.tfrecord ...
    "##);
    assert!(bench.leftovers().is_empty());
}
