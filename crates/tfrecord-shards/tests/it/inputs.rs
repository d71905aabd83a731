//! What is taken for input, and what of it goes together.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::{Array as _, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{Field, Schema};
use arrow_tfrecord::{Choice, MappingOptions};
use tfrecord_framing::{Compression, RecordReader};
use tfrecord_shards::{
    ErrorKind, Finding, IndexName, Progress, RewriteOptions, ShardedWriterBuilder, files, index, reshard, salvage,
    verify,
};

use crate::support::{count, payloads, refusal, write_file, write_set};

/// A set of one moment, in the form of this choice.
fn write_moment(out: &Path, choice: Choice, nullable: bool) {
    let moments = TimestampMicrosecondArray::from(vec![1_767_225_600_000_000]);
    let field = Field::new("ts", moments.data_type().clone(), nullable);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(moments)]).unwrap();
    let mut mapping = MappingOptions::default();
    mapping.choices.insert("ts".to_owned(), choice);
    let mut writer = ShardedWriterBuilder::new(batch.schema()).with_mapping(mapping).build(out).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
}

#[test]
fn reshard_does_not_mix_different_encodings() {
    let dir = tempfile::tempdir().unwrap();
    let [seconds, micros, nulls, ids, foreign, out] =
        ["seconds", "micros", "nulls", "ids", "foreign", "out"].map(|name| dir.path().join(name));
    write_moment(&seconds, Choice::Seconds, false);
    write_moment(&micros, Choice::Micros, false);
    write_moment(&nulls, Choice::Seconds, true);
    write_set(&ids, 0..10, count(2), Compression::None);
    write_file(&foreign, &[b"?".to_vec()], Compression::None);
    let shard = micros.join("part-00000-of-00001.tfrecord");
    let root = format!("{}/", dir.path().display());
    let text = |error: &dyn std::fmt::Display| error.to_string().replace(&root, "");
    for (one, other, part) in [
        (&seconds, &micros, "micros: the mapping of column \"ts\" is "),
        (&seconds, &shard, "micros: the mapping of column \"ts\" is "),
        (&seconds, &nulls, "nulls: column \"ts\" is "),
        (&seconds, &ids, "ids: "),
        (&seconds, &foreign, "foreign: the form of the records is not known, in seconds it is from _manifest.json"),
        (&foreign, &micros, "micros: the form of the records is from _manifest.json, in foreign it is not known"),
    ] {
        let inputs = [one.clone(), other.clone()];
        let error = refusal(&inputs, &out);
        assert!(matches!(error.kind(), ErrorKind::MixedForms { .. }), "{error}");
        assert!(text(&error).starts_with(part), "{error}");
        // What is lost but for this is saved, and told.
        let saved = salvage(&inputs, &out, &RewriteOptions::default(), &Progress::default()).unwrap();
        assert_eq!(saved.findings.len(), 1);
        assert!(text(&saved.findings[0]).starts_with(part), "{}", saved.findings[0]);
        assert!(text(&saved.findings[0]).ends_with("; the new set does not record types"));
        assert!(saved.manifest.schema.is_none() && saved.manifest.record_type.is_none());
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn reshard_keeps_the_types_of_a_named_shard_that_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (set, out) = (dir.path().join("set"), dir.path().join("out"));
    let manifest = write_set(&set, 0..100, count(2), Compression::None);
    let shards = [0, 1].map(|shard| set.join(&manifest.shards[shard].path));
    let mut payload = Vec::new();
    RecordReader::new(fs::File::open(&shards[0]).unwrap()).read_record(&mut payload).unwrap();
    write_file(&shards[0], &[payload], Compression::None);
    let moved = reshard(&shards, &out, &RewriteOptions::default(), &Progress::default()).unwrap();
    assert_eq!((moved.manifest.schema, moved.manifest.totals.rows), (manifest.schema, 51));
    assert!(moved.findings[0].to_string().contains("part-00000-of-00002.tfrecord: expected 50 records in "));
    assert_eq!(moved.findings.len(), 1);
}

#[test]
fn reshard_reports_files_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let (set, out) = (dir.path().join("set"), dir.path().join("out"));
    let manifest = write_set(&set, 0..100, count(2), Compression::None);
    write_file(&set.join("zz.tfrecord"), &[b"?".to_vec()], Compression::None);
    let moved = reshard(from_ref(&set), &out, &RewriteOptions::default(), &Progress::default()).unwrap();
    let shown = |findings: &[Finding]| findings.iter().map(|finding| finding.kind.to_string()).collect::<Vec<_>>();
    let unlisted = "not part of the set: _manifest.json does not list it";
    assert_eq!((moved.manifest.totals.rows, shown(&moved.findings)), (100, vec![unlisted.to_owned()]));

    fs::remove_file(set.join("_SUCCESS")).unwrap();
    fs::remove_file(set.join(&manifest.shards[1].path)).unwrap();
    let indexing = index(from_ref(&set), IndexName::Idx, &Progress::default()).unwrap();
    let missing = "missing, although _manifest.json lists it";
    assert_eq!(indexing.indexes.len(), 1);
    assert_eq!(shown(&indexing.findings), ["_SUCCESS is missing", missing, unlisted]);
    // A file that is left out of the set and named is not left out.
    let named = [set.clone(), set.join("zz.tfrecord")];
    assert_eq!(verify(&named, &Progress::default()).unwrap().files, 2);
}

#[test]
fn reshard_does_not_mix_partitions() {
    let dir = tempfile::tempdir().unwrap();
    for day in ["dt=2026-01-01", "dt=2026-01-02"] {
        fs::create_dir_all(dir.path().join("in").join(day)).unwrap();
        write_file(&dir.path().join("in").join(day).join("part-0.tfrecord"), &[vec![1]], Compression::None);
    }
    let error = refusal(&[dir.path().join("in")], &dir.path().join("out"));
    assert_eq!(error.to_string(), "records of \"dt=2026-01-01\" and of \"dt=2026-01-02\" would be mixed");
    let days = ["dt=2026-01-01", "dt=2026-01-02"].map(|day| dir.path().join("in").join(day));
    assert!(matches!(refusal(&days, &dir.path().join("out")).kind(), ErrorKind::MixedGroups { .. }));
    let files = days.clone().map(|day| day.join("part-0.tfrecord"));
    for (inputs, out) in [(&days[..1], "one"), (&files[..], "named")] {
        let manifest = reshard(inputs, &dir.path().join(out), &RewriteOptions::default(), &Progress::default());
        assert_eq!(manifest.unwrap().manifest.totals.rows, inputs.len() as u64);
    }
}

#[test]
fn links_are_files_and_sidecars_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let set = dir.path().join("in/deeper");
    fs::create_dir_all(&set).unwrap();
    for name in ["b.tfrecord", "a"] {
        write_file(&set.join(name), &[name.into()], Compression::None);
    }
    for name in ["features.json", "a.idx", "README.md", ".hidden", "_part"] {
        fs::write(set.join(name), "no records").unwrap();
    }
    symlink("b.tfrecord", set.join("c.tfrecord")).unwrap();
    // A link back holds nothing new; another directory is one of its own.
    symlink(dir.path().join("in"), set.join("loop")).unwrap();
    symlink("deeper", dir.path().join("in/too")).unwrap();
    let input = dir.path().join("in");
    let out = dir.path().join("out");
    reshard(from_ref(&input), &out, &RewriteOptions::default(), &Progress::default()).unwrap();
    let once = [b"a".to_vec(), b"b.tfrecord".to_vec(), b"b.tfrecord".to_vec()];
    assert_eq!(payloads(&out), [once.clone(), once].concat());
    assert_eq!(verify(from_ref(&input), &Progress::default()).unwrap().records, 6);

    symlink("nowhere/d", set.join("d.tfrecord")).unwrap();
    symlink("nowhere/README.md", set.join("LICENSE.md")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let error = refusal(from_ref(&input), &elsewhere.path().join("none"));
    assert!(error.to_string().contains("d.tfrecord"), "{error}");
    let findings = verify(from_ref(&input), &Progress::default()).unwrap().findings;
    assert!(findings.iter().all(|finding| finding.path.ends_with("d.tfrecord")), "{findings:?}");

    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join("features.json"), "no records").unwrap();
    let error = refusal(from_ref(&empty), &dir.path().join("none"));
    assert!(matches!(error.kind(), ErrorKind::NoFiles { .. }), "{error}");
    assert!(matches!(verify(&[empty], &Progress::default()).unwrap_err().kind(), ErrorKind::NoFiles { .. }));
    let error = refusal(&[dir.path().join("nowhere")], &dir.path().join("none"));
    assert!(error.to_string().ends_with("nowhere: cannot open"), "{error}");
}

#[test]
fn files_in_directories_named_like_sidecars_or_hidden_columns_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["_id=7/a.tfrecord", "labels.json/b.tfrecord", "_temporary/c.tfrecord", ".id=7/d.tfrecord"];
    for name in names.map(|name| dir.path().join(name)) {
        fs::create_dir(name.parent().unwrap()).unwrap();
        write_file(&name, &[b"x".to_vec()], Compression::None);
    }
    let (found, findings) = files(&[dir.path()]).unwrap();
    assert_eq!(found, names[..2].iter().map(|name| dir.path().join(name)).collect::<Vec<_>>());
    assert_eq!(findings.len(), 0, "{findings:?}");
}

#[test]
fn reshard_rejects_an_input_specified_twice() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir(&input).unwrap();
    let file = input.join("a.tfrecord");
    write_file(&file, &[b"a".to_vec()], Compression::None);
    let out = dir.path().join("out");
    let other = dir.path().join("in/../in/a.tfrecord");
    for (inputs, named) in [
        ([&file, &file], &file),
        ([&file, &other], &other),
        ([&input, &file], &file),
        ([&file, &input], &file),
        ([&input, &input], &input),
    ] {
        let inputs = inputs.map(Clone::clone);
        let error = refusal(&inputs, &out);
        assert!(matches!(error.kind(), ErrorKind::Twice { path } if path == named), "{error}");
        let error = salvage(&inputs, &out, &RewriteOptions::default(), &Progress::default()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Twice { .. }), "{error}");
        // To look twice at a file tells nothing new.
        assert_eq!(verify(&inputs, &Progress::default()).unwrap().records, 1);
    }
}

#[test]
fn tools_reject_pipes_sockets_and_devices_before_opening() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    for (path, what) in
        [(pipe.clone(), "a pipe"), (dir.path().join("socket"), "a socket"), ("/dev/null".into(), "a device")]
    {
        let (paths, progress) = (from_ref(&path), Progress::default());
        for error in [
            verify(paths, &progress).unwrap_err(),
            index(paths, IndexName::Idx, &progress).unwrap_err(),
            salvage(paths, &out, &RewriteOptions::default(), &progress).unwrap_err(),
            reshard(paths, &out, &RewriteOptions::default(), &progress).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), format!("{}: expected a file or a directory, found {what}", path.display()));
        }
    }
    // In the place of a shard, and of a manifest.
    let set = dir.path().join("set");
    let manifest = write_set(&set, 0..10, count(1), Compression::None);
    for name in [manifest.shards[0].path.as_str(), "_manifest.json"] {
        let path = set.join(name);
        fs::remove_file(&path).unwrap();
        fs::rename(&pipe, &path).unwrap();
        let error = reshard(from_ref(&set), &out, &RewriteOptions::default(), &Progress::default()).unwrap_err();
        assert!(error.to_string().ends_with("found a pipe"), "{error}");
        let findings = verify(from_ref(&set), &Progress::default()).unwrap().findings;
        assert!(findings[0].to_string().ends_with("found a pipe"), "{findings:?}");
        fs::rename(&path, &pipe).unwrap();
    }
}

#[test]
fn a_manifest_whose_types_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (set, out) = (dir.path().join("set"), dir.path().join("out"));
    write_set(&set, 0..10, count(1), Compression::None);
    let path = set.join("_manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    manifest["schema"]["ipc"] = "AAAA".into();
    fs::write(&path, manifest.to_string()).unwrap();
    let findings = verify(from_ref(&set), &Progress::default()).unwrap().findings;
    // The types, and that the manifest was changed.
    assert_eq!(findings.len(), 2);
    assert!(findings.iter().all(|finding| finding.path == path || finding.to_string().contains("ipc")), "{findings:?}");
    assert!(findings[0].to_string().starts_with(&path.display().to_string()), "{}", findings[0]);
    assert!(matches!(refusal(from_ref(&set), &out).kind(), ErrorKind::NotWhole(_)));
    manifest.as_object_mut().unwrap().remove("manifest_crc32c");
    fs::write(&path, manifest.to_string()).unwrap();
    let error = refusal(from_ref(&set), &out);
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
}
