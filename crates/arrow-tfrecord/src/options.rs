//! What a user can choose about the mapping: [`MappingOptions`] and the words in it.

mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use rule::{ColumnRule, NullRule};

/// What one record of the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RecordType {
    /// A serialized `tf.train.Example`.
    #[default]
    Example,
    /// A serialized `tf.train.SequenceExample`. Lists of lists, lists of structs, and the lists named in
    /// [`MappingOptions::sequences`] are feature lists, with a feature for each of their elements; other columns are the
    /// context.
    SequenceExample,
    /// The value of the one column there is, a string or binary.
    Bytes,
}

/// A word that is not one of an option's values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {option} {found:?}: expected {expected}")]
pub struct ParseOptionError {
    option: &'static str,
    found: String,
    expected: String,
}

/// An option whose values are words: one table serves parsing, printing and serde.
macro_rules! words {
    ($name:ident, $option:literal, $($variant:ident => $word:literal),+ $(,)?) => {
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
                    $($word => Ok(Self::$variant),)+
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

words!(
    RecordType, "record type",
    Example => "example", SequenceExample => "sequence-example", Bytes => "bytes",
);

/// What a null becomes: the null of a column, or of a field of a struct that stands in no list, and a null inside a
/// list, for which a feature has no form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum NullPolicy {
    /// The feature is left out of the record. Of the three wire states a missing value can have, this is the one that
    /// the most readers accept. A null inside a list is an error.
    #[default]
    Absent,
    /// The feature stands in the record without a kind. A null inside a list is an error, but for a step of a feature
    /// list, which is a feature like any other; a feature list has no such form, and is left out.
    Unset,
    /// The feature stands in the record with a list of no values. A null list inside a list becomes empty too; any
    /// other null inside a list is an error.
    Empty,
    /// A null is an error that names the column and the row.
    Error,
    /// As `absent`, and features named `is_null` say, with a 1 for each null, where nulls are: one for every level of
    /// the type that may hold nulls. A null inside a list has a value of no meaning: 0, no bytes, an empty list.
    Mask,
    /// As `absent`; and nulls that are elements of a list are left out of the list.
    Drop,
}

words!(
    NullPolicy, "null policy",
    Absent => "absent", Unset => "unset", Empty => "empty", Error => "error", Mask => "mask", Drop => "drop",
);

/// Another form for a column than the one its type has by default. Which types take which choice is told by
/// [`Mapping::try_new`](crate::Mapping::try_new) when it refuses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Choice {
    /// `UInt64` as its two's complement in an int64, as TensorFlow Datasets does.
    Wrap,
    /// `Float64` as the 64 bits of its IEEE 754 form in an int64.
    Bits,
    /// The value as text in a bytes feature: exact decimal digits, ISO 8601 dates and times, the shortest digits that
    /// give the same float again. Times are local ones of their zone with its offset, or where that has seconds, as
    /// offsets of long ago do, in UTC.
    String,
    /// `Float64`, or all of a list, of lists of one length, or of a tensor, as a serialized `TensorProto` in a bytes
    /// feature, for `tf.io.parse_tensor`.
    Tensor,
    /// A decimal as its unscaled integer in an int64.
    Unscaled,
    /// A date or time in whole seconds.
    Seconds,
    /// A date or time in whole milliseconds.
    Millis,
    /// A date or time in whole microseconds.
    Micros,
    /// A string, or a dictionary of them, as its rank in a vocabulary, from 0.
    Index,
}

words!(
    Choice, "choice",
    Wrap => "wrap", Bits => "bits", String => "string", Tensor => "tensor", Unscaled => "unscaled",
    Seconds => "seconds", Millis => "millis", Micros => "micros",
    Index => "index",
);

/// How a schema becomes features, where the defaults are not what is wanted.
///
/// Columns are named as in the schema; a part of a nested column by the name that its feature has: `point/x` for a
/// field, `scores/value` for the values of a map. What is said of a column holds for all of its parts, unless
/// something else is said of a part. A null is written by the rule of the part that is null, whatever is said of the
/// parts in it.
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
    /// What one record is.
    pub record_type: RecordType,
    /// What a null becomes, in every column of which nothing else is said.
    pub nulls: NullPolicy,
    /// What a null becomes in some columns.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub column_nulls: BTreeMap<String, NullRule>,
    /// Another form for some columns.
    pub choices: BTreeMap<String, Choice>,
    /// The values of columns whose choice is [`Index`](Choice::Index), by rank.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub vocabularies: BTreeMap<String, Vec<String>>,
    /// Lists of which every element is a step of a feature list, where records are of
    /// [that type](RecordType::SequenceExample).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub sequences: BTreeSet<String>,
    /// What stands between the name of a column and the name of its part.
    #[serde(skip_serializing_if = "is_default_separator")]
    pub separator: String,
    /// Refuse columns that would be [narrowed](crate::LossClass::Narrowed).
    pub strict: bool,
}

/// That of TensorFlow Datasets.
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
            separator: DEFAULT_SEPARATOR.to_owned(),
            strict: false,
        }
    }
}

impl MappingOptions {
    /// Sets what one record is.
    #[must_use]
    pub fn with_record_type(mut self, record_type: RecordType) -> Self {
        self.record_type = record_type;
        self
    }

    /// Makes every element of the list `column` a step of a feature list.
    #[must_use]
    pub fn with_sequence(mut self, column: impl Into<String>) -> Self {
        self.sequences.insert(column.into());
        self
    }

    /// Sets what a null becomes.
    #[must_use]
    pub fn with_nulls(mut self, nulls: NullPolicy) -> Self {
        self.nulls = nulls;
        self
    }

    /// Sets what a null becomes in `column`.
    #[must_use]
    pub fn with_column_nulls(mut self, column: impl Into<String>, nulls: impl Into<NullRule>) -> Self {
        self.column_nulls.insert(column.into(), nulls.into());
        self
    }

    /// Chooses another form for `column`.
    #[must_use]
    pub fn with_choice(mut self, column: impl Into<String>, choice: Choice) -> Self {
        self.choices.insert(column.into(), choice);
        self
    }

    /// Chooses the rank in this vocabulary for `column`. See [`Vocabulary`](crate::Vocabulary) for one of all values.
    #[must_use]
    pub fn with_vocabulary(mut self, column: impl Into<String>, values: Vec<String>) -> Self {
        let column = column.into();
        self.vocabularies.insert(column.clone(), values);
        self.with_choice(column, Choice::Index)
    }

    /// Sets everything that `rule` says of `column`.
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

    /// Sets what stands between the name of a column and the name of its part: `/` unless something else is set.
    #[must_use]
    pub fn with_separator(mut self, separator: impl Into<String>) -> Self {
        self.separator = separator.into();
        self
    }

    /// Sets whether columns that would lose information are refused.
    #[must_use]
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}
