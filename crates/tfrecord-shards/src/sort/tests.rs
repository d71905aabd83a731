//! The sorter against an oracle that has everything in memory, and against disks that fail.

mod buckets;
mod faults;
mod oracle;
mod shared;
mod spread;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use self::oracle::{Cut, Record, example, expected_shards};
use super::*;

/// How records come to the sorter, none of which may show.
#[derive(Debug, Clone)]
struct Delivery {
    /// Which input takes the next buffer, how many records are in it, and whether the input is spilled then.
    pushes: Vec<(usize, usize, bool)>,
    /// From which record on they are kept compact, whether anything is spilled or not.
    compact_from: usize,
    chunk_bytes: usize,
    copy_bytes: usize,
}

fn options(equal: EqualRecords, delivery: &Delivery) -> SorterOptions {
    SorterOptions::new(Arc::new(TempDirSpill::default()))
        .with_equal(equal)
        .with_chunk_bytes(delivery.chunk_bytes)
        .with_copy_bytes(delivery.copy_bytes)
}

fn push_all(sorter: &RecordSorter, records: &[Record], delivery: &Delivery) -> Result<()> {
    let mut inputs: BTreeMap<usize, SorterInput> = BTreeMap::new();
    let mut pushes = delivery.pushes.iter().cycle();
    let mut rest = records;
    while !rest.is_empty() {
        let &(input, len, spill) = pushes.next().unwrap();
        if records.len() - rest.len() >= delivery.compact_from {
            sorter.keep_compact();
        }
        let (now, later) = rest.split_at(len.clamp(1, rest.len()));
        rest = later;
        let mut buffer = RecordBuffer::default();
        now.iter().for_each(|record| buffer.push_frame(&record.frame));
        let input = inputs.entry(input).or_insert_with(|| sorter.input());
        let grown = input.push(&now.iter().map(|record| record.key).collect::<Vec<_>>(), &buffer)?;
        assert!(grown <= input.memory());
        if spill {
            let held = input.record_memory();
            let spilled = input.spill()?;
            assert!(spilled.rows > 0 && spilled.spare <= held);
            assert_eq!(input.record_memory(), 0);
        }
    }
    inputs.into_values().try_for_each(SorterInput::finish)
}

/// The bytes of every shard, all tasks read and their blocks held against the plan.
fn shards(plan: &ShardPlan) -> Result<Vec<(PlannedShard, Vec<u8>)>> {
    read_all(plan, (0..plan.tasks()).rev(), ShardPlan::read)
}

/// The same, of tasks in this order.
fn read_all(
    plan: &ShardPlan,
    tasks: impl Iterator<Item = usize>,
    read: impl Fn(&ShardPlan, usize) -> TaskRecords,
) -> Result<Vec<(PlannedShard, Vec<u8>)>> {
    let mut shards: Vec<_> = plan.shards().iter().map(|shard| (*shard, Vec::new())).collect();
    let mut next = 0;
    for task in tasks {
        let range = plan.task_shards(task);
        let mut last = range.start;
        let mut records = read(plan, task);
        while let Some(block) = records.next() {
            let block = block?;
            let mut record = 0;
            assert!(!block.records.is_empty());
            for piece in &block.pieces {
                assert!(range.contains(&piece.shard) && piece.shard >= last && piece.records.start == record);
                assert!(!piece.records.is_empty());
                last = piece.shard;
                record = piece.records.end;
                shards[piece.shard].1.extend_from_slice(block.records.slice(piece.records.clone()));
            }
            assert_eq!(record, block.records.len());
            records.recycle(block.records);
        }
        next += range.len();
    }
    assert_eq!(next, shards.len(), "every shard is of one task");
    assert!(plan.task_shards(plan.tasks()).is_empty());
    Ok(shards)
}

fn sort(
    records: &[Record],
    equal: EqualRecords,
    cut: Cut,
    delivery: &Delivery,
) -> Result<Vec<(PlannedShard, Vec<u8>)>> {
    let sorter = RecordSorter::new(options(equal, delivery));
    push_all(&sorter, records, delivery)?;
    let sorted = sorter.finish()?;
    let mut groups: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for record in records {
        let totals = groups.entry(record.key.group()).or_default();
        *totals = (totals.0 + 1, totals.1 + record.frame.len() as u64);
    }
    let groups: Vec<_> = groups.into_iter().map(|(group, (rows, bytes))| GroupTotals { group, rows, bytes }).collect();
    assert_eq!(sorted.groups(), groups);
    let plan = sorted.cut(|totals| cut.sharding(totals.group))?;
    let shards = shards(&plan)?;
    // Once more, in some order of tasks that are next to one another, as threads take them.
    let mut tasks: Vec<_> = (0..plan.tasks()).collect();
    tasks.chunks_mut(3).for_each(<[usize]>::reverse);
    assert_eq!(read_all(&plan, tasks.into_iter(), ShardPlan::read_once)?, shards);
    let mut files = plan.0.chunks.set.runs.iter().filter_map(|run| run.file());
    assert!(plan.tasks() == 0 || files.all(|file| !file.exists()), "all files have gone");
    Ok(shards)
}

fn check(records: &[Record], equal: EqualRecords, cut: Cut, delivery: &Delivery) {
    let found = sort(records, equal, cut, delivery).unwrap();
    let expected = expected_shards(records, equal, cut);
    let planned: Vec<_> = found.iter().map(|(shard, _)| *shard).collect();
    let wanted: Vec<_> = expected.iter().map(|(shard, _)| *shard).collect();
    assert_eq!(planned, wanted);
    for ((shard, found), (_, expected)) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{shard:?}");
    }
}

fn delivery() -> impl Strategy<Value = Delivery> {
    let pushes = vec((0..4usize, 1..60usize, any::<bool>()), 1..8);
    let compact_from = select(vec![0, 50, usize::MAX]);
    (pushes, compact_from, select(vec![1, 40, 400, 3000, 8 << 20]), select(vec![0, 500, 64 << 20])).prop_map(
        |(pushes, compact_from, chunk_bytes, copy_bytes)| Delivery { pushes, compact_from, chunk_bytes, copy_bytes },
    )
}

fn cuts() -> impl Strategy<Value = Cut> {
    prop_oneof![
        (1..12usize).prop_map(|count| Cut::new(Sharding::Count(NonZeroUsize::new(count).unwrap()))),
        (0..40u64).prop_map(|rows| Cut::new(Sharding::Rows(rows))),
        (0..900u64).prop_map(|bytes| Cut::new(Sharding::Bytes(bytes))),
    ]
}

/// Payloads of few or many distinct values, of lengths that differ or do not.
fn payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop_oneof![
        vec(vec(0..2u8, 0..3), 0..300),
        vec(vec(any::<u8>(), 4..40), 0..300),
        vec(vec(0..2u8, 8), 0..300),
        (vec(any::<u8>(), 0..2000), 0..150usize).prop_map(|(payload, count)| vec![payload; count]),
        vec((vec(0..2u8, 0..3), 0..3u32), 0..300).prop_map(examples),
        vec((vec(any::<u8>(), 4..40), 0..2u32), 0..300).prop_map(examples),
        (vec((vec(any::<u8>(), 0..180), 0..4u32), 0..100), vec(vec(any::<u8>(), 0..40), 0..100))
            .prop_map(|(some, others)| [examples(some), others].concat()),
    ]
}

fn examples(values: Vec<(Vec<u8>, u32)>) -> Vec<Vec<u8>> {
    values.iter().map(|(text, number)| example(text, *number)).collect()
}

/// What is made of a hash to get a key: some of these collide.
const KEYS: [fn(u64) -> u64; 5] = [|hash| hash, |hash| hash & 3, |_| 0, |_| u64::MAX, |hash| hash & (7 << 40)];

/// What is made of a hash to get a group.
const GROUPS: [fn(u64) -> u32; 4] = [|_| 0, |hash| (hash % 3) as u32, |hash| hash as u32, |_| u32::MAX];

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever comes in whatever way: the shards are those of the oracle, byte for byte.
    #[test]
    fn sort_matches_sorting_in_memory(
        payloads in payloads(),
        key in select(KEYS.to_vec()),
        group in select(GROUPS.to_vec()),
        equal in prop_oneof![Just(EqualRecords::Keep), any::<u64>().prop_map(|seed| EqualRecords::Spread { seed })],
        cut in cuts(),
        delivery in delivery(),
    ) {
        let records: Vec<_> = payloads.iter().map(|payload| Record::hashed(payload, key, group)).collect();
        check(&records, equal, cut, &delivery);
    }

    /// Keys that tell the order of the input keep it, in every group.
    #[test]
    fn keeps_the_order_of_rows(rows in vec((0..3u32, 0..30usize), 0..400), cut in cuts(), delivery in delivery()) {
        let records: Vec<_> = (0..)
            .zip(&rows)
            .map(|(row, &(group, len))| Record::new(SortKey::new(group, 7 << 44 | row), &vec![row as u8; len]))
            .collect();
        check(&records, EqualRecords::Keep, cut, &delivery);
    }
}

/// Spills everything, in this many inputs, at every push.
fn spilling(inputs: usize, rows: usize, chunk_bytes: usize) -> Delivery {
    let pushes = (0..inputs).map(|input| (input, rows, true)).collect();
    Delivery { pushes, compact_from: usize::MAX, chunk_bytes, copy_bytes: 1 << 20 }
}

#[test]
fn many_runs_take_few_files() {
    let records: Vec<_> = (0..3000u32).map(|row| Record::hashed(&row.to_le_bytes(), |hash| hash, |_| 0)).collect();
    let delivery = spilling(2, 3, 8 << 10);
    let sorter = RecordSorter::new(options(EqualRecords::Keep, &delivery));
    push_all(&sorter, &records, &delivery).unwrap();
    let frames: u64 = records.iter().map(|record| record.frame.len() as u64).sum();
    // Three entries of 14 bytes, and the end of a block.
    assert_eq!(sorter.stats(), SpillStats { files: 2, runs: 1000, bytes: frames + 1000 * (3 * 14 + 12) });
    let cut = Cut::new(Sharding::Bytes(2000));
    let found = shards(&sorter.finish().unwrap().cut(|_| cut.sharding(0)).unwrap()).unwrap();
    assert_eq!(found, expected_shards(&records, EqualRecords::Keep, cut));
}

/// What all records have in common takes no room on the disk.
#[test]
fn examples_are_spilled_without_their_names() {
    let text = |row: u32| format!("row {row}").into_bytes();
    let payloads: Vec<_> = (0..10_000).map(|row| example(&text(row), row % 5)).collect();
    let records: Vec<_> = payloads.iter().map(|payload| Record::hashed(payload, |hash| hash, |_| 0)).collect();
    let delivery = spilling(2, 1000, 64 << 10);
    let sorter = RecordSorter::new(options(EqualRecords::Keep, &delivery));
    push_all(&sorter, &records, &delivery).unwrap();
    // Until it was known that there are more than fit in memory, they were kept as they are.
    let frames: u64 = records.iter().take(1000).map(|record| record.frame.len() as u64).sum();
    let values =
        (1000..10_000).map(|row| 4 + 1 + text(row).len() as u64 + if row % 5 == 0 { 1 } else { 2 }).sum::<u64>();
    let entries = 10 * (1000 * 14 + 1000u64.div_ceil(128) * 12);
    assert_eq!(sorter.stats().bytes, frames + values + entries);
    let cut = Cut::new(Sharding::Bytes(100_000));
    let found = shards(&sorter.finish().unwrap().cut(|_| cut.sharding(0)).unwrap()).unwrap();
    assert_eq!(found, expected_shards(&records, EqualRecords::Keep, cut));
}

/// Files go one after the other, as their ranges of keys are read.
#[test]
fn sort_deletes_files_once_read() {
    let records: Vec<_> = (0..20_000u32).map(|row| Record::hashed(&row.to_le_bytes(), |hash| hash, |_| 0)).collect();
    let delivery = spilling(1, 5000, 20 << 10);
    let sorter = RecordSorter::new(options(EqualRecords::Keep, &delivery));
    push_all(&sorter, &records, &delivery).unwrap();
    assert_eq!(sorter.stats().files, 8);
    let plan = sorter.finish().unwrap().cut(|_| Sharding::Count(NonZeroUsize::new(16).unwrap())).unwrap();
    let there = || plan.0.chunks.set.runs.iter().filter_map(|run| run.file()).filter(|file| file.exists()).count();
    let mut left = Vec::new();
    for task in 0..plan.tasks() {
        plan.read_once(task).for_each(|block| assert!(block.is_ok()));
        left.push(there());
    }
    // Four runs in each file. The bounds are those of the first run, of which others have a little more or less.
    assert!(left[plan.tasks() / 2] <= 20 && left[plan.tasks() - 1] == 0, "{left:?}");
    let error = plan.read(0).next().unwrap().unwrap_err();
    assert!(error.to_string().contains("read again"), "{error}");
}

#[test]
fn sort_handles_groups_of_one_row() {
    let records: Vec<_> = (0..20_000u32).map(|row| Record::new(SortKey::new(row * 7, 1), &row.to_le_bytes())).collect();
    let delivery = spilling(3, 5000, 1 << 16);
    check(&records, EqualRecords::Keep, Cut::new(Sharding::Count(NonZeroUsize::MIN)), &delivery);
    check(&records, EqualRecords::Spread { seed: 3 }, Cut::new(Sharding::Bytes(10)), &delivery);
}

#[test]
fn long_records_among_short_ones() {
    let payload = |row: usize| vec![row as u8; if row % 50 == 7 { 300_000 } else { 10 }];
    let records: Vec<_> = (0..400).map(|row| Record::hashed(&payload(row % 200), |hash| hash, |_| 0)).collect();
    for delivery in [spilling(2, 30, 1 << 10), spilling(2, 100, 1 << 20)] {
        check(&records, EqualRecords::Spread { seed: 1 }, Cut::new(Sharding::Bytes(500_000)), &delivery);
        check(&records, EqualRecords::Keep, Cut::new(Sharding::Rows(90)), &delivery);
    }
}

#[test]
fn sort_tasks_cover_about_a_chunk_of_shards() {
    let records: Vec<_> = (0..5000u32).map(|row| Record::hashed(&row.to_le_bytes(), |hash| hash, |_| 0)).collect();
    let delivery = spilling(1, 1000, 10 << 10);
    let sorter = RecordSorter::new(options(EqualRecords::Keep, &delivery));
    push_all(&sorter, &records, &delivery).unwrap();
    let plan = sorter.finish().unwrap().cut(|_| Sharding::Rows(10)).unwrap();
    // Rows of 20 framed bytes: shards of 200.
    assert_eq!(plan.shards().len(), 500);
    assert_eq!(plan.task_shards(0), 0..52);
    assert_eq!(plan.tasks(), 10);
}

#[test]
fn tasks_can_be_read_at_the_same_time() {
    let records: Vec<_> = (0..20_000u32).map(|row| Record::hashed(&row.to_le_bytes(), |hash| hash, |_| 0)).collect();
    let delivery = spilling(2, 1000, 20 << 10);
    let sorter = RecordSorter::new(options(EqualRecords::Keep, &delivery));
    push_all(&sorter, &records, &delivery).unwrap();
    let cut = Cut::new(Sharding::Count(NonZeroUsize::new(16).unwrap()));
    let plan = sorter.finish().unwrap().cut(|_| cut.sharding(0)).unwrap();
    let alone = shards(&plan).unwrap();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| shards(&plan).unwrap())).collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), alone);
        }
    });
    assert_eq!(alone, expected_shards(&records, EqualRecords::Keep, cut));
}

#[test]
fn sort_accepts_no_records() {
    let delivery = spilling(1, 1, 1 << 20);
    let sorter = RecordSorter::new(options(EqualRecords::Spread { seed: 0 }, &delivery));
    let mut input = sorter.input();
    input.push(&[], &RecordBuffer::default()).unwrap();
    assert_eq!(input.spill().unwrap().rows, 0);
    input.finish().unwrap();
    let sorted = sorter.finish().unwrap();
    assert!(sorted.groups().is_empty());
    let plan = sorted.cut(|_| Sharding::Rows(1)).unwrap();
    assert_eq!((plan.shards().len(), plan.tasks()), (0, 0));
    assert!(plan.read(0).next().is_none());
}
