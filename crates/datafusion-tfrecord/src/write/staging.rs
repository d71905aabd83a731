//! [`Staging`]: holds the shards of a run until they are published; [`ShardSink`] receives their bytes.

use std::io::{self, Write};
use std::sync::Arc;

use tfrecord_framing::Compression;
use tfrecord_shards::{IndexFile, LocalCommit, Manifest, ShardFile, ShardPlace, ShardSinks, ShardWriter, StagingArea};

use super::task_staging::{TaskShards, TaskStaging};
use super::upload::{UploadSet, UploadSink, UploadSinks};

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
        _ => ShardWriter::<ShardSink>::memory(compression),
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

/// Creates the shards of a write partition.
pub(crate) enum Sinks {
    Files(FileSinks),
    Uploads(UploadSinks),
}

/// Creates shards in local files.
#[derive(Clone)]
pub(crate) enum FileSinks {
    Commit(LocalCommit),
    Task(StagingArea),
}

impl FileSinks {
    fn create_shard(&self, partition: u32, sequence: u32) -> tfrecord_shards::Result<ShardFile> {
        match self {
            Self::Commit(commit) => commit.create_shard(partition, sequence),
            Self::Task(area) => area.create_shard(partition, sequence),
        }
    }

    fn create_shard_at(
        &self,
        partition: u32,
        sequence: u32,
        place: ShardPlace<'_>,
    ) -> tfrecord_shards::Result<ShardFile> {
        match self {
            Self::Commit(commit) => commit.create_shard_at(partition, sequence, place),
            Self::Task(area) => area.create_shard_at(partition, sequence, place),
        }
    }

    fn index_file(&self, partition: u32, sequence: u32) -> tfrecord_shards::Result<Option<IndexFile>> {
        match self {
            Self::Commit(commit) => ShardSinks::index_file(commit, partition, sequence),
            Self::Task(area) => ShardSinks::index_file(area, partition, sequence),
        }
    }
}

/// Receives the bytes of a shard.
pub(crate) enum ShardSink {
    File(ShardFile),
    Upload(UploadSink),
}

impl ShardSinks for Sinks {
    type Sink = ShardSink;

    fn create_shard(&self, partition: u32, sequence: u32) -> tfrecord_shards::Result<ShardSink> {
        match self {
            Self::Files(files) => files.create_shard(partition, sequence).map(ShardSink::File),
            Self::Uploads(sinks) => sinks.create_shard(partition, sequence).map(ShardSink::Upload),
        }
    }

    fn create_shard_at(
        &self,
        partition: u32,
        sequence: u32,
        place: ShardPlace<'_>,
    ) -> tfrecord_shards::Result<ShardSink> {
        match self {
            Self::Files(files) => files.create_shard_at(partition, sequence, place).map(ShardSink::File),
            Self::Uploads(sinks) => sinks.create_shard_at(partition, sequence, place).map(ShardSink::Upload),
        }
    }

    fn index_file(&self, partition: u32, sequence: u32) -> tfrecord_shards::Result<Option<IndexFile>> {
        match self {
            Self::Files(files) => files.index_file(partition, sequence),
            Self::Uploads(sinks) => sinks.index_file(),
        }
    }

    fn take_little(&self) -> bool {
        matches!(self, Self::Uploads(_))
    }
}

impl Write for ShardSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Upload(upload) => upload.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Upload(upload) => upload.flush(),
        }
    }
}
