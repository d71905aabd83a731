//! [`Statistics`]: statistics of the features of a data set, computed in one pass over the rows as they are written or
//! read.
//!
//! | figure | |
//! |---|---|
//! | records with and without the feature; values per record: minimum, maximum, mean | exact |
//! | numbers: minimum, maximum, mean, standard deviation, zeros, NaNs, infinities | exact, except for the rounding of float64 |
//! | bytes: minimum, maximum and mean length | exact |
//! | distinct values, most frequent values | exact for integers that are all within [`EXACT_RANGE`] of each other, and up to [`EXACT_VALUES`] distinct values, then estimated: the number within 4 % (three standard errors of HyperLogLog), frequencies from one value in 32, and from fewer if there are more than half a million |
//! | median, quantiles, histograms | exact if the row above is, and up to about a thousand values, then within 1 % by rank (KLL) |
//!
//! Mean and deviation are computed from finite numbers; NaNs are counted separately. Equal rows in equal parts give
//! identical statistics, independent of batch boundaries. Estimates, and the last digits of means and deviations, may
//! depend on how rows are assigned to the parts that are merged.
//!
//! They are written as [`stats.pb`](Statistics::to_proto) for TensorFlow Data Validation, and as an [HTML
//! page](Statistics::to_html) for people.

mod counting;
mod dense;
mod distinct;
mod feature;
mod frequent;
mod hash;
mod html;
mod numbers;
mod proto;
mod quantiles;
mod values;
mod vocabularies;

use arrow_array::RecordBatch;
use arrow_tfrecord::{BoundBatch, Encoder, Mapping};
use serde::{Deserialize, Serialize};

use crate::columns::{Presence, TableFeature};
use crate::error::{ErrorKind, Result};

pub use dense::EXACT_RANGE;
pub use feature::{FeatureStatistics, HistogramBucket};
pub use frequent::{EXACT_VALUES, FrequentValue, Value};
pub use vocabularies::Vocabularies;

/// The name of the statistics next to shards. Readers of a directory skip names that start with `_`.
pub const STATS_NAME: &str = "_stats.pb";

/// The name of the page next to shards.
pub const PAGE_NAME: &str = "_stats.html";

/// The detail of statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Detail {
    /// The presence and number of values of features: sufficient to describe a data set, at almost no cost.
    Presence,
    /// Statistics of the values as well.
    #[default]
    Values,
}

/// Statistics of the features of a data set.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use arrow_tfrecord::{Encoder, Mapping, MappingOptions};
/// use tfrecord_sidecars::stats::{Detail, Statistics};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ages: ArrayRef = Arc::new(Int64Array::from(vec![Some(30), None, Some(40), Some(0)]));
/// let batch = RecordBatch::try_from_iter([("age", ages)])?;
/// let mapping = Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default())?);
///
/// let mut first = Statistics::new(&mapping, Detail::Values);
/// first.update(&Encoder::new(Arc::clone(&mapping)).bind(&batch)?);
/// let mut both = first.clone();
/// both.merge(&first)?;
/// let age = both.feature("age").ok_or("no such feature")?;
/// assert_eq!((both.rows(), age.missing(), age.zeros(), age.distinct()), (8, 2, Some(2), Some(3)));
/// assert_eq!(age.median(), Some(30.0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Statistics {
    rows: u64,
    detail: Detail,
    features: Vec<FeatureStatistics>,
}

impl Statistics {
    /// Creates empty statistics of the features of `mapping`.
    pub fn new(mapping: &Mapping, detail: Detail) -> Self {
        let mut features: Vec<_> = TableFeature::all(mapping)
            .iter()
            .map(|feature| (feature.feature.is_repeated(), FeatureStatistics::new(feature, detail)))
            .collect();
        // The order of features in a bound batch.
        features.sort_by(|(one, first), (other, second)| (one, first.name()).cmp(&(other, second.name())));
        Self { rows: 0, detail, features: features.into_iter().map(|(_, feature)| feature).collect() }
    }

    /// Adds the rows of a batch that was bound with the mapping of these statistics.
    pub fn update(&mut self, batch: &BoundBatch<'_>) {
        self.rows += batch.num_rows() as u64;
        for (feature, bound) in self.features.iter_mut().zip(batch.features()) {
            feature.update(&bound);
        }
    }

    /// Binds a batch, and adds its rows.
    ///
    /// # Errors
    /// Those of [`Encoder::bind`].
    pub fn update_batch(&mut self, encoder: &Encoder, batch: &RecordBatch) -> Result<()> {
        self.update(&encoder.bind(batch)?);
        Ok(())
    }

    /// Merges statistics of other rows of the same table.
    ///
    /// # Errors
    /// Fails if the features differ.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let features = |statistics: &Self| {
            statistics.features.iter().map(|feature| (feature.name().to_owned(), feature.kind())).collect::<Vec<_>>()
        };
        if self.detail != other.detail || features(self) != features(other) {
            let problem = "statistics of different features cannot be merged".to_owned();
            return Err(ErrorKind::Refused { problem }.into());
        }
        self.rows += other.rows;
        for (feature, other) in self.features.iter_mut().zip(&other.features) {
            feature.merge(other);
        }
        Ok(())
    }

    /// Returns everything as bytes, for [`from_bytes`](Self::from_bytes) of the same release in another process.
    ///
    /// # Errors
    /// Never for statistics that were made here.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(postcard::to_stdvec(self).map_err(ErrorKind::StoredStatistics)?)
    }

    /// Reads statistics. They behave exactly as those that were written.
    ///
    /// # Errors
    /// If these are not the bytes of statistics.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(postcard::from_bytes(bytes).map_err(ErrorKind::StoredStatistics)?)
    }

    /// Number of records.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The features, sorted by name, with feature lists and the features of examples last.
    pub fn features(&self) -> &[FeatureStatistics] {
        &self.features
    }

    /// The feature with this name.
    pub fn feature(&self, name: &str) -> Option<&FeatureStatistics> {
        self.features.iter().find(|feature| feature.name() == name)
    }
}

/// Every feature of a table in the order of columns, with its presence by statistics.
pub(crate) fn observed_features<'a>(mapping: &'a Mapping, statistics: Option<&Statistics>) -> Vec<TableFeature<'a>> {
    let statistics = statistics.filter(|statistics| statistics.rows > 0);
    let observed = |feature: &TableFeature<'_>| {
        let known = statistics?.feature(feature.name())?;
        let least = known.num_values().map_or(0, |(least, _)| least);
        let has_other_labels = known.has_other_labels();
        Some(Presence { missing: known.missing(), least, images: known.images(), has_other_labels })
    };
    let features = TableFeature::all(mapping).into_iter();
    features
        .map(|feature| {
            let observed = observed(&feature);
            feature.with_observed(observed)
        })
        .collect()
}

#[cfg(test)]
mod tests;
