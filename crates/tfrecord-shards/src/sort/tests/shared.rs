//! A sort in several processes, against the same oracle.

use std::path::Path;

use super::super::shared::SharedStored;
use super::*;

/// The groups of a process by their numbers, which are those of their first records.
#[derive(Debug, Default)]
struct OwnGroups(Mutex<Vec<u32>>);

impl OwnGroups {
    fn number(&self, group: u32) -> u32 {
        let mut groups = self.0.lock().unwrap();
        let known = groups.iter().position(|known| *known == group);
        known.unwrap_or_else(|| {
            groups.push(group);
            groups.len() - 1
        }) as u32
    }
}

impl GroupOrder for OwnGroups {
    fn order(&self) -> Vec<u32> {
        let groups = self.0.lock().unwrap();
        let mut order: Vec<_> = (0..groups.len() as u32).collect();
        order.sort_by_key(|number| groups[*number as usize]);
        order
    }
}

fn shared(dir: &Path, prefix: &str, equal: EqualRecords, delivery: &Delivery) -> SorterOptions {
    SorterOptions { spill: Arc::new(DirectorySpill::new(dir, prefix)), ..options(equal, delivery) }
}

/// Sorts the records of one process. Returns the bytes of its description, and its groups.
fn fill(options: SorterOptions, records: &[Record], delivery: &Delivery, own: bool) -> Result<(Vec<u8>, Vec<u32>)> {
    if !own {
        let sorter = RecordSorter::new(options.shared());
        push_all(&sorter, records, delivery)?;
        return Ok((sorter.share()?.to_bytes()?, Vec::new()));
    }
    let groups = Arc::new(OwnGroups::default());
    let renumber = |record: &Record| {
        let key = SortKey::new(groups.number(record.key.group()), record.key.key());
        Record { key, frame: record.frame.clone() }
    };
    let sorter = RecordSorter::new(options.shared_by(Arc::clone(&groups) as Arc<dyn GroupOrder>));
    // In two steps, so that a run can be written before all groups are known.
    for part in records.chunks(records.len() / 2 + 1) {
        let part: Vec<_> = part.iter().map(renumber).collect();
        push_all(&sorter, &part, delivery)?;
    }
    let found = groups.0.lock().unwrap().clone();
    Ok((sorter.share()?.to_bytes()?, found))
}

/// Sorts in this many processes, each of which has every so many of the records and reads every so many of the tasks.
fn sort_in(
    processes: usize,
    records: &[Record],
    equal: EqualRecords,
    cut: Cut,
    delivery: &Delivery,
    own: bool,
) -> Result<Vec<(PlannedShard, Vec<u8>)>> {
    let dir = tempfile::tempdir().unwrap();
    let sorter = RecordSorter::new(shared(dir.path(), "copies", equal, delivery).shared());
    for process in 0..processes {
        let own_records: Vec<_> = records.iter().skip(process).step_by(processes).cloned().collect();
        let options = shared(dir.path(), &process.to_string(), equal, delivery);
        let (bytes, groups) = fill(options, &own_records, delivery, own)?;
        let runs = SharedRuns::from_bytes(&bytes)?;
        assert_eq!(runs.rows(), own_records.len() as u64);
        sorter.add_runs(&runs, &groups)?;
    }
    let plan = sorter.finish()?.cut(|totals| cut.sharding(totals.group))?;
    let bytes = plan.share()?.to_bytes()?;
    drop(plan);
    let mut found: Vec<(PlannedShard, Vec<u8>)> = Vec::new();
    for process in 0..processes {
        let store = DirectorySpill::new(dir.path(), format!("unused-{process}"));
        let plan = SharedPlan::from_bytes(&bytes)?.open(&store)?;
        found.resize_with(plan.shards().len(), || (plan.shards()[0], Vec::new()));
        for task in (process..plan.tasks()).step_by(processes) {
            let range = plan.task_shards(task);
            for shard in range {
                found[shard].0 = plan.shards()[shard];
            }
            for block in plan.read_once(task) {
                let block = block?;
                for piece in block.pieces {
                    found[piece.shard].1.extend_from_slice(block.records.slice(piece.records));
                }
            }
        }
    }
    Ok(found)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// The shards are those of a sort in one process, byte for byte.
    #[test]
    fn sorts_as_one_process_does(
        payloads in payloads(),
        key in select(KEYS.to_vec()),
        group in select(GROUPS.to_vec()),
        equal in prop_oneof![Just(EqualRecords::Keep), any::<u64>().prop_map(|seed| EqualRecords::Spread { seed })],
        cut in cuts(),
        delivery in delivery(),
        processes in 1..5usize,
        own in any::<bool>(),
    ) {
        let records: Vec<_> = payloads.iter().map(|payload| Record::hashed(payload, key, group)).collect();
        let found = sort_in(processes, &records, equal, cut, &delivery, own).unwrap();
        prop_assert_eq!(found, expected_shards(&records, equal, cut));
    }
}

/// Enough records for buckets, with keys that are hashes.
#[test]
fn buckets_of_several_processes() {
    let records: Vec<_> = (0..300_000u32).map(|row| Record::hashed(&row.to_le_bytes(), |hash| hash, |_| 0)).collect();
    let delivery = Delivery {
        pushes: vec![(0, 50_000, false), (1, 50_000, true)],
        compact_from: usize::MAX,
        chunk_bytes: 64 << 10,
        copy_bytes: 1 << 20,
    };
    let (equal, cut) = (EqualRecords::Spread { seed: 9 }, Cut::new(Sharding::Count(NonZeroUsize::new(7).unwrap())));
    let dir = tempfile::tempdir().unwrap();
    let (bytes, _) = fill(shared(dir.path(), "a", equal, &delivery), &records, &delivery, false).unwrap();
    let runs = SharedRuns::from_bytes(&bytes).unwrap();
    let other = RecordSorter::new(shared(dir.path(), "b", equal, &delivery).with_chunk_bytes(1 << 20).shared());
    let error = other.add_runs(&runs, &[]).unwrap_err();
    insta::assert_snapshot!(error.to_string().replace(&dir.path().display().to_string(), "DIR"), @"DIR: a temporary file does not contain what was written to it: runs have different buckets");
    let found = sort_in(3, &records, equal, cut, &delivery, false).unwrap();
    assert_eq!(found, expected_shards(&records, equal, cut));
}

/// A description in which any byte differs is refused, and so is one whose files differ.
#[test]
fn damage_is_found() {
    let records: Vec<_> = (0..2000u32).map(|row| Record::hashed(&row.to_le_bytes(), |hash| hash, |_| 0)).collect();
    let delivery = spilling(2, 300, 4 << 10);
    let dir = tempfile::tempdir().unwrap();
    let options = || shared(dir.path(), "a", EqualRecords::Keep, &delivery);
    let (bytes, _) = fill(options(), &records, &delivery, false).unwrap();
    for at in (0..bytes.len()).step_by(7) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        assert!(SharedRuns::from_bytes(&bytes).is_err(), "byte {at}");
        assert!(SharedRuns::from_bytes(&bytes[..at]).is_err(), "{at} bytes");
    }
    let runs = SharedRuns::from_bytes(&bytes).unwrap();
    let name = runs.files().next().unwrap().to_owned();
    let file = std::fs::File::options().write(true).open(dir.path().join(&name)).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let refused = |runs: &SharedRuns| {
        let error = RecordSorter::new(options().shared()).add_runs(runs, &[]).unwrap_err();
        let source = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
        format!("{error}: {source}").replace(&dir.path().display().to_string(), "DIR")
    };
    insta::assert_snapshot!(refused(&runs), @"DIR: cannot open a temporary file: a-00000.run: expected 37532 bytes, found 37531");
    std::fs::remove_file(dir.path().join(name)).unwrap();
    insta::assert_snapshot!(refused(&runs), @"DIR: cannot open a temporary file: a-00000.run: No such file or directory (os error 2)");
}

/// Descriptions with a valid checksum that cannot be true.
#[test]
fn forged_descriptions_are_refused() {
    let records: Vec<_> = (0..500u32).map(|row| Record::hashed(&row.to_le_bytes(), |hash| hash, |_| 0)).collect();
    let delivery = spilling(1, 500, 4 << 10);
    let dir = tempfile::tempdir().unwrap();
    let options = || shared(dir.path(), "a", EqualRecords::Keep, &delivery);
    let (bytes, _) = fill(options(), &records, &delivery, false).unwrap();
    let sound = SharedRuns::from_bytes(&bytes).unwrap();
    let refused = |change: &dyn Fn(&mut SharedRuns)| {
        let mut forged = sound.clone();
        change(&mut forged);
        let forged = SharedRuns::from_bytes(&forged.to_bytes().unwrap()).unwrap();
        RecordSorter::new(options().shared()).add_runs(&forged, &[]).is_err()
    };
    assert!(!refused(&|_| ()));
    let forgeries: [&dyn Fn(&mut SharedRuns); 8] = [
        &|runs| runs.files[0].name = format!("../{}", runs.files[0].name),
        &|runs| runs.files[0].len += 1,
        &|runs| runs.runs[0].file = 7,
        &|runs| runs.runs[0].entries = u64::MAX,
        &|runs| runs.runs[0].entries += 200,
        &|runs| runs.runs[0].groups = Some(vec![3, 3]),
        &|runs| match &mut runs.runs[0].stored {
            SharedStored::Sorted { samples, .. } => samples[0].entry = u64::MAX,
            SharedStored::Buckets { .. } => panic!("sorted runs"),
        },
        &|runs| match &mut runs.runs[0].stored {
            SharedStored::Sorted { records_at, .. } => *records_at = u64::MAX - 3,
            SharedStored::Buckets { .. } => panic!("sorted runs"),
        },
    ];
    for (number, forge) in forgeries.into_iter().enumerate() {
        assert!(refused(forge), "forgery {number}");
    }
}
