//! Equal records, and whether a shuffle is one.

use super::*;

/// What a chi-squared of 99 degrees of freedom is above once in a million times.
const CHI_SQUARED_99: f64 = 181.0;

fn hashed(seed: u64, payload: &[u8]) -> Record {
    let key = xxhash_rust::xxh3::xxh3_64_with_seed(payload, seed);
    Record::new(SortKey::new(0, key), payload)
}

/// The payloads in the order in which they come out.
fn shuffled(records: &[Record], seed: u64, delivery: &Delivery) -> Vec<Vec<u8>> {
    let cut = Cut::new(Sharding::Count(NonZeroUsize::new(7).unwrap()));
    let shards = sort(records, EqualRecords::Spread { seed }, cut, delivery).unwrap();
    let bytes = shards.into_iter().flat_map(|(_, bytes)| bytes).collect::<Vec<_>>();
    let mut reader = tfrecord_framing::RecordReader::new(bytes.as_slice());
    let mut payloads = Vec::new();
    let mut payload = Vec::new();
    while reader.read_record(&mut payload).unwrap() {
        payloads.push(payload.clone());
    }
    payloads
}

fn chi_squared(cells: &[[u64; 10]; 10]) -> f64 {
    let expected = cells.iter().flatten().sum::<u64>() as f64 / 100.0;
    cells.iter().flatten().map(|&found| (found as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn spread_position_is_independent_of_input_position() {
    let rows = 100_000u32;
    for seed in [0, 1, 42] {
        let records: Vec<_> = (0..rows).map(|row| hashed(seed, &row.to_le_bytes())).collect();
        let shuffled = shuffled(&records, seed, &spilling(2, 7000, 64 << 10));
        let mut cells = [[0; 10]; 10];
        for (place, payload) in shuffled.iter().enumerate() {
            let row = u32::from_le_bytes(payload.as_slice().try_into().unwrap());
            cells[(row / (rows / 10)) as usize][place / (rows as usize / 10)] += 1;
        }
        assert_eq!(shuffled.len(), rows as usize);
        assert!(chi_squared(&cells) < CHI_SQUARED_99, "{}", chi_squared(&cells));
    }
}

#[test]
fn few_distinct_records_are_spread_evenly() {
    let rows = 100_000;
    let seed = 5;
    for distinct in [2u8, 10] {
        let records: Vec<_> = (0..rows).map(|row| hashed(seed, &[(row % usize::from(distinct)) as u8])).collect();
        let shuffled = shuffled(&records, seed, &spilling(2, 9000, 64 << 10));
        // How often each record is in each hundredth of the places.
        for value in 0..distinct {
            let mut found = [[0; 10]; 10];
            for (place, _) in shuffled.iter().enumerate().filter(|(_, payload)| payload.as_slice() == [value]) {
                let part = place * 100 / rows;
                found[part / 10][part % 10] += 1;
            }
            assert!(chi_squared(&found) < CHI_SQUARED_99, "{}", chi_squared(&found));
        }
        // Neighbours are equal as often as chance has it: within five standard deviations.
        let neighbours = shuffled.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64;
        let chance = 1.0 / f64::from(distinct);
        let (mean, deviation) = (rows as f64 * chance, (rows as f64 * chance * (1.0 - chance)).sqrt());
        assert!((neighbours - mean).abs() < 5.0 * deviation, "{neighbours} of {mean}");
    }
}

#[test]
fn another_seed_gives_another_order_of_equal_records_too() {
    let records: Vec<_> = (0..1000u32).map(|row| hashed(0, &[(row % 2) as u8])).collect();
    let one = shuffled(&records, 1, &spilling(1, 100, 1 << 10));
    assert_eq!(one, shuffled(&records, 1, &spilling(3, 17, 1 << 20)));
    assert_ne!(one, shuffled(&records, 2, &spilling(1, 100, 1 << 10)));
}

#[test]
fn equal_records_are_stored_once_in_a_run() {
    let record = Record { key: SortKey::new(1, 7), ..hashed(0, &[1; 1000]) };
    let delivery = spilling(1, 1000, 64 << 10);
    let sorter = RecordSorter::new(options(EqualRecords::Spread { seed: 0 }, &delivery));
    push_all(&sorter, &vec![record; 5000], &delivery).unwrap();
    // An entry with its count, and the end of a block.
    assert_eq!(sorter.stats(), SpillStats { files: 1, runs: 5, bytes: 5 * (1016 + 22 + 12) });
}

/// Keys that do not spread are found out, before records go to buckets or there, and records are sorted from then on: those
/// that have been spilled before, those in memory, be they few or many, and those to come.
#[test]
fn few_distinct_records_leave_the_buckets() {
    struct Case {
        spill: bool,
        unique: u32,
        distinct: u32,
        in_buckets: u64,
    }
    for case in [
        Case { spill: true, unique: 5000, distinct: 3, in_buckets: 70_000 },
        Case { spill: true, unique: 5000, distinct: 5000, in_buckets: 70_000 },
        Case { spill: false, unique: 0, distinct: 3, in_buckets: 0 },
        Case { spill: false, unique: 57_000, distinct: 3, in_buckets: 0 },
        Case { spill: false, unique: 140_000, distinct: 1, in_buckets: 154_000 },
    ] {
        let Case { spill, unique, distinct, in_buckets } = case;
        let number = |row| if row < unique { row } else { unique + row % distinct };
        let records: Vec<_> =
            (0..unique.max(30_000) + 60_000).map(|row| hashed(0, &number(row).to_le_bytes())).collect();
        // What comes first is sorted, and goes to the buckets when more comes.
        let delivery = if spill {
            Delivery { pushes: vec![(0, 5000, false), (0, 5000, true)], ..spilling(1, 1, 512 << 10) }
        } else {
            Delivery { pushes: vec![(0, 14_000, false)], ..spilling(1, 1, 1 << 20) }
        };
        check(&records, EqualRecords::Spread { seed: 2 }, Cut::new(Sharding::Rows(50_000)), &delivery);
        let sorter = RecordSorter::new(options(EqualRecords::Spread { seed: 0 }, &delivery));
        push_all(&sorter, &records, &delivery).unwrap();
        let sorted = if spill { 2 * u64::from(distinct) } else { 0 };
        let bytes = sorter.stats().bytes;
        // A record of 20 bytes each with an entry, and the ends of blocks.
        let least = in_buckets * 32;
        assert!((least..=least + sorted * 44 + 10_000).contains(&bytes), "{bytes}: {sorted} {in_buckets}");
    }
}

/// Enough copies of one record that several threads make them, and spill them.
#[test]
fn all_records_are_equal() {
    let records = vec![hashed(0, b"heavy"); 60_000];
    for copy_bytes in [0, 1 << 20, 64 << 20] {
        let delivery = Delivery { copy_bytes, ..spilling(2, 20_000, 64 << 10) };
        check(&records, EqualRecords::Spread { seed: 9 }, Cut::new(Sharding::Bytes(100_000)), &delivery);
    }
}

#[test]
fn spread_handles_records_that_occur_twice() {
    let records: Vec<_> = (0..9000u32).map(|row| hashed(0, &(row % 6000).to_le_bytes())).collect();
    for delivery in [spilling(2, 500, 8 << 10), Delivery { pushes: vec![(0, 1000, false)], ..spilling(1, 1, 8 << 10) }]
    {
        check(&records, EqualRecords::Spread { seed: 9 }, Cut::new(Sharding::Rows(1234)), &delivery);
    }
}
