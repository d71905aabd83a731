use arrow_tfrecord::RecordType;
use tfrecord_framing::Compression;

use super::*;

#[test]
fn sidecar_errors_have_hints() {
    let (path, problem) = ("a".to_owned(), "it is in a directory".to_owned());
    let missing = TfdsProblem::MissingShards { before: "a-".to_owned(), after: String::new(), total: 2, found: 1 };
    let two = TfdsProblem::TwoTemplates { split: path.clone(), first: path.clone(), second: path.clone() };
    let snapshot =
        ErrorKind::Snapshot { column: "c".to_owned(), problem: path.clone(), hint: "select a column".to_owned() };
    let hints: Vec<_> = [
        ErrorKind::Malformed { at: 0, reason: "no field" },
        snapshot,
        ErrorKind::SnapshotNull { column: "c".to_owned(), row: 0 },
        TfdsProblem::NoShard.into(),
        TfdsProblem::Shard { path: path.clone(), problem }.into(),
        missing.into(),
        two.into(),
        TfdsProblem::Compressed { found: None }.into(),
        TfdsProblem::Version { version: path.clone() }.into(),
        TfdsProblem::NotImages { column: path }.into(),
        ErrorKind::CompressedIndex { compression: Compression::Gzip },
        ErrorKind::NoFile { dir: "a".into() },
        ErrorKind::NotWhole { problem: "a shard".to_owned() },
        ErrorKind::RecordType { found: RecordType::Bytes },
        ErrorKind::File { path: "a".into(), source: ErrorKind::NoFile { dir: "a".into() }.into() },
    ]
    .map(|kind| hint(&kind.into()).unwrap())
    .into();
    insta::assert_snapshot!(hints.join("\n"), @"
    the records may be of another type: print them as hex
    select a column
    fill it with coalesce(), leave such rows out, or use --null mask
    write one at least
    reshard, with --shards N in an object store and without --partition-by
    write the set again, or reshard the existing files
    reshard them, so that each split has shards of one name
    reshard with --compression none
    write three numbers: 1.0.0
    leave it out of the images, and it is read as bytes
    use --compression none
    name the directory that the shards are in
    write the set again, or salvage the existing files
    ask for another form: arrow, ddl and json have all records
    name the directory that the shards are in
    ");
}
