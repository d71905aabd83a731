//! [`WriteOptions`]: where a query's rows go, in which form, and how they are spread over shards.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use arrow_tfrecord::MappingOptions;
use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{SaveMode, Sharding, Splits};
use tfrecord_sidecars::Emit;
use tfrecord_sidecars::snapshot::SnapshotNulls;

use super::target::WriteTarget;

/// What [`plan_write`](super::plan_write) needs to know beside the rows.
///
/// ```
/// use std::num::NonZeroUsize;
/// use datafusion_tfrecord::WriteOptions;
/// use datafusion_tfrecord::write::WriteTarget;
/// use tfrecord_framing::Compression;
/// use tfrecord_shards::Sharding;
///
/// let four = NonZeroUsize::new(4).ok_or("four is not zero")?;
/// let options = WriteOptions {
///     sharding: Sharding::Count(four),
///     compression: Compression::Gzip,
///     ..WriteOptions::new(WriteTarget::parse("s3://bucket/train/")?)
/// };
/// assert_eq!(options.prefix, "part");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// The directory that the set becomes, here or in an object store.
    pub out: WriteTarget,
    /// What columns become.
    pub mapping: MappingOptions,
    /// How rows are spread over shards: those of each split, in each partition directory.
    pub sharding: Sharding,
    /// The number of shards of some splits, in the place of [`sharding`](Self::sharding).
    pub split_shards: BTreeMap<String, NonZeroUsize>,
    /// Shuffle all rows, with this seed: equal rows and seed give equal shards, in whichever order, files and partitions the
    /// rows come. There is no order to keep then.
    pub shuffle: Option<u64>,
    /// Divide the rows into splits. Shard names start with the name of the split then.
    pub splits: Option<SplitOptions>,
    /// Columns whose values become Hive directories, `dt=2026-01-01/`, outermost first.
    pub partition_by: Vec<String>,
    /// Whether these columns are in the records, too.
    pub keep_partition_columns: bool,
    /// What shard names start with, unless there are splits.
    pub prefix: String,
    /// How shards are compressed.
    pub compression: Compression,
    /// How hard to compress.
    pub level: Level,
    /// What to do when the target exists.
    pub mode: SaveMode,
    /// What else is to lie beside the shards, for readers that look for it. Part of the set, and of its commit.
    pub emit: Emit,
    /// What the set is: shards of records, or a saved dataset.
    pub layout: Layout,
    /// Keep the order of the rows: read one after the other, the shards hold them as the query does. One partition
    /// writes then, and with [`Sharding::Count`] the number of rows must be known beforehand.
    pub ordered: bool,
    /// The number of rows, if the caller has counted them. Wrong numbers are an error at the end of the run, not wrong
    /// shards. Only ordered writes with [`Sharding::Count`] need it, and only where the plan's statistics do not tell.
    pub expected_rows: Option<u64>,
    /// Threads that encode and compress. All cores if unset.
    pub threads: Option<NonZeroUsize>,
    /// The query, for the manifest.
    pub query: Option<String>,
    /// The inputs as they were named, for the manifest. The set may not lie in a local directory among them.
    pub inputs: Vec<String>,
    /// What else the caller was told, for the manifest's options: how tables are read, say. No secrets.
    pub recorded: BTreeMap<String, serde_json::Value>,
}

/// What a set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Shards of records as [`mapping`](WriteOptions::mapping) has them.
    #[default]
    Shards,
    /// A directory that `tf.data.Dataset.load` opens: see [`snapshot`](mod@tfrecord_sidecars::snapshot). Only in a local
    /// directory, of a [number](Sharding::Count) of shards, and not shuffled, split, partitioned or appended to. An ordered
    /// one has one shard.
    Snapshot(SnapshotNulls),
}

/// Which splits there are, and what decides about a row's.
#[derive(Debug, Clone)]
pub struct SplitOptions {
    /// Their names and shares.
    pub splits: Splits,
    /// The key columns, [hashed](tfrecord_shards::key_hashes) in this order. Without any, the
    /// [whole record](tfrecord_shards::record_hash) is the key.
    pub by: Vec<String>,
}

impl WriteOptions {
    /// The defaults: shards of 128 MiB, uncompressed, named `part-...`, into a directory that must not exist yet.
    pub fn new(out: impl Into<WriteTarget>) -> Self {
        Self {
            out: out.into(),
            mapping: MappingOptions::default(),
            sharding: Sharding::default(),
            split_shards: BTreeMap::new(),
            shuffle: None,
            splits: None,
            partition_by: Vec::new(),
            keep_partition_columns: false,
            prefix: "part".to_owned(),
            compression: Compression::default(),
            level: Level::default(),
            mode: SaveMode::Error,
            emit: Emit::default(),
            layout: Layout::default(),
            ordered: false,
            expected_rows: None,
            threads: None,
            query: None,
            inputs: Vec::new(),
            recorded: BTreeMap::new(),
        }
    }
}
