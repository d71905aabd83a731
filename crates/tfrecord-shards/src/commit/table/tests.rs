use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

fn begin(out: &Path, mode: SaveMode) -> TableCommit {
    let files = TableFiles::Directory { path: out.to_owned(), suffix: "csv".to_owned() };
    let commit = TableCommit::begin(files, mode, RunId::new(), &[], |_| {}).expect("a target");
    fs::write(commit.file(0, 1).0, format!("{mode:?}")).expect("a file");
    commit
}

fn content(out: &Path) -> Option<String> {
    fs::read_to_string(out.join("part-00000-of-00001.csv")).ok()
}

/// The names next to the table, and its own.
fn names(dir: &TempDir) -> Vec<String> {
    names_in(dir.path()).expect("a directory")
}

#[test]
fn shown_table_that_is_dropped_is_withdrawn() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("made/table");
    let mut first = begin(&out, SaveMode::Error);
    first.show().expect("shown");
    assert_eq!(content(&out).as_deref(), Some("Error"));
    drop(first);
    assert_eq!(names(&dir), [""; 0]);

    begin(&out, SaveMode::Error).publish().expect("published");
    let mut second = begin(&out, SaveMode::Overwrite);
    second.show().expect("shown");
    assert_eq!(content(&out).as_deref(), Some("Overwrite"));
    drop(second);
    assert_eq!(content(&out).as_deref(), Some("Error"));
    assert_eq!(names_in(&dir.path().join("made")).expect("a directory"), ["table"]);
}

#[test]
fn shown_table_that_is_kept_replaces_the_old_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("table");
    begin(&out, SaveMode::Error).publish().expect("published");
    let mut second = begin(&out, SaveMode::Overwrite);
    second.show().expect("shown");
    second.keep();
    assert_eq!(content(&out).as_deref(), Some("Overwrite"));
    assert_eq!(names(&dir), ["table"]);
}

#[test]
fn withdrawal_leaves_the_table_of_another_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("table");
    let mut first = begin(&out, SaveMode::Error);
    first.show().expect("shown");
    let other = begin(&out, SaveMode::Overwrite);
    let (staged, _) = other.file(0, 1);
    fs::write(staged, "other").expect("a file");
    other.publish().expect("published");
    drop(first);
    assert_eq!(content(&out).as_deref(), Some("other"));
}

#[test]
fn check_refuses_what_begin_does_and_makes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let out = dir.path().join("made/table");
    let files = TableFiles::Directory { path: out.clone(), suffix: "csv".to_owned() };
    TableCommit::check(&files, SaveMode::Error, &[]).expect("a target");
    assert_eq!(names(&dir), [""; 0]);
    begin(&out, SaveMode::Error).publish().expect("published");
    let refused = TableCommit::check(&files, SaveMode::Error, &[]).expect_err("a table is there");
    assert!(matches!(refused.kind(), ErrorKind::AlreadyThere { .. }));
    let refused = TableCommit::check(&files, SaveMode::Overwrite, std::slice::from_ref(&out)).expect_err("an input");
    assert!(matches!(refused.kind(), ErrorKind::Overlap { .. }));
}
