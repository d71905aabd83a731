//! Shards in the directories of partitions, and in splits.

use std::fs;
use std::sync::Arc;

use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{
    Capabilities, ErrorKind, OpenShards, Progress, SaveMode, SetState, ShardGroup, ShardPlace, StagedShard, check,
    verify,
};

use crate::support::{
    IN_PLACE, SET, begin, describe_grouped, encode, files, group, ids, names, stage_grouped, stage_shard, whole, write,
    write_grouped,
};

const TWO_RENAMES: Capabilities = Capabilities { beside: true, exchange: false };

#[test]
fn groups_number_shards_in_each_directory() {
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let commit = begin(&out, SaveMode::Error, capabilities).unwrap();
        let shards = stage_grouped(&commit, "new", ["2026-01-01", "a/b c"]);
        let manifest = commit.publish(shards, describe_grouped("new")).unwrap();
        assert_eq!(
            names(&out),
            [
                "_SUCCESS",
                "_manifest.json",
                "dt=2026-01-01/",
                "dt=2026-01-01/train-00000-of-00001.tfrecord",
                "dt=a%2Fb c/",
                "dt=a%2Fb c/eval-00000-of-00001.tfrecord",
                "dt=a%2Fb c/train-00000-of-00001.tfrecord",
            ]
        );
        let SetState::Whole(found) = check(&out).unwrap() else { panic!("not whole") };
        assert_eq!(*found, manifest);
        assert_eq!(manifest.shards[2].partition_values["dt"].as_deref(), Some("a/b c"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // One file of it that is named itself is compared with the manifest, too.
        let one = out.join(&manifest.shards[0].path);
        assert!(verify(std::slice::from_ref(&one), &Progress::default()).unwrap().findings.is_empty());
        let cut = fs::read(&one).unwrap();
        fs::write(&one, &cut[..cut.len() / 10]).unwrap();
        let findings = verify(&[one], &Progress::default()).unwrap().findings;
        assert!(findings.iter().any(|finding| finding.to_string().contains("_manifest.json")), "{findings:?}");
    }
}

/// A shard is opened where it stands in the set, so that an upload would have its name.
#[test]
fn groups_of_open_shards_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    let records = encode(&ids(0..4));
    let mut staged = Vec::new();
    let mut open = OpenShards::new(Arc::new(commit.clone()), 0, (Compression::None, Level::default()));
    for (shard, dt) in ["b", "a"].into_iter().enumerate() {
        let group = group(dt, "train");
        open.open_at(shard, ShardPlace { group: &group, index: 0, total: 1 }).unwrap();
        open.append(&records, &[tfrecord_shards::Piece { shard, records: shard..shard + 2 }]).unwrap();
        staged.extend(open.take_before(usize::MAX).into_iter().filter_map(|shard| shard.seal().unwrap()));
    }
    assert_eq!(staged[1].group, group("a", "train"));
    let manifest = commit.publish(staged, describe_grouped("new")).unwrap();
    let paths: Vec<_> = manifest.shards.iter().map(|shard| shard.path.as_str()).collect();
    assert_eq!(paths, ["dt=a/train-00000-of-00001.tfrecord", "dt=b/train-00000-of-00001.tfrecord"]);
    assert_eq!(fs::read(out.join(paths[0])).unwrap(), records.slice(1..3));
}

#[test]
fn overwrite_removes_directories_of_the_replaced_set() {
    for capabilities in [Capabilities::ALL, TWO_RENAMES, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        write_grouped(&out, SaveMode::Error, "old", ["1", "2"]).unwrap();
        // What a killed run has left: nobody's directory.
        fs::create_dir(out.join("dt=9")).unwrap();
        let commit = begin(&out, SaveMode::Overwrite, capabilities).unwrap();
        let shards = stage_grouped(&commit, "new", ["2", "3"]);
        commit.publish(shards, describe_grouped("new")).unwrap();
        assert_eq!(whole(&out).as_deref(), Some("new"));
        let directories: Vec<_> = names(&out).into_iter().filter(|name| name.ends_with('/')).collect();
        assert_eq!(directories, ["dt=2/", "dt=3/"], "{capabilities:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // And a set without directories in its place.
        let commit = begin(&out, SaveMode::Overwrite, capabilities).unwrap();
        drop(commit);
        write(&out, SaveMode::Overwrite, "flat").unwrap();
        assert!(names(&out).iter().all(|name| !name.ends_with('/')), "{:?}", names(&out));
    }
}

#[test]
fn overwrite_rejects_directories_with_files_of_other_tools() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write_grouped(&out, SaveMode::Error, "old", ["1", "2"]).unwrap();
    fs::write(out.join("dt=1/notes.txt"), "mine").unwrap();
    fs::create_dir_all(out.join("dt=7/mine")).unwrap();
    let before = files(dir.path());
    for capabilities in [Capabilities::ALL, TWO_RENAMES, IN_PLACE] {
        let error = begin(&out, SaveMode::Overwrite, capabilities).unwrap_err();
        assert!(error.to_string().ends_with("written by other tools: dt=1/notes.txt, dt=7/mine/"), "{error}");
    }
    assert_eq!(files(dir.path()), before);
    // What comes while the set is replaced survives, too.
    fs::remove_file(out.join("dt=1/notes.txt")).unwrap();
    fs::remove_dir_all(out.join("dt=7")).unwrap();
    let commit = begin(&out, SaveMode::Overwrite, TWO_RENAMES).unwrap();
    let shards = stage_grouped(&commit, "new", ["2", "3"]);
    let late = out.join("dt=1/late.txt");
    let mut steps = 0;
    commit
        .publish_observed(shards, describe_grouped("new"), &mut |step| {
            if step.to_string().starts_with("move target") {
                fs::write(&late, "mine").unwrap();
                steps += 1;
            }
        })
        .unwrap();
    assert_eq!(steps, 1);
    assert!(names(dir.path()).iter().any(|name| name.ends_with("/dt=1/late.txt")), "{:?}", names(dir.path()));
    assert_eq!(whole(&out).as_deref(), Some("new"));
}

/// Directories of another kind are nobody's, whatever they are called, as long as there is no set.
#[test]
fn directories_without_a_set_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    fs::create_dir_all(out.join("dt=1")).unwrap();
    for mode in [SaveMode::Error, SaveMode::Overwrite] {
        let error = begin(&out, mode, Capabilities::ALL).unwrap_err();
        assert!(error.to_string().ends_with("dt=1/"), "{error}");
    }
}

#[test]
fn groups_that_share_a_directory_have_distinct_shards() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    // Empty text is null.
    let null = ShardGroup { partition_values: vec![("dt".to_owned(), None)], ..group("", "train") };
    let stage = |n, group| stage_shard(&commit, "x", n, group);
    let shards: Vec<StagedShard> = vec![stage(0, group("", "train")), stage(1, null), stage(2, group("", "train"))];
    let manifest = commit.publish(shards, describe_grouped("x")).unwrap();
    let paths: Vec<_> = manifest.shards.iter().map(|shard| shard.path.as_str()).collect();
    assert_eq!(paths[2], "dt=__HIVE_DEFAULT_PARTITION__/train-00002-of-00003.tfrecord");
    assert_eq!(whole(&out).as_deref(), Some("x"));
}

#[test]
fn groups_reject_long_directory_names_before_writing() {
    let dir = tempfile::tempdir().unwrap();
    let commit = begin(&dir.path().join("shards"), SaveMode::Error, Capabilities::ALL).unwrap();
    let error = commit.create_shard_in(0, 0, group(&"x".repeat(300), "train")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LongName { limit: 255, .. }), "{error}");
}

/// A run that cannot make its directories leaves none.
#[test]
fn directories_of_a_failed_run_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write_grouped(&out, SaveMode::Error, "old", ["1", "2"]).unwrap();
    let before = files(&out);
    for capabilities in [Capabilities::ALL, IN_PLACE] {
        let commit = begin(&out, SaveMode::Append, capabilities).unwrap();
        let shards = stage_grouped(&commit, "new", ["2", "3"]);
        let manifest = out.join("_manifest.json");
        let error = commit
            .publish_observed(shards, describe_grouped("new"), &mut |step| {
                if step.to_string().starts_with("sync dt=2, dt=3 in target") {
                    // Somebody makes it unreadable at that moment.
                    fs::write(&manifest, "{").unwrap();
                }
            })
            .unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ManifestSyntax { .. }), "{error}");
        fs::write(&manifest, &before["_manifest.json"]).unwrap();
        assert_eq!(files(&out), before, "{capabilities:?}");
    }
}

/// As many as a table has that is partitioned by day and hour.
#[test]
fn thousands_of_directories_are_published_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Error, Capabilities::ALL).unwrap();
    let groups = (0..1000).map(|n| group(&format!("{n:04}"), "train"));
    let shards = groups.zip(0..).map(|(group, n)| stage_shard(&commit, "many", n, group)).collect();
    let manifest = commit.publish(shards, describe_grouped("many")).unwrap();
    assert_eq!(manifest.shards[999].path, "dt=0999/train-00000-of-00001.tfrecord");
    assert_eq!(whole(&out).as_deref(), Some("many"));
    write(&out, SaveMode::Overwrite, "few").unwrap();
    assert_eq!(names(&out), SET);
}
