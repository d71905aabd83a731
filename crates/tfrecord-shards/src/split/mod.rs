//! Splits by hash: assigns rows to splits such as training and validation.
//!
//! A row's split depends only on its key: not on other rows, their number or order, nor on a seed. So no key is in two
//! splits, and adding rows does not change the split of existing rows.
//!
//! The *key hash* of a row is
//!
//! ```text
//! XXH3-64(encoding of the first key column, of the second, ...; seed 0x74667273706c6974, the letters "tfrsplit")
//! ```
//!
//! The encoding of a value is a letter and the bytes given below. Lengths and counts are 8 bytes, little-endian.
//!
//! | value | encoding |
//! |---|---|
//! | null of any type | `n` |
//! | boolean | `f` or `t` |
//! | integer of any width, decimal of any precision and scale | `d`, length, the number in decimal digits: `-7`, `1.5`; no plus sign, no leading zeros but one before a decimal point, no trailing zeros in the fraction, no decimal point without a fraction; zero has no sign |
//! | float of any width | `e`, the 8 bytes of the double, little-endian; -0.0 as 0.0, every NaN as `7ff8000000000000` |
//! | text, bytes | `b`, length, the bytes (UTF-8 for text) |
//! | date | `D`, length, the days since 1970-01-01 in decimal digits |
//! | time of day | `h`, length, the nanoseconds since midnight in decimal digits |
//! | timestamp, with a time zone or without | `T`, length, the nanoseconds since 1970-01-01 00:00:00 in decimal digits |
//! | duration | `u`, length, the nanoseconds in decimal digits |
//! | list of any kind | `l`, number of elements, each of them |
//! | struct | `r`, number of fields, each of them in order; names are ignored |
//!
//! Dictionaries and run-end encoded arrays are encoded as their values. So equal values have equal hashes in any
//! encoding, and `1` equals `1.00`. An integer never equals a float, nor a number its text. In Python:
//!
//! ```python
//! import struct, xxhash
//!
//! SEED = int.from_bytes(b"tfrsplit", "big")
//!
//! def encode(value):
//!     if value is None:
//!         return b"n"
//!     if isinstance(value, int):
//!         text = str(value).encode()
//!         return b"d" + struct.pack("<Q", len(text)) + text
//!     if isinstance(value, str):
//!         text = value.encode()
//!         return b"b" + struct.pack("<Q", len(text)) + text
//!
//! def split_of(key, splits={"train": 0.9, "val": 0.1}):
//!     hash = xxhash.xxh3_64_intdigest(b"".join(map(encode, key)), SEED)
//!     end = 0.0
//!     for name, fraction in splits.items():
//!         end += fraction
//!         if hash < int(end * 2**64):
//!             return name
//!     return name
//!
//! assert split_of([4707]) == "val"
//! ```
//!
//! Without a key, the payload of the whole record is the key, as one column of bytes. Equal records are in the same
//! split, and any change to a record may change its split.

mod key;
mod rows;

use std::fmt;
use std::str::FromStr;

pub use key::{KeyTypeError, check_key_type, key_hashes, record_hash};
pub use rows::{RowSplits, RowSplitsError};

/// The names of splits and their fractions of keys: `train=0.9,val=0.1`.
///
/// The hashes below the first fraction of 2^64 belong to the first split, and so on. Dividing a split in place does not
/// change the split of other keys: `train` of `train=0.9,val=0.05,test=0.05` is the same as of `train=0.9,val=0.1`.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array};
/// use tfrecord_shards::{Splits, key_hashes};
///
/// let splits: Splits = "train=0.9,val=0.1".parse()?;
/// let users: ArrayRef = Arc::new(Int64Array::from(vec![4711, 4707, 4711]));
/// let names: Vec<_> = key_hashes(&[users])?.into_iter().map(|hash| splits.name(splits.of(hash))).collect();
/// assert_eq!(names, [Some("train"), Some("val"), Some("train")]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Splits(Vec<Split>);

/// One of [`Splits`].
#[derive(Debug, Clone, PartialEq)]
struct Split {
    name: String,
    fraction: f64,
    /// Exclusive end of the split's hashes; the last split has no end.
    end: u64,
}

/// 2^64, as a float.
const HASHES: f64 = 18_446_744_073_709_551_616.0;

/// Tolerance for the sum of fractions: enough for three thirds with nine digits.
const TOLERANCE: f64 = 1e-8;

/// Longest name of a split in bytes. A shard's name adds some 30 bytes, and file systems allow 255.
const LONGEST_NAME: usize = 64;

impl Splits {
    /// Creates splits of these names and fractions.
    ///
    /// # Errors
    /// If there are no splits, a name is not a valid prefix of file names or is used twice, a fraction is not above 0,
    /// or the fractions do not add up to 1.
    pub fn try_new<N: Into<String>>(splits: impl IntoIterator<Item = (N, f64)>) -> Result<Self, ParseSplitsError> {
        let mut sum = 0.0;
        let mut all: Vec<Split> = Vec::new();
        for (name, fraction) in splits {
            let name = name.into();
            check_name(&name)?;
            if all.iter().any(|split| split.name.to_lowercase() == name.to_lowercase()) {
                return Err(ParseSplitsError::twice(&name));
            }
            if !(fraction > 0.0 && fraction.is_finite()) {
                return Err(ParseSplitsError::fraction(&name, &fraction.to_string()));
            }
            sum += fraction;
            // Casts of floats saturate.
            all.push(Split { name, fraction, end: (sum * HASHES) as u64 });
        }
        match all.is_empty() {
            true => Err(ParseSplitsError::syntax("")),
            false if (sum - 1.0).abs() > TOLERANCE => {
                let rows = if sum >= 2.0 { "; numbers of rows are written train=800rows,val=200rows" } else { "" };
                Err(ParseSplitsError(format!("the fractions of the splits add up to {sum}, expected 1{rows}")))
            }
            false => Ok(Self(all)),
        }
    }

    /// Returns the number of the split of a hash: of a key, see [`key_hashes`], or of a record, see [`record_hash`].
    pub fn of(&self, hash: u64) -> usize {
        let before = self.0.len().saturating_sub(1);
        self.0.iter().take(before).position(|split| hash < split.end).unwrap_or(before)
    }

    /// Returns the number of splits, at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the name of a split.
    pub fn name(&self, split: usize) -> Option<&str> {
        self.0.get(split).map(|split| split.name.as_str())
    }

    /// Returns the number of the split of this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|split| split.name == name)
    }

    /// Iterates over names and fractions, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, f64)> + '_ {
        self.0.iter().map(|split| (split.name.as_str(), split.fraction))
    }
}

/// A split's name is the prefix of its shards' names, `train-00000-of-00016.tfrecord`, and readers select shards by it.
/// A dash is not allowed, so that `train-*` finds only one split. Hidden files start with a dot or an underscore.
fn check_name(name: &str) -> Result<(), ParseSplitsError> {
    let fits = name.len() <= LONGEST_NAME
        && name.starts_with(char::is_alphanumeric)
        && name.chars().all(|char| char.is_alphanumeric() || char == '_');
    let problem = || {
        format!(
            "split {name:?}: expected a name of up to {LONGEST_NAME} bytes: letters, digits and underscores, with a letter or a \
             digit first"
        )
    };
    if fits { Ok(()) } else { Err(ParseSplitsError(problem())) }
}

/// Checks the name of a split: up to 64 bytes of letters, digits and underscores, with a letter or a digit first.
///
/// # Errors
/// The name cannot be the beginning of a shard's name.
pub fn check_split_name(name: &str) -> Result<(), ParseSplitsError> {
    check_name(name)
}

impl fmt::Display for Splits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, fraction)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}={fraction}")?;
        }
        Ok(())
    }
}

impl FromStr for Splits {
    type Err = ParseSplitsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let splits = text.split(',').map(|split| {
            let (name, fraction) = split.split_once('=').ok_or_else(|| ParseSplitsError::syntax(split))?;
            let (name, fraction) = (name.trim().to_owned(), fraction.trim());
            match fraction.parse::<f64>() {
                Ok(fraction) => Ok((name, fraction)),
                Err(_) => Err(ParseSplitsError::fraction(&name, fraction)),
            }
        });
        Self::try_new(splits.collect::<Result<Vec<_>, _>>()?)
    }
}

/// Text that does not specify valid [`Splits`] or [`RowSplits`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseSplitsError(String);

impl ParseSplitsError {
    fn syntax(found: &str) -> Self {
        Self(format!("found {:?}, expected NAME=FRACTION, such as train=0.9", found.trim()))
    }

    fn twice(name: &str) -> Self {
        Self(format!("split {name:?} is named twice"))
    }

    fn fraction(name: &str, found: &str) -> Self {
        Self(format!("split {name:?}: found {found:?}, expected a fraction above 0 and up to 1"))
    }
}

#[cfg(test)]
mod tests;
