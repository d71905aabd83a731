//! [`FeatureStatistics`]: the statistics of one feature.

use arrow_tfrecord::{BoundFeature, FeatureKind, FeatureShape, FeatureValues};
use serde::{Deserialize, Serialize};

use super::Detail;
use super::frequent::{Frequent, FrequentValue};
use super::numbers::Moments;
use super::quantiles::{EXACT, Quantiles, Ranks};
use super::values::{ValueStatistics, widened};
use crate::columns::{TableFeature, is_text};
use crate::images::Images;

/// Statistics of one feature.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FeatureStatistics {
    name: String,
    kind: FeatureKind,
    text: bool,
    is_list: bool,
    present: u64,
    missing: u64,
    lengths: Lengths,
    values: Option<ValueStatistics>,
    images: Images,
    labels: Labels,
}

/// Whether the values of a feature are numbers of labels.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Labels {
    /// The number of labels, if they have names.
    named: Option<u64>,
    /// Whether a value is the number of none of them. -1 is no label.
    has_others: bool,
}

/// A bucket of a histogram: values from `low` to `high`, exclusive except in the last bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistogramBucket {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// The approximate number of values.
    pub count: f64,
}

/// Statistics of the numbers of values per record that has the feature.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Lengths {
    /// The minimum and the maximum.
    range: Option<(u64, u64)>,
    total: u64,
    /// Quantiles, for lists only.
    quantiles: Option<Quantiles>,
}

impl FeatureStatistics {
    pub(super) fn new(feature: &TableFeature<'_>, detail: Detail) -> Self {
        let kind = feature.kind();
        // Other types encoded as bytes are text too, except tensors.
        let text = kind == FeatureKind::Bytes && (feature.value_type().is_some_and(is_text) || feature.is_text_form());
        let is_list = feature.feature.shape != FeatureShape::Scalar || feature.feature.is_repeated();
        let values = (detail == Detail::Values).then(|| ValueStatistics::new(kind, text));
        let quantiles = (is_list && detail == Detail::Values).then(Quantiles::default);
        let lengths = Lengths { quantiles, ..Lengths::default() };
        let (name, images) = (feature.name().to_owned(), if text { Images::Other } else { Images::Unseen });
        let named = feature.vocabulary().map(|names| names.len() as u64).filter(|_| kind == FeatureKind::Int64);
        let labels = Labels { named, has_others: false };
        Self { name, kind, text, is_list, present: 0, missing: 0, lengths, values, images, labels }
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
            values.update(&bound.values());
        }
        if let (Some(named), FeatureValues::Int64(values)) = (self.labels.named, bound.values()) {
            let is_label = |value: &i64| *value == -1 || u64::try_from(*value).is_ok_and(|number| number < named);
            self.labels.has_others |= !values.iter().all(is_label);
        }
        if self.kind == FeatureKind::Bytes && self.images != Images::Other {
            self.observe_images(&bound.values());
        }
    }

    /// Adds values until one of them is no image.
    fn observe_images(&mut self, values: &FeatureValues<'_>) {
        let FeatureValues::Bytes(values) = values else { return };
        for value in (0..values.len()).map_while(|position| values.get(position)) {
            self.images.add(value);
            if self.images == Images::Other {
                return;
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.present += other.present;
        self.missing += other.missing;
        self.lengths.merge(&other.lengths);
        self.images.merge(other.images);
        self.labels.has_others |= other.labels.has_others;
        if let (Some(values), Some(other)) = (&mut self.values, &other.values) {
            values.merge(other);
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its values are images.
    pub(crate) fn images(&self) -> Images {
        self.images
    }

    /// Whether it has values that are no numbers of its labels.
    pub(crate) fn has_other_labels(&self) -> bool {
        self.labels.has_others
    }

    /// The kind of its list.
    pub fn kind(&self) -> FeatureKind {
        self.kind
    }

    /// Whether its bytes are text.
    pub fn is_text(&self) -> bool {
        self.text
    }

    /// Whether a record may have more than one value of it.
    pub fn is_list(&self) -> bool {
        self.is_list
    }

    /// The number of records that have it.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// The number of records that lack it or have it without a kind.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// The minimum and maximum number of values per record that has it, if any has.
    pub fn num_values(&self) -> Option<(u64, u64)> {
        self.lengths.range
    }

    /// Number of all values.
    pub fn total_values(&self) -> u64 {
        self.lengths.total
    }

    /// For lists, the numbers of values per record at these ranks from 0 to 1, in rank order.
    pub fn length_quantiles(&self, ranks: &[f64]) -> Vec<f64> {
        self.lengths.quantiles.as_ref().map(|quantiles| quantiles.ranks().at(ranks)).unwrap_or_default()
    }

    /// The number of distinct values except NaN, approximate or [exact](Self::is_distinct_exact).
    pub fn distinct(&self) -> Option<u64> {
        self.values.as_ref().map(ValueStatistics::distinct)
    }

    /// Whether the number of distinct values is exact.
    pub fn is_distinct_exact(&self) -> bool {
        self.listed().is_some_and(|frequent| frequent.distinct().is_some())
    }

    /// The most frequent values in descending order. Counts are exact if [there are few
    /// values](Self::is_distinct_exact). Otherwise they are estimates, and only values that are significantly frequent
    /// are listed. Excludes bytes that are not text, and values of more than 256 bytes.
    pub fn frequent(&self, most: usize) -> Vec<FrequentValue> {
        self.listed().map(|frequent| frequent.top(most)).unwrap_or_default()
    }

    /// All values, sorted, if they are text and [few](super::EXACT_VALUES).
    pub fn words(&self) -> Option<Vec<String>> {
        let frequent = self.listed().filter(|_| self.text)?;
        frequent.distinct()?;
        let mut words: Vec<_> = frequent.top(usize::MAX).into_iter().map(|value| value.value.to_string()).collect();
        words.sort_unstable();
        Some(words)
    }

    /// The mean of the finite numbers.
    pub fn mean(&self) -> Option<f64> {
        self.moments()?.mean()
    }

    /// The population standard deviation of the finite numbers.
    pub fn std_dev(&self) -> Option<f64> {
        self.moments()?.std_dev()
    }

    /// The minimum, including infinities.
    pub fn min(&self) -> Option<f64> {
        self.moments()?.range().map(|(least, _)| least)
    }

    /// The maximum, including infinities.
    pub fn max(&self) -> Option<f64> {
        self.moments()?.range().map(|(_, greatest)| greatest)
    }

    /// The minimum and maximum integer, which float64 cannot represent exactly.
    pub fn integers(&self) -> Option<(i64, i64)> {
        self.moments()?.integers()
    }

    /// Whether medians, quantiles and histograms are exact.
    pub fn are_ranks_exact(&self) -> bool {
        self.is_distinct_exact() || self.total_values() <= EXACT
    }

    /// The median of numbers, approximate or [exact](Self::are_ranks_exact).
    pub fn median(&self) -> Option<f64> {
        self.quantiles(&[0.5]).first().copied()
    }

    /// The numbers at these ranks from 0 to 1, in rank order, approximate or [exact](Self::are_ranks_exact). Empty if
    /// there are no numbers.
    pub fn quantiles(&self, ranks: &[f64]) -> Vec<f64> {
        self.ranks().map(|numbers| numbers.at(ranks)).unwrap_or_default()
    }

    /// A histogram of the finite numbers with this many buckets of equal width, approximate or
    /// [exact](Self::are_ranks_exact).
    pub fn histogram(&self, buckets: usize) -> Vec<HistogramBucket> {
        let (Some(moments), Some(numbers)) = (self.moments(), self.ranks()) else { return Vec::new() };
        let Some((least, greatest)) = moments.finite_range() else { return Vec::new() };
        let total = moments.finite() as f64;
        if least == greatest {
            return vec![HistogramBucket { low: least, high: greatest, count: total }];
        }
        // Halved first, since the width may overflow a float64.
        let edge = |bucket: usize| match bucket {
            0 => least,
            bucket if bucket == buckets => greatest,
            bucket => {
                let share = bucket as f64 / buckets as f64;
                least * (1.0 - share) + greatest * share
            }
        };
        let edges: Vec<f64> = (0..=buckets).map(edge).collect();
        let below = numbers.shares_below(&edges, greatest);
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

    /// The number of zeros.
    pub fn zeros(&self) -> Option<u64> {
        Some(self.moments()?.zeros)
    }

    /// The number of NaNs.
    pub fn nans(&self) -> Option<u64> {
        Some(self.moments()?.nans)
    }

    /// The number of infinities.
    pub fn infinities(&self) -> Option<u64> {
        Some(self.moments()?.infinities)
    }

    /// The minimum, mean and maximum length of a value in bytes.
    pub fn byte_lengths(&self) -> Option<(u64, f64, u64)> {
        let lengths = self.values.as_ref()?.byte_lengths()?;
        let (least, greatest) = lengths.range?;
        Some((least, lengths.total as f64 / self.lengths.total as f64, greatest))
    }

    fn listed(&self) -> Option<&Frequent> {
        self.values.as_ref()?.frequent()
    }

    fn moments(&self) -> Option<&Moments> {
        self.values.as_ref()?.moments()
    }

    fn ranks(&self) -> Option<Ranks> {
        self.values.as_ref()?.ranks()
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
