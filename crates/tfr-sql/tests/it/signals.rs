//! Ctrl-C, SIGTERM and SIGHUP leave nothing behind.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::workbench::{Workbench, assert_prints};

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

#[test]
fn hung_up() {
    stops_cleanly("-HUP", 129);
}

/// As under `nohup`, and in a background job of a script.
#[cfg(target_os = "linux")]
#[test]
fn signals_that_were_ignored_stay_ignored() {
    let bench = Workbench::new();
    let script = r#"trap '' HUP INT; exec "$TFR" "SELECT * FROM '-'" --out shards --quiet"#;
    let mut child = Command::new("sh")
        .args(["-c", script])
        .env("TFR", env!("CARGO_BIN_EXE_tfr-sql"))
        .current_dir(bench.path())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // SIGTERM is signal 15.
    let is_watching = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        assert!(!status.contains("State:\tZ"), "the command ended");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> 14 & 1 == 1
    };
    while !is_watching() {
        std::thread::yield_now();
    }
    send("-HUP", &child);
    send("-INT", &child);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"id,name\n1,a\n2,b\n").unwrap();
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(bench.leftovers(), [Path::new("shards")]);
}

/// As when a terminal interrupts a program and this command, and the program then asks the command to stop.
#[test]
fn terminated_after_an_interrupt() {
    let bench = Workbench::new();
    let (mut child, mut talk) = start_writing(&bench);
    send("-INT", &child);
    send("-TERM", &child);
    let mut rest = String::new();
    talk.read_to_string(&mut rest).unwrap();
    // Either signal may be seen first.
    assert!([Some(130), Some(143)].contains(&child.wait().unwrap().code()));
    assert!(rest.contains("stopped; nothing was written"), "{rest}");
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

fn leaves_no_table(signal: &str, code: i32, out: &str) {
    let bench = Workbench::new();
    let mut child = bench.command(&[ENDLESS, "--out", out]).stderr(Stdio::piped()).spawn().unwrap();
    // What is staged lies beside the target.
    while bytes_under(bench.path()) == inputs_len(&bench) {
        assert!(child.try_wait().unwrap().is_none(), "the command ended");
        std::thread::yield_now();
    }
    send(signal, &child);
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code));
    assert_eq!(talk, "stopped; nothing was written\n");
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}

fn inputs_len(bench: &Workbench) -> u64 {
    let names = ["events.parquet", "many.parquet", "users.csv"];
    names.iter().map(|name| fs::metadata(bench.path().join(name)).unwrap().len()).sum()
}

#[test]
fn interrupted_while_writing_a_table() {
    leaves_no_table("-INT", 130, "x.csv");
    leaves_no_table("-INT", 130, "new/x.arrow");
}

#[test]
fn table_leftovers_of_a_killed_run_are_reported_and_removed() {
    let bench = Workbench::new();
    for out in ["x.csv", "x.csv/"] {
        let mut child = bench.command(&[ENDLESS, "--out", out, "--quiet"]).spawn().unwrap();
        while bytes_under(bench.path()) == inputs_len(&bench) {
            assert!(child.try_wait().unwrap().is_none(), "the command ended");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(bench.leftovers().len(), 1);
        let again = bench.run(&["SELECT 1 AS one", "--out", out, "--mode", "overwrite"]);
        let talk = String::from_utf8(again.stderr).unwrap();
        assert!(talk.starts_with("warning: ") && talk.contains(", killed\n"), "{talk}");
        assert_eq!(bench.leftovers(), [Path::new("x.csv")]);
        if out.ends_with('/') {
            fs::remove_dir_all(bench.path().join("x.csv")).unwrap();
        } else {
            fs::remove_file(bench.path().join("x.csv")).unwrap();
        }
    }
}

#[test]
fn remove_leftovers_deletes_tables_of_killed_runs() {
    const RUN: &str = "0198c0ffee0070008000000000000000";
    let bench = Workbench::new();
    let leave = |path: &str| {
        let path = format!(".tfr-{RUN}{path}");
        fs::create_dir_all(bench.path().join(&path).parent().unwrap()).unwrap();
        bench.text(&path, "a part of a table");
    };
    // As killed runs leave them: beside tables, and beside nothing.
    bench.text("x.csv.gz", "kept");
    fs::create_dir(bench.path().join("x.parquet")).unwrap();
    bench.text("x.parquet/part-00000-of-00001.parquet", "kept");
    let leave_all = || {
        leave("-x.csv.gz/x.csv.gz");
        leave("-absent.arrow/absent.arrow");
        leave("-x.parquet/part-00000-of-00002.parquet");
        leave("-x.parquet/_SUCCESS");
        leave(".replaced-x.parquet/part-00000-of-00001.parquet");
        leave("-none.json/part-00001-of-00002.json.gz");
    };
    leave_all();
    let tables = ["x.csv.gz", "absent.arrow", "x.parquet/", "none.json/"];
    assert_prints!(bench.tell_tool(&[["verify", "--remove-leftovers"].as_slice(), &tables].concat()), @r##"
    exit 0
    -- stderr
    removed [dir]/.tfr-0198c0ffee0070008000000000000000-x.csv.gz: left behind by run 0198c0ffee0070008000000000000000, which was killed
    removed [dir]/.tfr-0198c0ffee0070008000000000000000-absent.arrow: left behind by run 0198c0ffee0070008000000000000000, which was killed
    removed [dir]/.tfr-0198c0ffee0070008000000000000000-x.parquet: left behind by run 0198c0ffee0070008000000000000000, which was killed
    removed [dir]/.tfr-0198c0ffee0070008000000000000000.replaced-x.parquet: left behind by run 0198c0ffee0070008000000000000000, which was killed
    removed [dir]/.tfr-0198c0ffee0070008000000000000000-none.json: left behind by run 0198c0ffee0070008000000000000000, which was killed
    x.csv.gz: not checked, because a table is not a TFRecord file
    x.parquet/: not checked, because a table is not a TFRecord file
    0 records in 0 files, 0 B, [seconds]: all sound
    "##);
    let kept = [PathBuf::from("x.csv.gz"), PathBuf::from("x.parquet")];
    assert_eq!(bench.leftovers(), kept);
    assert_eq!(fs::read_to_string(bench.path().join("x.parquet/part-00000-of-00001.parquet")).unwrap(), "kept");

    // The next run says so, whatever comes of it.
    for mode in ["error", "ignore"] {
        leave("-x.csv.gz/x.csv.gz");
        let said = bench.tell(&["SELECT 1 AS one", "--out", "x.csv.gz", "--mode", mode]);
        assert!(said.contains(&format!(".tfr-{RUN}-x.csv.gz: left by run {RUN}, killed\n")), "{said}");
    }
    // A table that was moved aside stays as long as nothing is in its place, and so does what is not ours.
    leave(".replaced-y.parquet/part-00000-of-00001.parquet");
    leave("-z.csv/z.csv");
    leave("-z.csv/notes.txt");
    bench.tell_tool(&["verify", "--remove-leftovers", "y.parquet", "z.csv"]);
    assert!(bench.path().join(format!(".tfr-{RUN}.replaced-y.parquet/part-00000-of-00001.parquet")).exists());
    assert_eq!(fs::read_dir(bench.path().join(format!(".tfr-{RUN}-z.csv"))).unwrap().count(), 1);
}

#[test]
fn terminated_while_writing_a_table() {
    leaves_no_table("-TERM", 143, "x.jsonl.gz/");
}

/// The time of `--timeout` ends a query that would never end, while it writes and while it is planned.
#[test]
fn timeout_leaves_nothing() {
    let bench = Workbench::new();
    let query = plan_of_minutes();
    for arguments in [[ENDLESS, "--out", "shards"], [&query, "--out", "x.csv"]] {
        let run = bench.run(&[arguments.as_slice(), &["--timeout", "1s"]].concat());
        assert_eq!(run.status.code(), Some(124));
        let talk = String::from_utf8(run.stderr).unwrap();
        assert!(talk.contains("the time of --timeout has passed"), "{talk}");
        assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
    }
    let refused = bench.run(&["SELECT 1 AS x", "--timeout", "90"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(bench.run(&["SELECT 1 AS x", "--timeout", "1h"]).stdout, b"x\n1\n");
}

/// Uses a tool over a pipe that never ends, or over more bytes than it reads before the signal.
fn leaves_no_set(signal: &str, code: i32, arguments: &[&str]) {
    let bench = Workbench::new();
    let query = "SELECT value, repeat('x', 1000) AS x FROM generate_series(1, 200000)";
    assert!(bench.run(&[query, "--out", "shards", "--quiet"]).status.success());
    let before = bytes_under(bench.path());
    let mut child = bench.tool(arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    while bytes_under(bench.path()) == before {
        assert!(child.try_wait().unwrap().is_none(), "the command ended");
        std::thread::yield_now();
    }
    send(signal, &child);
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(code), "{talk}");
    assert!(talk.contains("stopped; nothing was written"), "{talk}");
    assert_eq!(bench.leftovers(), [Path::new("shards")]);
}

#[test]
fn interrupted_while_resharding() {
    leaves_no_set("-INT", 130, &["reshard", "shards", "--out", "out", "--compression", "gzip", "--threads", "1"]);
}

#[test]
fn terminated_while_salvaging() {
    leaves_no_set("-TERM", 143, &["salvage", "shards", "--out", "out", "--compression", "gzip", "--threads", "1"]);
}

#[test]
fn interrupted_while_waiting_for_records() {
    let bench = Workbench::new();
    let mut child = bench.tool(&["cat", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // A record is printed, so it reads; the pipe stays open and silent.
    let mut writer = tfrecord_framing::RecordWriter::new(Vec::new());
    writer.write_record(b"").unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &writer.finish().unwrap()).unwrap();
    let mut line = [0; 3];
    child.stdout.take().unwrap().read_exact(&mut line).unwrap();
    send("-INT", &child);
    assert_eq!((&line, child.wait().unwrap().code()), (b"{}\n", Some(130)));
}

/// The files are listed while the query is planned, here by a server that takes the request and says nothing.
#[test]
fn interrupted_while_listing_files() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let query = format!("SELECT path FROM files('http://{}/images/')", silent.local_addr().unwrap());
    let bench = Workbench::new();
    let mut child = bench.command(&[&query]).spawn().unwrap();
    let _asked = silent.accept().unwrap();
    send("-INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
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

#[test]
fn spill_of_a_killed_run_is_removed_by_the_next() {
    let bench = Workbench::new();
    let spill = bench.path().join("spill");
    fs::create_dir(&spill).unwrap();
    let sort = format!("SELECT value, md5(CAST(value AS VARCHAR)) AS hash FROM ({ENDLESS}) ORDER BY hash");
    let arguments = [sort.as_str(), "--memory-limit", "16MiB", "--temp-dir", "spill"];
    let mut child = bench.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    while bytes_under(&spill) == 0 {
        assert!(child.try_wait().unwrap().is_none(), "the command ended");
        std::thread::yield_now();
    }
    let next = || {
        let shown = bench.tell(&["SELECT 1 AS one", "--format", "csv", "--temp-dir", "spill"]);
        assert_eq!(shown, "exit 0\n-- stdout\none\n1\n");
        fs::read_dir(&spill).unwrap().count()
    };
    // It lives.
    assert_eq!(next(), 1);
    assert!(child.try_wait().unwrap().is_none(), "the command ended");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(bytes_under(&spill) > 0);
    assert_eq!(next(), 0);
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
fn set_leftovers_of_a_killed_run_are_reported() {
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
fn interrupt_ends_a_query_whose_reader_stalls() {
    let bench = Workbench::new();
    let mut child = bench.command(&[ENDLESS]).stdout(Stdio::piped()).spawn().unwrap();
    // The first row is out, so the query runs; nobody reads the rest, so the pipe is or will be full.
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 6]).unwrap();
    send("-INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// The system's list of the signals that a process handles.
fn handles_sigterm(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(handled.trim(), 16).unwrap() & (1 << 14) != 0
}

/// A query that takes minutes to plan, without a pause.
fn plan_of_minutes() -> String {
    let steps: Vec<_> = (1..3000).map(|n| format!("c{n} AS (SELECT v + 1 AS v FROM c{})", n - 1)).collect();
    format!("WITH c0 AS (SELECT 1 AS v), {} SELECT v FROM c2999", steps.join(", "))
}

#[test]
fn terminated_while_planning() {
    let bench = Workbench::new();
    let query = plan_of_minutes();
    let mut child = bench.command(&[&query, "--out", "x.csv"]).stderr(Stdio::piped()).spawn().unwrap();
    while !handles_sigterm(&child) {
        assert!(child.try_wait().unwrap().is_none(), "the command ended");
        std::thread::yield_now();
    }
    send("-TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(bench.leftovers().is_empty(), "{:?}", bench.leftovers());
}
