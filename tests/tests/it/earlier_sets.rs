//! Sets that an earlier version wrote, one of each kind, are read, verified and appended to.
//!
//! `tests/data/be6cfdb/make.sh` made them, with the command of that commit.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tfr_tests::{Scratch, repository, run, tfr_sql};

/// Rows that each set has.
const ROWS: u64 = 12;

/// The sets of the query in `make.sh` that has all columns, and the options that each was written with.
const SETS: [(&str, &[&str]); 13] = [
    ("plain", &[]),
    ("counted", &["--shards", "3"]),
    ("gzip", &["--compression", "gzip", "--shard-rows", "5"]),
    ("zlib", &["--compression", "zlib"]),
    ("hosts", &["--hosts", "2"]),
    ("shuffled", &["--shuffle", "--seed", "7", "--shards", "2"]),
    ("split", &["--split", "train=0.8,val=0.2", "--split-by", "id"]),
    ("partitioned", &["--partition-by", "day"]),
    ("exact", &["--map", "score: bits", "--map", "price: unscaled", "--map", "seen: millis"]),
    ("masked", &["--null", "mask"]),
    ("sequence", &["--record-type", "sequence-example", "--sequence", "pair"]),
    ("described", &["--shards", "2"]),
    ("appended", &[]),
];

fn earlier(set: &str) -> PathBuf {
    repository().join("tests/data/be6cfdb").join(set)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The names of a set's files, sorted.
fn names(set: &Path) -> Vec<String> {
    let entries = fs::read_dir(set).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn query(sql: &str) -> Value {
    let printed = run(tfr_sql().args([sql, "--format", "json"])).success();
    serde_json::from_str(&printed.stdout).unwrap()
}

/// The rows of a set that has each of them as often as `runs`.
fn expected(set: &str, runs: u64) -> Value {
    let row = |i: u64| {
        let micros = if set == "exact" { "000".to_owned() } else { format!("{i:06}") };
        let seen = match (i, set) {
            (0, _) | (_, "exact") => format!("2026-01-01T00:{i:02}:00"),
            _ => format!("2026-01-01T00:{i:02}:00.{micros}"),
        };
        json!({
            "id": i,
            "day": i % 3,
            "score": i as f64 / 8.0,
            "ratio": i as f64 / 4.0,
            "name": (!i.is_multiple_of(4)).then(|| format!("item {i}")),
            "seen": seen,
            "price": i as f64,
            "pair": [i, i + 1],
        })
    };
    (0..ROWS).flat_map(|i| (0..runs).map(move |_| row(i))).collect()
}

fn rows(set: &Path) -> Value {
    query(&format!(
        "SELECT id, day, score, ratio, name, seen, CAST(price AS DOUBLE) AS price, pair FROM '{}/' ORDER BY id",
        set.display()
    ))
}

/// The query of `make.sh`.
fn made_by() -> String {
    let script = fs::read_to_string(earlier("make.sh")).unwrap();
    script.split('"').nth(1).unwrap().to_owned()
}

#[test]
fn earlier_sets_pass_verify() {
    let sets = SETS.map(|(set, _)| set).into_iter().chain(["bytes", "snapshot"]);
    run(tfr_sql().arg("verify").args(sets.map(earlier))).success();
}

#[test]
fn earlier_sets_have_their_rows() {
    for (set, _) in SETS {
        let runs = if set == "appended" { 2 } else { 1 };
        assert_eq!(rows(&earlier(set)), expected(set, runs), "{set}");
    }
    let records = query(&format!("SELECT CAST(record AS VARCHAR) AS record FROM '{}/'", earlier("bytes").display()));
    let expected: Value = (0..ROWS).map(|i| json!({"record": format!("record {i}")})).collect();
    assert_eq!(records, expected);
}

#[test]
fn earlier_sets_can_be_appended_to() {
    let scratch = Scratch::default();
    for (set, options) in SETS {
        let out = scratch.path().join(set);
        copy(&earlier(set), &out);
        let mut command = tfr_sql();
        command.arg(made_by()).arg("--out").arg(&out).args(["--mode", "append", "--quiet"]).args(options);
        run(&mut command).success();
        run(tfr_sql().arg("verify").arg(&out)).success();
        let runs = if set == "appended" { 3 } else { 2 };
        assert_eq!(rows(&out), expected(set, runs), "{set}");
        // The new shards are called as the others are, and indexes stay where they are.
        let found = names(&out);
        let is_zlib = |name: &&String| name.contains(".zlib") || name.contains(".deflate");
        let zlib: Vec<_> = found.iter().filter(is_zlib).collect();
        assert!(zlib.iter().all(|name| name.ends_with(".zlib")) && zlib.is_empty() == (set != "zlib"), "{found:?}");
        let before = names(&earlier(set));
        let mut indexes = before.iter().filter(|name| name.ends_with(".idx"));
        assert!(indexes.all(|name| found.contains(name)), "{found:?}");
    }
}

#[test]
fn describe_replaces_sidecars_where_an_earlier_release_put_them() {
    let scratch = Scratch::default();
    let out = scratch.path().join("described");
    copy(&earlier("described"), &out);
    let before = names(&out);
    run(tfr_sql().arg("describe").arg(&out).args(["--emit", "tfmd,parse-fn,stats,index", "--quiet"])).success();
    assert_eq!(names(&out), before);
    run(tfr_sql().arg("verify").arg(&out)).success();
}
