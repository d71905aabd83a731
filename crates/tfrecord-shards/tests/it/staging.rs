//! The staging directory: many tasks, open shards, locks, leftovers.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{
    Capabilities, ErrorKind, LocalCommit, RunId, SaveMode, SetState, ShardStats, ShardWriter, Step, check, leftovers,
};

use crate::support::{IN_PLACE, SET, begin, describe, encode, ids, names, stage, whole, write};

#[test]
fn many_threads_fill_one_set() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    let stage = |partition: u32| {
        let commit = commit.clone();
        move || {
            let stage = |sequence| {
                let records = encode(&ids([i64::from(partition), i64::from(sequence)]));
                let file = commit.create_shard(partition, sequence).unwrap();
                let mut shard = ShardWriter::new(file, (Compression::None, Level::default()));
                shard.append(&records, 0..2).unwrap();
                let (file, stats) = shard.finish().unwrap();
                file.seal(stats).unwrap()
            };
            (0..5).map(stage).collect::<Vec<_>>()
        }
    };
    let tasks: Vec<_> = (0..8).rev().map(|partition| thread::spawn(stage(partition))).collect();
    let shards = tasks.into_iter().flat_map(|task| task.join().unwrap()).collect();
    let manifest = commit.publish(shards, describe("all")).unwrap();
    assert_eq!(manifest.totals.rows, 80);
    let of_partition_1 = encode(&ids([1, 2])).bytes().to_vec();
    assert_eq!(fs::read(out.join(&manifest.shards[7].path)).unwrap(), of_partition_1);
}

#[test]
fn staging_directory_exists_while_a_shard_is_open() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let commit = begin(&dir.path().join("shards"), SaveMode::Error, capabilities).unwrap();
        let mut shard = commit.create_shard(0, 0).unwrap();
        let other = commit.clone();
        let removal = commit.abort();
        assert!(matches!(other.create_shard(0, 1).unwrap_err().kind(), ErrorKind::Ended));
        drop(other);
        assert!(!removal.wait(Duration::ZERO));
        assert!(shard.path().exists());
        shard.write_all(b"late").unwrap();
        let waiting = thread::spawn(move || removal.wait(Duration::from_secs(60)));
        drop(shard);
        assert!(waiting.join().unwrap());
        assert_eq!(names(dir.path()), [""; 0]);
    }
}

#[test]
fn dropped_commit_removes_the_parents_it_created() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/for/shards");
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    stage(&commit, "new");
    assert!(out.parent().unwrap().is_dir());
    drop(commit);
    assert_eq!(names(dir.path()), [""; 0]);

    write(&out, SaveMode::Error, "new").unwrap();
    assert_eq!(whole(&out).as_deref(), Some("new"));
}

#[test]
fn a_set_with_an_open_shard_is_not_published() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    let shards = stage(&commit, "new");
    let open = commit.create_shard(1, 0).unwrap();
    let error = commit.clone().publish(shards.clone(), describe("new")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OpenShards { count: 1 }), "{error}");
    drop(open);
    commit.clone().publish(shards.clone(), describe("new")).unwrap();
    let again = commit.publish(shards, describe("new")).unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::Ended), "{again}");
    assert_eq!(names(&out), SET);
}

#[test]
fn a_shard_of_another_length_than_counted_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    let mut file = commit.create_shard(0, 0).unwrap();
    file.write_all(b"five!").unwrap();
    let counted = ShardStats { file_bytes: 4, ..ShardStats::default() };
    let error = file.seal(counted).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ShardLength { expected: 4, found: 5, .. }), "{error}");

    let mut shards = stage(&begin(&out, SaveMode::Error, Capabilities::ALL).unwrap(), "x");
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    let staged = stage(&commit, "new");
    shards.clone_from(&staged);
    shards[0].file_bytes += 1;
    let error = commit.publish(shards, describe("new")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ShardLength { .. }), "{error}");
}

/// A cleaner of temporary names cuts or removes what is about to be published.
#[test]
fn publish_detects_changes_to_staged_files() {
    let harms: [fn(&Path); 2] = [|path| fs::write(path, "cut").unwrap(), |path| fs::remove_file(path).unwrap()];
    for harm in harms {
        for name in ["part-00001-of-00002.tfrecord", "_manifest.json"] {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("shards");
            let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
            let shards = stage(&commit, "new");
            let staging = dir.path().join(format!(".tfr-{}-shards", commit.run()));
            let observe = &mut |step: &Step| {
                if *step == Step::Lock {
                    harm(&staging.join(name));
                }
            };
            let error = commit.publish_observed(shards, describe("new"), observe).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::ShardLength { .. } | ErrorKind::Io { .. }), "{name}: {error}");
            assert!(!out.exists(), "{name}");
        }
    }
}

/// A network file system renames a file that is removed while it is open: its directory then stays, or the set is without a
/// manifest if the replacement fails. Nothing that the run still removes counts as left by a killed run.
#[cfg(target_os = "linux")]
#[test]
fn replaced_manifest_is_closed_before_it_is_removed() {
    use std::os::unix::fs::MetadataExt as _;
    let two_renames = Capabilities { exchange: false, ..Capabilities::ALL };
    for (mode, capabilities) in [
        (SaveMode::Overwrite, Capabilities::ALL),
        (SaveMode::Overwrite, two_renames),
        (SaveMode::Overwrite, IN_PLACE),
        (SaveMode::Append, Capabilities::ALL),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().canonicalize().unwrap().join("shards");
        write(&out, SaveMode::Error, "old").unwrap();
        let manifest = out.join("_manifest.json");
        let id = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        let old = id(&manifest);
        let open = || fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        let commit = begin(&out, mode, capabilities).unwrap();
        let shards = stage(&commit, "new");
        let (mut removals, mut is_locked) = (0, false);
        let observe = &mut |step: &Step| match step {
            Step::ReplaceManifest => {
                removals += 1;
                is_locked |= open().any(|file| id(&file) == old);
                assert!(!open().any(|file| fs::read_link(file).is_ok_and(|path| path == manifest)), "{mode:?}");
            }
            Step::RemoveFiles { .. } | Step::RemoveStaging if mode == SaveMode::Overwrite => {
                removals += 1;
                assert!(!open().any(|file| id(&file) == old), "{capabilities:?}: {step:?}");
                assert!(leftovers(&out).unwrap().iter().all(|left| left.live), "{capabilities:?}: {step:?}");
            }
            _ => is_locked |= open().any(|file| id(&file) == old),
        };
        commit.publish_observed(shards, describe("new"), observe).unwrap();
        assert!(removals > 0 && is_locked, "{mode:?}, {capabilities:?}");
    }
}

#[test]
fn the_same_shard_is_not_created_twice() {
    let dir = tempfile::tempdir().unwrap();
    let commit = begin(&dir.path().join("shards"), SaveMode::Error, Capabilities::ALL).unwrap();
    let _first = commit.create_shard(3, 4).unwrap();
    let error = commit.create_shard(3, 4).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Io { action: "create", .. }), "{error}");
}

#[test]
fn leftovers_distinguish_live_runs_from_dead_ones() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let commit = begin(&out, SaveMode::Error, capabilities).unwrap();
        let found = leftovers(&out).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].run.as_str(), found[0].live), (commit.run().as_str(), true));
        drop(commit);
        assert_eq!(leftovers(&out).unwrap(), []);
    }
}

#[test]
fn leftovers_exclude_other_targets() {
    let dir = tempfile::tempdir().unwrap();
    let run = RunId::new();
    for name in [format!(".tfr-{run}-b-a"), format!(".tfr-{run}.x-a"), ".tfr--a".to_owned(), format!(".tfr-{run}a")] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::write(dir.path().join(format!(".tfr-{run}-a")), "a file").unwrap();
    assert_eq!(leftovers(dir.path().join("a")).unwrap(), []);
    assert_eq!(leftovers(dir.path().join("b-a")).unwrap().len(), 1);
}

#[test]
fn overwrite_keeps_the_staging_of_live_runs() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let slow = begin(&out, SaveMode::Overwrite, Capabilities::ALL).unwrap();
    let shards = stage(&slow, "slow");
    write(&out, SaveMode::Overwrite, "quick").unwrap();
    assert_eq!(whole(&out).as_deref(), Some("quick"));
    slow.publish(shards, describe("slow")).unwrap();
    assert_eq!(whole(&out).as_deref(), Some("slow"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn target_written_in_place_accepts_one_run_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let first = begin(&out, SaveMode::Overwrite, IN_PLACE).unwrap();
    for capabilities in [IN_PLACE, Capabilities::ALL] {
        let error = begin(&out, SaveMode::Overwrite, capabilities).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Busy { run, .. } if run == first.run().as_str()), "{error}");
    }
    let shards = stage(&first, "first");
    first.publish(shards, describe("first")).unwrap();
    assert_eq!(names(&out), SET);
}

#[test]
fn a_target_that_is_staged_inside_is_not_a_set() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Error, IN_PLACE).unwrap();
    assert!(matches!(check(&out).unwrap(), SetState::Incomplete { .. }));
    drop(commit);
    assert!(matches!(check(&out).unwrap(), SetState::Absent));
}

#[test]
fn run_ids_can_be_given() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = LocalCommit::begin(&out, SaveMode::Error, "nightly7".parse().unwrap(), &[]).unwrap();
    let shards = stage(&commit, "new");
    assert_eq!(commit.publish(shards, describe("new")).unwrap().run, "nightly7");
}
