//! Sets in object stores: they contain what a directory would. Whatever fails, and whenever, readers see the old set,
//! the new one, or nothing.

mod directories;
mod faulty;

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStoreExt, PutPayload};
use datafusion::physical_plan::{collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::write::{WriteOutcome, WriteTarget};
use datafusion_tfrecord::{ReadOptions, SplitOptions, WriteOptions, read};
use futures::StreamExt;
use tempfile::tempdir;
use tfr_stores::{Location, StoreUrl, UploadStores};
use tfrecord_framing::Compression;
use tfrecord_shards::{Manifest, SaveMode, Sharding};

use self::faulty::{Fault, FaultyStore, Request};
use super::support::{
    Pace, Partitions, count, external, files, memory_is_given_back, options, partitions, plan, run, session, write,
};

const URL: &str = "memory:///train/";

/// Returns the session with a store.
fn with_store(context: &SessionContext, store: &FaultyStore) -> Result<SessionContext> {
    let uploads = Arc::new(UploadStores::default());
    let (url, key) = (ObjectStoreUrl::parse("memory://")?, StoreUrl::parse("memory://").expect("a URL"));
    uploads.register(key.clone(), Arc::new(store.clone()));
    if store.has_directories() {
        uploads.register_directories(key, Arc::new(store.clone()));
    }
    let mut state = context.state();
    *state.config_mut() = state.config().clone().with_extension(uploads);
    let context = SessionContext::new_with_state(state);
    context.register_object_store(url.as_ref(), Arc::new(store.clone()));
    Ok(context)
}

fn to_store(sharding: Sharding, mode: SaveMode) -> Result<WriteOptions> {
    let target = WriteTarget::parse(URL)?;
    Ok(WriteOptions { sharding, mode, ..WriteOptions::new(target) })
}

/// Writes table `t` into the store, and waits until the run has settled.
async fn upload(store: &FaultyStore, partitions: &Partitions, options: WriteOptions) -> Result<Arc<Manifest>> {
    let context = with_store(&session(partitions, Pace::default())?, store)?;
    let query = if options.partition_by.is_empty() { "SELECT * FROM t" } else { "SELECT *, id % 3 AS day FROM t" };
    let plan = plan(&context, query, options).await?;
    let written = run(&context, Arc::clone(&plan)).await;
    plan.settled().await;
    assert_eq!(plan.summary().is_some(), written.is_ok());
    written
}

/// Returns the sorted ids of the set; `None` if there is no set.
async fn ids(store: &InMemory) -> Result<Option<Vec<i64>>> {
    let store = FaultyStore::default().with_files(store);
    let context = with_store(&SessionContext::new(), &store)?;
    let table = match read::open(
        &context.state(),
        &[Location::parse(URL).map_err(tfr_files::Error::from)?],
        &ReadOptions::default(),
    )
    .await
    {
        Ok(table) => table,
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("is not complete") || message.contains("no such file"), "{message}");
            return Ok(None);
        }
    };
    let batches = context.read_table(table)?.select_columns(&["id"])?.collect().await?;
    let mut ids: Vec<_> =
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    ids.sort_unstable();
    Ok(Some(ids))
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_equals_the_set_in_a_directory() -> Result<()> {
    let table = partitions(&[1500, 0, 700]);
    for sharding in [count(5), Sharding::Rows(300), Sharding::default()] {
        for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
            let (dir, store) = (tempdir()?, FaultyStore::default());
            let out = dir.path().join("out");
            let local = write(&table, Pace::default(), WriteOptions { compression, ..options(&out, sharding) }).await?;
            let options = WriteOptions { compression, ..to_store(sharding, SaveMode::Error)? };
            let there = upload(&store, &table, options).await?;
            assert_eq!(there.totals, local.totals);
            let here = files(&out)?;
            for (there, local) in there.shards.iter().zip(&local.shards) {
                let bytes = store.files().get(&Path::from(format!("train/{}", there.path))).await?.bytes().await?;
                assert_eq!(bytes, here[&local.path], "{}", there.path);
            }
            let names: Vec<_> = there.shards.iter().map(|shard| shard.path.as_str()).collect();
            let suffix = compression.suffix();
            match sharding {
                Sharding::Count(_) => {
                    assert!(names.iter().eq(local.shards.iter().map(|shard| &shard.path)), "{names:?}");
                }
                Sharding::Rows(_) => {
                    assert_eq!(names[5..], [0, 1, 2].map(|n| format!("part-00002-{n:05}.tfrecord{suffix}")))
                }
                _ => assert_eq!(names, [0, 2].map(|n| format!("part-{n:05}-00000.tfrecord{suffix}"))),
            }
            assert_eq!(ids(&store.files()).await?, Some((0..2200).collect()));
            assert!(store.open_uploads().is_empty());
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_of_no_rows_makes_empty_shards() -> Result<()> {
    for (sharding, shards) in [(count(3), 3), (Sharding::default(), 1)] {
        let store = FaultyStore::default();
        let manifest = upload(&store, &partitions(&[0, 0]), to_store(sharding, SaveMode::Error)?).await?;
        assert_eq!(manifest.shards.len(), shards);
        assert_eq!(store.keys().await?.len(), shards + 2);
        assert_eq!(ids(&store.files()).await?, Some(Vec::new()));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn long_shards_are_sent_in_parts_of_8_mib() -> Result<()> {
    let store = FaultyStore::default();
    let table = partitions(&[400_000]);
    let manifest = upload(&store, &table, to_store(count(1), SaveMode::Error)?).await?;
    let bytes = usize::try_from(manifest.totals.file_bytes).expect("a small number");
    assert!(bytes > 17 << 20, "{bytes}");
    let parts = store.parts("train/part-00000-of-00001.tfrecord");
    assert_eq!(parts.iter().sum::<usize>(), bytes);
    assert_eq!(parts[..2], [8 << 20, 8 << 20]);
    assert_eq!(ids(&store.files()).await?.map(|ids| ids.len()), Some(400_000));
    Ok(())
}

/// Fails every request of a small job in turn, before or after it is carried out.
async fn one_fails(before: &FaultyStore, options: impl Fn() -> Result<WriteOptions>) -> Result<()> {
    let old = ids(&before.files()).await?;
    let keys = before.keys().await?;
    let table = partitions(&[40, 20]);
    let whole = before.fork(None);
    upload(&whole, &table, options()?).await?;
    let new = ids(&whole.files()).await?;
    assert!(new.iter().flatten().filter(|id| (0..60).contains(*id)).count() >= 60);
    for request in Request::ALL {
        // A failure is followed by requests that a run without one does not send.
        for number in 0..whole.count(request).max(3) {
            for done in [false, true] {
                let store = before.fork(Some(Fault::One { request, number, done }));
                let result = upload(&store, &table, options()?).await;
                let place = format!("{request:?} {number}, done: {done}: {result:?}");
                let found = ids(&store.files()).await?;
                assert_eq!(found, if result.is_ok() { new.clone() } else { old.clone() }, "{place}");
                if let Err(error) = &result {
                    // A scheduler retries those.
                    assert!(matches!(error.find_root(), DataFusionError::IoError(_)), "{place}");
                    assert_eq!(store.keys().await?, keys, "{place}");
                }
                // An upload whose creation response is lost has an unknown identifier.
                let lost = usize::from(request == Request::CreateUpload && done);
                assert_eq!(store.open_uploads().len(), lost, "{place}");
                let repeated = matches!(request, Request::Delete | Request::AbortUpload) || (done && lost == 0);
                let reached = number < whole.count(request);
                assert!(result.is_err() || repeated || !reached, "{place}");
            }
        }
    }
    Ok(())
}

/// Shuffled, in splits.
fn arranged(options: WriteOptions) -> Result<WriteOptions> {
    let splits = "a=0.5,b=0.5".parse().map_err(external)?;
    Ok(WriteOptions { shuffle: Some(1), splits: Some(SplitOptions::Hash { splits, by: Vec::new() }), ..options })
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_failing_at_any_request_leaves_nothing_or_the_set() -> Result<()> {
    let store = FaultyStore::default();
    one_fails(&store, || to_store(count(3), SaveMode::Error)).await?;
    one_fails(&store, || arranged(to_store(count(2), SaveMode::Error)?)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_failing_at_any_request_leaves_the_old_or_the_new_set() -> Result<()> {
    let store = FaultyStore::default();
    upload(&store, &vec![vec![7, 8, 9]], to_store(count(2), SaveMode::Error)?).await?;
    one_fails(&store, || to_store(count(3), SaveMode::Overwrite)).await?;
    one_fails(&store, || arranged(to_store(count(2), SaveMode::Overwrite)?)).await?;
    one_fails(&store, || to_store(count(3), SaveMode::Append)).await
}

/// By day; the table that [`upload`] writes has three days.
fn by_day(options: WriteOptions) -> WriteOptions {
    WriteOptions { partition_by: vec!["day".to_owned()], ..options }
}

#[tokio::test(flavor = "multi_thread")]
async fn append_failing_at_any_request_adds_to_splits_or_changes_nothing() -> Result<()> {
    // Rows of one day, so that appended rows go both to an existing directory and to new ones.
    let old = vec![vec![63, 66, 69, 72, 75]];
    let split = FaultyStore::default();
    upload(&split, &old, arranged(to_store(count(2), SaveMode::Error)?)?).await?;
    one_fails(&split, || arranged(to_store(count(2), SaveMode::Append)?)).await?;
    let partitioned = FaultyStore::default();
    upload(&partitioned, &old, by_day(to_store(count(1), SaveMode::Error)?)).await?;
    one_fails(&partitioned, || Ok(by_day(to_store(count(1), SaveMode::Append)?))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn append_keeps_existing_shards_of_splits_and_directories() -> Result<()> {
    for is_partitioned in [false, true] {
        let store = FaultyStore::default();
        let options = |mode| {
            let options = arranged(to_store(count(2), mode)?)?;
            Ok::<_, DataFusionError>(if is_partitioned { by_day(options) } else { options })
        };
        let before = upload(&store, &vec![(0..200).collect()], options(SaveMode::Error)?).await?;
        let after = upload(&store, &vec![(200..500).collect()], options(SaveMode::Append)?).await?;
        assert_eq!(after.shards[..before.shards.len()], before.shards);
        let added = &after.shards[before.shards.len()..];
        let rows = added.iter().map(|shard| shard.rows).sum::<u64>();
        assert_eq!((rows, after.totals.rows, after.appended.len()), (300, 500, 1));
        for split in ["a", "b"] {
            let directory = if is_partitioned { "day=2/" } else { "" };
            let start = format!("{directory}{split}-");
            assert!(added.iter().any(|shard| shard.path.starts_with(&start) && shard.rows > 0), "{start}");
        }
        assert_eq!(ids(&store.files()).await?, Some((0..500).collect()));
        // Every shard, the manifest, and the success marker.
        assert_eq!(store.keys().await?.len(), after.shards.len() + 2);
        assert!(store.open_uploads().is_empty());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sorted_upload_has_the_names_of_a_directory_set() -> Result<()> {
    let table = partitions(&[700, 300]);
    let query = "SELECT id, id % 7 AS day FROM t";
    for sharding in [count(2), Sharding::Rows(40)] {
        let by_day = |options| {
            Ok::<_, DataFusionError>(WriteOptions { partition_by: vec!["day".to_owned()], ..arranged(options)? })
        };
        let (dir, store) = (tempdir()?, FaultyStore::default());
        let out = dir.path().join("out");
        let context = with_store(&session(&table, Pace::default())?, &store)?;
        let local = run(&context, plan(&context, query, by_day(options(&out, sharding))?).await?).await?;
        let there = plan(&context, query, by_day(to_store(sharding, SaveMode::Error)?)?).await?;
        let there = run(&context, there).await?;
        assert_eq!(there.shards, local.shards);
        assert!(there.shards.iter().any(|shard| shard.path.starts_with("day=6/b-00001-of-")));
        for shard in &there.shards {
            let bytes = store.files().get(&Path::parse(format!("train/{}", shard.path))?).await?.bytes().await?;
            assert!(bytes == std::fs::read(out.join(&shard.path))?, "{}", shard.path);
        }
        assert_eq!(ids(&store.files()).await?, Some((0..1000).collect()));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn append_adds_to_the_stored_set_or_leaves_it_unchanged() -> Result<()> {
    let store = FaultyStore::default();
    upload(&store, &vec![vec![1, 2]], to_store(count(1), SaveMode::Append)?).await?;
    let appended = upload(&store, &vec![vec![3], vec![4]], to_store(count(2), SaveMode::Append)?).await?;
    assert_eq!((appended.totals.rows, appended.appended.len()), (4, 1));
    assert_eq!(ids(&store.files()).await?, Some(vec![1, 2, 3, 4]));
    // No rows, no shards.
    let appended = upload(&store, &vec![vec![]], to_store(count(2), SaveMode::Append)?).await?;
    assert_eq!(appended.shards.len(), 3);
    let zlib = WriteOptions { compression: Compression::Zlib, ..to_store(count(2), SaveMode::Append)? };
    let error = upload(&store, &vec![vec![5]], zlib).await.expect_err("another compression").to_string();
    assert!(error.contains("compression"), "{error}");

    let keys = store.keys().await?;
    let context = with_store(&session(&vec![vec![9]], Pace::default())?, &store)?;
    let ignoring = plan(&context, "SELECT * FROM t", to_store(count(1), SaveMode::Ignore)?).await?;
    let rows = collect(Arc::clone(&ignoring) as _, context.task_ctx()).await?;
    assert_eq!(rows[0].column(0).as_primitive::<UInt64Type>().values(), &[0]);
    assert!(matches!(ignoring.outcome(), Some(WriteOutcome::Ignored { found }) if !found.is_empty()));
    assert_eq!(store.keys().await?, keys);
    Ok(())
}

/// From some moment on the store does not respond, as if the machine were gone.
#[tokio::test(flavor = "multi_thread")]
async fn upload_to_a_vanishing_store_leaves_old_new_or_nothing() -> Result<()> {
    let (vacant, occupied) = (FaultyStore::default(), FaultyStore::default());
    upload(&occupied, &vec![vec![7, 8, 9]], to_store(count(2), SaveMode::Error)?).await?;
    let table = partitions(&[40, 20]);
    let new = Some((0..60).collect::<Vec<_>>());
    for before in [&vacant, &occupied] {
        let old = ids(&before.files()).await?;
        for first in 0.. {
            let store = before.fork(Some(Fault::From(first)));
            let result = upload(&store, &table, to_store(count(3), SaveMode::Overwrite)?).await;
            let found = ids(&store.files()).await?;
            assert!(found == new || (found == old && result.is_err()), "from {first}: {found:?}, {result:?}");
            // The next run replaces whatever was left, and keeps nothing of it.
            let next = store.fork(None);
            upload(&next, &vec![vec![1, 2]], to_store(count(1), SaveMode::Overwrite)?).await?;
            assert_eq!(ids(&next.files()).await?, Some(vec![1, 2]), "from {first}");
            assert_eq!(next.keys().await?.len(), 3, "from {first}: {:?}", next.keys().await?);
            if store.requests() <= first {
                break;
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn upload_works_without_conditional_requests() -> Result<()> {
    let store = FaultyStore::default().fork(Some(Fault::Conditions));
    for ids_of_run in [vec![1, 2, 3], vec![4, 5]] {
        upload(&store, &vec![ids_of_run.clone()], to_store(count(2), SaveMode::Overwrite)?).await?;
        assert_eq!(ids(&store.files()).await?, Some(ids_of_run));
        assert_eq!(store.keys().await?.len(), 4);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_uploads_let_one_fail_cleanly() -> Result<()> {
    for mode in [SaveMode::Error, SaveMode::Overwrite] {
        for _ in 0..20 {
            let store = FaultyStore::default();
            let tables = [partitions(&[40, 20]), partitions(&[10, 10])];
            let both = futures::join!(
                upload(&store, &tables[0], to_store(count(3), mode)?),
                upload(&store, &tables[1], to_store(count(3), mode)?),
            );
            let found = ids(&store.files()).await?;
            assert!(store.open_uploads().is_empty());
            match both {
                (Ok(_), Err(_)) => assert_eq!(found, Some((0..60).collect())),
                (Err(_), Ok(_)) => assert_eq!(found, Some((0..20).collect())),
                // One after the other.
                (Ok(_), Ok(_)) => assert!(mode == SaveMode::Overwrite && found.is_some()),
                (Err(one), Err(other)) => panic!("{one}; {other}"),
            }
            assert_eq!(store.keys().await?.len(), 5, "{:?}", store.keys().await?);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_stream_aborts_every_upload() -> Result<()> {
    for sharding in [Sharding::Rows(1000), count(4)] {
        let store = FaultyStore::default();
        let context = with_store(&session(&partitions(&[2_000_000]), Pace::default())?, &store)?;
        let plan = plan(&context, "SELECT * FROM t", to_store(sharding, SaveMode::Error)?).await?;
        let mut stream = execute_stream(Arc::clone(&plan) as _, context.task_ctx())?;
        let running = tokio::spawn(async move { stream.next().await.is_none() });
        while store.open_uploads().is_empty() {
            assert!(!running.is_finished(), "the run ended before an upload was begun");
            tokio::task::yield_now().await;
        }
        running.abort();
        let _ = running.await;
        plan.settled().await;
        assert!(store.open_uploads().is_empty(), "{:?}", store.open_uploads());
        assert!(store.keys().await?.is_empty());
        assert!(plan.summary().is_none());
    }
    Ok(())
}

/// A hundred open shards, with too little memory for the parts of any.
#[tokio::test(flavor = "multi_thread")]
async fn parts_wait_on_disk_when_memory_is_short() -> Result<()> {
    let table = partitions(&[200_000, 200_000]);
    let write = async |disk: DiskManagerMode| {
        let store = FaultyStore::default();
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(64 << 20)))
            .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(disk))
            .build_arc()?;
        let rows = session(&table, Pace::default())?;
        let context = SessionContext::new_with_config_rt(rows.copied_config(), runtime);
        context.register_table("t", rows.table_provider("t").await?)?;
        let context = with_store(&context, &store)?;
        let plan = plan(&context, "SELECT * FROM t", to_store(count(100), SaveMode::Error)?).await?;
        let written = run(&context, Arc::clone(&plan)).await;
        plan.settled().await;
        memory_is_given_back(&*context.runtime_env().memory_pool).await;
        assert!(store.open_uploads().is_empty());
        Ok::<_, DataFusionError>((written, store))
    };
    let (written, store) = write(DiskManagerMode::OsTmpDirectory).await?;
    assert_eq!(written?.totals.rows, 400_000);
    assert_eq!(ids(&store.files()).await?.map(|ids| ids.len()), Some(400_000));
    let (written, store) = write(DiskManagerMode::Disabled).await?;
    let error = written.expect_err("there is neither memory nor disk");
    assert!(error.to_string().contains("cannot write"), "{error}");
    assert!(store.keys().await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_are_refused_before_any_upload() -> Result<()> {
    let store = FaultyStore::default();
    store.put(&Path::from("train/notes.txt"), PutPayload::from_static(b"mine")).await?;
    store.put(&Path::from("trainer/x"), PutPayload::from_static(b"another prefix")).await?;
    for (mode, expected) in [
        (SaveMode::Error, "memory:///train/: not empty: it contains notes.txt"),
        (
            SaveMode::Overwrite,
            "memory:///train/: neither replaced nor appended to, because it contains files written by other tools: notes.txt",
        ),
    ] {
        let error = upload(&store, &partitions(&[10]), to_store(count(1), mode)?).await.expect_err("refused");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let context = with_store(&session(&partitions(&[10]), Pace::default())?, &store)?;
    let refusal = async |url: &str, inputs: &[&str]| -> Result<String> {
        let inputs = inputs.iter().map(ToString::to_string).collect();
        let options = WriteOptions { inputs, ..WriteOptions::new(WriteTarget::parse(url)?) };
        Ok(plan(&context, "SELECT id FROM t", options).await.map_or_else(|error| error.to_string(), |_| String::new()))
    };
    assert!(refusal("s3://bucket/x/", &[]).await?.contains("cannot write to s3://bucket/x/"));
    for input in ["memory:///", "memory:///train/raw/", "memory:///train/raw/a.parquet", "memory:///train/**/*.csv"] {
        let refused = refusal(URL, &[input]).await?;
        assert!(refused.contains("overlaps with input"), "{input}: {refused}");
    }
    assert_eq!(refusal(URL, &["memory:///other/", "memory:///*.csv"]).await?, "");
    context.register_object_store(ObjectStoreUrl::parse("web://host")?.as_ref(), Arc::new(InMemory::new()));
    assert!(refusal("web://host/x/", &[]).await?.contains("readers would see shards before the set is complete"));
    assert_eq!(store.count(Request::CreateUpload), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_writes_to_a_store() -> Result<()> {
    let store = FaultyStore::default();
    let context = with_store(&session(&partitions(&[10]), Pace::default())?, &store)?;
    let copy = format!("COPY (SELECT * FROM t) TO '{URL}' STORED AS TFRECORD OPTIONS ('tfrecord.shards' '2')");
    context.sql(&copy).await?.collect().await?;
    assert_eq!(ids(&store.files()).await?, Some((0..10).collect()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn overwrite_deletes_the_replaced_objects() -> Result<()> {
    let store = FaultyStore::default();
    upload(&store, &vec![vec![7, 8, 9]], to_store(count(2), SaveMode::Error)?).await?;
    let manifest = upload(&store, &partitions(&[40]), to_store(Sharding::Rows(30), SaveMode::Overwrite)?).await?;
    assert_eq!(manifest.replaced, ["part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord"]);
    let names: Vec<_> = manifest.shards.iter().map(|shard| shard.path.clone()).collect();
    assert_eq!(names[1], format!("part-{}-00000-00001.tfrecord", manifest.run));
    assert_eq!(store.keys().await?.len(), 4, "{:?}", store.keys().await?);
    assert_eq!(ids(&store.files()).await?, Some((0..40).collect()));
    // Again, replacing files whose names contain a run.
    upload(&store, &vec![vec![1]], to_store(count(1), SaveMode::Overwrite)?).await?;
    assert_eq!(ids(&store.files()).await?, Some(vec![1]));
    assert_eq!(store.keys().await?.len(), 3);
    Ok(())
}
