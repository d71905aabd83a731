//! [`KnownFile`]: what is known of a file before it is read.

use std::sync::Arc;

use tfrecord_framing::{Compression, Position};
use tfrecord_shards::{RecordOffset, ShardEntry};

/// What is known of a file before it is read. Plans carry it with the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownFile {
    /// How it is compressed.
    pub compression: Option<Compression>,
    /// Where its records end: their number and the bytes of all of them, with their frames.
    pub end: Option<Position>,
    /// Places where reading can begin, in order; the start of the file is not among them.
    pub offsets: Arc<[RecordOffset]>,
}

impl KnownFile {
    /// What the manifest says of a shard.
    pub fn of_shard(shard: &ShardEntry, compression: Compression) -> Self {
        Self {
            compression: Some(compression),
            end: Some(Position { record: shard.rows, byte: shard.framed_bytes }),
            offsets: shard.offsets.as_slice().into(),
        }
    }

    /// The place at this byte of the file.
    pub(super) fn offset(&self, file: u64) -> Option<Position> {
        let index = self.offsets.binary_search_by_key(&file, |offset| offset.file).ok()?;
        let RecordOffset { record, framed, .. } = self.offsets[index];
        Some(Position { record, byte: framed })
    }
}
