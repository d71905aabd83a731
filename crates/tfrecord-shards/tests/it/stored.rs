//! Files of a store, read as those of the file system are.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tfrecord_framing::Compression;
use tfrecord_shards::{
    FileStore, FindingKind, Input, Progress, RewriteOptions, StoredFiles, files, reshard, salvage, verify,
};

use crate::support::{count, write_file, write_set};

const URL: &str = "s3://bucket/tree";

/// A directory under a URL.
#[derive(Debug)]
struct Served(PathBuf);

impl FileStore for Served {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        match path.strip_prefix(URL) {
            Ok(below) => Ok(Box::new(File::open(self.0.join(below))?)),
            Err(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// All files of the tree.
fn list(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { list(&path, found) } else { found.push(path) }
    }
}

/// What is at `name` of the tree, by its URL.
fn served(tree: &Path, name: &str) -> Input {
    let (path, store) = (tree.join(name), Arc::new(Served(tree.to_owned())));
    let url = if name.is_empty() { PathBuf::from(URL) } else { Path::new(URL).join(name) };
    if path.is_file() {
        return StoredFiles::file(url, path.metadata().unwrap().len(), store).into();
    }
    let mut found = Vec::new();
    list(tree, &mut found);
    let found = found.into_iter().map(|path| {
        let len = path.metadata().unwrap().len();
        (Path::new(URL).join(path.strip_prefix(tree).unwrap()), len)
    });
    StoredFiles::directory(url, found, store).into()
}

/// A tree of a set with faults of every kind, one below it, and files of others.
fn plant(tree: &Path) {
    let set = tree.join("set");
    write_set(&set, 0..100, count(4), Compression::None);
    let shard = |number| set.join(format!("part-0000{number}-of-00004.tfrecord"));
    fs::remove_file(shard(1)).unwrap();
    let mut bytes = fs::read(shard(2)).unwrap();
    bytes[20] ^= 1;
    fs::write(shard(2), bytes).unwrap();
    fs::copy(shard(0), set.join("more-00000-of-00001.tfrecord")).unwrap();
    fs::remove_file(set.join("_SUCCESS")).unwrap();
    fs::write(set.join("features.json"), "{}").unwrap();
    fs::create_dir(set.join("_temporary")).unwrap();
    fs::copy(shard(0), set.join("_temporary/part-00000-of-00001.tfrecord")).unwrap();

    write_set(&tree.join("sound/inner"), 0..10, count(1), Compression::Gzip);
    let bad = tree.join("unknown");
    write_set(&bad, 0..10, count(1), Compression::None);
    fs::write(bad.join("_manifest.json"), "{").unwrap();

    let other = tree.join("other");
    fs::create_dir_all(other.join("dt=2026-01-01")).unwrap();
    fs::create_dir_all(other.join(".hidden")).unwrap();
    write_file(&other.join("dt=2026-01-01/a.tfrecord"), &[b"one".to_vec(), b"two".to_vec()], Compression::None);
    write_file(&other.join("b.tfrecord.gz"), &[b"three".to_vec()], Compression::None);
    write_file(&other.join(".hidden/c.tfrecord"), &[b"four".to_vec()], Compression::None);
    fs::write(other.join("empty"), "").unwrap();
    fs::write(other.join("a.tfrecord.idx"), "0 1\n").unwrap();
}

#[test]
fn tools_report_the_same_for_store_and_directory() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    plant(&tree);
    let here = tree.display().to_string();
    let places = [
        "",
        "set",
        "sound",
        "sound/inner",
        "unknown",
        "other",
        "other/dt=2026-01-01",
        "set/part-00002-of-00004.tfrecord",
        "sound/inner/part-00000-of-00001.tfrecord.gz",
        "other/b.tfrecord.gz",
    ];
    for name in places {
        let local = Input::from(if name.is_empty() { tree.clone() } else { tree.join(name) });
        let stored = served(&tree, name);
        let [local_seen, stored_seen] = [&local, &stored].map(|input| {
            let seen = verify(std::slice::from_ref(input), &Progress::default()).unwrap();
            let findings: Vec<_> = seen.findings.iter().map(|found| found.to_string().replace(&here, URL)).collect();
            (seen.files, seen.records, seen.framed_bytes, seen.file_bytes, findings)
        });
        assert_eq!(stored_seen, local_seen, "{name}");
        let [local_files, stored_files] = [local, stored].map(|input| {
            let (paths, findings) = files(&[input]).unwrap();
            (
                paths.iter().map(|path| path.display().to_string().replace(&here, URL)).collect::<Vec<_>>(),
                findings.len(),
            )
        });
        assert_eq!(stored_files, local_files, "{name}");
    }
    let seen = verify(&[served(&tree, "")], &Progress::default()).unwrap();
    let has = |is: fn(&FindingKind) -> bool| seen.findings.iter().any(|finding| is(&finding.kind));
    assert!(has(|kind| matches!(kind, FindingKind::Damage(_))));
    assert!(has(|kind| matches!(kind, FindingKind::MissingShard)));
    assert!(has(|kind| matches!(kind, FindingKind::UnlistedShard)));
    assert!(has(|kind| matches!(kind, FindingKind::NoSuccess)));
    assert!(has(|kind| matches!(kind, FindingKind::Unreadable(_))));
    assert!(has(|kind| matches!(kind, FindingKind::WrongContainer { .. })));
    let named = format!("{URL}/set/part-00002-of-00004.tfrecord: record 0 at byte 0: ");
    assert!(seen.findings.iter().any(|finding| finding.to_string().starts_with(&named)), "{:?}", seen.findings);
}

#[test]
fn records_of_a_store_are_moved_and_saved() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, out, local) = (dir.path().join("tree"), dir.path().join("out"), dir.path().join("local"));
    plant(&tree);
    let (mut options, progress) = (RewriteOptions::default(), Progress::default());
    options.sharding = count(3);
    let moved = reshard(&[served(&tree, "sound/inner")], &out, &options, &progress).unwrap().manifest;
    assert_eq!(moved.totals.rows, 10);
    assert!(moved.schema.is_some());
    assert!(verify(std::slice::from_ref(&out), &progress).unwrap().findings.is_empty());

    fs::remove_dir_all(&out).unwrap();
    let error = reshard(&[served(&tree, "set")], &out, &options, &progress).unwrap_err();
    assert!(error.to_string().contains(URL), "{error}");
    assert!(!out.exists());

    let saved = salvage(&[served(&tree, "set")], &out, &options, &progress).unwrap();
    let expected = salvage(&[tree.join("set")], &local, &options, &progress).unwrap();
    assert_eq!(saved.manifest.totals, expected.manifest.totals);
    for shard in &expected.manifest.shards {
        assert_eq!(fs::read(out.join(&shard.path)).unwrap(), fs::read(local.join(&shard.path)).unwrap());
    }
}
