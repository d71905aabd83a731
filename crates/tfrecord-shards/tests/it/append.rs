//! Runs that append to a set, and what they and others leave.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use arrow_array::RecordBatch;
use tfrecord_shards::{
    Capabilities, ErrorKind, LocalCommit, Preflight, Progress, RewriteOptions, RunId, SaveMode, SetState,
    ShardedWriterBuilder, Step, check, leftovers, preflight, remove_leftovers, reshard, verify,
};

use crate::support::{
    IN_PLACE, SET, begin, copy_all, count, describe, describe_grouped, files, ids, names, payloads, stage,
    stage_grouped, whole, write, write_grouped, write_set,
};

fn append(out: &Path, tag: &str, capabilities: Capabilities) -> tfrecord_shards::Result<tfrecord_shards::Manifest> {
    let commit = begin(out, SaveMode::Append, capabilities)?;
    let shards = stage(&commit, tag);
    commit.publish(shards, describe(tag))
}

#[test]
fn append_names_shards_after_the_run() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        write(&out, SaveMode::Error, "a").unwrap();
        let before = files(&out);
        let manifest = append(&out, "b", capabilities).unwrap();
        assert_eq!(whole(&out).as_deref(), Some("a+b"));
        let run = manifest.last_run();
        let added = [0, 1].map(|n| format!("part-{run}-0000{n}-of-00002.tfrecord"));
        let expected: Vec<_> = SET.iter().copied().chain(added.iter().map(String::as_str)).collect();
        assert_eq!(names(&out), expected);
        for name in SET.iter().filter(|name| **name != "_manifest.json") {
            assert_eq!(files(&out)[*name], before[*name]);
        }
        // As before a third time, and in its order.
        append(&out, "c", capabilities).unwrap();
        assert_eq!(whole(&out).as_deref(), Some("a+b+c"));
        assert_eq!(payloads(&out).len(), 60);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(verify(&[out], &Progress::default()).unwrap().findings.is_empty());
    }
}

/// A network file system takes a manifest that is open by its name away before it replaces it, so that there would be none if
/// that failed. So it is locked by another name, which is closed before the directory that it is in is removed.
#[cfg(target_os = "linux")]
#[test]
fn append_closes_the_manifest_before_replacing_it() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let out = dir.join("shards");
        write(&out, SaveMode::Error, "a").unwrap();
        let commit = begin(&out, SaveMode::Append, capabilities).unwrap();
        let shards = stage(&commit, "b");
        let manifest = out.join("_manifest.json");
        let mut replaced = false;
        let observe = &mut |step: &Step| {
            let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
            let open: Vec<_> = open.filter(|path| path.starts_with(&dir)).collect();
            assert!(!open.contains(&manifest), "{step}: {open:?}");
            if *step == Step::ReplaceManifest {
                replaced = true;
                let other = fs::File::open(&manifest).unwrap();
                assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)), "the set is locked");
                assert!(open.iter().any(|path| path.to_string_lossy().contains("/.lock.")), "{open:?}");
            }
        };
        commit.publish_observed(shards, describe("b"), observe).unwrap();
        assert!(replaced);
        assert_eq!(whole(&out).as_deref(), Some("a+b"));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }
}

#[test]
fn append_adds_partition_directories() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        write_grouped(&out, SaveMode::Error, "a", ["1", "2"]).unwrap();
        let commit = begin(&out, SaveMode::Append, capabilities).unwrap();
        let shards = stage_grouped(&commit, "b", ["2", "3"]);
        let manifest = commit.publish(shards, describe_grouped("b")).unwrap();
        assert_eq!(whole(&out).as_deref(), Some("a+b"));
        let run = manifest.last_run();
        let paths: Vec<_> = manifest.shards[3..].iter().map(|shard| shard.path.clone()).collect();
        assert_eq!(
            paths,
            [
                format!("dt=2/train-{run}-00000-of-00001.tfrecord"),
                format!("dt=3/train-{run}-00000-of-00001.tfrecord"),
                format!("dt=3/eval-{run}-00000-of-00001.tfrecord"),
            ]
        );
        // All of it goes when it is replaced.
        write(&out, SaveMode::Overwrite, "c").unwrap();
        assert_eq!(names(&out), SET);
    }
}

#[test]
fn append_to_nothing_writes_a_set() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        for there in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("shards");
            if there {
                fs::create_dir(&out).unwrap();
            }
            assert_eq!(preflight(&out, SaveMode::Append, &[]).unwrap(), Preflight::Write);
            append(&out, "a", capabilities).unwrap();
            assert_eq!(whole(&out).as_deref(), Some("a"));
            assert_eq!(names(dir.path()).len(), SET.len() + 1);
        }
    }
}

#[test]
fn append_rejects_incomplete_set() {
    let refused = |out: &Path, expected: &str| {
        let before = files(out);
        let error = preflight(out, SaveMode::Append, &[]).unwrap_err();
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::NotAppendable { .. } | ErrorKind::ForeignFiles { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        for capabilities in [Capabilities::ALL, IN_PLACE] {
            assert_eq!(append(out, "b", capabilities).unwrap_err().to_string(), error.to_string());
        }
        assert_eq!(files(out), before);
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "a").unwrap();
    fs::rename(out.join(SET[2]), dir.path().join("kept")).unwrap();
    refused(&out, "not appended to: the set is not complete: part-00000-of-00002.tfrecord is missing");
    fs::rename(dir.path().join("kept"), out.join(SET[2])).unwrap();
    fs::remove_file(out.join("_SUCCESS")).unwrap();
    refused(&out, "the set is not complete: _SUCCESS is missing");
    fs::remove_file(out.join("_manifest.json")).unwrap();
    refused(&out, "files written by other tools: part-00000-of-00002.tfrecord, part-00001-of-00002.tfrecord");
}

#[test]
fn append_keeps_files_of_other_tools() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "a").unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    append(&out, "b", Capabilities::ALL).unwrap();
    assert_eq!(whole(&out).as_deref(), Some("a+b"));
    assert_eq!(fs::read(out.join("notes.txt")).unwrap(), b"mine");
}

#[test]
fn append_rejects_a_run_id_used_before() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let run: RunId = "nightly7".parse().unwrap();
    for mode in [SaveMode::Error, SaveMode::Append] {
        let begun = LocalCommit::begin(&out, mode, run.clone(), &[]);
        if mode == SaveMode::Error {
            let commit = begun.unwrap();
            let shards = stage(&commit, "a");
            commit.publish(shards, describe("a")).unwrap();
        } else {
            let error = begun.unwrap_err();
            assert!(error.to_string().ends_with("run nightly7 has written shards of it before"), "{error}");
        }
    }
    assert_eq!(names(dir.path()).len(), SET.len() + 1);
}

#[test]
fn concurrent_appends_supersede_the_slower_one() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        for mode in [SaveMode::Append, SaveMode::Overwrite] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("shards");
            write(&out, SaveMode::Error, "a").unwrap();
            // The other one is beside: of two inside only one would begin.
            let slow = begin(&out, SaveMode::Append, Capabilities::ALL).unwrap();
            let quick = begin(&out, mode, capabilities).unwrap();
            let staged = [stage(&slow, "slow"), stage(&quick, "quick")];
            let [of_slow, of_quick] = staged;
            quick.publish(of_quick, describe("quick")).unwrap();
            let before = files(&out);
            let error = slow.publish(of_slow, describe("slow")).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Superseded { .. }), "{error}");
            assert_eq!(files(&out), before);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}

/// Who asked for a set to be replaced did not know of the rows that were added meanwhile.
#[test]
fn overwrite_does_not_replace_a_set_that_has_grown() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        write(&out, SaveMode::Error, "a").unwrap();
        let appending = begin(&out, SaveMode::Append, Capabilities::ALL).unwrap();
        let added = stage(&appending, "b");
        let commit = begin(&out, SaveMode::Overwrite, capabilities).unwrap();
        let shards = stage(&commit, "c");
        if capabilities.beside {
            appending.publish(added, describe("b")).unwrap();
            let error = commit.publish(shards, describe("c")).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Superseded { .. }), "{error}");
            assert_eq!(whole(&out).as_deref(), Some("a+b"));
        } else {
            // Where the other one is in the target, it has it to itself.
            let error = appending.publish(added, describe("b")).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Busy { .. }), "{error}");
            commit.publish(shards, describe("c")).unwrap();
            assert_eq!(whole(&out).as_deref(), Some("c"));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

/// Threads that wait for each other's locks.
#[test]
fn concurrent_appends_let_exactly_one_succeed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "a").unwrap();
    const RUNS: usize = 8;
    let barrier = Barrier::new(RUNS);
    let run = || {
        let commit = begin(&out, SaveMode::Append, Capabilities::ALL).unwrap();
        let shards = stage(&commit, "b");
        barrier.wait();
        commit.publish(shards, describe("b"))
    };
    let results: Vec<_> = thread::scope(|scope| {
        let runs: Vec<_> = (0..RUNS).map(|_| scope.spawn(run)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.into_iter().filter_map(Result::err) {
        assert!(matches!(error.kind(), ErrorKind::Superseded { .. }), "{error}");
    }
    assert_eq!(whole(&out).as_deref(), Some("a+b"));
    assert_eq!(names(&out).len(), SET.len() + 2);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// What a run has left that was killed when it had brought its shards: staged like it, moved, and not published.
fn killed_run(out: &Path, capabilities: Capabilities, run: &RunId) {
    let commit = LocalCommit::begin_with(out, SaveMode::Append, run.clone(), &[], capabilities).unwrap();
    let shards = stage_grouped(&commit, "killed", ["2", "3"]);
    let kept = out.parent().unwrap().join("kept");
    let staging = if capabilities.beside { out.parent().unwrap() } else { out };
    let staging = fs::read_dir(staging).unwrap().map(|entry| entry.unwrap().path());
    let staging = staging.into_iter().find(|path| path.to_string_lossy().contains(".tfr-")).unwrap();
    let mut is_kept = false;
    let published = commit.publish_observed(shards, describe_grouped("killed"), &mut |step| {
        if step.to_string() == "replace the manifest" {
            // Everything as it is at this moment is put aside.
            fs::create_dir(&kept).unwrap();
            copy_all(out, &kept.join("out"));
            copy_all(&staging, &kept.join("staging"));
            is_kept = true;
            fs::remove_file(staging.join("_manifest.json")).unwrap();
        }
    });
    assert!(is_kept && published.is_err());
    fs::remove_dir_all(out).unwrap();
    fs::rename(kept.join("out"), out).unwrap();
    if capabilities.beside {
        fs::rename(kept.join("staging"), &staging).unwrap();
    }
    fs::remove_dir_all(kept).unwrap();
}

#[test]
fn append_leftovers_of_a_killed_run_are_reported_and_removed() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        for run in [RunId::new(), "nightly7".parse().unwrap()] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("shards");
            write_grouped(&out, SaveMode::Error, "a", ["1", "2"]).unwrap();
            let before = files(&out);
            killed_run(&out, capabilities, &run);
            assert_eq!(whole(&out).as_deref(), Some("a"));

            let left = leftovers(&out).unwrap();
            assert_eq!(left.len(), 4, "{left:?}");
            assert!(left.iter().all(|leftover| leftover.run == run.as_str() && !leftover.live), "{left:?}");
            let shown = verify(std::slice::from_ref(&out), &Progress::default()).unwrap().findings;
            let killed = shown.iter().filter(|finding| finding.to_string().ends_with("which was killed"));
            assert_eq!((killed.count(), shown.len()), (4, 4), "{shown:?}");

            let result = remove_leftovers(&out).unwrap();
            assert_eq!((result.removed, result.kept), (left, Vec::new()));
            assert_eq!(files(&out), before);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
            assert_eq!(leftovers(&out).unwrap(), []);

            // Or the next run that replaces the set takes it away; one that appends does not mind.
            killed_run(&out, capabilities, &run);
            write_grouped(&out, SaveMode::Append, "b", ["3", "4"]).unwrap();
            assert_eq!(whole(&out).as_deref(), Some("a+b"));
            let commit = begin(&out, SaveMode::Overwrite, capabilities).unwrap();
            let shards = stage(&commit, "c");
            commit.publish(shards, describe("c")).unwrap();
            assert_eq!(names(&out), SET);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}

#[test]
fn append_in_progress_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "a").unwrap();
    let commit = begin(&out, SaveMode::Append, Capabilities::ALL).unwrap();
    let shards = stage(&commit, "b");
    let result = remove_leftovers(&out).unwrap();
    assert_eq!((result.removed.len(), result.kept.len()), (0, 1));
    commit.publish(shards, describe("b")).unwrap();
    assert_eq!(whole(&out).as_deref(), Some("a+b"));
}

/// A set that was moved aside is the only copy.
#[test]
fn a_set_that_was_moved_aside_is_not_removed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "a").unwrap();
    let aside = dir.path().join(format!(".tfr-{}.replaced-shards", RunId::new()));
    fs::rename(&out, &aside).unwrap();
    let error = begin(&out, SaveMode::Append, Capabilities::ALL).unwrap_err();
    assert!(error.to_string().contains("has left that in"), "{error}");
    let result = remove_leftovers(&out).unwrap();
    assert_eq!((result.removed.len(), result.kept.len()), (0, 1));
    assert_eq!(whole(&aside).as_deref(), Some("a"));
    write(&out, SaveMode::Error, "b").unwrap();
    assert_eq!(remove_leftovers(&out).unwrap().removed.len(), 1);
    assert!(!aside.exists());
}

#[test]
fn append_rejects_other_format() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write_set(&out, 0..4, count(2), tfrecord_framing::Compression::None);
    let before = files(dir.path());
    let other = RecordBatch::try_from_iter([("name", ids([1]).column(0).clone())]).unwrap();
    let error = ShardedWriterBuilder::new(other.schema()).with_mode(SaveMode::Append).build(&out).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OtherForm { .. }), "{error}");
    // And at the end of those that ask late.
    let commit = begin(&out, SaveMode::Append, Capabilities::ALL).unwrap();
    assert!(commit.current().is_some());
    let shards = stage(&commit, "b");
    let error = commit.publish(shards, describe_grouped("b")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OtherForm { .. }), "{error}");
    assert_eq!(files(dir.path()), before);
}

#[test]
fn sharded_writer_appends() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    for (values, rows) in [(0..4, 4), (4..9, 9)] {
        let batch = ids(values);
        let mut writer = ShardedWriterBuilder::new(batch.schema()).with_mode(SaveMode::Append).build(&out).unwrap();
        writer.write(&batch).unwrap();
        assert_eq!(writer.finish().unwrap().totals.rows, rows);
    }
    let SetState::Whole(manifest) = check(&out).unwrap() else { panic!("not whole") };
    assert_eq!((manifest.shards.len(), manifest.appended.len()), (2, 1));
    // So does a run that moves records as they stand.
    let more = dir.path().join("more");
    write_set(&more, 9..12, count(1), tfrecord_framing::Compression::None);
    let mut options = RewriteOptions::default();
    options.mode = SaveMode::Append;
    let manifest = reshard(&[more], &out, &options, &Progress::default()).unwrap().manifest;
    assert_eq!(manifest.totals.rows, 12);
    let expected = write_set(&dir.path().join("all"), 0..12, count(1), tfrecord_framing::Compression::None);
    assert_eq!(payloads(&out), payloads(&dir.path().join("all")));
    assert_eq!(manifest.totals.framed_bytes, expected.totals.framed_bytes);
}

#[test]
fn ignore_mode_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let builder = ShardedWriterBuilder::new(ids([]).schema()).with_mode(SaveMode::Ignore);
    builder.clone().build_or_ignore(&out).unwrap().unwrap().finish().unwrap();
    let before = files(dir.path());
    assert!(builder.clone().build_or_ignore(&out).unwrap().is_none());
    let Preflight::Ignore { found } = preflight(&out, SaveMode::Ignore, &[]).unwrap() else { panic!("not ignored") };
    assert_eq!(found, ["part-00000-of-00001.tfrecord", "_SUCCESS", "_manifest.json"]);
    let error = begin(&out, SaveMode::Ignore, Capabilities::ALL).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotEmpty { .. }), "{error}");
    assert_eq!(files(dir.path()), before);
    // An empty directory is nothing.
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(builder.build_or_ignore(&empty).unwrap().is_some());
}
