use std::path::Path;

use tfrecord_framing::{Compression, Position};
use tfrecord_shards::FormatVersion;

use super::*;

fn every_kind() -> Vec<Error> {
    let path = || "data/shards".into();
    let files = || vec!["a".to_owned(), "b/".to_owned()];
    let no_success = |path| Finding::new(Path::new(path), FindingKind::NoSuccess);
    let truncated =
        tfrecord_framing::ErrorKind::Truncated { position: Position { record: 3, byte: 64 }, expected: 12, found: 7 };
    [
        ErrorKind::Io { action: "write", path: path(), source: io::ErrorKind::StorageFull.into() },
        ErrorKind::Io { action: "create", path: path(), source: io::Error::from_raw_os_error(EMFILE) },
        ErrorKind::Protected { path: path(), what: "the root of the file system" },
        ErrorKind::NotADirectory { path: path() },
        ErrorKind::NotEmpty { path: path(), found: files() },
        ErrorKind::ForeignFiles { path: path(), files: files() },
        ErrorKind::UnknownForm { path: path() },
        ErrorKind::Overlap { path: path(), input: path() },
        ErrorKind::Busy { path: path(), run: "nightly7".to_owned() },
        ErrorKind::Superseded { path: path() },
        ErrorKind::Prefix { prefix: "a/b".to_owned() },
        ErrorKind::TooManyShards,
        ErrorKind::NotAppendable { path: path(), why: String::new() },
        ErrorKind::OtherForm { path: path(), part: String::new(), expected: String::new(), found: String::new() },
        ErrorKind::NewColumns { path: path(), columns: vec!["new".to_owned()] },
        ErrorKind::OtherPartitions { path: path(), expected: String::new(), found: String::new() },
        ErrorKind::NoPartitionColumns,
        ErrorKind::PartitionName { column: ".c".to_owned() },
        ErrorKind::LongName { name: "c=aaa".to_owned(), found: 300, limit: 255 },
        ErrorKind::SpillDamaged { path: path(), problem: String::new() },
        ErrorKind::NoManifest { path: path() },
        ErrorKind::ManifestContent { path: path(), problem: "shard \"a\" is listed twice".to_owned() },
        ErrorKind::ManifestVersion { path: path(), found: FormatVersion { major: 2, minor: 1 } },
        ErrorKind::ManifestForm { path: path(), source: Box::new(ErrorKind::Ended.into()) },
        ErrorKind::Damaged { path: path(), error: truncated.into() },
        ErrorKind::NotWhole(no_success("data/shards")),
        ErrorKind::NothingSound { path: path(), findings: vec![no_success("data/a.tfrecord")] },
        ErrorKind::NoFiles { path: path() },
        ErrorKind::NotAFile { path: "/dev/null".into() },
        ErrorKind::Twice { path: path() },
        ErrorKind::MixedGroups { first: "dt=1".to_owned(), second: "dt=2".to_owned() },
        ErrorKind::CompressedIndex { path: path(), container: Compression::Gzip.into() },
        ErrorKind::SameIndex { path: path(), first: path(), second: path() },
    ]
    .map(Error::from)
    .into()
}

#[test]
fn shard_errors_have_hints() {
    let text: Vec<_> = every_kind().iter().map(|error| format!("{error}\n  hint: {}", hint(error).unwrap())).collect();
    insta::assert_snapshot!(text.join("\n"), @r##"
    data/shards: cannot write
      hint: make room, or write elsewhere: nothing of this run has been kept
    data/shards: cannot create
      hint: ask for fewer shards, or raise the limit on open files with ulimit -n
    data/shards: the root of the file system is never written to
      hint: name a directory for the set alone
    data/shards: expected a directory, found a file
      hint: name a directory for the set alone
    data/shards: not empty: it contains a, b/
      hint: choose another directory; --mode overwrite replaces a set that tfr-sql has written, --mode append adds to it
    data/shards: neither replaced nor appended to, because it contains files written by other tools: a, b/
      hint: choose another directory, or move these files away; to go on with the rows that are there, copy them to a set and append to that: tfr-sql "SELECT * FROM 'data/shards/'" --out DIR
    data/shards: not appended to: its manifest records no columns, since it was made of files without one
      hint: to go on with the rows that are there, copy them to a set and append to that: tfr-sql "SELECT * FROM 'data/shards/'" --out DIR
    data/shards: overlaps with input data/shards
      hint: write to another path: the output must not be an input, contain one or be inside one
    data/shards: run nightly7 is writing here
      hint: wait for that run to end, or choose another directory
    data/shards: another run wrote here in the meantime
      hint: nothing of this run has been kept; run it again when the other one has ended, or choose another place
    prefix "a/b" cannot start the name of a shard
      hint: use a short one without slashes and control characters that starts with a letter or a digit
    more than 4294967295 shards
      hint: make shards larger
    data/shards: not appended to: 
      hint: replace the existing set with --mode overwrite, or write to another directory
    data/shards: not appended to:  is , in the set it is 
      hint: write it as the set was written: tfr-sql schema prints its columns, _manifest.json has all options (CAST changes a column's type, NULL AS name adds a column that may be null); or write it to another directory
    data/shards: not appended to: the set does not have the column "new"
      hint: add --add-columns to the query, and they are null in the existing rows; or leave them out
    data/shards: none of its partitions is replaced: partitioning is , in the set it is 
      hint: name the columns that the set is partitioned by with --partition-by; a set without partitions is replaced as a whole, with --mode overwrite
    rows without partition columns cannot replace partitions
      hint: name the columns that the set is partitioned by, or replace all of it with --mode overwrite
    partition column ".c" cannot name directories
      hint: give it another name in the query, one that does not start with a dot
    "c=aaa" would be a name of 300 bytes, the limit is 255
      hint: partition by columns of few and short values, and choose short prefixes and names of splits
    data/shards: a temporary file does not contain what was written to it: 
      hint: run it again, with temporary files on another disk
    data/shards: there is no manifest
      hint: name the directory of a set that tfr-sql has written
    data/shards: shard "a" is listed twice
      hint: restore the manifest, or move the directory away and write the set again
    data/shards: expected format version 1.x, found 2.1
      hint: read it with a newer release
    data/shards: not a valid manifest
      hint: restore the manifest, or write the set again
    data/shards: record 3 at byte 64: truncated, expected 12 bytes of a record header, found 7
      hint: tfr-sql verify reports all damage, tfr-sql salvage keeps the intact records
    data/shards: _SUCCESS is missing
      hint: tfr-sql verify reports all damage, tfr-sql salvage keeps the intact records; files that are named one by one are read whatever the manifest tells
    data/shards: no intact record
      hint: nothing was written; what is wrong first: data/a.tfrecord: _SUCCESS is missing
    data/shards: no TFRecord files
      hint: hidden files, those whose names start with _, and sidecars such as .json are passed over
    /dev/null: expected a file or a directory, found a device
      hint: write its content to a file and name that
    data/shards: listed twice, or in a directory that is listed too
      hint: name it once; to have its records twice, copy it or link to it
    records of "dt=1" and of "dt=2" would be mixed
      hint: name one of them at a time, and write each to a directory of its own; files that are named one by one are mixed whatever their directories tell
    data/shards: an index is for uncompressed files, found compression gzip
      hint: make uncompressed files of them with tfr-sql reshard
    data/shards: would be the index of data/shards and of data/shards
      hint: name one of them, or choose --name idx
    "##);
}

#[test]
fn finding_hint_recommends_describe_for_sidecars() {
    let hints = [FindingKind::MissingSidecar, FindingKind::ChangedSidecar, FindingKind::MissingShard]
        .map(|kind| finding_hint(&Finding::new(Path::new("a"), kind)));
    assert_eq!(hints, [Some("tfr-sql describe writes it again"), Some("tfr-sql describe writes it again"), None]);
}
