//! [`Vocabulary`]: the distinct values of a string column that is written as ranks.

use std::collections::{BTreeSet, HashMap};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use tfr_arrow::nested::{elements, item};

use crate::dtype::value_type;
use crate::error::{Error, ErrorKind, Result};

/// Collects the distinct strings of a column, for [`MappingOptions::with_vocabulary`].
///
/// The encoder needs the vocabulary before the first row, so collecting all values takes a separate pass over the rows.
/// Nulls have no rank.
///
/// [`MappingOptions::with_vocabulary`]: crate::MappingOptions::with_vocabulary
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, StringArray};
/// use arrow_tfrecord::{MappingOptions, Vocabulary};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let labels: ArrayRef = Arc::new(StringArray::from(vec![Some("dog"), None, Some("cat"), Some("dog")]));
/// let mut vocabulary = Vocabulary::new(1000);
/// vocabulary.observe(&labels)?;
/// let options = MappingOptions::default().with_vocabulary("label", vocabulary.finish());
/// assert_eq!(options.vocabularies["label"], ["cat", "dog"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Vocabulary {
    values: BTreeSet<String>,
    most: usize,
}

impl Vocabulary {
    /// Creates an empty vocabulary of at most `most` values.
    pub fn new(most: usize) -> Self {
        Self { values: BTreeSet::new(), most }
    }

    /// Adds the values of a column of strings, dictionaries of strings, or lists of either.
    ///
    /// # Errors
    /// Fails on values of another type, or more distinct values than the maximum.
    pub fn observe(&mut self, column: &ArrayRef) -> Result<()> {
        match column.data_type() {
            list if item(list).is_some()
                && let Some(within) = elements(column) =>
            {
                return self.observe(&within.map_err(arrow)?);
            }
            values if value_type(values).is_string() => {}
            other => {
                return Err(ErrorKind::NoStrings { data_type: other.clone() }.into());
            }
        }
        let texts = arrow_cast::cast(column, &DataType::LargeUtf8).map_err(arrow)?;
        for text in texts.as_string::<i64>().iter().flatten() {
            if !self.values.contains(text) {
                if self.values.len() == self.most {
                    let problem = format!("more than {} distinct values for a vocabulary", self.most);
                    return Err(ErrorKind::Refused { problem }.into());
                }
                self.values.insert(text.to_owned());
            }
        }
        Ok(())
    }

    /// Returns the values, sorted by their bytes.
    pub fn finish(self) -> Vec<String> {
        self.values.into_iter().collect()
    }
}

fn arrow(source: arrow_schema::ArrowError) -> Error {
    ErrorKind::Arrow { source }.into()
}

/// The rank of each value of a vocabulary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranks {
    values: Vec<String>,
    ranks: HashMap<Box<[u8]>, i64>,
}

impl Ranks {
    /// Assigns ranks to `values`. Returns a duplicate value as the error.
    pub(crate) fn new(values: &[String]) -> Result<Self, String> {
        let mut ranks = HashMap::with_capacity(values.len());
        for (rank, value) in values.iter().enumerate() {
            if ranks.insert(value.as_bytes().into(), rank as i64).is_some() {
                return Err(value.clone());
            }
        }
        Ok(Self { values: values.to_vec(), ranks })
    }

    pub(crate) fn of(&self, value: &[u8]) -> Option<i64> {
        self.ranks.get(value).copied()
    }

    pub(crate) fn value(&self, rank: i64) -> Option<&str> {
        self.values.get(usize::try_from(rank).ok()?).map(String::as_str)
    }
}
