//! [`Entry`] and [`Item`]: where a record is, in memory or in a run.

use super::kept::{Kept, KeptRecord, Slabs};
use super::key::SortKey;

/// Bytes of an entry in a file, little-endian: the key, the length of the frame, and that of the compact record, 0 if it
/// is kept as its frame.
pub(super) const ENTRY_LEN: usize = 14;

/// One record of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Item {
    pub(super) group: u32,
    /// The run, by its number in the [`RunSet`].
    pub(super) run: u32,
    pub(super) key: u64,
    /// Where it is in the run.
    pub(super) kept: Kept,
    /// Bytes of the frame.
    pub(super) len: u32,
    /// Equal records that it stands for, until they are spread.
    pub(super) count: u32,
    /// The number of its entry in the run.
    pub(super) entry: u32,
}

impl Item {
    #[inline]
    pub(super) fn key(&self) -> SortKey {
        SortKey { group: self.group, key: self.key }
    }
}

/// A record in memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) key: u64,
    /// Where it is in the slabs.
    pub(super) kept: Kept,
    pub(super) group: u32,
    /// Bytes of the frame.
    pub(super) len: u32,
}

impl Entry {
    #[inline]
    pub(super) fn key(&self) -> SortKey {
        SortKey { group: self.group, key: self.key }
    }

    /// Bytes that it takes in a file.
    #[inline]
    pub(super) fn weight(&self) -> u64 {
        u64::from(self.kept.len(self.len)) + ENTRY_LEN as u64
    }

    /// The record, in the slabs of its input.
    #[inline]
    pub(super) fn record<'a>(&self, slabs: &'a Slabs) -> KeptRecord<'a> {
        slabs.record(self.kept, self.len)
    }
}
