//! More shards than can be open: sorted by shard, to the same bytes.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::displayable;
use datafusion_tfrecord::WriteOptions;
use tempfile::tempdir;
use tfrecord_framing::Compression;

use super::super::support::{Pace, count, files, options, partitions, plan, run, session};
use super::support::{counted, small_session};

#[tokio::test(flavor = "multi_thread")]
async fn sharding_is_independent_of_memory_limit() -> Result<()> {
    for (lengths, compression) in [(&[30_000, 200, 9_000][..], Compression::None), (&[9_000], Compression::Gzip)] {
        let table = partitions(lengths);
        let mut first = None;
        for memory in [usize::MAX, 256 << 20, 600 << 10] {
            let dir = tempdir()?;
            let out = dir.path().join("out");
            let context = small_session(&table, Pace { batch_size: 700, seed: 1 }, memory)?;
            let options = WriteOptions { compression, ..options(&out, count(1000)) };
            let plan = plan(&context, "SELECT * FROM t", options).await?;
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(shown.contains("sorted by 1000 shards"), memory != usize::MAX, "{shown}");
            assert_eq!(shown.contains("round-robin"), memory == usize::MAX, "{shown}");
            let manifest = run(&context, plan.clone()).await?;
            assert_eq!(counted(&plan, "spill_count") > 0, memory < 1 << 20);
            assert_eq!(manifest.shards.len(), 1000);
            let files = files(&out)?;
            assert!(*first.get_or_insert_with(|| files.clone()) == files, "{memory} bytes of memory");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sharding_makes_more_shards_than_rows() -> Result<()> {
    let dir = tempdir()?;
    let table = partitions(&[3, 0, 4]);
    let mut sets = Vec::new();
    for (name, memory) in [("round-robin", usize::MAX), ("sorted", 1 << 20)] {
        let out = dir.path().join(name);
        let context = small_session(&table, Pace::default(), memory)?;
        run(&context, plan(&context, "SELECT * FROM t", options(&out, count(300))).await?).await?;
        sets.push(files(&out)?);
    }
    assert_eq!(sets[0].len(), 301, "shards and the mark of success");
    assert!(sets[0] == sets[1]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn few_shards_are_not_sorted() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[10, 10]), Pace::default())?;
    let plan = plan(&context, "SELECT * FROM t", options(&dir.path().join("out"), count(8))).await?;
    let plan: Arc<dyn datafusion::physical_plan::ExecutionPlan> = plan;
    assert!(displayable(plan.as_ref()).indent(false).to_string().contains("round-robin"));
    Ok(())
}
