//! [`StatsReport`]: statistics of features as JSON.

use serde::Serialize;
use tfrecord_sidecars::stats::{FeatureStatistics, Value, Vocabularies};

/// Maximum number of frequent values that are reported.
const MOST_FREQUENT: usize = 10;

/// Statistics of the features of records.
#[derive(Debug, Serialize)]
pub struct StatsReport {
    /// Number of records.
    pub records: u64,
    /// Number of files.
    pub files: u64,
    /// The features.
    pub features: Vec<FeatureReport>,
    /// What is printed for a person.
    pub text: String,
}

/// Statistics of one feature. Figures that it does not have are left out.
#[derive(Debug, Serialize)]
pub struct FeatureReport {
    name: String,
    kind: String,
    is_text: bool,
    is_list: bool,
    present: u64,
    missing: u64,
    total_values: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    least_values: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most_values: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    std_dev: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    median: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zeros: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nans: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    infinities: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    least_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_bytes: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    most_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distinct: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distinct_is_exact: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frequent: Vec<FrequentReport>,
}

/// A frequent value.
#[derive(Debug, Serialize)]
struct FrequentReport {
    value: Number,
    /// The word that a rank represents.
    #[serde(skip_serializing_if = "Option::is_none")]
    word: Option<String>,
    count: u64,
}

/// A number or a text. JSON has no NaN and no infinities: they are the text "NaN", "Infinity" or "-Infinity".
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Number {
    Integer(i64),
    Float(f64),
    Text(String),
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        match value {
            value if value.is_finite() => Self::Float(value),
            value if value.is_nan() => Self::Text("NaN".to_owned()),
            value if value > 0.0 => Self::Text("Infinity".to_owned()),
            _ => Self::Text("-Infinity".to_owned()),
        }
    }
}

impl FeatureReport {
    /// Reports the statistics of a feature.
    pub fn new(feature: &FeatureStatistics, vocabularies: &Vocabularies<'_>) -> Self {
        let integers = feature.integers();
        let number =
            |integer: Option<i64>, float: Option<f64>| integer.map(Number::Integer).or(float.map(Number::from));
        let lengths = feature.byte_lengths();
        let frequent = feature.frequent(MOST_FREQUENT).into_iter().map(|frequent| {
            let text = vocabularies.text(feature, &frequent.value);
            let word = text.strip_prefix(&format!("{}: ", frequent.value)).map(str::to_owned);
            match frequent.value {
                Value::Int64(value) => FrequentReport { value: Number::Integer(value), word, count: frequent.count },
                Value::Float(value) => {
                    FrequentReport { value: f64::from(value).into(), word: None, count: frequent.count }
                }
                Value::Bytes(_) => FrequentReport { value: Number::Text(text), word: None, count: frequent.count },
            }
        });
        Self {
            name: feature.name().to_owned(),
            kind: feature.kind().to_string(),
            is_text: feature.is_text(),
            is_list: feature.is_list(),
            present: feature.present(),
            missing: feature.missing(),
            total_values: feature.total_values(),
            least_values: feature.num_values().map(|(least, _)| least),
            most_values: feature.num_values().map(|(_, most)| most),
            min: number(integers.map(|(min, _)| min), feature.min()),
            max: number(integers.map(|(_, max)| max), feature.max()),
            mean: number(None, feature.mean()),
            std_dev: number(None, feature.std_dev()),
            median: number(None, feature.median()),
            zeros: feature.zeros(),
            nans: feature.nans(),
            infinities: feature.infinities(),
            least_bytes: lengths.map(|(least, ..)| least),
            mean_bytes: number(None, lengths.map(|(_, mean, _)| mean)),
            most_bytes: lengths.map(|(.., most)| most),
            distinct: feature.distinct(),
            distinct_is_exact: feature.distinct().map(|_| feature.is_distinct_exact()),
            frequent: frequent.collect(),
        }
    }
}
