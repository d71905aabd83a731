//! [`Moments`]: what sums of numbers tell.

/// Numbers that are summed before they are merged with the others: so many fit into the first-level cache twice over.
const BLOCK: usize = 1024;

/// Sums that the processor forms side by side.
const LANES: usize = 8;

/// Count, mean, deviation and range of numbers.
///
/// Blocks are summed twice, for the mean and for the squares of what differs from it, and merged by the formula of
/// Chan, Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample variances", 1979), which
/// stays exact where a sum of squares would not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    /// Finite numbers.
    count: u64,
    mean: f64,
    /// The sum of the squares of differences from the mean.
    squares: f64,
    /// The least and the greatest finite number.
    finite: Option<Range<f64>>,
    integers: Option<Range<i64>>,
    pub(super) zeros: u64,
    pub(super) nans: u64,
    pub(super) infinities: u64,
    has_negative_infinity: bool,
    has_positive_infinity: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Range<T> {
    least: T,
    greatest: T,
}

impl<T: PartialOrd + Copy> Range<T> {
    fn of(values: &[T]) -> Option<Self> {
        let first = *values.first()?;
        let least = values.iter().fold(first, |least, value| if *value < least { *value } else { least });
        let greatest = values.iter().fold(first, |greatest, value| if *value > greatest { *value } else { greatest });
        Some(Self { least, greatest })
    }

    fn merge(one: Option<Self>, other: Option<Self>) -> Option<Self> {
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
    pub(super) fn add_ints(&mut self, values: &[i64]) {
        for block in values.chunks(BLOCK) {
            self.add_block(block, |value| value as f64);
            self.zeros += block.iter().filter(|value| **value == 0).count() as u64;
            self.integers = Range::merge(self.integers, Range::of(block));
        }
        let range = self.integers.map(|range| Range { least: range.least as f64, greatest: range.greatest as f64 });
        self.finite = Range::merge(self.finite, range);
    }

    pub(super) fn add_floats(&mut self, values: &[f32]) {
        let mut finite = Vec::new();
        for block in values.chunks(BLOCK) {
            // Of finite float32s no sum of so many is infinite.
            let is_finite = sum(block, f64::from).is_finite();
            let block = match is_finite {
                true => block,
                false => {
                    self.add_special(block);
                    finite.clear();
                    finite.extend(block.iter().copied().filter(|value| value.is_finite()));
                    &finite
                }
            };
            self.add_block(block, f64::from);
            self.zeros += block.iter().filter(|value| **value == 0.0).count() as u64;
            let range = Range::of(block)
                .map(|range| Range { least: f64::from(range.least), greatest: f64::from(range.greatest) });
            self.finite = Range::merge(self.finite, range);
        }
    }

    fn add_special(&mut self, values: &[f32]) {
        for value in values {
            if value.is_nan() {
                self.nans += 1;
            } else if value.is_infinite() {
                self.infinities += 1;
                self.has_negative_infinity |= *value < 0.0;
                self.has_positive_infinity |= *value > 0.0;
            }
        }
    }

    fn add_block<T: Copy>(&mut self, values: &[T], number: impl Fn(T) -> f64) {
        if values.is_empty() {
            return;
        }
        let mean = sum(values, &number) / values.len() as f64;
        let squares = sum(values, |value| (number(value) - mean).powi(2));
        self.add_mean(values.len() as u64, mean, squares);
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

    /// How many are finite.
    pub(super) fn finite(&self) -> u64 {
        self.count
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    pub(super) fn std_dev(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    /// The least and the greatest number.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let special = |is_there, value| Some(Range { least: value, greatest: value }).filter(|_| is_there);
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

fn sum<T: Copy>(values: &[T], number: impl Fn(T) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest: f64 = chunks.remainder().iter().map(|value| number(*value)).sum();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += number(*value);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a sum of squares has lost everything.
    #[test]
    fn deviations_far_from_zero() {
        let values: Vec<i64> = (0..100_000).map(|i| 1_000_000_000_000 + i % 7).collect();
        let mut moments = Moments::default();
        moments.add_ints(&values);
        let exact = (0..100_000).map(|i| f64::from(i % 7)).collect::<Vec<_>>();
        let mean = exact.iter().sum::<f64>() / 1e5;
        let deviation = (exact.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
        assert!((moments.mean().unwrap() - 1e12 - mean).abs() < 1e-3);
        assert!((moments.std_dev().unwrap() - deviation).abs() < 1e-6, "{:?}", moments.std_dev());
    }

    #[test]
    fn what_is_not_finite_is_counted_apart() {
        let mut moments = Moments::default();
        moments.add_floats(&[1.0, f32::NAN, f32::INFINITY, -0.0, 3.0]);
        assert_eq!((moments.nans, moments.infinities, moments.zeros, moments.finite()), (1, 1, 1, 3));
        assert_eq!(moments.range(), Some((0.0, f64::INFINITY)));
        assert_eq!(moments.finite_range(), Some((0.0, 3.0)));
        assert_eq!(moments.mean(), Some(4.0 / 3.0));
    }

    #[test]
    fn extremes_of_integers_are_kept() {
        let mut moments = Moments::default();
        moments.add_ints(&[i64::MAX, i64::MAX - 1]);
        assert_eq!(moments.integers(), Some((i64::MAX - 1, i64::MAX)));
        let mut other = Moments::default();
        other.add_ints(&[i64::MIN]);
        moments.merge(&other);
        assert_eq!(moments.integers(), Some((i64::MIN, i64::MAX)));
    }

    #[test]
    fn nothing_has_no_mean() {
        let mut moments = Moments::default();
        moments.add_ints(&[]);
        moments.add_floats(&[f32::NAN]);
        assert_eq!((moments.mean(), moments.std_dev(), moments.range()), (None, None, None));
    }
}
