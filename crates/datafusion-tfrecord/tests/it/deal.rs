//! `DealExec` compared with its rule, applied to whole partitions.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, UInt32Type};
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect_partitioned};
use datafusion_tfrecord::DealExec;
use proptest::prelude::*;

use super::support::{Pace, Partitions, partitions, session};

/// Returns every shard's ids: round by round, in each round a block of every input in order.
fn expected(table: &Partitions, shards: usize) -> Vec<Vec<i64>> {
    let mut blocks = Vec::new();
    for (input, ids) in table.iter().enumerate() {
        let (mut rows, mut round, mut dealt_to_each) = (ids.as_slice(), 0, 0);
        while !rows.is_empty() {
            let len = (dealt_to_each / 32).clamp(1, 256);
            for shard in 0..shards {
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

/// Returns every shard's ids, as the node assigns them, and the partition that each came from.
async fn dealt(table: &Partitions, shards: usize, pace: Pace) -> Result<Vec<(Option<usize>, Vec<i64>)>> {
    let context = session(table, pace)?;
    let input = context.sql("SELECT id FROM t").await?.create_physical_plan().await?;
    let deal: Arc<dyn ExecutionPlan> = Arc::new(DealExec::new(input, NonZeroUsize::new(shards).expect("not zero")));
    assert_eq!(deal.output_partitioning().partition_count(), table.len().min(shards));
    let mut dealt = vec![(None, Vec::new()); shards];
    for (partition, batches) in collect_partitioned(deal, context.task_ctx()).await?.into_iter().enumerate() {
        for batch in batches {
            let numbers = batch.column(1).as_primitive::<UInt32Type>().values();
            for (id, shard) in batch.column(0).as_primitive::<Int64Type>().values().iter().zip(numbers) {
                let (owner, ids) = &mut dealt[*shard as usize];
                assert_eq!(*owner.get_or_insert(partition), partition, "a shard in two partitions");
                ids.push(*id);
            }
        }
    }
    Ok(dealt)
}

fn check(lengths: &[usize], shards: usize, pace: Pace) -> Result<()> {
    let table = partitions(lengths);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    let dealt = runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), dealt(&table, shards, pace)).await })
        .unwrap_or_else(|_| panic!("inputs and outputs wait for each other: {lengths:?} to {shards}, {pace:?}"))?;
    let (owners, ids): (Vec<_>, Vec<_>) = dealt.into_iter().unzip();
    assert_eq!(ids, expected(&table, shards));
    assert!(owners.iter().flatten().is_sorted(), "{owners:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn rows_go_where_the_rule_says(
        lengths in prop::collection::vec(prop_oneof![Just(0), 0..40usize, 0..6000usize], 1..6),
        shards in 1..20usize,
        batch_size in prop_oneof![Just(1), 1..300usize, Just(8192)],
        seed: u64,
    ) {
        check(&lengths, shards, Pace { batch_size, seed }).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

#[test]
fn far_more_rows_than_the_channels_hold() -> Result<()> {
    // With batches of one row, inputs meet full channels in every round.
    for (lengths, shards) in [([9000, 100, 9000], 2), ([50, 9000, 9000], 3), ([9000, 9000, 1], 7)] {
        check(&lengths, shards, Pace { batch_size: 1, seed: 7 })?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_output_is_not_in_the_way_of_the_next_run() -> Result<()> {
    let table = partitions(&[3000, 3000]);
    let context = session(&table, Pace::default())?;
    let input = context.sql("SELECT id FROM t").await?.create_physical_plan().await?;
    let deal: Arc<dyn ExecutionPlan> = Arc::new(DealExec::new(input, NonZeroUsize::new(2).expect("not zero")));
    drop(deal.execute(0, context.task_ctx())?);
    let rows: usize =
        collect_partitioned(deal, context.task_ctx()).await?.iter().flatten().map(|batch| batch.num_rows()).sum();
    assert_eq!(rows, 6000);
    Ok(())
}
