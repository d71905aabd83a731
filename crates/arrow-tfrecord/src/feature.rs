//! [`FeatureMapping`]: a feature with its kind and shape.

use serde::{Deserialize, Serialize};

/// The three kinds of list that a `tf.train.Feature` can contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureKind {
    /// `bytes_list`
    Bytes,
    /// `float_list`, of 32 bits
    Float,
    /// `int64_list`
    Int64,
}

impl FeatureKind {
    /// Returns the type of the values in TensorFlow, in Python.
    pub fn dtype(self) -> &'static str {
        match self {
            Self::Bytes => "tf.string",
            Self::Float => "tf.float32",
            Self::Int64 => "tf.int64",
        }
    }
}

/// The number of values that a feature has in one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureShape {
    /// One.
    Scalar,
    /// Any number.
    List,
    /// This many.
    Fixed(usize),
}

/// The role of a feature in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FeatureRole {
    /// The column's own values.
    #[default]
    Values,
    /// Lengths of the lists of one level, in row order.
    RowLengths,
    /// A null mask: 1 for a null, otherwise 0.
    Mask,
    /// The column's own values, each a whole record.
    Record,
}

impl FeatureRole {
    fn is_values(&self) -> bool {
        *self == Self::Values
    }
}

/// One feature of the records.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct FeatureMapping {
    /// Its name.
    pub name: String,
    /// The kind of its list.
    pub kind: FeatureKind,
    /// The number of its values.
    pub shape: FeatureShape,
    /// The role of its values.
    #[serde(skip_serializing_if = "FeatureRole::is_values")]
    pub role: FeatureRole,
    /// Whether it is a feature list. The shape is then that of each step.
    #[serde(skip_serializing_if = "is_false")]
    pub in_steps: bool,
    /// Whether it is a feature of each example in a list of examples. The shape is then that of each example.
    #[serde(skip_serializing_if = "is_false")]
    pub in_examples: bool,
}

/// Where a feature is in a record. The order is that of an encoder's features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FeaturePlace {
    /// In the features of the record or of its context.
    Record,
    /// In each of the examples.
    Items,
    /// In the feature lists.
    Steps,
}

impl FeatureMapping {
    pub(crate) fn place(&self) -> FeaturePlace {
        match (self.in_steps, self.in_examples) {
            (true, _) => FeaturePlace::Steps,
            (_, true) => FeaturePlace::Items,
            _ => FeaturePlace::Record,
        }
    }

    /// Whether a record can have the feature more than once: in each step of a feature list or in each example.
    pub fn is_repeated(&self) -> bool {
        self.place() != FeaturePlace::Record
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
