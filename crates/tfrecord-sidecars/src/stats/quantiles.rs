//! [`Quantiles`]: medians and histograms from a KLL sketch of bounded size.
//!
//! Levels contain values that represent 1, 2, 4, ... input values. A full level is sorted, and every other value moves
//! to the next level. Beyond the maximum number of levels, the lowest is dropped, and one of every 2, 4, ... input
//! values is sampled, at a random position in its block. So the cost per value decreases with their number. The coin
//! flips are a fixed sequence.
//!
//! Source: Karnin, Lang, Liberty, "Optimal quantile approximation in streams", 2016, sections 3 and 4.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::hash;

/// The capacities of the levels from the highest down: each is two thirds of the one above it.
const CAPACITIES: [usize; LEVELS + 2] = [HIGHEST, 960, 640, 426, 284, 189, 126];

/// The capacity of the highest level.
const HIGHEST: usize = 1440;

/// The maximum number of levels.
const LEVELS: usize = 5;

/// The maximum number of values that are all retained.
pub(super) const EXACT: u64 = HIGHEST as u64 - 1;

/// A sketch of numbers, with a rank error of at most 1 %.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Quantiles {
    /// The levels from the lowest, whose values represent `1 << base` inputs each. The values are [keys](key).
    levels: Vec<Vec<i64>>,
    #[serde(deserialize_with = "checked_base")]
    base: u32,
    /// The number of values in the current sampling block.
    in_block: u64,
    /// The position in the block of the value to sample.
    pick: u64,
    /// The value sampled from the current block. It is inserted at the end of the block: inserting may raise the levels
    /// and start a new block, which must not depend on batch boundaries.
    held: Option<f64>,
    coins: u64,
}

impl Quantiles {
    /// Adds `len` values, except NaN.
    #[inline(always)]
    pub(super) fn update(&mut self, len: usize, value: impl Fn(usize) -> f64) {
        let mut at = 0;
        while at < len {
            let left = (len - at) as u64;
            if self.base == 0 {
                at += self.insert_all(left, |offset| value(at + offset as usize)) as usize;
                continue;
            }
            // A power of two: a division would dominate the cost.
            let block = 1_u64 << self.base;
            if self.in_block == 0 {
                self.pick = self.coin() & (block - 1);
            }
            let left = left.min(block - self.in_block);
            let picked = self.pick.wrapping_sub(self.in_block);
            self.in_block = (self.in_block + left) & (block - 1);
            if picked < left {
                self.held = Some(value(at + picked as usize));
            }
            if self.in_block == 0
                && let Some(value) = self.held.take()
            {
                self.insert(value);
            }
            at += left as usize;
        }
    }

    /// Creates a sketch of numbers with their counts, in any order.
    pub(super) fn of_counted(counted: impl Iterator<Item = (f64, u64)>) -> Self {
        let mut counted: Vec<_> = keys_counted(counted).collect();
        counted.sort_unstable();
        let total: u64 = counted.iter().map(|(_, count)| count).sum();
        // The highest level, as if the values had been added one by one: none of its values represents too many.
        let highest = (total / HIGHEST as u64 + 1).next_power_of_two().ilog2();
        let mut sketch = Self { levels: vec![Vec::new(); highest as usize + 1], ..Self::default() };
        for (key, count) in counted {
            for (level, weight) in sketch.levels.iter_mut().zip(0..) {
                let times = if weight == highest { count >> weight } else { count >> weight & 1 };
                level.extend((0..times).map(|_| key));
            }
        }
        sketch.shrink();
        sketch
    }

    /// Adds up to `len` values, as many as the lowest level has room for, and returns their number.
    #[inline(always)]
    fn insert_all(&mut self, most: u64, value: impl Fn(u64) -> f64) -> u64 {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        let capacity = self.capacity(0);
        let Some(lowest) = self.levels.first_mut() else { return most };
        let taken = most.min(capacity.saturating_sub(lowest.len()).max(1) as u64);
        // Both zeros are the same value.
        lowest.extend((0..taken).map(value).filter(|value| !value.is_nan()).map(|value| key(value + 0.0)));
        if lowest.len() >= capacity {
            self.shrink();
        }
        taken
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        other.keep_held();
        self.keep_held();
        while self.base < other.base {
            self.raise();
        }
        while other.base < self.base {
            other.raise();
        }
        if self.levels.len() < other.levels.len() {
            self.levels.resize(other.levels.len(), Vec::new());
        }
        for (level, other) in self.levels.iter_mut().zip(other.levels) {
            level.extend(other);
        }
        self.shrink();
    }

    /// The retained values, in order.
    pub(super) fn ranks(&self) -> Ranks {
        let levels = self.levels.iter().zip(self.base..);
        let held = self.held_key().map(|key| (key, 1 << self.base));
        let kept = levels.flat_map(|(level, weight)| level.iter().map(move |key| (*key, 1 << weight)));
        Ranks::of(kept.chain(held).collect())
    }

    /// Counts the sampled value of a partial block as a whole block.
    fn keep_held(&mut self) {
        let key = self.held_key();
        self.held = None;
        if let (Some(key), Some(lowest)) = (key, self.levels.first_mut()) {
            lowest.push(key);
        }
    }

    fn held_key(&self) -> Option<i64> {
        // Both zeros are the same value, and NaN is not counted.
        self.held.filter(|value| !value.is_nan()).map(|value| key(value + 0.0))
    }

    #[inline]
    fn insert(&mut self, value: f64) {
        self.insert_all(1, |_| value);
    }

    /// The capacity of a level.
    fn capacity(&self, level: usize) -> usize {
        CAPACITIES.get(self.levels.len().saturating_sub(level + 1)).copied().unwrap_or(2)
    }

    /// Compacts until no level exceeds its capacity.
    fn shrink(&mut self) {
        let mut level = 0;
        while level < self.levels.len() {
            if self.levels.get(level).is_some_and(|values| values.len() >= self.capacity(level)) {
                self.compact(level);
            }
            level += 1;
        }
        while self.levels.len() > LEVELS {
            self.raise();
        }
    }

    /// Moves every other value of a level to the next. An odd value stays.
    fn compact(&mut self, level: usize) {
        if level >= self.levels.len() {
            return;
        }
        if self.levels.len() == level + 1 {
            self.levels.push(Vec::new());
        }
        let coin = self.coin();
        let Some([values, next, ..]) = self.levels.get_mut(level..) else { return };
        let over = if values.len() % 2 == 1 { values.pop() } else { None };
        // The lowest level is unsorted. Those above contain sorted runs, which a stable sort merges.
        if level == 0 {
            values.sort_unstable()
        } else {
            values.sort()
        }
        next.extend(values.iter().skip((coin & 1) as usize).step_by(2));
        values.clear();
        values.extend(over);
    }

    /// Drops the lowest level.
    fn raise(&mut self) {
        self.compact(0);
        let over = if self.levels.is_empty() { Vec::new() } else { self.levels.remove(0) };
        self.base += 1;
        // An odd value is dropped or counts twice.
        let stays = self.coin() & 1 == 0;
        if let (Some(value), Some(lowest), true) = (over.first(), self.levels.first_mut(), stays) {
            lowest.push(*value);
        }
        self.in_block = 0;
        self.held = None;
    }

    fn coin(&mut self) -> u64 {
        self.coins += 1;
        hash::word(self.coins)
    }
}

/// Rejects weights that are not 64-bit numbers.
fn checked_base<'a, D: Deserializer<'a>>(deserializer: D) -> Result<u32, D::Error> {
    let base = u32::deserialize(deserializer)?;
    if base < u64::BITS / 2 { Ok(base) } else { Err(D::Error::custom("the levels are too high")) }
}

/// Sorted numbers with cumulative counts.
#[derive(Debug, PartialEq)]
pub(super) struct Ranks {
    /// The numbers, each with the total weight up to and including it.
    weighted: Vec<(f64, u64)>,
}

impl Ranks {
    /// Creates exact ranks of numbers with their counts, in any order.
    pub(super) fn of_counted(counted: impl Iterator<Item = (f64, u64)>) -> Self {
        Self::of(keys_counted(counted).collect())
    }

    /// Creates ranks of keys with their weights.
    fn of(mut weighted: Vec<(i64, u64)>) -> Self {
        weighted.sort_unstable();
        let mut below = 0;
        let mut up_to = |weight| {
            below += weight;
            below
        };
        Self { weighted: weighted.into_iter().map(|(key, weight)| (number(key), up_to(weight))).collect() }
    }

    /// The values at these ranks from 0 to 1, in order. Empty if there are no values.
    pub(super) fn at(&self, ranks: &[f64]) -> Vec<f64> {
        let weighted = &self.weighted;
        let Some((_, total)) = weighted.last().copied() else { return Vec::new() };
        let at = |rank: &f64| {
            let target = (rank * total as f64).ceil().max(1.0) as u64;
            let place = weighted.partition_point(|(_, below)| *below < target);
            weighted.get(place).or(weighted.last()).map_or(f64::NAN, |(value, _)| *value)
        };
        ranks.iter().map(at).collect()
    }

    /// The shares of finite values below each of `values`. At `greatest` the share is 1.
    pub(super) fn shares_below(&self, values: &[f64], greatest: f64) -> Vec<f64> {
        let mut finite = self.weighted.clone();
        let infinite = finite.iter().take_while(|(value, _)| *value == f64::NEG_INFINITY).last();
        let before = infinite.map_or(0, |(_, below)| *below);
        finite.retain(|(value, _)| value.is_finite());
        let total = finite.last().map_or(0, |(_, below)| below - before);
        let share = |value: &f64| {
            if *value >= greatest {
                return 1.0;
            }
            let place = finite.partition_point(|(known, _)| known < value);
            let below = place.checked_sub(1).and_then(|last| finite.get(last)).map_or(before, |(_, below)| *below);
            (below - before) as f64 / total.max(1) as f64
        };
        values.iter().map(share).collect()
    }
}

/// Converts numbers to [keys](key). NaN is skipped, and both zeros are the same value.
fn keys_counted(counted: impl Iterator<Item = (f64, u64)>) -> impl Iterator<Item = (i64, u64)> {
    counted.filter(|(number, _)| !number.is_nan()).map(|(number, count)| (key(number + 0.0), count))
}

/// A number as an integer with the same order as [`f64::total_cmp`]: integers are sorted faster.
fn key(number: f64) -> i64 {
    in_order(number.to_bits() as i64)
}

/// The number of a [`key`].
fn number(key: i64) -> f64 {
    f64::from_bits(in_order(key) as u64)
}

/// Inverts the bits of negative numbers except the sign, and back.
fn in_order(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(values: &[f64]) -> Quantiles {
        let mut sketch = Quantiles::default();
        values.chunks(1000).for_each(|batch| sketch.update(batch.len(), |at| batch[at]));
        sketch
    }

    /// The maximum difference between a requested rank and the actual ranks of the result.
    fn worst_rank(sketch: &Quantiles, mut values: Vec<f64>) -> f64 {
        values.sort_unstable_by(f64::total_cmp);
        let count = values.len() as f64;
        let ranks: Vec<f64> = (0..=1000).map(|rank| f64::from(rank) / 1000.0).collect();
        let error = |(rank, value): (&f64, f64)| {
            let low = values.partition_point(|known| *known < value) as f64 / count;
            let high = values.partition_point(|known| *known <= value) as f64 / count;
            (low - rank).max(rank - high).max(0.0)
        };
        ranks.iter().zip(sketch.ranks().at(&ranks)).map(error).fold(0.0, f64::max)
    }

    fn shapes(count: u64) -> Vec<Vec<f64>> {
        let random = |i: u64| hash::word(i ^ 0x5eed) as f64 / u64::MAX as f64;
        vec![
            (0..count).map(|i| i as f64).collect(),
            (0..count).rev().map(|i| i as f64).collect(),
            (0..count).map(random).collect(),
            (0..count).map(|i| -random(i).ln()).collect(),
            (0..count).map(|i| (random(i) * 5.0).floor()).collect(),
            (0..count).map(|i| (i % 16) as f64).collect(),
        ]
    }

    #[test]
    fn ranks_are_right_within_a_percent() {
        for count in [10, 1000, 20_000, 300_000] {
            for (shape, values) in shapes(count).into_iter().enumerate() {
                let error = worst_rank(&sketch(&values), values);
                assert!(error <= 0.01, "{count} values of shape {shape}: {error}");
            }
        }
    }

    #[test]
    fn a_thousand_values_are_all_kept() {
        let values: Vec<f64> = (0..1000).map(f64::from).collect();
        assert_eq!(sketch(&values).ranks().at(&[0.0, 0.001, 0.5, 0.999, 1.0]), [0.0, 0.0, 499.0, 998.0, 999.0]);
    }

    /// Numbers added with counts give the same result as numbers added one by one.
    #[test]
    fn quantiles_of_counted_values_equal_those_of_single_values() {
        for (shape, values) in shapes(300_000).into_iter().enumerate() {
            for distinct in [1.0, 40.0, 2048.0] {
                let scale = values.iter().copied().fold(0.0, f64::max) / distinct;
                let few: Vec<f64> = values.iter().map(|value| (value / scale).round() * scale).collect();
                let mut counts = std::collections::HashMap::<u64, u64>::new();
                few.iter().for_each(|value| *counts.entry(value.to_bits()).or_default() += 1);
                let counted = || counts.iter().map(|(bits, count)| (f64::from_bits(*bits), *count));
                let mut found = Quantiles::of_counted(counted());
                let all = Ranks::of_counted(counted());
                assert_eq!(all.weighted.last().map(|(_, total)| *total), Some(300_000));
                assert!(worst_rank(&found, few.clone()) <= 0.01, "{distinct} values of shape {shape}");
                found.merge(&sketch(&values));
                let error = worst_rank(&found, [few, values.clone()].concat());
                assert!(error <= 0.01, "{distinct} values of shape {shape}, and all others: {error}");
            }
        }
    }

    #[test]
    fn parts_of_any_size_are_merged() {
        for (shape, values) in shapes(300_000).into_iter().enumerate() {
            let mut merged = Quantiles::default();
            let (mut start, mut len) = (0, 3);
            while start < values.len() {
                let end = values.len().min(start + len);
                merged.merge(&sketch(&values[start..end]));
                (start, len) = (end, len * 3);
            }
            let error = worst_rank(&merged, values);
            assert!(error <= 0.015, "shape {shape}: {error}");
        }
    }

    #[test]
    fn batches_do_not_matter_and_memory_is_bounded() {
        let values = shapes(500_000).swap_remove(3);
        let mut one = Quantiles::default();
        one.update(values.len(), |at| values[at]);
        assert_eq!(one.ranks(), sketch(&values).ranks());
        assert!(one.levels.iter().map(Vec::len).sum::<usize>() < 3 * HIGHEST + LEVELS);
    }

    /// Also if levels are raised in the middle of a block.
    #[test]
    fn single_values_are_as_good_as_batches() {
        let values = shapes(60_000).swap_remove(2);
        let many = Quantiles::of_counted((0..3000).map(|number| (f64::from(number), 100)));
        let of_batches = |len: usize| {
            let mut sketch = Quantiles::default();
            sketch.merge(&many);
            values.chunks(len).for_each(|batch| sketch.update(batch.len(), |at| batch[at]));
            sketch.ranks()
        };
        let whole = of_batches(60_000);
        for len in [1, 3, 777, 1024, 8192] {
            assert_eq!(of_batches(len), whole, "{len} values each");
        }
    }

    #[test]
    fn shares_of_finite_values() {
        let sketch = sketch(&[f64::NEG_INFINITY, 0.0, 1.0, 1.0, 2.0, f64::INFINITY, f64::NAN]);
        assert_eq!(sketch.ranks().shares_below(&[0.0, 1.0, 1.5, 2.0], 2.0), [0.0, 0.25, 0.75, 1.0]);
    }
}
