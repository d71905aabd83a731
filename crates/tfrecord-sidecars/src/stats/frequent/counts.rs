//! [`Counts`]: counts by hash, with the values of the hashes.

use std::collections::BTreeMap;

use prefetch_index::prefetch_index;
use serde::{Deserialize, Serialize};

use super::Value;

/// Tables of at least this many slots may be half full, smaller ones a quarter.
const MANY_PLACES: usize = 2 * super::EXACT_VALUES;

/// Slots of the smallest table.
const FEW_PLACES: usize = 64;

/// A table with open addressing. The hashes are uniform enough to be used as slots directly. Finding and incrementing a
/// count is twice as fast as with a library's map.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "StoredCounts")]
pub(super) struct Counts {
    /// The slots: a power of two, or empty.
    places: Vec<Place>,
    /// The values, stored separately: most sampled hashes have none, and slots stay small.
    values: BTreeMap<u64, Value>,
    len: usize,
}

/// The fields of [`Counts`] that are not checked.
#[derive(Deserialize)]
struct StoredCounts {
    places: Vec<Place>,
    values: BTreeMap<u64, Value>,
    len: usize,
}

impl TryFrom<StoredCounts> for Counts {
    type Error = &'static str;

    fn try_from(StoredCounts { places, values, len }: StoredCounts) -> Result<Self, Self::Error> {
        let taken = places.iter().filter(|place| place.doubled > 0).count();
        // A search ends at an empty slot.
        let has_room = places.is_empty() || places.len().is_power_of_two() && taken < places.len();
        if has_room && taken == len { Ok(Self { places, values, len }) } else { Err("the table of counts is not one") }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Place {
    hash: u64,
    /// Twice the count, plus one if there is a value. Zero if the slot is empty.
    doubled: u64,
}

impl Place {
    fn count(self) -> u64 {
        self.doubled >> 1
    }

    fn has_value(self) -> bool {
        self.doubled & 1 == 1
    }
}

/// The counted entries.
#[derive(Debug)]
pub(super) struct Counted<'a> {
    pub(super) hash: u64,
    pub(super) count: u64,
    pub(super) value: Option<&'a Value>,
}

impl Counts {
    /// Number of hashes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Counted<'_>> {
        self.taken().map(|place| {
            let value = if place.has_value() { self.values.get(&place.hash) } else { None };
            Counted { hash: place.hash, count: place.count(), value }
        })
    }

    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.taken().map(|place| place.hash)
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.taken().map(Place::count)
    }

    fn taken(&self) -> impl Iterator<Item = Place> + '_ {
        self.places.iter().copied().filter(|place| place.doubled > 0)
    }

    /// The slot of a hash, or the free slot where it belongs. `None` if the table has no slots.
    #[inline]
    fn find(&self, hash: u64) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        // At least half of the slots are free.
        while let Some(place) = self.places.get(at & mask)
            && place.hash != hash
            && place.doubled > 0
        {
            at += 1;
        }
        Some(at & mask)
    }

    /// Prefetches the slot of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(mask) = self.places.len().checked_sub(1) {
            prefetch_index(&self.places, hash as usize & mask);
        }
    }

    /// Adds to the count of a hash. Returns false if it has none.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, weight: u64) -> bool {
        match self.find(hash).and_then(|at| self.places.get_mut(at)) {
            Some(place) if place.doubled > 0 => {
                place.doubled += weight * 2;
                true
            }
            _ => false,
        }
    }

    /// Adds to the count of a hash. Builds its value if it has none and the count reaches `least`. Returns false if the
    /// hash has no count.
    pub(super) fn add_valued(
        &mut self,
        hash: u64,
        weight: u64,
        least: u64,
        value: impl FnOnce() -> Option<Value>,
    ) -> bool {
        match self.find(hash).and_then(|at| self.places.get_mut(at)) {
            Some(place) if place.doubled > 0 => {
                place.doubled += weight * 2;
                if !place.has_value()
                    && place.count() >= least
                    && let Some(value) = value()
                {
                    place.doubled |= 1;
                    self.values.insert(hash, value);
                }
                true
            }
            _ => false,
        }
    }

    /// Inserts a hash without a count.
    pub(super) fn insert(&mut self, hash: u64, count: u64, value: Option<Value>) {
        let full = if self.places.len() < MANY_PLACES { self.places.len() / 4 } else { self.places.len() / 2 };
        if self.len > full || self.places.is_empty() {
            let places = (self.places.len() * 2).max(FEW_PLACES);
            self.rebuild(places, Some);
        }
        self.put(Place { hash, doubled: count * 2 + u64::from(value.is_some()) });
        if let Some(value) = value {
            self.values.insert(hash, value);
        }
    }

    fn put(&mut self, counted: Place) {
        if let Some(place) = self.find(counted.hash).and_then(|at| self.places.get_mut(at)) {
            *place = counted;
            self.len += 1;
        }
    }

    /// Replaces each count by `other` of it, and drops those that return `None`.
    pub(super) fn replace(&mut self, other: impl Fn(u64) -> Option<u64>) {
        self.rebuild(self.places.len(), other);
    }

    fn rebuild(&mut self, places: usize, other: impl Fn(u64) -> Option<u64>) {
        let before = std::mem::replace(&mut self.places, vec![Place::default(); places]);
        self.len = 0;
        for place in before.into_iter().filter(|place| place.doubled > 0) {
            match other(place.count()) {
                Some(count) => self.put(Place { doubled: count * 2 + (place.doubled & 1), ..place }),
                None if place.has_value() => _ = self.values.remove(&place.hash),
                None => {}
            }
        }
    }
}
