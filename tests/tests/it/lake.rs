//! What the tests of Delta and Iceberg tables share: copies of tables, damage, and rows that are compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tfr_tests::{Run, Scratch, repository, run, tfr_sql};

pub mod rows;

use rows::{rows_of, sorted};

/// The tables and rows of `../shared/lake`, if they are there.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = repository().join("../shared/lake").join(name);
    if !path.exists() {
        eprintln!("skipped: no {}", path.display());
        return None;
    }
    Some(path)
}

/// Copies a directory.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => fs::write(target, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}

/// A finished run that prints an Arrow stream.
#[derive(Debug)]
pub struct Found {
    pub code: Option<i32>,
    pub stream: Vec<u8>,
    pub stderr: String,
}

impl Found {
    /// Runs a query that prints an Arrow stream.
    pub fn of(command: &mut Command) -> Self {
        let output = command.args(["--format", "arrow"]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), stream: output.stdout, stderr }
    }
}

/// Reads the table in a directory.
pub fn read_with(table: &Path, options: &str) -> Found {
    let spec = format!("t=\"{}/\"{options}", table.display());
    Found::of(tfr_sql().args(["--table", &spec, "SELECT * FROM t"]))
}

/// Reads the table in a directory, or by its metadata file.
pub fn read_table(table: &Path, options: &str) -> Found {
    match table.is_dir() {
        true => read_with(table, options),
        false => {
            let spec = format!("t=\"{}\"{options}", table.display());
            Found::of(tfr_sql().args(["--table", &spec, "SELECT * FROM t"]))
        }
    }
}

/// The rows in a file with a line of JSON for each.
pub fn expected(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    sorted(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[track_caller]
pub fn assert_rows(found: Found, expected: &[String], what: &str) {
    assert_eq!(found.code, Some(0), "{what}: {}", found.stderr);
    let found = sorted(rows_of(&found.stream));
    assert_eq!(found, expected, "{what}");
}

/// Runs a query with some directories allowed, and one for temporary files.
pub fn confined(scratch: &Scratch, allowed: &[&str], query: &str) -> Run {
    fs::create_dir_all(scratch.join("temp")).unwrap();
    let allowed = allowed.iter().chain(&["temp"]).flat_map(|name| ["--allow", *name]);
    let command = &mut tfr_sql();
    command.current_dir(scratch.path()).args(["--temp-dir", "temp", "--format", "csv", query]);
    run(command.args(allowed))
}

/// Removes the end of a file.
pub fn cut(file: &Path) {
    let bytes = fs::read(file).unwrap();
    fs::write(file, &bytes[..bytes.len() * 2 / 3]).unwrap();
}

/// Changes one byte of a file.
pub fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0xff;
    fs::write(file, bytes).unwrap();
}

/// What damages a table.
pub type Damage = fn(&Path);

/// Asserts that a copy of a table is refused after it was damaged, by a text of the error.
#[track_caller]
pub fn assert_refused(copied: fn(&Scratch, &str) -> PathBuf, table: &str, damage: Damage, named: &str) {
    let scratch = Scratch::default();
    let copied = copied(&scratch, table);
    damage(&copied);
    let found = read_with(&copied, "");
    assert!(found.code == Some(1) && found.stderr.contains(named), "{table}, {named:?}: {}", found.stderr);
    assert!(found.stream.is_empty(), "{table}, {named:?}");
}
