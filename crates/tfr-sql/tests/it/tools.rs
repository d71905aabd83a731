//! The toolbox.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tfrecord_framing::RecordWriter;

use crate::workbench::{Workbench, assert_prints, check_report, tell};

/// Four records in two shards, in `shards`.
fn with_shards(bench: &Workbench) {
    let query = "SELECT UserId, label, score FROM 'events.parquet' ORDER BY score";
    assert_eq!(bench.tell(&[query, "--out", "shards", "--shards", "2", "--quiet"]), "exit 0\n");
}

/// Turns a bit of the byte `at` of a shard.
fn damage(bench: &Workbench, file: &str, at: u64) {
    let mut file = OpenOptions::new().read(true).write(true).open(bench.path().join(file)).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte[0] ^ 1]).unwrap();
}

#[test]
fn cat_prints_records_in_every_format() {
    let bench = Workbench::new();
    with_shards(&bench);
    assert_prints!(bench.tell_tool(&["cat", "shards"]), @r##"
    exit 0
    -- stdout
    {"UserId": [7], "score": [0.1]}
    {"UserId": [8], "label": ["view"], "score": [0.25]}
    {"UserId": [7], "label": ["click"], "score": [0.5]}
    {"UserId": [9], "label": ["view"], "score": [1.0]}
    "##);
    assert_prints!(bench.tell_tool(&["head", "-n", "1", "--as", "textproto", "shards"]), @r##"
    exit 0
    -- stdout
    # shards/part-00000-of-00002.tfrecord: record 0 at byte 0
    features {
      feature {
        key: "UserId"
        value {
          int64_list {
            value: 7
          }
        }
      }
      feature {
        key: "score"
        value {
          float_list {
            value: 0.1
          }
        }
      }
    }
    "##);
    assert_prints!(bench.tell_tool(&["cat", "-n1", "--as", "hex", "shards/part-00001-of-00002.tfrecord"]), @r##"
    exit 0
    -- stdout
    # shards/part-00001-of-00002.tfrecord: record 0 at byte 0, 58 bytes
    00000000  0a 38 0a 0f 0a 06 55 73  65 72 49 64 12 05 1a 03  |.8....UserId....|
    00000010  0a 01 07 0a 12 0a 05 6c  61 62 65 6c 12 09 0a 07  |.......label....|
    00000020  0a 05 63 6c 69 63 6b 0a  11 0a 05 73 63 6f 72 65  |..click....score|
    00000030  12 08 12 06 0a 04 00 00  00 3f                    |.........?|
    "##);
}

#[test]
fn head_counts_over_all_files() {
    let bench = Workbench::new();
    let query = "SELECT id FROM 'many.parquet'";
    assert_eq!(bench.tell(&[query, "--out", "a", "--shard-rows", "6", "--compression", "gzip", "--quiet"]), "exit 0\n");
    let lines = |arguments: &[&str]| bench.run_tool(arguments).stdout.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines(&["head", "a"]), 10);
    assert_eq!(lines(&["head", "-n", "0", "a"]), 0);
    assert_eq!(lines(&["cat", "a"]), 10_000);
    assert_eq!(lines(&["cat", "a/part-0000*", "-n", "100"]), 60);
    assert_eq!(bench.run_tool(&["head", "-n", "2", "a"]).stdout, b"{\"id\": [0]}\n{\"id\": [1]}\n");
}

#[test]
fn cat_reads_records_from_standard_input() {
    let bench = Workbench::new();
    with_shards(&bench);
    let shard = fs::File::open(bench.path().join("shards/part-00000-of-00002.tfrecord")).unwrap();
    let output = bench.tool(&["cat", "-"]).stdin(shard).output().unwrap();
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 2);
}

#[test]
fn cat_prints_sound_records_before_reporting_damage() {
    let bench = Workbench::new();
    with_shards(&bench);
    damage(&bench, "shards/part-00000-of-00002.tfrecord", 100);
    assert_prints!(bench.tell_tool(&["cat", "shards"]), @r##"
    exit 1
    -- stdout
    {"UserId": [7], "score": [0.1]}
    -- stderr
    error: shards/part-00000-of-00002.tfrecord: record 1 at byte 54: payload of 57 bytes has the checksum 0xac3c5c6e, expected 0x8c4c8509

    hint: the file was damaged after it was written: fetch or write it again
    "##);
}

#[test]
fn cat_reports_a_record_that_is_not_an_example() {
    let bench = Workbench::new();
    let mut writer = RecordWriter::new(Vec::new());
    writer.write_record(b"").unwrap();
    writer.write_record(b"no example").unwrap();
    fs::write(bench.path().join("odd.tfrecord"), writer.finish().unwrap()).unwrap();
    assert_prints!(bench.tell_tool(&["cat", "odd.tfrecord"]), @r##"
    exit 1
    -- stdout
    {}
    -- stderr
    error: odd.tfrecord: record 1 at byte 16: not a tf.train.Example: at byte 0 of the record, found no field of a message

    hint: the records may be of another type: print them as hex
    "##);
    assert_prints!(bench.tell_tool(&["cat", "--as", "hex", "odd.tfrecord"]), @r##"
    exit 0
    -- stdout
    # odd.tfrecord: record 0 at byte 0, 0 bytes
    # odd.tfrecord: record 1 at byte 16, 10 bytes
    00000000  6e 6f 20 65 78 61 6d 70  6c 65                    |no example|
    "##);
}

#[test]
fn tools_report_missing_inputs() {
    let bench = Workbench::new();
    fs::create_dir(bench.path().join("empty")).unwrap();
    assert_prints!(bench.tell_tool(&["cat", "absent.tfrecord"]), @r##"
    exit 1
    -- stderr
    error: absent.tfrecord: cannot open
      cause: No such file or directory (os error 2)
    "##);
    assert_prints!(bench.tell_tool(&["cat", "absent-*.tfrecord"]), @r##"
    exit 1
    -- stderr
    error: absent-*.tfrecord: no file matches
    "##);
    assert_prints!(bench.tell_tool(&["cat", "empty"]), @r##"
    exit 1
    -- stderr
    error: empty: no TFRecord files

    hint: hidden files, those whose names start with _, and sidecars such as .json are passed over
    "##);
    assert_prints!(bench.tell_tool(&["verify", "absent.tfrecord"]), @r##"
    exit 1
    -- stderr
    error: absent.tfrecord: cannot open
      cause: No such file or directory (os error 2)
    "##);
    assert_prints!(bench.tell_tool(&["verify", "empty"]), @r##"
    exit 1
    -- stderr
    error: empty: no TFRecord files

    hint: hidden files, those whose names start with _, and sidecars such as .json are passed over
    "##);
    assert_prints!(bench.tell_tool(&["verify", "a[b"]), @r##"
    exit 2
    -- stderr
    error: a[b: not a pattern: invalid range pattern
    "##);
    assert_prints!(bench.tell_tool(&["reshard", "absent.tfrecord", "--out", "out"]), @r##"
    exit 1
    -- stderr
    error: absent.tfrecord: cannot open
      cause: No such file or directory (os error 2)
    "##);
    assert_prints!(bench.tell_tool(&["schema", "absent.tfrecord"]), @r##"
    exit 1
    -- stderr
    error: absent.tfrecord: no such file or directory
    "##);
    assert_prints!(bench.tell_tool(&["cat", "users.csv"]), @r##"
    exit 1
    -- stderr
    error: users.csv: record 0 at byte 0: length 749125178255697001 has the checksum 0x64413b37, expected 0xa6a53ca6

    hint: this may not be a TFRecord file: query a table of another format, as in FROM 'events.csv'; or the file is compressed, and its compression was not specified
    "##);
}

#[test]
fn cat_treats_a_closed_pipe_as_success() {
    let bench = Workbench::new();
    let query = "SELECT value, repeat('x', 1000) AS x FROM generate_series(1, 10000)";
    assert_eq!(bench.tell(&[query, "--out", "shards", "--quiet"]), "exit 0\n");
    let mut child = bench.tool(&["cat", "shards"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!((talk.as_str(), child.wait().unwrap().code()), ("", Some(0)));
}

#[test]
fn schema_prints_columns_in_every_format() {
    let bench = Workbench::new();
    with_shards(&bench);
    for form in ["arrow", "ddl", "pbtxt", "features.json", "python", "json"] {
        let output = bench.run_tool(&["schema", "shards", "--as", form]);
        assert!(output.status.success(), "{form}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("UserId") && text.ends_with('\n'), "{form}: {text}");
    }
    assert_prints!(bench.tell_tool(&["schema", "shards"]), @r##"
    exit 0
    -- stdout
    UserId  Int64
    label   Utf8View
    score   Float64
    -- stderr
    types from the manifest
    "##);
    // Without the manifest, by what the records hold.
    assert_prints!(bench.tell_tool(&["schema", "shards/*.tfrecord", "--infer-files", "1"]), @r##"
    exit 0
    -- stdout
    UserId  Int64
    label   Utf8View
    score   Float64
    -- stderr
    types from the manifest
    "##);
    fs::create_dir(bench.path().join("foreign")).unwrap();
    for shard in ["part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord"] {
        fs::copy(bench.path().join("shards").join(shard), bench.path().join("foreign").join(shard)).unwrap();
    }
    assert_prints!(bench.tell_tool(&["schema", "foreign/", "--infer-records", "all"]), @r##"
    exit 0
    -- stdout
    UserId  Int64
    label   Utf8
    score   Float32
    -- stderr
    types from records of 2 files
    "##);
    assert_prints!(bench.tell_tool(&["schema", "users.csv"]), @r##"
    exit 0
    -- stdout
    id;name  Utf8
    -- stderr
    types from the files
    "##);
}

#[test]
fn verify_accepts_a_sound_set() {
    let bench = Workbench::new();
    with_shards(&bench);
    assert_prints!(bench.tell_tool(&["verify", "shards"]), @r##"
    exit 0
    -- stderr
    4 records in 2 files, 274 B, [seconds]: all sound
    "##);
    assert_prints!(bench.tell_tool(&["verify", "shards/*.tfrecord", "--quiet"]), @r##"
    exit 0
    "##);
}

#[test]
fn verify_shows_progress_on_request() {
    let bench = Workbench::new();
    with_shards(&bench);
    let output = bench.run_tool(&["verify", "shards", "--progress", "always", "--quiet"]);
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.lines().all(|line| line.contains(" of ") && line.ends_with(" %")) && !talk.is_empty(), "{talk}");
}

#[test]
fn verify_prints_damage_and_fails() {
    let bench = Workbench::new();
    with_shards(&bench);
    damage(&bench, "shards/part-00000-of-00002.tfrecord", 30);
    fs::remove_file(bench.path().join("shards/_SUCCESS")).unwrap();
    assert_prints!(bench.tell_tool(&["verify", "shards", "--threads", "1"]), @r##"
    exit 1
    -- stdout
    shards: _SUCCESS is missing
    shards/part-00000-of-00002.tfrecord: record 0 at byte 0: payload does not match its checksum, 54 bytes lost
    -- stderr
    3 records in 2 files, 274 B, [seconds]: damaged: 2 findings
    "##);

    let output = bench.run_tool(&["verify", "shards", "--report", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_report(&report);
    assert_eq!(report["ok"], false);
    let kinds: Vec<_> = report["findings"].as_array().unwrap().iter().map(|finding| &finding["kind"]).collect();
    assert_eq!(kinds, ["no-success", "damage"]);
}

#[test]
fn salvage_keeps_sound_records() {
    let bench = Workbench::new();
    with_shards(&bench);
    damage(&bench, "shards/part-00000-of-00002.tfrecord", 30);
    assert_prints!(bench.tell_tool(&["salvage", "shards", "--out", "saved"]), @r##"
    exit 0
    -- stdout
    shards/part-00000-of-00002.tfrecord: record 0 at byte 0: payload does not match its checksum, 54 bytes lost
    -- stderr
    3 records in 1 shard, 220 B, findings: 1, [seconds]: saved
    "##);
    assert_eq!(bench.run_tool(&["cat", "saved"]).stdout.iter().filter(|byte| **byte == b'\n').count(), 3);
    let output = bench.run_tool(&["salvage", "shards", "--out", "saved", "--mode", "overwrite", "--report", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_report(&report);
    assert_eq!((&report["report"], &report["rows"]), (&"salvage".into(), &3.into()));
    assert_eq!(bench.leftovers(), [PathBuf::from("saved"), PathBuf::from("shards")]);
}

#[test]
fn reshard_moves_records_to_other_shards() {
    let bench = Workbench::new();
    with_shards(&bench);
    assert_prints!(bench.tell_tool(&["reshard", "shards", "--out", "one", "--shards", "1", "--prefix", "all"]), @r##"
    exit 0
    -- stderr
    4 rows in 1 shard, 274 B, [seconds]: one
    "##);
    assert_prints!(bench.tell_tool(&["reshard", "shards", "--out", "one"]), @r##"
    exit 1
    -- stderr
    error: [dir]/one: not empty: it contains all-00000-of-00001.tfrecord, _SUCCESS, _manifest.json

    hint: this is a set already: --mode append adds to it, --mode overwrite replaces it; or choose another directory
    "##);
    assert_prints!(bench.tell_tool(&["reshard", "shards", "--out", "shards/more"]), @r##"
    exit 1
    -- stderr
    error: [dir]/shards/more: overlaps with input shards

    hint: write to another path: the output must not be an input, contain one or be inside one
    "##);
    assert_eq!(bench.run_tool(&["cat", "one"]).stdout, bench.run_tool(&["cat", "shards"]).stdout);
    let output = bench.run_tool(&["reshard", "shards", "--out", "zip", "--compression", "gzip", "--report", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_report(&report);
    assert_eq!(report["report"], "shards");
    assert!(bench.path().join("zip/part-00000-of-00001.tfrecord.gz").exists());
}

#[test]
fn reshard_reports_files_left_out() {
    let bench = Workbench::new();
    with_shards(&bench);
    let shards = bench.path().join("shards");
    fs::copy(shards.join("part-00000-of-00002.tfrecord"), shards.join("zz.tfrecord")).unwrap();
    let output = bench.run_tool(&["reshard", "shards", "--out", "one", "--report", "json"]);
    let printed = String::from_utf8(output.stderr).unwrap();
    let unlisted = "shards/zz.tfrecord: not part of the set: _manifest.json does not list it";
    assert!(printed.starts_with(&format!("warning: {unlisted}\n4 rows in 1 shard, ")), "{printed}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_report(&report);
    assert_eq!(report["warnings"], serde_json::json!([unlisted]));
    fs::remove_file(shards.join("_SUCCESS")).unwrap();
    assert_prints!(bench.tell_tool(&["index", "shards"]), @r##"
    exit 0
    -- stdout
    shards/_part-00000-of-00002.tfrecord.idx
    shards/_part-00001-of-00002.tfrecord.idx
    -- stderr
    warning: shards: _SUCCESS is missing
    warning: shards/zz.tfrecord: not part of the set: _manifest.json does not list it
    4 records in 2 files, [seconds]
    "##);
    assert_prints!(bench.tell_tool(&["reshard", "one", "shards/zz.tfrecord", "--out", "two"]), @r##"
    exit 1
    -- stderr
    error: shards/zz.tfrecord: the form of the records is not known, in one it is from _manifest.json

    hint: write each to a set of its own; or bring them into one form with a query: tfr-sql "SELECT ... FROM 'one' UNION ALL BY NAME SELECT ... FROM 'other'" --out DIR
    "##);
}

#[test]
fn cat_reads_a_pipe_and_verify_rejects_it() {
    let bench = Workbench::new();
    with_shards(&bench);
    let pipe = bench.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_prints!(bench.tell_tool(&["verify", "pipe"]), @r##"
    exit 1
    -- stderr
    error: pipe: expected a file or a directory, found a pipe

    hint: write its content to a file and name that
    "##);
    let shard = fs::read(bench.path().join("shards/part-00000-of-00002.tfrecord")).unwrap();
    let writer = std::thread::spawn(move || fs::write(pipe, shard));
    let shown = bench.run_tool(&["cat", "pipe"]).stdout;
    writer.join().unwrap().unwrap();
    assert_eq!(shown.iter().filter(|byte| **byte == b'\n').count(), 2);
}

#[test]
fn reshard_rejects_damage() {
    let bench = Workbench::new();
    with_shards(&bench);
    damage(&bench, "shards/part-00000-of-00002.tfrecord", 30);
    assert_prints!(bench.tell_tool(&["reshard", "shards", "--out", "out"]), @r##"
    exit 1
    -- stderr
    error: shards/part-00000-of-00002.tfrecord: record 0 at byte 0: payload of 38 bytes has the checksum 0x6f5ce471, expected 0xc62681f6

    hint: tfr-sql verify reports all damage, tfr-sql salvage keeps the intact records
    "##);
    assert_eq!(bench.leftovers(), [Path::new("shards")]);
}

#[test]
fn index_writes_a_file_next_to_each_shard() {
    let bench = Workbench::new();
    with_shards(&bench);
    assert_prints!(bench.tell_tool(&["index", "shards"]), @r##"
    exit 0
    -- stdout
    shards/_part-00000-of-00002.tfrecord.idx
    shards/_part-00001-of-00002.tfrecord.idx
    -- stderr
    4 records in 2 files, [seconds]
    "##);
    let index = fs::read_to_string(bench.path().join("shards/_part-00000-of-00002.tfrecord.idx")).unwrap();
    assert_eq!(index.lines().count(), 2);
    assert!(index.starts_with("0 "));
    assert!(bench.run_tool(&["index", "--name", "tfindex", "shards"]).status.success());
    let query = "SELECT id FROM 'many.parquet'";
    assert_eq!(bench.tell(&[query, "--out", "zip", "--compression", "gzip", "--quiet"]), "exit 0\n");
    assert_prints!(bench.tell_tool(&["index", "zip"]), @r##"
    exit 1
    -- stderr
    error: zip/part-00000-of-00001.tfrecord.gz: an index is for uncompressed files, found compression gzip

    hint: make uncompressed files of them with tfr-sql reshard
    "##);
}

#[test]
fn tools_reject_query_options_before_their_name() {
    let bench = Workbench::new();
    assert_prints!(bench.tell_tool(&["--out", "x", "verify", "shards"]), @r##"
    exit 2
    -- stderr
    error: '--out <URL>' belongs to a query and cannot be used with the tool 'verify'

    hint: options of a tool stand behind its name: tfr-sql verify --help lists them

    Usage: tfr-sql verify [OPTIONS] <PATHS>...

    For more information, try '--help'.
    "##);
    assert_prints!(bench.tell_tool(&["SELECT 1", "head"]), @r##"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      <FILES>...

    Usage: tfr-sql head <FILES>...

    For more information, try '--help'.
    "##);
    assert_prints!(bench.tell_tool(&["verify"]), @r##"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      <PATHS>...

    Usage: tfr-sql verify <PATHS>...

    For more information, try '--help'.
    "##);
    assert_prints!(bench.tell_tool(&["reshard", "shards"]), @r##"
    exit 2
    -- stderr
    error: the following required arguments were not provided:
      --out <DIR>

    Usage: tfr-sql reshard --out <DIR> <PATHS>...

    For more information, try '--help'.
    "##);
    assert_prints!(bench.tell_tool(&["reshard", "shards", "--out", "x", "--level", "9"]), @r##"
    exit 2
    -- stderr
    error: --level needs --compression gzip or --compression zlib

    Usage: tfr-sql reshard [OPTIONS] --out <DIR> <PATHS>...

    For more information, try '--help'.
    "##);
    assert_prints!(bench.tell_tool(&["cat", "shards", "--as", "yaml"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'yaml' for '--as <FORM>'
      [possible values: json, textproto, hex]

    For more information, try '--help'.
    "##);
    assert_prints!(bench.tell_tool(&["schema", "shards", "--as", "yaml"]), @r##"
    exit 2
    -- stderr
    error: invalid value 'yaml' for '--as <FORM>': unknown form "yaml": expected arrow, ddl, pbtxt, features.json, python, json

    For more information, try '--help'.
    "##);
    assert_prints!(bench.tell_tool(&["verfy", "shards"]), @r##"
    exit 2
    -- stderr
    error: unexpected argument 'shards' behind the query 'verfy'

    hint: did you mean tfr-sql verify?

    Usage: tfr-sql [OPTIONS] <QUERY|--file <FILE>>
           tfr-sql [OPTIONS] <TOOL>

    For more information, try '--help'.
    "##);
}

#[test]
fn verify_reports_and_removes_leftovers() {
    let bench = Workbench::new();
    with_shards(&bench);
    // As a run that was killed leaves it, beside a set and beside nothing.
    let left = |of: &str| format!(".tfr-0198c0ffee0070008000000000000000-{of}");
    for of in ["shards", "absent"] {
        fs::create_dir(bench.path().join(left(of))).unwrap();
        bench.text(&format!("{}/00000-00000.staged", left(of)), "a part of a shard");
    }
    assert_prints!(bench.tell_tool(&["verify", "shards"]), @r##"
    exit 1
    -- stdout
    [dir]/.tfr-0198c0ffee0070008000000000000000-shards: left behind by run 0198c0ffee0070008000000000000000, which was killed
    -- stderr
    4 records in 2 files, 274 B, [seconds]: damaged: 1 finding
    verify --remove-leftovers removes what killed runs have left
    "##);
    let output = bench.run_tool(&["verify", "shards", "absent", "--remove-leftovers", "--report", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", tell(&output)));
    check_report(&report);
    assert_eq!((&report["ok"], report["removed"].as_array().unwrap().len()), (&Value::Bool(true), 2));
    assert_eq!(bench.leftovers(), [Path::new("shards")]);
    assert_prints!(bench.tell_tool(&["verify", "shards", "--remove-leftovers"]), @r##"
    exit 0
    -- stderr
    4 records in 2 files, 274 B, [seconds]: all sound
    "##);
    assert_prints!(bench.tell_tool(&["verify", "absent", "--remove-leftovers"]), @r##"
    exit 1
    -- stderr
    error: absent: cannot open
      cause: No such file or directory (os error 2)
    "##);
}

/// Its type is one that is not read, so it is no column of nulls.
#[test]
fn a_schema_notes_columns_that_cannot_be_read() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/parquet/int128.parquet");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tfr-sql")).args(["schema", file]).output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("column \"u\" cannot be read: an integer of 128 bits is not supported"), "{notes}");
}

#[test]
fn verify_shows_no_control_characters() {
    let bench = Workbench::new();
    bench.text("a\u{1b}[31m\u{7}\u{202e}b\tc.tfrecord", "no record");
    let output = bench.run_tool(&["verify", "a*.tfrecord"]);
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.starts_with(r"a\u{1b}[31m\u{7}\u{202e}b\tc.tfrecord"), "{stdout}");
}
