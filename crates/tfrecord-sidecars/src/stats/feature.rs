//! [`FeatureStatistics`]: what one feature holds.

use arrow_tfrecord::{BoundFeature, FeatureBytes, FeatureKind, FeatureShape, FeatureValues};

use super::Detail;
use super::counting::{count_each, count_known, count_narrow};
use super::distinct::Distinct;
use super::frequent::{Frequent, FrequentValue, Value};
use super::hash;
use super::numbers::Moments;
use super::quantiles::Quantiles;
use crate::columns::{TableFeature, is_text};

/// Values that are longer, in bytes, are not listed among the frequent ones.
const MAX_LISTED_BYTES: usize = 256;

/// Statistics of one feature.
#[derive(Debug, Clone)]
pub struct FeatureStatistics {
    name: String,
    kind: FeatureKind,
    text: bool,
    is_list: bool,
    present: u64,
    missing: u64,
    lengths: Lengths,
    values: Option<ValueStatistics>,
}

/// A bucket of a histogram: values from `low`, and up to `high`, which belongs to the last bucket only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramBucket {
    /// Where it begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// How many values are in it, about.
    pub count: f64,
}

/// Numbers of values of the records that have the feature.
#[derive(Debug, Clone, Default)]
struct Lengths {
    /// The least and the most.
    range: Option<(u64, u64)>,
    total: u64,
    /// Of lists.
    quantiles: Option<Quantiles>,
}

#[derive(Debug, Clone)]
struct ValueStatistics {
    distinct: Distinct,
    /// Not of bytes that are no text.
    frequent: Option<Frequent>,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Numbers(Box<Numbers>),
    Bytes(ByteLengths),
}

#[derive(Debug, Clone, Default)]
struct Numbers {
    moments: Moments,
    quantiles: Quantiles,
}

#[derive(Debug, Clone, Copy, Default)]
struct ByteLengths {
    /// The least and the greatest.
    range: Option<(u64, u64)>,
    total: u64,
}

impl FeatureStatistics {
    pub(super) fn new(feature: &TableFeature<'_>, detail: Detail) -> Self {
        let kind = feature.kind();
        // What another form chosen writes as bytes is text too, but for tensors.
        let text = kind == FeatureKind::Bytes && (feature.value_type().is_some_and(is_text) || feature.is_text_form());
        let is_list = feature.feature.shape != FeatureShape::Scalar || feature.feature.in_steps;
        let values = (detail == Detail::Values).then(|| ValueStatistics {
            distinct: Distinct::default(),
            frequent: (kind != FeatureKind::Bytes || text).then(Frequent::default),
            content: match kind {
                FeatureKind::Bytes => Content::Bytes(ByteLengths::default()),
                FeatureKind::Float | FeatureKind::Int64 => Content::Numbers(Box::default()),
            },
        });
        let quantiles = (is_list && detail == Detail::Values).then(Quantiles::default);
        let lengths = Lengths { quantiles, ..Lengths::default() };
        Self { name: feature.name().to_owned(), kind, text, is_list, present: 0, missing: 0, lengths, values }
    }

    pub(super) fn update(&mut self, bound: &BoundFeature<'_>) {
        let present = match bound.single_values() {
            Some(present) => {
                self.lengths.add_ones(present as u64);
                present
            }
            None => {
                let lengths = bound.lengths().into_iter().flatten().flatten();
                let lengths: Vec<u64> = lengths.map(|length| length as u64).collect();
                self.lengths.add(&lengths);
                lengths.len()
            }
        };
        self.present += present as u64;
        self.missing += (bound.num_rows() - present) as u64;
        if let Some(values) = &mut self.values {
            add_values(values, &bound.values());
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.present += other.present;
        self.missing += other.missing;
        self.lengths.merge(&other.lengths);
        if let (Some(values), Some(other)) = (&mut self.values, &other.values) {
            values.merge(other);
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of its list.
    pub fn kind(&self) -> FeatureKind {
        self.kind
    }

    /// Whether its bytes are text.
    pub fn is_text(&self) -> bool {
        self.text
    }

    /// Whether a record may have any number of values of it, or more than one.
    pub fn is_list(&self) -> bool {
        self.is_list
    }

    /// Records that have it.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// Records that do not have it, or without a kind.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The least and the greatest number of values of a record that has it, if one has.
    pub fn num_values(&self) -> Option<(u64, u64)> {
        self.lengths.range
    }

    /// Number of all values.
    pub fn total_values(&self) -> u64 {
        self.lengths.total
    }

    /// The numbers of values of records at these ranks from 0 to 1, in rank order, of a list.
    pub fn length_quantiles(&self, ranks: &[f64]) -> Vec<f64> {
        self.lengths.quantiles.as_ref().map(|quantiles| quantiles.at(ranks)).unwrap_or_default()
    }

    /// How many distinct values there are, about or [exactly](Self::is_distinct_exact). NaNs are none.
    pub fn distinct(&self) -> Option<u64> {
        let values = self.values.as_ref()?;
        let exact = values.frequent.as_ref().and_then(Frequent::distinct);
        Some(exact.unwrap_or_else(|| values.all_distinct().estimate()))
    }

    /// Whether the number of distinct values is exact.
    pub fn is_distinct_exact(&self) -> bool {
        let frequent = self.values.as_ref().and_then(|values| values.frequent.as_ref());
        frequent.is_some_and(|frequent| frequent.distinct().is_some())
    }

    /// The most frequent values, the most frequent first: counted exactly if [there are few](Self::is_distinct_exact),
    /// else estimated, and only those that are certainly more frequent than chance. None of bytes that are no text, nor
    /// of values of more than 256 bytes.
    pub fn frequent(&self, most: usize) -> Vec<FrequentValue> {
        let frequent = self.values.as_ref().and_then(|values| values.frequent.as_ref());
        frequent.map(|frequent| frequent.top(most)).unwrap_or_default()
    }

    /// All values, if they are text and [few](super::EXACT_VALUES), sorted.
    pub fn words(&self) -> Option<Vec<String>> {
        let frequent = self.values.as_ref()?.frequent.as_ref().filter(|_| self.text)?;
        frequent.distinct()?;
        let mut words: Vec<_> = frequent.top(usize::MAX).into_iter().map(|value| value.value.to_string()).collect();
        words.sort_unstable();
        Some(words)
    }

    /// The mean of finite numbers.
    pub fn mean(&self) -> Option<f64> {
        self.numbers()?.moments.mean()
    }

    /// The standard deviation of finite numbers, of the set and not of a sample.
    pub fn std_dev(&self) -> Option<f64> {
        self.numbers()?.moments.std_dev()
    }

    /// The least number, infinities included.
    pub fn min(&self) -> Option<f64> {
        self.numbers()?.moments.range().map(|(least, _)| least)
    }

    /// The greatest number, infinities included.
    pub fn max(&self) -> Option<f64> {
        self.numbers()?.moments.range().map(|(_, greatest)| greatest)
    }

    /// The least and the greatest integer: float64 does not hold them all.
    pub fn integers(&self) -> Option<(i64, i64)> {
        self.numbers()?.moments.integers()
    }

    /// The median of numbers, about.
    pub fn median(&self) -> Option<f64> {
        self.quantiles(&[0.5]).first().copied()
    }

    /// The numbers at these ranks from 0 to 1, in rank order, about. None if there are no numbers.
    pub fn quantiles(&self, ranks: &[f64]) -> Vec<f64> {
        self.numbers().map(|numbers| numbers.quantiles.at(ranks)).unwrap_or_default()
    }

    /// The finite numbers in as many buckets of one width, about.
    pub fn histogram(&self, buckets: usize) -> Vec<HistogramBucket> {
        let Some(numbers) = self.numbers() else { return Vec::new() };
        let Some((least, greatest)) = numbers.moments.finite_range() else { return Vec::new() };
        let total = numbers.moments.finite() as f64;
        if least == greatest {
            return vec![HistogramBucket { low: least, high: greatest, count: total }];
        }
        // Halved first, for the width may be beyond what a float64 holds.
        let edge = |bucket: usize| match bucket {
            0 => least,
            bucket if bucket == buckets => greatest,
            bucket => {
                let share = bucket as f64 / buckets as f64;
                least * (1.0 - share) + greatest * share
            }
        };
        let edges: Vec<f64> = (0..=buckets).map(edge).collect();
        let below = numbers.quantiles.shares_below(&edges, greatest);
        edges
            .windows(2)
            .zip(below.windows(2))
            .filter_map(|(edges, below)| match (edges, below) {
                ([low, high], [before, after]) => {
                    Some(HistogramBucket { low: *low, high: *high, count: (after - before) * total })
                }
                _ => None,
            })
            .collect()
    }

    /// How many numbers are zero.
    pub fn zeros(&self) -> Option<u64> {
        Some(self.numbers()?.moments.zeros)
    }

    /// How many numbers are NaN.
    pub fn nans(&self) -> Option<u64> {
        Some(self.numbers()?.moments.nans)
    }

    /// How many numbers are infinite.
    pub fn infinities(&self) -> Option<u64> {
        Some(self.numbers()?.moments.infinities)
    }

    /// The least, the mean and the greatest length of a value in bytes.
    pub fn byte_lengths(&self) -> Option<(u64, f64, u64)> {
        let Content::Bytes(lengths) = &self.values.as_ref()?.content else { return None };
        let (least, greatest) = lengths.range?;
        Some((least, lengths.total as f64 / self.lengths.total as f64, greatest))
    }

    fn numbers(&self) -> Option<&Numbers> {
        match &self.values.as_ref()?.content {
            Content::Numbers(numbers) => Some(numbers),
            Content::Bytes(_) => None,
        }
    }
}

fn widened(range: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (range, other) {
        (Some((least, most)), Some((low, high))) => Some((least.min(low), most.max(high))),
        (one, other) => one.or(other),
    }
}

impl Lengths {
    fn add_ones(&mut self, rows: u64) {
        if rows > 0 {
            self.range = widened(self.range, Some((1, 1)));
        }
        self.total += rows;
        if let Some(quantiles) = &mut self.quantiles {
            quantiles.update(usize::try_from(rows).unwrap_or(usize::MAX), |_| 1.0);
        }
    }

    fn add(&mut self, lengths: &[u64]) {
        let range = lengths.iter().min().copied().zip(lengths.iter().max().copied());
        self.range = widened(self.range, range);
        self.total += lengths.iter().sum::<u64>();
        if let Some(quantiles) = &mut self.quantiles {
            quantiles.update(lengths.len(), |row| lengths.get(row).map_or(f64::NAN, |length| *length as f64));
        }
    }

    fn merge(&mut self, other: &Self) {
        self.range = widened(self.range, other.range);
        self.total += other.total;
        if let (Some(quantiles), Some(other)) = (&mut self.quantiles, &other.quantiles) {
            quantiles.merge(other);
        }
    }
}

impl ByteLengths {
    fn add(&mut self, lengths: impl Iterator<Item = u64>) {
        let (mut least, mut greatest, mut total) = (u64::MAX, 0, 0);
        for length in lengths {
            (least, greatest, total) = (least.min(length), greatest.max(length), total + length);
        }
        if least <= greatest {
            self.range = widened(self.range, Some((least, greatest)));
        }
        self.total += total;
    }

    /// The same for lengths that views have in front.
    #[inline(always)]
    fn add_views(&mut self, views: &[u128]) {
        let (mut least, mut greatest, mut total) = (u32::MAX, 0, 0);
        for length in views.iter().map(|view| *view as u32) {
            (least, greatest, total) = (least.min(length), greatest.max(length), total + u64::from(length));
        }
        if !views.is_empty() {
            self.range = widened(self.range, Some((least.into(), greatest.into())));
        }
        self.total += total;
    }
}

/// Adds values. Everything called for each of them is compiled into this function, for the processors of today too.
#[cfg_attr(target_arch = "x86_64", multiversion::multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt")))]
fn add_values(statistics: &mut ValueStatistics, values: &FeatureValues<'_>) {
    match values {
        FeatureValues::Int64(values) => statistics.add_ints(values),
        FeatureValues::Float(values) => statistics.add_floats(values),
        FeatureValues::Bytes(values) => statistics.add_bytes(values),
    }
}

impl ValueStatistics {
    #[inline(always)]
    fn add_ints(&mut self, values: &[i64]) {
        let Content::Numbers(numbers) = &mut self.content else { return };
        let range = numbers.moments.add_ints(values);
        numbers.quantiles.update(values.len(), |at| values.get(at).map_or(f64::NAN, |value| *value as f64));
        let hash = |at: usize| values.get(at).map(|value| hash::word(*value as u64));
        let value = |at: usize| values.get(at).map(|value| Value::Int64(*value));
        if let Some(frequent) = &mut self.frequent
            && let Some((least, counts)) = count_narrow(values, range)
        {
            let counted = (least..=i64::MAX).zip(&counts).filter(|(_, count)| **count > 0);
            if !frequent.counts_all() {
                counted.for_each(|(value, _)| self.distinct.add(hash::word(value as u64)));
                frequent.sample(values.len(), hash, value);
                return;
            }
            let unseen = counted.clone().filter(|(value, _)| !frequent.has(hash::word(*value as u64))).count();
            if frequent.has_room(unseen) {
                for (value, count) in counted {
                    frequent.count(hash::word(value as u64), u64::from(*count), || Some(Value::Int64(value)));
                }
                return;
            }
        }
        count_each(&mut self.distinct, self.frequent.as_mut(), 0..values.len(), hash, value);
    }

    #[inline(always)]
    fn add_floats(&mut self, values: &[f32]) {
        let Content::Numbers(numbers) = &mut self.content else { return };
        numbers.moments.add_floats(values);
        numbers.quantiles.update(values.len(), |at| values.get(at).map_or(f64::NAN, |value| f64::from(*value)));
        // Both zeros are one value.
        let number = |at: usize| values.get(at).filter(|value| !value.is_nan()).map(|value| value + 0.0);
        let hash = |at| number(at).map(|value| hash::word(u64::from(value.to_bits())));
        let value = |at| number(at).map(Value::Float);
        let keys = values.iter().map(|value| if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() });
        let counted = match &mut self.frequent {
            Some(frequent) => count_known(&mut self.distinct, frequent, keys, hash, value),
            None => 0,
        };
        count_each(&mut self.distinct, self.frequent.as_mut(), counted..values.len(), hash, value);
    }

    #[inline(always)]
    fn add_bytes(&mut self, values: &FeatureBytes<'_>) {
        let Content::Bytes(lengths) = &mut self.content else { return };
        let listed = |value: &&[u8]| value.len() <= MAX_LISTED_BYTES;
        let value = |at| values.get(at).filter(listed).map(|value| Value::Bytes(value.into()));
        let Some(views) = values.views() else {
            lengths.add(values.iter().map(|value| value.len() as u64));
            let hash = |at| values.get(at).map(hash::bytes);
            count_each(&mut self.distinct, self.frequent.as_mut(), 0..values.len(), hash, value);
            return;
        };
        lengths.add_views(&views);
        let hash = |at: usize| {
            let view = *views.get(at)?;
            hash::view(view).or_else(|| values.behind_view(view).map(hash::bytes))
        };
        let counted = match &mut self.frequent {
            Some(frequent) => count_known(&mut self.distinct, frequent, views.iter().copied(), hash, value),
            None => 0,
        };
        count_each(&mut self.distinct, self.frequent.as_mut(), counted..views.len(), hash, value);
    }

    /// The sketch of all values, those included that are counted.
    fn all_distinct(&self) -> Distinct {
        let mut distinct = self.distinct.clone();
        if let Some(frequent) = self.frequent.as_ref().filter(|frequent| frequent.counts_all()) {
            frequent.hashes().for_each(|hash| distinct.add(hash));
        }
        distinct
    }

    fn merge(&mut self, other: &Self) {
        self.distinct = self.all_distinct();
        self.distinct.merge(&other.all_distinct());
        if let (Some(frequent), Some(other)) = (&mut self.frequent, &other.frequent) {
            frequent.merge(other);
        }
        match (&mut self.content, &other.content) {
            (Content::Numbers(numbers), Content::Numbers(other)) => {
                numbers.moments.merge(&other.moments);
                numbers.quantiles.merge(&other.quantiles);
            }
            (Content::Bytes(lengths), Content::Bytes(other)) => {
                lengths.range = widened(lengths.range, other.range);
                lengths.total += other.total;
            }
            _ => {}
        }
    }
}
