//! Messages as JSON lines, for programs.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::workbench::{Workbench, tell};

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(include_str!("../../../../schemas/messages.schema.json")).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// Runs the command, and returns its exit code and its messages, after it has printed nothing to standard error.
fn messages(bench: &Workbench, arguments: &[&str]) -> (i32, Vec<Value>) {
    let path = bench.path().join("messages");
    let _absent = fs::remove_file(&path);
    let output = bench.tool(arguments).args(["--messages", "messages"]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", tell(&output));
    let lines: Vec<Value> =
        fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let validator = validator();
    for line in &lines {
        let errors: Vec<_> = validator.iter_errors(line).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{line}: {errors:?}");
    }
    (output.status.code().unwrap(), lines)
}

fn of<'a>(messages: &'a [Value], event: &str) -> Vec<&'a Value> {
    messages.iter().filter(|message| message["event"] == event).collect()
}

#[test]
fn a_run_has_progress_warnings_and_notes() {
    let bench = Workbench::new();
    let (code, all) = messages(&bench, &["SELECT score FROM 'events.parquet'", "--out", "shards"]);
    assert_eq!(code, 0);
    let [warning] = of(&all, "warning").try_into().unwrap();
    assert_eq!(warning["kind"], "loss");
    assert!(warning["message"].as_str().unwrap().contains("\"score\""), "{warning}");
    let progress = of(&all, "progress");
    assert_eq!(progress[0]["rows"], 0);
    let [note] = of(&all, "note").try_into().unwrap();
    assert!(note["message"].as_str().unwrap().starts_with("4 rows in 1 shard"), "{note}");
    assert!(of(&all, "error").is_empty());
    // Progress and warnings can be turned off.
    let out = ["--out", "quiet", "--quiet", "--progress", "never"];
    assert_eq!(messages(&bench, &[&["SELECT score FROM 'events.parquet'"], &out[..]].concat()), (0, vec![]));
}

/// Runs a command that fails and returns its last message.
fn error(bench: &Workbench, arguments: &[&str]) -> Value {
    let (code, mut all) = messages(bench, arguments);
    let error = all.pop().unwrap();
    assert_eq!((error["event"].as_str(), error["exit_code"].as_i64()), (Some("error"), Some(code.into())), "{error}");
    error
}

#[test]
fn error_messages_report_kind_file_and_hint() {
    let bench = Workbench::new();
    let usage = error(&bench, &["SELECT 1", "--shard", "4"]);
    assert_eq!((&usage["kind"], &usage["exit_code"]), (&json!("usage"), &json!(2)));
    assert_eq!(usage["message"], "unexpected argument '--shard' found");
    assert_eq!(usage["hint"], "a similar argument exists: '--shards'");

    let query = error(&bench, &["SELECT \"UserID\" FROM 'events.parquet' e JOIN 'many.parquet' m ON e.x = m.id"]);
    assert_eq!(query["kind"], "query");

    let missing = error(&bench, &["SELECT * FROM 'none.parquet'"]);
    assert_eq!((&missing["kind"], &missing["file"]), (&json!("missing"), &json!("none.parquet")));

    let loss = error(&bench, &["SELECT score FROM 'events.parquet'", "--out", "shards", "--strict"]);
    assert_eq!(loss["kind"], "loss");

    let null = error(&bench, &["SELECT label FROM 'events.parquet'", "--out", "shards", "--null", "error"]);
    assert_eq!((&null["kind"], &null["column"], &null["row"]), (&json!("data"), &json!("label"), &json!(2)));

    assert_eq!(messages(&bench, &["SELECT \"UserId\" FROM 'events.parquet'", "--out", "shards"]).0, 0);
    let exists = error(&bench, &["SELECT 1 AS x", "--out", "shards"]);
    assert_eq!(exists["kind"], "exists");
    assert!(exists["file"].as_str().unwrap().ends_with("/shards"), "{exists}");
    assert!(exists["hint"].as_str().unwrap().contains("--mode"), "{exists}");

    // The second record is damaged: each has a frame of 16 bytes.
    let shard = bench.path().join("shards/part-00000-of-00001.tfrecord");
    let mut bytes = fs::read(&shard).unwrap();
    let frame = bytes.len() / 4;
    bytes[frame + 13] ^= 1;
    fs::write(bench.path().join("damaged.tfrecord"), bytes).unwrap();
    let data = error(&bench, &["SELECT * FROM 'damaged.tfrecord'", "--format", "jsonl"]);
    assert_eq!((&data["kind"], &data["file"]), (&json!("data"), &json!("damaged.tfrecord")));
    assert_eq!((&data["record"], &data["byte"]), (&json!(1), &json!(frame)));
    // Tools have them too.
    let data = error(&bench, &["cat", "damaged.tfrecord"]);
    assert_eq!((&data["kind"], &data["record"], &data["byte"]), (&json!("data"), &json!(1), &json!(frame)));
}

#[test]
fn messages_are_written_to_a_descriptor() {
    let bench = Workbench::new();
    let bash = |script: &str| {
        let mut command = Command::new("bash");
        command.current_dir(bench.path()).args(["-c", script]).env("TFR", env!("CARGO_BIN_EXE_tfr-sql"));
        command.output().unwrap()
    };
    let output = bash(r#"$TFR "SELECT * FROM 'none.csv'" --messages fd:7 7>messages"#);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0), "{}", tell(&output));
    let message: Value = serde_json::from_str(&fs::read_to_string(bench.path().join("messages")).unwrap()).unwrap();
    assert_eq!(message["file"], "none.csv");
    let output = bash(r#"$TFR "SELECT 1" --messages fd:7"#);
    assert_eq!(output.status.code(), Some(2));
    assert!(tell(&output).contains("invalid value 'fd:7' for '--messages <TARGET>'"), "{}", tell(&output));
}

#[test]
fn a_descriptor_that_is_open_for_reading_is_not_written() {
    let bench = Workbench::new();
    let input = || File::open(bench.path().join("users.csv")).unwrap();
    let before = fs::read(bench.path().join("users.csv")).unwrap();
    for arguments in [&["SELECT * FROM '-'", "--messages", "fd:0"][..], &["SELECT FROM", "--messages=fd:0"]] {
        let output = bench.tool(arguments).stdin(input()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", tell(&output));
        assert!(tell(&output).contains("descriptor 0 is not open for writing"), "{}", tell(&output));
        assert_eq!(fs::read(bench.path().join("users.csv")).unwrap(), before);
    }
    let closed = bench.tool(&["SELECT 1", "--messages", "fd:77"]).output().unwrap();
    assert!(tell(&closed).contains("descriptor 77 is not open\n"), "{}", tell(&closed));
}

/// Linux has pipes of 64 KiB.
#[cfg(target_os = "linux")]
#[test]
fn a_full_pipe_of_messages_does_not_keep_a_signal_off() {
    let bench = Workbench::new();
    let (_unread, mut full) = io::pipe().unwrap();
    full.write_all(&[b'\n'; 65_536]).unwrap();
    let mut child = bench
        .tool(&["SELECT id FROM 'many.parquet'", "--out", "shards", "--progress", "never", "--messages", "fd:2"])
        .stderr(Stdio::from(full))
        .spawn()
        .unwrap();
    // The closing note is the only message. It follows the publication.
    while !bench.path().join("shards/_SUCCESS").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the command ended");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let code = child.wait().unwrap().code();
    assert!([Some(0), Some(143)].contains(&code), "{code:?}");
    let read = bench.run(&["SELECT count(*) FROM 'shards'", "--format", "csv"]);
    assert!(String::from_utf8_lossy(&read.stdout).ends_with("\n10000\n"), "{}", tell(&read));
}
