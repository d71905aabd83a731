//! Sets whose shards are staged by several processes: attempts, leases, reports, and who publishes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process;

use serde_json::{Value, json};
use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{
    AttemptError, AttemptId, Error, ErrorKind, LocalCommit, Progress, RunId, SaveMode, ShardGroup, ShardWriter,
    ShardedWriterBuilder, Sharding, SharedStaging, StagingArea, TaskReport, TaskWriter, check, choose_reports,
    leftovers, remove_leftovers, verify,
};

use crate::child::{Child, arguments, assert_success, said};
use crate::support::{IN_PLACE, begin, count, describe, encode, ids, names, payloads, stage, whole, write};

fn builder() -> ShardedWriterBuilder {
    ShardedWriterBuilder::new(ids([]).schema()).with_sharding(Sharding::Rows(4))
}

/// The values of task `task`: ten of them, which no other task has.
fn rows(task: u32) -> Vec<i64> {
    let first = i64::from(task) * 10;
    (first..first + 10).collect()
}

fn begin_task(shared: &SharedStaging, task: u32) -> TaskWriter {
    let mut writer = builder().stage(shared, task).unwrap();
    writer.write(&ids(rows(task))).unwrap();
    writer
}

fn run_task(shared: &SharedStaging, task: u32) -> (u32, AttemptId) {
    let report = begin_task(shared, task).finish().unwrap();
    assert_eq!((report.partition, report.rows, report.shards.len()), (task, 10, 3));
    (report.partition, report.attempt)
}

/// The records of these values.
fn records(values: impl IntoIterator<Item = i64>) -> Vec<Vec<u8>> {
    let records = encode(&ids(values));
    (0..records.len())
        .map(|record| records.slice(record..record + 1)[12..].split_last_chunk::<4>().unwrap().0.to_vec())
        .collect()
}

/// The directory of attempts of a run that is next to `out`.
fn attempts(out: &Path, shared: &SharedStaging) -> PathBuf {
    let (run, name) = (shared.run(), out.file_name().unwrap().to_str().unwrap());
    out.parent().unwrap().join(format!(".tfr-{run}-{name}")).join(format!(".tfr-{run}"))
}

fn expire(out: &Path, shared: &SharedStaging) {
    fs::write(attempts(out, shared).join("lease"), "2026-01-01T00:00:00Z").unwrap();
}

fn kind(error: &Error) -> &AttemptError {
    let ErrorKind::Attempt(kind) = error.kind() else { panic!("{error}") };
    kind
}

#[test]
fn tasks_in_any_order_write_the_set_of_one_process() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("made/shards");
        let builder = builder().with_compression(compression, Level::default());
        let shared = builder.start(&out).unwrap();
        let mut listed = Vec::new();
        for task in [2, 0, 1] {
            let mut writer = builder.stage(&shared, task).unwrap();
            rows(task).chunks(3).for_each(|rows| writer.write(&ids(rows.to_vec())).unwrap());
            let report = writer.finish().unwrap();
            listed.push((task, report.attempt));
        }
        let manifest = builder.commit(&shared, &listed, Some(3)).unwrap();
        assert_eq!(payloads(&out), records(0..30));
        assert_eq!(manifest.shards.iter().map(|shard| shard.rows).collect::<Vec<_>>(), [4, 4, 2, 4, 4, 2, 4, 4, 2]);
        assert_eq!((manifest.write_partitions, manifest.run.as_str()), (3, shared.run().as_str()));
        assert_eq!(manifest.shards[8].path, format!("part-00008-of-00009.tfrecord{}", compression.suffix()));
        assert_eq!(names(&out).len(), 11);
        assert_eq!(names(out.parent().unwrap()).iter().filter(|name| !name.starts_with("shards/")).count(), 0);
        assert!(verify(&[out], &Progress::default()).unwrap().findings.is_empty());
    }
}

#[test]
fn concurrent_attempts_publish_the_listed_one() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = builder().start(&out).unwrap();
    // Both are open at the same time, and both complete.
    let (first, second) = (begin_task(&shared, 0), begin_task(&shared, 0));
    let second = second.finish().unwrap();
    let first = first.finish().unwrap();
    assert!(first.attempt < second.attempt);
    let manifest = builder().commit(&shared, &[(0, first.attempt)], Some(1)).unwrap();
    assert_eq!(manifest.totals.rows, 10);
    assert_eq!(payloads(&out), records(0..10));
    assert_eq!(names(dir.path()).iter().filter(|name| name.contains(".tfr-") || name.contains("staged")).count(), 0);
}

#[test]
fn repeated_attempts_publish_the_newest_listed_one() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = builder().start(&out).unwrap();
    let mut older = builder().stage(&shared, 0).unwrap();
    older.write(&ids([1, 2])).unwrap();
    let newer = run_task(&shared, 0);
    let older = older.finish().unwrap();
    let listed = [newer, (0, older.attempt)];
    builder().commit(&shared, &listed, None).unwrap();
    assert_eq!(payloads(&out), records(0..10));
}

#[test]
fn dropped_attempt_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = builder().start(&out).unwrap();
    drop(begin_task(&shared, 0));
    assert_eq!(names(&attempts(&out, &shared)), ["lease"]);
    let listed = run_task(&shared, 0);
    builder().commit(&shared, &[listed], Some(1)).unwrap();
    assert_eq!(whole(&out).as_deref(), Some(""));
}

#[test]
fn killed_attempt_is_not_published_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = builder().start(&out).unwrap();
    let output = Child::new("attempts::dying_task", &out, serde_json::to_string(&shared).unwrap()).run();
    assert!(!output.status.success() && said(&output).contains("dies"), "{}", said(&output));
    let left = names(&attempts(&out, &shared));
    assert!(left.iter().any(|name| name.starts_with("00000-00000.") && name.ends_with(".staged")), "{left:?}");

    let missing = builder().commit(&shared, &[], Some(1)).unwrap_err();
    assert_eq!(missing.to_string(), "not reported: task 0");
    // In another process.
    let output = Child::new("attempts::working_task", &out, serde_json::to_string(&shared).unwrap()).run();
    assert_success(&output);
    let commit = LocalCommit::resume(&shared, SaveMode::Error).unwrap();
    let reports = choose_reports(commit.reports().unwrap(), Some(1)).unwrap();
    let shards = commit.adopt(&reports).unwrap();
    commit.publish(shards, describe("new")).unwrap();
    assert_eq!(payloads(&out), records(0..10));
    assert_eq!(names(dir.path()).len(), 6, "{:?}", names(dir.path()));
    assert_eq!(leftovers(&out).unwrap(), []);
}

#[test]
#[ignore = "dies, as the child of another test"]
fn dying_task() {
    let (_, shared) = arguments();
    let area = StagingArea::join(&serde_json::from_str(&shared).unwrap(), AttemptId::new()).unwrap();
    let mut shard = area.create_shard(0, 0).unwrap();
    shard.write_all(b"half").unwrap();
    eprintln!("dies");
    process::abort();
}

#[test]
#[ignore = "is the child of another test"]
fn working_task() {
    let (_, shared) = arguments();
    run_task(&serde_json::from_str(&shared).unwrap(), 0);
}

/// It has been taken for dead, and wakes up once the set is published.
#[test]
fn late_attempt_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "old").unwrap();
    let builder = builder().with_mode(SaveMode::Overwrite);
    let shared = builder.start(&out).unwrap();
    let area = StagingArea::join(&shared, AttemptId::new()).unwrap();
    let open = area.create_shard(0, 0).unwrap();
    let late = begin_task(&shared, 1);
    let listed = run_task(&shared, 0);
    builder.commit(&shared, &[listed], Some(1)).unwrap();
    let before = names(dir.path());
    for error in [
        area.create_shard(0, 1).unwrap_err(),
        late.finish().unwrap_err(),
        StagingArea::join(&shared, AttemptId::new()).unwrap_err(),
        LocalCommit::resume(&shared, SaveMode::Overwrite).unwrap_err(),
    ] {
        assert!(matches!(error.kind(), ErrorKind::Ended), "{error}");
    }
    // The set is published, which can be asked for again.
    assert_eq!(builder.commit(&shared, &[listed], Some(1)).unwrap(), check_whole(&out));
    let stats = ShardWriter::new(open, (Compression::None, Level::default())).finish().unwrap();
    let shard = stats.0.seal(stats.1).unwrap();
    let error = area.put_report(&area.report(0, vec![shard])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Ended), "{error}");
    assert_eq!(names(dir.path()), before);
    assert_eq!(payloads(&out), records(0..10));
}

#[test]
fn missing_tasks_are_named_and_can_still_be_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = builder().start(&out).unwrap();
    let (zero, two) = (run_task(&shared, 0), run_task(&shared, 2));
    let missing = |listed: &[_], tasks| {
        let error = builder().commit(&shared, listed, tasks).unwrap_err();
        let AttemptError::Missing { partitions, .. } = kind(&error) else { panic!("{error}") };
        (partitions.clone(), error.to_string())
    };
    assert_eq!(missing(&[zero, two], None), (vec![1], "not reported: task 1".to_owned()));
    assert_eq!(missing(&[zero, two], Some(5)), (vec![1, 3, 4], "not reported: tasks 1, 3, 4".to_owned()));
    let (first, text) = missing(&[zero, two], Some(u32::MAX));
    assert_eq!(first, [1, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(text, "not reported: tasks 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 4294967283 more");
    let error = builder().commit(&shared, &[zero, two], Some(2)).unwrap_err();
    assert!(matches!(kind(&error), AttemptError::Unexpected { partition: 2, tasks: 2 }), "{error}");
    let unknown = builder().commit(&shared, &[zero, (1, AttemptId::new()), two], None).unwrap_err();
    assert!(matches!(kind(&unknown), AttemptError::NoReport { .. }), "{unknown}");
    assert!(leftovers(&out).unwrap()[0].live);

    let one = run_task(&shared, 1);
    builder().commit(&shared, &[two, zero, one], Some(3)).unwrap();
    assert_eq!(payloads(&out), records(0..30));
}

#[test]
fn lease_acts_as_a_lock_until_it_expires() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    write(&out, SaveMode::Error, "old").unwrap();
    let start = || builder().with_mode(SaveMode::Overwrite).start(&out).unwrap();
    let shared = start();
    run_task(&shared, 0);
    let found = leftovers(&out).unwrap();
    assert_eq!(
        found.iter().map(|left| (left.run.as_str(), left.live)).collect::<Vec<_>>(),
        [(shared.run().as_str(), true)]
    );
    assert_eq!(remove_leftovers(&out).unwrap().removed, []);
    write(&out, SaveMode::Overwrite, "other").unwrap();
    assert!(attempts(&out, &shared).exists());

    // A task extends it, when it begins and when it ends.
    expire(&out, &shared);
    assert!(!leftovers(&out).unwrap()[0].live);
    let writer = begin_task(&shared, 1);
    assert!(leftovers(&out).unwrap()[0].live);
    expire(&out, &shared);
    writer.finish().unwrap();
    assert!(leftovers(&out).unwrap()[0].live);

    // Whoever goes on with the run holds a lock.
    expire(&out, &shared);
    let commit = LocalCommit::resume(&shared, SaveMode::Overwrite).unwrap();
    assert!(leftovers(&out).unwrap()[0].live);
    let again = LocalCommit::resume(&shared, SaveMode::Overwrite).unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::Busy { run, .. } if run == shared.run().as_str()), "{again}");
    commit.detach().unwrap();
    assert!(leftovers(&out).unwrap()[0].live);

    expire(&out, &shared);
    assert!(
        verify(std::slice::from_ref(&out), &Progress::default()).unwrap().findings[0]
            .to_string()
            .ends_with("which was killed")
    );
    assert_eq!(remove_leftovers(&out).unwrap().removed.len(), 1);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    // The next run that replaces the set removes it too.
    let shared = start();
    run_task(&shared, 0);
    expire(&out, &shared);
    write(&out, SaveMode::Overwrite, "new").unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// A lease that is damaged protects nothing, or nobody could ever remove it.
#[test]
fn lease_without_a_time_has_expired() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = builder().start(&out).unwrap();
    for content in [&b""[..], b"tomorrow", b"\xff"] {
        fs::write(attempts(&out, &shared).join("lease"), content).unwrap();
        assert!(!leftovers(&out).unwrap()[0].live, "{content:?}");
    }
}

#[test]
fn shared_run_can_be_aborted() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("made/shards");
    let shared = builder().start(&out).unwrap();
    run_task(&shared, 0);
    let late = begin_task(&shared, 1);
    drop(LocalCommit::resume(&shared, SaveMode::Error).unwrap().abort());
    assert!(matches!(late.finish().unwrap_err().kind(), ErrorKind::Ended));
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn commit_detects_concurrent_appends_and_overwrites() {
    let cases = [
        // (mode, what another run does meanwhile, whether that is noticed)
        (SaveMode::Append, SaveMode::Append, true),
        (SaveMode::Append, SaveMode::Overwrite, true),
        (SaveMode::Overwrite, SaveMode::Append, true),
        (SaveMode::Overwrite, SaveMode::Overwrite, false),
    ];
    for (mode, other, is_noticed) in cases {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        write(&out, SaveMode::Error, "old").unwrap();
        let builder = builder().with_mode(mode).with_query("mine");
        let shared = builder.start(&out).unwrap();
        let listed = [run_task(&shared, 0)];
        let run = write(&out, other, "other").unwrap().last_run().to_owned();
        match builder.commit(&shared, &listed, Some(1)) {
            Err(error) => {
                assert!(
                    is_noticed && matches!(error.kind(), ErrorKind::Superseded { .. }),
                    "{mode:?} {other:?}: {error}"
                );
                assert_eq!(check_whole(&out).last_run(), run);
                // The work of the tasks is retained until the run is aborted.
                let again = builder.commit(&shared, &listed, Some(1)).unwrap_err();
                assert!(matches!(again.kind(), ErrorKind::Superseded { .. }), "{again}");
                drop(LocalCommit::resume(&shared, mode).unwrap().abort());
            }
            Ok(manifest) => {
                assert!(!is_noticed, "{mode:?} {other:?}");
                assert_eq!(check_whole(&out), manifest);
            }
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

fn check_whole(out: &Path) -> tfrecord_shards::Manifest {
    let tfrecord_shards::SetState::Whole(manifest) = check(out).unwrap() else { panic!("{}", out.display()) };
    *manifest
}

/// A set that is there only now is not what the run began with either.
#[test]
fn append_to_nothing_detects_a_new_set() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let builder = builder().with_mode(SaveMode::Append);
    let shared = builder.start(&out).unwrap();
    let listed = [run_task(&shared, 0)];
    write(&out, SaveMode::Error, "other").unwrap();
    let error = builder.commit(&shared, &listed, None).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Superseded { .. }), "{error}");
    assert_eq!(whole(&out).as_deref(), Some("other"));
}

#[test]
fn tasks_append() {
    for capabilities in [tfrecord_shards::Capabilities::ALL, IN_PLACE] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        write(&out, SaveMode::Error, "old").unwrap();
        let shared = begin(&out, SaveMode::Append, capabilities).unwrap().detach().unwrap();
        run_task(&shared, 0);
        let commit = LocalCommit::resume(&shared, SaveMode::Append).unwrap();
        assert_eq!(commit.current().unwrap().query.as_deref(), Some("old"));
        let shards = commit.adopt(&commit.reports().unwrap()).unwrap();
        let manifest = commit.publish(shards, describe("new")).unwrap();
        assert_eq!((whole(&out).as_deref(), manifest.totals.rows), (Some("old+new"), 30));
        assert!(verify(std::slice::from_ref(&out), &Progress::default()).unwrap().findings.is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

#[test]
fn leased_target_rejects_writers_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = begin(&out, SaveMode::Overwrite, IN_PLACE).unwrap().detach().unwrap();
    let error = begin(&out, SaveMode::Overwrite, IN_PLACE).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Busy { run, .. } if run == shared.run().as_str()), "{error}");
    run_task(&shared, 0);
    let commit = LocalCommit::resume(&shared, SaveMode::Overwrite).unwrap();
    let shards = commit.adopt(&commit.reports().unwrap()).unwrap();
    commit.publish(shards, describe("new")).unwrap();
    assert_eq!(whole(&out).as_deref(), Some("new"));
    assert_eq!(names(&out).len(), 5);
}

/// The process that began the set lives on, stages shards itself, and publishes.
#[test]
fn tasks_can_join_a_live_commit() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let commit = begin(&out, SaveMode::Error, tfrecord_shards::Capabilities::ALL).unwrap();
    let mut shards = stage(&commit, "own");
    let shared = commit.share().unwrap();
    assert_eq!(commit.share().unwrap(), shared);
    let attempt = run_task(&shared, 1).1;
    let loser = run_task(&shared, 1).1;
    assert_ne!(attempt, loser);
    shards.extend(commit.adopt(&[commit.report(1, attempt).unwrap()]).unwrap());
    let manifest = commit.publish(shards, describe("own")).unwrap();
    assert_eq!((manifest.shards.len(), manifest.totals.rows), (5, 30));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    // Nothing is adopted.
    let other = dir.path().join("other");
    let commit = begin(&other, SaveMode::Error, tfrecord_shards::Capabilities::ALL).unwrap();
    let shared = commit.share().unwrap();
    let shards = stage(&commit, "own");
    run_task(&shared, 1);
    commit.publish(shards, describe("own")).unwrap();
    assert_eq!(names(&other).len(), 4, "{:?}", names(&other));
}

#[test]
fn indexes_are_staged_with_shards() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let builder = builder().with_indexes(true);
    let shared = builder.start(&out).unwrap();
    let mut writer = builder.stage(&shared, 0).unwrap();
    writer.write(&ids(rows(0))).unwrap();
    let report = writer.finish().unwrap();
    let manifest = builder.commit(&shared, &[(0, report.attempt)], None).unwrap();
    assert_eq!(manifest.sidecars.len(), 3);
    assert_eq!(manifest.sidecars[2].path, "_part-00002-of-00003.tfrecord.idx");
    assert_eq!(names(&out).len(), 8);
    assert!(verify(&[out], &Progress::default()).unwrap().findings.is_empty());

    // As in one process.
    let one = dir.path().join("one");
    let mut writer = builder.build(&one).unwrap();
    writer.write(&ids(rows(0))).unwrap();
    assert_eq!(writer.finish().unwrap().sidecars, manifest.sidecars);
}

#[test]
fn a_set_without_rows_has_one_shard() {
    let dir = tempfile::tempdir().unwrap();
    for tasks in [0, 2] {
        let out = dir.path().join(tasks.to_string());
        let shared = builder().start(&out).unwrap();
        let empty = |task| (task, builder().stage(&shared, task).unwrap().finish().unwrap().attempt);
        let listed: Vec<_> = (0..tasks).map(empty).collect();
        let manifest = builder().commit(&shared, &listed, Some(tasks)).unwrap();
        assert_eq!((manifest.shards.len(), manifest.totals.rows), (1, 0));
    }
}

#[test]
fn tasks_reject_settings_that_need_all_rows() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let hosts = Sharding::Hosts(std::num::NonZeroUsize::MIN);
    for builder in [builder().with_shuffle(1), builder().with_sharding(count(2)), builder().with_sharding(hosts)] {
        let error = builder.start(&out).unwrap_err();
        assert!(matches!(kind(&error), AttemptError::Setting { .. }), "{error}");
    }
    assert_eq!(names(dir.path()), [""; 0]);
}

/// Nothing in a report is believed that its files do not confirm.
#[test]
fn forged_reports_are_refused() {
    type Forge = fn(&mut Value, &Path);
    let forge: [(&str, Forge); 14] = [
        ("expected format 1, found 2", |report, _| report["format"] = json!(2)),
        ("expected a report of run", |report, _| report["run"] = json!(RunId::new().to_string())),
        ("is of attempt", |report, _| report["partition"] = json!(1)),
        ("is of attempt", |report, _| report["attempt"] = json!(AttemptId::new().to_string())),
        ("expected 11 rows, found 10", |report, _| report["rows"] = json!(11)),
        ("expected 999 bytes, found", |report, _| report["shards"][0]["file_bytes"] = json!(999)),
        ("expected shard", |report, _| report["shards"][0]["staged"] = json!("/etc/passwd")),
        ("expected shard", |report, _| report["shards"][0]["staged"] = json!("../../secret")),
        ("expected shard", |report, _| report["shards"][0]["sequence"] = json!(1)),
        ("expected shard", |report, _| report["shards"][0]["partition"] = json!(3)),
        ("is an upload", |report, _| report["shards"][0]["upload"] = json!({"id": "1", "parts": []})),
        ("expected index", |report, dir| {
            let name = report["shards"][0]["staged"].as_str().unwrap().to_owned() + ".idx";
            fs::write(dir.join(&name), "").unwrap();
            let path = dir.parent().unwrap().join(name);
            report["shards"][0]["index"] = json!({"path": path, "file_bytes": 0, "crc32c": 0});
        }),
        ("cannot name directories", |report, _| {
            report["shards"][0]["group"]["partition_values"] = json!([["../x", "1"]]);
        }),
        ("not a valid report of a task", |report, _| report["shards"] = json!("none")),
    ];
    for (expected, forge) in forge {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let shared = builder().start(&out).unwrap();
        let listed = run_task(&shared, 0);
        let attempts = attempts(&out, &shared);
        let path = attempts.join(format!("00000.{}.report", listed.1));
        let original = fs::read(&path).unwrap();
        let mut report: Value = serde_json::from_slice(&original).unwrap();
        forge(&mut report, &attempts);
        fs::write(&path, serde_json::to_vec(&report).unwrap()).unwrap();
        let error = builder().commit(&shared, &[listed], None).unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert!(!out.exists());
        // Nothing was changed.
        fs::write(&path, original).unwrap();
        builder().commit(&shared, &[listed], None).unwrap();
        assert_eq!(payloads(&out), records(0..10));
    }
}

#[test]
fn commit_rejects_missing_linked_or_changed_shards() {
    type Change = fn(&Path);
    let change: [(&str, Change); 3] = [
        ("cannot inspect", |shard| fs::remove_file(shard).unwrap()),
        ("cannot inspect", |shard| {
            fs::rename(shard, shard.with_extension("moved")).unwrap();
            std::os::unix::fs::symlink(shard.with_extension("moved"), shard).unwrap();
        }),
        ("bytes, found 3", |shard| fs::write(shard, "cut").unwrap()),
    ];
    for (expected, change) in change {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("shards");
        let shared = builder().start(&out).unwrap();
        let listed = run_task(&shared, 0);
        change(&attempts(&out, &shared).join(format!("00000-00001.{}.staged", listed.1)));
        let error = builder().commit(&shared, &[listed], None).unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert!(!out.exists());
    }
}

#[test]
fn a_report_keeps_statistics_and_notes() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = builder().start(&out).unwrap();
    let area = StagingArea::join(&shared, AttemptId::new()).unwrap();
    let report = area.report(0, Vec::new()).with_statistics(vec![0, 255]).with_note("3 nulls");
    area.put_report(&report).unwrap();
    let commit = LocalCommit::resume(&shared, SaveMode::Error).unwrap();
    let read: Vec<TaskReport> = commit.reports().unwrap();
    assert_eq!(read, [report]);
    // Another attempt cannot report in its name.
    let other = StagingArea::join(&shared, AttemptId::new()).unwrap();
    assert!(matches!(other.put_report(&read[0]).unwrap_err().kind(), ErrorKind::Failed));
}

/// A forged value names no directory but that of a run next to a target, or in it.
#[test]
fn shared_staging_cannot_name_other_directories() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = builder().start(&out).unwrap();
    let mut forged = serde_json::to_value(&shared).unwrap();
    forged["run"] = json!("../../etc");
    assert!(serde_json::from_value::<SharedStaging>(forged.clone()).is_err());
    forged["run"] = json!(shared.run().to_string());
    forged["out"] = json!("/");
    let forged_out: SharedStaging = serde_json::from_value(forged.clone()).unwrap();
    assert!(LocalCommit::resume(&forged_out, SaveMode::Overwrite).is_err());
    assert!(StagingArea::join(&forged_out, AttemptId::new()).is_err());
    forged["out"] = json!(out);
    forged["format"] = json!(7);
    let newer: SharedStaging = serde_json::from_value(forged).unwrap();
    let error = StagingArea::join(&newer, AttemptId::new()).unwrap_err();
    assert!(matches!(kind(&error), AttemptError::Format { expected: 1, found: 7 }), "{error}");
}

/// Groups pass through a report as through a commit.
#[test]
fn groups_are_staged_by_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let shared = begin(&out, SaveMode::Error, tfrecord_shards::Capabilities::ALL).unwrap().detach().unwrap();
    for task in 0..2 {
        let area = StagingArea::join(&shared, AttemptId::new()).unwrap();
        let group: ShardGroup = crate::support::group(&task.to_string(), "train");
        let records = encode(&ids(rows(task)));
        let shard = area.create_shard_in(task, 0, group).unwrap();
        let mut shard = ShardWriter::new(shard, (Compression::None, Level::default()));
        shard.append(&records, 0..10).unwrap();
        let (file, stats) = shard.finish().unwrap();
        area.put_report(&area.report(task, vec![file.seal(stats).unwrap()])).unwrap();
    }
    let commit = LocalCommit::resume(&shared, SaveMode::Error).unwrap();
    let shards = commit.adopt(&commit.reports().unwrap()).unwrap();
    let manifest = commit.publish(shards, crate::support::describe_grouped("new")).unwrap();
    assert_eq!(manifest.shards[1].path, "dt=1/train-00000-of-00001.tfrecord");
}
