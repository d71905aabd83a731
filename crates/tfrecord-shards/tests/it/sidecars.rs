//! Files beside the shards: published, replaced and removed with them.

use std::fs;
use std::path::Path;

use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{
    Capabilities, ErrorKind, IndexName, LocalCommit, Manifest, Progress, SaveMode, ShardWriter, Sidecar, SidecarEntry,
    StagedShard, index, put_sidecars, verify,
};

use crate::support::{IN_PLACE, begin, describe, encode, files, ids, whole};

/// Where directories cannot be exchanged either.
const POOR: Capabilities = Capabilities { beside: true, exchange: false };

fn sidecar(path: &str, content: &str) -> Sidecar {
    Sidecar { path: path.to_owned(), content: content.into() }
}

/// Stages two shards with their indexes.
fn stage(commit: &LocalCommit, tag: &str) -> Vec<StagedShard> {
    let stage = |sequence| {
        let first = i64::from(tag.as_bytes()[0]) * 16;
        let records = encode(&ids(first..first + 3000));
        let file = commit.create_shard(0, sequence).unwrap();
        let shard = ShardWriter::new(file, (Compression::None, Level::default()));
        let mut shard = shard.with_index(commit.index_file(0, sequence));
        // In two pieces, the second of which fills more than one buffer of lines.
        shard.append(&records, 0..10).unwrap();
        shard.append(&records, 10..records.len()).unwrap();
        let (file, stats) = shard.finish().unwrap();
        file.seal(stats).unwrap()
    };
    (0..2).map(stage).collect()
}

fn write(out: &Path, mode: SaveMode, capabilities: Capabilities, tag: &str) -> tfrecord_shards::Result<Manifest> {
    let commit = begin(out, mode, capabilities)?;
    let shards = stage(&commit, tag);
    commit.publish_with(shards, describe(tag), |manifest| {
        let names: Vec<_> = manifest.shards.iter().map(|shard| shard.path.as_str()).collect();
        Ok(vec![sidecar(&format!("{tag}.json"), &names.join(",")), sidecar("schema.pbtxt", tag)])
    })
}

/// What is wrong with the set, by name of the file.
fn findings(out: &Path) -> Vec<String> {
    let found = verify(&[out.to_owned()], &Progress::default()).unwrap().findings;
    found.iter().map(|finding| finding.to_string().replace(&format!("{}/", out.display()), "")).collect()
}

#[test]
fn sidecars_are_published_and_replaced_with_their_set() {
    for capabilities in [Capabilities::ALL, POOR, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("set");
        write(&out, SaveMode::Error, capabilities, "a").unwrap();
        write(&out, SaveMode::Overwrite, capabilities, "b").unwrap();
        assert_eq!(whole(&out).unwrap(), "b");
        let found = files(&out);
        let names: Vec<_> = found.keys().map(String::as_str).collect();
        let shards = ["part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord"];
        let indexes = ["_part-00000-of-00002.tfrecord.idx", "_part-00001-of-00002.tfrecord.idx"];
        let marks = ["_SUCCESS", "_manifest.json"];
        assert_eq!(names, [marks[0], marks[1], indexes[0], indexes[1], "b.json", shards[0], shards[1], "schema.pbtxt"]);
        assert_eq!(found["b.json"], shards.join(",").into_bytes());
        assert_eq!(findings(&out), [""; 0]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // What the tool would write.
        let ours: Vec<_> = indexes.map(|name| found[name].clone()).into();
        index(std::slice::from_ref(&out), IndexName::Idx, &Progress::default()).unwrap();
        assert_eq!(ours, indexes.map(|name| fs::read(out.join(name)).unwrap()));
    }
}

#[test]
fn sidecar_indexes_are_kept_when_a_set_grows() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("set");
        write(&out, SaveMode::Error, capabilities, "a").unwrap();
        let grown = write(&out, SaveMode::Append, capabilities, "b").unwrap();
        assert_eq!(grown.sidecars.len(), 4);
        assert!(grown.sidecars.iter().all(|sidecar| sidecar.path.ends_with(".idx")), "{:?}", grown.sidecars);
        let names: Vec<_> = files(&out).into_keys().collect();
        assert!(!names.iter().any(|name| name == "a.json" || name == "b.json" || name == "schema.pbtxt"), "{names:?}");
        assert_eq!(findings(&out), [""; 0]);
    }
}

#[test]
fn sidecar_failure_publishes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("set");
    for name in ["_SUCCESS", "../elsewhere", "part-00000-of-00002.tfrecord"] {
        let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
        let shards = stage(&commit, "a");
        let error = commit.publish_with(shards, describe("a"), |_| Ok(vec![sidecar(name, "")])).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ManifestContent { .. }), "{name}: {error}");
    }
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    let shards = stage(&commit, "a");
    let error = commit.publish_with(shards, describe("a"), |_| Err("no words for it".into())).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Sidecars(_)), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn sidecar_that_differs_is_reported_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("set");
    let manifest = write(&out, SaveMode::Error, Capabilities::ALL, "a").unwrap();
    fs::write(out.join("schema.pbtxt"), "b").unwrap();
    fs::remove_file(out.join("a.json")).unwrap();
    let found = findings(&out);
    assert!(
        found[0].starts_with("a.json: missing") && found[1].starts_with("schema.pbtxt: differs from its entry"),
        "{found:?}"
    );
    // Readers of the shards have no reason to mind.
    assert_eq!(whole(&out).unwrap(), "a");
    put_sidecars(&out, Some(&manifest), &[sidecar("a.json", "{}"), sidecar("schema.pbtxt", "c")], Vec::new()).unwrap();
    assert_eq!(findings(&out), [""; 0]);
    let stale = put_sidecars(&out, Some(&manifest), &[sidecar("a.json", "{}")], Vec::new()).unwrap_err();
    assert!(matches!(stale.kind(), ErrorKind::Superseded { .. }), "{stale}");
    let again = Manifest::read(&out).unwrap();
    let entry = SidecarEntry::of_file(&out, "schema.pbtxt").unwrap();
    assert!(again.sidecars.contains(&entry) && again.sidecars.len() == manifest.sidecars.len());
    assert!(!files(&out).keys().any(|name| name.starts_with('.')));
}
