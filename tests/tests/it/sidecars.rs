//! What lies beside the shards: that those read it whom it is for, and that it is of the set as the shards are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tfr_examples::trips_path;
use tfr_tests::{S3Server, Scratch, run, tfr_sql};

use crate::checker::{with_tensorflow, with_tfx};

const ALL: &str = "tfds,tfmd,parse-fn,stats,index";

fn write(query: &str, out: &Path, arguments: &[&str]) -> Command {
    let mut command = tfr_sql();
    command.arg(query).arg("--out").arg(out).args(arguments);
    command
}

fn trips() -> String {
    format!("SELECT * FROM '{}'", trips_path().display())
}

/// A few rows, in one partition.
fn rows(count: usize) -> String {
    format!("SELECT value AS id, concat('row ', value % 7) AS name FROM generate_series(1, {count})")
}

fn manifest(directory: &Path) -> Value {
    serde_json::from_slice(&fs::read(directory.join("_manifest.json")).unwrap()).unwrap()
}

/// The files in a directory, but the manifest, by name.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    named.filter(|(name, _)| name != "_manifest.json").collect()
}

fn verified(directory: &Path) -> String {
    run(tfr_sql().arg("verify").arg(directory)).success().stdout
}

#[test]
fn sidecars_load_in_their_readers() {
    let scratch = Scratch::default();
    let made = with_tensorflow("tests/interop/sidecar_tables.py", |command| command.arg(scratch.path()));
    if made.is_none() {
        return;
    }
    for (table, label) in [("flat", "label"), ("nested", "kinds")] {
        let (source, out) = (scratch.join(format!("{table}.arrow")), scratch.join(table));
        let query = format!("SELECT * FROM '{}'", source.display());
        let rule = format!("{label}: index");
        let splits = ["--split", "train=0.8,val=0.2", "--split-by", "id", "--shards", "train=3,val=1"];
        let mut shards = write(&query, &out.join("shards"), &["--emit", ALL, "--map", &rule]);
        run(shards.args(splits)).success();
        if table == "flat" {
            let ordered = format!("{query} ORDER BY id");
            let snapshot = ["--layout", "snapshot", "--null", "mask"];
            run(&mut write(&ordered, &out.join("snapshot"), &snapshot)).success();
        }
        let read =
            with_tensorflow("tests/interop/check_sidecars.py", |command| command.arg(&source).arg(&out).arg(label));
        assert_eq!(read.unwrap().stdout.trim(), "[]", "{table}");
    }
}

/// Its statistics are ours, and it decodes every value by the schema.
#[test]
fn tensorflow_extended_reads_the_table() {
    let scratch = Scratch::default();
    let made = with_tensorflow("tests/interop/sidecar_tables.py", |command| command.arg(scratch.path()));
    if made.is_none() {
        return;
    }
    let (source, out) = (scratch.join("flat.arrow"), scratch.join("shards"));
    let arguments = ["--emit", "tfmd,stats", "--map", "label: index", "--shards", "3"];
    run(&mut write(&format!("SELECT * FROM '{}'", source.display()), &out, &arguments)).success();
    let read = with_tfx("tests/interop/check_tfx.py", |command| command.arg(&source).arg(&out).arg("label"));
    let Some(read) = read else { return };
    assert_eq!(read.stdout.trim(), "[]");
}

/// By both names that an index has.
#[test]
fn pytorch_reader_uses_the_index() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    run(&mut write(&rows(1000), &out, &["--emit", "index", "--shards", "3"])).success();
    run(tfr_sql().args(["index", "--name", "tfindex"]).arg(&out)).success();
    for name in ["_*.tfrecord.idx", "*.tfindex"] {
        let read = with_tensorflow("tests/interop/check_index.py", |command| command.arg(&out).arg(name));
        let Some(read) = read else { return };
        let read: Value = serde_json::from_str(&read.stdout).unwrap();
        let ids: Vec<u64> = (1..=1000).collect();
        for way in ["by_workers", "from_anywhere"] {
            assert_eq!(read[way], Value::from(ids.clone()), "{name} {way}");
        }
    }
}

#[test]
fn parse_module_next_to_the_shards_trains_a_model() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let columns = "CAST(fare AS DOUBLE) AS fare, distance_km, paid_by_card";
    let query = format!("SELECT {columns} FROM '{}'", trips_path().display());
    run(&mut write(&query, &out, &["--emit", "parse-fn", "--shards", "4"])).success();
    let (module, shards) = (out.join("_parse_example.py"), out.join("*.tfrecord"));
    let trained = with_tensorflow("tests/interop/train_by_module.py", |command| {
        command.arg(&module).arg(&shards).args(["fare", "distance_km", "paid_by_card"])
    });
    let Some(trained) = trained else { return };
    let losses: Value = serde_json::from_str(&trained.stdout).unwrap();
    assert_eq!(losses["finite"], true, "{losses}");
    assert!(losses["last"].as_f64() < losses["first"].as_f64(), "{losses}");
}

#[test]
fn sidecars_are_listed_in_the_manifest() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    run(&mut write(&trips(), &out, &["--emit", ALL, "--shards", "3"])).success();
    let listed =
        manifest(&out)["sidecars"].as_array().unwrap().iter().map(|file| file["path"].clone()).collect::<Vec<_>>();
    for name in ["dataset_info.json", "features.json", "schema.pbtxt", "_parse_example.py", "_stats.pb", "_stats.html"]
    {
        assert!(out.join(name).is_file() && listed.contains(&name.into()), "{name} of {listed:?}");
    }
    assert_eq!(verified(&out), "");
    let page = out.join("_stats.html");
    fs::write(&page, "another page").unwrap();
    fs::remove_file(out.join("_part-00001-of-00003.tfrecord.idx")).unwrap();
    let found = run(tfr_sql().arg("verify").arg(&out)).exits_with(1).stdout;
    assert!(found.contains("_stats.html: differs from its entry in _manifest.json"), "{found}");
    assert!(found.contains("_part-00001-of-00003.tfrecord.idx: missing"), "{found}");
    // What is read are the shards alone.
    let counted = run(tfr_sql().arg(format!("SELECT count(*) AS n FROM '{}'", out.display()))).success().stdout;
    assert_eq!(counted.trim(), "n\n2000");
    // They are replaced with the shards, and what is not asked for any more is gone.
    run(&mut write(&rows(10), &out, &["--mode", "overwrite", "--emit", "tfmd", "--shards", "1"])).success();
    let left: Vec<_> = files(&out).into_keys().collect();
    assert_eq!(left, ["_SUCCESS", "part-00000-of-00001.tfrecord", "schema.pbtxt"]);
    assert_eq!(verified(&out), "");
}

/// The index is the one that the tool makes of the files.
#[test]
fn sidecar_index_equals_that_of_the_tool() {
    let scratch = Scratch::default();
    for (number, arguments) in [
        &["--shards", "3"][..],
        &["--shard-rows", "300"],
        &["--shuffle", "--seed", "1", "--shards", "5"],
        &["--split", "a=0.5,b=0.5", "--partition-by", "city"],
    ]
    .into_iter()
    .enumerate()
    {
        let out = scratch.join(number.to_string());
        run(write(&trips(), &out, &["--emit", "index"]).args(arguments)).success();
        let listed = manifest(&out);
        let indexes: Vec<PathBuf> = listed["sidecars"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| out.join(file["path"].as_str().unwrap()))
            .collect();
        assert_eq!(indexes.len(), listed["shards"].as_array().unwrap().len());
        let ours: Vec<_> = indexes.iter().map(|index| fs::read(index).unwrap()).collect();
        run(tfr_sql().arg("index").arg(&out)).success();
        assert_eq!(ours, indexes.iter().map(|index| fs::read(index).unwrap()).collect::<Vec<_>>());
        assert_eq!(verified(&out), "");
    }
}

/// Equal rows in equal partitions have equal sidecars, however many threads encode them.
#[test]
fn sidecars_are_independent_of_threads() {
    let scratch = Scratch::default();
    let write = |name: &str, threads: &str| {
        let out = scratch.join(name).join("shards");
        // In one partition, whatever the threads.
        let ordered = format!("{} ORDER BY id", rows(100_000));
        run(write(&ordered, &out, &["--emit", ALL, "--shards", "2"]).args(["--threads", threads])).success();
        let mut files = files(&out);
        // It tells where it lies.
        files.remove("_parse_example.py").unwrap();
        files
    };
    let (one, four) = (write("one", "1"), write("four", "4"));
    assert!(
        one == four,
        "{:?}",
        one.iter().filter(|(name, file)| four.get(*name) != Some(file)).map(|(name, _)| name).collect::<Vec<_>>()
    );
}

#[test]
fn sidecar_options_are_checked_before_reading() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    // No such file: reading anything would fail in another way.
    for (arguments, said) in [
        (&["--emit", "tfds", "--compression", "gzip"][..], "--emit tfds cannot be used with --compression gzip"),
        (&["--emit", "index", "--compression", "zlib"], "--emit index cannot be used with --compression zlib"),
        (&["--emit", "tfds", "--partition-by", "id"], "--emit tfds cannot be used with --partition-by"),
        (&["--emit", "tfdz"], "unknown sidecar \"tfdz\""),
        (&["--layout", "snapshot", "--emit", "stats"], "cannot be used with"),
        (&["--layout", "snapshot", "--compression", "zlib"], "none or gzip"),
        (&["--layout", "snapshot", "--mode", "append"], "append"),
    ] {
        let refused = run(&mut write("SELECT * FROM 'nothing.parquet'", &out, arguments)).exits_with(2);
        assert!(refused.stderr.contains(said), "{arguments:?}: {}", refused.stderr);
    }
    let endless = "SELECT value AS id FROM generate_series(1, 100000000000)";
    let refused =
        run(&mut write(endless, &out, &["--emit", "tfds", "--record-type", "sequence-example"])).exits_with(1);
    assert!(refused.stderr.contains("sequence-example"), "{}", refused.stderr);
    assert_eq!(scratch.listing(), [""; 0]);
}

#[test]
fn sidecars_are_kept_on_append_while_valid() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let write = |arguments: &[&str]| run(&mut write(&rows(100), &out, arguments));
    write(&["--emit", "stats,index"]).success();
    let refused = write(&["--mode", "append", "--emit", "stats"]).exits_with(1);
    assert!(refused.stderr.contains("tfr-sql describe"), "{}", refused.stderr);
    let grown = write(&["--mode", "append", "--emit", "index"]).success();
    assert!(grown.stderr.contains("_stats.pb") && grown.stderr.contains("describe the set"), "{}", grown.stderr);
    let names: Vec<_> = files(&out).into_keys().collect();
    assert!(!names.iter().any(|name| name.starts_with("_stats")), "{names:?}");
    let count = |suffix: &str| names.iter().filter(|name| name.ends_with(suffix)).count();
    assert_eq!(count(".idx"), count(".tfrecord"), "{names:?}");
    assert_eq!(verified(&out), "");
    // Now it tells of all rows.
    run(tfr_sql().arg("describe").arg(&out).args(["--emit", "stats"])).success();
    assert_eq!(verified(&out), "");
    let table = run(tfr_sql().arg("stats").arg(&out)).success();
    assert!(table.stderr.contains("200 records"), "{}", table.stderr);
    assert_eq!(manifest(&out)["sidecars"].as_array().unwrap().len(), count(".idx") + 2);
}

#[test]
fn sidecars_are_uploaded_to_object_stores() {
    let scratch = Scratch::default();
    let server = S3Server::default();
    let (out, url) = (scratch.join("set"), server.url("here/set"));
    run(&mut write(&rows(1000), &out, &["--emit", ALL, "--shards", "2"])).success();
    let put = |query: &str, arguments: &[&str]| {
        run(server.tfr_sql().arg(query).args(["--out", &url]).args(arguments)).success()
    };
    put(&rows(1000), &["--emit", ALL, "--shards", "2"]);
    for (name, content) in files(&out) {
        if name != "_parse_example.py" {
            assert!(server.object(&format!("here/set/{name}")) == content, "{name}");
        }
    }
    put(&rows(10), &["--emit", "tfds,index", "--shards", "2", "--mode", "overwrite"]);
    let keys = server.keys();
    assert!(!keys.iter().any(|key| key.ends_with("_stats.html")), "{keys:?}");
    let info: Value = serde_json::from_slice(&server.object("here/set/dataset_info.json")).unwrap();
    let lengths = info["splits"][0]["shardLengths"].as_array().unwrap().iter();
    assert_eq!(lengths.map(|length| length.as_str().unwrap().parse::<u64>().unwrap()).sum::<u64>(), 10);
    assert_eq!(keys.iter().filter(|key| key.ends_with(".idx")).count(), 2, "{keys:?}");
    let arguments = ["--emit", "tfds", "--mode", "overwrite"];
    let refused = run(server.tfr_sql().arg(rows(10)).args(["--out", &url]).args(arguments)).exits_with(1);
    assert!(refused.stderr.contains("--shards N"), "{}", refused.stderr);
}

#[test]
fn statistics_are_a_table_and_a_page() {
    let scratch = Scratch::default();
    let (out, page) = (scratch.join("shards"), scratch.join("page.html"));
    run(&mut write(&rows(1000), &out, &["--shards", "2"])).success();
    let shown = run(tfr_sql().arg("stats").arg(&out).arg("--html").arg(&page)).success();
    let lines: Vec<Vec<&str>> = shown.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..3], ["feature", "type", "missing"]);
    assert_eq!(lines[1], ["id", "int64", "1", "500.5", "500", "1000", "1000", "1,", "2,", "3"]);
    assert_eq!(lines[2][..2], ["name", "text"]);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("<svg") && !html.contains("http://") && !html.contains("https://"), "{html}");
}
