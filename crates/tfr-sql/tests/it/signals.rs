//! Ctrl-C and SIGTERM leave nothing behind.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::workbench::Workbench;

/// A query that does not end by itself.
const ENDLESS: &str = "SELECT value FROM generate_series(1, 1000000000000)";

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Starts an endless write and waits until rows are on their way to the disk.
fn start_writing(bench: &Workbench) -> (Child, impl std::io::BufRead) {
    let mut child = bench
        .command(&[ENDLESS, "--out", "shards", "--shard-rows", "10000", "--progress", "always"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while line.is_empty() || line.starts_with("0 rows") {
        line.clear();
        assert_ne!(talk.read_line(&mut line).unwrap(), 0, "the command ended");
    }
    assert!(!bench.leftovers().is_empty(), "nothing is staged");
    (child, talk)
}

fn stops_cleanly(signal: &str, code: i32) {
    let bench = Workbench::new();
    let (mut child, mut talk) = start_writing(&bench);
    send(signal, &child);
    let mut rest = String::new();
    talk.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code));
    assert!(rest.contains("stopped; nothing was written"), "{rest}");
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

#[test]
fn interrupted() {
    stops_cleanly("-INT", 130);
}

#[test]
fn terminated() {
    stops_cleanly("-TERM", 143);
}

/// Bytes of the files under `dir`, whatever of it goes meanwhile.
fn bytes_under(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_under(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

fn leaves_nothing_spilled(signal: &str, code: i32) {
    let bench = Workbench::new();
    let spill = bench.path().join("spill");
    fs::create_dir(&spill).unwrap();
    let query = format!("SELECT value, md5(CAST(value AS VARCHAR)) AS hash FROM ({ENDLESS}) ORDER BY hash");
    let limits = ["--memory-limit", "16MiB", "--temp-dir", "spill", "--progress", "always"];
    let mut child = bench
        .command(&[&[query.as_str()], limits.as_slice()].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut talk = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while bytes_under(&spill) == 0 {
        assert_ne!(talk.read_line(&mut line).unwrap(), 0, "the command ended: {line}");
    }
    send(signal, &child);
    talk.read_to_string(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code));
    assert_eq!(bench.leftovers(), [Path::new("spill")]);
    assert_eq!(fs::read_dir(&spill).unwrap().count(), 0);
}

#[test]
fn interrupted_while_spilling() {
    leaves_nothing_spilled("-INT", 130);
}

#[test]
fn terminated_while_spilling() {
    leaves_nothing_spilled("-TERM", 143);
}

#[test]
fn what_a_killed_run_left_is_told() {
    let bench = Workbench::new();
    let (mut child, _talk) = start_writing(&bench);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(bench.leftovers().len(), 1);

    let again = bench.run(&["SELECT 1 AS one", "--out", "shards", "--mode", "overwrite"]);
    let talk = String::from_utf8(again.stderr).unwrap();
    assert_eq!(
        talk.lines().filter(|line| line.starts_with("warning: ") && line.contains("killed")).count(),
        1,
        "{talk}"
    );
    assert_eq!(bench.leftovers(), [Path::new("shards")]);
}

#[test]
fn a_reader_that_does_not_read_does_not_keep_it() {
    let bench = Workbench::new();
    let mut child = bench.command(&[ENDLESS]).stdout(Stdio::piped()).spawn().unwrap();
    // The first row is out, so the query runs; nobody reads the rest, so the pipe is or will be full.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 6]).unwrap();
    send("-INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
