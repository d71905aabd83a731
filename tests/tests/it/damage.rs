//! What is said of each kind of damage: by a query, by `verify` and by `salvage`. The table is
//! `snapshots/it__damage__table.snap`. And no query makes anything of a damaged file.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_tfrecord::WriterBuilder;
use tfr_tests::{Run, Scratch, read_shards, run, tfr_sql};
use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{ShardedWriterBuilder, Sharding};

/// A file or a set of files with something wrong in it.
struct Case {
    what: String,
    /// What is read, in a directory of the case's own.
    name: &'static str,
    /// Options of the table.
    options: &'static str,
    /// A number that stands for others.
    variable: Option<usize>,
    files: Vec<(String, Vec<u8>)>,
}

impl Case {
    fn file(what: &str, name: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        Self { what: what.to_owned(), name, options: "", variable: None, files: vec![(name.to_owned(), bytes.into())] }
    }

    fn set(what: &str, files: Vec<(String, Vec<u8>)>) -> Self {
        let files = files.into_iter().map(|(name, bytes)| (format!("set/{name}"), bytes)).collect();
        Self { what: what.to_owned(), name: "set/", options: "", variable: None, files }
    }

    fn with_variable(self, variable: usize) -> Self {
        Self { variable: Some(variable), ..self }
    }

    fn with_options(self, options: &'static str) -> Self {
        Self { options, ..self }
    }
}

const ROWS: i64 = 4;

fn rows() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Kyoto", "Quito", "Lisbon"]));
    RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
}

fn file(compression: Compression) -> Vec<u8> {
    let builder = WriterBuilder::new(rows().schema()).with_compression(compression, Level::default());
    let mut writer = builder.build(Vec::new()).unwrap();
    writer.write(&rows()).unwrap();
    writer.finish().unwrap()
}

/// Two shards of two rows, with manifest and mark.
fn set() -> Vec<(String, Vec<u8>)> {
    let scratch = Scratch::default();
    let out = scratch.join("set");
    let mut writer = ShardedWriterBuilder::new(rows().schema())
        .with_sharding(Sharding::Count(NonZeroUsize::new(2).unwrap()))
        .build(&out)
        .unwrap();
    writer.write(&rows()).unwrap();
    writer.finish().unwrap();
    let mut files: Vec<_> = fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// The set with one of its files changed, or without it.
fn set_but(name: &str, change: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<(String, Vec<u8>)> {
    let files = set();
    assert!(files.iter().any(|(found, _)| found == name), "{files:?}");
    let changed = |(found, bytes): (String, Vec<u8>)| match found == name {
        true => change(&bytes).map(|bytes| (found, bytes)),
        false => Some((found, bytes)),
    };
    files.into_iter().filter_map(changed).collect()
}

fn cases() -> Vec<Case> {
    const PLAIN: &str = "x.tfrecord";
    const GZIP: &str = "x.tfrecord.gz";
    const ZLIB: &str = "x.tfrecord.zlib";
    const SHARD: &str = "part-00001-of-00002.tfrecord";

    let plain = file(Compression::None);
    let gzip = file(Compression::Gzip);
    let zlib = file(Compression::Zlib);
    // Where the records of the plain file start.
    let mut starts = vec![0];
    while let Some(length) = plain.get(starts[starts.len() - 1]..).and_then(|rest| rest.first_chunk::<8>()) {
        starts.push(starts[starts.len() - 1] + usize::try_from(u64::from_le_bytes(*length)).unwrap() + 16);
    }
    assert_eq!(starts.len() as i64, ROWS + 1);
    let flipped = |byte: usize| {
        let mut bytes = plain.clone();
        bytes[byte] ^= 1;
        bytes
    };
    let then = |bytes: &[u8], more: &[u8]| [bytes, more].concat();
    let trailing = |count: usize| then(&plain, &b"trailing by"[..count]);

    let mut cases =
        vec![Case::file("nothing is wrong", PLAIN, plain.clone()), Case::file("no bytes at all", PLAIN, [])];
    cases.extend(
        (1..=11)
            .map(|count| Case::file("N trailing bytes, N from 1 to 11", PLAIN, trailing(count)).with_variable(count)),
    );
    cases.extend([
        Case::file("cut between two records, without a manifest", PLAIN, &plain[..starts[3]]),
        Case::set(
            "cut between two records, with a manifest",
            set_but(SHARD, |bytes| Some(bytes[..starts[3] - starts[2]].into())),
        ),
        Case::file("cut inside a header", PLAIN, &plain[..starts[3] + 7]),
        Case::file("cut inside a payload", PLAIN, &plain[..starts[3] + 20]),
        Case::file("cut inside a footer", PLAIN, &plain[..starts[4] - 1]),
        Case::file("a flipped bit in a length", PLAIN, flipped(starts[1])),
        Case::file("a flipped bit in the checksum of a length", PLAIN, flipped(starts[1] + 8)),
        Case::file("a flipped bit in a payload", PLAIN, flipped(starts[1] + 20)),
        Case::file("a flipped bit in the checksum of a payload", PLAIN, flipped(starts[2] - 1)),
        Case::file("two flipped bits, far from each other", PLAIN, {
            let mut bytes = flipped(starts[0]);
            bytes[starts[2] + 20] ^= 1;
            bytes
        }),
        Case::file("64 zero bytes at the end", PLAIN, then(&plain, &[0; 64])),
        Case::file("gzip without its trailer", GZIP, &gzip[..gzip.len() - 8]),
        Case::file("gzip with half its trailer", GZIP, &gzip[..gzip.len() - 4]),
        Case::file("gzip with a wrong checksum", GZIP, {
            let mut bytes = gzip.clone();
            let checksum = bytes.len() - 8;
            bytes[checksum] ^= 1;
            bytes
        }),
        Case::file("gzip cut in its data", GZIP, &gzip[..gzip.len() / 2]),
        Case::file("gzip and 64 zero bytes", GZIP, then(&gzip, &[0; 64])),
        Case::file("gzip, two members end to end", GZIP, then(&gzip, &gzip)),
        Case::file("zlib, two streams end to end", ZLIB, then(&zlib, &zlib)),
        Case::file("zlib without its trailer", ZLIB, &zlib[..zlib.len() - 4]),
        Case::file("gzip that is named as if it were not", PLAIN, gzip.clone()),
        Case::file("no gzip that is named as if it were", GZIP, plain.clone()),
        Case::file("no gzip that is asked to be gzip", PLAIN, plain.clone()).with_options(",compression=gzip"),
        Case::file("gzip that is asked to be none", GZIP, gzip.clone()).with_options(",compression=none"),
        Case::file("a Git LFS pointer", PLAIN, *b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
        Case::set(
            "a set with a flipped bit",
            set_but(SHARD, |bytes| {
                let mut bytes = bytes.to_vec();
                bytes[20] ^= 1;
                Some(bytes)
            }),
        ),
        Case::set("a set without one of its shards", set_but(SHARD, |_| None)),
        Case::set("a set without its mark", set_but("_SUCCESS", |_| None)),
        Case::set(
            "a set with a file that it does not list",
            [set(), vec![("more.tfrecord".to_owned(), plain.clone())]].concat(),
        ),
        Case::set("a set without its manifest", set_but("_manifest.json", |_| None)),
    ]);
    cases
}

/// What each of the three says, in a directory that holds only the case.
fn report(case: &Case) -> String {
    let scratch = Scratch::default();
    for (name, bytes) in &case.files {
        let path = scratch.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let command = |arguments: &[&str]| {
        let mut command = tfr_sql();
        command.args(arguments).current_dir(scratch.path());
        run_quietly(&mut command)
    };
    let table = format!("t={},format=tfrecord{}", case.name, case.options);
    let query = command(&["SELECT * FROM t", "--table", &table, "--format", "csv"]);
    if query.code != Some(0) {
        // What is made of damaged input is not left half done.
        let made = command(&["SELECT * FROM t", "--table", &table, "--out", "made"]);
        assert_eq!(made.code, Some(1), "{}: {}", case.what, made.stderr);
        let left: Vec<_> = fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [case.name.trim_end_matches('/')], "{}", case.what);
    }
    let verify = command(&["verify", case.name]);
    let salvage = command(&["salvage", case.name, "--out", "saved"]);

    let mut text = format!("{}\n", case.what);
    let rows = query.stdout.lines().count().saturating_sub(1);
    said(&mut text, "query", &query, &format!("{rows} rows"), false);
    said(&mut text, "verify", &verify, "", true);
    let saved = if scratch.join("saved").exists() { read_shards(&scratch.join("saved")).len() } else { 0 };
    said(&mut text, "salvage", &salvage, &format!("{saved} records"), true);
    match case.variable {
        Some(number) => text
            .replace(&format!("found {number}\n"), "found N\n")
            .replace(&format!("{} B", 200 + number), "200+N B")
            .replace("1 byte lost", "1 bytes lost")
            .replace(&format!("{number} bytes lost"), "N bytes lost"),
        None => text,
    }
}

fn run_quietly(command: &mut Command) -> Run {
    run(command.args(["--threads", "1"]))
}

fn said(text: &mut String, who: &str, run: &Run, what: &str, with_output: bool) {
    let code = run.code.expect("no signal");
    writeln!(text, "  {who:<8} exit {code}{}{what}", if what.is_empty() { "" } else { ", " }).unwrap();
    let output = if with_output { run.stdout.as_str() } else { "" };
    for line in output.lines().chain(run.stderr.lines()).filter(|line| !line.is_empty()) {
        writeln!(text, "           {}", without_time(line)).unwrap();
    }
}

/// The last line of a run without the seconds it took.
fn without_time(line: &str) -> String {
    let parts = line.rsplit_once(" s: ").and_then(|(before, after)| Some((before.rsplit_once(", ")?, after)));
    match parts {
        Some(((before, seconds), after)) if seconds.parse::<f64>().is_ok() => format!("{before}: {after}"),
        _ => line.to_owned(),
    }
}

#[test]
fn damage_is_reported_in_every_kind_of_input() {
    let cases = cases();
    let next = AtomicUsize::new(0);
    let reports: Vec<Mutex<String>> = cases.iter().map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((case, said)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    cases.get(number).zip(reports.get(number))
                } {
                    *said.lock().unwrap() = report(case);
                }
            });
        }
    });
    let mut table: Vec<String> = reports.into_iter().map(|said| said.into_inner().unwrap()).collect();
    // What differs in nothing but its number is told once.
    table.dedup();
    insta::assert_snapshot!("table", table.join("\n"));
}
