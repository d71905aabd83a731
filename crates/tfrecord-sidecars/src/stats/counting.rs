//! Ways to count values that do least for each: all give the same.

use super::frequent::{Frequent, Value};
use super::hash;

/// Values that are known by their keys at a time: a power of two.
const KNOWN: usize = 512;

/// Counts values until they are too many, and tells how many it has gone through. Those without a hash, and those that
/// have no value to list, are left to `other`, with their hashes.
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

/// A value that has been counted, by a key which no other value has.
#[derive(Debug, Clone, Copy)]
struct Known<K> {
    key: K,
    hash: u64,
    /// How often it came since.
    count: u64,
}

/// What tells values apart faster than their hashes do. Values may have more keys than one.
pub(super) trait Key: Copy + PartialEq {
    /// That of no value.
    const NONE: Self;

    /// A number of which the lowest bits depend on all of its bits.
    fn mixed(self) -> u64;
}

/// Of floats, without NaNs: their bits.
impl Key for u32 {
    const NONE: Self = Self::MAX;

    #[inline(always)]
    fn mixed(self) -> u64 {
        u64::from(self).wrapping_mul(hash::GOLDEN_RATIO).rotate_left(KNOWN.ilog2())
    }
}

/// Of bytes in views: the view. In what was made from dictionaries all views of a value are the same.
impl Key for u128 {
    /// It would be of a length that there is not.
    const NONE: Self = Self::MAX;

    #[inline(always)]
    fn mixed(self) -> u64 {
        hash::product(self)
    }
}

/// The same for values that came before and are known by their keys.
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
    // The loop that most values stay in does nothing else, so that registers hold all that it needs.
    while let Some((at, key)) = keys.find(|(_, key)| !add_if_known(&mut all_known, *key)) {
        // The second place of a value takes what the first is too well used for.
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

/// Where a value may be known.
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
