//! The publication of what tasks in other processes have staged: killed or failed at each of its steps, it is repeated.

use std::fs;
use std::path::Path;
use std::process;

use serde_json::{Value, json};
use tfrecord_shards::{
    AttemptId, Capabilities, ErrorKind, LocalCommit, Manifest, Progress, SaveMode, ShardedWriterBuilder, Sharding,
    SharedStaging, StagedShard, check_prefix, choose_reports, leftovers, verify,
};

use crate::child::{Child, arguments, said};
use crate::support::{IN_PLACE, begin, describe, ids, names, whole, write};

/// A file system whose directories cannot be exchanged, such as NFS.
const NO_EXCHANGE: Capabilities = Capabilities { beside: true, exchange: false };

const EVERYWHERE: [Capabilities; 3] = [Capabilities::ALL, NO_EXCHANGE, IN_PLACE];

const MODES: [SaveMode; 3] = [SaveMode::Error, SaveMode::Overwrite, SaveMode::Append];

/// Two tasks with three shards and indexes each, for a target that holds a set unless the mode is `Error`.
fn staged(out: &Path, mode: SaveMode, capabilities: Capabilities) -> SharedStaging {
    if mode != SaveMode::Error {
        write(out, SaveMode::Error, "old").unwrap();
    }
    let shared = begin(out, mode, capabilities).unwrap().detach().unwrap();
    let builder = ShardedWriterBuilder::new(ids([]).schema()).with_sharding(Sharding::Rows(4)).with_indexes(true);
    for task in 0..2 {
        let mut writer = builder.stage(&shared, task).unwrap();
        writer.write(&ids((0..10).map(|row| row + i64::from(task) * 10))).unwrap();
        writer.finish().unwrap();
    }
    shared
}

fn adopt(commit: &LocalCommit) -> tfrecord_shards::Result<Vec<StagedShard>> {
    commit.adopt(&choose_reports(commit.reports()?, Some(2))?)
}

fn finish(shared: &SharedStaging, mode: SaveMode, capabilities: Capabilities) -> tfrecord_shards::Result<Manifest> {
    if let Some(manifest) = LocalCommit::published(shared)? {
        return Ok(manifest);
    }
    let commit = LocalCommit::resume_with(shared, mode, capabilities)?;
    let shards = adopt(&commit)?;
    commit.publish(shards, describe("new"))
}

/// What a reader finds: nothing, the old set, or the new one.
fn assert_old_or_new(out: &Path, mode: SaveMode, capabilities: Capabilities, step: usize) {
    let found = if out.join("_SUCCESS").exists() { whole(out) } else { None };
    let expected: &[Option<&str>] = match mode {
        SaveMode::Error => &[None, Some("new")],
        SaveMode::Append => &[Some("old"), Some("old+new")],
        // Without an exchange there is a moment between the two.
        _ if !capabilities.exchange || !capabilities.beside => &[None, Some("old"), Some("new")],
        _ => &[Some("old"), Some("new")],
    };
    assert!(expected.contains(&found.as_deref()), "{mode:?}, {capabilities:?}, step {step}: {found:?}");
}

fn assert_finished(dir: &Path, shared: &SharedStaging, mode: SaveMode, capabilities: Capabilities, step: usize) {
    let out = shared.out();
    let manifest = finish(shared, mode, capabilities)
        .unwrap_or_else(|error| panic!("{mode:?}, {capabilities:?}, step {step}: {error} {:?}", names(dir)));
    let (tag, rows) = if mode == SaveMode::Append { ("old+new", 40) } else { ("new", 20) };
    assert_eq!((whole(out).as_deref(), manifest.totals.rows), (Some(tag), rows), "{mode:?}, step {step}");
    assert!(verify(&[out], &Progress::default()).unwrap().findings.is_empty());
    assert_eq!(leftovers(out).unwrap(), [], "{mode:?}, {capabilities:?}, step {step}: {:?}", names(dir));
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "{:?}", names(dir));
    // Once more, it says so.
    assert_eq!(finish(shared, mode, capabilities).unwrap(), manifest);
}

#[test]
fn finish_repeats_a_killed_publication() {
    let everywhere = MODES.into_iter().flat_map(|mode| EVERYWHERE.map(|found| (mode, found)));
    for (number, (mode, capabilities)) in everywhere.enumerate() {
        // Every second step, and the others on the next file system.
        for step in (number % 2..).step_by(2) {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("shards");
            let shared = staged(&out, mode, capabilities);
            let argument = json!({"shared": shared, "mode": mode, "step": step,
                "beside": capabilities.beside, "exchange": capabilities.exchange});
            let output = Child::new("finish::dying_publication", &out, argument.to_string()).run();
            let survived = output.status.success();
            assert!(survived || said(&output).contains("dies"), "{}", said(&output));
            assert_old_or_new(shared.out(), mode, capabilities, step);
            assert_finished(dir.path(), &shared, mode, capabilities, step);
            if survived {
                assert!(step > 15, "{mode:?}, {capabilities:?}: {step} steps");
                break;
            }
        }
    }
}

#[test]
#[ignore = "dies, as the child of another test"]
fn dying_publication() {
    let argument: Value = serde_json::from_str(&arguments().1).unwrap();
    let shared = serde_json::from_value(argument["shared"].clone()).unwrap();
    let mode = serde_json::from_value(argument["mode"].clone()).unwrap();
    let is = |key: &str| argument[key].as_bool().unwrap();
    let capabilities = Capabilities { beside: is("beside"), exchange: is("exchange") };
    let commit = LocalCommit::resume_with(&shared, mode, capabilities).unwrap();
    let last = argument["step"].as_u64().unwrap();
    let mut step = 0;
    let mut die = move || {
        if step == last {
            eprintln!("dies");
            process::abort();
        }
        step += 1;
    };
    die();
    let shards = adopt(&commit).unwrap();
    die();
    commit.publish_observed(shards, describe("new"), &mut |_| die()).unwrap();
}

/// What has been adopted when the process dies is brought back.
#[test]
fn finish_repeats_a_failed_publication() {
    for (mode, capabilities) in MODES.into_iter().flat_map(|mode| EVERYWHERE.map(|found| (mode, found))) {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let shared = staged(&out, mode, capabilities);
        // Dropped before and after shards were adopted.
        drop(LocalCommit::resume_with(&shared, mode, capabilities).unwrap());
        let commit = LocalCommit::resume_with(&shared, mode, capabilities).unwrap();
        adopt(&commit).unwrap();
        drop(commit);
        // The record format differs from what the description says, or the prefix is none.
        let commit = LocalCommit::resume_with(&shared, mode, capabilities).unwrap();
        let shards = adopt(&commit).unwrap();
        let mut description = describe("new");
        description.prefix = "_hidden".to_owned();
        assert!(check_prefix(&description.prefix).is_err());
        let error = commit.publish(shards, description).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Prefix { .. }), "{error}");
        assert_finished(dir.path(), &shared, mode, capabilities, 0);
    }
}

#[test]
fn finish_keeps_staged_shards_if_the_target_is_occupied() {
    for capabilities in EVERYWHERE {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let shared = staged(&out, SaveMode::Error, capabilities);
        fs::create_dir_all(&out).unwrap();
        fs::write(out.join("notes"), "mine").unwrap();
        for _ in 0..2 {
            let error = finish(&shared, SaveMode::Error, capabilities).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NotEmpty { .. }), "{error}");
            assert_eq!(fs::read(out.join("notes")).unwrap(), b"mine");
        }
        fs::remove_file(out.join("notes")).unwrap();
        assert_finished(dir.path(), &shared, SaveMode::Error, capabilities, 0);
    }
}

/// Another run replaces the set between its publication and the next `finish`.
#[test]
fn finish_does_not_touch_a_set_replaced_since() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = staged(&out, SaveMode::Overwrite, Capabilities::ALL);
    let argument = |step: usize| {
        json!({"shared": shared, "mode": "overwrite", "step": step, "beside": true, "exchange": true}).to_string()
    };
    // Killed right after the exchange.
    let killed = (0..).find(|step| {
        Child::new("finish::dying_publication", &out, argument(*step)).run();
        whole(&out).as_deref() == Some("new")
    });
    assert!(killed.is_some());
    write(&out, SaveMode::Overwrite, "newer").unwrap();
    let before = names(&out);
    let error = finish(&shared, SaveMode::Overwrite, Capabilities::ALL).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Ended), "{error}");
    assert_eq!((whole(&out).as_deref(), names(&out)), (Some("newer"), before));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{:?}", names(dir.path()));
}

#[test]
fn an_interrupted_publication_can_be_aborted() {
    for (mode, capabilities) in MODES.into_iter().flat_map(|mode| EVERYWHERE.map(|found| (mode, found))) {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let shared = staged(&out, mode, capabilities);
        // In the middle of the renames.
        let argument = json!({"shared": shared, "mode": mode, "step": 9, "beside": capabilities.beside,
            "exchange": capabilities.exchange});
        Child::new("finish::dying_publication", &out, argument.to_string()).run();
        drop(LocalCommit::resume_with(&shared, mode, capabilities).unwrap().abort());
        let expected = if mode == SaveMode::Error { None } else { Some("old") };
        assert_eq!(whole(&out).as_deref(), expected, "{mode:?}, {capabilities:?}: {:?}", names(dir.path()));
        assert_eq!(leftovers(&out).unwrap(), []);
        let joined = tfrecord_shards::StagingArea::join(&shared, AttemptId::new()).unwrap_err();
        assert!(matches!(joined.kind(), ErrorKind::Ended), "{joined}");
    }
}
