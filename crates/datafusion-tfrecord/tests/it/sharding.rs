//! The number and balance of shards, and that their contents depend only on the rows.

use datafusion::error::Result;
use tempfile::tempdir;
use tfrecord_framing::Compression;
use tfrecord_shards::{Manifest, Sharding};

use super::support::{Pace, count, files, options, partitions, shards, write};
use datafusion_tfrecord::WriteOptions;

#[tokio::test(flavor = "multi_thread")]
async fn shard_count_is_exact() -> Result<()> {
    for lengths in [&[0][..], &[1], &[7], &[0, 0], &[3, 0, 4], &[1000, 1, 300, 40], &[2000; 3]] {
        for asked in [1, 2, 3, 5, 8, 40] {
            let dir = tempdir()?;
            let out = dir.path().join("out");
            let manifest = write(&partitions(lengths), Pace::default(), options(&out, count(asked))).await?;
            let rows: usize = lengths.iter().sum();
            assert_eq!(manifest.totals.rows, rows as u64, "{lengths:?} in {asked}");
            let written = shards(&out)?;
            assert_eq!(written.len(), asked, "{lengths:?} in {asked}");
            let mut ids = written.concat();
            ids.sort_unstable();
            assert_eq!(ids, (0..rows as i64).collect::<Vec<_>>(), "{lengths:?} in {asked}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_are_even_however_uneven_the_partitions() -> Result<()> {
    for lengths in [&[20_000][..], &[10_000, 10_000], &[0, 20_000], &[1_000, 10_000, 10_000], &[19_000, 10, 3_000, 0]] {
        for asked in [2, 7, 16] {
            let dir = tempdir()?;
            let out = dir.path().join("out");
            let manifest = write(&partitions(lengths), Pace::default(), options(&out, count(asked))).await?;
            let mean = manifest.totals.rows as f64 / asked as f64;
            for shard in &manifest.shards {
                let off = (shard.rows as f64 - mean).abs() / mean;
                assert!(off <= 0.05, "{lengths:?} in {asked}: {} rows of {mean}", shard.rows);
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_depend_on_rows_alone() -> Result<()> {
    for sharding in [count(5), Sharding::Rows(700), Sharding::Bytes(20_000)] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
            let table = partitions(&[4000, 0, 900]);
            let mut first = None;
            for run in 0..6 {
                let dir = tempdir()?;
                let out = dir.path().join("out");
                let pace = Pace { batch_size: [1, 100, 8192][run % 3], seed: run as u64 };
                let threads = std::num::NonZeroUsize::new(1 + run % 4);
                let options = WriteOptions { compression, threads, ..options(&out, sharding) };
                write(&table, pace, options).await?;
                let files = files(&out)?;
                let first = first.get_or_insert_with(|| files.clone());
                assert!(*first == files, "{sharding:?}, {compression}: run {run} differs from the first");
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_runs_of_one_plan_give_the_same_bytes() -> Result<()> {
    let table = partitions(&[5000, 300, 0, 2500]);
    let mut first = None;
    for seed in 0..10 {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        write(&table, Pace { batch_size: 500, seed }, options(&out, count(3))).await?;
        let files = files(&out)?;
        assert!(*first.get_or_insert_with(|| files.clone()) == files, "run {seed} differs from the first");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn shard_size_limits_apply_to_each_partition() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("rows");
    write(&partitions(&[250, 0, 120]), Pace::default(), options(&out, Sharding::Rows(100))).await?;
    let lengths: Vec<_> = shards(&out)?.iter().map(Vec::len).collect();
    assert_eq!(lengths, [100, 100, 50, 100, 20]);

    let out = dir.path().join("bytes");
    let manifest = write(&partitions(&[250, 0, 120]), Pace::default(), options(&out, Sharding::Bytes(5000))).await?;
    assert!(manifest.shards.len() > 2);
    assert!(manifest.shards.iter().all(|shard| shard.framed_bytes <= 5000));
    assert_eq!(shards(&out)?.concat(), (0..370).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_of_one_row_do_not_use_up_file_handles() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let manifest = write(&partitions(&[1100]), Pace::default(), options(&out, Sharding::Rows(1))).await?;
    assert_eq!(manifest.shards.len(), 1100);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_rows_are_one_empty_shard() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    write(&partitions(&[0, 0]), Pace::default(), options(&out, Sharding::default())).await?;
    assert_eq!(shards(&out)?, [Vec::<i64>::new()]);
    assert_eq!(files(&out)?["part-00000-of-00001.tfrecord"], b"");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_records_how_the_set_was_written() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let options = WriteOptions {
        prefix: "train".to_owned(),
        query: Some("SELECT * FROM t".to_owned()),
        inputs: vec!["t".to_owned()],
        ..options(&out, count(2))
    };
    write(&partitions(&[10, 10, 10]), Pace::default(), options).await?;
    let manifest = Manifest::read(&out).map_err(super::support::external)?;
    assert_eq!(manifest.shards[1].path, "train-00001-of-00002.tfrecord");
    assert_eq!(manifest.query.as_deref(), Some("SELECT * FROM t"));
    assert_eq!(manifest.inputs, ["t"]);
    assert_eq!(manifest.write_partitions, 3);
    Ok(())
}
