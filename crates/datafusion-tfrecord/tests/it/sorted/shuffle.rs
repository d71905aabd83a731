//! Shuffled sets: a function of the rows and the seed, uniform, and cut exactly.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion_tfrecord::WriteOptions;
use tempfile::tempdir;
use tfrecord_framing::{Compression, RecordReader};
use tfrecord_shards::{Manifest, ShardedWriterBuilder, Sharding};

use super::super::support::{
    Pace, Partitions, batch, count, external, memory_is_given_back, options, plan, run, session, shards,
};
use super::support::{counted, small_session, tree};

/// The same rows in so many partitions, in another order for each number.
fn spread(rows: i64, partitions: usize) -> Partitions {
    let mut table = vec![Vec::new(); partitions];
    for row in 0..rows {
        // 7919 is prime and divides no number of rows here.
        let id = if partitions > 1 { (row * 7919 + partitions as i64) % rows } else { row };
        table[row as usize % partitions].push(id);
    }
    table
}

fn shuffled(options: WriteOptions, seed: u64) -> WriteOptions {
    WriteOptions { shuffle: Some(seed), ..options }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_depend_on_rows_and_seed_alone() -> Result<()> {
    const ROWS: i64 = 20_000;
    for (sharding, compression) in [
        (count(5), Compression::None),
        (Sharding::Rows(2700), Compression::Gzip),
        (Sharding::Bytes(100_000), Compression::None),
    ] {
        let mut first = None;
        for (partitions, batch_size, threads, memory) in [
            (1, 8192, 1, None),
            (2, 128, 2, None),
            (3, 8192, 1, Some(600 << 10)),
            (7, 128, 2, Some(600 << 10)),
            (1, 128, 2, Some(600 << 10)),
        ] {
            let dir = tempdir()?;
            let out = dir.path().join("out");
            let pace = Pace { batch_size, seed: partitions as u64 };
            let table = spread(ROWS, partitions);
            let context = match memory {
                Some(memory) => small_session(&table, pace, memory)?,
                None => session(&table, pace)?,
            };
            let options = WriteOptions { compression, threads: NonZeroUsize::new(threads), ..options(&out, sharding) };
            let plan = plan(&context, "SELECT * FROM t", shuffled(options, 7)).await?;
            let manifest = run(&context, plan.clone()).await?;
            assert_eq!(counted(&plan, "spill_count") > 0, memory.is_some(), "{partitions} partitions");
            assert_eq!((manifest.seed, manifest.write_partitions), (Some(7), 1));
            let files = tree(&out)?;
            let first = first.get_or_insert_with(|| files.clone());
            assert!(*first == files, "{sharding:?}: {partitions} partitions differ from one");
        }
    }
    Ok(())
}

/// The library's writer, which has no engine: the same function of the rows and the seed.
#[tokio::test(flavor = "multi_thread")]
async fn shuffle_of_the_library_equals_that_of_the_engine() -> Result<()> {
    let table = spread(20_000, 2);
    let rows = batch(&table.concat())?;
    let hosts = Sharding::Hosts(NonZeroUsize::MIN);
    for sharding in [count(5), Sharding::Rows(2700), Sharding::Bytes(100_000), hosts] {
        let dir = tempdir()?;
        let (of_engine, of_library) = (dir.path().join("engine"), dir.path().join("library"));
        let context = small_session(&table, Pace::default(), 600 << 10)?;
        let options = shuffled(options(&of_engine, sharding), 7);
        let engine = run(&context, plan(&context, "SELECT * FROM t", options).await?).await?;
        let builder = ShardedWriterBuilder::new(rows.schema()).with_sharding(sharding).with_shuffle(7);
        let mut writer = builder.with_sort_memory(1 << 20).build(&of_library).map_err(external)?;
        writer.write(&rows).map_err(external)?;
        let library = writer.finish().map_err(external)?;
        assert_eq!((&library.shards, library.seed), (&engine.shards, engine.seed));
        assert!(tree(&of_library)? == tree(&of_engine)?, "{sharding:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn shuffle_keeps_every_row_and_depends_on_the_seed() -> Result<()> {
    let mut orders = Vec::new();
    for seed in [0, 1, u64::MAX] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let context = session(&spread(3000, 2), Pace::default())?;
        run(&context, plan(&context, "SELECT * FROM t", shuffled(options(&out, count(4)), seed)).await?).await?;
        let ids = shards(&out)?.concat();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..3000).collect::<Vec<_>>());
        orders.push(ids);
    }
    for (first, second) in [(0, 1), (0, 2), (1, 2)] {
        let same = orders[first].iter().zip(&orders[second]).filter(|(first, second)| first == second).count();
        // One is expected. Without a fixed seed, ten or more would occur once in ten million runs.
        assert!(same < 10, "{same} rows in the same place");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_are_exact_to_the_row_and_bounded_to_the_byte() -> Result<()> {
    let context = session(&spread(1003, 3), Pace::default())?;
    for asked in [1, 2, 7, 100, 1003, 1100] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let plan = plan(&context, "SELECT * FROM t", shuffled(options(&out, count(asked)), 1)).await?;
        let manifest = run(&context, plan).await?;
        let rows: Vec<_> = manifest.shards.iter().map(|shard| shard.rows as usize).collect();
        assert_eq!(rows.len(), asked);
        let (least, most) = (1003 / asked, 1003usize.div_ceil(asked));
        assert!(rows.iter().all(|rows| (least..=most).contains(rows)), "{asked}: {rows:?}");
        assert_eq!(rows.iter().sum::<usize>(), 1003);
    }
    for (bytes, least) in [(5000, 3000), (1, 1)] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let plan = plan(&context, "SELECT * FROM t", shuffled(options(&out, Sharding::Bytes(bytes)), 1)).await?;
        let manifest = run(&context, plan).await?;
        let (_, full) = manifest.shards.split_last().expect("shards");
        assert!(full.iter().all(|shard| shard.rows == 1 || shard.framed_bytes <= bytes));
        assert!(full.iter().all(|shard| shard.framed_bytes >= least));
        assert_eq!(manifest.totals.rows, 1003);
    }
    Ok(())
}

/// Pearson's statistic over where rows were and where they are, in ten parts each.
fn chi_squared(order: &[i64]) -> f64 {
    let part = |place: usize| place * 10 / order.len();
    let mut counts = [[0.0_f64; 10]; 10];
    for (place, id) in order.iter().enumerate() {
        counts[part(*id as usize)][part(place)] += 1.0;
    }
    let expected = order.len() as f64 / 100.0;
    counts.iter().flatten().map(|count| (count - expected).powi(2) / expected).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn shuffle_position_is_independent_of_input_position() -> Result<()> {
    const ROWS: i64 = 20_000;
    for seed in 0..3 {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let context = session(&vec![(0..ROWS).collect()], Pace::default())?;
        run(&context, plan(&context, "SELECT * FROM t", shuffled(options(&out, count(3)), seed)).await?).await?;
        let statistic = chi_squared(&shards(&out)?.concat());
        // 81 degrees of freedom: a mean of 81 and a deviation of 12.7; five of them to either side.
        assert!((18.0..145.0).contains(&statistic), "seed {seed}: {statistic}");
    }
    Ok(())
}

/// The payloads of all records, in the order of the shards.
fn payloads(out: &std::path::Path) -> Result<Vec<Vec<Vec<u8>>>> {
    let manifest = Manifest::read(out).map_err(external)?;
    let read = |path: &String| {
        let mut reader = RecordReader::new(std::fs::File::open(out.join(path))?);
        let (mut records, mut record) = (Vec::new(), Vec::new());
        while reader.read_record(&mut record).map_err(external)? {
            records.push(record.clone());
        }
        Ok(records)
    };
    manifest.shards.iter().map(|shard| read(&shard.path)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_one_boolean_are_shuffled_too() -> Result<()> {
    const ROWS: usize = 20_000;
    let mut first = None;
    for (partitions, memory) in [(1, usize::MAX), (4, 300 << 10)] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        // The first three in ten, one after the other.
        let values = |from: usize, to: usize| {
            let column: ArrayRef = Arc::new((from..to).map(|row| Some(row < ROWS * 3 / 10)).collect::<BooleanArray>());
            RecordBatch::try_from_iter([("is_it", column)])
        };
        let len = ROWS / partitions;
        let batches: Vec<_> =
            (0..partitions).map(|part| Ok(vec![values(part * len, (part + 1) * len)?])).collect::<Result<_>>()?;
        let context = small_session(&vec![vec![]; partitions], Pace::default(), memory)?;
        context.register_table("flags", Arc::new(MemTable::try_new(batches[0][0].schema(), batches)?))?;
        let plan = plan(&context, "SELECT * FROM flags", shuffled(options(&out, count(10)), 3)).await?;
        run(&context, plan).await?;
        let shards = payloads(&out)?;
        let is_true = |record: &Vec<u8>| record.last() == Some(&1);
        for shard in &shards {
            assert_eq!(shard.len(), ROWS / 10);
            let trues = shard.iter().filter(|record| is_true(record)).count() as f64;
            // Drawn without replacement: a mean of 600 and a deviation of 19.4; five of them to either side.
            assert!((trues - 600.0).abs() < 97.0, "{trues} of {}", shard.len());
        }
        let order: Vec<_> = shards.iter().flatten().map(is_true).collect();
        assert_eq!(order.iter().filter(|is_true| **is_true).count(), ROWS * 3 / 10);
        // Neighbours that differ: a mean of 0.42 of all and a deviation of about 60.
        let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64;
        assert!((changes - 0.42 * ROWS as f64).abs() < 300.0, "{changes}");
        assert!(*first.get_or_insert_with(|| order.clone()) == order);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn shuffle_of_no_rows_makes_the_requested_shards() -> Result<()> {
    for (sharding, expected) in [(count(3), 3), (Sharding::default(), 1), (Sharding::Rows(10), 1)] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let context = session(&vec![vec![], vec![]], Pace::default())?;
        run(&context, plan(&context, "SELECT * FROM t", shuffled(options(&out, sharding), 1)).await?).await?;
        assert_eq!(shards(&out)?, vec![Vec::<i64>::new(); expected]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_sharding_keeps_small_data_in_one_shard() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let hosts = Sharding::Hosts(NonZeroUsize::new(4).expect("four"));
    let context = session(&spread(100, 2), Pace::default())?;
    run(&context, plan(&context, "SELECT * FROM t", options(&out, hosts)).await?).await?;
    // Far less than 100 MiB, and in input order, since no shuffle was requested.
    assert_eq!(shards(&out)?, [spread(100, 2).concat()]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn shuffle_stays_within_the_memory_limit() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let table = spread(60_000, 2);
    let context = small_session(&table, Pace::default(), 1 << 20)?;
    let pool = Arc::clone(&context.runtime_env().memory_pool);
    let plan = plan(&context, "SELECT * FROM t", shuffled(options(&out, count(2)), 1)).await?;
    run(&context, plan.clone()).await?;
    assert!(counted(&plan, "spill_count") > 1);
    assert!(counted(&plan, "spilled_bytes") > 1 << 20);
    assert_eq!(counted(&plan, "rows_encoded"), 60_000);
    plan.settled().await;
    memory_is_given_back(&*pool).await;
    assert_eq!(context.runtime_env().disk_manager.used_disk_space(), 0, "temporary files are left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_of_temporary_files_is_kept() -> Result<()> {
    let dir = tempdir()?;
    let context = small_session(&spread(60_000, 2), Pace::default(), 1 << 20)?;
    context.runtime_env().disk_manager.set_max_temp_directory_size(1 << 20)?;
    let options = shuffled(options(&dir.path().join("out"), count(2)), 1);
    let plan = plan(&context, "SELECT * FROM t", options).await?;
    let error = run(&context, plan.clone()).await.expect_err("three megabytes");
    assert!(format!("{error:?}").contains("max_temp_directory_size"), "{error:?}");
    plan.settled().await;
    assert!(super::super::support::names(dir.path())?.is_empty());
    Ok(())
}
