//! [`Entry`] and [`Item`]: locate a record in memory or in a run.

use arrow_tfrecord::CompactForm;

use super::key::SortKey;
use super::slabs::{LocatedRecord, RecordLocation, Slabs};

/// Length in bytes of an entry in a file, little-endian: the key, the length of the frame, and that of the compact
/// record, 0 if the record is kept as its frame.
pub(super) const ENTRY_LEN: usize = 14;

/// One record of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Item {
    pub(super) group: u32,
    /// The run's number in the [`RunSet`].
    pub(super) run: u32,
    pub(super) key: u64,
    /// Where the record is in the run.
    pub(super) location: RecordLocation,
    /// Length of the frame in bytes.
    pub(super) len: u32,
    /// Number of equal records that it represents, until they are spread.
    pub(super) count: u32,
    /// Number of its entry in the run.
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
    /// Where the record is in the slabs.
    pub(super) location: RecordLocation,
    pub(super) group: u32,
    /// Length of the frame in bytes.
    pub(super) len: u32,
}

impl Entry {
    #[inline]
    pub(super) fn key(&self) -> SortKey {
        SortKey { group: self.group, key: self.key }
    }

    /// Returns its length in bytes in a file.
    #[inline]
    pub(super) fn weight(&self) -> u64 {
        u64::from(self.location.len(self.len)) + ENTRY_LEN as u64
    }

    /// Returns the record, in the slabs of its input.
    #[inline]
    pub(super) fn record<'a>(&self, slabs: &'a Slabs, form: &'a CompactForm) -> LocatedRecord<'a> {
        slabs.record(form, self.location, self.len)
    }
}
