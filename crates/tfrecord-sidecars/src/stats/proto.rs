//! Statistics as a `DatasetFeatureStatisticsList` of TensorFlow Metadata.

use arrow_tfrecord::FeatureKind;
use prost::Message;
use tfr_proto::tensorflow::metadata::v0::feature_name_statistics::{FieldId, Stats, Type};
use tfr_proto::tensorflow::metadata::v0::histogram::{Bucket, HistogramType};
use tfr_proto::tensorflow::metadata::v0::string_statistics::FreqAndValue;
use tfr_proto::tensorflow::metadata::v0::{
    BytesStatistics, CommonStatistics, DatasetFeatureStatistics, DatasetFeatureStatisticsList, FeatureNameStatistics,
    Histogram, NumericStatistics, Path, RankHistogram, StringStatistics, rank_histogram,
};

use super::{FeatureStatistics, Statistics};

/// The number of histogram buckets and of frequent values: the defaults of TensorFlow Data Validation. Source:
/// `StatsOptions` of `tensorflow_data_validation/statistics/stats_options.py`.
const BUCKETS: usize = 10;
const TOP_VALUES: usize = 20;

impl Statistics {
    /// Returns the content of `stats.pb`: a serialized `DatasetFeatureStatisticsList` of one data set with this name.
    ///
    /// Integers are `INT`, floats `FLOAT`, text `STRING`, other bytes `BYTES`. Every feature has its common statistics,
    /// and further ones only with [`Detail::Values`](super::Detail::Values).
    pub fn to_proto(&self, name: &str) -> Vec<u8> {
        self.message(name).encode_to_vec()
    }

    fn message(&self, name: &str) -> DatasetFeatureStatisticsList {
        let dataset = DatasetFeatureStatistics {
            name: name.to_owned(),
            num_examples: self.rows,
            features: self.features.iter().map(feature).collect(),
            ..DatasetFeatureStatistics::default()
        };
        DatasetFeatureStatisticsList { datasets: vec![dataset] }
    }
}

fn feature(feature: &FeatureStatistics) -> FeatureNameStatistics {
    let (data_type, stats) = match feature.kind() {
        FeatureKind::Int64 => (Type::Int, Stats::NumStats(numeric(feature))),
        FeatureKind::Float => (Type::Float, Stats::NumStats(numeric(feature))),
        FeatureKind::Bytes if feature.is_text() => (Type::String, Stats::StringStats(string(feature))),
        FeatureKind::Bytes => (Type::Bytes, Stats::BytesStats(bytes(feature))),
    };
    FeatureNameStatistics {
        field_id: Some(FieldId::Path(Path { step: vec![feature.name().to_owned()] })),
        r#type: data_type.into(),
        stats: Some(stats),
        ..FeatureNameStatistics::default()
    }
}

fn common(feature: &FeatureStatistics) -> CommonStatistics {
    let (least, most) = feature.num_values().unwrap_or_default();
    let lengths = feature.length_quantiles(&tenths());
    let mean = feature.total_values() as f64 / feature.present().max(1) as f64;
    CommonStatistics {
        num_non_missing: feature.present(),
        num_missing: feature.missing(),
        min_num_values: least,
        max_num_values: most,
        avg_num_values: mean as f32,
        tot_num_values: feature.total_values(),
        num_values_histogram: (!lengths.is_empty()).then(|| quantiles(&lengths, feature.present())),
        ..CommonStatistics::default()
    }
}

fn numeric(feature: &FeatureStatistics) -> NumericStatistics {
    let nans = feature.nans().unwrap_or_default();
    let finite = feature.total_values().saturating_sub(nans + feature.infinities().unwrap_or_default());
    let standard: Vec<Bucket> = feature
        .histogram(BUCKETS)
        .into_iter()
        .map(|bucket| Bucket { low_value: bucket.low, high_value: bucket.high, sample_count: bucket.count })
        .collect();
    let standard = Histogram {
        num_nan: nans,
        num_undefined: 0,
        buckets: standard,
        r#type: HistogramType::Standard.into(),
        name: String::new(),
    };
    let by_rank = feature.quantiles(&tenths());
    let mut histograms = vec![];
    if finite > 0 || nans > 0 {
        histograms.push(standard);
    }
    if !by_rank.is_empty() {
        histograms.push(Histogram { num_nan: nans, ..quantiles(&by_rank, feature.total_values() - nans) });
    }
    NumericStatistics {
        common_stats: Some(common(feature)),
        mean: feature.mean().unwrap_or_default(),
        std_dev: feature.std_dev().unwrap_or_default(),
        num_zeros: feature.zeros().unwrap_or_default(),
        min: feature.min().unwrap_or_default(),
        median: feature.median().unwrap_or_default(),
        max: feature.max().unwrap_or_default(),
        histograms,
        ..NumericStatistics::default()
    }
}

fn string(feature: &FeatureStatistics) -> StringStatistics {
    let top = feature.frequent(TOP_VALUES);
    let buckets = top.iter().zip(0..).map(|(value, rank)| rank_histogram::Bucket {
        low_rank: rank,
        high_rank: rank,
        label: value.value.to_string(),
        sample_count: value.count as f64,
    });
    StringStatistics {
        common_stats: Some(common(feature)),
        unique: feature.distinct().unwrap_or_default(),
        rank_histogram: (!top.is_empty()).then(|| RankHistogram { buckets: buckets.collect(), name: String::new() }),
        top_values: top
            .iter()
            .map(|value| FreqAndValue { value: value.value.to_string(), frequency: value.count as f64 })
            .collect(),
        avg_length: feature.byte_lengths().map_or(0.0, |(_, mean, _)| mean as f32),
        ..StringStatistics::default()
    }
}

fn bytes(feature: &FeatureStatistics) -> BytesStatistics {
    let (least, mean, greatest) = feature.byte_lengths().unwrap_or_default();
    BytesStatistics {
        common_stats: Some(common(feature)),
        unique: feature.distinct().unwrap_or_default(),
        avg_num_bytes: mean as f32,
        min_num_bytes: least as f32,
        max_num_bytes: greatest as f32,
        max_num_bytes_int: i64::try_from(greatest).unwrap_or(i64::MAX),
    }
}

/// The ranks of deciles, including both ends.
fn tenths() -> Vec<f64> {
    (0..=BUCKETS).map(|rank| rank as f64 / BUCKETS as f64).collect()
}

/// A histogram whose buckets have equal numbers of values.
fn quantiles(edges: &[f64], count: u64) -> Histogram {
    let share = count as f64 / BUCKETS as f64;
    let bucket = |edges: &[f64]| match edges {
        [low, high] => Some(Bucket { low_value: *low, high_value: *high, sample_count: share }),
        _ => None,
    };
    Histogram {
        buckets: edges.windows(2).filter_map(bucket).collect(),
        r#type: HistogramType::Quantiles.into(),
        ..Histogram::default()
    }
}
