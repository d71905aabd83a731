//! Names of a set's files: [`ShardName`], [`ObjectNames`], [`RunId`], and the fixed names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tfrecord_framing::{Compression, Framing, RecordFormat};
use uuid::Uuid;

use crate::set::SUCCESS_NAME;
use crate::set::group::ShardPlace;

/// Minimum number of digits in a shard name, as in TensorFlow's own data sets. Larger numbers have more.
const DIGITS: usize = 5;

/// The name of a shard: `part-00003-of-00016.tfrecord.gz`.
///
/// Names of a set sort in the order of the shards.
///
/// ```
/// use tfrecord_framing::{Compression, RecordFormat};
/// use tfrecord_shards::ShardName;
///
/// let (prefix, format, compression) = ("train".to_owned(), RecordFormat::TfRecord, Compression::Gzip);
/// let name = ShardName { prefix, index: 3, total: 16, format, compression };
/// assert_eq!(name.to_string(), "train-00003-of-00016.tfrecord.gz");
/// assert_eq!("train-00003-of-00016.tfrecord.gz".parse(), Ok(name));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShardName {
    /// The prefix: `part`, or the name of a split.
    pub prefix: String,
    /// The shard's number, from 0.
    pub index: usize,
    /// Number of shards in the set.
    pub total: usize,
    /// The format, which determines the extension.
    pub format: RecordFormat,
    /// The compression of the file as a whole, which determines the suffix.
    pub compression: Compression,
}

impl fmt::Display for ShardName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, index, total, format, compression } = self;
        write!(f, "{}{}{}", numbered(prefix, *index, *total), format.extension(), compression.suffix())
    }
}

/// The suffix of shards compressed with zlib in sets that earlier releases wrote.
const EARLIER_ZLIB_SUFFIX: &str = ".tfrecord.zlib";

/// Returns the name of a shard without its suffix.
fn numbered(prefix: &str, index: usize, total: usize) -> String {
    // The index has as many digits as the total, so that names sort in the order of the shards.
    let digits = DIGITS.max(total.checked_ilog10().unwrap_or(0) as usize + 1);
    format!("{prefix}-{index:0digits$}-of-{total:0digits$}")
}

/// Returns the suffix of shards that are appended to these shards: theirs, or that of the framing.
pub(crate) fn suffix_of<'a>(mut shards: impl Iterator<Item = &'a str>, framing: Framing) -> &'static str {
    let is_zlib = matches!(framing, Framing::TfRecord(Compression::Zlib, _));
    let is_earlier = is_zlib && shards.any(|shard| shard.ends_with(EARLIER_ZLIB_SUFFIX));
    if is_earlier { EARLIER_ZLIB_SUFFIX } else { framing.suffix() }
}

/// Names of shards whose number is not known when they are named. Object stores need final names from the start,
/// because they cannot rename.
///
/// If the number of shards was requested, they have their usual names. Otherwise a name contains the write partition
/// and the shard's number within it; the manifest records the total. When another set is replaced, the prefix includes
/// the run, so that old and new files can coexist. Names of a set sort in the order of the shards.
///
/// ```
/// use tfrecord_framing::Framing;
/// use tfrecord_shards::ObjectNames;
///
/// let suffix = Framing::default().suffix();
/// let names = ObjectNames { prefix: "part".to_owned(), total: Some(16), suffix, run: None };
/// assert_eq!(names.name(0, 3), "part-00003-of-00016.tfrecord");
/// let names = ObjectNames { total: None, run: Some("nightly7".parse()?), ..names };
/// assert_eq!(names.name(2, 3), "part-nightly7-00002-00003.tfrecord");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectNames {
    /// The prefix: `part`, or the name of a split.
    pub prefix: String,
    /// Number of shards, if known. Their sequence numbers then count over all write partitions.
    pub total: Option<usize>,
    /// The end of names: [`Framing::suffix`], or that of the [set](crate::Manifest::suffix) that is appended to.
    pub suffix: &'static str,
    /// The run, if names must include it.
    pub run: Option<RunId>,
}

impl ObjectNames {
    /// Returns the name of shard `sequence` of write partition `partition`.
    pub fn name(&self, partition: u32, sequence: u32) -> String {
        let prefix = self.tagged(&self.prefix);
        let name = match self.total {
            Some(total) => numbered(&prefix, sequence as usize, total),
            None => format!("{prefix}-{partition:0DIGITS$}-{sequence:0DIGITS$}"),
        };
        name + self.suffix
    }

    /// Returns the path of a shard whose position in the set is known, relative to the set's directory.
    ///
    /// ```
    /// use tfrecord_framing::Framing;
    /// use tfrecord_shards::{ObjectNames, ShardGroup, ShardPlace};
    ///
    /// let suffix = Framing::default().suffix();
    /// let names = ObjectNames { prefix: "part".to_owned(), total: None, suffix, run: None };
    /// let values = vec![("dt".to_owned(), Some("2026-01-01".to_owned()))];
    /// let group = ShardGroup { partition_values: values, split: Some("train".to_owned()) };
    /// let place = ShardPlace { group: &group, index: 3, total: 16 };
    /// assert_eq!(names.path(place), "dt=2026-01-01/train-00003-of-00016.tfrecord");
    /// ```
    pub fn path(&self, place: ShardPlace<'_>) -> String {
        let ShardPlace { group, index, total } = place;
        let prefix = self.tagged(group.prefix(&self.prefix));
        group.path(&(numbered(&prefix, index, total) + self.suffix))
    }

    fn tagged(&self, prefix: &str) -> String {
        match &self.run {
            Some(run) => format!("{prefix}-{run}"),
            None => prefix.to_owned(),
        }
    }

    /// Whether the file at this path has a name of ours that includes a run.
    pub(crate) fn has_run_id(path: &str) -> bool {
        run_id_in(path).is_some_and(RunId::is_generated)
    }
}

/// Returns the run id in the name of a shard or its index, given the path; the result may not be a run id of ours.
pub(crate) fn run_id_in(path: &str) -> Option<&str> {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let name = name.strip_suffix(".idx").map_or(name, |shard| shard.strip_prefix('_').unwrap_or(shard));
    let stem = SUFFIXES.into_iter().find_map(|(suffix, ..)| name.strip_suffix(suffix))?;
    let (rest, last) = stem.rsplit_once('-')?;
    let (rest, first) = rest.strip_suffix("-of").unwrap_or(rest).rsplit_once('-')?;
    let (_, run) = rest.rsplit_once('-')?;
    let are_numbers = [first, last].iter().all(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    are_numbers.then_some(run)
}

/// The suffixes of shards.
const SUFFIXES: [(&str, RecordFormat, Compression); 5] = [
    (".tfrecord", RecordFormat::TfRecord, Compression::None),
    (".tfrecord.gz", RecordFormat::TfRecord, Compression::Gzip),
    (".tfrecord.deflate", RecordFormat::TfRecord, Compression::Zlib),
    (EARLIER_ZLIB_SUFFIX, RecordFormat::TfRecord, Compression::Zlib),
    (".array_record", RecordFormat::ArrayRecord, Compression::None),
];

/// A file name that is not a valid shard name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a shard: expected something like part-00003-of-00016.tfrecord")]
pub struct ParseShardNameError(String);

impl FromStr for ShardName {
    type Err = ParseShardNameError;

    /// Parses the name of a shard. `.zlib`, the suffix of earlier releases, is read as `.deflate`.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (file, format, compression) = SUFFIXES
                .into_iter()
                .find_map(|(suffix, format, compression)| Some((name.strip_suffix(suffix)?, format, compression)))?;
            let (rest, total) = file.rsplit_once("-of-")?;
            let (prefix, index) = rest.rsplit_once('-')?;
            let (index, total) = (index.parse().ok()?, total.parse().ok()?);
            // Rejects names that we do not write, such as "part-3-of-16" or "part-+0003-of-00016".
            let is_ours = index < total && numbered(prefix, index, total) == file;
            is_ours.then(|| Self { prefix: prefix.to_owned(), index, total, format, compression })
        };
        parse().ok_or_else(|| ParseShardNameError(name.to_owned()))
    }
}

/// Identifies one run of a writer, in its staging directory's name and in the manifest.
///
/// ```
/// use tfrecord_shards::RunId;
///
/// let run: RunId = "nightly7".parse()?;
/// assert_eq!(run.as_str(), "nightly7");
/// assert_ne!(RunId::new(), RunId::new());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

/// Longest run id that fits in a file name with the target's own name. Generated ids have 32 characters.
const MAX_RUN_ID_LEN: usize = 64;

impl RunId {
    /// Generates an id. Ids sort by creation time (UUID version 7, RFC 9562).
    #[expect(clippy::new_without_default, reason = "no two are equal, so none is the default")]
    pub fn new() -> Self {
        Self(Uuid::now_v7().simple().to_string())
    }

    /// Whether [`new`](Self::new) could have generated an id: version 7 without dashes, which other tools do not use.
    pub(crate) fn is_generated(id: &str) -> bool {
        id.len() == 32 && Uuid::try_parse(id).is_ok_and(|id| id.get_version_num() == 7)
    }

    /// Returns the id as used in names.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Text that is not a valid run id.
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
        // Dashes and dots end the id in the name of a staging directory.
        let fits = (1..=MAX_RUN_ID_LEN).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if fits { Ok(Self(id)) } else { Err(ParseRunIdError(id)) }
    }
}

impl From<RunId> for String {
    fn from(run: RunId) -> Self {
        run.0
    }
}

/// Whether tfr-sql writes files of this name to the directory of a table in another format:
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
