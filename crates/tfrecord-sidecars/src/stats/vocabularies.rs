//! [`Vocabularies`]: the words that ranks represent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use arrow_tfrecord::Mapping;

use super::{FeatureStatistics, Value};
use crate::columns::TableFeature;

/// The vocabularies of features with ranks.
#[derive(Debug, Clone, Default)]
pub struct Vocabularies<'a>(BTreeMap<&'a str, Cow<'a, [String]>>);

impl<'a> Vocabularies<'a> {
    /// The vocabularies of a mapping.
    pub fn new(mapping: &'a Mapping) -> Self {
        let features = TableFeature::all(mapping).into_iter();
        Self(features.filter_map(|feature| Some((feature.name(), feature.into_vocabulary()?))).collect())
    }

    /// A value of a feature as text. A rank is followed by its word: `2: Oslo`.
    pub fn text(&self, feature: &FeatureStatistics, value: &Value) -> String {
        let word = match (value, self.0.get(feature.name())) {
            (Value::Int64(rank), Some(words)) => usize::try_from(*rank).ok().and_then(|rank| words.get(rank)),
            _ => None,
        };
        word.map_or_else(|| value.to_string(), |word| format!("{value}: {word}"))
    }
}
