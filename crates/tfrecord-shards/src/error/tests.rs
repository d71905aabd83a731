use std::error::Error as _;
use std::fmt::Write as _;

use tfrecord_framing::{Compression, Position};

use super::*;
use crate::error::FindingKind;

fn cause() -> io::Error {
    io::Error::other("the cause")
}

fn damaged(kind: tfrecord_framing::ErrorKind) -> Error {
    ErrorKind::Damaged { path: "a.tfrecord".into(), error: kind.into() }.into()
}

/// One error of each kind that has words of its own.
fn every_kind() -> Vec<Error> {
    let path = PathBuf::from("data/shards");
    let manifest = path.join("_manifest.json");
    let three = || ["a", "b/", "c"].map(str::to_owned).to_vec();
    let run = "nightly7".to_owned();
    vec![
        ErrorKind::Io { action: "sync", path: path.clone(), source: cause() }.into(),
        ErrorKind::Io { action: "write", path: path.clone(), source: io::ErrorKind::StorageFull.into() }.into(),
        ErrorKind::Write(cause()).into(),
        Error::from(ErrorKind::Write(cause())).with_path(&path.join("x")),
        ErrorKind::Protected { path: "/".into(), what: "the root of the file system" }.into(),
        ErrorKind::NotADirectory { path: path.clone() }.into(),
        ErrorKind::NotEmpty { path: path.clone(), found: three() }.into(),
        ErrorKind::ForeignFiles { path: path.clone(), files: three() }.into(),
        ErrorKind::UnknownForm { path: path.clone() }.into(),
        ErrorKind::OtherPartitions {
            path: path.clone(),
            expected: "by dt (Utf8)".to_owned(),
            found: "by day (Utf8)".to_owned(),
        }
        .into(),
        ErrorKind::NoPartitionColumns.into(),
        ErrorKind::Overlap { path: path.clone(), input: "data".into() }.into(),
        ErrorKind::Busy { path, run }.into(),
        ErrorKind::Superseded { path: "s3://bucket/train/".into() }.into(),
        ErrorKind::Prefix { prefix: "a/b".to_owned() }.into(),
        ErrorKind::Ended.into(),
        ErrorKind::Failed.into(),
        ErrorKind::TooManyShards.into(),
        ErrorKind::OpenShards { count: 1 }.into(),
        ErrorKind::ShardTwice { partition: 3, sequence: 4 }.into(),
        ErrorKind::ShardLength { path: "00003-00004.staged".into(), expected: 4096, found: 4000 }.into(),
        ErrorKind::EmptyCompressed { path: "data/a.tfrecord.gz".into() }.into(),
        ErrorKind::NoManifest { path: manifest.clone() }.into(),
        ErrorKind::ManifestSyntax { path: manifest.clone(), source: serde::de::Error::custom("the cause") }.into(),
        ErrorKind::ManifestVersion { path: manifest.clone(), found: FormatVersion { major: 2, minor: 1 } }.into(),
        ErrorKind::ManifestContent { path: manifest, problem: "shard \"a\" is listed twice".to_owned() }.into(),
        damaged(tfrecord_framing::ErrorKind::Truncated {
            position: Position { record: 3, byte: 64 },
            expected: 12,
            found: 7,
        }),
        damaged(tfrecord_framing::ErrorKind::Compression {
            position: Position { record: 3, byte: 64 },
            compression: Compression::Gzip,
            source: cause(),
        }),
        ErrorKind::NotWhole(Finding::new(Path::new("data/shards"), FindingKind::NoSuccess)).into(),
        ErrorKind::NothingSound {
            path: "data".into(),
            findings: vec![Finding::new(Path::new("data/a.tfrecord"), FindingKind::NoSuccess)],
        }
        .into(),
        ErrorKind::NoFiles { path: "data".into() }.into(),
        ErrorKind::MixedGroups { first: "dt=1".to_owned(), second: "dt=2".to_owned() }.into(),
        ErrorKind::CompressedIndex { path: "a.tfrecord.gz".into(), container: Compression::Gzip.into() }.into(),
        ErrorKind::Stopped.into(),
        ErrorKind::NotAFile { path: "/dev/null".into() }.into(),
        ErrorKind::Twice { path: "a.tfrecord".into() }.into(),
        ErrorKind::SameIndex { path: "a.tfindex".into(), first: "a".into(), second: "a.tfrecord".into() }.into(),
        ErrorKind::MixedForms {
            path: "b".into(),
            difference: FormDifference {
                other: "a".into(),
                part: "column \"d\"".to_owned(),
                expected: "Int64".to_owned(),
                found: "Float32".to_owned(),
            },
        }
        .into(),
        Error::from(ErrorKind::Base64(base64::DecodeError::InvalidLength(3)))
            .with_path(Path::new("data/_manifest.json")),
        ErrorKind::MappingOptions(serde::de::Error::custom("the cause")).into(),
        ErrorKind::Json(serde::de::Error::custom("the cause")).into(),
        ErrorKind::Schema(ArrowError::IpcError("the cause".to_owned())).into(),
        ErrorKind::Base64(base64::DecodeError::InvalidLength(3)).into(),
    ]
}

#[test]
fn error_display_names_path_and_problem() {
    let mut text = String::new();
    for error in every_kind() {
        writeln!(text, "{error}").unwrap();
    }
    insta::assert_snapshot!(text, @r#"
    data/shards: cannot sync
    data/shards: cannot write
    cannot write a shard
    data/shards/x: cannot write
    /: the root of the file system is never written to
    data/shards: expected a directory, found a file
    data/shards: not empty: it contains a, b/, c
    data/shards: neither replaced nor appended to, because it contains files written by other tools: a, b/, c
    data/shards: not appended to: its manifest records no columns, since it was made of files without one
    data/shards: none of its partitions is replaced: partitioning is by day (Utf8), in the set it is by dt (Utf8)
    rows without partition columns cannot replace partitions
    data/shards: overlaps with input data
    data/shards: run nightly7 is writing here
    s3://bucket/train/: another run wrote here in the meantime
    prefix "a/b" cannot start the name of a shard
    the set has already been published or aborted
    the set cannot be written, because an earlier step failed
    more than 4294967295 shards
    cannot publish: shards still being written: 1
    write partition 3 has two shards numbered 4
    00003-00004.staged: expected 4096 bytes, found 4000
    data/a.tfrecord.gz: expected a compressed file or one of ArrayRecord, found an empty one
    data/shards/_manifest.json: there is no manifest
    data/shards/_manifest.json: not a valid manifest
    data/shards/_manifest.json: expected format version 1.x, found 2.1
    data/shards/_manifest.json: shard "a" is listed twice
    a.tfrecord: record 3 at byte 64: truncated, expected 12 bytes of a record header, found 7
    a.tfrecord: record 3 at byte 64: invalid gzip stream
    data/shards: _SUCCESS is missing
    data: no intact record
    data: no TFRecord files
    records of "dt=1" and of "dt=2" would be mixed
    a.tfrecord.gz: an index is for uncompressed files, found compression gzip
    stopped
    /dev/null: expected a file or a directory, found a device
    a.tfrecord: listed twice, or in a directory that is listed too
    a.tfindex: would be the index of a and of a.tfrecord
    b: column "d" is Float32, in a it is Int64
    data/_manifest.json: not a valid manifest
    the manifest's mapping options are not valid
    cannot write the manifest as JSON
    the schema's IPC form cannot be written or read
    the schema's IPC form is not base64
    "#);
}

#[test]
fn sources_are_kept_and_not_repeated() {
    for error in every_kind() {
        if let Some(source) = error.source() {
            assert!(!error.to_string().contains(&source.to_string()), "{error}");
        } else {
            assert!(!format!("{:?}", error.kind()).contains("the cause"), "{error}");
        }
    }
}
