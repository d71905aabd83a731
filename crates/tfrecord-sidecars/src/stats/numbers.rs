//! [`Moments`]: count, mean, deviation and range of numbers. [`BlockMoments`]: the same for a sequence, independent of
//! batch boundaries.

use serde::{Deserialize, Serialize};

use super::frequent::Value;

/// Numbers that are summed before they are merged with the others: a block fits in the first-level cache twice.
///
/// Sums of floating-point numbers depend on their order and on how they are grouped. Every block has exactly this many
/// numbers, wherever batches end, so the result is a function of the sequence alone.
const BLOCK: usize = 1024;

/// The maximum range of [close](Moments::add_close) integers: the sum of a block of its squares fits in 64 bits.
const MAX_WIDTH: u64 = (1 << 27) - 1;

/// Sums that the processor computes in parallel.
const LANES: usize = 8;

/// Count, mean, deviation and range of numbers.
///
/// Blocks are summed twice, for the mean and for the squared differences from it. They are merged by the formula of
/// Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample variances", 1979), which
/// is stable where a sum of squares is not.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Moments {
    /// The number of finite numbers.
    count: u64,
    mean: f64,
    /// The sum of the squares of differences from the mean.
    squares: f64,
    /// The minimum and maximum finite number.
    finite: Option<Range<f64>>,
    integers: Option<Range<i64>>,
    pub(super) zeros: u64,
    pub(super) nans: u64,
    pub(super) infinities: u64,
    has_negative_infinity: bool,
    has_positive_infinity: bool,
}

/// The range from the minimum to the maximum, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Range<T> {
    pub(super) least: T,
    pub(super) greatest: T,
}

impl<T: PartialOrd + Copy> Range<T> {
    #[inline(always)]
    pub(super) fn of(values: &[T]) -> Option<Self> {
        let (mut least, mut greatest) = (*values.first()?, *values.first()?);
        for value in values {
            least = if *value < least { *value } else { least };
            greatest = if *value > greatest { *value } else { greatest };
        }
        Some(Self { least, greatest })
    }

    #[inline(always)]
    pub(super) fn merge(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(Self {
                least: if other.least < one.least { other.least } else { one.least },
                greatest: if other.greatest > one.greatest { other.greatest } else { one.greatest },
            }),
            (one, other) => one.or(other),
        }
    }
}

impl Moments {
    /// Adds one block of integers.
    #[inline(always)]
    fn add_int_block(&mut self, block: &[i64]) {
        let Some(range) = Range::of(block) else { return };
        self.integers = Range::merge(self.integers, Some(range));
        let width = range.greatest.wrapping_sub(range.least) as u64;
        let mut numbers = [0.0; BLOCK];
        if width <= MAX_WIDTH {
            self.add_close(block, range);
        } else if let Some(numbers) = numbers.get_mut(..block.len()) {
            to_floats(block, numbers);
            self.add_block(numbers);
        }
    }

    /// Adds integers within [`MAX_WIDTH`] of each other: the sums of their differences from the minimum, and of the
    /// squares, are exact.
    #[inline(always)]
    fn add_close(&mut self, values: &[i64], Range { least, greatest }: Range<i64>) {
        let (mut sum, mut squares) = (0, 0);
        for value in values {
            // The difference fits in 32 bits, so products can be computed in parallel.
            let above = u64::from(value.wrapping_sub(least) as u32);
            sum += above;
            squares += above * above;
        }
        let count = values.len() as u64;
        if least <= 0 && greatest >= 0 {
            self.zeros += values.iter().map(|value| u64::from(*value == 0)).sum::<u64>();
        }
        let spread = u128::from(squares) * u128::from(count) - u128::from(sum) * u128::from(sum);
        let mean = least as f64 + sum as f64 / count as f64;
        self.add_mean(count, mean, spread as f64 / count as f64);
        self.finite = Range::merge(self.finite, Some(Range { least: least as f64, greatest: greatest as f64 }));
    }

    /// Adds one block of floats.
    #[inline(always)]
    fn add_float_block(&mut self, block: &[f32]) {
        if !self.add_block(block) {
            self.add_special(block);
            let finite: Vec<f32> = block.iter().copied().filter(|value| value.is_finite()).collect();
            self.add_block(&finite);
        }
    }

    fn add_special(&mut self, values: &[f32]) {
        for value in values {
            if value.is_nan() {
                self.nans += 1;
            } else if value.is_infinite() {
                self.add_infinite(*value, 1);
            }
        }
    }

    /// Adds numbers, or none if any is not finite. A sum of this many finite float32 values cannot be infinite.
    #[inline(always)]
    fn add_block<T: Copy + PartialOrd + Default + Into<f64>>(&mut self, values: &[T]) -> bool {
        let Some(first) = values.first().copied() else { return true };
        let total = sum(values, |number| number);
        if !total.is_finite() {
            return false;
        }
        let (mut least, mut greatest, mut zeros) = ([first; LANES], [first; LANES], [0_u32; LANES]);
        let (chunks, rest) = values.as_chunks::<LANES>();
        for value in rest {
            let ([zeros, ..], [least, ..], [greatest, ..]) = (&mut zeros, &mut least, &mut greatest);
            *zeros += u32::from(*value == T::default());
            *least = if *value < *least { *value } else { *least };
            *greatest = if *value > *greatest { *value } else { *greatest };
        }
        for chunk in chunks {
            let lanes = zeros.iter_mut().zip(least.iter_mut().zip(&mut greatest));
            for ((zeros, (least, greatest)), value) in lanes.zip(chunk) {
                *zeros += u32::from(*value == T::default());
                *least = if *value < *least { *value } else { *least };
                *greatest = if *value > *greatest { *value } else { *greatest };
            }
        }
        let mean = total / values.len() as f64;
        let squares = sum(values, |value| (value - mean).powi(2));
        self.add_mean(values.len() as u64, mean, squares);
        self.zeros += zeros.iter().map(|zeros| u64::from(*zeros)).sum::<u64>();
        let range = Range::of(&least).zip(Range::of(&greatest));
        let range =
            range.map(|(least, greatest)| Range { least: least.least.into(), greatest: greatest.greatest.into() });
        self.finite = Range::merge(self.finite, range);
        true
    }

    /// Adds values with their counts. They are summed in sorted order, so the result does not depend on their order.
    pub(super) fn add_counted<'a>(&mut self, counted: impl Iterator<Item = (&'a Value, u64)>) {
        let mut numbers = Vec::new();
        for (value, count) in counted {
            match value {
                Value::Int64(value) => {
                    self.integers = Range::merge(self.integers, Range::of(&[*value]));
                    numbers.push((*value as f64, count));
                }
                Value::Float(value) if value.is_finite() => numbers.push((f64::from(*value), count)),
                Value::Float(value) => self.add_infinite(*value, count),
                Value::Bytes(_) => {}
            }
        }
        numbers.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let Some(((least, _), (greatest, _))) = numbers.first().copied().zip(numbers.last().copied()) else { return };
        let weighted = numbers.iter().map(|(number, count)| (*number, *count as f64));
        let total: u64 = numbers.iter().map(|(_, count)| count).sum();
        let above = weighted.clone().map(|(number, count)| (number - least) * count).sum::<f64>() / total as f64;
        let squares = weighted.map(|(number, count)| (number - least - above).powi(2) * count).sum();
        self.add_mean(total, least + above, squares);
        self.zeros += numbers.iter().filter(|(number, _)| *number == 0.0).map(|(_, count)| count).sum::<u64>();
        self.finite = Range::merge(self.finite, Some(Range { least, greatest }));
    }

    fn add_infinite(&mut self, value: f32, count: u64) {
        self.infinities += count;
        self.has_negative_infinity |= value < 0.0;
        self.has_positive_infinity |= value > 0.0;
    }

    fn add_mean(&mut self, count: u64, mean: f64, squares: f64) {
        let (before, total) = (self.count as f64, (self.count + count) as f64);
        let difference = mean - self.mean;
        self.squares += squares + difference * difference * before * (count as f64 / total);
        self.mean += difference * (count as f64 / total);
        self.count += count;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if other.count > 0 {
            self.add_mean(other.count, other.mean, other.squares);
        }
        self.finite = Range::merge(self.finite, other.finite);
        self.integers = Range::merge(self.integers, other.integers);
        self.zeros += other.zeros;
        self.nans += other.nans;
        self.infinities += other.infinities;
        self.has_negative_infinity |= other.has_negative_infinity;
        self.has_positive_infinity |= other.has_positive_infinity;
    }

    /// The number of finite numbers.
    pub(super) fn finite(&self) -> u64 {
        self.count
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    pub(super) fn std_dev(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    /// The minimum and the maximum.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let special = |occurs, value| Some(Range { least: value, greatest: value }).filter(|_| occurs);
        let range = Range::merge(self.finite, special(self.has_negative_infinity, f64::NEG_INFINITY));
        let range = Range::merge(range, special(self.has_positive_infinity, f64::INFINITY))?;
        Some((range.least, range.greatest))
    }

    pub(super) fn finite_range(&self) -> Option<(f64, f64)> {
        self.finite.map(|range| (range.least, range.greatest))
    }

    pub(super) fn integers(&self) -> Option<(i64, i64)> {
        self.integers.map(|range| (range.least, range.greatest))
    }
}

/// The moments of a sequence of numbers in batches. Equal sequences give identical moments, independent of batch
/// boundaries.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct BlockMoments {
    /// The moments of all full blocks, and of numbers that were added in other ways.
    full: Moments,
    ints: Pending<i64>,
    floats: Pending<f32>,
}

impl BlockMoments {
    /// Adds integers.
    #[inline(always)]
    pub(super) fn add_ints(&mut self, mut values: &[i64]) {
        while let Some(block) = self.ints.next_block(&mut values) {
            self.full.add_int_block(block);
        }
    }

    /// Adds floats.
    #[inline(always)]
    pub(super) fn add_floats(&mut self, mut values: &[f32]) {
        while let Some(block) = self.floats.next_block(&mut values) {
            self.full.add_float_block(block);
        }
    }

    /// Adds a NaN.
    pub(super) fn add_nan(&mut self) {
        self.full.nans += 1;
    }

    /// As [`Moments::add_counted`].
    pub(super) fn add_counted<'a>(&mut self, counted: impl Iterator<Item = (&'a Value, u64)>) {
        self.full.add_counted(counted);
    }

    /// Adds the numbers of another sequence, which start a new block.
    pub(super) fn merge(&mut self, other: &Self) {
        *self = Self { full: self.moments(), ..Self::default() };
        self.full.merge(&other.moments());
    }

    /// The moments of all numbers so far.
    pub(super) fn moments(&self) -> Moments {
        let mut moments = self.full;
        moments.add_int_block(&self.ints.values);
        moments.add_float_block(&self.floats.values);
        moments
    }
}

/// The numbers after the last full block.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pending<T> {
    /// Fewer than [`BLOCK`] once [`next_block`](Self::next_block) has returned `None`.
    values: Vec<T>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { values: Vec::new() }
    }
}

impl<T: Copy> Pending<T> {
    /// Takes the next full block from the pending numbers and the front of `values`. If there is none, the rest of
    /// `values` becomes pending.
    #[inline(always)]
    fn next_block<'block, 'values: 'block>(&'block mut self, values: &mut &'values [T]) -> Option<&'block [T]> {
        if self.values.len() >= BLOCK {
            self.values.clear();
        }
        let missing = BLOCK - self.values.len();
        let Some((front, rest)) = values.split_at_checked(missing) else {
            self.values.extend_from_slice(values);
            *values = &[];
            return None;
        };
        *values = rest;
        if missing == BLOCK {
            return Some(front);
        }
        self.values.extend_from_slice(front);
        Some(&self.values)
    }
}

/// Converts integers to floats.
#[inline(always)]
fn to_floats(values: &[i64], numbers: &mut [f64]) {
    // Integers from -2^50 to 2^50 fit in the mantissa of a float64 between 2^52 and 2^53. So they can be converted with
    // vector operations, although processors have no instruction for it.
    const HALF: i64 = 1 << 50;
    const EXPONENT: f64 = (1_u64 << 52) as f64;
    let shifted = |value: i64| value.wrapping_add(HALF) as u64;
    let small = values.iter().fold(0, |bits, value| bits | shifted(*value)) < 1 << 51;
    for (number, value) in numbers.iter_mut().zip(values) {
        *number = match small {
            true => f64::from_bits(EXPONENT.to_bits() | shifted(*value)) - (EXPONENT + HALF as f64),
            false => *value as f64,
        };
    }
}

#[inline(always)]
fn sum<T: Copy + Into<f64>>(values: &[T], term: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut total = 0.0;
    for value in rest {
        total += term((*value).into());
    }
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += term((*value).into());
        }
    }
    lanes.iter().sum::<f64>() + total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A case in which a sum of squares loses all precision.
    #[test]
    fn deviations_far_from_zero() {
        let values: Vec<i64> = (0..100_000).map(|i| 1_000_000_000_000 + i % 7).collect();
        let mut moments = BlockMoments::default();
        moments.add_ints(&values);
        let moments = moments.moments();
        let exact = (0..100_000).map(|i| f64::from(i % 7)).collect::<Vec<_>>();
        let mean = exact.iter().sum::<f64>() / 1e5;
        let deviation = (exact.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
        assert!((moments.mean().unwrap() - 1e12 - mean).abs() < 1e-3);
        assert!((moments.std_dev().unwrap() - deviation).abs() < 1e-6, "{:?}", moments.std_dev());
    }

    #[test]
    fn moments_count_nan_and_infinities_separately() {
        let mut moments = BlockMoments::default();
        moments.add_floats(&[1.0, f32::NAN, f32::INFINITY, -0.0, 3.0]);
        let moments = moments.moments();
        assert_eq!((moments.nans, moments.infinities, moments.zeros, moments.finite()), (1, 1, 1, 3));
        assert_eq!(moments.range(), Some((0.0, f64::INFINITY)));
        assert_eq!(moments.finite_range(), Some((0.0, 3.0)));
        assert_eq!(moments.mean(), Some(4.0 / 3.0));
    }

    #[test]
    fn extremes_of_integers_are_kept() {
        let mut moments = BlockMoments::default();
        moments.add_ints(&[i64::MAX, i64::MAX - 1]);
        assert_eq!(moments.moments().integers(), Some((i64::MAX - 1, i64::MAX)));
        let mut other = BlockMoments::default();
        other.add_ints(&[i64::MIN]);
        moments.merge(&other);
        assert_eq!(moments.moments().integers(), Some((i64::MIN, i64::MAX)));
    }

    /// Both sides of the bound between the two conversions, and partial blocks.
    #[test]
    fn integers_of_any_size() {
        for edge in [0, 1 << 50, (1 << 50) - 1, -1 << 50, (-1 << 50) - 1, 1 << 53] {
            for len in [1, 7, 8, 9, 1023, 1024, 1025, 3000] {
                let values: Vec<i64> = (0..len).map(|i| edge + i * 37 % 11 - 5).collect();
                let mut moments = BlockMoments::default();
                moments.add_ints(&values);
                let moments = moments.moments();
                let exact = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
                assert_eq!(moments.integers(), Some(exact));
                assert_eq!(moments.range(), Some((exact.0 as f64, exact.1 as f64)));
                assert_eq!(moments.zeros, values.iter().filter(|value| **value == 0).count() as u64);
                let mean = values.iter().map(|value| i128::from(*value)).sum::<i128>() as f64 / len as f64;
                assert!((moments.mean().unwrap() - mean).abs() <= mean.abs() * 1e-15 + 1e-12);
            }
        }
    }

    #[test]
    fn moments_of_no_values_are_absent() {
        let mut moments = BlockMoments::default();
        moments.add_ints(&[]);
        moments.add_floats(&[f32::NAN]);
        let moments = moments.moments();
        assert_eq!((moments.mean(), moments.std_dev(), moments.range()), (None, None, None));
    }
}
