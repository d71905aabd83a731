//! [`KnownFile`]: properties of a file that are known before it is read.

use std::sync::Arc;

use tfrecord_framing::{Container, Position};
use tfrecord_shards::{RecordOffset, ShardEntry};

/// Properties of a file that are known before it is read. Plans attach it to the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownFile {
    /// How it contains its records.
    pub container: Option<Container>,
    /// The end of its records: their number, and the bytes of all of them including frames.
    pub end: Option<Position>,
    /// Whether the number of records is trusted. If not, it is compared when the file is read.
    pub is_counted: bool,
    /// Positions where reading can start, in order, except the start of the file.
    pub offsets: Arc<[RecordOffset]>,
}

impl KnownFile {
    /// Takes the properties of a shard from its manifest.
    pub fn of_shard(shard: &ShardEntry, container: Container) -> Self {
        Self {
            container: Some(container),
            end: Some(Position { record: shard.rows, byte: shard.framed_bytes }),
            is_counted: true,
            offsets: shard.offsets.as_slice().into(),
        }
    }

    /// Returns the position at this byte of the file.
    pub(super) fn offset(&self, file: u64) -> Option<Position> {
        let index = self.offsets.binary_search_by_key(&file, |offset| offset.file).ok()?;
        let RecordOffset { record, framed, .. } = self.offsets[index];
        Some(Position { record, byte: framed })
    }
}
