//! [`WriteOptions`]: where a query's rows go, in which format, and how they are distributed over shards.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use arrow_tfrecord::MappingOptions;
use serde::{Deserialize, Serialize};
use tfrecord_framing::array_record::ChunkCodec;
use tfrecord_framing::{Compression, Framing, FramingConflict, Level, RecordFormat};
use tfrecord_shards::{RowSplits, SaveMode, Sharding, Splits};
use tfrecord_sidecars::Emit;
use tfrecord_sidecars::snapshot::SnapshotNulls;

use super::expected::ExpectedSet;
use super::rejects::Rejects;
use super::target::WriteTarget;

/// The options of [`plan_write`](super::plan_write).
///
/// They can be serialized, for [`plan_tasks`](super::plan_tasks) in another process, which has threads of its own. The set
/// is then one of shards.
///
/// ```
/// use std::num::{NonZeroU32, NonZeroUsize};
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
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteOptions {
    /// The target directory, local or in an object store.
    #[serde(with = "text")]
    pub out: WriteTarget,
    /// How columns are mapped to features.
    pub mapping: MappingOptions,
    /// How rows are distributed over shards. Applies to each split in each partition directory.
    pub sharding: Sharding,
    /// The number of shards of individual splits. Takes precedence over [`sharding`](Self::sharding).
    pub split_shards: BTreeMap<String, NonZeroUsize>,
    /// Shuffles all rows with this seed. Equal rows and an equal seed give equal shards, whatever the order, files
    /// and partitions of the rows. Overrides [`ordered`](Self::ordered).
    pub shuffle: Option<u64>,
    /// Divides the rows into splits. Shard names then start with the split's name.
    pub splits: Option<SplitOptions>,
    /// Columns whose values become Hive directories, `dt=2026-01-01/`, outermost first.
    pub partition_by: Vec<String>,
    /// Whether the records contain the partition columns, too.
    pub keep_partition_columns: bool,
    /// Prefix of shard names, unless there are splits.
    pub prefix: String,
    /// The format of the shards.
    #[serde(with = "text")]
    pub record_format: RecordFormat,
    /// Number of records of a chunk of ArrayRecord shards, 1 if unset.
    pub group_size: Option<NonZeroU32>,
    /// Compression of the chunks of ArrayRecord shards.
    #[serde(with = "text")]
    pub chunk_codec: ChunkCodec,
    /// Compression of TFRecord shards.
    #[serde(with = "text")]
    pub compression: Compression,
    /// Compression level.
    #[serde(with = "level")]
    pub level: Level,
    /// What to do if the target exists.
    pub mode: SaveMode,
    /// Whether [`SaveMode::Append`] and [`SaveMode::OverwritePartitions`] add columns that the set does not have. They are
    /// null in its existing rows.
    pub add_columns: bool,
    /// Sidecar files to write for other readers. They are part of the set and of its commit.
    #[serde(with = "emit")]
    pub emit: Emit,
    /// The layout: shards of records, or a saved dataset.
    #[serde(skip)]
    pub layout: Layout,
    /// Preserves the order of the rows across the shards, in the order of their names. A single partition then
    /// writes, and with [`Sharding::Count`] the number of rows must be known beforehand.
    pub ordered: bool,
    /// The number of rows, if the caller has counted them. A wrong number is an error at the end of the run; it never
    /// produces wrong shards. Only ordered writes with [`Sharding::Count`] need it, and only if the plan's statistics
    /// do not provide it.
    pub expected_rows: Option<u64>,
    /// Columns whose names of labels are not those of all values, so that nothing may describe them by these.
    #[serde(default)]
    pub unlabelled: BTreeSet<String>,
    /// The set that must result. If the shards are others, nothing is published.
    #[serde(skip)]
    pub expected: Option<ExpectedSet>,
    /// Rejects rows that cannot be written. They are errors if unset. Not for tasks, and not for a saved dataset.
    #[serde(skip)]
    pub rejects: Option<Rejects>,
    /// An existing directory that all processes see, for the sorted rows of [tasks](super::TfRecordCommitExec::detach).
    /// By default they are next to the staged shards, which is not possible in an object store.
    #[serde(skip)]
    pub scratch: Option<PathBuf>,
    /// Number of threads that encode and compress. All cores if unset.
    #[serde(skip)]
    pub threads: Option<NonZeroUsize>,
    /// The query, recorded in the manifest.
    pub query: Option<String>,
    /// The inputs as named by the user, recorded in the manifest. The target must not be within a local directory
    /// among them.
    pub inputs: Vec<String>,
    /// Further settings of the caller to record in the manifest's options, such as how tables are read. Must not
    /// contain secrets.
    pub recorded: BTreeMap<String, serde_json::Value>,
}

/// The layout of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Shards of records, mapped by [`mapping`](WriteOptions::mapping).
    #[default]
    Shards,
    /// A directory that `tf.data.Dataset.load` opens: see [`snapshot`](mod@tfrecord_sidecars::snapshot). Requires a
    /// local directory and a [number](Sharding::Count) of shards. Cannot be shuffled, split, partitioned or appended
    /// to. If ordered, it has one shard.
    Snapshot(SnapshotNulls),
}

/// The splits, and how rows are assigned to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum SplitOptions {
    /// By the hash of a key.
    Hash {
        /// The names and fractions of the splits.
        #[serde(with = "text")]
        splits: Splits,
        /// The key columns, [hashed](tfrecord_shards::key_hashes) in this order. If empty, the key is the [whole
        /// record](tfrecord_shards::record_hash).
        by: Vec<String>,
    },
    /// Exact numbers of rows, cut from shuffled rows. Requires a [shuffle](WriteOptions::shuffle) and no partition columns,
    /// and the set cannot be appended to.
    Rows(#[serde(with = "text")] RowSplits),
    /// The values of this column are the names of the splits. The records do not contain it.
    Column(String),
}

impl SplitOptions {
    /// Returns the names of the splits, in order. Empty if only the rows tell them.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Hash { splits, .. } => splits.iter().map(|(name, _)| name).collect(),
            Self::Rows(splits) => splits.names().collect(),
            Self::Column(_) => Vec::new(),
        }
    }

    /// Whether a split of this name is possible.
    pub fn may_have(&self, name: &str) -> bool {
        matches!(self, Self::Column(_)) || self.names().contains(&name)
    }
}

impl WriteOptions {
    /// Creates the default options: uncompressed shards of 128 MiB, named `part-...`, in a directory that must not
    /// exist yet.
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
            record_format: RecordFormat::default(),
            group_size: None,
            chunk_codec: ChunkCodec::default(),
            compression: Compression::default(),
            level: Level::default(),
            mode: SaveMode::Error,
            add_columns: false,
            emit: Emit::default(),
            layout: Layout::default(),
            ordered: false,
            expected_rows: None,
            unlabelled: BTreeSet::new(),
            expected: None,
            rejects: None,
            scratch: None,
            threads: None,
            query: None,
            inputs: Vec::new(),
            recorded: BTreeMap::new(),
        }
    }

    /// Returns how records become shards.
    ///
    /// # Errors
    /// If the [format](Self::record_format) does not have the compression or the group size.
    pub fn framing(&self) -> Result<Framing, FramingConflict> {
        let of_chunks = (self.chunk_codec, self.group_size);
        Framing::try_new(self.record_format, (self.compression, self.level), of_chunks)
    }
}

/// Stores a value as its text.
mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'a, T: FromStr<Err: Display>, D: Deserializer<'a>>(stored: D) -> Result<T, D::Error> {
        String::deserialize(stored)?.parse().map_err(D::Error::custom)
    }
}

/// Stores a compression level as a number.
mod level {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tfrecord_framing::Level;

    pub(super) fn serialize<S: Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
        level.get().serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(stored: D) -> Result<Level, D::Error> {
        Level::try_from(u32::deserialize(stored)?).map_err(D::Error::custom)
    }
}

/// Stores the kinds of sidecar files as a list of their names.
mod emit {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};
    use tfrecord_sidecars::{Emit, SidecarKind};

    pub(super) fn serialize<S: Serializer>(emit: &Emit, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(emit.kinds().map(|kind| kind.to_string()))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(stored: D) -> Result<Emit, D::Error> {
        let kinds = Vec::<String>::deserialize(stored)?;
        kinds.iter().map(|kind| kind.parse::<SidecarKind>()).collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}
