//! Ways to count values that do least for each: all give the same.

use super::frequent::{Frequent, Value};
use super::hash;

/// Integers less far apart are counted by what they are above the least, without a hash.
const MAX_WIDTH: usize = 4096;

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

/// Integers that are close to each other, counted in their order from the least on.
#[inline(always)]
pub(super) fn count_narrow(values: &[i64], range: Option<(i64, i64)>) -> Option<(i64, Vec<u32>)> {
    let (least, greatest) = range?;
    let width = usize::try_from(greatest.checked_sub(least)?).ok()?;
    // To go through the counts must be less work than to go through the values.
    if width >= values.len() / 2 || width >= MAX_WIDTH || u32::try_from(values.len()).is_err() {
        return None;
    }
    let mut counts = vec![0; width + 1];
    for value in values {
        if let Some(count) = counts.get_mut(value.wrapping_sub(least) as usize) {
            *count += 1;
        }
    }
    Some((least, counts))
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
    for (at, key) in keys.enumerate() {
        let Some(known) = all_known.get_mut(key.mixed() as usize % KNOWN) else { continue };
        if known.key == key {
            known.count += 1;
            continue;
        }
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

#[inline]
fn add_known<K>(frequent: &mut Frequent, known: Known<K>) {
    if known.count > 0 {
        frequent.count(known.hash, known.count, || None);
    }
}
