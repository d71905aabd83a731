//! `rebuild`: sets that are written again from their manifests, byte for byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tfr_tests::{Run, Scratch, repository, run, tfr_sql};

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Inputs of several formats in a directory of their own.
fn inputs() -> Scratch {
    let scratch = Scratch::default();
    let repository = repository();
    fs::copy(repository.join("examples/data/trips.parquet"), scratch.join("trips.parquet")).unwrap();
    copy(&repository.join("tests/data/hugging_face/splits"), &scratch.join("faces"));
    copy(&repository.join("tests/data/tfds/robot/1.0.0"), &scratch.join("robot"));
    copy(&repository.join("tests/data/delta/tables/dv_file"), &scratch.join("delta"));
    copy(&repository.join("tests/data/iceberg/tables/snap_rollback"), &scratch.join("iceberg"));
    fs::write(scratch.join("t.csv"), "id;name\n1;a\n2;\n3;c\n").unwrap();
    fs::write(scratch.join("t.jsonl"), "{\"id\": 1, \"l\": [1, 2]}\n{\"id\": 2, \"l\": []}\n").unwrap();
    fs::write(scratch.join("words.toml"), "[columns.name]\nvocabulary = [\"c\", \"b\", \"a\"]\n").unwrap();
    fs::write(scratch.join("q.sql"), "-- The trips.\nSELECT trip_id, fare FROM 'trips.parquet'").unwrap();
    run(within(&scratch).args(["SELECT trip_id, tags FROM 'trips.parquet' LIMIT 50", "--out", "records"])).success();
    scratch
}

fn within(scratch: &Scratch) -> Command {
    let mut command = tfr_sql();
    command.current_dir(scratch.path()).args(["--color", "never"]);
    command
}

/// The files of a set, without what differs between runs in the manifest.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let name = path.strip_prefix(directory).unwrap().display().to_string();
            let mut bytes = fs::read(&path).unwrap();
            if name == "_manifest.json" {
                let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
                let fields = manifest.as_object_mut().unwrap();
                for field in ["run", "created", "manifest_crc32c", "rejects"] {
                    fields.remove(field);
                }
                bytes = manifest.to_string().into_bytes();
            }
            found.insert(name, bytes);
        }
    }
    found
}

#[track_caller]
fn assert_equal(scratch: &Scratch, case: &str) {
    let (first, again) = (files(&scratch.join("set")), files(&scratch.join("again")));
    assert!(first.keys().eq(again.keys()), "{case}: {:?} and {:?}", first.keys(), again.keys());
    for (name, bytes) in &first {
        assert!(*bytes == again[name], "{case}: {name} differs: {}", String::from_utf8_lossy(&again[name]));
    }
}

fn rebuild(scratch: &Scratch, more: &[&str]) -> Run {
    run(within(scratch).args(["rebuild", "set", "--out", "again"]).args(more))
}

#[track_caller]
fn assert_rebuilt(scratch: &Scratch, arguments: &[&str], change: impl FnOnce(), more: &[&str]) {
    let case = arguments.join(" ");
    run(within(scratch).args(arguments).args(["--out", "set", "--partitions", "3"])).success();
    change();
    let found = rebuild(scratch, more).success();
    let shards = fs::read_to_string(scratch.join("set/_manifest.json")).unwrap();
    let shards = serde_json::from_str::<Value>(&shards).unwrap()["shards"].as_array().unwrap().len();
    let counted = if shards == 1 { "1 shard".to_owned() } else { format!("{shards} shards") };
    let confirmed = format!("{counted} with the checksums that set/_manifest.json records\n");
    assert!(found.stderr.ends_with(&confirmed), "{case}: {}", found.stderr);
    assert!(!found.stderr.contains("differs"), "{case}: {}", found.stderr);
    assert_equal(scratch, &case);
    for directory in ["set", "again"] {
        fs::remove_dir_all(scratch.join(directory)).unwrap();
    }
}

const TRIPS: &str = "SELECT trip_id, city, fare, zone_id, tags FROM 'trips.parquet' WHERE fare > 5";

#[test]
fn rebuild_writes_the_same_bytes() {
    let scratch = inputs();
    let with_split = format!("SELECT *, CASE WHEN zone_id < 20 THEN 'a' ELSE 'b' END AS part FROM ({TRIPS})");
    let ordered = format!("{TRIPS} ORDER BY trip_id");
    let of_csv = "CREATE EXTERNAL TABLE t (id INT, name VARCHAR) STORED AS CSV LOCATION 't.csv' OPTIONS ('delimiter' ';'); \
                  SET datafusion.execution.batch_size = 2; SELECT * FROM t";
    for arguments in [
        &[TRIPS][..],
        &[TRIPS, "--shuffle", "--seed", "7", "--shards", "3"],
        &[TRIPS, "--shuffle", "--split", "train=0.8,val=0.2", "--split-by", "zone_id", "--shards", "train=2,val=1"],
        &[TRIPS, "--shuffle", "--split", "train=rest,val=20rows"],
        &[&with_split, "--split-column", "part", "--shards", "2"],
        &[TRIPS, "--partition-by", "city", "--keep-partition-columns"],
        &[TRIPS, "--compression", "gzip", "--level", "9", "--shard-rows", "300", "--prefix", "trips"],
        &[TRIPS, "--compression", "zlib", "--shard-size", "20KiB"],
        &[&ordered, "--shards", "4"],
        &[
            TRIPS,
            "--map",
            "city: index",
            "--map",
            "fare: unscaled",
            "--shards",
            "2",
            "--emit",
            "tfds,tfmd,parse-fn,stats,index",
        ],
        &[TRIPS, "--record-type", "sequence-example", "--null", "mask", "--strict", "--map", "fare: string"],
        &["SELECT trip_id, fare FROM 'trips.parquet'", "--layout", "snapshot", "--shards", "2"],
        &["SELECT * FROM t", "--table", "t=t.csv,delimiter=;,types=string"],
        &[of_csv],
        &["SELECT * FROM 't.jsonl'", "--separator", "."],
        &["SELECT * FROM 'records/'", "--infer-records", "5"],
        &["SELECT id, label FROM t", "--table", "t=faces/,split=train", "--emit", "tfds"],
        &["SELECT * FROM 'robot/'"],
        &["-f", "q.sql"],
    ] {
        assert_rebuilt(&scratch, arguments, || {}, &[]);
    }
}

/// What the arguments name may have changed: the manifest has what was read.
#[test]
fn rebuild_needs_no_map_file() {
    let scratch = inputs();
    let change = || fs::remove_file(scratch.join("words.toml")).unwrap();
    let query = "SELECT id, coalesce(name, 'b') AS name FROM t";
    let arguments = [query, "--table", "t=t.csv,delimiter=;", "--map-file", "words.toml", "--emit", "tfds"];
    assert_rebuilt(&scratch, &arguments, change, &[]);
}

#[test]
fn rebuild_writes_rejected_rows_again() {
    let scratch = inputs();
    let query = "SELECT id, name FROM t";
    let arguments =
        [query, "--table", "t=t.csv,delimiter=;", "--null", "error", "--rejects", "bad", "--max-rejects", "5"];
    run(within(&scratch).args(arguments).args(["--out", "set", "--partitions", "3"])).success();
    let refused = rebuild(&scratch, &[]).exits_with(1);
    assert!(refused.stderr.contains("--rejects: 1 row did not fit"), "{}", refused.stderr);
    rebuild(&scratch, &["--rejects", "bad-again"]).success();
    assert_equal(&scratch, "rejects");
    assert_eq!(files(&scratch.join("bad")), files(&scratch.join("bad-again")));
}

/// Returns the newest version of a Delta table, and adds another without the files of the first.
fn add_version(table: &Path) -> u64 {
    let mut log: Vec<_> = fs::read_dir(table.join("_delta_log"))
        .unwrap()
        .filter_map(|file| file.unwrap().file_name().into_string().ok()?.strip_suffix(".json")?.parse::<u64>().ok())
        .collect();
    log.sort_unstable();
    let newest = *log.last().unwrap();
    let commits = log.iter().map(|version| fs::read_to_string(commit(table, *version)).unwrap());
    let actions: Vec<Value> = commits
        .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>())
        .collect();
    let removed = actions.iter().filter_map(|action| {
        let add = action.get("add")?;
        let mut remove = serde_json::json!({ "path": add["path"], "dataChange": true, "deletionTimestamp": 0 });
        if let Some(vector) = add.get("deletionVector") {
            remove["deletionVector"] = vector.clone();
        }
        Some(serde_json::json!({ "remove": remove }).to_string())
    });
    fs::write(commit(table, newest + 1), removed.collect::<Vec<_>>().join("\n")).unwrap();
    newest
}

fn commit(table: &Path, version: u64) -> std::path::PathBuf {
    table.join(format!("_delta_log/{version:020}.json"))
}

#[test]
fn rebuild_reads_the_recorded_versions() {
    for arguments in [
        &["SELECT * EXCLUDE (l, m, s) FROM 'delta/'", "--shuffle", "--shards", "2"][..],
        &["SELECT * EXCLUDE (l, m, s) FROM t", "--table", "t=delta/"],
        &["CREATE EXTERNAL TABLE t STORED AS DELTA LOCATION 'delta/'; SELECT * EXCLUDE (l, m, s) FROM t"],
        &["CREATE EXTERNAL TABLE \"T x\" STORED AS DELTA LOCATION 'delta/'; SELECT * EXCLUDE (l, m, s) FROM \"T x\""],
    ] {
        let scratch = inputs();
        assert_rebuilt(&scratch, arguments, || _ = add_version(&scratch.join("delta")), &[]);
        let count = run(within(&scratch).args(["SELECT count(*) AS n FROM 'delta/'", "--format", "csv"])).success();
        assert_eq!(count.stdout, "n\n0\n");
    }
    // A version that is gone.
    let scratch = inputs();
    run(within(&scratch).args(["SELECT * EXCLUDE (l, m, s) FROM 'delta/'", "--out", "set"])).success();
    let newest = add_version(&scratch.join("delta"));
    fs::remove_file(commit(&scratch.join("delta"), newest)).unwrap();
    let refused = rebuild(&scratch, &[]).exits_with(1);
    assert!(refused.stderr.contains(&format!("lacks version {newest}")), "{}", refused.stderr);
    assert!(!scratch.join("again").exists());
}

#[test]
fn rebuild_publishes_nothing_else() {
    let scratch = inputs();
    let write = |arguments: &[&str]| {
        let _ = fs::remove_dir_all(scratch.join("set"));
        run(within(&scratch).args(arguments).args(["--out", "set"])).success();
    };
    let refused = |problem: &str| {
        let refused = rebuild(&scratch, &[]).exits_with(1);
        assert!(refused.stderr.contains(problem), "expected {problem:?}: {}", refused.stderr);
        assert!(!scratch.join("again").exists());
    };
    // Other bytes in as many: only the checksum of the shard differs.
    write(&["SELECT * FROM t", "--table", "t=t.csv,delimiter=;"]);
    fs::write(scratch.join("t.csv"), "id;name\n1;a\n2;\n3;d\n").unwrap();
    refused("part-00000-of-00001.tfrecord: expected rows 3, bytes ");
    fs::write(scratch.join("t.csv"), "id;name\n1;a\n2;\n3;c\n4;d\n").unwrap();
    refused("the table t has changed: expected 1 file with 19 bytes, found 1 file with 23 bytes");
    fs::remove_file(scratch.join("t.csv")).unwrap();
    refused("t.csv: no such file or directory");
    refused("relative paths of inputs start at the current directory");
    fs::write(scratch.join("t.csv"), "id;name\n1;a\n2;\n3;c\n").unwrap();
    write(&["SELECT * FROM t", "--table", "t=t.csv,delimiter=;", "--shard-rows", "2"]);
    fs::write(scratch.join("t.csv"), "id;name\n1;a\n2;bcde\n").unwrap();
    refused("the set: expected 2 shards, found 1 shard\n");
    // What cannot be repeated.
    write(&["SELECT random() AS x"]);
    refused("part-00000-of-00001.tfrecord: expected rows 1, bytes ");
    write(&["SELECT 1 AS x"]);
    run(within(&scratch).args(["SELECT 2 AS x", "--out", "set", "--mode", "append"])).success();
    refused("1 more run added shards");
    run(within(&scratch).args(["reshard", "records", "--out", "resharded"])).success();
    let found = run(within(&scratch).args(["rebuild", "resharded", "--out", "again"])).exits_with(1);
    assert!(found.stderr.contains("does not record the arguments"), "{}", found.stderr);
    let _ = fs::remove_dir_all(scratch.join("set"));
    let trips = fs::File::open(scratch.join("trips.parquet")).unwrap();
    let mut piped = within(&scratch);
    piped.args(["SELECT count(*) AS n FROM '-'", "--out", "set"]).stdin(Stdio::from(trips));
    run(&mut piped).success();
    refused("the table - was read from a pipe");
}

/// The manifest is the file of a set, too; the resources are those of this run.
#[test]
fn rebuild_takes_the_manifest_itself() {
    let scratch = inputs();
    run(within(&scratch).args([TRIPS, "--out", "set", "--partitions", "5", "--threads", "1"])).success();
    let arguments = ["rebuild", "set/_manifest.json", "--out", "again", "--threads", "2", "--report", "json"];
    let found = run(within(&scratch).args(arguments)).success();
    let report: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(report["out"], "again");
    assert_equal(&scratch, "manifest");
    // Of a set that was rebuilt.
    run(within(&scratch).args(["rebuild", "again", "--out", "third"])).success();
    assert_eq!(files(&scratch.join("again")), files(&scratch.join("third")));
}

/// Changes what the manifest of `set` records.
fn edit(scratch: &Scratch, change: impl FnOnce(&mut Value)) {
    let path = scratch.join("set/_manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest.as_object_mut().unwrap().remove("manifest_crc32c");
    change(&mut manifest);
    fs::write(&path, manifest.to_string()).unwrap();
}

/// A value may have the same bytes in several types.
#[test]
fn rebuild_compares_the_columns() {
    let scratch = inputs();
    run(within(&scratch).args(["SELECT 1 AS x, 2 AS y", "--out", "set"])).success();
    edit(&scratch, |manifest| manifest["schema"]["fields"][1]["type"] = "Int32".into());
    let refused = rebuild(&scratch, &[]).exits_with(1);
    let named = "the set: expected column \"y\" of type Int32, found column \"y\" of type Int64";
    assert!(refused.stderr.contains(named), "{}", refused.stderr);
    assert!(!scratch.join("again").exists());
}

/// A manifest that somebody has edited writes no other files.
#[test]
fn rebuild_accepts_only_options_that_decide() {
    let scratch = inputs();
    run(within(&scratch).args(["SELECT 1 AS x", "--out", "set", "--strict"])).success();
    for argument in [
        "--plan=other",
        "--messages=other",
        "--mode=append",
        "--mode=overwrite",
        "--mode=ignore",
        "--dry-run",
        "--cluster=host:1",
        "--scratch=.",
        "--rejects=other",
        "--out=other",
        "--map-file=words.toml",
        "--file=q.sql",
        "--allow=/",
        "--strict=true",
        "--null",
        "--",
        "-v",
        "rebuild",
    ] {
        edit(&scratch, |manifest| {
            let arguments = manifest["options"]["arguments"].as_array_mut().unwrap();
            assert_eq!(arguments[1], "--strict");
            arguments.truncate(2);
            arguments.extend([argument.into(), "--partitions=1".into()]);
        });
        let refused = rebuild(&scratch, &[]).exits_with(1);
        assert!(
            refused.stderr.contains(&format!("the manifest records {argument:?}")),
            "{argument}: {}",
            refused.stderr
        );
        for path in ["other", "again"] {
            assert!(!scratch.join(path).exists(), "{argument}: {path}");
        }
    }
}

#[test]
fn rebuild_names_what_it_cannot_read_of_a_manifest() {
    let scratch = inputs();
    for (key, value, expected) in [
        ("arguments", serde_json::json!(null), "not text in UTF-8"),
        (
            "arguments",
            serde_json::json!([1]),
            "options.arguments of the manifest cannot be read\n  cause: invalid type",
        ),
        ("mapping", serde_json::json!({ "nulls": 7 }), "options.mapping of the manifest cannot be read"),
        ("files", serde_json::json!([]), "options.files of the manifest cannot be read"),
        ("versions", serde_json::json!({ "t": { "format": "Lake", "version": 1 } }), "the format \"Lake\""),
    ] {
        let _ = fs::remove_dir_all(scratch.join("set"));
        run(within(&scratch).args(["SELECT 1 AS x", "--out", "set"])).success();
        edit(&scratch, |manifest| manifest["options"][key] = value.clone());
        let refused = rebuild(&scratch, &[]).exits_with(1);
        assert!(refused.stderr.contains(expected), "expected {expected:?}: {}", refused.stderr);
        assert!(!scratch.join("again").exists());
    }
}

#[test]
fn rebuild_adds_to_no_set() {
    let scratch = inputs();
    run(within(&scratch).args([TRIPS, "--out", "set"])).success();
    run(within(&scratch).args(["SELECT 1 AS x", "--out", "again"])).success();
    let before = files(&scratch.join("again"));
    let refused = rebuild(&scratch, &[]).exits_with(1);
    assert!(refused.stderr.ends_with("hint: choose another directory\n"), "{}", refused.stderr);
    assert_eq!(files(&scratch.join("again")), before);
}

/// A manifest may be a copy.
#[test]
fn rebuild_takes_a_copy_of_the_manifest() {
    let scratch = inputs();
    run(within(&scratch).args([TRIPS, "--out", "set", "--partitions", "2", "--emit", "parse-fn"])).success();
    for named in ["set", "set/", "./set/_manifest.json"] {
        let found = run(within(&scratch).args(["rebuild", named, "--out", "again/"])).success();
        if !named.starts_with('.') {
            assert!(!found.stderr.contains("differs"), "{named}: {}", found.stderr);
            assert_equal(&scratch, named);
        }
        fs::remove_dir_all(scratch.join("again")).unwrap();
    }
    fs::rename(scratch.join("set/_manifest.json"), scratch.join("copy.json")).unwrap();
    let found = run(within(&scratch).args(["rebuild", "copy.json", "--out", "again"])).success();
    assert!(found.stderr.ends_with("1 shard with the checksums that copy.json records\n"), "{}", found.stderr);
    let refused = run(within(&scratch).args(["rebuild", "s3://bucket/set", "--out", "third"])).exits_with(1);
    assert!(refused.stderr.contains("hint: copy the _manifest.json of the set"), "{}", refused.stderr);
}

/// An Iceberg table moves on to another of its snapshots.
fn move_on(table: &Path) {
    change_metadata(table, |state| {
        let current = state["current-snapshot-id"].clone();
        let snapshots = state["snapshots"].as_array().unwrap();
        let mut ids = snapshots.iter().map(|snapshot| &snapshot["snapshot-id"]);
        let other = ids.find(|id| **id != current).unwrap().clone();
        state["refs"]["main"]["snapshot-id"] = other.clone();
        state["current-snapshot-id"] = other;
    });
}

/// Gives an Iceberg table another schema: the first one and a column of this name.
fn add_column(table: &Path, name: &str) {
    change_metadata(table, |state| {
        let schemas = state["schemas"].as_array_mut().unwrap();
        let (id, mut schema) = (schemas.len(), schemas[0].clone());
        schema["schema-id"] = id.into();
        let column = serde_json::json!({ "id": 100 + id, "name": name, "required": false, "type": "string" });
        schema["fields"].as_array_mut().unwrap().push(column);
        schemas.push(schema);
        state["current-schema-id"] = id.into();
        state["last-column-id"] = (100 + id).into();
    });
}

/// Writes the next metadata file of an Iceberg table.
fn change_metadata(table: &Path, change: impl FnOnce(&mut Value)) {
    let metadata = table.join("metadata");
    let hint: u64 = fs::read_to_string(metadata.join("version-hint.text")).unwrap().trim().parse().unwrap();
    let file = |version: u64| metadata.join(format!("v{version}.metadata.json"));
    let mut state: Value = serde_json::from_str(&fs::read_to_string(file(hint)).unwrap()).unwrap();
    change(&mut state);
    fs::write(metadata.join("version-hint.text"), (hint + 1).to_string()).unwrap();
    fs::write(file(hint + 1), state.to_string()).unwrap();
}

#[test]
fn rebuild_reads_the_recorded_snapshots() {
    for arguments in [
        &["SELECT * FROM 'iceberg/'", "--shuffle", "--shards", "2"][..],
        &["SELECT * FROM t", "--table", "t=iceberg/"],
        &["CREATE EXTERNAL TABLE t STORED AS ICEBERG LOCATION 'iceberg/'; SELECT * FROM t"],
    ] {
        let scratch = inputs();
        assert_rebuilt(&scratch, arguments, || move_on(&scratch.join("iceberg")), &[]);
    }
}

/// A column that was added after the last snapshot is a part of the table, but not of the snapshot's own schema.
#[test]
fn rebuild_reads_snapshots_with_the_recorded_schema() {
    for arguments in [
        &["SELECT id, extra FROM 'iceberg/'"][..],
        &["SELECT id, extra FROM t", "--table", "t=iceberg/"],
        &["CREATE EXTERNAL TABLE \"T\" STORED AS ICEBERG LOCATION 'iceberg/'; SELECT id, extra FROM \"T\""],
    ] {
        let scratch = inputs();
        add_column(&scratch.join("iceberg"), "extra");
        let change = || {
            move_on(&scratch.join("iceberg"));
            add_column(&scratch.join("iceberg"), "other");
        };
        assert_rebuilt(&scratch, arguments, change, &[]);
    }
}
