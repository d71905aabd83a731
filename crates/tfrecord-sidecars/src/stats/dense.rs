//! [`DenseCounts`]: counts of integers in a narrow range, as an array indexed by value.

use serde::{Deserialize, Serialize};

use super::numbers::Range;

/// Integers are counted exactly while their range, including both ends, has at most this many integers.
pub const EXACT_RANGE: u64 = 4096;

/// The number of occurrences of each integer in a range, for days, hours, categories or labels. Adding a value only
/// increments its count. All other figures are computed from the counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct DenseCounts {
    /// The integer of the first count. Counts past `i64::MAX`, which would wrap around, are never used.
    first: i64,
    counts: Vec<u64>,
    /// The range of the counted integers.
    range: Option<Range<i64>>,
}

impl DenseCounts {
    /// Counts the values up to the first one that would make the range too wide, and returns how many.
    #[inline(always)]
    pub(super) fn add(&mut self, values: &[i64]) -> usize {
        match self.widened(Range::of(values)) {
            Some(range) => {
                self.count(values, range);
                values.len()
            }
            None => self.add_while_near(values),
        }
    }

    #[cold]
    fn add_while_near(&mut self, values: &[i64]) -> usize {
        let mut range = self.range;
        let is_far = |value: &i64| match near(Range::merge(range, Range::of(&[*value]))) {
            Some(widened) => {
                range = Some(widened);
                false
            }
            None => true,
        };
        let taken = values.iter().position(is_far).unwrap_or(values.len());
        if let (Some(values), Some(range)) = (values.get(..taken), range) {
            self.count(values, range);
        }
        taken
    }

    /// Counts values within `range`, which becomes the range of all.
    #[inline(always)]
    fn count(&mut self, values: &[i64], range: Range<i64>) {
        self.make_room(range);
        self.range = Some(range);
        // Local variables avoid reloading both after every stored count.
        let (first, counts) = (self.first, self.counts.as_mut_slice());
        for value in values {
            if let Some(count) = counts.get_mut(value.wrapping_sub(first) as usize) {
                *count += 1;
            }
        }
    }

    /// Merges other counts. Returns false and adds nothing if the common range is too wide.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let Some(range) = other.range else { return true };
        let Some(range) = self.widened(Some(range)) else { return false };
        self.make_room(range);
        self.range = Some(range);
        for (value, weight) in other.iter() {
            if let Some(count) = self.counts.get_mut(value.wrapping_sub(self.first) as usize) {
                *count += weight;
            }
        }
        true
    }

    /// The counted integers in order, with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let at = |place: usize| self.first.wrapping_add(place as i64);
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(move |(place, count)| (at(place), *count))
    }

    /// The common range of these and others. `None` if it is too wide or empty.
    #[inline(always)]
    fn widened(&self, other: Option<Range<i64>>) -> Option<Range<i64>> {
        near(Range::merge(self.range, other))
    }

    /// Resizes the array so that every integer of a range has a count.
    #[inline(always)]
    fn make_room(&mut self, range: Range<i64>) {
        let place = |value: i64| value.wrapping_sub(self.first) as u64;
        let len = self.counts.len() as u64;
        if place(range.least) >= len || place(range.greatest) >= len {
            self.move_to(range);
        }
    }

    #[cold]
    fn move_to(&mut self, range: Range<i64>) {
        let needed = width(range) + 1;
        let room = (needed * 2).next_power_of_two().min(EXACT_RANGE);
        let first = range.least.wrapping_sub(((room - needed) / 2) as i64);
        let mut counts = vec![0; usize::try_from(room).unwrap_or_default()];
        for (value, weight) in self.iter() {
            if let Some(count) = counts.get_mut(value.wrapping_sub(first) as usize) {
                *count = weight;
            }
        }
        (self.first, self.counts) = (first, counts);
    }
}

fn near(range: Option<Range<i64>>) -> Option<Range<i64>> {
    range.filter(|range| width(*range) < EXACT_RANGE)
}

fn width(range: Range<i64>) -> u64 {
    range.greatest.wrapping_sub(range.least) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dense_counts_stop_at_a_distant_value() {
        let mut counts = DenseCounts::default();
        assert_eq!(counts.add(&[]), 0);
        assert_eq!(counts.add(&[10, 12, 10]), 3);
        assert_eq!(counts.add(&[10 + 4095, 9, 12]), 1);
        assert_eq!(counts.add(&[9]), 0);
        assert_eq!(counts.add(&[i64::MIN, i64::MAX]), 0);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(10, 2), (12, 1), (4105, 1)]);
    }

    proptest! {
        /// At any position, including both ends of `i64`, and in any order.
        #[test]
        fn every_value_is_counted(
            least in prop_oneof![Just(i64::MIN), Just(i64::MAX - 4095), -5000_i64..5000],
            batches in prop::collection::vec(prop::collection::vec(0_i64..4096, 0..50), 0..20),
            cut in 0_usize..20,
        ) {
            let (mut counts, mut rest, mut exact) = (DenseCounts::default(), DenseCounts::default(), BTreeMap::new());
            for (at, batch) in batches.iter().enumerate() {
                let values: Vec<i64> = batch.iter().map(|above| least + above).collect();
                let part = if at < cut { &mut counts } else { &mut rest };
                prop_assert_eq!(part.add(&values), values.len());
                values.iter().for_each(|value| *exact.entry(*value).or_insert(0) += 1);
            }
            prop_assert!(counts.merge(&rest));
            prop_assert!(counts.iter().eq(exact));
        }
    }
}
