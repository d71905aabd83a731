//! Rows that do not fit: which ones a table of rejected rows receives, and when it is published.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arrow_tfrecord::{MappingOptions, NullPolicy};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::{DataFusionError, Result};
use datafusion_tfrecord::write::{RejectTable, Rejects};
use datafusion_tfrecord::{ErrorKind, WriteOptions};
use tempfile::tempdir;

use super::support::{Pace, count, names, options, partitions, plan, run, session};

/// A table that lists what is asked of it.
#[derive(Debug, Default)]
struct Listing {
    calls: Mutex<Vec<&'static str>>,
    /// The partition of each batch, and the ids in it.
    rows: Mutex<Vec<(u32, Vec<i64>)>>,
    /// A file that is made when the table is published.
    occupies: Option<PathBuf>,
}

impl Listing {
    fn call(&self, name: &'static str) {
        self.calls.lock().expect("calls").push(name);
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().expect("calls").clone()
    }

    /// The ids of each partition, in the order in which they came.
    fn ids(&self, partition: u32) -> Vec<i64> {
        let rows = self.rows.lock().expect("rows");
        rows.iter().filter(|(of, _)| *of == partition).flat_map(|(_, ids)| ids.clone()).collect()
    }
}

impl RejectTable for Listing {
    fn location(&self) -> String {
        "rejected".to_owned()
    }

    fn begin(&self) -> Result<()> {
        self.call("begin");
        Ok(())
    }

    fn add(&self, partition: u32, rows: RecordBatch) -> Result<()> {
        let ids = rows.column_by_name("id").expect("ids").as_primitive::<Int64Type>().values().to_vec();
        self.rows.lock().expect("rows").push((partition, ids));
        Ok(())
    }

    fn publish(&self) -> Result<()> {
        self.call("publish");
        if let Some(path) = &self.occupies {
            fs::create_dir_all(path.parent().expect("a directory"))?;
            fs::write(path, "of another run")?;
        }
        Ok(())
    }

    fn withdraw(&self) {
        self.call("withdraw");
    }

    fn keep(&self) {
        self.call("keep");
    }
}

/// Options that reject the rows of each third id, whose name is null.
fn rejecting(options: WriteOptions, table: &Arc<Listing>, most: u64) -> WriteOptions {
    let mapping = MappingOptions { nulls: NullPolicy::Error, ..MappingOptions::default() };
    let rejects = Some(Rejects { most, table: Arc::clone(table) as Arc<dyn RejectTable> });
    WriteOptions { mapping, rejects, ..options }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_of_each_partition_come_in_order() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[3000, 2000, 700]), Pace { batch_size: 64, ..Pace::default() })?;
    let table = Arc::new(Listing::default());
    let plan =
        plan(&context, "SELECT * FROM t", rejecting(options(&dir.path().join("out"), count(3)), &table, 1900)).await?;
    run(&context, plan.clone()).await?;
    let summary = plan.summary().expect("a set");
    assert_eq!((summary.totals.rows, summary.rejects.as_ref().map(|rejects| rejects.rows)), (3800, Some(1900)));
    let thirds = |range: std::ops::Range<i64>| range.filter(|id| id % 3 == 0).collect::<Vec<_>>();
    assert_eq!(table.ids(0), thirds(0..3000));
    assert_eq!(table.ids(1), thirds(3000..5000));
    assert_eq!(table.ids(2), thirds(5000..5700));
    assert_eq!(table.calls(), ["begin", "publish", "keep"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_are_withdrawn_if_the_set_is_not_published() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&partitions(&[300]), Pace::default())?;
    let table = Arc::new(Listing { occupies: Some(out.join("other.tfrecord")), ..Listing::default() });
    let plan = plan(&context, "SELECT * FROM t", rejecting(options(&out, count(1)), &table, 100)).await?;
    run(&context, plan.clone()).await.expect_err("the directory is occupied");
    assert_eq!(table.calls(), ["begin", "publish", "withdraw"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_beyond_the_maximum_name_the_first_row() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[300]), Pace { batch_size: 50, ..Pace::default() })?;
    let table = Arc::new(Listing::default());
    let plan =
        plan(&context, "SELECT * FROM t", rejecting(options(&dir.path().join("out"), count(2)), &table, 99)).await?;
    let error = run(&context, plan.clone()).await.expect_err("100 rows do not fit");
    plan.settled().await;
    let DataFusionError::Shared(error) = &error else { panic!("{error}") };
    let DataFusionError::External(error) = error.as_ref() else { panic!("{error}") };
    let Some(ErrorKind::TooManyRejects { most: 99, rejected: 100, source }) =
        error.downcast_ref().map(datafusion_tfrecord::Error::kind)
    else {
        panic!("{error}")
    };
    assert!(source.to_string().contains("column \"name\", row 0"), "{source}");
    assert_eq!(table.calls(), ["begin"]);
    assert_eq!(names(dir.path())?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_are_not_for_tasks() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[300]), Pace::default())?;
    let table = Arc::new(Listing::default());
    let plan =
        plan(&context, "SELECT * FROM t", rejecting(options(&dir.path().join("out"), count(2)), &table, 1)).await?;
    assert!(plan.task_input().is_err() && plan.detach(&context.task_ctx()).await.is_err());
    assert_eq!(names(dir.path())?, [""; 0]);
    Ok(())
}
