//! Table files in an object store: whole or not there, whatever fails.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tfr_tests::{Fault, Operation, S3Server, SECRET_KEY, Scratch, finish, run, tfr_sql};

/// About 1000 bytes a row.
fn rows(count: usize) -> String {
    format!("SELECT value AS id, repeat('x', 1000) AS text FROM generate_series(1, {count}) ORDER BY id")
}

/// Rows of two parts.
const LARGE: usize = 10_000;

fn write(server: &S3Server, query: &str, key: &str) -> Command {
    let mut command = server.tfr_sql();
    command.arg(query).args(["--out", &server.url(key)]);
    command
}

#[track_caller]
fn assert_nothing(server: &S3Server) {
    assert!(server.keys().is_empty(), "{:?}", server.keys());
    assert!(server.open_uploads().is_empty(), "{:?}", server.open_uploads());
}

#[test]
fn store_table_equals_the_local_table() {
    let (server, scratch) = (S3Server::default(), Scratch::default());
    for name in ["x.parquet", "x.arrow", "x.csv", "x.jsonl.gz", "x.json"] {
        let here = scratch.join(name);
        run(tfr_sql().arg(rows(1000)).arg("--out").arg(&here)).success();
        let report = run(write(&server, &rows(1000), name).args(["--report", "json"])).success().stdout;
        assert!(server.object(name) == std::fs::read(&here).unwrap(), "{name}");
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!((&report["out"], report["rows"].as_u64()), (&Value::from(server.url(name)), Some(1000)));
        assert!(!report.to_string().contains(SECRET_KEY));
    }
    assert_eq!(server.count(Operation::CreateUpload), 0);
    let here = scratch.join("large.csv");
    run(tfr_sql().arg(rows(LARGE)).arg("--out").arg(&here)).success();
    run(&mut write(&server, &rows(LARGE), "large.csv")).success();
    assert!(server.object("large.csv") == std::fs::read(&here).unwrap());
    assert_eq!(server.count(Operation::UploadPart), 2);
    assert!(server.open_uploads().is_empty());
    let count = format!("SELECT count(*) AS n, sum(id) AS sum FROM '{}'", server.url("large.csv"));
    let found = run(server.tfr_sql().args([&count, "--format", "csv"])).success().stdout;
    assert_eq!(found, "n,sum\n10000,50005000\n");
}

#[test]
fn store_table_is_replaced_only_by_overwrite() {
    let server = S3Server::default();
    for count in [10, LARGE] {
        server.put("x.csv", "mine");
        let refused = run(&mut write(&server, &rows(count), "x.csv")).exits_with(1);
        assert!(refused.stderr.contains("s3://data/x.csv: already exists"), "{}", refused.stderr);
        run(write(&server, &rows(count), "x.csv").args(["--mode", "ignore"])).success();
        assert_eq!(server.object("x.csv"), b"mine");
        run(write(&server, &rows(count), "x.csv").args(["--mode", "overwrite"])).success();
        assert_eq!(server.object("x.csv").split(|byte| *byte == b'\n').count(), count + 2);
    }
}

#[test]
fn store_table_of_a_failed_query_only_checks_the_target() {
    let server = S3Server::default();
    let query = "SELECT 1 / (value - 59990) AS x FROM generate_series(1, 60000)";
    run(&mut write(&server, query, "x.parquet")).exits_with(1);
    assert_nothing(&server);
    assert_eq!((server.received(), server.count(Operation::Head)), (1, 1));
}

#[test]
fn store_table_error_leaves_nothing() {
    for (operation, count) in [
        (Operation::Head, 10),
        (Operation::Put, 10),
        (Operation::CreateUpload, LARGE),
        (Operation::UploadPart, LARGE),
        (Operation::CompleteUpload, LARGE),
    ] {
        let server = S3Server::default();
        server.fail_always(operation, Fault::Echo);
        let failed = run(write(&server, &rows(count), "x.csv").arg("-v")).exits_with(1);
        assert!(failed.stderr.contains("error: s3://data/x.csv: cannot "), "{operation:?}: {}", failed.stderr);
        assert!(failed.stderr.contains("s3://data refuses access: 403"), "{operation:?}: {}", failed.stderr);
        assert!(!failed.stderr.contains(SECRET_KEY) && !failed.stderr.contains("Signature="), "{}", failed.stderr);
        assert_nothing(&server);
    }
}

#[test]
fn store_table_retries_transient_failures() {
    for fault in [Fault::slow_down(), Fault::Reset, Fault::ResetAfter] {
        for (operation, count) in
            [(Operation::Put, 10), (Operation::UploadPart, LARGE), (Operation::CompleteUpload, LARGE)]
        {
            // What creates an object, and is not known to have failed, is not sent again: somebody else may have created it.
            if operation == Operation::Put && fault == Fault::Reset {
                continue;
            }
            let server = S3Server::default();
            server.fail(operation, 0, fault.clone());
            run(&mut write(&server, &rows(count), "x.csv")).success();
            assert_eq!(server.keys(), ["x.csv"], "{operation:?} {fault:?}");
            assert_eq!(server.object("x.csv").split(|byte| *byte == b'\n').count(), count + 2);
            assert!(server.open_uploads().is_empty(), "{operation:?} {fault:?}");
        }
    }
}

#[test]
fn interrupted_store_table_leaves_nothing() {
    let server = S3Server::default();
    server.delay(Duration::from_millis(300));
    let mut command = write(&server, &rows(LARGE), "x.csv");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while server.open_uploads().is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "the command ended");
        thread::yield_now();
    }
    run(Command::new("kill").args(["-s", "INT", &child.id().to_string()])).success();
    assert_eq!(finish(child), Some(130));
    assert_nothing(&server);
}
