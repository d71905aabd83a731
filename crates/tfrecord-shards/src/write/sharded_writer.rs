//! [`ShardedWriter`]: record batches in, a published set out.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchWriter};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
use rayon::ThreadPool;
use serde_json::json;
use tfrecord_framing::{Compression, Level};

use crate::commit::local::LocalCommit;
use crate::commit::publication::{Leftover, SaveMode, check_prefix};
use crate::commit::target::{Preflight, preflight};
use crate::error::{ErrorKind, Result};
use crate::set::manifest::{Manifest, SetDescription};
use crate::set::names::RunId;
use crate::sort::{SortKey, SpillStore, TempDirSpill};
use crate::write::filler::ShardFiller;
use crate::write::job::Job;
use crate::write::job::thread_pool;
use crate::write::sharding::{ShardRule, Sharding};
use crate::write::sorted_filler::{RowOrder, SortedFiller};

/// Framed bytes to encode in one job: long against the price of a job, short enough for the second-level cache and for
/// some jobs a thread.
const BLOCK_BYTES: usize = 2 << 20;

/// Rows of the first block, when nothing is known of their length.
const FIRST_BLOCK_ROWS: usize = 1 << 10;

/// Most rows of a block, for records of a few bytes.
const MAX_BLOCK_ROWS: usize = 1 << 16;

/// Bytes that records take while they wait for the last one, if not told otherwise.
const SORT_MEMORY: usize = 512 << 20;

/// Builds a [`ShardedWriter`].
#[derive(Debug, Clone)]
pub struct ShardedWriterBuilder {
    schema: SchemaRef,
    mapping: MappingOptions,
    sharding: Sharding,
    prefix: String,
    compression: Compression,
    level: Level,
    mode: SaveMode,
    pool: Option<Arc<ThreadPool>>,
    query: Option<String>,
    inputs: Vec<PathBuf>,
    shuffle: Option<u64>,
    sort_memory: usize,
    spill: Arc<dyn SpillStore>,
}

impl ShardedWriterBuilder {
    /// For batches of this schema: uncompressed shards of 128 MiB named `part-...`, in a directory that is not there
    /// yet, encoded on as many threads as there are cores.
    pub fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            mapping: MappingOptions::default(),
            sharding: Sharding::default(),
            prefix: "part".to_owned(),
            compression: Compression::default(),
            level: Level::default(),
            mode: SaveMode::default(),
            pool: None,
            query: None,
            inputs: Vec::new(),
            shuffle: None,
            sort_memory: SORT_MEMORY,
            spill: Arc::new(TempDirSpill::default()),
        }
    }

    /// Sets what columns become.
    #[must_use]
    pub fn with_mapping(mut self, options: MappingOptions) -> Self {
        self.mapping = options;
        self
    }

    /// Sets how rows are spread over shards. With [`Sharding::Hosts`] rows wait until all are there, as those do that are
    /// [shuffled](Self::with_shuffle), and stay in order.
    #[must_use]
    pub fn with_sharding(mut self, sharding: Sharding) -> Self {
        self.sharding = sharding;
        self
    }

    /// Sets what shard names start with.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets how shards are compressed, and how hard.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression, level: Level) -> Self {
        self.compression = compression;
        self.level = level;
        self
    }

    /// Sets what to do when the target is there already.
    #[must_use]
    pub fn with_mode(mut self, mode: SaveMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the threads that encode and compress.
    #[must_use]
    pub fn with_pool(mut self, pool: Arc<ThreadPool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Sets the query that the rows come from, for the manifest.
    #[must_use]
    pub fn with_query(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// Sets the files and directories that the rows come from, for the manifest, and so that none is overwritten.
    #[must_use]
    pub fn with_inputs(mut self, inputs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.inputs = inputs.into_iter().map(Into::into).collect();
        self
    }

    /// Puts all rows in an order of chance, uniform over the whole set, which the seed decides. Equal rows and seed give
    /// equal shards, in whichever order, batches and threads the rows come; nothing is written to a shard before the last of
    /// them has come.
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

    /// Sets how many bytes records may take while they wait for the last one: 512 MiB if not set. What is more is spilled.
    #[must_use]
    pub fn with_sort_memory(mut self, bytes: usize) -> Self {
        self.sort_memory = bytes;
        self
    }

    /// Sets where records are spilled: in the directory for temporary files if not set.
    #[must_use]
    pub fn with_spill(mut self, store: Arc<dyn SpillStore>) -> Self {
        self.spill = store;
        self
    }

    /// Begins a set in the directory `out`. Its parent directories are made if need be.
    ///
    /// # Errors
    /// When a column cannot be mapped, or the target cannot be written to: see [`LocalCommit::begin`]. When rows are to be
    /// added to a set of another form: see [`Manifest::check_append`].
    pub fn build(self, out: impl AsRef<Path>) -> Result<ShardedWriter> {
        let mapping = Mapping::try_new(&self.schema, &self.mapping)?;
        check_prefix(&self.prefix)?;
        let pool = self.pool.clone().map_or_else(thread_pool, Ok)?;
        let commit = LocalCommit::begin(out, self.mode, RunId::new(), &self.inputs)?;
        let description = self.describe(&mapping)?;
        if let Some(standing) = commit.standing() {
            standing.check_append(&description, commit.out())?;
        }
        let form = (self.compression, self.level);
        let order = match (self.shuffle, self.sharding) {
            (Some(seed), _) => Some(RowOrder::Shuffled { seed }),
            // How many there are to be depends on the bytes of all.
            (None, Sharding::Hosts(_)) => Some(RowOrder::Kept),
            (None, _) => None,
        };
        let shards = if let Some(order) = order {
            let room = (self.spill, self.sort_memory);
            let shards = SortedFiller::new(commit.clone(), Arc::clone(&pool), self.sharding, form, order, room);
            Shards::AllRows { shards: Box::new(shards), order }
        } else {
            let rule = (self.sharding, ShardRule::new(self.sharding));
            Shards::AsRowsCome(ShardFiller::new(commit.clone(), Arc::clone(&pool), rule, form)?)
        };
        Ok(ShardedWriter {
            encoder: Encoder::new(Arc::new(mapping)),
            // One block under way on each thread, and one more for each to go on with.
            window: 2 * pool.current_num_threads(),
            pool,
            rows: 0,
            record_len: BLOCK_BYTES / FIRST_BLOCK_ROWS,
            encoding: VecDeque::new(),
            buffers: Vec::new(),
            shards,
            commit,
            description,
            failed: false,
        })
    }

    /// [`build`](Self::build), or `None` if [`SaveMode::Ignore`] is set and something is there.
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
        let out = out.as_ref();
        match preflight(out, self.mode, &self.inputs)? {
            Preflight::Ignore { .. } => Ok(None),
            Preflight::Write | Preflight::Append(_) => self.build(out).map(Some),
        }
    }

    fn describe(&self, mapping: &Mapping) -> Result<SetDescription> {
        let mut description = SetDescription::new(mapping, &self.mapping)?;
        description.prefix.clone_from(&self.prefix);
        description.compression = self.compression;
        description.sharding = self.sharding;
        description.seed = self.shuffle;
        description.query.clone_from(&self.query);
        description.inputs = self.inputs.iter().map(|input| input.display().to_string()).collect();
        if self.compression != Compression::None {
            description.options.insert("level".to_owned(), json!(self.level.get()));
        }
        Ok(description)
    }
}

/// Record batches in, a set of shards out: encoded on a rayon pool, staged out of sight, and published by
/// [`finish`](Self::finish), all or nothing.
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
    pool: Arc<ThreadPool>,
    encoder: Encoder,
    /// Rows taken.
    rows: u64,
    /// Mean framed length of the last block's records, to tell the next block's size.
    record_len: usize,
    /// Blocks being encoded, oldest first.
    encoding: VecDeque<Job<arrow_tfrecord::Result<EncodedBlock>>>,
    /// How many of them there may be.
    window: usize,
    /// Buffers to use again.
    buffers: Vec<RecordBuffer>,
    shards: Shards,
    commit: LocalCommit,
    description: SetDescription,
    failed: bool,
}

/// Where records go.
enum Shards {
    /// To their shards, as they come.
    AsRowsCome(ShardFiller),
    /// To where they wait for the last one.
    AllRows { shards: Box<SortedFiller>, order: RowOrder },
}

/// Some rows as records.
struct EncodedBlock {
    records: RecordBuffer,
    /// What they are sorted by, if they are.
    keys: Vec<SortKey>,
}

impl ShardedWriter {
    /// What columns become.
    pub fn mapping(&self) -> &Mapping {
        self.encoder.mapping()
    }

    /// What earlier runs have left behind beside the target, or in it.
    pub fn leftovers(&self) -> &[Leftover] {
        self.commit.leftovers()
    }

    /// Adds the rows of a batch. They may still be on their way when this returns.
    ///
    /// # Errors
    /// When a row cannot be encoded, of this batch or of one before, or a shard not be written. There will be no set
    /// then: the writer can only be dropped. Rows in messages are counted from the first batch on.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.unless_failed(|writer| writer.encode(batch))
    }

    /// Writes what is left and publishes the set, or adds it to the one that is there. The manifest is that of the whole
    /// set.
    ///
    /// # Errors
    /// As [`write`](Self::write), or when the set cannot be published. The target is as before then.
    pub fn finish(mut self) -> Result<Manifest> {
        self.unless_failed(|writer| {
            while let Some(block) = writer.encoding.pop_front() {
                writer.append(block)?;
            }
            Ok(())
        })?;
        drop(self.buffers);
        let staged = match self.shards {
            Shards::AsRowsCome(shards) => shards.finish(),
            Shards::AllRows { shards, .. } => shards.finish(),
        }?;
        self.commit.publish(staged, self.description)
    }

    /// Runs a part of the work, once only after it has failed: a set that lacks some rows must not be published.
    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if std::mem::replace(&mut self.failed, true) {
            return Err(ErrorKind::Failed.into());
        }
        work(self)?;
        self.failed = false;
        Ok(())
    }

    /// Hands a batch to the pool, block by block.
    fn encode(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut start = 0;
        while start < batch.num_rows() {
            if self.encoding.len() >= self.window
                && let Some(oldest) = self.encoding.pop_front()
            {
                self.append(oldest)?;
            }
            let room = (BLOCK_BYTES / self.record_len.max(1)).clamp(1, MAX_BLOCK_ROWS);
            let block = batch.slice(start, room.min(batch.num_rows() - start));
            let (encoder, rows_before) = (self.encoder.clone(), self.rows);
            let mut records = self.buffers.pop().unwrap_or_default();
            let order = if let Shards::AllRows { order, .. } = &self.shards { Some(*order) } else { None };
            start += block.num_rows();
            self.rows += block.num_rows() as u64;
            self.encoding.push_back(Job::start(&self.pool, move || {
                encoder.encode(&block, &mut records).map_err(|error| error.with_row_offset(rows_before))?;
                let keys = order.map(|order| order.keys(&records, rows_before)).unwrap_or_default();
                Ok(EncodedBlock { records, keys })
            }));
        }
        Ok(())
    }

    /// Writes the records of the oldest block to their shards.
    fn append(&mut self, block: Job<arrow_tfrecord::Result<EncodedBlock>>) -> Result<()> {
        let EncodedBlock { mut records, keys } = block.wait()??;
        self.record_len = records.bytes().len() / records.len().max(1);
        match &mut self.shards {
            Shards::AsRowsCome(shards) => shards.fill(&records)?,
            Shards::AllRows { shards, .. } => shards.fill(&keys, &records)?,
        }
        records.clear();
        self.buffers.push(records);
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
