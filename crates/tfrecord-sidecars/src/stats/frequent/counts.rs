//! [`Counts`]: numbers by hashes, beside what has the hash.

use super::Value;

/// From so many places on half of them may be taken, below a quarter.
const MANY_PLACES: usize = 2 * super::EXACT_VALUES;

/// Places of a table of a few values.
const FEW_PLACES: usize = 64;

/// A table with open addressing. The hashes are good enough to be places: there is nothing left to do for each value but
/// to find its count and to add to it, which a map from a library is twice as slow at.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    /// A power of two, or none.
    places: Vec<Place>,
    /// Those at the same places.
    values: Vec<Option<Value>>,
    len: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Place {
    hash: u64,
    /// None, if nothing is here.
    count: u64,
}

/// What is counted.
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
        let places = self.places.iter().zip(&self.values).filter(|(place, _)| place.count > 0);
        places.map(|(place, value)| Counted { hash: place.hash, count: place.count, value: value.as_ref() })
    }

    /// Where a hash is, or the free place where it belongs. None if there is no place at all.
    #[inline]
    fn find(&self, hash: u64) -> Option<usize> {
        let mask = self.places.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        // Half of the places are free.
        while let Some(place) = self.places.get(at & mask)
            && place.hash != hash
            && place.count > 0
        {
            at += 1;
        }
        Some(at & mask)
    }

    /// Whether a hash has a count.
    pub(super) fn has(&self, hash: u64) -> bool {
        self.find(hash).and_then(|at| self.places.get(at)).is_some_and(|place| place.count > 0)
    }

    /// Adds to the count of a hash. False if it has none.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, weight: u64) -> bool {
        match self.find(hash).and_then(|at| self.places.get_mut(at)) {
            Some(place) if place.count > 0 => {
                place.count += weight;
                true
            }
            _ => false,
        }
    }

    /// The value of a hash, where one may be put.
    pub(super) fn value_mut(&mut self, hash: u64) -> Option<&mut Option<Value>> {
        let at = self.find(hash).filter(|at| self.places.get(*at).is_some_and(|place| place.count > 0))?;
        self.values.get_mut(at)
    }

    /// Counts a hash that has no count yet.
    pub(super) fn insert(&mut self, hash: u64, count: u64, value: Option<Value>) {
        let full = if self.places.len() < MANY_PLACES { self.places.len() / 4 } else { self.places.len() / 2 };
        if self.len > full || self.places.is_empty() {
            let places = (self.places.len() * 2).max(FEW_PLACES);
            self.rebuild(places, Some);
        }
        if let Some(at) = self.find(hash)
            && let (Some(place), Some(known)) = (self.places.get_mut(at), self.values.get_mut(at))
        {
            *place = Place { hash, count };
            *known = value;
            self.len += 1;
        }
    }

    /// Keeps the counts that there are others for, which are not zero.
    pub(super) fn replace(&mut self, other: impl Fn(u64) -> Option<u64>) {
        self.rebuild(self.places.len(), other);
    }

    fn rebuild(&mut self, places: usize, other: impl Fn(u64) -> Option<u64>) {
        let empty = Self { places: vec![Place::default(); places], values: vec![None; places], len: 0 };
        let Self { places, values, .. } = std::mem::replace(self, empty);
        let counted = places.into_iter().zip(values).filter(|(place, _)| place.count > 0);
        for (place, value) in counted {
            if let Some(count) = other(place.count) {
                self.insert(place.hash, count, value);
            }
        }
    }
}
