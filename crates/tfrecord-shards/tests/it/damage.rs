//! Every damage that a TFRecord file or set is known to suffer: what [`verify`] tells, and what [`salvage`] keeps.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tfrecord_framing::{Compression, Level, RecordWriter};
use tfrecord_shards::{
    ErrorKind, LocalCommit, Progress, RewriteOptions, RunId, SaveMode, SetDescription, ShardWriter, salvage, verify,
};

use crate::support::{frames, payloads};

/// Frames at bytes 0, 21 and 43, end at 64.
const RECORDS: [&[u8]; 3] = [b"first", b"second", b"third"];

fn file(compression: Compression) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    RECORDS.iter().for_each(|record| writer.write_record(record).unwrap());
    writer.finish().unwrap()
}

/// A set of one shard that holds the records.
fn set(dir: &Path, compression: Compression) -> PathBuf {
    let out = dir.join("set");
    let commit = LocalCommit::begin(&out, SaveMode::Error, RunId::new(), &[]).unwrap();
    let mut shard = ShardWriter::new(commit.create_shard(0, 0).unwrap(), (compression, Level::default()));
    shard.append(&frames(RECORDS), 0..RECORDS.len()).unwrap();
    let (sink, stats) = shard.finish().unwrap();
    let mut description = SetDescription::of_records();
    description.framing = compression.into();
    let manifest = commit.publish(vec![sink.seal(stats).unwrap()], description).unwrap();
    out.join(&manifest.shards[0].path)
}

/// Lines of the table: what is told of `path`, and what is kept.
fn report(case: &str, dir: &TempDir, path: &Path) -> String {
    let (progress, at) = (Progress::default(), format!("{}/", dir.path().display()));
    let inputs = [path.to_owned()];
    let seen = verify(&inputs, &progress).unwrap();
    let lines: Vec<_> = seen.findings.iter().map(|finding| finding.to_string().replace(&at, "")).collect();
    let saved = salvage(&inputs, &dir.path().join("saved"), &RewriteOptions::default(), &progress);
    let (kept, findings) = match saved.map_err(tfrecord_shards::Error::into_kind) {
        Ok(saved) => (payloads(&dir.path().join("saved")), saved.findings),
        Err(ErrorKind::NothingSound { findings, .. }) => (Vec::new(), findings),
        Err(error) => panic!("{case}: {error}"),
    };
    let shown: Vec<_> = findings.iter().map(|finding| finding.to_string().replace(&at, "")).collect();
    assert_eq!(shown, lines, "{case}: salvage tells what verify does");
    let kept: Vec<_> = kept.iter().map(|record| record.escape_ascii().to_string()).collect();
    assert_eq!(kept.len() as u64, seen.records, "{case}");

    let mut report = format!("{case}\n");
    lines.iter().for_each(|line| writeln!(report, "  {line}").unwrap());
    if lines.is_empty() {
        report.push_str("  nothing wrong\n");
    }
    writeln!(report, "  salvages {}", if kept.is_empty() { "nothing".to_owned() } else { kept.join(" ") }).unwrap();
    report
}

fn of_file(case: &str, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    report(case, &dir, &path)
}

/// Damage to a set, done by `spoil` to its shard.
fn of_set(case: &str, compression: Compression, spoil: impl FnOnce(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let shard = set(dir.path(), compression);
    spoil(&shard);
    report(case, &dir, &dir.path().join("set"))
}

fn cut(len: usize) -> impl FnOnce(&Path) {
    move |path| fs::write(path, &fs::read(path).unwrap()[..len]).unwrap()
}

fn flip(at: usize) -> impl FnOnce(&Path) {
    move |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[at] ^= 1;
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn verify_reports_damage_of_files() {
    let (plain, gzip, zlib) = (file(Compression::None), file(Compression::Gzip), file(Compression::Zlib));
    let flipped = |at: usize| {
        let mut file = plain.clone();
        file[at] ^= 1;
        file
    };
    let mut bad_gzip = gzip.clone();
    bad_gzip[gzip.len() - 8] ^= 1;
    let table = [
        of_file("empty file", "a.tfrecord", b""),
        of_file("1 byte after the last record", "a.tfrecord", [&plain[..], b"x"].concat()),
        of_file("11 bytes after the last record", "a.tfrecord", [&plain[..], b"eleven byte"].concat()),
        of_file("64 zero bytes after the last record", "a.tfrecord", [&plain[..], &[0; 64]].concat()),
        of_file("cut between records: cannot be seen without a manifest", "a.tfrecord", &plain[..43]),
        of_file("cut inside a header", "a.tfrecord", &plain[..50]),
        of_file("cut inside a payload", "a.tfrecord", &plain[..57]),
        of_file("cut inside a footer", "a.tfrecord", &plain[..63]),
        of_file("flipped bit: length", "a.tfrecord", flipped(21)),
        of_file("flipped bit: checksum of the length", "a.tfrecord", flipped(29)),
        of_file("flipped bit: payload", "a.tfrecord", flipped(33)),
        of_file("flipped bit: checksum of the payload", "a.tfrecord", flipped(39)),
        of_file("flipped bits in two records", "a.tfrecord", {
            let mut file = flipped(15);
            file[60] ^= 1;
            file
        }),
        of_file("a hole of zero bytes", "a.tfrecord", [&plain[..21], &[0; 22], &plain[43..]].concat()),
        of_file("gzip, two members", "a.tfrecord.gz", [&gzip[..], &gzip].concat()),
        of_file("gzip without its trailer", "a.tfrecord.gz", &gzip[..gzip.len() - 8]),
        of_file("gzip with half its trailer", "a.tfrecord.gz", &gzip[..gzip.len() - 4]),
        of_file("gzip with a wrong checksum", "a.tfrecord.gz", bad_gzip),
        of_file("gzip and zero bytes", "a.tfrecord.gz", [&gzip[..], &[0; 64]].concat()),
        of_file("gzip, the first of two members damaged", "a.tfrecord.gz", {
            let mut file = [&gzip[..], &gzip].concat();
            file[30] ^= 1;
            file
        }),
        of_file("gzip cut in its data", "a.tfrecord.gz", &gzip[..30]),
        of_file("zlib, two streams", "a.tfrecord.zlib", [&zlib[..], &zlib].concat()),
        of_file("zlib without its trailer", "a.tfrecord.zlib", &zlib[..zlib.len() - 4]),
        of_file("gzip by another name, which tells no compression", "a.tfrecord", &gzip),
        of_file("none by the name of gzip", "a.tfrecord.gz", &plain),
        of_file("zlib by the name of gzip", "a.tfrecord.gz", &zlib),
        of_file("no TFRecord file", "a.tfrecord", b"version https://git-lfs.github.com/spec/v1\n"),
        of_file(
            "no TFRecord file, by the name of gzip",
            "a.tfrecord.gz",
            b"version https://git-lfs.github.com/spec/v1\n",
        ),
    ]
    .concat();
    insta::assert_snapshot!(table, @"
    empty file
      nothing wrong
      salvages nothing
    1 byte after the last record
      a.tfrecord: record 3 at byte 64: truncated, 1 byte lost
      salvages first second third
    11 bytes after the last record
      a.tfrecord: record 3 at byte 64: truncated, 11 bytes lost
      salvages first second third
    64 zero bytes after the last record
      a.tfrecord: record 3 at byte 64: zero bytes where a record should start, 64 bytes lost
      salvages first second third
    cut between records: cannot be seen without a manifest
      nothing wrong
      salvages first second
    cut inside a header
      a.tfrecord: record 2 at byte 43: truncated, 7 bytes lost
      salvages first second
    cut inside a payload
      a.tfrecord: record 2 at byte 43: truncated, 14 bytes lost
      salvages first second
    cut inside a footer
      a.tfrecord: record 2 at byte 43: truncated, 20 bytes lost
      salvages first second
    flipped bit: length
      a.tfrecord: record 1 at byte 21: length does not match its checksum, 22 bytes lost
      salvages first third
    flipped bit: checksum of the length
      a.tfrecord: record 1 at byte 21: length does not match its checksum, 22 bytes lost
      salvages first third
    flipped bit: payload
      a.tfrecord: record 1 at byte 21: payload does not match its checksum, 22 bytes lost
      salvages first third
    flipped bit: checksum of the payload
      a.tfrecord: record 1 at byte 21: payload does not match its checksum, 22 bytes lost
      salvages first third
    flipped bits in two records
      a.tfrecord: record 0 at byte 0: payload does not match its checksum, 21 bytes lost
      a.tfrecord: record 2 at byte 43: payload does not match its checksum, 21 bytes lost
      salvages second
    a hole of zero bytes
      a.tfrecord: record 1 at byte 21: zero bytes where a record should start, 22 bytes lost
      salvages first third
    gzip, two members
      nothing wrong
      salvages first second third first second third
    gzip without its trailer
      a.tfrecord.gz: record 3 at byte 64: invalid gzip stream: the stream is truncated
      salvages first second third
    gzip with half its trailer
      a.tfrecord.gz: record 3 at byte 64: invalid gzip stream: the stream is truncated
      salvages first second third
    gzip with a wrong checksum
      a.tfrecord.gz: record 3 at byte 64: invalid gzip stream: the stream is damaged, or compressed in another way, bytes 62 to 66 of the file passed over
      salvages first second third
    gzip and zero bytes
      a.tfrecord.gz: record 3 at byte 64: invalid gzip stream: zero bytes follow the last gzip member, bytes 66 to 130 of the file passed over
      salvages first second third
    gzip, the first of two members damaged
      a.tfrecord.gz: record 1 at byte 21: invalid gzip stream: the stream is damaged, or compressed in another way, 1 byte lost, bytes 31 to 66 of the file passed over
      salvages first first second third
    gzip cut in its data
      a.tfrecord.gz: record 1 at byte 21: invalid gzip stream: the stream is truncated, 1 byte lost
      salvages first
    zlib, two streams
      a.tfrecord.zlib: record 3 at byte 64: invalid zlib stream: bytes follow the end of the zlib stream
      salvages first second third first second third
    zlib without its trailer
      a.tfrecord.zlib: record 3 at byte 64: invalid zlib stream: the stream is truncated
      salvages first second third
    gzip by another name, which tells no compression
      nothing wrong
      salvages first second third
    none by the name of gzip
      a.tfrecord.gz: expected compression gzip, found none
      salvages first second third
    zlib by the name of gzip
      a.tfrecord.gz: expected compression gzip, found zlib
      salvages first second third
    no TFRecord file
      a.tfrecord: record 0 at byte 0: length does not match its checksum, 43 bytes lost
      salvages nothing
    no TFRecord file, by the name of gzip
      a.tfrecord.gz: record 0 at byte 0: invalid gzip stream: the stream is damaged, or compressed in another way, bytes 2 to 43 of the file passed over
      salvages nothing
    ");
}

#[test]
fn verify_reports_damage_of_sets() {
    let none = Compression::None;
    let remove = |name: &'static str| move |shard: &Path| fs::remove_file(shard.with_file_name(name)).unwrap();
    let table = [
        of_set("nothing", none, |_| {}),
        of_set("cut between records", none, cut(43)),
        of_set("cut inside a record", none, cut(50)),
        of_set("flipped bit", none, flip(33)),
        of_set("another shard of the same length", none, |shard| {
            let records: [&[u8]; 3] = [b"FIRST", b"SECOND", b"THIRD"];
            fs::write(shard, frames(records).bytes()).unwrap();
        }),
        of_set("records cut otherwise", none, |shard| {
            let records: [&[u8]; 3] = [b"first!", b"second", b"thir"];
            fs::write(shard, frames(records).bytes()).unwrap();
        }),
        of_set("gzip where there was zlib", Compression::Zlib, |shard| {
            fs::write(shard, file(Compression::Gzip)).unwrap()
        }),
        of_set("gzip cut to nothing", Compression::Gzip, |shard| fs::write(shard, b"").unwrap()),
        of_set("no _SUCCESS", none, remove("_SUCCESS")),
        of_set("no manifest: a directory like any other", none, remove("_manifest.json")),
        of_set("a damaged manifest", none, |shard| fs::write(shard.with_file_name("_manifest.json"), b"{\"").unwrap()),
        of_set("a shard too many", none, |shard| {
            fs::copy(shard, shard.with_file_name("part-00001-of-00002.tfrecord")).unwrap();
        }),
        of_set("files that are no shards", none, |shard| {
            for name in [".part-0.crc", "_temporary", "schema.pbtxt", "features.json", "notes"] {
                fs::write(shard.with_file_name(name), b"").unwrap();
            }
        }),
        of_set("a staging directory in the set", none, |shard| {
            fs::create_dir(shard.with_file_name(".tfr-dead")).unwrap();
        }),
        of_set("a staging directory beside the set", none, |shard| {
            let set = shard.parent().unwrap();
            fs::create_dir(set.with_file_name(".tfr-dead-set")).unwrap();
            fs::create_dir(set.with_file_name(".tfr-dead.replaced-set")).unwrap();
        }),
        of_set("a staging directory of a set that was never published", none, |shard| {
            fs::remove_file(shard.with_file_name("_manifest.json")).unwrap();
            fs::create_dir(shard.with_file_name(".tfr-dead")).unwrap();
        }),
    ]
    .concat();
    insta::assert_snapshot!(table, @"
    nothing
      nothing wrong
      salvages first second third
    cut between records
      set/part-00000-of-00001.tfrecord: expected 3 records in 64 bytes by _manifest.json, found 2 in 43
      salvages first second
    cut inside a record
      set/part-00000-of-00001.tfrecord: record 2 at byte 43: truncated, 7 bytes lost
      set/part-00000-of-00001.tfrecord: expected 3 records in 64 bytes by _manifest.json, found 2 in 50
      salvages first second
    flipped bit
      set/part-00000-of-00001.tfrecord: record 1 at byte 21: payload does not match its checksum, 22 bytes lost
      salvages first third
    another shard of the same length
      set/part-00000-of-00001.tfrecord: expected the CRC-32C d30c4220 by _manifest.json, found a5b5fae3
      salvages FIRST SECOND THIRD
    records cut otherwise
      set/part-00000-of-00001.tfrecord: expected the CRC-32C d30c4220 by _manifest.json, found 3fc4711c
      salvages first! second thir
    gzip where there was zlib
      set/part-00000-of-00001.tfrecord.deflate: expected compression zlib, found gzip
      set/part-00000-of-00001.tfrecord.deflate: expected 3 records in 54 bytes by _manifest.json, found 3 in 66
      salvages first second third
    gzip cut to nothing
      set/part-00000-of-00001.tfrecord.gz: expected 3 records in 66 bytes by _manifest.json, found 0 in 0
      salvages nothing
    no _SUCCESS
      set: _SUCCESS is missing
      salvages first second third
    no manifest: a directory like any other
      nothing wrong
      salvages first second third
    a damaged manifest
      set/_manifest.json: not a valid manifest: EOF while parsing a string at line 1 column 2
      salvages first second third
    a shard too many
      set/part-00001-of-00002.tfrecord: not part of the set: _manifest.json does not list it
      salvages first second third
    files that are no shards
      nothing wrong
      salvages first second third
    a staging directory in the set
      set/.tfr-dead: left behind by run dead, which was killed
      salvages first second third
    a staging directory beside the set
      .tfr-dead-set: left behind by run dead, which was killed
      .tfr-dead.replaced-set: left behind by run dead, which was killed
      salvages first second third
    a staging directory of a set that was never published
      set: run dead has not published its shards
      salvages first second third
    ");
}

#[test]
fn verify_compares_a_file_with_the_manifest_next_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let shard = set(dir.path(), Compression::None);
    cut(43)(&shard);
    let other = shard.with_file_name("other.tfrecord");
    fs::copy(&shard, &other).unwrap();
    let lines = |path: &Path| {
        let seen = verify(&[path.to_owned()], &Progress::default()).unwrap();
        seen.findings.iter().map(|finding| finding.kind.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(lines(&shard), ["expected 3 records in 64 bytes by _manifest.json, found 2 in 43"]);
    assert_eq!(lines(&other), [""; 0]);
}

#[test]
fn verify_summarizes_excessive_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tfrecord");
    let records = frames(std::iter::repeat_n(b"?".as_slice(), 40_000));
    let mut file = records.bytes().to_vec();
    (0..40_000).step_by(2).for_each(|record| file[record * 17 + 12] ^= 1);
    fs::write(&path, file).unwrap();
    let seen = verify(&[path], &Progress::default()).unwrap();
    assert_eq!((seen.records, seen.findings.len()), (20_000, 10_001));
    let last = seen.findings.last().unwrap().to_string();
    assert!(last.ends_with("a.tfrecord: damaged in 10000 more places, 170000 bytes lost there"), "{last}");
}
