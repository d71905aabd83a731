//! The names of a set's files: [`ShardName`], [`ObjectNames`], [`RunId`], and the fixed ones.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tfrecord_framing::Compression;
use uuid::Uuid;

use crate::set::SUCCESS_NAME;
use crate::set::group::ShardPlace;

/// Digits of the numbers in a name, by the convention of TensorFlow's own data sets; larger numbers have more.
const DIGITS: usize = 5;

/// The name of a shard: `part-00003-of-00016.tfrecord.gz`.
///
/// Names of a set sort in the order of the shards.
///
/// ```
/// use tfrecord_framing::Compression;
/// use tfrecord_shards::ShardName;
///
/// let name = ShardName { prefix: "train".to_owned(), index: 3, total: 16, compression: Compression::Gzip };
/// assert_eq!(name.to_string(), "train-00003-of-00016.tfrecord.gz");
/// assert_eq!("train-00003-of-00016.tfrecord.gz".parse(), Ok(name));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardName {
    /// What it starts with: `part`, or the name of a split.
    pub prefix: String,
    /// Which shard it is, from 0.
    pub index: usize,
    /// How many the set has.
    pub total: usize,
    /// How it is compressed.
    pub compression: Compression,
}

impl fmt::Display for ShardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, index, total, compression } = self;
        // As many digits for the index as for the total, so that names sort in the order of the shards.
        let digits = DIGITS.max(total.checked_ilog10().unwrap_or(0) as usize + 1);
        write!(f, "{prefix}-{index:0digits$}-of-{total:0digits$}.tfrecord{}", compression.suffix())
    }
}

/// The names of shards where a name is final before the number of shards is known: in an object store, which renames
/// nothing.
///
/// Shards of a number that was asked for have their usual names. Others are called after the write partition that makes
/// them and their place among its shards; the manifest tells how many there are. In the place of another set, the run is
/// part of the prefix, so that old and new can lie beside each other. Names of a set sort in the order of the shards.
///
/// ```
/// use tfrecord_framing::Compression;
/// use tfrecord_shards::ObjectNames;
///
/// let names = ObjectNames { prefix: "part".to_owned(), total: Some(16), compression: Compression::None, run: None };
/// assert_eq!(names.name(0, 3), "part-00003-of-00016.tfrecord");
/// let names = ObjectNames { total: None, run: Some("nightly7".parse()?), ..names };
/// assert_eq!(names.name(2, 3), "part-nightly7-00002-00003.tfrecord");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectNames {
    /// What they start with: `part`, or the name of a split.
    pub prefix: String,
    /// How many shards there are, if that is known. Their sequence numbers count over all write partitions then.
    pub total: Option<usize>,
    /// How they are compressed.
    pub compression: Compression,
    /// The run, if it is to be told.
    pub run: Option<RunId>,
}

impl ObjectNames {
    /// The name of shard `sequence` of write partition `partition`.
    pub fn name(&self, partition: u32, sequence: u32) -> String {
        let prefix = self.tagged(&self.prefix);
        match self.total {
            Some(total) => {
                ShardName { prefix, index: sequence as usize, total, compression: self.compression }.to_string()
            }
            None => format!("{prefix}-{partition:0DIGITS$}-{sequence:0DIGITS$}.tfrecord{}", self.compression.suffix()),
        }
    }

    /// The path of a shard, of which it is known where it stands in the set, from the set's directory.
    ///
    /// ```
    /// use tfrecord_framing::Compression;
    /// use tfrecord_shards::{ObjectNames, ShardGroup, ShardPlace};
    ///
    /// let names = ObjectNames { prefix: "part".to_owned(), total: None, compression: Compression::None, run: None };
    /// let values = vec![("dt".to_owned(), Some("2026-01-01".to_owned()))];
    /// let group = ShardGroup { partition_values: values, split: Some("train".to_owned()) };
    /// let place = ShardPlace { group: &group, index: 3, total: 16 };
    /// assert_eq!(names.path(place), "dt=2026-01-01/train-00003-of-00016.tfrecord");
    /// ```
    pub fn path(&self, place: ShardPlace<'_>) -> String {
        let ShardPlace { group, index, total } = place;
        let prefix = self.tagged(group.prefix(&self.prefix));
        group.path(&ShardName { prefix, index, total, compression: self.compression }.to_string())
    }

    fn tagged(&self, prefix: &str) -> String {
        match &self.run {
            Some(run) => format!("{prefix}-{run}"),
            None => prefix.to_owned(),
        }
    }

    /// Whether a file, by its path, has a name of ours that tells a run.
    pub(crate) fn tells_run(path: &str) -> bool {
        run_told(path).is_some_and(RunId::is_generated)
    }
}

/// What stands where the name of a shard, or of its index, by its path, would tell a run.
pub(crate) fn run_told(path: &str) -> Option<&str> {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let name = name.strip_suffix(".idx").unwrap_or(name);
    let stem = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zlib")).unwrap_or(name);
    let (rest, last) = stem.strip_suffix(".tfrecord")?.rsplit_once('-')?;
    let (rest, first) = rest.strip_suffix("-of").unwrap_or(rest).rsplit_once('-')?;
    let (_, run) = rest.rsplit_once('-')?;
    let are_numbers = [first, last].iter().all(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    are_numbers.then_some(run)
}

/// A file name that is not a shard's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a shard: expected something like part-00003-of-00016.tfrecord")]
pub struct ParseShardNameError(String);

impl FromStr for ShardName {
    type Err = ParseShardNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (stem, compression) = [Compression::None, Compression::Gzip, Compression::Zlib]
                .into_iter()
                .find_map(|kind| Some((name.strip_suffix(kind.suffix())?.strip_suffix(".tfrecord")?, kind)))?;
            let (rest, total) = stem.rsplit_once("-of-")?;
            let (prefix, index) = rest.rsplit_once('-')?;
            let shard =
                Self { prefix: prefix.to_owned(), index: index.parse().ok()?, total: total.parse().ok()?, compression };
            // What prints otherwise was not written by us: "part-3-of-16", or "part-+0003-of-00016".
            (shard.index < shard.total && shard.to_string() == name).then_some(shard)
        };
        parse().ok_or_else(|| ParseShardNameError(name.to_owned()))
    }
}

/// Names one run of a writer, in its staging directory and in the manifest.
///
/// ```
/// use tfrecord_shards::RunId;
///
/// let run: RunId = "nightly7".parse()?;
/// assert_eq!(run.as_str(), "nightly7");
/// assert_ne!(RunId::new(), RunId::new());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// Longest run id that fits a file name beside the target's own name; ours have 32 characters.
const MAX_RUN_ID_LEN: usize = 64;

impl RunId {
    /// A new one. Ids sort by the time they were made (UUID version 7, RFC 9562).
    #[expect(clippy::new_without_default, reason = "no two are equal, so none is the default")]
    pub fn new() -> Self {
        Self(Uuid::now_v7().simple().to_string())
    }

    /// Whether an id is one of those that [`new`](Self::new) makes: of version 7 and without dashes, as nobody else's
    /// would be.
    pub(crate) fn is_generated(id: &str) -> bool {
        id.len() == 32 && Uuid::try_parse(id).is_ok_and(|id| id.get_version_num() == 7)
    }

    /// As it stands in names.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Text that cannot be a run id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a run id: expected 1 to {MAX_RUN_ID_LEN} ASCII letters and digits")]
pub struct ParseRunIdError(String);

impl FromStr for RunId {
    type Err = ParseRunIdError;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        Self::try_from(id.to_owned())
    }
}

impl TryFrom<String> for RunId {
    type Error = ParseRunIdError;

    fn try_from(id: String) -> Result<Self, Self::Error> {
        // No dash and no dot: they end the id in the name of a staging directory.
        let fits = (1..=MAX_RUN_ID_LEN).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if fits { Ok(Self(id)) } else { Err(ParseRunIdError(id)) }
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> Self {
        run.0
    }
}

/// Whether a file of this name, in a directory that is a table in another format, is one that tfr-sql writes there:
/// `part-00000-of-00004.parquet`, or the mark of success.
pub(crate) fn is_table_part(name: &str) -> bool {
    let parse = || {
        let (index, rest) = name.strip_prefix("part-")?.split_once("-of-")?;
        let (total, suffix) = rest.split_once('.')?;
        let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_known = ["parquet", "csv", "json", "jsonl", "arrow"].contains(&suffix.trim_end_matches(".gz"));
        Some(is_number(index) && is_number(total) && is_known)
    };
    name == SUCCESS_NAME || parse().unwrap_or(false)
}

#[cfg(test)]
mod tests;
