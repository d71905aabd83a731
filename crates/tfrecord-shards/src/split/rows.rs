//! [`RowSplits`]: splits of exact numbers of rows, which are cut from shuffled rows.

use std::fmt;
use std::str::FromStr;

use super::{ParseSplitsError, check_name};

/// Suffix of a number of rows.
const ROWS: &str = "rows";

/// The size of the split that gets all other rows.
const REST: &str = "rest";

/// The names of splits and their exact numbers of rows: `train=800rows,val=200rows`. One split may have the rest of the
/// rows: `train=rest,val=200rows`.
///
/// The splits are consecutive parts of shuffled rows, in their order. So the split of a row depends on the other rows,
/// unlike with [`Splits`](crate::Splits), and equal rows may be in two splits.
///
/// ```
/// use tfrecord_shards::RowSplits;
///
/// let splits: RowSplits = "train=rest,val=200rows".parse()?;
/// assert_eq!(splits.sizes(1000)?, [800, 200]);
/// assert!(splits.sizes(200).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSplits(Vec<RowSplit>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct RowSplit {
    name: String,
    /// `None` for the rest.
    rows: Option<u64>,
}

impl RowSplits {
    /// Whether a text means numbers of rows, and not fractions.
    pub fn are_meant(text: &str) -> bool {
        text.split(',').filter_map(|split| split.split_once('=')).any(|(_, size)| parse_size(size).is_some())
    }

    /// Returns the names of the splits, in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        self.0.iter().map(|split| split.name.as_str())
    }

    /// Returns the number of rows of each split, of `rows` in total.
    ///
    /// # Errors
    /// The numbers do not add up to `rows`, or none are left for the split that has the rest.
    pub fn sizes(&self, rows: u64) -> Result<Vec<u64>, RowSplitsError> {
        let given = self.0.iter().filter_map(|split| split.rows).fold(0, u64::saturating_add);
        let has_rest = self.0.iter().any(|split| split.rows.is_none());
        let fits = if has_rest { given < rows } else { given == rows };
        if !fits {
            return Err(RowSplitsError { splits: self.to_string(), given, has_rest, found: rows });
        }
        Ok(self.0.iter().map(|split| split.rows.unwrap_or(rows - given)).collect())
    }
}

impl fmt::Display for RowSplits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, RowSplit { name, rows }) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match rows {
                Some(rows) => write!(f, "{comma}{name}={rows}{ROWS}")?,
                None => write!(f, "{comma}{name}={REST}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for RowSplits {
    type Err = ParseSplitsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut splits: Vec<RowSplit> = Vec::new();
        for split in text.split(',') {
            let (name, size) = split.split_once('=').ok_or_else(|| ParseSplitsError::syntax(split))?;
            let name = name.trim().to_owned();
            check_name(&name)?;
            if splits.iter().any(|split| split.name.to_lowercase() == name.to_lowercase()) {
                return Err(ParseSplitsError::twice(&name));
            }
            let rows = match parse_size(size) {
                Some(Some(0)) | None => {
                    return Err(ParseSplitsError(format!(
                        "split {name:?}: found {:?}, expected a number of rows such as 800rows, or rest for all others",
                        size.trim()
                    )));
                }
                Some(rows) => rows,
            };
            if rows.is_none() && splits.iter().any(|split| split.rows.is_none()) {
                let problem = format!("split {name:?} is the second that has the rest of the rows");
                return Err(ParseSplitsError(problem));
            }
            splits.push(RowSplit { name, rows });
        }
        Ok(Self(splits))
    }
}

/// Parses `800rows` or `rest`, which is `Some(None)`.
fn parse_size(text: &str) -> Option<Option<u64>> {
    match text.trim() {
        REST => Some(None),
        text => text.strip_suffix(ROWS)?.trim_end().parse().ok().map(Some),
    }
}

/// The number of rows does not fit [`RowSplits`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("splits {splits}: expected {}{given} rows, found {found}", if *has_rest { "more than " } else { "" })]
pub struct RowSplitsError {
    /// The splits.
    pub splits: String,
    /// The rows of all splits, without the one that has the rest.
    pub given: u64,
    /// Whether a split has the rest.
    pub has_rest: bool,
    /// The number of rows found.
    pub found: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<RowSplits>().expect_err("not valid").to_string()
    }

    #[test]
    fn row_splits_have_exact_sizes() -> Result<(), Box<dyn std::error::Error>> {
        let splits: RowSplits = "train=800 rows, test=200rows".parse()?;
        assert_eq!(splits.to_string(), "train=800rows,test=200rows");
        assert_eq!(splits.sizes(1000)?, [800, 200]);
        assert_eq!(
            splits.sizes(999).map_err(|error| error.to_string()),
            Err("splits train=800rows,test=200rows: expected 1000 rows, found 999".to_owned())
        );
        let rest: RowSplits = "a=1rows,b=rest,c=2rows".parse()?;
        assert_eq!(rest.sizes(4)?, [1, 1, 2]);
        assert!(rest.sizes(3).expect_err("none is left").to_string().ends_with("expected more than 3 rows, found 3"));
        assert!(
            RowSplits::are_meant("a=0.5,b=3rows") && RowSplits::are_meant("a=rest") && !RowSplits::are_meant("a=1")
        );
        Ok(())
    }

    #[test]
    fn row_splits_reject_other_sizes_and_names() {
        assert_eq!(
            refused("train=0.9,test=200rows"),
            "split \"train\": found \"0.9\", expected a number of rows such as 800rows, or rest for all others"
        );
        assert!(refused("a=0rows").contains("found \"0rows\""));
        assert_eq!(refused("a=rest,b=rest"), "split \"b\" is the second that has the rest of the rows");
        assert_eq!(refused("a=1rows,A=2rows"), "split \"A\" is named twice");
        assert!(refused("a-b=1rows").contains("expected a name"));
    }
}
