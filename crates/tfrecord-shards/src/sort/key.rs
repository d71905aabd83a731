//! [`SortKey`]: where a record goes.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Where a record goes: its group, and its place in the group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SortKey {
    // The order of the fields is the order of keys.
    pub(super) group: u32,
    pub(super) key: u64,
}

impl SortKey {
    /// Place `key` of a group.
    pub fn new(group: u32, key: u64) -> Self {
        Self { group, key }
    }

    /// The place of a record in a group that is shuffled: a hash of the record without its frame, and of the seed. Records
    /// that have the same hash by chance are told apart by their bytes, so 64 bits are enough.
    pub fn shuffled(group: u32, payload: &[u8], seed: u64) -> Self {
        Self::new(group, xxh3_64_with_seed(payload, seed))
    }

    /// The group.
    pub fn group(self) -> u32 {
        self.group
    }

    /// The place in the group.
    pub fn key(self) -> u64 {
        self.key
    }
}

impl fmt::Debug for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.group, self.key)
    }
}

/// What 64 bits can tell of keys that lie between two others: the keys' order, as far as it goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Prefix {
    /// All keys are of one group.
    InGroup { first: u64 },
    /// The groups take this many bits.
    Groups { first: u32, bits: u32 },
}

impl Prefix {
    /// For keys from `first` to `last`.
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
