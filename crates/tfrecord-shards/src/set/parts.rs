//! [`MissingParts`]: the gaps among files whose names record how many there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Files that are missing, as the names of the others record: with `part-00003-of-00016.tfrecord` go fifteen others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingParts {
    /// The names of all of them: `part-*-of-00016.tfrecord`.
    pub pattern: String,
    /// Number of files that exist.
    pub found: usize,
    /// Number of files that the names record.
    pub expected: usize,
    /// The number of the first that is missing.
    pub first: usize,
}

impl MissingParts {
    /// Returns the gaps among the files at these paths. Files of different directories, prefixes or suffixes belong to
    /// different sets.
    ///
    /// ```
    /// use tfrecord_shards::MissingParts;
    ///
    /// let names = ["a/part-00000-of-00003.tfrecord", "a/part-00002-of-00003.tfrecord", "a/val-00000-of-00001"];
    /// let missing: Vec<_> = MissingParts::among(names).iter().map(ToString::to_string).collect();
    /// assert_eq!(missing, ["only 2 of the 3 files a/part-*-of-00003.tfrecord exist: number 1 is missing"]);
    /// ```
    pub fn among<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<Self> {
        let mut sets: BTreeMap<(String, usize), BTreeSet<usize>> = BTreeMap::new();
        for path in paths {
            if let Some((pattern, index, total)) = numbered(path) {
                sets.entry((pattern, total)).or_default().insert(index);
            }
        }
        let missing = sets.into_iter().filter_map(|((pattern, expected), found)| {
            let first = (0..expected).find(|index| !found.contains(index))?;
            Some(Self { pattern, found: found.len(), expected, first })
        });
        missing.collect()
    }
}

impl fmt::Display for MissingParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, found, expected, first } = self;
        write!(f, "only {found} of the {expected} files {pattern} exist: number {first} is missing")
    }
}

/// Returns the pattern of a file's name, its number, and how many such files there are.
fn numbered(path: &str) -> Option<(String, usize, usize)> {
    /// Names of a set have at least so many digits.
    const DIGITS: usize = 5;
    let name = path.rsplit('/').next().unwrap_or(path);
    let directory = path.strip_suffix(name)?;
    let (before, after) = name.rsplit_once("-of-")?;
    let (prefix, index) = before.rsplit_once('-')?;
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let (total, suffix) = after.split_at_checked(end)?;
    let is_number = |text: &str| text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(index) || !is_number(total) || !(suffix.is_empty() || suffix.starts_with('.')) {
        return None;
    }
    let (number, count) = (index.parse().ok()?, total.parse().ok()?);
    (number < count).then(|| (format!("{directory}{prefix}-*-of-{total}{suffix}"), number, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_in_each_set() {
        let whole = ["x-00000-of-00002.tfrecord", "x-00001-of-00002.tfrecord", "x-00007-of-00002.tfrecord"];
        assert_eq!(MissingParts::among(whole), []);
        let names = ["d/name-train.tfrecord-00001-of-00002", "e/name-train.tfrecord-00000-of-00002", "part-00000"];
        let missing = MissingParts::among(names);
        assert_eq!(missing.len(), 2);
        assert_eq!(missing[0].pattern, "d/name-train.tfrecord-*-of-00002");
        assert_eq!((missing[0].found, missing[0].expected, missing[0].first), (1, 2, 0));
        for other in ["a-1-of-3.tfrecord", "a-00001-of-00003x", "2-of-00003", "a-00000-of-00000.tfrecord"] {
            assert_eq!(MissingParts::among([other]), [], "{other}");
        }
    }
}
