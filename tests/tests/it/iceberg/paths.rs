//! Paths in metadata that lead out of what a run may open.

use std::fs;
use std::sync::Arc;

use arrow::array::Int64Array;
use serde_json::json;
use tfr_tests::{Run, Scratch, run, tfr_sql};

use super::written::{File, Table};
use super::{copied, edit};
use crate::lake::confined;

const WAYS_OUT: &[&str] = &[
    "../secret",
    "secret",
    "ROOT/secret",
    "file:ROOT/secret",
    "file://ROOT/secret",
    "file:ROOT/t/../secret",
    "file:ROOT/t/%2E%2E/secret",
    "file://localhost/ROOT/secret",
    "s3://bucket/secret",
    "http://127.0.0.1:9/secret",
    "hdfs://127.0.0.1/secret",
];

#[track_caller]
fn assert_confined(found: &Run, path: &str) {
    assert!(found.code == Some(1) && found.stdout.is_empty(), "{path}: {found:?}");
    let named = ["not allowed", "names the file", "no such file"].iter().any(|reason| found.stderr.contains(reason));
    assert!(named, "{path}: {}", found.stderr);
}

/// A data file, and a file of keys, at `path`.
#[test]
fn iceberg_manifests_do_not_lead_out_of_what_is_allowed() {
    for path in WAYS_OUT {
        for content in [0, 2] {
            let scratch = Scratch::default();
            let mut table = Table::new(&scratch, "t");
            let columns = [("id", Some(1), Arc::new(Int64Array::from(vec![1])) as _)];
            let data = table.parquet("t/data/a.parquet", &columns, 9);
            let secret = table.parquet("secret", &columns, 9);
            let path = path.replace("ROOT", scratch.path().to_str().unwrap());
            table.files = vec![data, File { path, content, ids: vec![1], sequence: 2, ..secret }];
            table.write();
            assert_confined(&confined(&scratch, &["t"], "SELECT * FROM 't/'"), &table.files[1].path);
        }
    }
}

#[test]
fn iceberg_metadata_does_not_lead_out_of_what_is_allowed() {
    for path in WAYS_OUT {
        let scratch = Scratch::default();
        let table = copied(&scratch, "rewritten");
        let list = fs::read_dir(table.join("metadata")).unwrap().map(|entry| entry.unwrap().path());
        let list = list.into_iter().find(|path| path.to_str().unwrap().contains("/snap-")).unwrap();
        fs::rename(list, scratch.join("secret")).unwrap();
        let path = path.replace("ROOT", scratch.path().to_str().unwrap());
        edit(&table, |metadata| metadata["snapshots"][0]["manifest-list"] = json!(path));
        assert_confined(&confined(&scratch, &["rewritten"], "SELECT * FROM 'rewritten/'"), &path);
    }
}

/// A location that would turn every path into one below a folder that is not the table's.
#[test]
fn iceberg_location_does_not_lead_out_of_what_is_allowed() {
    for location in ["file:/", "", "t", "file:ROOT", "s3://bucket", "file:/lake/../.."] {
        let scratch = Scratch::default();
        let table = copied(&scratch, "rewritten");
        let location = location.replace("ROOT", scratch.path().to_str().unwrap());
        edit(&table, |metadata| metadata["location"] = json!(location));
        assert_confined(&confined(&scratch, &["rewritten"], "SELECT * FROM 'rewritten/'"), &location);
    }
}

/// A link in the table to a file outside.
#[cfg(unix)]
#[test]
fn iceberg_links_do_not_lead_out_of_what_is_allowed() {
    use std::os::unix::fs::symlink;
    for is_metadata in [false, true] {
        let scratch = Scratch::default();
        let table = copied(&scratch, "rewritten");
        let inside = match is_metadata {
            true => super::metadata(&table),
            false => {
                let files = fs::read_dir(table.join("data")).unwrap().map(|entry| entry.unwrap().path());
                files.into_iter().find(|path| path.to_str().unwrap().contains("-0-0")).unwrap()
            }
        };
        let outside = scratch.join("outside");
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        let query = "SELECT * FROM 'rewritten/'";
        run(tfr_sql().args(["--format", "csv", query]).current_dir(scratch.path())).success();
        let found = confined(&scratch, &["rewritten"], query);
        assert!(found.code == Some(1) && found.stderr.contains("not allowed"), "{found:?}");
    }
}

/// Files outside of the folder of the table are allowed by themselves.
#[test]
fn iceberg_files_outside_of_the_table_need_to_be_allowed() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    let columns = [("id", Some(1), Arc::new(Int64Array::from(vec![1, 2])) as _)];
    table.files = vec![table.parquet("elsewhere/a.parquet", &columns, 9)];
    table.write();
    let ask = |allowed: &[&str]| confined(&scratch, allowed, "SELECT count(*) FROM 't/'");
    assert_eq!(ask(&["t", "elsewhere"]).success().stdout, "count(*)\n2\n");
    assert!(ask(&["t"]).exits_with(1).stderr.contains("not allowed"));
}
