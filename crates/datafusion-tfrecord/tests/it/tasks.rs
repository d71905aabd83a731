//! Sets that several tasks write, compared with those of one process.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion_tfrecord::WriteOptions;
use datafusion_tfrecord::write::{Detached, Emit, SharedWrite, SplitOptions, TaskStep, TfRecordCommitExec, plan_tasks};
use tempfile::tempdir;
use tfrecord_framing::Compression;
use tfrecord_shards::{AttemptError, ErrorKind, Manifest, SaveMode, Sharding};

use super::support::{Pace, Partitions, count, external, names, options, partitions, plan, run, session};

const QUERY: &str = "SELECT id, name, id % 3 AS part FROM t";

/// A way to write a set, and whether its tasks sort their rows.
type Case = (&'static str, fn(&Path) -> WriteOptions, bool);

fn emit(kinds: &str) -> Emit {
    kinds.split(',').map(|kind| kind.parse().expect("a kind of sidecar")).collect()
}

fn split(out: &Path, sharding: Sharding) -> WriteOptions {
    let splits = "train=0.8,val=0.2".parse().expect("splits");
    WriteOptions { splits: Some(SplitOptions::Hash { splits, by: vec!["id".to_owned()] }), ..options(out, sharding) }
}

const CASES: [Case; 12] = [
    ("rows", |out| options(out, Sharding::Rows(700)), false),
    ("bytes", |out| WriteOptions { compression: Compression::Gzip, ..options(out, Sharding::Bytes(9000)) }, false),
    ("one shard", |out| options(out, count(1)), true),
    ("count", |out| WriteOptions { emit: emit("stats,index,tfmd"), ..options(out, count(7)) }, true),
    ("more shards than rows", |out| options(out, count(9000)), true),
    ("shuffle", |out| WriteOptions { shuffle: Some(3), emit: emit("stats"), ..options(out, count(5)) }, true),
    ("shuffle by rows", |out| WriteOptions { shuffle: Some(4), ..options(out, Sharding::Rows(900)) }, true),
    ("hosts", |out| options(out, Sharding::Hosts(2.try_into().expect("two"))), true),
    ("split", |out| split(out, count(3)), true),
    ("shuffled split", |out| WriteOptions { shuffle: Some(9), ..split(out, Sharding::Bytes(20_000)) }, true),
    (
        "directories",
        |out| WriteOptions { partition_by: vec!["part".to_owned()], ..options(out, Sharding::Rows(500)) },
        true,
    ),
    (
        "directories and splits",
        |out| WriteOptions { partition_by: vec!["part".to_owned()], ..split(out, count(2)) },
        true,
    ),
];

/// A planned write, as another process gets it.
struct Job {
    table: Partitions,
    plan: Arc<TfRecordCommitExec>,
    stored: String,
    staging: SharedWrite,
}

impl Job {
    async fn start(table: &Partitions, options: WriteOptions) -> Result<Self> {
        let context = session(table, Pace::default())?;
        let plan = plan(&context, QUERY, options).await?;
        let Detached::Tasks(staging) = plan.detach(&context.task_ctx()).await? else { panic!("there is a set") };
        let stored = serde_json::to_string(&plan.task_input()?.1).map_err(external)?;
        // A message to other processes.
        let staging = serde_json::from_str(&serde_json::to_string(&staging).map_err(external)?).map_err(external)?;
        Ok(Self { table: table.clone(), plan, stored, staging })
    }

    /// The plan in another process, whose batches differ.
    fn plan(&self, seed: u64) -> Result<(datafusion::prelude::SessionContext, Arc<TfRecordCommitExec>)> {
        let context = session(&self.table, Pace { batch_size: 1 + seed as usize * 37 % 500, seed })?;
        let options: WriteOptions = serde_json::from_str(&self.stored).map_err(external)?;
        let plan = plan_tasks(self.plan.task_input()?.0, options, &context.state())?;
        Ok((context, plan))
    }

    async fn task(&self, task: u32, seed: u64) -> Result<TaskStep> {
        let (context, plan) = self.plan(seed)?;
        Ok(plan.run_task(&self.staging, task, &context.task_ctx()).await?.step)
    }

    async fn cut(&self, seed: u64) -> Result<usize> {
        let (context, plan) = self.plan(seed)?;
        plan.cut_tasks(&self.staging, &context.task_ctx()).await
    }

    async fn finish(&self) -> Result<Arc<Manifest>> {
        let (context, plan) = self.plan(99)?;
        plan.finish_tasks(&self.staging, false, &context.task_ctx()).await
    }
}

/// Every file of a set with its bytes; of the manifest, without what differs between any two runs.
fn set(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let name = path.strip_prefix(dir).expect("below it").display().to_string();
            let mut bytes = fs::read(&path)?;
            if name == tfrecord_shards::MANIFEST_NAME {
                let mut manifest: serde_json::Value = serde_json::from_slice(&bytes).map_err(external)?;
                for key in ["run", "created", "manifest_crc32c"] {
                    assert!(!manifest[key].take().is_null(), "{key}");
                }
                bytes = manifest.to_string().into_bytes();
            }
            found.insert(name, bytes);
        }
    }
    Ok(found)
}

fn table() -> Partitions {
    partitions(&[3000, 0, 1700, 2500])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_write_the_set_of_one_process() -> Result<()> {
    let (dir, rows) = (tempdir()?, tempdir()?);
    for (number, (name, options, sorts)) in CASES.into_iter().enumerate() {
        let alone = dir.path().join("alone").join(name).join("set");
        let together = dir.path().join("together").join(name).join("set");
        let context = session(&table(), Pace::default())?;
        run(&context, plan(&context, QUERY, options(&alone)).await?).await?;

        // Sorted rows next to the shards, or elsewhere.
        let scratch = (number % 2 == 0).then(|| rows.path().to_owned());
        let job = Job::start(&table(), WriteOptions { scratch: scratch.clone(), ..options(&together) }).await?;
        assert_eq!(names(rows.path())?.len(), usize::from(sorts && scratch.is_some()), "{name}");
        assert_eq!((job.plan.tasks()?, job.plan.sorts_in_tasks()?), (4, sorts), "{name}");
        // In any order, and one of them twice.
        for (seed, task) in [2, 0, 3, 2, 1].into_iter().enumerate() {
            let step = job.task(task, seed as u64).await?;
            assert_eq!(step, if sorts { TaskStep::Sort } else { TaskStep::Write }, "{name}");
        }
        if sorts {
            let writers = job.cut(7).await?;
            assert!((1..=4).contains(&writers), "{name}: {writers}");
            // Decided once; and the last writer is left to the end.
            assert_eq!(job.cut(8).await?, writers, "{name}");
            for task in (0..writers as u32 - 1).rev() {
                assert_eq!(job.task(task, 50).await?, TaskStep::WriteSorted, "{name}");
            }
        }
        job.finish().await?;
        let (alone_files, together_files) = (set(&alone)?, set(&together)?);
        assert_eq!(together_files.keys().collect::<Vec<_>>(), alone_files.keys().collect::<Vec<_>>(), "{name}");
        for (file, bytes) in &together_files {
            let (bytes, expected) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&alone_files[file]));
            let expected = expected.replace("/alone/", "/together/");
            assert!(bytes == expected, "{name}: {file} differs: {bytes:.2000} {expected:.2000}");
        }
        assert_eq!(names(&dir.path().join("together").join(name))?, ["set"], "{name}: nothing is left over");
        assert!(names(rows.path())?.is_empty(), "{name}: nothing is left over");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_tasks_can_be_run_later() -> Result<()> {
    let dir = tempdir()?;
    for (name, options, _) in [CASES[0], CASES[5]] {
        let out = dir.path().join(name);
        let job = Job::start(&table(), options(&out)).await?;
        job.task(0, 1).await?;
        job.task(2, 1).await?;
        let error = job.finish().await.expect_err("two tasks are missing");
        let DataFusionError::External(source) = &error else { panic!("{error}") };
        let source: &tfrecord_shards::Error = source.downcast_ref().expect("an error of the set");
        let ErrorKind::Attempt(AttemptError::Missing { partitions, .. }) = source.kind() else { panic!("{source}") };
        assert_eq!(*partitions, [1, 3], "{name}");
        assert!(!out.exists(), "{name}");
        job.task(1, 1).await?;
        job.task(3, 1).await?;
        assert_eq!(job.finish().await?.totals.rows, 7200, "{name}");
        // The run has ended, which finishing it again tells.
        assert!(job.task(0, 1).await.is_err(), "{name}");
        assert_eq!(job.finish().await?.totals.rows, 7200, "{name}");
        assert_eq!(Manifest::read(&out).map_err(external)?.totals.rows, 7200, "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_append_and_overwrite() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("set");
    for (mode, rows) in [(SaveMode::Error, 7200), (SaveMode::Append, 14_400), (SaveMode::Overwrite, 7200)] {
        let job = Job::start(&table(), WriteOptions { mode, ..options(&out, count(3)) }).await?;
        for task in 0..4 {
            job.task(task, 0).await?;
        }
        assert_eq!(job.finish().await?.totals.rows, rows, "{mode:?}");
    }
    assert_eq!(names(dir.path())?, ["set"]);
    let context = session(&table(), Pace::default())?;
    let ignored = plan(&context, QUERY, WriteOptions { mode: SaveMode::Ignore, ..options(&out, count(3)) }).await?;
    assert!(matches!(ignored.detach(&context.task_ctx()).await?, Detached::Ignored(found) if !found.is_empty()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_write_a_set_without_rows() -> Result<()> {
    let dir = tempdir()?;
    for (name, options, _) in CASES {
        let (alone, together) = (dir.path().join("alone").join(name), dir.path().join("together").join(name));
        let empty = partitions(&[0, 0]);
        let context = session(&empty, Pace::default())?;
        let expected = run(&context, plan(&context, QUERY, options(&alone)).await?).await?;
        let job = Job::start(&empty, options(&together)).await?;
        job.task(1, 0).await?;
        job.task(0, 0).await?;
        let written = job.finish().await?;
        let shards = |manifest: &Manifest| manifest.shards.iter().map(|shard| shard.path.clone()).collect::<Vec<_>>();
        assert_eq!(shards(&written), shards(&expected), "{name}");
    }
    Ok(())
}
