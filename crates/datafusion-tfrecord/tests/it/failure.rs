//! Failures at any time: an error is returned, and nothing is left on disk.

use std::any::Any;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{TfRecordCommitExec, TfRecordWriteExec};
use futures::{StreamExt, stream};
use tempfile::tempdir;
use tfrecord_framing::Compression;
use tfrecord_shards::{SaveMode, Sharding};

use super::support::{
    Pace, batch, count, empty_session, names, options, partitions, plan, run, session, shards, write,
};
use datafusion_tfrecord::WriteOptions;

/// Runs a failing query with every kind of sharding, and returns the messages.
async fn failures(context: &SessionContext, query: &str) -> Result<Vec<String>> {
    let mut messages = Vec::new();
    for sharding in [count(3), Sharding::Rows(100), Sharding::default()] {
        let dir = tempdir()?;
        let options = WriteOptions { compression: Compression::Gzip, ..options(&dir.path().join("out"), sharding) };
        let plan = plan(context, query, options).await?;
        let error = run(context, plan.clone()).await.expect_err("the query fails");
        assert!(plan.summary().is_none());
        plan.settled().await;
        assert!(names(dir.path())?.is_empty(), "{:?}", names(dir.path())?);
        messages.push(error.to_string());
    }
    Ok(messages)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_division_by_zero_in_the_last_partition_leaves_nothing() -> Result<()> {
    let context = session(&partitions(&[3000, 3000, 3000]), Pace::default())?;
    for message in failures(&context, "SELECT id, 1 / (id - 8990) AS x FROM t").await? {
        assert!(message.contains("Divide by zero"), "{message}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_write_names_the_row_and_leaves_nothing() -> Result<()> {
    let context = session(&partitions(&[3000]), Pace::default())?;
    let query = "SELECT id, CASE WHEN id = 2990 THEN [id, NULL] ELSE [id] END AS list FROM t";
    for message in failures(&context, query).await? {
        assert!(message.contains("\"list\", row 2990"), "{message}");
    }
    Ok(())
}

/// A partition whose batches a function makes.
struct Partition<F> {
    schema: SchemaRef,
    batches: F,
}

impl<F> std::fmt::Debug for Partition<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a partition made by a function")
    }
}

impl<F: Fn(usize) -> Option<Result<RecordBatch>> + Clone + Send + Sync + 'static> PartitionStream for Partition<F> {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let make = self.batches.clone();
        let batches = stream::iter(0..).map(make).take_while(|batch| futures::future::ready(batch.is_some()));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches.filter_map(futures::future::ready)))
    }
}

/// Creates a session whose table `t` has three such partitions.
pub(crate) fn made_by<F>(batches: F) -> Result<SessionContext>
where
    F: Fn(usize) -> Option<Result<RecordBatch>> + Clone + Send + Sync + 'static,
{
    let schema = batch(&[])?.schema();
    let partition = || Arc::new(Partition { schema: Arc::clone(&schema), batches: batches.clone() }) as _;
    let table = StreamingTable::try_new(Arc::clone(&schema), (0..3).map(|_| partition()).collect())?;
    let context = empty_session(3)?;
    context.register_table("t", Arc::new(table))?;
    Ok(context)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_query_is_an_error() -> Result<()> {
    let context = made_by(|number| match number {
        0..20 => Some(batch(&[1, 2, 3])),
        _ => panic!("the source is broken"),
    })?;
    for message in failures(&context, "SELECT * FROM t").await? {
        assert!(message.contains("the source is broken"), "{message}");
    }
    Ok(())
}

/// Returns the write node's count of rows so far.
fn rows_written(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if plan.is::<TfRecordWriteExec>() {
        let metrics = plan.metrics().expect("write nodes count");
        return metrics.sum_by_name("rows_written").map_or(0, |rows| rows.as_usize());
    }
    plan.children().into_iter().map(rows_written).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_write_leaves_nothing() -> Result<()> {
    for sharding in [count(3), Sharding::Rows(1000), Sharding::default()] {
        let dir = tempdir()?;
        // Without an end, so that the run is unfinished whenever it is dropped.
        let context = made_by(|number| Some(batch(&[number as i64; 500])))?;
        let plan = plan(&context, "SELECT * FROM t", options(&dir.path().join("out"), sharding)).await?;
        let root = Arc::clone(&plan) as Arc<dyn ExecutionPlan>;
        let mut stream = execute_stream(Arc::clone(&root), context.task_ctx())?;
        let running = tokio::spawn(async move { stream.next().await.is_none() });
        while rows_written(&root) < 10_000 {
            tokio::task::yield_now().await;
        }
        assert!(!names(dir.path())?.is_empty(), "nothing is staged while it runs");
        running.abort();
        assert!(running.await.expect_err("cancelled").is_cancelled());
        plan.settled().await;
        assert!(names(dir.path())?.is_empty(), "{sharding:?}: {:?}", names(dir.path())?);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_are_refused_before_any_work() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    fs::create_dir(&out)?;
    fs::write(out.join("notes.txt"), "mine")?;
    let touched = Arc::new(AtomicBool::new(false));
    let context = made_by({
        let touched = Arc::clone(&touched);
        move |_| {
            touched.store(true, Ordering::Relaxed);
            None
        }
    })?;
    for mode in [SaveMode::Error, SaveMode::Overwrite] {
        let options = WriteOptions { mode, ..options(&out, count(2)) };
        let error = plan(&context, "SELECT * FROM t", options).await.expect_err("notes are in the way");
        assert!(error.to_string().contains("notes.txt"), "{error}");
    }
    assert!(!touched.load(Ordering::Relaxed));
    assert_eq!(names(&out)?, ["notes.txt"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_without_a_feature_is_refused_before_any_work() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[10]), Pace::default())?;
    let query = "SELECT id, interval '1 month' AS span FROM t";
    let error = plan(&context, query, options(&dir.path().join("out"), count(2))).await.expect_err("no intervals");
    let DataFusionError::External(error) = error else { panic!("{error:?}") };
    assert!(error.is::<arrow_tfrecord::Error>(), "{error}");
    assert!(names(dir.path())?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_overwrite_keeps_the_old_set() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    write(&partitions(&[100]), Pace::default(), options(&out, count(2))).await?;
    let overwrite = || WriteOptions { mode: SaveMode::Overwrite, ..options(&out, count(3)) };

    let context = session(&partitions(&[3000]), Pace::default())?;
    let failing = plan(&context, "SELECT id, 1 / (id - 2990) AS x FROM t", overwrite()).await?;
    run(&context, failing.clone()).await.expect_err("the query fails");
    failing.settled().await;
    assert_eq!(shards(&out)?.concat().len(), 100);
    assert_eq!(names(dir.path())?, ["out"]);

    let context = session(&partitions(&[250]), Pace::default())?;
    run(&context, plan(&context, "SELECT * FROM t", overwrite()).await?).await?;
    assert_eq!(shards(&out)?.concat().len(), 250);
    assert_eq!(names(dir.path())?, ["out"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_is_not_overwritten() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    fs::create_dir(&out)?;
    fs::write(out.join("in.csv"), "id\n1\n2\n")?;
    let context = empty_session(2)?;
    context.register_csv("c", out.to_str().expect("UTF-8"), Default::default()).await?;
    let options = WriteOptions { mode: SaveMode::Overwrite, ..options(&out, count(2)) };
    let error = plan(&context, "SELECT * FROM c", options).await.expect_err("overlap");
    assert!(error.to_string().contains("overlaps with input"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_can_be_run_again() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&partitions(&[1000, 500]), Pace::default())?;
    let options = WriteOptions { mode: SaveMode::Overwrite, ..options(&out, count(3)) };
    let plan = plan(&context, "SELECT * FROM t", options).await?;
    let first = run(&context, plan.clone()).await?;
    let second = run(&context, plan).await?;
    assert_eq!(first.shards, second.shards);
    assert_ne!(first.run, second.run);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn write_plan_without_committer_is_rejected() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[10]), Pace::default())?;
    let plan: Arc<TfRecordCommitExec> =
        plan(&context, "SELECT * FROM t", options(&dir.path().join("out"), count(1))).await?;
    let write = Arc::clone(plan.children()[0]);
    assert!((write.as_ref() as &dyn Any).is::<TfRecordWriteExec>());
    let error = collect(write, context.task_ctx()).await.expect_err("no committer");
    assert!(error.to_string().contains("TfRecordCommitExec"), "{error}");
    Ok(())
}

/// The next reader of the directory would find the shards in it.
#[tokio::test]
async fn a_set_does_not_go_into_a_directory_that_is_read() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[10]), Pace::default())?;
    let input = dir.path().to_string_lossy().into_owned();
    for input in [input.clone(), format!("{input}/**/*.parquet")] {
        let options = WriteOptions { inputs: vec![input], ..options(&dir.path().join("out"), count(1)) };
        let error = plan(&context, "SELECT id FROM t", options).await.expect_err("the set would lie in its input");
        assert!(error.to_string().contains("out"), "{error}");
    }
    let shallow =
        WriteOptions { inputs: vec![format!("{input}/*.parquet")], ..options(&dir.path().join("out"), count(1)) };
    plan(&context, "SELECT id FROM t", shallow).await?;
    Ok(())
}
