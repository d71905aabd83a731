//! Fast counting of values, with a cache of recent ones. All variants give the same result.

use super::frequent::{Frequent, Value};
use super::hash;

/// The number of cached keys: a power of two.
const KNOWN: usize = 512;

/// Counts values until there are too many distinct ones, and returns how many it has processed. Values without a hash
/// or without a listed value are passed to `other`, with their hashes.
#[inline(always)]
pub(super) fn count_each(
    frequent: &mut Frequent,
    len: usize,
    hash: impl Fn(usize) -> Option<u64>,
    value: impl Fn(usize) -> Option<Value>,
    mut other: impl FnMut(usize, Option<u64>),
) -> usize {
    for at in 0..len {
        let hash = hash(at);
        if !hash.is_some_and(|hash| frequent.count(hash, 1, || value(at))) {
            other(at, hash);
        }
        if frequent.is_full() {
            return at + 1;
        }
    }
    len
}

/// A counted value, identified by a unique key.
#[derive(Debug, Clone, Copy)]
struct Known<K> {
    key: K,
    hash: u64,
    /// The number of occurrences since it was cached.
    count: u64,
}

/// A key that identifies a value faster than its hash. A value may have several keys.
pub(super) trait Key: Copy + PartialEq {
    /// The key of no value.
    const NONE: Self;

    /// The key with its bits mixed so that the lowest ones depend on all.
    fn mixed(self) -> u64;
}

/// The bits of floats other than NaN.
impl Key for u32 {
    const NONE: Self = Self::MAX;

    #[inline(always)]
    fn mixed(self) -> u64 {
        u64::from(self).wrapping_mul(hash::GOLDEN_RATIO).rotate_left(KNOWN.ilog2())
    }
}

/// The views of bytes. In columns converted from dictionaries all views of a value are equal.
impl Key for u128 {
    /// A view with an impossible length.
    const NONE: Self = Self::MAX;

    #[inline(always)]
    fn mixed(self) -> u64 {
        hash::product(self)
    }
}

/// Counts values with a cache of keys.
#[inline(always)]
pub(super) fn count_known<K: Key>(
    frequent: &mut Frequent,
    keys: impl ExactSizeIterator<Item = K>,
    hash: impl Fn(usize) -> Option<u64>,
    value: impl Fn(usize) -> Option<Value>,
    mut other: impl FnMut(usize, Option<u64>),
) -> usize {
    let none = Known { key: K::NONE, hash: 0, count: 0 };
    let mut all_known = [none; KNOWN];
    let mut done = keys.len();
    let mut keys = keys.enumerate();
    // Most values stay in this loop. It does nothing else, so all its state fits in registers.
    while let Some((at, key)) = keys.find(|(_, key)| !add_if_known(&mut all_known, *key)) {
        // If the first cache slot is used too often to be replaced, use the second.
        let [place, other_place] = places(key);
        let is_free = all_known.get(place).is_some_and(|known| known.key == K::NONE);
        let Some(known) = all_known.get_mut(if is_free { place } else { other_place }) else { continue };
        add_known(frequent, std::mem::replace(known, none));
        match hash(at) {
            Some(hash) if frequent.count(hash, 1, || value(at)) => *known = Known { key, hash, count: 0 },
            hash => other(at, hash),
        }
        if frequent.is_full() {
            done = at + 1;
            break;
        }
    }
    all_known.into_iter().for_each(|known| add_known(frequent, known));
    done
}

/// The two cache slots of a key.
#[inline(always)]
fn places<K: Key>(key: K) -> [usize; 2] {
    let place = key.mixed() as usize % KNOWN;
    [place, place ^ 1]
}

#[inline(always)]
fn add_if_known<K: Key>(all_known: &mut [Known<K>; KNOWN], key: K) -> bool {
    for place in places(key) {
        if let Some(known) = all_known.get_mut(place)
            && known.key == key
        {
            known.count += 1;
            return true;
        }
    }
    false
}

#[inline]
fn add_known<K>(frequent: &mut Frequent, known: Known<K>) {
    if known.count > 0 {
        frequent.count(known.hash, known.count, || None);
    }
}
