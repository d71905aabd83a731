//! Delta tables: the rows that Spark gives for its own tables, in each version.
//!
//! `tests/data/delta` has the tables. More of them, and those of delta-rs, are in `../shared/lake`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use serde_json::{Value, json};
use tfr_tests::{S3Server, Scratch, repository, run, tfr_sql};

use crate::lake::{Found, assert_rows, copy, expected, read_with, shared};

mod damaged;
mod paths;

/// The tables of the repository, and what else there is of them.
fn tables() -> PathBuf {
    repository().join("tests/data/delta")
}

/// Copies a table of the repository, with the files that it has elsewhere. Returns the copy.
fn copied(scratch: &Scratch, table: &str) -> PathBuf {
    let tables = tables().join("tables");
    for name in [table.to_owned(), format!("{table}_source")] {
        if tables.join(&name).exists() {
            copy(&tables.join(&name), &scratch.join(&name));
        }
    }
    let copied = scratch.join(table);
    edit_log(&copied, |text| text.replace("file:/lake/delta", &format!("file:{}", scratch.path().display())));
    copied
}

/// Edits the JSON files of a log.
fn edit_log(table: &Path, edit: impl Fn(String) -> String) {
    for file in log(table) {
        fs::write(&file, edit(fs::read_to_string(&file).unwrap())).unwrap();
    }
}

/// The commits of a table, in order.
fn log(table: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(table.join("_delta_log")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json") && !is_checkpoint(path)).collect();
    files.sort();
    files
}

fn is_checkpoint(path: &Path) -> bool {
    path.to_str().unwrap().contains(".checkpoint.")
}

/// Reads a table, or one version of it.
fn read(table: &Path, version: Option<u64>) -> Found {
    read_with(table, &version.map(|version| format!(",version={version}")).unwrap_or_default())
}

/// The tables that are not read, and what the error names.
fn refused(table: &str) -> Option<&'static str> {
    (table == "variant").then_some("column \"v\": a VARIANT is not supported")
}

#[test]
fn delta_tables_of_spark_have_its_rows() {
    let scratch = Scratch::default();
    let mut seen = 0;
    for entry in fs::read_dir(tables().join("expected")).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let (table, version) = match name.split_once("@v") {
            Some((table, version)) => (table, Some(version.parse().unwrap())),
            None => (name.as_str(), None),
        };
        let directory = match scratch.join(table) {
            directory if directory.exists() => directory,
            _ => copied(&scratch, table),
        };
        let found = read(&directory, version);
        match refused(table) {
            Some(reason) => assert!(found.code == Some(1) && found.stderr.contains(reason), "{name}: {found:?}"),
            None => assert_rows(found, &expected(&file), &name),
        }
        seen += 1;
    }
    assert!(seen >= 65, "{seen}");
}

/// Names such as `p=..`, which a check-out on Windows does not keep.
#[test]
fn delta_partition_values_may_have_any_characters() {
    let Some(spark) = shared("spark") else { return };
    let found = read(&spark.join("delta/part_special"), None);
    assert_rows(found, &expected(&spark.join("expected/delta/part_special.jsonl")), "part_special");
}

/// All fields of a struct were dropped, and others added. Spark 4.0 reads such structs as NULL.
#[test]
fn delta_struct_with_none_of_the_fields_of_a_file_is_not_null() {
    let row = |id: i64, s: Value, l: Value| json!({"id": id, "s": s, "l": l}).to_string();
    let fresh = || json!({"z": null});
    let expected = [
        row(0, fresh(), json!([{"z": null}, null])),
        row(1, Value::Null, Value::Null),
        row(2, fresh(), json!([{"z": null}, null])),
        row(9, json!({"z": 9}), json!([{"z": 9}])),
    ];
    assert_rows(read(&tables().join("tables/struct_all_new"), None), &expected, "struct_all_new");
}

/// Columns that can be read, of a table that has others.
#[test]
fn delta_columns_beside_a_variant_are_read() {
    let spec = format!("t={}/", tables().join("tables/variant").display());
    let found = run(tfr_sql().args(["--table", &spec, "SELECT id, amt FROM t ORDER BY id", "--format", "csv"]));
    assert_eq!(found.success().stdout, "id,amt\n1,1.50\n2,\n3,0.50\n4,2.00\n");
}

#[test]
fn delta_tables_of_delta_rs_have_their_rows() {
    let Some(shared) = shared("delta-rs") else { return };
    let manifest = fs::read_to_string(shared.join("MANIFEST.tsv")).unwrap();
    let mut outcomes = BTreeMap::new();
    for line in manifest.lines().skip(1) {
        let cells: Vec<_> = line.split('\t').collect();
        let found = read(&shared.join(cells[0]), None);
        match cells[1] {
            "ok" => {
                let file = shared.join("expected").join(format!("{}.jsonl", cells[0].replace('/', "__")));
                assert_rows(found, &expected(&file), cells[0]);
                *outcomes.entry("rows").or_insert(0) += 1;
            }
            // Their data files are not in the folder.
            _ => {
                assert_eq!(found.code, Some(1), "{}: {found:?}", cells[0]);
                let is_named = found.stderr.contains(": no such file, but the metadata of the table");
                assert!(is_named || found.stderr.contains("version 5 of the protocol"), "{}: {found:?}", cells[0]);
                *outcomes.entry("refused").or_insert(0) += 1;
            }
        }
    }
    assert_eq!(json!(outcomes), json!({"rows": 25, "refused": 7}));
}

/// Filters, limits and counts over deletion vectors, and files that several partitions read.
#[test]
fn delta_deleted_rows_stay_deleted_below_filters_and_limits() {
    let table = tables().join("tables/dv_file");
    let all = expected(&tables().join("expected/dv_file.jsonl"));
    let ids: Vec<i64> = all.iter().map(|row| id(row)).collect();
    let count = |is: &dyn Fn(i64) -> bool| ids.iter().filter(|id| is(**id)).count();
    for threads in ["1", "4"] {
        let ask = |query: &str| {
            let query = query.replace('t', &format!("'{}/'", table.display()));
            let found = run(tfr_sql().args(["--threads", threads, "--format", "csv", &query])).success();
            found.stdout.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(ask("SELECT COUNT(*) FROM t"), [ids.len().to_string()]);
        assert_eq!(ask("SELECT COUNT(id) FROM t"), [ids.len().to_string()]);
        assert_eq!(ask("SELECT COUNT(*) FROM t WHERE id > 10"), [count(&|id| id > 10).to_string()]);
        assert_eq!(
            ask("SELECT COUNT(*) FROM t WHERE s['a'] > 3"),
            ask("SELECT SUM(CASE WHEN s['a'] > 3 THEN 1 END) FROM t")
        );
        for limit in [1, ids.len() - 1, ids.len(), 1000] {
            assert_eq!(ask(&format!("SELECT id FROM t LIMIT {limit}")).len(), limit.min(ids.len()));
            let found = ask(&format!("SELECT id FROM t WHERE id >= 0 LIMIT {limit}"));
            assert_eq!(found.len(), limit.min(ids.len()), "{limit}");
            assert!(found.iter().all(|id| ids.contains(&id.parse().unwrap())), "{found:?}");
        }
    }
}

fn id(row: &str) -> i64 {
    serde_json::from_str::<Value>(row).unwrap()["id"].as_i64().unwrap()
}

/// Times of commits: those in the log, and those of its files.
#[test]
fn delta_timestamp_names_the_version_that_was_the_newest() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "in_commit_ts");
    let times: Vec<i64> = log(&table).iter().map(|file| commit_time(file)).collect();
    let at = |millis: i64| {
        let time = chrono::DateTime::from_timestamp_millis(millis).unwrap().to_rfc3339();
        read_with(&table, &format!(",timestamp={time}"))
    };
    let expected = |name: &str| expected(&tables().join("expected").join(name));
    assert_rows(at(times[0]), &expected("in_commit_ts@v0.jsonl"), "first");
    assert_rows(at(times[1] - 1), &expected("in_commit_ts@v0.jsonl"), "before the second");
    assert_rows(at(times[1]), &expected("in_commit_ts@v1.jsonl"), "second");
    assert_rows(at(times[2]), &expected("in_commit_ts.jsonl"), "last");
    for time in [times[0] - 1, times[2] + 1] {
        let found = at(time);
        assert!(found.code == Some(1) && found.stderr.contains("has no version of"), "{found:?}");
    }
}

fn commit_time(file: &Path) -> i64 {
    let text = fs::read_to_string(file).unwrap();
    let info: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    info["commitInfo"]["inCommitTimestamp"].as_i64().unwrap()
}

/// Without times in the log, those of its files count. A later commit is never the older one.
#[test]
fn delta_timestamp_may_be_that_of_a_file() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "widen_top");
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for (version, file) in log(&table).iter().enumerate() {
        // The clock of version 4 was behind.
        let seconds = if version == 4 { 5 } else { version as u64 * 10 };
        File::options().append(true).open(file).unwrap().set_modified(start + Duration::from_secs(seconds)).unwrap();
    }
    // Version 4 is a millisecond after version 3.
    for (seconds, version) in [(0, 0), (30, 3), (39, 4), (99, 9), (100, 10), (110, 11)] {
        let time = chrono::DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap().to_rfc3339();
        let expected = expected(&tables().join(format!("expected/widen_top@v{version}.jsonl")));
        assert_rows(read_with(&table, &format!(",timestamp={time}")), &expected, &time);
    }
}

/// A file of many row groups that several partitions read, with a vector in the log.
#[test]
fn delta_deleted_rows_stay_deleted_in_divided_files() {
    let scratch = Scratch::default();
    let ids = Int64Array::from_iter_values(0..1000);
    let batch = RecordBatch::try_from_iter([("id", Arc::new(ids) as ArrayRef)]).unwrap();
    let file = scratch.parquet("t/a.parquet", &batch, 64);
    let deleted: Vec<u16> = (0..1000).filter(|id| id % 7 == 0 || (128..192).contains(id)).collect();
    let mut vector = 1_681_511_377_u32.to_le_bytes().to_vec();
    vector.extend(1_u64.to_le_bytes());
    for word in [0_u32, 12_346, 1, (deleted.len() as u32 - 1) << 16, 0] {
        vector.extend(word.to_le_bytes());
    }
    deleted.iter().for_each(|id| vector.extend(id.to_le_bytes()));
    let size = vector.len();
    let schema = r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}"#;
    let actions = [
        json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
            "writerFeatures": ["deletionVectors"]}}),
        json!({"metaData": {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
            "partitionColumns": [], "configuration": {}}}),
        json!({"add": {"path": "a.parquet", "partitionValues": {}, "size": fs::metadata(file).unwrap().len(),
            "modificationTime": 0, "dataChange": true, "stats": "{\"numRecords\":1000}",
            "deletionVector": {"storageType": "i", "pathOrInlineDv": z85(&vector), "sizeInBytes": size,
                "cardinality": deleted.len()}}}),
    ];
    fs::create_dir_all(scratch.join("t/_delta_log")).unwrap();
    let lines: String = actions.iter().map(|action| format!("{action}\n")).collect();
    fs::write(scratch.join("t/_delta_log/00000000000000000000.json"), lines).unwrap();
    let left: Vec<i64> = (0..1000).filter(|id| !deleted.contains(&(*id as u16))).collect();
    for (threads, condition) in [("1", "true"), ("4", "true"), ("4", "id >= 100"), ("4", "id % 2 = 0 AND id > 500")] {
        let divide = "SET datafusion.optimizer.repartition_file_min_size = 0";
        let query = format!("{divide}; SELECT id FROM 't/' WHERE {condition}");
        let command = &mut tfr_sql();
        command.current_dir(scratch.path()).args(["--threads", threads, "--format", "csv", &query]);
        let found = run(command).success();
        let mut found: Vec<i64> = found.stdout.lines().skip(1).map(|id| id.parse().unwrap()).collect();
        found.sort();
        let passes = |id: &i64| match condition {
            "true" => true,
            "id >= 100" => *id >= 100,
            _ => id % 2 == 0 && *id > 500,
        };
        assert_eq!(found, left.iter().copied().filter(passes).collect::<Vec<_>>(), "{threads} threads, {condition}");
    }
}

/// Encodes bytes, and zeros up to a multiple of four, as Z85.
fn z85(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let groups = bytes.chunks(4).map(|group| {
        let mut word = [0; 4];
        word[..group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        (0..5).rev().map(|place| char::from(DIGITS[(word / 85_u32.pow(place) % 85) as usize])).collect::<String>()
    });
    groups.collect()
}

#[test]
fn delta_tables_are_declared_in_sql() {
    let table = tables().join("tables/history_dml");
    let declare = |options: &str| {
        let sql = format!(
            "CREATE EXTERNAL TABLE t STORED AS DELTA LOCATION '{}/' {options}; SELECT count(*) FROM t",
            table.display()
        );
        run(tfr_sql().args([&sql, "--format", "csv"]))
    };
    assert_eq!(declare("").success().stdout, "count(*)\n8\n");
    declare("OPTIONS ('version' '0')").success();
    assert!(declare("OPTIONS ('version' '9')").exits_with(1).stderr.contains("has no version 9; its newest is 3"));
    assert!(declare("OPTIONS ('header' 'true')").exits_with(1).stderr.contains("\"header\" is for CSV"));
    let both = declare("OPTIONS ('version' '0', 'timestamp' '2026-01-01')").exits_with(1);
    assert!(both.stderr.contains("cannot be used together"), "{}", both.stderr);
}

/// A table that has moved on is read as it was planned, also if only its deleted rows have.
#[test]
fn delta_tables_are_read_by_tasks_in_the_planned_version() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "dv_file");
    let newest = log(&table).pop().unwrap();
    let later = fs::read(&newest).unwrap();
    let command = |arguments: &[&str]| run(tfr_sql().args(arguments).current_dir(scratch.path()));
    let rows =
        |table: &str| command(&[&format!("SELECT id FROM '{table}' ORDER BY id"), "--format", "csv"]).success().stdout;
    let newer = rows("dv_file/");
    fs::remove_file(&newest).unwrap();
    let planned = rows("dv_file/");
    command(&["SELECT id FROM 'dv_file/'", "--out", "out", "--shard-rows", "100", "--plan", "plan"]).success();
    fs::write(&newest, &later).unwrap();
    for index in ["0", "1"] {
        command(&["task", "plan", "--index", index]).success();
    }
    command(&["finish", "plan"]).success();
    assert_ne!(planned, newer);
    assert_eq!(rows("out/"), planned);
}

/// The log and the files of a table in an object store.
#[test]
fn delta_tables_of_a_store_are_read() {
    let server = S3Server::default();
    for table in ["dv_part", "ckpt_v2_parquet"] {
        server.put_directory(&format!("{table}/"), &tables().join("tables").join(table));
        let query = format!("SELECT * FROM '{}/'", server.url(table));
        let found = Found::of(server.tfr_sql().arg(&query));
        assert_rows(found, &expected(&tables().join("expected").join(format!("{table}.jsonl"))), table);
    }
}

/// So that another run can read the same rows, after the table has moved on.
#[test]
fn delta_version_is_in_the_manifest() {
    let scratch = Scratch::default();
    copied(&scratch, "history_dml");
    let declared =
        "CREATE EXTERNAL TABLE t STORED AS DELTA LOCATION 'history_dml/' OPTIONS ('version' '2'); SELECT id FROM t";
    for (number, (arguments, table, version)) in [
        (vec!["SELECT id FROM 'history_dml/'"], "history_dml/", 3),
        (vec!["--table", "t=history_dml/,version=1", "SELECT id FROM t"], "t", 1),
        (vec![declared], "t", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("out-{number}");
        run(tfr_sql().args(arguments).args(["--out", &out]).current_dir(scratch.path())).success();
        let manifest = fs::read(scratch.join(out).join("_manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let expected = json!({ table: { "format": "Delta Lake", "version": version } });
        assert_eq!(manifest["options"]["versions"], expected);
    }
}
