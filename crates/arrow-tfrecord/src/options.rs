//! Options of the mapping: [`MappingOptions`] and the enums it contains.

mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use rule::{ColumnRule, NullRule};

/// The message type of a record. Parsing accepts the names of spark-tfrecord, too.
///
/// ```
/// use arrow_tfrecord::RecordType;
///
/// assert_eq!("sequence-example".parse(), Ok(RecordType::SequenceExample));
/// assert_eq!("SequenceExample".parse(), Ok(RecordType::SequenceExample));
/// assert_eq!("ByteArray".parse(), Ok(RecordType::Bytes));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RecordType {
    /// A serialized `tf.train.Example`.
    #[default]
    Example,
    /// A serialized `tf.train.SequenceExample`. Lists of lists, lists of structs, and the lists named in
    /// [`MappingOptions::sequences`] become feature lists, with one feature per element. Other columns become the
    /// context.
    SequenceExample,
    /// The raw value of the single column, a string or binary.
    Bytes,
    /// A serialized `tensorflow.serving.ExampleListWithContext`, the ELWC format of TensorFlow Ranking. The elements of
    /// a list of structs become the examples. Other columns become the context.
    #[serde(rename = "elwc")]
    ExampleListWithContext,
}

/// The error for a string that is not a valid value of an option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {option} {found:?}: expected {expected}")]
pub struct ParseOptionError {
    option: &'static str,
    found: String,
    expected: String,
}

/// Implements `ALL`, `Display` and `FromStr` for an option enum from one table. `FromStr` accepts aliases too.
macro_rules! words {
    ($name:ident, $option:literal, $($variant:ident => $word:literal $(| $alias:literal)*),+ $(,)?) => {
        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $word),+ })
            }
        }

        impl FromStr for $name {
            type Err = ParseOptionError;

            fn from_str(word: &str) -> Result<Self, ParseOptionError> {
                match word {
                    $($word $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err(ParseOptionError {
                        option: $option,
                        found: word.to_owned(),
                        expected: [$($word),+].join(", "),
                    }),
                }
            }
        }
    };
}

// The aliases are the record types of spark-tfrecord, and the name of the message.
words!(
    RecordType, "record type",
    Example => "example" | "Example",
    SequenceExample => "sequence-example" | "SequenceExample",
    Bytes => "bytes" | "ByteArray",
    ExampleListWithContext => "elwc" | "ExampleListWithContext",
);

/// How nulls are written: nulls of a column or of a struct field outside lists, and nulls inside lists, which a feature
/// cannot represent directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum NullPolicy {
    /// Omits the feature from the record. Of the three wire states of a missing value, most readers accept this one. A
    /// null inside a list is an error.
    #[default]
    Absent,
    /// Writes the feature without a kind. A null inside a list is an error, except for a step of a feature list, which
    /// is a feature itself. A feature list has no such state and is omitted.
    Unset,
    /// Writes the feature with an empty list. A null list inside a list becomes empty too. Any other null inside a list
    /// is an error.
    Empty,
    /// Rejects nulls with an error that names the column and the row.
    Error,
    /// As `absent`, and adds `is_null` features with a 1 for each null: one feature for every nullable level of the
    /// type. A null inside a list is written as a placeholder: 0, no bytes, or an empty list.
    Mask,
    /// As `absent`, and removes null elements from lists.
    Drop,
}

words!(
    NullPolicy, "null policy",
    Absent => "absent", Unset => "unset", Empty => "empty", Error => "error", Mask => "mask", Drop => "drop",
);

/// An encoding of a column that differs from its type's default. [`Mapping::try_new`](crate::Mapping::try_new) rejects
/// a choice that does not fit the type, and lists those that do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Choice {
    /// `UInt64` as its two's complement in an int64, as TensorFlow Datasets does.
    Wrap,
    /// `Float64` as its 64 IEEE 754 bits in an int64.
    Bits,
    /// The value as text in a bytes feature: exact decimal digits, ISO 8601 dates and times, the shortest digits that
    /// parse to the same float. Timestamps with a zone are local times with their offset. Offsets with seconds, as in
    /// historical zones, are written in UTC instead.
    String,
    /// A `Float64`, a whole list, lists of equal length, or a tensor, as a serialized `TensorProto` in a bytes feature,
    /// for `tf.io.parse_tensor`.
    Tensor,
    /// A decimal as its unscaled integer in an int64.
    Unscaled,
    /// A date or time in whole seconds.
    Seconds,
    /// A date or time in whole milliseconds.
    Millis,
    /// A date or time in whole microseconds.
    Micros,
    /// A string or a dictionary of strings as its zero-based rank in a vocabulary.
    Index,
}

words!(
    Choice, "choice",
    Wrap => "wrap", Bits => "bits", String => "string", Tensor => "tensor", Unscaled => "unscaled",
    Seconds => "seconds", Millis => "millis", Micros => "micros",
    Index => "index",
);

/// Overrides of the default mapping from a schema to features.
///
/// Columns are named as in the schema. A part of a nested column has the name of its feature: `point/x` for a field,
/// `scores/value` for the values of a map. A setting of a column applies to all of its parts that have no setting of
/// their own. A null is written by the rule of the part that is null, regardless of the rules of its children.
///
/// ```
/// use arrow_tfrecord::{Choice, ColumnRule, MappingOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = MappingOptions::default().with_choice("price", Choice::String).with_strict(true);
/// assert_eq!(options.choices["price"], Choice::String);
///
/// let rule: ColumnRule = "bits, null=mask".parse()?;
/// let options = options.with_rule("point/x", rule);
/// assert_eq!(options.choices["point/x"], Choice::Bits);
/// assert_eq!(options.column_nulls["point/x"].to_string(), "mask");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MappingOptions {
    /// The message type of a record.
    pub record_type: RecordType,
    /// How nulls are written in columns without a rule of their own.
    pub nulls: NullPolicy,
    /// How nulls are written, by column.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub column_nulls: BTreeMap<String, NullRule>,
    /// Encodings other than the default, by column.
    pub choices: BTreeMap<String, Choice>,
    /// The values of columns whose choice is [`Index`](Choice::Index), by rank.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vocabularies: BTreeMap<String, Vec<String>>,
    /// Lists whose elements become the steps of a feature list. Requires [`RecordType::SequenceExample`]. In records of
    /// type [`RecordType::ExampleListWithContext`], the list of structs whose elements become the examples; it must be
    /// named only if there are several.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub sequences: BTreeSet<String>,
    /// Lists of lists whose features have the names of TensorFlow Transform: `c$ragged_values`, `c$row_lengths_1`, `_2`
    /// and so on.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub transform_ragged: BTreeSet<String>,
    /// The separator between the name of a column and the name of its part.
    #[serde(skip_serializing_if = "is_default_separator")]
    pub separator: String,
    /// Reject columns that would be [narrowed](crate::LossClass::Narrowed).
    pub strict: bool,
}

/// The separator of TensorFlow Datasets.
const DEFAULT_SEPARATOR: &str = "/";

fn is_default_separator(separator: &str) -> bool {
    separator == DEFAULT_SEPARATOR
}

impl Default for MappingOptions {
    fn default() -> Self {
        Self {
            record_type: RecordType::default(),
            nulls: NullPolicy::default(),
            column_nulls: BTreeMap::new(),
            choices: BTreeMap::new(),
            vocabularies: BTreeMap::new(),
            sequences: BTreeSet::new(),
            transform_ragged: BTreeSet::new(),
            separator: DEFAULT_SEPARATOR.to_owned(),
            strict: false,
        }
    }
}

impl MappingOptions {
    /// Sets the message type of a record.
    #[must_use]
    pub fn with_record_type(mut self, record_type: RecordType) -> Self {
        self.record_type = record_type;
        self
    }

    /// Makes every element of the list `column` a step of a feature list, or an example in a list of examples.
    #[must_use]
    pub fn with_sequence(mut self, column: impl Into<String>) -> Self {
        self.sequences.insert(column.into());
        self
    }

    /// Sets how nulls are written.
    #[must_use]
    pub fn with_nulls(mut self, nulls: NullPolicy) -> Self {
        self.nulls = nulls;
        self
    }

    /// Sets how nulls are written in `column`.
    #[must_use]
    pub fn with_column_nulls(mut self, column: impl Into<String>, nulls: impl Into<NullRule>) -> Self {
        self.column_nulls.insert(column.into(), nulls.into());
        self
    }

    /// Sets the encoding of `column`.
    #[must_use]
    pub fn with_choice(mut self, column: impl Into<String>, choice: Choice) -> Self {
        self.choices.insert(column.into(), choice);
        self
    }

    /// Encodes `column` as ranks in this vocabulary. [`Vocabulary`](crate::Vocabulary) collects one from all values.
    #[must_use]
    pub fn with_vocabulary(mut self, column: impl Into<String>, values: Vec<String>) -> Self {
        let column = column.into();
        self.vocabularies.insert(column.clone(), values);
        self.with_choice(column, Choice::Index)
    }

    /// Applies every setting of `rule` to `column`.
    #[must_use]
    pub fn with_rule(mut self, column: impl Into<String>, rule: ColumnRule) -> Self {
        let column = column.into();
        if let Some(choice) = rule.choice {
            self.choices.insert(column.clone(), choice);
        }
        if let Some(nulls) = rule.nulls {
            self.column_nulls.insert(column, nulls);
        }
        self
    }

    /// Sets the separator between the name of a column and the name of its part. The default is `/`.
    #[must_use]
    pub fn with_separator(mut self, separator: impl Into<String>) -> Self {
        self.separator = separator.into();
        self
    }

    /// Sets whether columns that would lose information are rejected.
    #[must_use]
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}
