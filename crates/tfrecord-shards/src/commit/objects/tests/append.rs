//! Runs that append, and those that do nothing where something is.

use super::*;
use crate::set::manifest::SplitDescription;

/// A store with a set, and what is in it.
fn store() -> (Model, String) {
    let store = store_after(usize::MAX, true);
    let Read::Set(run) = store.read() else { panic!("there is no set") };
    (store, run)
}

fn appended(old: &str, writer: &Writer) -> Read {
    Read::Set(format!("{old}+{}", writer.run))
}

#[test]
fn append_killed_at_any_step_shows_old_or_longer_set() {
    let (before, old) = store();
    for died_at in 0.. {
        let mut store = before.clone();
        let mut writer = Writer::begin(&store, SaveMode::Append).unwrap();
        let taken = (0..died_at).take_while(|_| writer.step(&mut store)).count();
        let (read, new) = (store.read(), appended(&old, &writer));
        if taken < died_at {
            assert_eq!((read, writer.end), (new, Some(End::Done)));
            assert_eq!(store.files.len(), 6, "{:?}", store.files.keys());
            break;
        }
        assert!(read == new || read == Read::Set(old.clone()), "{died_at}: {read:?}");
        // The next one can append, or replace it all.
        let mut next = store.clone();
        let mut second = Writer::begin(&next, SaveMode::Append).unwrap();
        while second.step(&mut next) {}
        let Read::Set(read) = read else { panic!("nothing is left") };
        assert_eq!(next.read(), appended(&read, &second), "{died_at}");
        let mut next = store.clone();
        let mut second = Writer::begin(&next, SaveMode::Overwrite).unwrap();
        while second.step(&mut next) {}
        assert_eq!(next.read(), Read::Set(second.run.to_string()), "{died_at}");
        assert_eq!(next.files.len(), 4, "{died_at}: {:?}", next.files.keys());
    }
}

#[test]
fn append_failing_at_any_step_leaves_old_or_longer_set() {
    let (before, old) = store();
    for (failing, done) in (0..).flat_map(|step| [(step, false), (step, true)]) {
        let mut store = before.clone();
        let mut writer = Writer::begin(&store, SaveMode::Append).unwrap();
        writer.fault = Some((failing, done));
        while writer.step(&mut store) {}
        match writer.end.clone().unwrap() {
            End::Done | End::Failed { committed: true } => assert_eq!(store.read(), appended(&old, &writer)),
            End::Failed { committed: false } => assert_eq!(store.files, before.files, "step {failing}"),
        }
        if writer.taken <= failing {
            break;
        }
    }
}

#[test]
fn concurrent_appends_let_one_win_cleanly() {
    let (before, old) = store();
    use SaveMode::{Append, Overwrite};
    for modes in [[Append, Append], [Append, Overwrite], [Overwrite, Append]] {
        let (mut races, mut lost) = (0, 0);
        Race { before: &before, modes, look: read }.all(|turns, store, writers| {
            races += 1;
            let place = format!("{modes:?}, {turns:?}");
            let won: Vec<_> = writers.iter().filter(|writer| writer.end == Some(End::Done)).collect();
            lost += 2 - won.len();
            // Who begins when the other one has ended sees what that has left.
            let outcome = |order: &[&&Writer]| {
                order.iter().fold(Read::Set(old.clone()), |read, writer| match (read, writer.mode) {
                    (Read::Set(runs), Append) => appended(&runs, writer),
                    _ => Read::Set(writer.run.to_string()),
                })
            };
            let orders = [won.iter().collect::<Vec<_>>(), won.iter().rev().collect()];
            assert!(!won.is_empty() && orders.iter().any(|order| outcome(order) == store.read()), "{place}");
            for writer in writers.iter().filter(|writer| writer.end != Some(End::Done)) {
                let is_left = store.files.values().any(|(content, _)| content == writer.run.as_str().as_bytes());
                assert!(!is_left, "{place}");
            }
        });
        assert!(races > 20 && lost > 10, "{modes:?}: {races} orders, {lost} lost");
    }
}

#[test]
fn append_to_nothing_writes_a_set() {
    for (before, conditional) in [(Model::new(true), true), (Model::new(false), false)] {
        let mut store = before;
        let mut writer = Writer::begin(&store, SaveMode::Append).unwrap();
        assert_eq!(writer.names[0], "part-00000-of-00002.tfrecord");
        while writer.step(&mut store) {}
        assert_eq!(store.read(), Read::Set(writer.run.to_string()), "{conditional}");
    }
    // Two that both found nothing.
    Race { before: &Model::new(true), modes: [SaveMode::Append; 2], look: read }.all(|turns, store, writers| {
        let runs: Vec<_> =
            writers.iter().filter(|writer| writer.end == Some(End::Done)).map(|writer| writer.run.as_str()).collect();
        let (forth, back) = (runs.join("+"), runs.iter().rev().copied().collect::<Vec<_>>().join("+"));
        assert!([Read::Set(forth), Read::Set(back)].contains(&store.read()), "{turns:?}");
    });
}

#[test]
fn append_rejects_incomplete_set() {
    let refusal = |store: &Model| {
        let error = Writer::begin(store, SaveMode::Append).err().unwrap();
        let kind = error.kind();
        assert!(matches!(kind, ErrorKind::NotAppendable { .. } | ErrorKind::ForeignFiles { .. }), "{error}");
        error.to_string()
    };
    let (before, _) = store();
    for (missing, expected) in [
        (
            "part-00001-of-00002.tfrecord",
            "not appended to: the set is not complete: part-00001-of-00002.tfrecord is missing",
        ),
        (SUCCESS_NAME, "the set is not complete: _SUCCESS is missing"),
        (MANIFEST_NAME, "other tools: part-00000-of-00002.tfrecord, part-00001-of-00002.tfrecord, _SUCCESS"),
    ] {
        let mut store = before.clone();
        store.remove(missing);
        let found = refusal(&store);
        assert!(found.contains(expected), "{found}");
    }
    // What others have beside a set is theirs.
    let mut store = before.clone();
    store.put("notes.txt", b"mine");
    assert!(Writer::begin(&store, SaveMode::Append).is_ok());
    // A shard that was cut.
    let stored = before.manifest.clone().unwrap();
    let mut scan = PrefixScan::new(SaveMode::Append, Some(&stored));
    for name in before.files.keys() {
        let bytes = if name.starts_with("part-00001") { 19 } else { 20 };
        assert!(scan.add(name.clone(), bytes).is_continue());
    }
    let error = scan.finish(&out()).unwrap_err();
    assert!(error.to_string().ends_with("part-00001-of-00002.tfrecord: expected 20 bytes, found 19"), "{error}");
}

#[test]
fn append_rejects_shard_names_without_the_run() {
    let (store, _) = store();
    let append = |name: &str, run: &RunId| {
        let current = StoredManifest::clone(store.manifest.as_ref().unwrap());
        ObjectPublication::append(&out(), current, uploads(&[name.to_owned()]), description(), run)
    };
    let (run, other) = (RunId::new(), RunId::new());
    append(&format!("part-{run}-00000-of-00001.tfrecord"), &run).unwrap();
    for name in ["part-00001-of-00002.tfrecord".to_owned(), format!("part-{other}-00000-of-00001.tfrecord")] {
        let error = append(&name, &run).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotAppendable { .. }), "{error}");
    }
}

#[test]
fn ignore_mode_reports_existing_files() {
    let (before, _) = store();
    let Occupant::Ignored { found } = inspect(&before, SaveMode::Ignore).unwrap() else { panic!("not ignored") };
    assert_eq!(found, ["part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord", SUCCESS_NAME]);
    let mut store = Model::new(true);
    let mut writer = Writer::begin(&store, SaveMode::Ignore).unwrap();
    // Something has come meanwhile: this run has been asked to write, and does not.
    store.put("notes.txt", b"mine");
    while writer.step(&mut store) {}
    assert_eq!(writer.end, Some(End::Failed { committed: false }));
    assert_eq!(store.files.len(), 1);
    store.remove("notes.txt");
    let mut writer = Writer::begin(&store, SaveMode::Ignore).unwrap();
    while writer.step(&mut store) {}
    assert_eq!(store.read(), Read::Set(writer.run.to_string()));
}

#[test]
fn groups_are_stored_in_directories() {
    let run = RunId::new();
    let split = |name: &str| SplitDescription::new(name, 0.5);
    let description = SetDescription { splits: vec![split("train"), split("eval")], ..description() };
    let group = |split: &str| ShardGroup { split: Some(split.to_owned()), ..ShardGroup::default() };
    let names = ObjectNames { prefix: "part".to_owned(), total: None, suffix: ".tfrecord", run: None };
    let shards: Vec<_> = ["eval", "train", "eval"]
        .iter()
        .zip([(0, 2), (0, 1), (1, 2)])
        .zip(0..)
        .map(|((split, (index, total)), n)| {
            let group = group(split);
            let name = names.path(ShardPlace { group: &group, index, total });
            StagedShard { sequence: n, ..uploads(&[name]).remove(0) }.with_group(group)
        })
        .collect();
    let publication = ObjectPublication::new(false, shards.clone(), description.clone(), &run).unwrap();
    let paths: Vec<_> = publication.manifest().shards.iter().map(|shard| shard.path.as_str()).collect();
    let expected = ["train-00000-of-00001.tfrecord", "eval-00000-of-00002.tfrecord", "eval-00001-of-00002.tfrecord"];
    assert_eq!(paths, expected);
    // Names of runs that were killed are known in directories, too.
    let names = ObjectNames { run: Some(run.clone()), ..names };
    let values = vec![("dt".to_owned(), Some("a/b".to_owned()))];
    let group = ShardGroup { partition_values: values, split: Some("eval".to_owned()) };
    let path = names.path(ShardPlace { group: &group, index: 0, total: 1 });
    assert_eq!(path, format!("dt=a%2Fb/eval-{run}-00000-of-00001.tfrecord"));
    assert!(ObjectNames::has_run_id(&path));
    // A shard that does not stand where its group tells.
    let misplaced = vec![uploads(&[path]).remove(0).with_group(group)];
    let error = ObjectPublication::new(true, misplaced, description, &run).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ManifestContent { .. }), "{error}");
}
