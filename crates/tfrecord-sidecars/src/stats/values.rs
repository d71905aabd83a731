//! [`ValueStatistics`]: statistics of the values of a feature.
//!
//! Few distinct values, or integers in a narrow range, are counted individually. Sums, ranges, quantiles and distinct
//! counts are then computed from the counts. Once there are too many, further values go into separate sums and
//! sketches.

use std::borrow::Cow;
use std::sync::OnceLock;

use arrow_tfrecord::{FeatureBytes, FeatureKind, FeatureValues};
use serde::{Deserialize, Serialize};

use super::counting::{count_each, count_known};
use super::dense::DenseCounts;
use super::distinct::Distinct;
use super::frequent::{Frequent, Value};
use super::hash;
use super::numbers::{BlockMoments, Moments};
use super::quantiles::{Quantiles, Ranks};

/// The maximum length in bytes of a listed frequent value.
const MAX_LISTED_BYTES: usize = 256;

/// Values that are hashed before their hashes are processed.
const BLOCK: usize = 256;

/// Statistics of the values of a feature.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ValueStatistics {
    /// Counts of integers, while all are in a narrow range. All other fields are then empty.
    dense: Option<DenseCounts>,
    /// For values that are not counted individually.
    distinct: Distinct,
    /// `None` for bytes that are not text.
    frequent: Option<Frequent>,
    content: Content,
    #[serde(skip)]
    asked: Asked,
}

/// Figures computed on first use.
#[derive(Debug, Clone, Default)]
struct Asked {
    /// The counts of integers in a narrow range.
    frequent: OnceLock<Frequent>,
    /// The moments of all numbers.
    moments: OnceLock<Moments>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Content {
    Numbers(Box<Numbers>),
    /// For values that are not counted individually.
    Bytes(ByteLengths),
}

/// For values that are not counted individually.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Numbers {
    moments: BlockMoments,
    quantiles: Quantiles,
}

/// Lengths in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct ByteLengths {
    /// The minimum and the maximum.
    pub(super) range: Option<(u64, u64)>,
    pub(super) total: u64,
}

impl ByteLengths {
    #[inline(always)]
    fn add(&mut self, length: usize, count: u64) {
        let length = length as u64;
        self.range = widened(self.range, Some((length, length)));
        self.total += length * count;
    }

    /// Adds the lengths stored in views.
    #[inline(always)]
    fn add_views(&mut self, views: &[u128]) {
        let (mut least, mut greatest, mut total) = (u32::MAX, 0, 0);
        for view in views {
            let length = *view as u32;
            (least, greatest, total) = (least.min(length), greatest.max(length), total + u64::from(length));
        }
        if !views.is_empty() {
            self.merge(&Self { range: Some((least.into(), greatest.into())), total });
        }
    }

    fn add_counted(&mut self, counted: &Frequent) {
        for (value, count) in counted.counted() {
            if let Value::Bytes(value) = value {
                self.add(value.len(), count);
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.range = widened(self.range, other.range);
        self.total += other.total;
    }
}

impl Content {
    fn add_counted(&mut self, counted: &Frequent) {
        match self {
            Self::Numbers(numbers) => {
                numbers.moments.add_counted(counted.counted());
                numbers.quantiles.merge(&Quantiles::of_counted(numbers_counted(counted)));
            }
            Self::Bytes(lengths) => lengths.add_counted(counted),
        }
    }

    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Numbers(numbers), Self::Numbers(other)) => {
                numbers.moments.merge(&other.moments);
                numbers.quantiles.merge(&other.quantiles);
            }
            (Self::Bytes(lengths), Self::Bytes(other)) => lengths.merge(other),
            _ => {}
        }
    }
}

fn numbers_counted(counted: &Frequent) -> impl Iterator<Item = (f64, u64)> {
    counted.counted().filter_map(|(value, count)| Some((value.number()?, count)))
}

/// Adds values. Everything called per value is inlined into this function and its processor-specific versions. So work
/// per value is in loops, not in closures, which would be compiled for the baseline processor only.
#[cfg_attr(target_arch = "x86_64", multiversion::multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt")))]
fn update(statistics: &mut ValueStatistics, values: &FeatureValues<'_>) {
    match values {
        FeatureValues::Int64(values) => statistics.add_ints(values),
        FeatureValues::Float(values) => statistics.add_floats(values),
        FeatureValues::Bytes(values) => statistics.add_bytes(values),
    }
}

impl ValueStatistics {
    /// Creates statistics of no values.
    pub(super) fn new(kind: FeatureKind, is_text: bool) -> Self {
        let content = match kind {
            FeatureKind::Bytes => Content::Bytes(ByteLengths::default()),
            FeatureKind::Float | FeatureKind::Int64 => Content::Numbers(Box::default()),
        };
        let frequent = (kind != FeatureKind::Bytes || is_text).then(Frequent::default);
        let dense = (kind == FeatureKind::Int64).then(DenseCounts::default);
        Self { dense, distinct: Distinct::default(), frequent, content, asked: Asked::default() }
    }

    /// Adds values.
    pub(super) fn update(&mut self, values: &FeatureValues<'_>) {
        self.asked = Asked::default();
        update(self, values);
    }

    #[inline(always)]
    fn add_ints(&mut self, values: &[i64]) {
        let counted = self.count_ints(values);
        let rest = values.get(counted..).unwrap_or_default();
        let (Content::Numbers(numbers), Some(frequent)) = (&mut self.content, &mut self.frequent) else { return };
        if rest.is_empty() {
            return;
        }
        numbers.quantiles.update(rest.len(), |at| rest.get(at).map_or(f64::NAN, |value| *value as f64));
        numbers.moments.add_ints(rest);
        let mut hashes = [0; BLOCK];
        for values in rest.chunks(BLOCK) {
            for (hash, value) in hashes.iter_mut().zip(values) {
                *hash = hash::word(*value as u64);
            }
            self.distinct.add(hashes.get(..values.len()).unwrap_or_default());
        }
        let hash = |at: usize| rest.get(at).map(|value| hash::word(*value as u64));
        frequent.sample(rest.len(), hash, |at| rest.get(at).map(|value| Value::Int64(*value)));
    }

    /// Counts values while they are counted individually.
    #[inline(always)]
    fn count_ints(&mut self, values: &[i64]) -> usize {
        let mut counted = 0;
        if let Some(dense) = &mut self.dense {
            counted = dense.add(values);
            if counted == values.len() {
                return counted;
            }
            self.leave_dense();
        }
        let Some(frequent) = self.frequent.as_mut().filter(|frequent| frequent.counts_all()) else { return counted };
        let rest = values.get(counted..).unwrap_or_default();
        let hash = |at: usize| rest.get(at).map(|value| hash::word(*value as u64));
        let value = |at: usize| rest.get(at).map(|value| Value::Int64(*value));
        counted += count_each(frequent, rest.len(), hash, value, |_, _| {});
        self.stop_counting_if_full();
        counted
    }

    /// Switches from dense counts to counts by hash.
    fn leave_dense(&mut self) {
        if let Some(dense) = self.dense.take()
            && let Some(frequent) = &mut self.frequent
        {
            add_dense(frequent, &dense);
            self.stop_counting_if_full();
        }
    }

    #[inline(always)]
    fn add_floats(&mut self, values: &[f32]) {
        let (Content::Numbers(numbers), Some(frequent)) = (&mut self.content, &mut self.frequent) else { return };
        // Both zeros are one value.
        let number = |at: usize| values.get(at).filter(|value| !value.is_nan()).map(|value| value + 0.0);
        let hash = |at| number(at).map(|value| hash::word(u64::from(value.to_bits())));
        let value = |at| number(at).map(Value::Float);
        let mut counted = 0;
        if frequent.counts_all() {
            let keys =
                values.iter().map(|value| if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() });
            counted = count_known(frequent, keys, hash, value, |_, _| numbers.moments.add_nan());
            self.stop_counting_if_full();
        }
        let (Content::Numbers(numbers), Some(frequent)) = (&mut self.content, &mut self.frequent) else { return };
        let rest = values.get(counted..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        numbers.quantiles.update(rest.len(), |at| rest.get(at).map_or(f64::NAN, |value| f64::from(*value)));
        numbers.moments.add_floats(rest);
        let has_nans = rest.iter().fold(false, |found, value| found | value.is_nan());
        let mut hashes = [0; BLOCK];
        for values in rest.chunks(BLOCK) {
            for (hash, value) in hashes.iter_mut().zip(values) {
                *hash = hash::word(u64::from((value + 0.0).to_bits()));
            }
            match has_nans {
                false => self.distinct.add(hashes.get(..values.len()).unwrap_or_default()),
                true => {
                    let numbers = hashes.iter().zip(values).filter(|(_, value)| !value.is_nan());
                    numbers.for_each(|(hash, _)| self.distinct.add(&[*hash]));
                }
            }
        }
        frequent.sample(rest.len(), |at| hash(counted + at), |at| value(counted + at));
    }

    #[inline(always)]
    fn add_bytes(&mut self, values: &FeatureBytes<'_>) {
        let Content::Bytes(lengths) = &mut self.content else { return };
        let listed = |value: &&[u8]| value.len() <= MAX_LISTED_BYTES;
        let value = |at| values.get(at).filter(listed).map(|value| Value::Bytes(value.into()));
        let views = values.views();
        let hash = |at: usize| match views.as_ref().and_then(|views| views.get(at)) {
            Some(view) => hash::view(*view).or_else(|| values.behind_view(*view).map(hash::bytes)),
            None => values.get(at).map(hash::bytes),
        };
        let mut counted = 0;
        if let Some(frequent) = self.frequent.as_mut().filter(|frequent| frequent.counts_all()) {
            let distinct = &mut self.distinct;
            let other = |at, hash: Option<u64>| {
                distinct.add(hash.as_slice());
                lengths.add(values.get(at).map_or(0, <[u8]>::len), 1);
            };
            counted = match &views {
                Some(views) => count_known(frequent, views.iter().copied(), hash, value, other),
                None => count_each(frequent, values.len(), hash, value, other),
            };
            self.stop_counting_if_full();
        }
        let Content::Bytes(lengths) = &mut self.content else { return };
        let mut hashes = [0; BLOCK];
        match &views {
            Some(views) => {
                let rest = views.get(counted..).unwrap_or_default();
                lengths.add_views(rest);
                for views in rest.chunks(BLOCK) {
                    for (hash, view) in hashes.iter_mut().zip(views) {
                        *hash = match hash::view(*view) {
                            Some(hash) => hash,
                            None => hash::bytes(values.behind_view(*view).unwrap_or_default()),
                        };
                    }
                    self.distinct.add(hashes.get(..views.len()).unwrap_or_default());
                }
            }
            None => {
                for at in counted..values.len() {
                    let value = values.get(at).unwrap_or_default();
                    lengths.add(value.len(), 1);
                    self.distinct.add(&[hash::bytes(value)]);
                }
            }
        }
        if let Some(frequent) = &mut self.frequent {
            frequent.sample(values.len() - counted, |at| hash(counted + at), |at| value(counted + at));
        }
    }

    /// Switches to sketches and sampling if there are too many distinct values.
    fn stop_counting_if_full(&mut self) {
        if let Some(frequent) = self.frequent.as_mut().filter(|frequent| frequent.is_full()) {
            frequent.hashes().for_each(|hash| self.distinct.add(&[hash]));
            self.content.add_counted(frequent);
            frequent.drop_rarest();
        }
    }

    /// The counts of values, while each is counted individually.
    fn counts(&self) -> Option<&Frequent> {
        self.frequent().filter(|frequent| frequent.counts_all())
    }

    /// The number of distinct values, approximate or [exact](Frequent::distinct).
    pub(super) fn distinct(&self) -> u64 {
        let exact = self.frequent().and_then(Frequent::distinct);
        exact.unwrap_or_else(|| self.all_distinct().estimate())
    }

    fn all_distinct(&self) -> Distinct {
        let mut distinct = self.distinct.clone();
        if let Some(counts) = self.counts() {
            counts.hashes().for_each(|hash| distinct.add(&[hash]));
        }
        distinct
    }

    /// The most frequent values. `None` for bytes that are not text.
    pub(super) fn frequent(&self) -> Option<&Frequent> {
        let Some(dense) = &self.dense else { return self.frequent.as_ref() };
        Some(self.asked.frequent.get_or_init(|| {
            let mut frequent = Frequent::default();
            add_dense(&mut frequent, dense);
            frequent
        }))
    }

    /// The moments of numbers.
    pub(super) fn moments(&self) -> Option<&Moments> {
        let Content::Numbers(numbers) = &self.content else { return None };
        Some(self.asked.moments.get_or_init(|| {
            let mut moments = numbers.moments.moments();
            if let Some(counts) = self.counts() {
                moments.add_counted(counts.counted());
            }
            moments
        }))
    }

    /// The ranks of numbers.
    pub(super) fn ranks(&self) -> Option<Ranks> {
        let Content::Numbers(numbers) = &self.content else { return None };
        Some(match self.counts() {
            Some(counts) => Ranks::of_counted(numbers_counted(counts)),
            None => numbers.quantiles.ranks(),
        })
    }

    /// The lengths of byte strings.
    pub(super) fn byte_lengths(&self) -> Option<ByteLengths> {
        let Content::Bytes(mut lengths) = self.content else { return None };
        if let Some(counts) = self.counts() {
            lengths.add_counted(counts);
        }
        Some(lengths)
    }

    /// Merges statistics of other values of the same feature.
    pub(super) fn merge(&mut self, other: &Self) {
        self.asked = Asked::default();
        if let (Some(dense), Some(other)) = (&mut self.dense, &other.dense)
            && dense.merge(other)
        {
            return;
        }
        self.leave_dense();
        let mut other = Cow::Borrowed(other);
        if other.dense.is_some() {
            other.to_mut().leave_dense();
        }
        self.distinct = self.all_distinct();
        self.distinct.merge(&other.all_distinct());
        let (own, others) = (self.counts().cloned(), other.counts());
        if let (Some(frequent), Some(other)) = (&mut self.frequent, &other.frequent) {
            frequent.merge(other);
        }
        self.content.merge(&other.content);
        // If they are too many together, both lose their counts.
        if self.counts().is_none() {
            own.iter().chain(others).for_each(|counts| self.content.add_counted(counts));
        }
    }
}

fn add_dense(frequent: &mut Frequent, dense: &DenseCounts) {
    for (value, count) in dense.iter() {
        frequent.count(hash::word(value as u64), count, || Some(Value::Int64(value)));
    }
}

/// The union of two ranges.
pub(super) fn widened(range: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (range, other) {
        (Some((least, most)), Some((low, high))) => Some((least.min(low), most.max(high))),
        (one, other) => one.or(other),
    }
}
