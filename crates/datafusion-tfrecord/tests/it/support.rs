//! Partitioned tables, plans over them, and readers of the output.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::listing_table_factory::ListingTableFactory;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tfrecord::{TfRecordCommitExec, TfRecordFormatFactory, WriteOptions, plan_write, reproducible};
use futures::{Stream, stream};
use prost::Message;
use tfr_proto::tensorflow::Example;
use tfr_proto::tensorflow::feature::Kind;
use tfrecord_framing::{Compression, RecordReader};
use tfrecord_shards::{Manifest, Sharding};

/// A table of `id` and `name`, whose partitions hold these ids.
pub(crate) type Partitions = Vec<Vec<i64>>;

/// Ids from 0 on in partitions of these lengths.
pub(crate) fn partitions(lengths: &[usize]) -> Partitions {
    let mut next = 0;
    let mut ids = |len: usize| {
        let ids = (next..next + len as i64).collect();
        next += len as i64;
        ids
    };
    lengths.iter().map(|&len| ids(len)).collect()
}

pub(crate) fn batch(ids: &[i64]) -> Result<RecordBatch> {
    let names: StringArray = ids.iter().map(|id| (id % 3 != 0).then(|| format!("row {id}"))).collect();
    let columns = [("id", Arc::new(Int64Array::from(ids.to_vec())) as ArrayRef), ("name", Arc::new(names) as ArrayRef)];
    Ok(RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, name == "name")))?)
}

/// Waits until all memory of the pool is released. Tasks of an ended plan release memory when the runtime drops them,
/// which may be a little after the run itself is cleaned up.
///
/// # Panics
/// Memory stays reserved.
pub(crate) async fn memory_is_given_back(pool: &dyn MemoryPool) {
    let given_back = async {
        while pool.reserved() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), given_back).await;
    assert!(waited.is_ok(), "{} bytes are still reserved", pool.reserved());
}

/// A partition that yields its rows in batches of varying length and is not always ready, in a pattern determined by
/// its seed.
struct Unsteady {
    ids: Vec<i64>,
    schema: SchemaRef,
    batch_size: usize,
    seed: u64,
}

impl fmt::Debug for Unsteady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.ids.len())
    }
}

impl PartitionStream for Unsteady {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches: Vec<_> = self.ids.chunks(self.batch_size).map(batch).collect();
        let batches = NotAlwaysReady { inner: stream::iter(batches), state: self.seed };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

struct NotAlwaysReady<S> {
    inner: S,
    state: u64,
}

impl<S: Stream + Unpin> Stream for NotAlwaysReady<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        // The multiplier and increment of Knuth's MMIX.
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if self.state >> 62 != 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll_next(cx)
    }
}

/// How a table's batches arrive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) batch_size: usize,
    pub(crate) seed: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { batch_size: 1000, seed: 0 }
    }
}

/// Creates a session with table `t` and the TFRecord format.
pub(crate) fn session(partitions: &Partitions, pace: Pace) -> Result<SessionContext> {
    let schema = batch(&[])?.schema();
    let streams = partitions.iter().enumerate().map(|(index, ids)| {
        let seed = pace.seed.wrapping_mul(1000).wrapping_add(index as u64);
        let ids = ids.clone();
        Arc::new(Unsteady { ids, schema: Arc::clone(&schema), batch_size: pace.batch_size, seed }) as _
    });
    let table = StreamingTable::try_new(Arc::clone(&schema), streams.collect())?;
    let context = empty_session(partitions.len())?;
    context.register_table("t", Arc::new(table))?;
    Ok(context)
}

pub(crate) fn empty_session(partitions: usize) -> Result<SessionContext> {
    let config = reproducible(SessionConfig::new().with_target_partitions(partitions));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_table_factory("TFRECORD".to_owned(), Arc::new(ListingTableFactory::new()))
        .build();
    state.register_file_format(Arc::new(TfRecordFormatFactory), true)?;
    Ok(SessionContext::new_with_state(state))
}

/// Plans to write the result of a query.
pub(crate) async fn plan(
    context: &SessionContext,
    query: &str,
    options: WriteOptions,
) -> Result<Arc<TfRecordCommitExec>> {
    let input = context.sql(query).await?.create_physical_plan().await?;
    plan_write(input, options, &context.state())
}

/// Runs a write plan.
pub(crate) async fn run(context: &SessionContext, plan: Arc<TfRecordCommitExec>) -> Result<Arc<Manifest>> {
    collect(Arc::clone(&plan) as Arc<dyn ExecutionPlan>, context.task_ctx()).await?;
    plan.summary().ok_or_else(|| DataFusionError::Internal("no summary".to_owned()))
}

/// Writes table `t` with these partitions.
pub(crate) async fn write(partitions: &Partitions, pace: Pace, options: WriteOptions) -> Result<Arc<Manifest>> {
    let context = session(partitions, pace)?;
    let plan = plan(&context, "SELECT * FROM t", options).await?;
    run(&context, plan).await
}

pub(crate) fn count(shards: usize) -> Sharding {
    Sharding::Count(NonZeroUsize::new(shards).expect("not zero"))
}

pub(crate) fn options(out: &Path, sharding: Sharding) -> WriteOptions {
    WriteOptions { sharding, ..WriteOptions::new(out) }
}

/// Returns the ids in a shard, in order. Checks the records' checksums, and parses them as TensorFlow's own messages.
pub(crate) fn ids(shard: &Path) -> Result<Vec<i64>> {
    let name = shard.to_string_lossy();
    let compression = match () {
        () if name.ends_with(".gz") => Compression::Gzip,
        () if name.ends_with(".deflate") || name.ends_with(".zlib") => Compression::Zlib,
        () => Compression::None,
    };
    let mut reader = RecordReader::with_compression(File::open(shard)?, compression);
    let (mut ids, mut record) = (Vec::new(), Vec::new());
    while reader.read_record(&mut record).map_err(external)? {
        let features = Example::decode(record.as_slice()).map_err(external)?.features.unwrap_or_default().feature;
        let Some(Kind::Int64List(list)) = features.get("id").and_then(|id| id.kind.as_ref()) else {
            panic!("{name}: a record without id");
        };
        let id = list.value[0];
        let expected = (id % 3 != 0).then(|| format!("row {id}").into_bytes());
        let name = features.get("name").and_then(|name| match &name.kind {
            Some(Kind::BytesList(list)) => list.value.first().map(|value| value.to_vec()),
            _ => None,
        });
        assert_eq!(name, expected, "row {id}");
        ids.push(id);
    }
    Ok(ids)
}

pub(crate) fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Returns the ids in every shard of a set, as the manifest lists them.
pub(crate) fn shards(out: &Path) -> Result<Vec<Vec<i64>>> {
    let manifest = Manifest::read(out).map_err(external)?;
    manifest.shards.iter().map(|shard| ids(&out.join(&shard.path))).collect()
}

/// Returns every file of a directory but the manifest, with its bytes.
pub(crate) fn files(dir: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != tfrecord_shards::MANIFEST_NAME {
            files.insert(name, fs::read(entry.path())?);
        }
    }
    Ok(files)
}

/// Returns the names in a directory, including hidden ones.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>> {
    let names: std::io::Result<Vec<_>> =
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
    Ok(names?)
}
