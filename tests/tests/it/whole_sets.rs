//! A set is read as its manifest says, or not at all, by every tool: manifests that were changed, shards that are cut, sets
//! in sets, parts of sets, and files that are not what their names say.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tfr_tests::{Run, Scratch, run, shard_files, tfr_sql};

fn command(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = tfr_sql();
    command.current_dir(scratch.path()).args(arguments);
    command
}

/// Directory `set` with the numbers from 1 to `rows` in three shards.
fn set(scratch: &Scratch, name: &str, rows: usize) -> PathBuf {
    let (query, a_third) = (format!("SELECT value FROM generate_series(1, {rows})"), rows.div_ceil(3).to_string());
    run(&mut command(scratch, &[&query, "--out", name, "--shard-rows", &a_third, "--quiet"])).success();
    scratch.join(name)
}

fn count(scratch: &Scratch, table: &str) -> Run {
    let query = format!("SELECT count(*) AS n FROM '{table}'");
    run(&mut command(scratch, &[&query, "--format", "csv"]))
}

/// Whatever reads a set.
const READERS: [&[&str]; 8] = [
    &["SELECT count(value) AS n FROM 'set'"],
    &["cat", "set"],
    &["head", "set"],
    &["stats", "set"],
    &["index", "set"],
    &["describe", "set", "--replace"],
    &["reshard", "set", "--out", "other", "--shards", "1"],
    &["verify", "set"],
];

/// No reader takes what is there for a set, and none writes a manifest that makes it one.
fn refused_by_all(scratch: &Scratch, expected: &str) {
    let manifest = fs::read(scratch.join("set/_manifest.json")).unwrap();
    for arguments in READERS {
        let refused = run(&mut command(scratch, arguments)).exits_with(1);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(fs::read(scratch.join("set/_manifest.json")).unwrap(), manifest, "{arguments:?}");
        assert!(!scratch.join("other").exists(), "{arguments:?}");
    }
}

#[test]
fn a_manifest_that_was_changed_is_refused_by_all() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 3] = [
        ("changed after it was written", |manifest| drop(manifest.as_object_mut().unwrap().remove("schema"))),
        ("changed after it was written", |manifest| manifest["shards"][0]["crc32c"] = "00000000".into()),
        // It is not taken for that of another tool.
        ("not a valid manifest", |manifest| drop(manifest.as_object_mut().unwrap().remove("shards"))),
    ];
    for (expected, change) in changes {
        let scratch = Scratch::default();
        let path = set(&scratch, "set", 900).join("_manifest.json");
        let mut manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        change(&mut manifest);
        fs::write(&path, manifest.to_string()).unwrap();
        if expected.starts_with("changed") {
            refused_by_all(&scratch, expected);
        } else {
            let refused = count(&scratch, "set").exits_with(1);
            assert!(refused.stderr.contains(expected), "{}", refused.stderr);
        }
        // With declared columns, files that are named are read whatever the manifest says.
        let declared = "CREATE EXTERNAL TABLE t (value BIGINT) STORED AS TFRECORD LOCATION 'set/*.tfrecord'; \
                        SELECT count(value) AS n FROM t";
        let read = run(&mut command(&scratch, &[declared, "--format", "csv"])).success();
        assert_eq!(read.stdout, "n\n900\n");
    }
}

/// Cut where a record ends, the rest is a valid file.
#[test]
fn a_shard_that_was_cut_is_refused_by_all() {
    let scratch = Scratch::default();
    let shard = shard_files(&set(&scratch, "set", 900)).remove(1);
    let bytes = fs::read(&shard).unwrap();
    // A header and a footer of 16 bytes around the record.
    let first = 16 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for len in [0, first] {
        fs::write(&shard, &bytes[..len]).unwrap();
        refused_by_all(&scratch, "");
    }
}

/// A snapshot that another program wrote has no manifest, but its metadata has the number of elements.
#[test]
fn a_snapshot_that_was_cut_at_the_end_of_a_record_is_reported() {
    for compression in ["none", "gzip"] {
        let scratch = Scratch::default();
        let query = "SELECT value AS a, value * 2 AS b FROM generate_series(1, 10)";
        let options = ["--layout", "snapshot", "--shards", "2", "--compression", compression];
        run(command(&scratch, &[query, "--out", "saved"]).args(options)).success();
        for name in ["_manifest.json", "_SUCCESS"] {
            fs::remove_file(scratch.join("saved").join(name)).unwrap();
        }
        let sound = run(&mut command(&scratch, &["verify", "saved"])).success();
        assert!(sound.stderr.contains("20 records in 2 files"), "{}", sound.stderr);
        let chunk = scratch.join("saved/1/00000001.shard/00000000.snapshot");
        if compression == "none" {
            let bytes = fs::read(&chunk).unwrap();
            let first = 16 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            fs::write(&chunk, &bytes[..first]).unwrap();
        } else {
            fs::remove_file(&chunk).unwrap();
        }
        let found = if compression == "none" { 11 } else { 10 };
        let refused = run(&mut command(&scratch, &["verify", "saved", "--report", "json"])).exits_with(1);
        let expected = format!(
            "saved/snapshot.metadata: records 10 elements, which are 20 records, and its files have {found} records"
        );
        assert!(refused.stdout.contains("saved-elements"), "{}", refused.stdout);
        assert!(refused.stdout.contains(&expected), "{}", refused.stdout);
    }
}

#[test]
fn a_set_inside_a_set_is_neither_written_nor_read() {
    let scratch = Scratch::default();
    set(&scratch, "nest", 10);
    for plan in [&[][..], &["--plan", "p.tfrplan"]] {
        let nested = ["SELECT 1 AS value", "--out", "nest/a/sub"];
        let refused = run(command(&scratch, &nested).args(plan)).exits_with(1);
        assert!(refused.stderr.contains("it is inside of the shard set "), "{}", refused.stderr);
    }
    assert!(!scratch.join("nest/a").exists() && !scratch.join("p.tfrplan").exists());
    set(&scratch, "other", 7);
    fs::rename(scratch.join("other"), scratch.join("nest/sub")).unwrap();
    assert_eq!(count(&scratch, "nest").success().stdout, "n\n10\n");
    assert_eq!(count(&scratch, "nest/sub").success().stdout, "n\n7\n");
    // `cat` reads what the manifest lists, too.
    let records = run(&mut command(&scratch, &["cat", "nest"])).success();
    assert_eq!(records.stdout.lines().count(), 10);
}

#[test]
fn a_part_of_a_set_is_reported() {
    let scratch = Scratch::default();
    let whole = set(&scratch, "set", 900);
    let part = scratch.join("part");
    fs::create_dir(&part).unwrap();
    for shard in shard_files(&whole).into_iter().skip(1) {
        fs::copy(&shard, part.join(shard.file_name().unwrap())).unwrap();
    }
    let expected = "only 2 of the 3 files ";
    let warned = count(&scratch, "part").success();
    assert_eq!(warned.stdout, "n\n600\n");
    assert!(warned.stderr.contains(expected) && warned.stderr.contains("number 0 is missing"), "{}", warned.stderr);
    let strict =
        run(&mut command(&scratch, &["SELECT count(*) AS n FROM 'part'", "--strict", "--out", "copy"])).exits_with(1);
    assert!(strict.stderr.contains(expected), "{}", strict.stderr);
    let verified = run(&mut command(&scratch, &["verify", "part", "--report", "json"])).exits_with(1);
    assert!(verified.stdout.contains("\"missing-parts\""), "{}", verified.stdout);
    for tool in ["head", "stats", "index", "describe"] {
        let warned = run(&mut command(&scratch, &[tool, "part"])).success();
        assert!(warned.stderr.contains(expected), "{tool}: {}", warned.stderr);
    }
    // What is named is read as named.
    for named in ["part/*.tfrecord", "part/part-00001-of-00003.tfrecord"] {
        let silent = count(&scratch, named).success();
        assert!(!silent.stderr.contains("only"), "{}", silent.stderr);
        run(&mut command(&scratch, &["verify", named])).success();
    }
    // A set whose manifest lists its shards may have any names.
    assert!(!count(&scratch, "set").success().stderr.contains("only"));
}

#[test]
fn compressed_file_name_requires_compressed_content() {
    let scratch = Scratch::default();
    for (name, content) in [
        ("x.csv.gz", &b"\x1f"[..]),
        ("y.csv.gz", b"a,b\n1,2\n"),
        ("x.jsonl.bz2", b"{\"a\": 1}\n"),
        ("x.tsv.xz", b"a\tb\n1\t2\n"),
        ("x.csv.zst", b"\x28\xb5"),
    ] {
        fs::write(scratch.join(name), content).unwrap();
        let refused = count(&scratch, name).exits_with(1);
        assert!(refused.stderr.contains("expected a file compressed with"), "{name}: {}", refused.stderr);
    }
    fs::write(scratch.join("x.tfrecord.gz"), b"").unwrap();
    let refused = count(&scratch, "x.tfrecord.gz").exits_with(1);
    assert!(
        refused.stderr.contains("expected a compressed file or one of ArrayRecord, found an empty one"),
        "{}",
        refused.stderr
    );
    // One byte is not enough for the compression to be detected.
    for name in ["1.tfrecord.gz", "1.tfrecord.zlib", "1.jsonl.gz", "1.hive.gz", "1.libsvm.bz2", "1.tsv.xz"] {
        fs::write(scratch.join(name), b"\x1f").unwrap();
        count(&scratch, name).exits_with(1);
    }
    let plain = ["SELECT count(*) AS n FROM t", "--table", "t=y.csv.gz,compression=none", "--format", "csv"];
    assert_eq!(run(&mut command(&scratch, &plain)).success().stdout, "n\n1\n");
}

/// An empty file next to sound ones was skipped as those that mark a directory are.
#[test]
fn an_empty_file_with_the_name_of_a_compressed_one_is_refused() {
    for (name, content) in [
        ("csv", &b"a,b\n1,2\n"[..]),
        ("tsv", b"a\tb\n1\t2\n"),
        ("jsonl", b"{\"a\": 1}\n"),
        ("hive", b"1\x012\n"),
        ("libsvm", b"1 1:2\n"),
    ] {
        let scratch = Scratch::default();
        fs::create_dir(scratch.join("d")).unwrap();
        fs::write(scratch.join(format!("d/a.{name}")), content).unwrap();
        fs::write(scratch.join(format!("d/b.{name}")), "").unwrap();
        let query = match name {
            "hive" => {
                "CREATE EXTERNAL TABLE t (a INT, b INT) STORED AS TEXTFILE LOCATION 'd'; SELECT count(*) AS n FROM t"
            }
            _ => "SELECT count(*) AS n FROM 'd'",
        };
        let query = [query, "--format", "csv"];
        assert_eq!(run(&mut command(&scratch, &query)).success().stdout, "n\n1\n", "{name}");
        for compression in ["gz", "bz2", "xz", "zst", "deflate"] {
            let empty = scratch.join(format!("d/c.{name}.{compression}"));
            fs::write(&empty, "").unwrap();
            let refused = run(&mut command(&scratch, &query)).exits_with(1);
            let expected = format!("c.{name}.{compression}: expected a file compressed with ");
            assert!(refused.stderr.contains(&expected), "{expected}{}", refused.stderr);
            assert!(refused.stderr.contains("found an empty file"), "{}", refused.stderr);
            fs::remove_file(&empty).unwrap();
        }
    }
}

#[test]
fn an_empty_shard_with_the_name_of_a_compressed_one_is_refused_by_all() {
    let scratch = Scratch::default();
    let shard = shard_files(&set(&scratch, "other-set", 900)).remove(1);
    fs::create_dir(scratch.join("set")).unwrap();
    fs::copy(shard, scratch.join("set/a.tfrecord")).unwrap();
    fs::write(scratch.join("set/b.tfrecord.gz"), "").unwrap();
    for arguments in READERS {
        let refused = run(&mut command(&scratch, arguments)).exits_with(1);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        let expected = "b.tfrecord.gz: expected a compressed file or one of ArrayRecord, found an empty one";
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    // The manifest of a set says which files are read.
    fs::write(scratch.join("other-set/b.tfrecord.gz"), "").unwrap();
    assert_eq!(count(&scratch, "other-set").success().stdout, "n\n900\n");
}

#[test]
fn piped_concatenation_of_two_files_is_rejected() {
    let scratch = Scratch::default();
    for ending in ["parquet", "arrow"] {
        let mut both = Vec::new();
        for (name, rows) in [("a", 500), ("b", 20)] {
            let (query, out) = (format!("SELECT value FROM generate_series(1, {rows})"), format!("{name}.{ending}"));
            run(&mut command(&scratch, &[&query, "--out", &out])).success();
            both.push(fs::read(scratch.join(&out)).unwrap());
        }
        let piped = |bytes: &[u8]| piped(&scratch, bytes);
        assert_eq!(piped(&both[0]).0, Some(0));
        let (code, said) = piped(&both.concat());
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("files behind each other, expected one"), "{said}");
    }
}

fn piped(scratch: &Scratch, bytes: &[u8]) -> (Option<i32>, String) {
    let mut command = command(scratch, &["SELECT count(*) FROM '-'"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let ended = child.wait_with_output().unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

/// The manifest of another tool with that name is none of ours.
#[test]
fn manifest_of_another_tool_is_ignored() {
    let scratch = Scratch::default();
    let shard = shard_files(&set(&scratch, "set", 900)).remove(0);
    let other: &Path = &scratch.join("other");
    fs::create_dir(other).unwrap();
    fs::copy(&shard, other.join("x.tfrecord")).unwrap();
    fs::write(other.join("_manifest.json"), "{\"entries\": []}").unwrap();
    assert_eq!(count(&scratch, "other").success().stdout, "n\n300\n");
}
