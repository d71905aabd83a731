//! Ways to count values, and to tell how many are distinct, that do least for each: all give the same.

use std::ops::Range;

use super::distinct::Distinct;
use super::frequent::{Frequent, Value};
use super::hash;

/// Integers less far apart are counted by what they are above the least, without a hash.
const MAX_WIDTH: usize = 4096;

/// Values that are known by their keys at a time: a power of two.
const KNOWN: usize = 256;

/// Adds those of the values that have a hash, and lists those among the frequent ones that have a value to list.
#[inline(always)]
pub(super) fn count_each(
    distinct: &mut Distinct,
    frequent: Option<&mut Frequent>,
    mut values: Range<usize>,
    hash: impl Fn(usize) -> Option<u64>,
    value: impl Fn(usize) -> Option<Value>,
) {
    let Some(frequent) = frequent else {
        values.filter_map(hash).for_each(|hash| distinct.add(hash));
        return;
    };
    // While values are few each of them is counted, and their hashes are enough to know how many they are.
    while frequent.counts_all()
        && let Some(at) = values.next()
    {
        if let Some(hash) = hash(at)
            && !frequent.count(hash, 1, || value(at))
        {
            distinct.add(hash);
        }
        if frequent.is_full() {
            sample_from_here(distinct, frequent);
        }
    }
    values.clone().filter_map(&hash).for_each(|hash| distinct.add(hash));
    frequent.sample(values.len(), |rest| hash(values.start + rest), |rest| value(values.start + rest));
}

/// There are too many values to count each.
fn sample_from_here(distinct: &mut Distinct, frequent: &mut Frequent) {
    frequent.hashes().for_each(|hash| distinct.add(hash));
    frequent.drop_rarest();
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

/// Counts values while they are few; tells how many that are. Values that came before are known by their keys.
#[inline(always)]
pub(super) fn count_known<K: Key>(
    distinct: &mut Distinct,
    frequent: &mut Frequent,
    keys: impl ExactSizeIterator<Item = K>,
    hash: impl Fn(usize) -> Option<u64>,
    value: impl Fn(usize) -> Option<Value>,
) -> usize {
    if !frequent.counts_all() {
        return 0;
    }
    let none = Known { key: K::NONE, hash: 0, count: 0 };
    let mut all_known = [none; KNOWN];
    let mut done = keys.len();
    for (at, key) in keys.enumerate() {
        let Some(known) = all_known.get_mut(key.mixed() as usize % KNOWN) else { continue };
        if known.key == key {
            known.count += 1;
            continue;
        }
        let Some(hash) = hash(at) else { continue };
        add_known(frequent, std::mem::replace(known, none));
        match frequent.count(hash, 1, || value(at)) {
            true => *known = Known { key, hash, count: 0 },
            false => distinct.add(hash),
        }
        if frequent.is_full() {
            done = at + 1;
            break;
        }
    }
    all_known.into_iter().for_each(|known| add_known(frequent, known));
    if frequent.is_full() {
        sample_from_here(distinct, frequent);
    }
    done
}

#[inline]
fn add_known<K>(frequent: &mut Frequent, known: Known<K>) {
    if known.count > 0 {
        frequent.count(known.hash, known.count, || None);
    }
}
