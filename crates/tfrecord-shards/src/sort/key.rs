//! [`SortKey`]: where a record goes.

use std::fmt;

/// Where a record goes: its group, and its place in the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SortKey {
    // The order of the fields is the order of keys. Halves, since a `u128` would be aligned to 16 bytes, and the whole
    // be 32 bytes long.
    group: u32,
    high: u64,
    low: u64,
}

impl SortKey {
    /// Place `key` of a group.
    pub fn new(group: u32, key: u128) -> Self {
        Self { group, high: (key >> 64) as u64, low: key as u64 }
    }

    /// The group.
    pub fn group(self) -> u32 {
        self.group
    }

    /// The place in the group.
    pub fn key(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }
}

impl fmt::Debug for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:032x}", self.group, self.key())
    }
}
