//! Ordered queries: the shards, read in order, contain the rows in the query's order.

use datafusion::error::Result;
use datafusion_tfrecord::{ErrorKind, WriteOptions};
use tempfile::tempdir;
use tfrecord_shards::Sharding;

use super::support::{Pace, Partitions, count, options, plan, run, session, shards};

/// Ids that are out of order in every partition.
fn shuffled() -> Partitions {
    (0..3).map(|partition| (0..500).map(|row| (row * 379 + partition * 101) % 1000).collect()).collect()
}

const QUERY: &str = "SELECT * FROM t ORDER BY id";

fn sorted() -> Vec<i64> {
    let mut ids = shuffled().concat();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn order_is_kept_by_every_sharding() -> Result<()> {
    for (sharding, lengths) in [
        (Sharding::default(), vec![1500]),
        (count(1), vec![1500]),
        (Sharding::Rows(700), vec![700, 700, 100]),
        (count(4), vec![375; 4]),
        (count(7), vec![214, 214, 214, 215, 214, 214, 215]),
    ] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let context = session(&shuffled(), Pace::default())?;
        let options = WriteOptions { ordered: true, expected_rows: Some(1500), ..options(&out, sharding) };
        run(&context, plan(&context, QUERY, options).await?).await?;
        let written = shards(&out)?;
        assert_eq!(written.concat(), sorted(), "{sharding:?}");
        assert_eq!(written.iter().map(Vec::len).collect::<Vec<_>>(), lengths, "{sharding:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_without_a_count_are_refused_before_any_work() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&shuffled(), Pace::default())?;
    let options = WriteOptions { ordered: true, ..options(&out, count(4)) };
    let error = plan(&context, QUERY, options).await.expect_err("no count");
    let datafusion::error::DataFusionError::External(error) = error else { panic!("{error:?}") };
    let error = error.downcast::<datafusion_tfrecord::Error>().expect("one of ours");
    assert!(matches!(error.kind(), ErrorKind::UnknownRowCount { shards: 4 }));
    assert!(super::support::names(dir.path())?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ordered_write_with_a_wrong_row_count_leaves_nothing() -> Result<()> {
    for expected in [1499, 1501] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let context = session(&shuffled(), Pace::default())?;
        let options = WriteOptions { ordered: true, expected_rows: Some(expected), ..options(&out, count(4)) };
        let plan = plan(&context, QUERY, options).await?;
        let error = run(&context, plan.clone()).await.expect_err("the count is wrong");
        assert!(error.to_string().contains(&format!("expected {expected} rows, found 1500")), "{error}");
        plan.settled().await;
        assert!(super::support::names(dir.path())?.is_empty());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ordered_write_takes_the_row_count_from_the_plan() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&shuffled(), Pace::default())?;
    context.sql("CREATE TABLE m AS SELECT * FROM t").await?.collect().await?;
    let options = WriteOptions { ordered: true, ..options(&out, count(3)) };
    run(&context, plan(&context, "SELECT * FROM m ORDER BY id DESC", options).await?).await?;
    let written = shards(&out)?;
    assert_eq!(written.iter().map(Vec::len).collect::<Vec<_>>(), [500; 3]);
    assert!(written.concat().iter().rev().eq(sorted().iter()));
    Ok(())
}
