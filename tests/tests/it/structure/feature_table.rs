//! The table "feature -> tests" in CONTRIBUTING.md: its paths exist, and every integration test is in a row.

use std::fs;
use std::path::{Path, PathBuf};

use tfr_tests::repository;

/// The paths in the rows of the table. `{a,b}` in a path is one of them each.
fn listed() -> Vec<String> {
    let text = fs::read_to_string(repository().join("CONTRIBUTING.md")).unwrap();
    let (_, table) = text.split_once("| feature | tests |\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    quoted.filter(|quoted| quoted.contains('/')).flat_map(expand).collect()
}

fn expand(path: &str) -> Vec<String> {
    let Some((before, (names, after))) =
        path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
    else {
        return vec![path.to_owned()];
    };
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

/// The files with tests below a directory.
fn test_files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let files = paths.flat_map(|path| match path.is_dir() {
        true => test_files(&path),
        false => vec![path],
    });
    let has_tests = |file: &PathBuf| {
        file.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(file).unwrap().lines().any(|line| {
                let attribute = line.trim_start();
                attribute.starts_with("#[test]") || attribute.starts_with("#[tokio::test")
            })
    };
    files.filter(has_tests).collect()
}

/// Whether a row names the file, a directory of it, or the file of its parent module.
fn is_listed(file: &str, listed: &[String]) -> bool {
    listed.iter().any(|path| {
        let directory = path.strip_suffix(".rs").unwrap_or(path).trim_end_matches('/');
        file == path || file.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
    })
}

#[test]
fn feature_table_names_files_that_exist_and_every_integration_test() {
    let root = &repository();
    let listed = listed();
    let missing: Vec<_> = listed.iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "not in the repository: {missing:?}");

    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let files = crates.chain([root.join("tests")]).flat_map(|directory| test_files(&directory.join("tests")));
    let names = files.map(|file| file.strip_prefix(root).unwrap().display().to_string());
    let unlisted: Vec<_> = names.filter(|name| !is_listed(name, &listed)).collect();
    assert!(unlisted.is_empty(), "in no row of the table in CONTRIBUTING.md: {unlisted:?}");
}
