//! Runs that replace partitions of a set.

use super::*;

/// A store with a set of partitions a and b, and the run that wrote it.
fn store() -> (Model, String) {
    let mut store = Model { partitioned: true, ..Model::new(true) };
    let mut writer = Writer::begin(&store, SaveMode::Error).unwrap();
    while writer.step(&mut store) {}
    (store, writer.run.to_string())
}

fn shards(store: &Model) -> Vec<&String> {
    store.files.keys().filter(|name| name.contains(".tfrecord")).collect()
}

fn finished(store: &mut Model, mode: SaveMode) -> Writer {
    let mut writer = Writer::begin(store, mode).unwrap();
    while writer.step(store) {}
    assert_eq!(writer.end, Some(End::Done), "{mode:?}");
    writer
}

#[test]
fn overwritten_partitions_keep_the_others() {
    let (mut store, old) = store();
    let writer = finished(&mut store, SaveMode::OverwritePartitions);
    let names = [&"dt=a/part-00000-of-00001.tfrecord".to_owned(), &writer.names[0], &writer.names[1]];
    assert_eq!(shards(&store), names);
    assert_eq!(store.read(), Read::Set(format!("{old}+{}", writer.run)));
    let manifest = &store.manifest.as_ref().unwrap().manifest;
    assert_eq!(manifest.replaced, ["dt=b/part-00000-of-00001.tfrecord"]);
    assert_eq!(manifest.appended[0].replaced_partitions, ["dt=b"]);
    assert!(manifest.shards.iter().map(|shard| &shard.path).eq(names));
}

#[test]
fn overwritten_partitions_killed_at_any_step_show_old_or_new_and_are_mended() {
    use SaveMode::{Append, Overwrite, OverwritePartitions};
    let (before, old) = store();
    for died_at in 0.. {
        let mut store = before.clone();
        let mut writer = Writer::begin(&store, OverwritePartitions).unwrap();
        let taken = (0..died_at).take_while(|_| writer.step(&mut store)).count();
        let new = Read::Set(format!("{old}+{}", writer.run));
        if taken < died_at {
            assert!(died_at > 3, "{died_at} steps");
            assert_eq!((store.read(), shards(&store).len()), (new, 3));
            break;
        }
        let found = store.read();
        assert!(found == new || found == Read::Set(old.clone()), "{died_at}: {found:?}");
        let Read::Set(found) = found else { panic!("nothing is left") };
        for mode in [OverwritePartitions, Append, Overwrite] {
            let mut next = store.clone();
            let second = finished(&mut next, mode);
            let all = if mode == Overwrite { second.run.to_string() } else { format!("{found}+{}", second.run) };
            assert_eq!(next.read(), Read::Set(all), "{died_at}, {mode:?}");
            let listed = next.manifest.as_ref().unwrap().manifest.shards.len();
            // An append leaves what a run has completed and not published.
            let rest = if mode == Append && found == old { shards(&store).len() - 2 } else { 0 };
            assert_eq!(shards(&next).len(), listed + rest, "{died_at}, {mode:?}: {:?}", shards(&next));
        }
    }
}

#[test]
fn overwritten_partitions_failing_at_any_step_leave_old_or_new() {
    let (before, old) = store();
    for (failing, done) in (0..).flat_map(|step| [(step, false), (step, true)]) {
        let mut store = before.clone();
        let mut writer = Writer::begin(&store, SaveMode::OverwritePartitions).unwrap();
        writer.fault = Some((failing, done));
        while writer.step(&mut store) {}
        match writer.end.clone().unwrap() {
            End::Done | End::Failed { committed: true } => {
                assert_eq!(store.read(), Read::Set(format!("{old}+{}", writer.run)));
            }
            End::Failed { committed: false } => assert_eq!(store.files, before.files, "step {failing}"),
        }
        if writer.taken <= failing {
            break;
        }
    }
}

/// Each of two runs may have completed its shards when the other one publishes.
#[test]
fn concurrent_runs_that_replace_partitions_let_one_win_cleanly() {
    use SaveMode::{Append, Overwrite, OverwritePartitions};
    let (before, old) = store();
    let partitions = [OverwritePartitions, OverwritePartitions];
    for modes in [partitions, [OverwritePartitions, Append], [Overwrite, OverwritePartitions]] {
        let (mut races, mut lost) = (0, 0);
        Race { before: &before, modes, look: |store| drop(store.read()) }.all(|turns, store, writers| {
            races += 1;
            let place = format!("{modes:?}, {turns:?}");
            let won: Vec<_> = writers.iter().filter(|writer| writer.end == Some(End::Done)).collect();
            lost += 2 - won.len();
            let outcome = |order: &[&&Writer]| {
                order.iter().fold(old.clone(), |runs, writer| match writer.mode {
                    Overwrite => writer.run.to_string(),
                    _ => format!("{runs}+{}", writer.run),
                })
            };
            let orders = [won.iter().collect::<Vec<_>>(), won.iter().rev().collect()];
            let found = store.read();
            assert!(!won.is_empty() && orders.iter().any(|order| Read::Set(outcome(order)) == found), "{place}");
            for writer in writers.iter().filter(|writer| writer.end != Some(End::Done)) {
                let is_left = store.files.values().any(|(content, _)| content == writer.run.as_str().as_bytes());
                assert!(!is_left, "{place}");
            }
        });
        assert!(races > 20 && lost > 10, "{modes:?}: {races} orders, {lost} lost");
    }
}

#[test]
fn partitions_are_not_replaced_without_partition_columns() {
    let mut store = Model::new(true);
    let mut description = description();
    description.replace_partitions = true;
    let error = ObjectPublication::new(false, Vec::new(), description.clone(), &RunId::new()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoPartitionColumns), "{error}");
    finished(&mut store, SaveMode::Error);
    store.partitioned = true;
    let error = Writer::begin(&store, SaveMode::OverwritePartitions).err().unwrap();
    assert_eq!(
        error.to_string(),
        "s3://bucket/train/: none of its partitions is replaced: partitioning is by dt (Utf8), in the set it is none"
    );
}
