//! [`Shards`]: where the shards of a run are until they are published.

use std::sync::Arc;

use tfrecord_framing::{Compression, Framing};
use tfrecord_shards::{Destination, ShardSink, ShardWriter};

use super::upload::UploadSet;

/// Where shards are until they are published.
pub(super) enum Shards {
    Files(Arc<dyn Destination>),
    /// Incomplete uploads in an object store.
    Uploads(Arc<UploadSet>),
}

impl Shards {
    /// See [`memory_per_shard`].
    pub(super) fn memory_per_shard(&self, framing: Framing) -> usize {
        memory_per_shard(matches!(self, Self::Files(_)), framing)
    }
}

/// Returns the approximate maximum number of bytes that a shard buffers before it passes them on, for local files or
/// object stores. Memory for uploads is reserved separately.
pub(super) fn memory_per_shard(is_local: bool, framing: Framing) -> usize {
    match framing {
        Framing::TfRecord(Compression::None, _) if !is_local => 0,
        _ => ShardWriter::<Box<dyn ShardSink>>::memory(framing),
    }
}
