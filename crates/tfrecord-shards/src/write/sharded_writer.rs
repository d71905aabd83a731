//! [`ShardedWriter`]: writes record batches to a published set.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchWriter};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions};
use rayon::ThreadPool;
use tfrecord_framing::{Compression, Framing, Level};

use crate::commit::local::LocalCommit;
use crate::commit::publication::{Leftover, check_description, check_prefix};
use crate::commit::save_mode::SaveMode;
use crate::error::{ErrorKind, Result};
use crate::set::manifest::{Manifest, SetDescription};
use crate::set::names::RunId;
use crate::sort::{SorterOptions, SpillStore, TempDirSpill};
use crate::write::direct_writer::DirectWriter;
use crate::write::job::thread_pool;
use crate::write::sharding::{ShardRule, Sharding};
use crate::write::sorted_writer::{RowOrder, SortedWriter};
use crate::write::unit::encode_unit;

/// Builds a [`ShardedWriter`].
#[derive(Debug, Clone)]
pub struct ShardedWriterBuilder {
    pub(super) schema: SchemaRef,
    pub(super) mapping: MappingOptions,
    pub(super) sharding: Sharding,
    pub(super) prefix: String,
    pub(super) framing: Framing,
    pub(super) mode: SaveMode,
    pub(super) pool: Option<Arc<ThreadPool>>,
    query: Option<String>,
    pub(super) inputs: Vec<PathBuf>,
    pub(super) shuffle: Option<u64>,
    pub(super) indexed: bool,
    sort_memory: usize,
    spill: Arc<dyn SpillStore>,
}

impl ShardedWriterBuilder {
    /// Creates a builder for batches of this schema. Defaults: uncompressed shards of 128 MiB named `part-...`, in a
    /// directory that does not exist yet, encoded on one thread per core.
    pub fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            mapping: MappingOptions::default(),
            sharding: Sharding::default(),
            prefix: "part".to_owned(),
            framing: Framing::default(),
            mode: SaveMode::default(),
            pool: None,
            query: None,
            inputs: Vec::new(),
            shuffle: None,
            indexed: false,
            sort_memory: SorterOptions::MEMORY,
            spill: Arc::new(TempDirSpill::default()),
        }
    }

    /// Sets the mapping of columns to features.
    #[must_use]
    pub fn with_mapping(mut self, options: MappingOptions) -> Self {
        self.mapping = options;
        self
    }

    /// Sets how rows are assigned to shards. With [`Sharding::Hosts`], rows are held back until all have arrived, as
    /// [shuffled](Self::with_shuffle) rows are, and stay in order.
    #[must_use]
    pub fn with_sharding(mut self, sharding: Sharding) -> Self {
        self.sharding = sharding;
        self
    }

    /// Sets the prefix of shard names.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the compression of TFRecord shards and its level.
    #[must_use]
    pub fn with_compression(self, compression: Compression, level: Level) -> Self {
        self.with_framing((compression, level))
    }

    /// Sets the format of shards.
    #[must_use]
    pub fn with_framing(mut self, framing: impl Into<Framing>) -> Self {
        self.framing = framing.into();
        self
    }

    /// Sets whether each shard gets an index of its records' offsets, which is published with it. Only
    /// uncompressed TFRecord shards have one.
    #[must_use]
    pub fn with_indexes(mut self, indexed: bool) -> Self {
        self.indexed = indexed;
        self
    }

    /// Sets how to proceed if the target exists.
    #[must_use]
    pub fn with_mode(mut self, mode: SaveMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the threads for encoding and compression.
    #[must_use]
    pub fn with_pool(mut self, pool: Arc<ThreadPool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Sets the source query, for the manifest.
    #[must_use]
    pub fn with_query(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// Sets the source files and directories, for the manifest and to protect them from being overwritten.
    #[must_use]
    pub fn with_inputs(mut self, inputs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.inputs = inputs.into_iter().map(Into::into).collect();
        self
    }

    /// Writes all rows in a uniform random order over the whole set, determined by the seed. Equal rows and an equal
    /// seed give equal shards, for any order, batches and threads in which the rows arrive. No shard is written before
    /// the last row has arrived.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    /// use tfrecord_shards::{Sharding, ShardedWriterBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from_iter_values(0..9)) as ArrayRef)])?;
    /// let builder = ShardedWriterBuilder::new(batch.schema()).with_shuffle(7).with_sharding(Sharding::Rows(5));
    /// let mut writer = builder.clone().build(dir.path().join("one"))?;
    /// writer.write(&batch)?;
    /// let one = writer.finish()?;
    ///
    /// let mut writer = builder.build(dir.path().join("two"))?;
    /// writer.write(&batch.slice(4, 5))?;
    /// writer.write(&batch.slice(0, 4))?;
    /// assert_eq!(writer.finish()?.shards, one.shards);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_shuffle(mut self, seed: u64) -> Self {
        self.shuffle = Some(seed);
        self
    }

    /// Sets the memory in bytes for records that are held back. The default is 512 MiB. Further records are spilled.
    #[must_use]
    pub fn with_sort_memory(mut self, bytes: usize) -> Self {
        self.sort_memory = bytes;
        self
    }

    /// Sets where records are spilled. The default is the directory for temporary files.
    #[must_use]
    pub fn with_spill(mut self, store: Arc<dyn SpillStore>) -> Self {
        self.spill = store;
        self
    }

    /// Begins a set in the directory `out`. Creates missing parent directories.
    ///
    /// # Errors
    /// If a column cannot be mapped, the target cannot be written to (see [`LocalCommit::begin`]), or the existing set
    /// has another record format than the rows to append (see [`Manifest::check_append`]).
    pub fn build(self, out: impl AsRef<Path>) -> Result<ShardedWriter> {
        let mapping = Mapping::of_writer(&self.schema, &self.mapping)?;
        check_prefix(&self.prefix)?;
        let pool = self.pool.clone().map_or_else(thread_pool, Ok)?;
        let description = self.describe(&mapping)?;
        check_description(&description)?;
        let commit = LocalCommit::begin(out, self.mode, RunId::new(), &self.inputs)?.with_indexes(self.indexed);
        if let Some(current) = commit.current() {
            current.check_append(&description, commit.out())?;
        }
        let order = match (self.shuffle, self.sharding) {
            (Some(seed), _) => Some(RowOrder::Shuffled { seed }),
            // The number of shards depends on the total length.
            (None, Sharding::Hosts(_)) => Some(RowOrder::Arrival),
            (None, _) => None,
        };
        let shards = if let Some(order) = order {
            let room = (self.spill, self.sort_memory);
            let shards = SortedWriter::new(commit.clone(), pool, self.sharding, self.framing, order, room);
            Shards::AllRows(Box::new(shards))
        } else {
            let rule = (self.sharding.least_shards(), ShardRule::new(self.sharding));
            let destination = (Arc::new(commit.clone()) as _, 0);
            Shards::AsRowsCome(DirectWriter::new(destination, commit.out(), pool, rule, self.framing)?)
        };
        Ok(ShardedWriter {
            encoder: Encoder::new(Arc::new(mapping)),
            rows: 0,
            shards,
            commit,
            description,
            failed: false,
        })
    }

    /// Same as [`build`](Self::build), but returns `None` if [`SaveMode::Ignore`] is set and the target is not empty.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    /// use tfrecord_shards::{SaveMode, ShardedWriterBuilder};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let out = dir.path().join("shards");
    /// # let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef)])?;
    /// let builder = ShardedWriterBuilder::new(batch.schema()).with_mode(SaveMode::Ignore);
    /// let mut writer = builder.clone().build_or_ignore(&out)?.ok_or("nothing is there")?;
    /// writer.write(&batch)?;
    /// writer.finish()?;
    /// assert!(builder.build_or_ignore(&out)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_or_ignore(self, out: impl AsRef<Path>) -> Result<Option<ShardedWriter>> {
        let mode = self.mode;
        match self.build(out) {
            Err(error) if mode == SaveMode::Ignore && matches!(error.kind(), ErrorKind::NotEmpty { .. }) => Ok(None),
            built => built.map(Some),
        }
    }

    pub(super) fn describe(&self, mapping: &Mapping) -> Result<SetDescription> {
        let mut description = SetDescription::new(mapping, &self.mapping)?;
        description.prefix.clone_from(&self.prefix);
        description.set_framing(self.framing);
        description.sharding = self.sharding;
        description.seed = self.shuffle;
        description.replace_partitions = self.mode == SaveMode::OverwritePartitions;
        description.query.clone_from(&self.query);
        description.inputs = self.inputs.iter().map(|input| input.display().to_string()).collect();
        Ok(description)
    }
}

/// Writes record batches to a shard set. Batches are encoded on a rayon pool, staged out of sight, and published by
/// [`finish`](Self::finish), completely or not at all.
///
/// The shards depend on the rows, their order and the options, not on batches or threads. A writer that is dropped
/// without `finish`, or after an error, leaves nothing behind.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
/// use tfrecord_shards::{Sharding, ShardedWriterBuilder};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let out = dir.path().join("shards");
/// let batch = RecordBatch::try_from_iter([
///     ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef),
///     ("label", Arc::new(StringArray::from(vec!["cat", "dog", "cat"]))),
/// ])?;
/// let two = NonZeroUsize::new(2).ok_or("two is not zero")?;
/// let mut writer = ShardedWriterBuilder::new(batch.schema()).with_sharding(Sharding::Count(two)).build(&out)?;
/// writer.write(&batch)?;
/// let manifest = writer.finish()?;
/// assert_eq!(manifest.shards[0].rows, 2);
/// assert_eq!(manifest.shards[1].path, "part-00001-of-00002.tfrecord");
/// # Ok(())
/// # }
/// ```
pub struct ShardedWriter {
    encoder: Encoder,
    /// Number of rows written.
    rows: u64,
    shards: Shards,
    commit: LocalCommit,
    description: SetDescription,
    failed: bool,
}

/// The destination of records.
enum Shards {
    /// Writes records to their shards as they arrive.
    AsRowsCome(DirectWriter),
    /// Holds records back until the last one has arrived.
    AllRows(Box<SortedWriter>),
}

impl ShardedWriter {
    /// Returns the mapping of columns to features.
    pub fn mapping(&self) -> &Mapping {
        self.encoder.mapping()
    }

    /// Returns what earlier runs left behind next to the target, or in it.
    pub fn leftovers(&self) -> &[Leftover] {
        self.commit.leftovers()
    }

    /// Adds the rows of a batch. They may still be in progress when this returns.
    ///
    /// # Errors
    /// If a row of this batch or of an earlier one cannot be encoded, or a shard cannot be written. The set is then
    /// lost, and the writer can only be dropped. Row numbers in messages count from the first batch.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.unless_failed(|writer| writer.encode(batch))
    }

    /// Writes the remaining rows and publishes the set, or appends to the existing one. Returns the manifest of the
    /// whole set.
    ///
    /// # Errors
    /// As [`write`](Self::write), or if the set cannot be published. The target is then unchanged.
    pub fn finish(mut self) -> Result<Manifest> {
        self.unless_failed(|_| Ok(()))?;
        let staged = match self.shards {
            Shards::AsRowsCome(shards) => shards.finish(),
            Shards::AllRows(shards) => shards.finish(),
        }?;
        self.commit.publish(staged, self.description)
    }

    /// Runs a part of the work, unless an earlier part failed: a set that lacks rows must not be published.
    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if std::mem::replace(&mut self.failed, true) {
            return Err(ErrorKind::Failed.into());
        }
        work(self)?;
        self.failed = false;
        Ok(())
    }

    /// Passes a batch to the pool, a unit at a time.
    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let size = match &self.shards {
            Shards::AsRowsCome(shards) => shards.size(),
            Shards::AllRows(shards) => shards.size(),
        };
        for unit in size.units(batch.clone()) {
            let rows = unit.num_rows();
            let encode = encode_unit(self.encoder.clone(), unit, self.rows);
            self.rows += rows as u64;
            match &mut self.shards {
                Shards::AsRowsCome(shards) => shards.write(rows, encode),
                Shards::AllRows(shards) => shards.write(rows, encode),
            }?;
        }
        Ok(())
    }
}

impl RecordBatchWriter for ShardedWriter {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        Self::write(self, batch).map_err(ArrowError::from)
    }

    fn close(self) -> Result<(), ArrowError> {
        self.finish().map(drop).map_err(ArrowError::from)
    }
}

impl fmt::Debug for ShardedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedWriter").field("commit", &self.commit).field("rows", &self.rows).finish()
    }
}
