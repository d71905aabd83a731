//! Sets in an object store, written by the command to a server that speaks S3: whole or not there, whatever fails.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tfr_tests::{
    Fault, Operation, Run, S3Server, SECRET_KEY, Scratch, WebServer, WebServerOptions, finish, run, tfr_sql,
    without_stores,
};

/// More rows than any test waits for.
const ENDLESS: &str = "SELECT value, value * 2 AS double FROM generate_series(1, 100000000000)";

fn rows(count: usize) -> String {
    format!("SELECT value AS id, concat('row ', value) AS name FROM generate_series(1, {count})")
}

fn write(server: &S3Server, query: &str, key: &str) -> Command {
    let mut command = server.tfr_sql();
    command.arg(query).args(["--out", &server.url(key)]);
    command
}

/// The rows of a table, sorted.
fn read(mut command: Command, table: &str) -> String {
    run(command.args([&format!("SELECT * FROM '{table}' ORDER BY id"), "--format", "csv"])).success().stdout
}

/// Nothing is there, and nothing is about to be.
#[track_caller]
fn assert_nothing(server: &S3Server) {
    assert!(server.keys().is_empty(), "{:?}", server.keys());
    assert!(server.open_uploads().is_empty(), "{:?}", server.open_uploads());
}

#[test]
fn store_set_reads_like_a_local_set() {
    let scratch = Scratch::default();
    let server = S3Server::default();
    for (number, arguments) in [
        &["--shards", "4"][..],
        &["--shard-rows", "1000", "--compression", "gzip", "--threads", "3"],
        &["--compression", "zlib"],
    ]
    .into_iter()
    .enumerate()
    {
        let (key, out) = (format!("sets/{number}/"), scratch.join(format!("{number}")));
        let report = run(write(&server, &rows(5000), &key).args(arguments).args(["--report", "json"])).success().stdout;
        run(tfr_sql().arg(rows(5000)).arg("--out").arg(&out).args(arguments)).success();
        assert_eq!(read(server.tfr_sql(), &server.url(&key)), read(tfr_sql(), out.to_str().unwrap()));
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["out"], server.url(&key));
        let manifest: Value = serde_json::from_slice(&server.object(&format!("{key}_manifest.json"))).unwrap();
        assert_eq!(manifest["totals"]["rows"], 5000);
        for shard in manifest["shards"].as_array().unwrap() {
            let path = shard["path"].as_str().unwrap();
            assert_eq!(server.object(&format!("{key}{path}")).len() as u64, shard["file_bytes"], "{path}");
        }
        assert!(!manifest.to_string().contains(SECRET_KEY));
    }
    let keys = server.keys();
    assert!(keys.contains(&"sets/0/part-00003-of-00004.tfrecord".to_owned()), "{keys:?}");
    assert!(keys.contains(&"sets/1/part-00000-00004.tfrecord.gz".to_owned()), "{keys:?}");
    assert!(server.open_uploads().is_empty());
}

#[test]
fn rejected_rows_of_a_store_set_are_in_a_local_table() {
    let scratch = Scratch::default();
    let bad = scratch.join("bad");
    let query = "SELECT nullif(value, 7) AS id FROM generate_series(1, 3000)";
    let write = |server: &S3Server| {
        let mut command = write(server, query, "out/");
        run(command.args(["--null", "error", "--max-rejects", "1", "--rejects"]).arg(&bad))
    };
    // A set that cannot be published takes the table back.
    let broken = S3Server::default();
    broken.fail_always(Operation::CompleteUpload, Fault::Echo);
    write(&broken).exits_with(1);
    assert_nothing(&broken);
    assert!(!bad.exists());
    let server = S3Server::default();
    write(&server).success();
    let manifest: Value = serde_json::from_slice(&server.object("out/_manifest.json")).unwrap();
    assert_eq!((&manifest["totals"]["rows"], &manifest["rejects"]["rows"]), (&2999.into(), &1.into()));
    assert_eq!(read(tfr_sql(), bad.to_str().unwrap()).lines().count(), 2);
}

#[test]
fn store_write_of_a_failed_query_leaves_nothing() {
    let server = S3Server::default();
    let query = "SELECT value, 1 / (value - 59990) AS x FROM generate_series(1, 60000)";
    for arguments in [&["--shard-rows", "1000"][..], &["--shards", "8"]] {
        let failed = run(write(&server, query, "out/").args(arguments)).exits_with(1);
        assert!(failed.stderr.to_lowercase().contains("by zero"), "{}", failed.stderr);
        assert_nothing(&server);
    }
    assert!(server.count(Operation::AbortUpload) > 0, "no upload was begun before the query failed");
}

#[test]
fn store_error_is_named_and_leaves_nothing() {
    for (operation, action) in [
        (Operation::List, "list"),
        (Operation::CreateUpload, "begin the upload of"),
        (Operation::UploadPart, "upload"),
        (Operation::Put, "write"),
        (Operation::CompleteUpload, "complete the upload of"),
    ] {
        let server = S3Server::default();
        server.fail_always(operation, Fault::Echo);
        let failed = run(write(&server, &rows(3000), "out/").args(["--shards", "3", "-v"])).exits_with(1);
        let expected = format!("cannot {action}");
        assert!(failed.stderr.contains(&expected) && failed.stderr.contains("s3://data/out"), "{}", failed.stderr);
        assert!(!failed.stderr.contains(SECRET_KEY) && !failed.stderr.contains("Signature="), "{}", failed.stderr);
        assert_nothing(&server);
    }
}

#[test]
fn store_write_retries_transient_failures() {
    let server = S3Server::default();
    run(write(&server, &rows(3000), "expected/").args(["--shards", "3"])).success();
    for (operation, fault) in [
        (Operation::List, Fault::slow_down()),
        (Operation::List, Fault::Cut),
        (Operation::CreateUpload, Fault::slow_down()),
        (Operation::CreateUpload, Fault::Cut),
        (Operation::CreateUpload, Fault::Reset),
        (Operation::UploadPart, Fault::slow_down()),
        (Operation::UploadPart, Fault::Reset),
        (Operation::UploadPart, Fault::ResetAfter),
        (Operation::CompleteUpload, Fault::slow_down()),
        (Operation::CompleteUpload, Fault::Reset),
        (Operation::CompleteUpload, Fault::ResetAfter),
        (Operation::CompleteUpload, Fault::Cut),
        (Operation::Put, Fault::slow_down()),
        (Operation::Put, Fault::ResetAfter),
    ] {
        let server_of_run = S3Server::default();
        // The second of its kind, where there is a second.
        let number = usize::from(operation != Operation::List);
        server_of_run.fail(operation, number, fault.clone());
        let written = run(write(&server_of_run, &rows(3000), "out/").args(["--shards", "3"]));
        assert_eq!(written.code, Some(0), "{operation:?}, {fault:?}: {}", written.stderr);
        let read = |server: &S3Server, key| read(server.tfr_sql(), &server.url(key));
        assert_eq!(read(&server_of_run, "out/"), read(&server, "expected/"), "{operation:?}, {fault:?}");
        // Nobody knows the id of an upload whose first answer was cut.
        let unknown = usize::from(operation == Operation::CreateUpload && fault == Fault::Cut);
        assert_eq!(server_of_run.open_uploads().len(), unknown, "{operation:?}, {fault:?}");
        assert_eq!(server_of_run.keys().len(), 5, "{operation:?}, {fault:?}");
    }
}

#[test]
fn store_set_is_replaced_only_by_overwrite() {
    let server = S3Server::default();
    run(write(&server, &rows(10), "out").args(["--shards", "2"])).success();
    let keys = server.keys();
    for more in [&[][..], &["--dry-run"]] {
        let refused = run(write(&server, &rows(20), "out/").args(["--shards", "2"]).args(more)).exits_with(1);
        assert!(refused.stderr.contains("s3://data/out/: not empty"), "{}", refused.stderr);
    }
    assert_eq!(server.keys(), keys);
    // Not by one that fails.
    let query = "SELECT 1 / (value - 9) AS x FROM generate_series(1, 10)";
    run(write(&server, query, "out/").args(["--mode", "overwrite"])).exits_with(1);
    assert_eq!(server.keys(), keys);
    run(write(&server, &rows(20), "out/").args(["--shards", "2", "--mode", "overwrite"])).success();
    assert_eq!(read(server.tfr_sql(), &server.url("out/")).lines().count(), 21);
    assert_eq!(server.keys().len(), 4, "{:?}", server.keys());
    let overlap = format!("SELECT * FROM '{}'", server.url("out/"));
    let refused = run(write(&server, &overlap, "out/").args(["--mode", "overwrite"])).exits_with(1);
    assert!(refused.stderr.contains("overlaps with input"), "{}", refused.stderr);
    server.put("out/notes.txt", "mine");
    let refused = run(write(&server, &rows(20), "out/").args(["--mode", "overwrite"])).exits_with(1);
    assert!(refused.stderr.contains("notes.txt"), "{}", refused.stderr);
    assert!(server.open_uploads().is_empty());
}

#[test]
fn concurrent_store_writes_let_one_fail_cleanly() {
    let server = S3Server::default();
    server.delay(Duration::from_millis(20));
    let spawn = |count| spawn(write(&server, &rows(count), "out/").args(["--shards", "3"]));
    let mut codes = [spawn(30), spawn(60)].map(finish);
    codes.sort();
    assert_eq!(codes, [Some(0), Some(1)]);
    let found = read(server.tfr_sql(), &server.url("out/")).lines().count();
    assert!([31, 61].contains(&found), "{found} lines");
    assert_eq!(server.keys().len(), 5, "{:?}", server.keys());
    assert!(server.open_uploads().is_empty());
}

/// With `kill -9` uploads stay open, which nobody sees, and the next run goes on as if nothing had been.
#[test]
fn interrupted_store_write_leaves_nothing_visible() {
    for (signal, code) in [("INT", Some(130)), ("TERM", Some(143)), ("KILL", None)] {
        let server = S3Server::default();
        let child = spawn(write(&server, ENDLESS, "out/").args(["--shard-rows", "10000"]));
        let started = Instant::now();
        while server.open_uploads().len() < 3 {
            assert!(started.elapsed() < Duration::from_secs(120), "no uploads");
            thread::yield_now();
        }
        self::signal(signal, &child);
        assert_eq!(finish(child), code, "SIG{signal}");
        assert!(server.keys().is_empty(), "SIG{signal}: {:?}", server.keys());
        assert_eq!(server.open_uploads().is_empty(), signal != "KILL", "SIG{signal}");
        run(write(&server, &rows(10), "out/").args(["--shards", "1"])).success();
        assert_eq!(server.keys().len(), 3, "SIG{signal}");
    }
}

/// Killed at one moment after the other, a run leaves the old set, the new one or none, and the next run clears up.
#[test]
fn store_write_survives_a_kill_at_every_third_request() {
    for old in [None, Some(10)] {
        for requests in (1..).step_by(3) {
            let server = S3Server::default();
            if let Some(rows_before) = old {
                run(write(&server, &rows(rows_before), "out/").args(["--shards", "2"])).success();
            }
            let before = server.received();
            server.delay(Duration::from_millis(5));
            let overwrite = ["--mode", "overwrite", "--shards"];
            let mut child = spawn(write(&server, &rows(30), "out/").args(overwrite).arg("3"));
            while server.received() < before + requests && child.try_wait().unwrap().is_none() {
                // Without a pause this takes the core that the command and the server need.
                thread::sleep(Duration::from_millis(1));
            }
            signal("KILL", &child);
            let code = finish(child);
            server.delay(Duration::ZERO);
            let place = format!("killed at request {requests} of a run over {old:?}");
            let found = set_rows(&server, "out/");
            assert!(found == Some(30) || (found == old && code.is_none()), "{place}: {found:?}");
            run(write(&server, &rows(20), "out/").args(overwrite).arg("1")).success();
            assert_eq!(set_rows(&server, "out/"), Some(20), "{place}");
            assert_eq!(server.keys().len(), 3, "{place}: {:?}", server.keys());
            if code == Some(0) {
                break;
            }
        }
    }
}

/// Rows of a set, if there is a whole one.
fn set_rows(server: &S3Server, key: &str) -> Option<usize> {
    let query = format!("SELECT id FROM '{}'", server.url(key));
    let read = run(server.tfr_sql().args([&query, "--format", "csv"]));
    if read.code != Some(0) {
        let is_none = read.stderr.contains("is not complete") || read.stderr.contains("no such file");
        assert!(is_none, "{}", read.stderr);
        return None;
    }
    Some(read.stdout.lines().count() - 1)
}

#[test]
fn many_open_shards_need_little_memory() {
    let scratch = Scratch::default();
    let server = S3Server::default();
    let spill = scratch.join("spill");
    fs::create_dir(&spill).unwrap();
    let mut command = write(&server, &rows(200_000), "out/");
    command.args(["--shards", "256", "--memory-limit", "32MiB", "--temp-dir"]).arg(&spill);
    run(&mut command).success();
    assert_eq!(server.keys().len(), 258);
    assert_eq!(fs::read_dir(&spill).unwrap().count(), 0);
    let counted = format!("SELECT count(*), sum(id) FROM '{}'", server.url("out/"));
    let counted = run(server.tfr_sql().args([&counted, "--format", "csv"])).success().stdout;
    assert!(counted.ends_with("\n200000,20000100000\n"), "{counted}");
}

#[test]
fn tools_read_sets_in_a_store() {
    let (server, scratch) = (S3Server::default(), Scratch::default());
    run(write(&server, &rows(1000), "out/").args(["--shards", "4"])).success();
    let url = server.url("out/");
    let local = scratch.join("local");
    run(tfr_sql().arg(rows(1000)).arg("--out").arg(&local).args(["--shards", "4"])).success();
    let local = local.display().to_string();

    let sound = run(server.tfr_sql().args(["verify", &url])).success();
    assert_eq!(sound.stdout, "");
    assert!(sound.stderr.contains("1,000 records in 4 files"), "{}", sound.stderr);
    let shards = server.url("out/*.tfrecord");
    for (there, here) in [
        (&["cat", &url][..], &["cat", &local][..]),
        (&["cat", shards.as_str()], &["cat", &local]),
        (&["head", "-n", "3", url.trim_end_matches('/')], &["head", "-n", "3", &local]),
    ] {
        let [there, here] = [(server.tfr_sql(), there), (tfr_sql(), here)]
            .map(|(mut command, arguments)| run(command.args(arguments)).success().stdout);
        assert_eq!(there, here);
        assert!(there.lines().count() == 1000 || there.lines().count() == 3);
    }
    let moved = scratch.join("moved");
    run(server.tfr_sql().args(["reshard", &url, "--shards", "2", "--out"]).arg(&moved)).success();
    let moved = format!("SELECT count(*), sum(id) FROM '{}'", moved.display());
    assert!(run(tfr_sql().args([&moved, "--format", "csv"])).success().stdout.ends_with("\n1000,500500\n"));

    // One byte of a record is another, a shard is gone, and one too many is there.
    let keys: Vec<_> = server.keys().into_iter().filter(|key| key.contains(".tfrecord")).collect();
    let one = server.url(&keys[1]);
    let whole = run(server.tfr_sql().args(["cat", &one])).success().stdout.lines().count();
    let mut damaged = server.object(&keys[1]);
    damaged[100] ^= 1;
    server.put(&keys[1], damaged);
    server.put("out/extra-00000-of-00001.tfrecord", server.object(&keys[0]));
    let found = run(server.tfr_sql().args(["verify", &url])).exits_with(1).stdout;
    let damage = format!("{}: record ", server.url(&keys[1]));
    assert!(found.lines().any(|line| line.starts_with(&damage) && line.contains(" at byte ")), "{found}");
    assert!(found.contains("s3://data/out/extra-00000-of-00001.tfrecord: not part of the set"), "{found}");
    let found = run(server.tfr_sql().args(["cat", &one])).exits_with(1);
    assert!(found.stderr.contains(&damage), "{}", found.stderr);
    let saved = scratch.join("saved");
    let found = run(server.tfr_sql().args(["salvage", &one, "--out"]).arg(&saved)).success().stdout;
    assert!(found.starts_with(&damage), "{found}");
    let saved = format!("SELECT count(*) FROM '{}'", saved.display());
    let counted = run(tfr_sql().args([&saved, "--format", "csv"])).success().stdout;
    assert!(counted.ends_with(&format!("\n{}\n", whole - 1)), "{counted}");

    // Whole blocks are asked for, one ahead, and not every record.
    let before = server.received();
    run(server.tfr_sql().args(["verify", &server.url(&keys[0])])).success();
    let requests = server.requests().split_off(before);
    assert!(requests.len() <= 3, "{requests:?}");
}

#[test]
fn tools_report_errors_of_the_store() {
    let server = S3Server::default();
    run(write(&server, &rows(10), "out/").args(["--shards", "1"])).success();
    let missing = server.url("nothing/");
    let refused = run(server.tfr_sql().args(["verify", &missing])).exits_with(1).stderr;
    assert!(refused.contains(&missing), "{refused}");
    server.fail_always(Operation::Get, Fault::Status(403, "<Error><Code>AccessDenied</Code></Error>".to_owned()));
    let url = server.url("out/part-00000-of-00001.tfrecord");
    for tool in ["verify", "cat"] {
        let refused = run(server.tfr_sql().args([tool, &url])).exits_with(1);
        let said = refused.stdout + &refused.stderr;
        assert!(said.contains(&url) && !said.contains(SECRET_KEY), "{said}");
    }
    let shard = server.object("out/part-00000-of-00001.tfrecord");
    let web = WebServer::new(WebServerOptions { head: true, ranges: true }, [("/a.tfrecord", shard)]);
    let there = |name: &str| format!("http://{}/{name}", web.authority());
    let read = run(without_stores(tfr_sql()).args(["cat", &there("a.tfrecord")])).success().stdout;
    assert_eq!(read.lines().count(), 10);
    let refused = run(without_stores(tfr_sql()).args(["cat", &there("b.tfrecord")])).exits_with(1).stderr;
    assert!(refused.contains(&there("b.tfrecord")), "{refused}");
}

#[test]
fn commands_for_local_files_reject_urls() {
    let server = S3Server::default();
    run(write(&server, &rows(10), "out/").args(["--shards", "1"])).success();
    let url = server.url("out/");
    let web = "https://localhost:1/x/";
    for (arguments, url) in [(["index", &url, ""], &*url), (["verify", web, "--remove-leftovers"], web)] {
        let arguments = arguments.iter().filter(|argument| !argument.is_empty());
        let refused = run(server.tfr_sql().args(arguments)).exits_with(2);
        assert!(refused.stderr.contains(url) && refused.stderr.contains("hint: "), "{}", refused.stderr);
    }
    let refused = run(server.tfr_sql().args(["reshard", "here", "--out", &url])).exits_with(2);
    assert!(refused.stderr.contains("writing to s3:// is not supported here"), "{}", refused.stderr);
    let refused = run(&mut write(&server, &rows(10), "table.parquet/")).exits_with(2);
    let directory = "a directory of Parquet files to an object store is not supported";
    assert!(refused.stderr.contains(directory), "{}", refused.stderr);
    let refused = run(server.tfr_sql().args([&rows(10), "--out", "https://localhost:1/x.csv"])).exits_with(1);
    assert!(refused.stderr.contains("https://localhost:1/x.csv"), "{}", refused.stderr);
    let refused = run(server.tfr_sql().args([&rows(10), "--out", "https://localhost/x/"])).exits_with(1);
    assert!(refused.stderr.contains("cannot write to https://localhost/x/"), "{}", refused.stderr);
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(name: &str, child: &Child) {
    // The process may be gone already; its exit code tells.
    let _: Run = run(Command::new("sh").args(["-c", &format!("kill -s {name} {}", child.id())]));
}
