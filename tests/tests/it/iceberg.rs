//! Iceberg tables: the rows that Spark gives for its own tables, in each snapshot.
//!
//! `tests/data/iceberg` has tables of Spark, more are in `../shared/lake`. `written` makes others.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tfr_tests::{S3Server, Scratch, repository, run, tfr_sql};

use crate::lake::{Found, assert_rows, copy, expected, read_table, read_with, shared};

mod damaged;
mod deletes;
mod paths;
mod written;

/// The tables of the repository, and their rows.
fn tables() -> PathBuf {
    repository().join("tests/data/iceberg")
}

/// Copies a table of the repository. Returns the copy.
fn copied(scratch: &Scratch, table: &str) -> PathBuf {
    let copied = scratch.join(table);
    copy(&tables().join("tables").join(table), &copied);
    copied
}

/// The metadata file of a table with one.
fn metadata(table: &Path) -> PathBuf {
    let files = fs::read_dir(table.join("metadata")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.to_str().unwrap().ends_with(".metadata.json")).collect();
    files.sort();
    files.pop().unwrap()
}

fn edit(table: &Path, change: impl FnOnce(&mut Value)) {
    let file = metadata(table);
    let mut json = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut json);
    fs::write(file, json.to_string()).unwrap();
}

/// Reads the tables below `directory` and compares them with the rows in `rows`. Returns how many were read.
fn assert_tables(directory: &Path, rows: &Path) -> usize {
    let mut seen = 0;
    for entry in fs::read_dir(rows).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let (table, version) = name.split_once('@').unwrap_or((&name, ""));
        let directory = directory.join(table);
        // Its newest metadata file is the one that its catalog names.
        let table = if table == "meta_uuid" { metadata(&directory) } else { directory };
        let options = match version {
            "" => String::new(),
            reference if reference.contains('=') => format!(",{reference}"),
            snapshot => format!(",snapshot={snapshot}"),
        };
        let found = read_table(&table, &options);
        match found.stderr.contains("/lake/iceberg/add_files_source/") && found.code == Some(1) {
            // Its files are elsewhere, and not here.
            true => assert!(found.stderr.contains(": no such file, but the metadata of the table"), "{}", found.stderr),
            false => assert_rows(found, &expected(&file), &name),
        }
        seen += 1;
    }
    seen
}

#[test]
fn iceberg_tables_of_spark_have_its_rows() {
    let seen = assert_tables(&tables().join("tables"), &tables().join("expected"));
    assert!(seen >= 34, "{seen}");
}

#[test]
fn iceberg_tables_of_shared_have_their_rows() {
    let Some(spark) = shared("spark") else { return };
    let seen = assert_tables(&spark.join("iceberg"), &spark.join("expected/iceberg"));
    assert_eq!(seen, 38);
}

/// Each way to name a table reads the same rows.
#[test]
fn iceberg_tables_are_named_by_directory_and_by_metadata_file() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "snap_rollback");
    let file = metadata(&table);
    let name = file.file_name().unwrap().to_str().unwrap();
    let ask = |query: &str| {
        let found = run(tfr_sql().args([query, "--format", "csv"]).current_dir(scratch.path()));
        found.success().stdout.lines().nth(1).map(str::to_owned)
    };
    for location in ["snap_rollback", "snap_rollback/", &format!("snap_rollback/metadata/{name}")] {
        assert_eq!(ask(&format!("SELECT count(*) FROM '{location}'")).as_deref(), Some("3"), "{location}");
        let declared = format!("CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION '{location}'");
        let older = "OPTIONS ('snapshot' '363709376216072884'); SELECT count(*) FROM t";
        assert_eq!(ask(&format!("{declared} {older}")).as_deref(), Some("2"), "{location}");
    }
    let json = format!("CREATE EXTERNAL TABLE t STORED AS JSON LOCATION '{}'; SELECT count(*) FROM t", file.display());
    assert_eq!(ask(&json).as_deref(), Some("1"));
    // Metadata of another kind.
    fs::write(scratch.join("v1.metadata.json"), "{\"a\": 5}\n").unwrap();
    assert_eq!(ask("SELECT a FROM 'v1.metadata.json'").as_deref(), Some("5"));
}

/// A table that was never written to has columns and no rows.
#[test]
fn iceberg_table_without_snapshots_is_empty() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "snap_rollback");
    edit(&table, |metadata| {
        for key in ["current-snapshot-id", "refs", "snapshots", "snapshot-log"] {
            metadata.as_object_mut().unwrap().remove(key);
        }
    });
    let found = run(tfr_sql().args([&format!("SELECT * FROM '{}/'", table.display()), "--format", "csv"]));
    assert_eq!(found.success().stdout, "id,name,amt\n");
    let found = read_with(&table, ",snapshot=5");
    assert!(found.code == Some(1) && found.stderr.contains("there are no snapshots"), "{found:?}");
}

#[test]
fn iceberg_branches_and_tags_are_read() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "snap_rollback");
    edit(&table, |metadata| {
        metadata["refs"]["audit"] = json!({"snapshot-id": 3149678004678605049_i64, "type": "branch"});
        metadata["refs"]["first"] = json!({"snapshot-id": 363709376216072884_i64, "type": "tag"});
    });
    let expected = |id: &str| expected(&tables().join(format!("expected/snap_rollback@{id}.jsonl")));
    assert_rows(read_with(&table, ",branch=audit"), &expected("3149678004678605049"), "branch");
    assert_rows(read_with(&table, ",tag=first"), &expected("363709376216072884"), "tag");
    assert_rows(read_with(&table, ",branch=main"), &expected("6384023968408801874"), "main");
    for (options, named) in [
        (",branch=x", "no branch \"x\": expected one of audit, main"),
        (",tag=audit", "no tag \"audit\": that is a branch"),
        (",snapshot=7", "no snapshot 7: expected one of "),
        (",snapshot=7,tag=first", "options \"snapshot\" and \"tag\" cannot be used together"),
        (",timestamp=2001-01-01", "its history begins at 2026-"),
        (",version=1", "\"version\" is for Delta Lake"),
    ] {
        let found = read_with(&table, options);
        assert!(found.code != Some(0) && found.stderr.contains(named), "{options}: {}", found.stderr);
    }
}

/// The snapshot that was the newest of the main branch: not one that was rolled back.
#[test]
fn iceberg_timestamp_names_the_snapshot_that_was_the_newest() {
    let table = tables().join("tables/snap_rollback");
    let json: Value = serde_json::from_slice(&fs::read(metadata(&table)).unwrap()).unwrap();
    let log = json["snapshot-log"].as_array().unwrap();
    assert!(log.len() >= 2);
    for entry in log {
        let time = chrono::DateTime::from_timestamp_millis(entry["timestamp-ms"].as_i64().unwrap()).unwrap();
        let found = read_with(&table, &format!(",timestamp={}", time.to_rfc3339()));
        let rows = tables().join(format!("expected/snap_rollback@{}.jsonl", entry["snapshot-id"]));
        assert_rows(found, &expected(&rows), "at its time");
    }
}

/// Without a catalog nothing shows which of its metadata files is the newest.
#[test]
fn iceberg_table_of_a_catalog_needs_its_metadata_file() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "meta_uuid");
    let found = read_with(&table, "");
    assert!(found.code == Some(1) && found.stderr.contains("the metadata file that the catalog of the table names"));
    let found = read_with(&table, ",format=iceberg");
    assert!(found.code == Some(1) && found.stderr.contains("a commit that failed"), "{}", found.stderr);
    // A table that a catalog took over.
    let other = copied(&scratch, "snap_rollback");
    let file = metadata(&table);
    fs::copy(&file, other.join("metadata").join(file.file_name().unwrap())).unwrap();
    assert!(read_with(&other, "").stderr.contains("a commit that failed"));
}

/// Files that are gone are not read elsewhere.
#[test]
fn iceberg_table_that_was_moved_is_read_where_it_is_with_a_note() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "rewritten");
    let found = read_with(&table, "");
    let note = "records the location file:/lake/iceberg/rewritten; its files are read below";
    assert!(found.code == Some(0) && found.stderr.contains(note), "{}", found.stderr);
    edit(&table, |metadata| metadata["location"] = json!(format!("file:{}", scratch.join("elsewhere").display())));
    let found = read_with(&table, "");
    assert!(found.code == Some(1) && found.stderr.contains("/lake/iceberg/rewritten/metadata/snap-"), "{found:?}");
}

#[test]
fn iceberg_tables_of_a_store_are_read() {
    let server = S3Server::default();
    for table in ["v3_dv_part", "v2_eqdel_part", "meta_gzip"] {
        server.put_directory(&format!("{table}/"), &tables().join("tables").join(table));
        let query = format!("SELECT * FROM '{}/'", server.url(table));
        let found = Found::of(server.tfr_sql().arg(&query));
        assert_rows(found, &expected(&tables().join("expected").join(format!("{table}.jsonl"))), table);
    }
}

/// So that another run can read the same rows, after the table has moved on.
#[test]
fn iceberg_snapshot_is_in_the_manifest() {
    let scratch = Scratch::default();
    copied(&scratch, "snap_rollback");
    for (number, (arguments, table, snapshot)) in [
        (vec!["SELECT id FROM 'snap_rollback/'"], "snap_rollback/", 6384023968408801874_i64),
        (vec!["--table", "t=snap_rollback/,snapshot=363709376216072884", "SELECT id FROM t"], "t", 363709376216072884),
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("out-{number}");
        run(tfr_sql().args(arguments).args(["--out", &out]).current_dir(scratch.path())).success();
        let manifest = fs::read(scratch.join(out).join("_manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let expected = json!({ table: { "format": "Apache Iceberg", "version": snapshot, "schema": 0 } });
        assert_eq!(manifest["options"]["versions"], expected);
    }
}

/// A table that has moved on is read as it was planned.
#[test]
fn iceberg_tables_are_read_by_tasks_in_the_planned_snapshot() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "snap_rollback");
    let command = |arguments: &[&str]| run(tfr_sql().args(arguments).current_dir(scratch.path()));
    let query = "SELECT id FROM 'snap_rollback/' ORDER BY id";
    let rows =
        |table: &str| command(&[&format!("SELECT id FROM '{table}' ORDER BY id"), "--format", "csv"]).success().stdout;
    let planned = rows("snap_rollback/");
    command(&[query, "--out", "out", "--shard-rows", "100", "--plan", "plan"]).success();
    edit(&table, |metadata| {
        metadata["current-snapshot-id"] = json!(363709376216072884_i64);
        metadata["refs"]["main"]["snapshot-id"] = json!(363709376216072884_i64);
    });
    command(&["task", "plan", "--index", "0"]).success();
    command(&["finish", "plan"]).success();
    assert_ne!(rows("snap_rollback/"), planned);
    assert_eq!(rows("out/"), planned);
}

/// The first line of the hint counts, whatever follows.
#[test]
fn iceberg_version_hint_is_its_first_line() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "snap_rollback");
    let rows = expected(&tables().join("expected/snap_rollback.jsonl"));
    for hint in [format!("+5\n{}", "x".repeat(200)), " 9 ".to_owned(), String::new()] {
        fs::write(table.join("metadata/version-hint.text"), &hint).unwrap();
        assert_rows(read_with(&table, ""), &rows, &hint);
    }
    fs::write(table.join("metadata/version-hint.text"), "4\n5").unwrap();
    assert!(read_with(&table, "").stderr.contains("names version 4, but there is no v4.metadata.json"));
}

#[test]
fn iceberg_metadata_directory_is_not_the_table() {
    let scratch = Scratch::default();
    copied(&scratch, "snap_rollback");
    let ask = |spec: &str| run(tfr_sql().args(["--table", spec, "SELECT * FROM t"]).current_dir(scratch.path()));
    for spec in ["t=snap_rollback/metadata/", "t=snap_rollback/metadata,format=iceberg"] {
        let found = ask(spec).exits_with(1);
        let named = "it has the metadata of an Iceberg table, and none of its rows\n\nhint: name the directory above, which is the table: FROM 'snap_rollback/'";
        assert!(found.stderr.contains(named), "{spec}: {}", found.stderr);
    }
}
