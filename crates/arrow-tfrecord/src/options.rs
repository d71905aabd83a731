//! What a user can choose about the mapping: [`MappingOptions`] and the words in it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What one record of the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RecordType {
    /// A serialized `tf.train.Example`.
    #[default]
    Example,
}

impl fmt::Display for RecordType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Example => f.write_str("example"),
        }
    }
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

/// What a null becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum NullPolicy {
    /// The feature is left out of the record. Of the three wire states a missing value can have, this is the one that
    /// the most readers accept.
    #[default]
    Absent,
    /// A null is an error that names the column and the row.
    Error,
}

words!(NullPolicy, "null policy", Absent => "absent", Error => "error");

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
    /// give the same float again.
    String,
    /// `Float64` as a serialized `TensorProto` of dtype `DT_DOUBLE` in a bytes feature, for `tf.io.parse_tensor`.
    Tensor,
    /// A decimal as its unscaled integer in an int64.
    Unscaled,
    /// A date or time in whole seconds.
    Seconds,
    /// A date or time in whole milliseconds.
    Millis,
    /// A date or time in whole microseconds.
    Micros,
}

words!(
    Choice, "choice",
    Wrap => "wrap", Bits => "bits", String => "string", Tensor => "tensor", Unscaled => "unscaled",
    Seconds => "seconds", Millis => "millis", Micros => "micros",
);

/// How a schema becomes features, where the defaults are not what is wanted.
///
/// ```
/// use arrow_tfrecord::{Choice, MappingOptions};
///
/// let options = MappingOptions::default().with_choice("price", Choice::String).with_strict(true);
/// assert_eq!(options.choices["price"], Choice::String);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MappingOptions {
    /// What one record is.
    pub record_type: RecordType,
    /// What a null becomes, in every column.
    pub nulls: NullPolicy,
    /// Another form for some columns, by column name.
    pub choices: BTreeMap<String, Choice>,
    /// Refuse columns that would be [narrowed](crate::LossClass::Narrowed).
    pub strict: bool,
}

impl MappingOptions {
    /// Sets what a null becomes.
    #[must_use]
    pub fn with_nulls(mut self, nulls: NullPolicy) -> Self {
        self.nulls = nulls;
        self
    }

    /// Chooses another form for `column`.
    #[must_use]
    pub fn with_choice(mut self, column: impl Into<String>, choice: Choice) -> Self {
        self.choices.insert(column.into(), choice);
        self
    }

    /// Sets whether columns that would lose information are refused.
    #[must_use]
    pub fn with_strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }
}
