//! Failures before and after all rows are sorted: an error is returned, no partition hangs, and nothing is left on
//! disk.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{TfRecordCommitExec, WriteOptions};
use futures::StreamExt;
use tempfile::tempdir;
use tfrecord_shards::Sharding;
use tokio::time::timeout;

use super::super::failure::made_by;
use super::super::support::{Pace, batch, count, memory_is_given_back, names, options, partitions, plan, run, session};
use super::support::{counted, small_session, splits};

/// Far longer than any operation here, so that a hanging run fails.
const LONG: Duration = Duration::from_secs(120);

/// Every way to sort.
fn ways(options: WriteOptions) -> [WriteOptions; 4] {
    let hosts = Sharding::Hosts(NonZeroUsize::MIN);
    [
        WriteOptions { shuffle: Some(1), ..options.clone() },
        WriteOptions { splits: splits("train=0.9,val=0.1", &["id"]), ..options.clone() },
        WriteOptions { partition_by: vec!["bucket".to_owned()], ..options.clone() },
        WriteOptions { sharding: hosts, ..options },
    ]
}

async fn ended(context: &SessionContext, plan: Arc<TfRecordCommitExec>) -> DataFusionError {
    let ended = timeout(LONG, run(context, Arc::clone(&plan))).await.expect("it ends");
    plan.settled().await;
    assert!(plan.summary().is_none());
    ended.expect_err("it fails")
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_write_ends_when_one_partition_fails() -> Result<()> {
    // The last partition fails when the others wait for it, and the first when the others are at work.
    for failing in [8990, 10] {
        let query = format!("SELECT id, id % 10 AS bucket, 1 / (id - {failing}) AS x FROM t");
        let context = small_session(&partitions(&[3000, 10, 5990]), Pace::default(), 600 << 10)?;
        let dir = tempdir()?;
        // The last has more shards than can be open in so little memory.
        let options = |shards| options(&dir.path().join("out"), count(shards));
        for options in ways(options(3)).into_iter().chain([options(5000)]) {
            let error = ended(&context, plan(&context, &query, options).await?).await.to_string();
            assert!(error.contains("Divide by zero"), "{error}");
            assert!(names(dir.path())?.is_empty());
        }
        assert_eq!(context.runtime_env().disk_manager.used_disk_space(), 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_write_ends_on_a_panic() -> Result<()> {
    let context = made_by(|number| match number {
        0..20 => Some(batch(&[1, 2, 3])),
        _ => panic!("the source is broken"),
    })?;
    let dir = tempdir()?;
    for options in ways(options(&dir.path().join("out"), count(3))) {
        let error = ended(&context, plan(&context, "SELECT *, id AS bucket FROM t", options).await?).await.to_string();
        assert!(error.contains("the source is broken"), "{error}");
        assert!(names(dir.path())?.is_empty());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_sorted_write_leaves_nothing() -> Result<()> {
    let context = made_by(|number| Some(batch(&[number as i64; 500])))?;
    let dir = tempdir()?;
    for options in ways(options(&dir.path().join("out"), count(3))) {
        let plan = plan(&context, "SELECT *, id AS bucket FROM t", options).await?;
        let mut stream = execute_stream(Arc::clone(&plan) as _, context.task_ctx())?;
        let running = tokio::spawn(async move { stream.next().await.is_none() });
        while counted(&plan, "rows_encoded") < 10_000 {
            tokio::task::yield_now().await;
        }
        running.abort();
        assert!(running.await.expect_err("cancelled").is_cancelled());
        timeout(LONG, plan.settled()).await.expect("it ends");
        assert!(names(dir.path())?.is_empty());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_write_dropped_while_making_shards_leaves_nothing() -> Result<()> {
    let dir = tempdir()?;
    // Far more shards than can be made before the first rows of one are seen to be written.
    for options in ways(options(&dir.path().join("out"), count(3000))).into_iter().take(3) {
        let context = small_session(&partitions(&[9000, 9000]), Pace::default(), 600 << 10)?;
        let plan = plan(&context, "SELECT *, id % 6000 AS bucket FROM t", options).await?;
        let mut stream = execute_stream(Arc::clone(&plan) as _, context.task_ctx())?;
        let running = tokio::spawn(async move { stream.next().await.is_none() });
        while counted(&plan, "rows_written") == 0 {
            assert!(!running.is_finished(), "the run ended before rows were written");
            tokio::task::yield_now().await;
        }
        running.abort();
        assert!(running.await.expect_err("cancelled").is_cancelled());
        timeout(LONG, plan.settled()).await.expect("it ends");
        assert!(counted(&plan, "spill_count") > 0, "there were temporary files");
        assert!(names(dir.path())?.is_empty());
        memory_is_given_back(&*context.runtime_env().memory_pool).await;
        assert_eq!(context.runtime_env().disk_manager.used_disk_space(), 0);
    }
    Ok(())
}

/// Shards are created once all rows are sorted; a directory is in the way of one.
#[tokio::test(flavor = "multi_thread")]
async fn sorted_write_ends_when_a_shard_cannot_be_created() -> Result<()> {
    let dir = tempdir()?;
    let path = dir.path().to_owned();
    // The staging directory exists when the first rows are read.
    let context = made_by(move |number| {
        let block = || {
            let staging = names(&path)?.pop().expect("a staging directory");
            std::fs::create_dir_all(path.join(staging).join("00000-00000.staged"))?;
            batch(&(0..500).map(|id| id + 500 * number as i64).collect::<Vec<_>>())
        };
        (number < 10).then(block)
    })?;
    for options in ways(options(&dir.path().join("out"), count(30))) {
        let plan = plan(&context, "SELECT *, id % 40 AS bucket FROM t", options).await?;
        let error = ended(&context, Arc::clone(&plan)).await.to_string();
        assert!(error.contains("00000-00000"), "{error}");
        assert_eq!(counted(&plan, "rows_encoded"), 15_000, "it fails when all rows are there");
        assert!(names(dir.path())?.is_empty());
    }
    Ok(())
}

/// Partitions without a committer return an error instead of a partial set.
#[tokio::test(flavor = "multi_thread")]
async fn sorted_write_without_committer_is_rejected() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[10, 10]), Pace::default())?;
    let options = WriteOptions { shuffle: Some(1), ..options(&dir.path().join("out"), count(1)) };
    let plan = plan(&context, "SELECT * FROM t", options).await?;
    let write = Arc::clone(plan.children()[0].children()[0]);
    let error = collect_partitioned(write, context.task_ctx()).await.expect_err("no committer");
    assert!(error.to_string().contains("TfRecordCommitExec"), "{error}");
    Ok(())
}
