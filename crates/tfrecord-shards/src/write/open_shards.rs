//! [`OpenShards`]: the open shards of a write partition.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;
use rayon::prelude::*;
use tfrecord_framing::Framing;

use crate::commit::destination::{Destination, ShardSink};
use crate::commit::publication::StagedShard;
use crate::error::{ErrorKind, Result};
use crate::set::group::ShardPlace;
use crate::write::shard_writer::ShardWriter;
use crate::write::sharding::Piece;

/// Fewer uncompressed bytes are appended by one thread: they are in its cache only.
const PARALLEL_LEN: usize = 1 << 20;

/// The open shards of one write partition, by number.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// # use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
/// use tfrecord_framing::{Compression, Level};
/// use tfrecord_shards::{LocalCommit, OpenShards, RunId, SaveMode, SetDescription, ShardRule, Sharding};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let out = dir.path().join("shards");
/// # let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef)])?;
/// # let options = MappingOptions::default();
/// # let mapping = Mapping::try_new(&batch.schema(), &options)?;
/// # let mut records = RecordBuffer::default();
/// # Encoder::new(Arc::new(mapping.clone())).encode(&batch, &mut records)?;
/// let commit = LocalCommit::begin(&out, SaveMode::Error, RunId::new(), &[])?;
/// let mut shards = OpenShards::new(Arc::new(commit.clone()), 0, (Compression::None, Level::default()));
/// let mut rule = ShardRule::new(Sharding::Rows(2));
///
/// let pieces = rule.place(records.len(), |record| records.record_end(record));
/// shards.append(&records, &pieces)?;
/// let staged = shards.take_before(usize::MAX).into_iter().filter_map(|shard| shard.seal().transpose());
/// let staged = staged.collect::<Result<_, _>>()?;
/// let manifest = commit.publish(staged, SetDescription::new(&mapping, &options)?)?;
/// assert_eq!(manifest.shards[1].rows, 1);
/// # Ok(())
/// # }
/// ```
pub struct OpenShards {
    destination: Arc<dyn Destination>,
    partition: u32,
    framing: Framing,
    open: BTreeMap<usize, OpenShard>,
}

/// Some records of a buffer.
type RecordRange<'a> = (&'a RecordBuffer, Range<usize>);

/// A shard that can still get records.
#[derive(Debug)]
pub struct OpenShard(ShardWriter<Box<dyn ShardSink>>);

impl OpenShards {
    /// Maximum number of pieces appended at once while earlier shards are still to be completed. Otherwise, shards of
    /// one row each would need a file handle per row.
    pub(crate) const MAX_PIECES: usize = 16;

    /// Creates a value without open shards for this write partition.
    pub fn new(destination: Arc<dyn Destination>, partition: u32, framing: impl Into<Framing>) -> Self {
        Self { destination, partition, framing: framing.into(), open: BTreeMap::new() }
    }

    /// Returns the number of open shards.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no shard is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a shard is open.
    pub fn is_open(&self, shard: usize) -> bool {
        self.open.contains_key(&shard)
    }

    /// Opens a shard, unless it is open.
    ///
    /// # Errors
    /// If it cannot be created, or was open before.
    pub fn open(&mut self, shard: usize) -> Result<()> {
        self.open_with(shard, None)
    }

    /// Opens a shard whose position in the set is known, unless it is open.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at(&mut self, shard: usize, place: ShardPlace<'_>) -> Result<()> {
        self.open_with(shard, Some(place))
    }

    fn open_with(&mut self, shard: usize, place: Option<ShardPlace<'_>>) -> Result<()> {
        if !self.is_open(shard) {
            let sequence = u32::try_from(shard).map_err(|_| ErrorKind::TooManyShards)?;
            let sink = self.destination.create(self.partition, sequence, place)?;
            let writer = ShardWriter::new(sink, self.framing);
            let writer = if self.destination.takes_small_writes() { writer.without_collecting() } else { writer };
            let writer = match self.destination.index_file(self.partition, sequence)? {
                Some(index) => writer.with_index(index),
                None => writer,
            };
            self.open.insert(shard, OpenShard(writer));
        }
        Ok(())
    }

    /// Returns how records become shards.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Appends records of a buffer to their shards, which are opened on demand. Works on several shards in parallel, on
    /// the caller's rayon pool, except for few bytes without compression.
    ///
    /// # Errors
    /// If a shard cannot be created or written to. The set is then unusable.
    pub fn append(&mut self, records: &RecordBuffer, pieces: &[Piece]) -> Result<()> {
        self.append_all(&[(records, pieces)])
    }

    /// Appends records of several buffers, in their order.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub(crate) fn append_all(&mut self, buffers: &[(&RecordBuffer, &[Piece])]) -> Result<()> {
        let mut ranges: BTreeMap<usize, Vec<RecordRange<'_>>> = BTreeMap::new();
        let mut bytes = 0;
        for (records, pieces) in buffers {
            for piece in *pieces {
                bytes += records.slice(piece.records.clone()).len();
                ranges.entry(piece.shard).or_default().push((records, piece.records.clone()));
            }
        }
        ranges.keys().try_for_each(|&shard| self.open(shard))?;
        let open = self.open.iter_mut();
        let mut work: Vec<_> = open.filter_map(|(shard, open)| Some((&mut open.0, ranges.remove(shard)?))).collect();
        let append = |(writer, ranges): &mut (&mut ShardWriter<Box<dyn ShardSink>>, Vec<RecordRange<'_>>)| {
            ranges.iter().try_for_each(|(records, range)| writer.append(records, range.clone()))
        };
        if !self.framing.is_compressed() && bytes < PARALLEL_LEN {
            return work.iter_mut().try_for_each(append);
        }
        work.par_iter_mut().try_for_each(append)
    }

    /// Removes and returns the shards before this one, which get no more records.
    pub fn take_before(&mut self, shard: usize) -> Vec<OpenShard> {
        let rest = self.open.split_off(&shard);
        std::mem::replace(&mut self.open, rest).into_values().collect()
    }
}

impl OpenShard {
    /// Writes the buffered bytes and [seals](ShardSink::seal) the shard, which may take a while.
    ///
    /// # Errors
    /// If that fails.
    pub fn seal(self) -> Result<Option<StagedShard>> {
        let (sink, stats) = self.0.finish()?;
        sink.seal(stats)
    }
}

impl fmt::Debug for OpenShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenShards").field("open", &self.open.keys()).finish_non_exhaustive()
    }
}
