//! [`Staging`]: where the shards of a run are until it is published, and what takes their bytes.

use std::io::{self, Write};
use std::sync::Arc;

use tfrecord_framing::Compression;
use tfrecord_shards::{IndexFile, LocalCommit, Manifest, ShardFile, ShardPlace, ShardSinks, ShardWriter};

use super::upload::{UploadSet, UploadSink, UploadSinks};

/// Where the shards of a run are until it is published. With the last who holds it goes what is there.
pub(crate) enum Staging {
    /// In a directory that no reader sees.
    Local(LocalCommit),
    /// In an object store, as uploads that are not completed.
    Uploads(Arc<UploadSet>),
}

/// Bytes that a shard, in a local file or an object store, holds in memory before it hands them on, at most and about. What
/// uploads hold is booked apart.
pub(super) fn memory_per_shard(is_local: bool, compression: Compression) -> usize {
    match compression {
        Compression::None if !is_local => 0,
        _ => ShardWriter::<ShardSink>::memory(compression),
    }
}

impl Staging {
    /// The set that the shards are added to, if there is one.
    pub(crate) fn standing(&self) -> Option<&Manifest> {
        match self {
            Self::Local(commit) => commit.standing(),
            Self::Uploads(set) => set.standing(),
        }
    }

    /// Whether the shards are added to a set that is there.
    pub(crate) fn is_appended_to(&self) -> bool {
        self.standing().is_some()
    }

    /// As [`memory_per_shard`] tells.
    pub(crate) fn memory_per_shard(&self, compression: Compression) -> usize {
        memory_per_shard(matches!(self, Self::Local(_)), compression)
    }
}

/// Makes the shards of a write partition.
pub(crate) enum Sinks {
    Local {
        commit: LocalCommit,
        /// Whether shards have indexes.
        indexed: bool,
    },
    Uploads(UploadSinks),
}

/// Takes the bytes of a shard.
pub(crate) enum ShardSink {
    File(ShardFile),
    Upload(UploadSink),
}

impl ShardSinks for Sinks {
    type Sink = ShardSink;

    fn create_shard(&self, partition: u32, sequence: u32) -> tfrecord_shards::Result<ShardSink> {
        match self {
            Self::Local { commit, .. } => commit.create_shard(partition, sequence).map(ShardSink::File),
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
            Self::Local { commit, .. } => commit.create_shard_at(partition, sequence, place).map(ShardSink::File),
            Self::Uploads(sinks) => sinks.create_shard_at(partition, sequence, place).map(ShardSink::Upload),
        }
    }

    fn index_file(&self, partition: u32, sequence: u32) -> tfrecord_shards::Result<Option<IndexFile>> {
        match self {
            Self::Local { commit, indexed } => Ok(indexed.then(|| commit.index_file(partition, sequence))),
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
