//! Round-robin assignment of several partitions compared with its rule, applied to whole partitions.

use std::time::Duration;

use datafusion::error::Result;
use proptest::prelude::*;
use tempfile::tempdir;
use tokio::time::timeout;

use super::support::{Pace, Partitions, count, options, partitions, shards as written_shards, write};

/// Returns every shard's ids: round by round, in each round a block of every input in order. The inputs begin at shards that
/// are spread evenly.
fn expected(table: &Partitions, shards: usize) -> Vec<Vec<i64>> {
    let mut blocks = Vec::new();
    for (input, ids) in table.iter().enumerate() {
        let (mut rows, mut round, mut dealt_to_each) = (ids.as_slice(), 0, 0);
        while !rows.is_empty() {
            let len = (dealt_to_each / 32).clamp(1, 256);
            for place in 0..shards {
                let shard = (input * shards / table.len() + place) % shards;
                let (block, rest) = rows.split_at(len.min(rows.len()));
                blocks.push(((shard, round, input), block.to_vec()));
                rows = rest;
            }
            dealt_to_each += len;
            round += 1;
        }
    }
    blocks.sort();
    let mut expected = vec![Vec::new(); shards];
    for ((shard, ..), block) in blocks {
        expected[shard].extend(block);
    }
    expected
}

fn check(lengths: &[usize], shards: usize, pace: Pace) -> Result<()> {
    let table = partitions(lengths);
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let written = async { timeout(Duration::from_secs(60), write(&table, pace, options(&out, count(shards)))).await };
    runtime
        .block_on(written)
        .unwrap_or_else(|_| panic!("partitions wait for each other: {lengths:?} to {shards}, {pace:?}"))?;
    assert_eq!(written_shards(&out)?, expected(&table, shards));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn round_robin_assigns_rows_by_the_documented_rule(
        lengths in prop::collection::vec(prop_oneof![Just(0), 0..40usize, 0..6000usize], 1..6),
        shards in 1..20usize,
        batch_size in prop_oneof![Just(1), 1..300usize, Just(8192)],
        seed: u64,
    ) {
        check(&lengths, shards, Pace { batch_size, seed }).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

#[test]
fn round_robin_holds_back_partitions_that_are_far_ahead() -> Result<()> {
    for (lengths, shards) in [([9000, 100, 9000], 2), ([50, 9000, 9000], 3), ([9000, 9000, 1], 7)] {
        check(&lengths, shards, Pace { batch_size: 1, seed: 7 })?;
    }
    Ok(())
}

#[test]
fn round_robin_fills_all_shards_from_short_partitions() -> Result<()> {
    for (lengths, shards, expected) in
        [(vec![10; 64], 16, 40..=40), (vec![6; 2], 12, 1..=1), (vec![7; 33], 16, 14..=15)]
    {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
        runtime.block_on(write(&partitions(&lengths), Pace::default(), options(&out, count(shards))))?;
        let rows: Vec<_> = written_shards(&out)?.iter().map(Vec::len).collect();
        assert!(rows.iter().all(|rows| expected.contains(rows)), "{rows:?}");
    }
    Ok(())
}
