//! [`Frequent`]: the values that are most frequent.
//!
//! Every value is counted while there are few. With more, values are counted that one in [`SAMPLED`] is taken of, at
//! random places, in a map of bounded size from which the rarest half is dropped when it is full: the algorithm of Misra
//! and Gries ("Finding repeated elements", 1982) with the bulk decrements of Anderson et al. ("A high-performance
//! algorithm for identifying frequent items in data streams", 2017). A count is never too high but for the sampling, and
//! too low by what has been taken off, at most.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use super::hash;

/// So many distinct values are counted exactly.
pub const EXACT_VALUES: usize = 2048;

/// Of values that are not counted exactly, one in so many is looked at.
const SAMPLED: u64 = 32;

/// A value that is listed was seen so often at least: fewer are chance.
const LEAST_SEEN: u64 = 8;

/// A value of a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An integer.
    Int64(i64),
    /// A float.
    Float(f32),
    /// Text.
    Bytes(Box<[u8]>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int64(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Bytes(value) => String::from_utf8_lossy(value).fmt(f),
        }
    }
}

/// How often a value stands in a feature.
#[derive(Debug, Clone, PartialEq)]
pub struct FrequentValue {
    /// The value.
    pub value: Value,
    /// How often, or about.
    pub count: u64,
}

/// Counts of values by their hashes.
#[derive(Debug, Clone, Default)]
pub(super) struct Frequent {
    counts: HashMap<u64, Counted, BuildHasherDefault<ByHash>>,
    /// What has been taken off every count.
    taken_off: u64,
    /// Whether a value was not counted.
    incomplete: bool,
    /// Values sampled or passed over since all were counted.
    position: u64,
}

#[derive(Debug, Clone)]
struct Counted {
    value: Value,
    count: u64,
}

/// Keys are hashes already.
#[derive(Debug, Clone, Copy, Default)]
struct ByHash(u64);

impl Hasher for ByHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash::bytes(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Frequent {
    /// Whether every value is to be [counted](Self::count); otherwise they are [sampled](Self::sample).
    pub(super) fn counts_all(&self) -> bool {
        self.taken_off == 0
    }

    /// Counts a value by its hash; `value` makes it, or not if it is not to be listed. Whether it is among the
    /// [hashes](Self::hashes) then.
    #[inline]
    pub(super) fn count(&mut self, hash: u64, value: impl FnOnce() -> Option<Value>) -> bool {
        self.add(hash, 1, value)
    }

    /// Whether there are more distinct values than are counted exactly. They are to be [sampled](Self::drop_rarest) then.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.counts.len() > EXACT_VALUES
    }

    /// The hashes of all values that were counted and not dropped.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.keys().copied()
    }

    #[inline]
    fn add(&mut self, hash: u64, weight: u64, value: impl FnOnce() -> Option<Value>) -> bool {
        if let Some(counted) = self.counts.get_mut(&hash) {
            counted.count += weight;
            return true;
        }
        match value() {
            Some(value) => {
                self.counts.insert(hash, Counted { value, count: weight });
                true
            }
            None => {
                self.incomplete = true;
                false
            }
        }
    }

    /// Counts a sample of `len` values, where there is a hash.
    pub(super) fn sample(
        &mut self,
        len: usize,
        hash: impl Fn(usize) -> Option<u64>,
        value: impl Fn(usize) -> Option<Value>,
    ) {
        let end = self.position + len as u64;
        for block in self.position / SAMPLED..end.div_ceil(SAMPLED) {
            // One at random of each so many, whatever the batches.
            let pick = block * SAMPLED + hash::word(block) % SAMPLED;
            if (self.position..end).contains(&pick)
                && let Ok(at) = usize::try_from(pick - self.position)
                && let Some(hash) = hash(at)
            {
                self.add(hash, SAMPLED, || value(at));
                if self.is_full() {
                    self.drop_rarest();
                }
            }
        }
        self.position = end;
    }

    /// Takes the median count off all counts: about half of the values are gone.
    pub(super) fn drop_rarest(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().map(|counted| counted.count).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = (*median).max(1);
        self.counts.retain(|_, counted| counted.count > median);
        for counted in self.counts.values_mut() {
            counted.count -= median;
        }
        self.taken_off += median;
        self.incomplete = true;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.taken_off += other.taken_off;
        self.incomplete |= other.incomplete;
        self.position += other.position;
        for (hash, counted) in &other.counts {
            self.counts.entry(*hash).or_insert_with(|| Counted { value: counted.value.clone(), count: 0 }).count +=
                counted.count;
        }
        while self.is_full() {
            self.drop_rarest();
        }
    }

    /// The number of distinct values, if all are counted.
    pub(super) fn distinct(&self) -> Option<u64> {
        (!self.incomplete).then_some(self.counts.len() as u64)
    }

    /// The most frequent values.
    pub(super) fn top(&self, most: usize) -> Vec<FrequentValue> {
        // Of a value that is listed at least half of the count is certain.
        let least = if self.taken_off == 0 { 1 } else { self.taken_off.max(LEAST_SEEN * SAMPLED) };
        let counted = self.counts.iter().filter(|(_, counted)| counted.count >= least);
        let mut top: Vec<_> = counted.map(|(hash, counted)| (counted.count, hash, &counted.value)).collect();
        top.sort_unstable_by(|(count, hash, value), (other_count, other_hash, other)| {
            other_count.cmp(count).then_with(|| order(value, other)).then(hash.cmp(other_hash))
        });
        top.truncate(most);
        top.into_iter().map(|(count, _, value)| FrequentValue { value: value.clone(), count }).collect()
    }
}

fn order(one: &Value, other: &Value) -> std::cmp::Ordering {
    match (one, other) {
        (Value::Int64(one), Value::Int64(other)) => one.cmp(other),
        (Value::Float(one), Value::Float(other)) => one.total_cmp(other),
        (Value::Bytes(one), Value::Bytes(other)) => one.cmp(other),
        _ => std::cmp::Ordering::Equal,
    }
}

#[cfg(test)]
mod tests;
