//! Paths in a log that lead out of what a run may open.

use std::fs;

use tfr_tests::{Run, Scratch, run, tfr_sql};

use super::{copied, edit_log, log};
use crate::lake::confined;

/// A table, whose last file is at `path`, read with only the table allowed.
fn read_confined(scratch: &Scratch, path: &str) -> Run {
    let table = copied(scratch, "names_plain");
    let text = fs::read_to_string(&log(&table)[0]).unwrap();
    let own = text.split("\"add\":{\"path\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let secret = scratch.join("secret.parquet");
    fs::rename(table.join(&own), &secret).unwrap();
    let path = path.replace("ROOT", scratch.path().to_str().unwrap());
    edit_log(&table, |text| text.replace(&format!("\"path\":\"{own}\""), &format!("\"path\":\"{path}\"")));
    confined(scratch, &["names_plain"], "SELECT * FROM 'names_plain/'")
}

#[test]
fn delta_log_does_not_lead_out_of_what_is_allowed() {
    for path in [
        "../secret.parquet",
        "%2E%2E/secret.parquet",
        "a/../../secret.parquet",
        "/ROOT/secret.parquet",
        "file:ROOT/secret.parquet",
        "file://ROOT/secret.parquet",
        "file:ROOT/names_plain/../secret.parquet",
        "file://localhost/ROOT/secret.parquet",
        "s3://bucket/secret.parquet",
        "http://127.0.0.1:9/secret.parquet",
        "hdfs://127.0.0.1/secret.parquet",
    ] {
        let scratch = Scratch::default();
        let found = read_confined(&scratch, path);
        assert!(found.code == Some(1) && found.stdout.is_empty(), "{path}: {found:?}");
        let is_named = found.stderr.contains("not allowed") || found.stderr.contains("names the file");
        assert!(is_named, "{path}: {}", found.stderr);
    }
}

/// A link in the table to a file outside, and a log that is one.
#[cfg(unix)]
#[test]
fn delta_links_do_not_lead_out_of_what_is_allowed() {
    use std::os::unix::fs::symlink;
    for is_log in [false, true] {
        let scratch = Scratch::default();
        let table = copied(&scratch, "names_plain");
        let inside = match is_log {
            true => log(&table)[0].clone(),
            false => {
                let files = fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().path());
                files.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "parquet")).unwrap()
            }
        };
        let outside = scratch.join("outside");
        fs::rename(&inside, &outside).unwrap();
        symlink(&outside, &inside).unwrap();
        let query = "SELECT * FROM 'names_plain/'";
        run(tfr_sql().args(["--format", "csv", query]).current_dir(scratch.path())).success();
        let found = confined(&scratch, &["names_plain"], query);
        assert!(found.code == Some(1) && found.stderr.contains("not allowed"), "{found:?}");
    }
}

/// The files of a clone are allowed by themselves.
#[test]
fn delta_clone_needs_its_source_to_be_allowed() {
    let scratch = Scratch::default();
    copied(&scratch, "clone_shallow");
    let ask = |allowed: &[&str]| confined(&scratch, allowed, "SELECT count(*) FROM 'clone_shallow/'");
    assert_eq!(ask(&["clone_shallow", "clone_shallow_source"]).success().stdout, "count(*)\n7\n");
    assert!(ask(&["clone_shallow"]).exits_with(1).stderr.contains("not allowed"));
}
