use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Returns the shard of every record, when the records arrive in runs of these lengths.
fn place(mut rule: ShardRule, lens: &[usize], runs: &[usize]) -> Vec<usize> {
    let mut shards = Vec::new();
    let mut rest = lens;
    let mut runs = runs.iter().copied().cycle();
    while !rest.is_empty() {
        let (run, later) = rest.split_at(runs.next().unwrap_or(1).clamp(1, rest.len()));
        let ends: Vec<_> = run
            .iter()
            .scan(0, |end, len| {
                *end += len;
                Some(*end)
            })
            .collect();
        let mut next = 0;
        for Piece { shard, records } in rule.place(run.len(), |record| ends[record]) {
            assert_eq!(records.start, next, "pieces follow one another");
            assert!(!records.is_empty());
            next = records.end;
            shards.extend(records.map(|_| shard));
        }
        assert_eq!(next, run.len(), "every record is placed");
        rest = later;
    }
    shards
}

fn count(shards: usize) -> NonZeroUsize {
    NonZeroUsize::new(shards).unwrap()
}

/// Implements the documented rule one record at a time.
fn cut_one_by_one(max_bytes: u64, max_rows: u64, lens: &[usize]) -> Vec<usize> {
    let (mut shard, mut bytes, mut rows) = (0, 0, 0);
    let place = |&len: &usize| {
        if rows > 0 && (bytes + len as u64 > max_bytes || rows == max_rows) {
            (shard, bytes, rows) = (shard + 1, 0, 0);
        }
        bytes += len as u64;
        rows += 1;
        shard
    };
    lens.iter().map(place).collect()
}

/// Implements the documented rule one round at a time.
fn deal_round_by_round(shards: usize, rows: usize) -> Vec<usize> {
    let mut dealt = Vec::new();
    let mut rows_per_shard = 0;
    while dealt.len() < rows {
        let block = (rows_per_shard / 32).clamp(1, 256);
        dealt.extend((0..shards).flat_map(|shard| std::iter::repeat_n(shard, block)));
        rows_per_shard += block;
    }
    dealt.truncate(rows);
    dealt
}

proptest! {
    #[test]
    fn sharding_by_bytes_equals_cutting_record_by_record(max in 0u64..400, lens in vec(16usize..200, 0..200), runs in vec(1usize..50, 1..5)) {
        let expected = cut_one_by_one(max, u64::MAX, &lens);
        prop_assert_eq!(place(ShardRule::new(Sharding::Bytes(max)), &lens, &runs), expected);
    }

    #[test]
    fn sharding_by_rows_equals_cutting_record_by_record(max in 1u64..40, rows in 0usize..200, runs in vec(1usize..50, 1..5)) {
        let lens = vec![16; rows];
        let expected = cut_one_by_one(u64::MAX, max, &lens);
        prop_assert_eq!(place(ShardRule::new(Sharding::Rows(max)), &lens, &runs), expected);
    }

    #[test]
    fn round_robin_in_blocks_equals_round_robin_by_row(shards in 1usize..20, rows in 0usize..20_000, runs in vec(1usize..9_000, 1..5)) {
        let rule = ShardRule::new(Sharding::Count(count(shards)));
        prop_assert_eq!(place(rule, &vec![16; rows], &runs), deal_round_by_round(shards, rows));
    }

    #[test]
    fn ranges_are_even_and_in_order(shards in 1usize..20, rows in 0usize..2_000, runs in vec(1usize..900, 1..5)) {
        let placed = place(ShardRule::Ranges(ShardRanges::new(count(shards), rows as u64)), &vec![16; rows], &runs);
        prop_assert!(placed.is_sorted());
        let sizes = (0..shards).map(|shard| placed.iter().filter(|&&placed| placed == shard).count());
        let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
        prop_assert!(most - least <= 1, "{} to {} rows", least, most);
    }
}

#[test]
fn round_robin_shards_differ_by_at_most_5_percent() {
    for shards in [1, 2, 3, 7, 16, 64, 500] {
        let mut deal = ShardDeal::new(count(shards));
        let mut sizes = vec![0; shards];
        let mut rows = 0;
        // Shards differ most where a block ends.
        while rows < 2_000_000.min(20_000 * shards) {
            let block = deal.deal_block(usize::MAX);
            sizes[block.shard] += block.rows;
            rows += block.rows;
            let mean = rows as f64 / shards as f64;
            if mean >= 20.0 {
                let (least, most) = (sizes[shards - 1] as f64, sizes[0] as f64);
                assert!(most <= 1.05 * mean && least >= 0.95 * mean, "{rows} rows, {shards} shards: {least} to {most}");
            }
        }
        assert_eq!((sizes.iter().max(), sizes.iter().min()), (sizes.first(), sizes.last()));
    }
}

#[test]
fn fewer_rows_than_shards_give_one_row_each() {
    let pieces = ShardDeal::new(count(10)).deal(4);
    let expected: Vec<_> = (0..4).map(|row| Piece { shard: row, records: row..row + 1 }).collect();
    assert_eq!(pieces, expected);
}

#[test]
fn more_rows_than_expected_go_to_the_last_range() {
    let mut ranges = ShardRanges::new(count(2), 2);
    let pieces = ranges.place(5);
    assert_eq!(pieces, [Piece { shard: 0, records: 0..1 }, Piece { shard: 1, records: 1..5 }]);
}

#[test]
fn a_limit_of_zero_gives_every_record_a_shard() {
    for sharding in [Sharding::Bytes(0), Sharding::Rows(0)] {
        assert_eq!(place(ShardRule::new(sharding), &[20, 20, 20], &[3]), [0, 1, 2]);
    }
}
