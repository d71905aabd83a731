//! [`Staging`]: holds the shards of a run until they are published.

use std::sync::Arc;

use tfrecord_framing::Compression;
use tfrecord_shards::{LocalCommit, Manifest, ShardSink, ShardWriter};

use super::task_staging::{TaskShards, TaskStaging};
use super::upload::UploadSet;

/// The unpublished shards of a run. They are removed when the last reference is dropped.
pub(crate) enum Staging {
    /// A directory that readers do not see.
    Local(LocalCommit),
    /// Those of one task of a run that another process publishes.
    Task(TaskStaging),
    /// Incomplete uploads in an object store.
    Uploads(Arc<UploadSet>),
}

/// Returns the approximate maximum number of bytes that a shard buffers before it passes them on, for local files or
/// object stores. Memory for uploads is reserved separately.
pub(super) fn memory_per_shard(is_local: bool, compression: Compression) -> usize {
    match compression {
        Compression::None if !is_local => 0,
        _ => ShardWriter::<Box<dyn ShardSink>>::memory(compression),
    }
}

impl Staging {
    /// Returns the existing set that the shards are appended to, if there is one.
    pub(crate) fn standing(&self) -> Option<&Manifest> {
        match self {
            Self::Local(commit) => commit.standing(),
            // The process that publishes it compares the sets.
            Self::Task(_) => None,
            Self::Uploads(set) => set.standing(),
        }
    }

    /// Returns where a task stages what it writes.
    pub(crate) fn task(&self) -> Option<&TaskStaging> {
        match self {
            Self::Task(task) => Some(task),
            Self::Local(_) | Self::Uploads(_) => None,
        }
    }

    /// Whether the shards are appended to an existing set.
    pub(crate) fn is_appended_to(&self) -> bool {
        self.standing().is_some()
    }

    /// See [`memory_per_shard`].
    pub(crate) fn memory_per_shard(&self, compression: Compression) -> usize {
        let is_local = match self {
            Self::Local(_) => true,
            Self::Task(task) => matches!(task.shards, TaskShards::Directory(_)),
            Self::Uploads(_) => false,
        };
        memory_per_shard(is_local, compression)
    }
}
