//! [`SortKey`]: a record's position in the sort order.

use std::fmt;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A record's position in the sort order: its group, and its key within the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SortKey {
    // The order of the fields is the order of keys.
    pub(super) group: u32,
    pub(super) key: u64,
}

impl SortKey {
    /// Creates the key `key` within a group.
    pub fn new(group: u32, key: u64) -> Self {
        Self { group, key }
    }

    /// Creates the key of a record in a shuffled group: a hash of the record without its frame, and of the seed.
    /// Records with colliding hashes are ordered by their bytes, so 64 bits are enough.
    pub fn shuffled(group: u32, payload: &[u8], seed: u64) -> Self {
        Self::new(group, xxh3_64_with_seed(payload, seed))
    }

    /// Returns the group.
    pub fn group(self) -> u32 {
        self.group
    }

    /// Returns the key within the group.
    pub fn key(self) -> u64 {
        self.key
    }
}

impl fmt::Debug for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.group, self.key)
    }
}

/// Maps keys between two others to 64 bits, preserving their order as far as possible.
#[derive(Debug, Clone, Copy)]
pub(super) enum Prefix {
    /// All keys are of one group.
    InGroup { first: u64 },
    /// The groups need this many bits.
    Groups { first: u32, bits: u32 },
}

impl Prefix {
    /// Creates the mapping for keys from `first` to `last`.
    pub(super) fn new(first: SortKey, last: SortKey) -> Self {
        if first.group == last.group {
            Self::InGroup { first: first.key }
        } else {
            let span = last.group.wrapping_sub(first.group);
            Self::Groups { first: first.group, bits: 32 - span.leading_zeros() }
        }
    }

    #[inline]
    pub(super) fn of(self, key: SortKey) -> u64 {
        match self {
            Self::InGroup { first } => key.key.wrapping_sub(first),
            Self::Groups { first, bits } => u64::from(key.group.wrapping_sub(first)) << (64 - bits) | key.key >> bits,
        }
    }
}
