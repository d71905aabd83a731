//! [`Frequent`]: the most frequent values.
//!
//! While there are few distinct values, every value is counted. After that, a random sample of one value in [`SAMPLED`]
//! is counted, and the rate halves as values become very many. The counts are in a map of bounded size, from which the
//! rarest half is dropped when it is full. This is the algorithm of Misra and Gries ("Finding repeated elements", 1982)
//! with the bulk decrements of Anderson et al. ("A high-performance algorithm for identifying frequent items in data
//! streams", 2017). Apart from the sampling error, a count is never too high, and too low by at most the total of the
//! decrements.

mod counts;

use std::fmt;

use serde::{Deserialize, Serialize};

use self::counts::Counts;
use super::hash;

/// The maximum number of distinct values that are counted exactly.
pub const EXACT_VALUES: usize = 2048;

/// One in this many values is sampled once values are not counted exactly.
const SAMPLED: u64 = 32;

/// After this many values the sampling rate halves, and again with every doubling. The sample then has 16384 values,
/// and gains half as many with each doubling. The relative standard error of a count is at most `sqrt(1 / (16384 *
/// share of the value))`.
const MANY: u64 = 1 << 19;

/// The number of sampled values that are counted together.
const AT_ONCE: usize = 32;

/// The minimum number of sampled occurrences of a listed value: fewer are not significant.
const LEAST_SEEN: u64 = 8;

/// A value of a feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// An integer.
    Int64(i64),
    /// A float.
    Float(f32),
    /// Text.
    Bytes(Box<[u8]>),
}

impl Value {
    /// The number, if it is one.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Int64(value) => Some(*value as f64),
            Self::Float(value) => Some((*value).into()),
            Self::Bytes(_) => None,
        }
    }
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

/// The count of a value in a feature.
#[derive(Debug, Clone, PartialEq)]
pub struct FrequentValue {
    /// The value.
    pub value: Value,
    /// The exact or estimated count.
    pub count: u64,
}

/// Counts of values by their hashes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Frequent {
    counts: Counts,
    /// The total decrement of every count.
    taken_off: u64,
    /// Whether a value was not counted.
    incomplete: bool,
    /// The number of values, sampled or skipped, since exact counting ended.
    position: u64,
}

impl Frequent {
    /// Whether the caller must [count](Self::count) every value; otherwise [sample](Self::sample) them.
    pub(super) fn counts_all(&self) -> bool {
        self.taken_off == 0
    }

    /// Counts a value by its hash. `value` builds it, or returns `None` if it must not be listed. Returns whether it is
    /// now among the [hashes](Self::hashes).
    #[inline]
    pub(super) fn count(&mut self, hash: u64, weight: u64, value: impl FnOnce() -> Option<Value>) -> bool {
        if self.counts.add(hash, weight) {
            return true;
        }
        let value = value();
        let is_listed = value.is_some();
        match is_listed {
            true => self.counts.insert(hash, weight, value),
            false => self.incomplete = true,
        }
        is_listed
    }

    /// Whether there are too many distinct values to count exactly. The caller then [switches to
    /// sampling](Self::drop_rarest).
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.counts.len() > EXACT_VALUES
    }

    /// The counted and listed values, with their counts.
    pub(super) fn counted(&self) -> impl Iterator<Item = (&Value, u64)> {
        self.counts.iter().filter_map(|counted| Some((counted.value?, counted.count)))
    }

    /// The hashes of all values that were counted and not dropped.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.hashes()
    }

    /// Counts a sample of `len` values, except those without a hash.
    pub(super) fn sample(
        &mut self,
        len: usize,
        hash: impl Fn(usize) -> Option<u64>,
        value: impl Fn(usize) -> Option<Value>,
    ) {
        let (begin, end) = (self.position, self.position + len as u64);
        // In groups: their table slots are no longer in the cache, and are prefetched in parallel.
        let mut picked = [(0, 0, 0); AT_ONCE];
        while self.position < end {
            let mut picks = 0;
            while self.position < end
                && let Some(place) = picked.get_mut(picks)
            {
                // One random value of each block, independent of batch boundaries. Both sizes are powers of two, so no
                // block is split.
                let block = block_at(self.position);
                let start = self.position & !(block - 1);
                let pick = start + (hash::word(start / SAMPLED) & (block - 1));
                if (self.position..end).contains(&pick)
                    && let Ok(at) = usize::try_from(pick - begin)
                    && let Some(hash) = hash(at)
                {
                    self.counts.prefetch(hash);
                    *place = (at, hash, block);
                    picks += 1;
                }
                self.position = (start + block).min(end);
            }
            for (at, hash, block) in picked.iter().take(picks) {
                self.count_sampled(*hash, *block, || value(*at));
            }
        }
    }

    /// Most values are seen once and then dropped. So a value is built only when it is seen again, and often enough to
    /// be listed.
    fn count_sampled(&mut self, hash: u64, weight: u64, value: impl FnOnce() -> Option<Value>) {
        if !self.counts.add_valued(hash, weight, self.taken_off, value) {
            self.counts.insert(hash, weight, None);
            if self.is_full() {
                self.drop_rarest();
            }
        }
    }

    /// Subtracts the median count from all counts, which drops about half of the values.
    pub(super) fn drop_rarest(&mut self) {
        let mut counts: Vec<u64> = self.counts.counts().collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = (*median).max(1);
        self.counts.replace(|count| count.checked_sub(median).filter(|count| *count > 0));
        self.taken_off += median;
        self.incomplete = true;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.taken_off += other.taken_off;
        self.incomplete |= other.incomplete;
        self.position += other.position;
        for counted in other.counts.iter() {
            if !self.counts.add_valued(counted.hash, counted.count, 0, || counted.value.cloned()) {
                self.counts.insert(counted.hash, counted.count, counted.value.cloned());
            }
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
        // At least half of the count of a listed value is certain.
        let least = if self.taken_off == 0 { 1 } else { self.taken_off.max(LEAST_SEEN * block_at(self.position)) };
        let counted = self.counts.iter().filter(|counted| counted.count >= least);
        let mut top: Vec<_> =
            counted.filter_map(|counted| Some((counted.count, counted.hash, counted.value?))).collect();
        top.sort_unstable_by(|(count, hash, value), (other_count, other_hash, other)| {
            other_count.cmp(count).then_with(|| order(value, other)).then(hash.cmp(other_hash))
        });
        top.truncate(most);
        top.into_iter().map(|(count, _, value)| FrequentValue { value: value.clone(), count }).collect()
    }
}

/// The size of the blocks from which one value is sampled, from this position on.
fn block_at(position: u64) -> u64 {
    match position / MANY {
        0 => SAMPLED,
        times => (SAMPLED * 2) << times.ilog2(),
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
