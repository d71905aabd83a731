//! ArrayRecord files that array_record 0.8.6 wrote (`tests/data/array_record/make.py`) as tables and in the tools.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use tfr_tests::{Run, Scratch, payloads, repository, run, shard_files, tfr_sql};

fn data(name: &str) -> Vec<u8> {
    let path = repository().join("tests/data/array_record").join(format!("{name}.gz"));
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// The records that all files of examples have.
fn examples() -> Vec<Vec<u8>> {
    let bytes = data("examples.records");
    let (mut rest, mut records) = (bytes.as_slice(), Vec::new());
    while let Some((len, after)) = rest.split_first_chunk() {
        let (record, after) = after.split_at(u32::from_le_bytes(*len) as usize);
        records.push(record.to_vec());
        rest = after;
    }
    records
}

/// Puts a file of array_record into a directory.
fn put(scratch: &Scratch, file: &str, name: &str) -> PathBuf {
    let path = scratch.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, data(&format!("{file}.array_record"))).unwrap();
    path
}

fn query(arguments: &[&str]) -> Run {
    run(tfr_sql().args(arguments).args(["--format", "csv"]))
}

fn tool(name: &str, path: &Path, more: &[&str]) -> Run {
    run(tfr_sql().arg(name).arg(path).args(more))
}

/// The records of a set of TFRecord shards, in order.
fn records_of(set: &Path) -> Vec<Vec<u8>> {
    shard_files(set).iter().flat_map(|shard| payloads(shard)).collect()
}

#[test]
fn array_record_files_are_tables_by_content_by_option_and_by_statement() {
    let scratch = Scratch::default();
    for name in ["plain-1", "plain-128", "zstd-3", "brotli-128", "snappy-3"] {
        let path = put(&scratch, name, "by_content.bin");
        let path = path.to_str().unwrap();
        let sums = "count(*) AS n, sum(id) AS ids, min(name) AS first, max(score) AS best";
        let expected = "n,ids,first,best\n300,44850,name of row 0,74.75\n";
        let by_content = query(&[&format!("SELECT {sums} FROM '{path}'")]).success();
        assert_eq!(by_content.stdout, expected, "{name}");
        let table = format!("t={path},format=array_record");
        assert_eq!(query(&["--table", &table, &format!("SELECT {sums} FROM t")]).success().stdout, expected);
        let statement =
            format!("CREATE EXTERNAL TABLE t STORED AS ARRAYRECORD LOCATION '{path}'; SELECT {sums} FROM t");
        assert_eq!(query(&[&statement]).success().stdout, expected);
    }
    // Several files, by their names and in a directory.
    for part in 0..2 {
        put(&scratch, "zstd-1", &format!("set/digits.array_record-0000{part}-of-00002"));
    }
    let set = scratch.join("set");
    let rows = query(&[&format!("SELECT count(*) AS n, sum(id) AS ids FROM '{}/' WHERE id > 290", set.display())]);
    assert_eq!(rows.success().stdout, "n,ids\n18,5310\n");
}

#[test]
fn array_record_counts_come_from_the_footer() {
    let scratch = Scratch::default();
    let path = put(&scratch, "plain-1", "a.array_record");
    let count = |path: &Path| query(&[&format!("SELECT count(*) AS n FROM '{}'", path.display())]);
    assert_eq!(count(&path).success().stdout, "n\n300\n");
    let plan = query(&[&format!("EXPLAIN SELECT count(*) FROM '{}'", path.display())]).success().stdout;
    assert!(!plan.contains("DataSourceExec"), "{plan}");

    // A file without its end is refused even if nothing of it is read.
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..65_536]).unwrap();
    let refused = count(&path).exits_with(1).stderr;
    let expected =
        "at byte 65536 of the file: the file ends without a postscript: it is truncated, or not an ArrayRecord file";
    assert!(refused.contains("a.array_record") && refused.contains(expected), "{refused}");
    assert!(refused.contains("tfr-sql salvage"), "{refused}");
}

#[test]
fn array_record_options_of_tfrecord_are_refused() {
    let scratch = Scratch::default();
    let array = put(&scratch, "plain-1", "a.array_record");
    let refused = |table: &str| query(&["--table", table, "SELECT * FROM t"]).exits_with(1).stderr;
    for option in ["compression=gzip", "crc=skip"] {
        let text = refused(&format!("t={},{option}", array.display()));
        assert!(text.contains("is for") && text.contains("but this is ArrayRecord"), "{text}");
    }
    let text = query(&["--table", &format!("t={},format=tfrecord", array.display()), "SELECT * FROM t"]);
    assert!(text.exits_with(1).stderr.contains("ArrayRecord"));
    put(&scratch, "transposed-3", "t.array_record");
    let text = query(&[&format!("SELECT * FROM '{}'", scratch.join("t.array_record").display())]).exits_with(1).stderr;
    assert!(text.contains("t.array_record") && text.contains("transposed chunk, expected a simple one"), "{text}");
}

#[test]
fn array_record_files_are_printed_verified_and_resharded() {
    let scratch = Scratch::default();
    let path = put(&scratch, "zstd-3", "in/a.array_record");
    let head = tool("head", &path, &["-n", "1"]).success().stdout;
    assert_eq!(head, "{\"id\": [0], \"name\": [\"name of row 0\"], \"score\": [0.0]}\n");
    assert_eq!(tool("cat", &path, &[]).success().stdout.lines().count(), 300);
    let verified = tool("verify", &path, &[]).success();
    assert_eq!(verified.stdout, "");
    assert!(verified.stderr.contains("300 records"), "{}", verified.stderr);

    // To the other format and back, records unchanged.
    let (frames, chunks, again) = (scratch.join("frames"), scratch.join("chunks"), scratch.join("again"));
    let to = |from: &Path, to: &Path, more: &[&str]| {
        run(tfr_sql().arg("reshard").arg(from).arg("--out").arg(to).args(["--shards", "3"]).args(more)).success()
    };
    to(&scratch.join("in"), &frames, &[]);
    assert!(records_of(&frames) == examples());
    to(&frames, &chunks, &["--record-format", "array_record", "--group-size", "7", "--compression", "zstd"]);
    tool("verify", &chunks, &[]).success();
    let rows = query(&[&format!("SELECT count(*) AS n, sum(id) AS ids FROM '{}/'", chunks.display())]).success();
    assert_eq!(rows.stdout, "n,ids\n300,44850\n");
    to(&chunks, &again, &[]);
    assert!(records_of(&again) == examples());
}

#[test]
fn array_record_sets_have_the_types_of_their_manifest() {
    let scratch = Scratch::default();
    let (set, back) = (scratch.join("set"), scratch.join("back"));
    let rows = "SELECT value AS id, CAST(value AS VARCHAR) || 'x' AS name, CAST(value AS DOUBLE) * 0.1 AS share, \
                CAST('2026-01-02' AS DATE) AS day FROM generate_series(1, 1000)";
    let out =
        |query: &str, out: &Path, more: &[&str]| run(tfr_sql().arg(query).arg("--out").arg(out).args(more)).success();
    let mapped = ["--map", "share: bits"];
    out(rows, &set, &[&["--record-format", "array_record", "--shards", "2"], &mapped[..]].concat());
    out(rows, &back, &mapped);
    let read = |set: &Path| {
        let query = format!("SELECT * FROM '{}/' ORDER BY id", set.display());
        run(tfr_sql().arg(query).args(["--format", "json"])).success().stdout
    };
    assert_eq!(read(&set), read(&back));
    let columns = tool("schema", &set, &[]).success().stdout;
    assert_eq!(columns, tool("schema", &back, &[]).success().stdout);
    assert!(columns.contains("Date32"), "{columns}");
    tool("verify", &set, &[]).success();
}

#[test]
fn array_record_files_are_salvaged_past_damage() {
    let scratch = Scratch::default();
    let path = put(&scratch, "plain-3", "broken/a.array_record");
    let mut file = fs::read(&path).unwrap();
    // In the data of the first chunk, which begins after the signature.
    file[64 + 50] ^= 1;
    fs::write(&path, &file).unwrap();
    let verified = tool("verify", &path, &[]).exits_with(1).stdout;
    assert_eq!(verified.lines().count(), 1, "{verified}");
    let expected = "record 0 at byte 0: invalid ArrayRecord file: at byte 64 of the file: data of a chunk has the hash";
    assert!(verified.contains(expected), "{verified}");
    let refused = query(&[&format!("SELECT sum(id) FROM '{}'", path.display())]).exits_with(1).stderr;
    assert!(refused.contains("at byte 64 of the file: data of a chunk has the hash"), "{refused}");

    let saved = scratch.join("saved");
    run(tfr_sql().arg("salvage").arg(&path).arg("--out").arg(&saved));
    assert!(records_of(&saved) == examples()[3..]);
    let table = format!("t={},damaged=skip", path.display());
    let kept = query(&["--table", &table, "SELECT count(*) AS n, min(id) AS first FROM t"]).success();
    assert_eq!(kept.stdout, "n,first\n297,3\n");
    assert!(kept.stderr.contains("damaged"), "{}", kept.stderr);

    // A file that was cut in its middle has the chunks before.
    fs::write(&path, &data("plain-3.array_record")[..20_000]).unwrap();
    fs::remove_dir_all(&saved).unwrap();
    run(tfr_sql().arg("salvage").arg(&path).arg("--out").arg(&saved));
    let kept = records_of(&saved);
    assert!(kept.len() > 100 && examples().starts_with(&kept), "{}", kept.len());
}
