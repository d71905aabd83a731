//! `dataset_info.json`, `features.json` and label files of TensorFlow Datasets: with these beside the shards,
//! `tfds.builder_from_directory(dir).as_dataset(split="train[10%:20%]")` reads a set without any code.
//!
//! TensorFlow Datasets reads uncompressed files of Examples, whose names count `00000-of-00016`; what it cannot read is
//! refused.
//!
//! | in the table | feature |
//! |---|---|
//! | one value | `Scalar`, of text `Text`; of the [`index`](arrow_tfrecord::Choice::Index) form `ClassLabel` |
//! | a list | `Tensor` of one unknown dimension; of labels a `Sequence` |
//! | a list of a fixed size, one in the other | `Tensor` of that shape |
//! | a struct | a dict |
//! | a list of structs, a map | a `Sequence` of a dict, read as a dict of lists |
//! | lists in lists | `Sequence`s one in the other, read as a `RaggedTensor` |
//! | a column with masks, or parts of another separator than `/` | each of its features by itself |
//!
//! A value that may be missing is `optional`, which reads null as the least value of its type: 0 for unsigned integers,
//! false, no bytes, minus infinity for the `Float64` of a float; one whose nulls are
//! [empty](arrow_tfrecord::NullPolicy::Empty) is a list. In lists null and empty are one. A label that may be missing is
//! an integer, for a `ClassLabel` may not. What is [encoded](arrow_tfrecord::LossClass::Encoded) is read as it is stored.

mod features;

use std::collections::BTreeMap;
use std::path::Path;

use arrow_tfrecord::Mapping;
use serde_json::{Map, Value, json};
use tfrecord_framing::{Compression, FOOTER_LEN, HEADER_LEN};
use tfrecord_shards::{Manifest, ShardEntry};

use crate::error::{Error, Result, TfdsProblem};
use crate::stats::Statistics;

pub use features::ImageFormat;

/// The file that tells splits and shards.
pub const DATASET_INFO_NAME: &str = "dataset_info.json";

/// The file that tells the features.
pub const FEATURES_NAME: &str = "features.json";

/// The split of shards that belong to none.
const DEFAULT_SPLIT: &str = "train";

/// What names of shards start with that tell nothing of a split.
const NO_SPLITS: [&str; 4] = ["part", "data", "shard", "shards"];

/// Least digits of the numbers in names of shards, as TensorFlow Datasets prints them.
/// Source: `_num_digits_needed` in `tensorflow_datasets/core/naming.py`.
const DIGITS: usize = 5;

/// A file of a set: what [`DatasetInfo`] has to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFile {
    /// Its path from the set's directory, with `/`.
    pub path: String,
    /// The split that it belongs to, if that is known.
    pub split: Option<String>,
    /// Number of records.
    pub rows: u64,
    /// Bytes of the records with their frames.
    pub framed_bytes: u64,
}

impl From<&ShardEntry> for ShardFile {
    fn from(shard: &ShardEntry) -> Self {
        let ShardEntry { path, split, rows, framed_bytes, .. } = shard;
        Self { path: path.clone(), split: split.clone(), rows: *rows, framed_bytes: *framed_bytes }
    }
}

/// What `dataset_info.json` says.
///
/// ```
/// use tfrecord_sidecars::tfds::{DatasetInfo, ShardFile};
///
/// # fn main() -> tfrecord_sidecars::Result<()> {
/// let shard = |path: &str, rows| ShardFile { path: path.to_owned(), split: None, rows, framed_bytes: 100 * rows };
/// let shards = [shard("val-00000-of-00002.tfrecord", 30), shard("val-00001-of-00002.tfrecord", 29)];
/// let info = DatasetInfo::try_new("my trips", shards)?.with_description("Trips of a day.");
/// assert!(info.to_json()?.contains(r#""name": "my_trips""#));
/// assert_eq!(info.splits()[0].name, "val");
/// assert_eq!(info.splits()[0].shard_lengths, [30, 29]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetInfo {
    name: String,
    version: String,
    description: String,
    splits: Vec<Split>,
}

/// A split of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Its name, by which `as_dataset(split=...)` finds it.
    pub name: String,
    /// The names of its shards: a template of TensorFlow Datasets.
    pub filepath_template: String,
    /// How many records each shard has, in order.
    pub shard_lengths: Vec<u64>,
    /// Bytes of the records without their frames.
    pub num_bytes: u64,
}

impl DatasetInfo {
    /// Describes a set by its files. Shards are of a split if they say so; else the split is what their names start
    /// with, and `train` where that tells nothing. The name becomes one that TensorFlow Datasets takes: a letter, then
    /// letters, digits and `_`.
    ///
    /// # Errors
    /// Names that are not `00000-of-00016` of one prefix, or not all there; files in directories; no file.
    pub fn try_new(name: &str, shards: impl IntoIterator<Item = ShardFile>) -> Result<Self> {
        let mut groups: Vec<(Pattern, Vec<(Place, ShardFile)>)> = Vec::new();
        for shard in shards {
            let (pattern, place) = Pattern::of(&shard)?;
            match groups.iter_mut().find(|(known, _)| *known == pattern) {
                Some((_, members)) => members.push((place, shard)),
                None => groups.push((pattern, vec![(place, shard)])),
            }
        }
        if groups.is_empty() {
            return Err(TfdsProblem::NoShard.into());
        }
        let mut splits: Vec<Split> = Vec::new();
        for (pattern, members) in groups {
            let split = pattern.split(members)?;
            if let Some(other) = splits.iter().find(|other| other.name == split.name) {
                let (first, second) = (other.filepath_template.clone(), split.filepath_template);
                return Err(TfdsProblem::TwoTemplates { split: split.name, first, second }.into());
            }
            splits.push(split);
        }
        Ok(Self { name: dataset_name(name), version: "1.0.0".to_owned(), description: String::new(), splits })
    }

    /// Describes a set by its manifest.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new); compressed shards.
    pub fn of_manifest(name: &str, manifest: &Manifest) -> Result<Self> {
        expect_uncompressed(Some(manifest.compression))?;
        Self::try_new(name, manifest.shards.iter().map(ShardFile::from))
    }

    /// Sets the version: three numbers. `1.0.0` otherwise.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets what the set is, for people.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The splits, in the order of their first shards.
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// The content of `dataset_info.json`, with a line feed at its end.
    ///
    /// # Errors
    /// A version that is not three numbers.
    pub fn to_json(&self) -> Result<String> {
        let numbers: Vec<_> = self.version.split('.').collect();
        let is_version = numbers.len() == 3
            && numbers.iter().all(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
        if !is_version {
            return Err(TfdsProblem::Version { version: self.version.clone() }.into());
        }
        // Protobuf's JSON has 64-bit numbers as strings.
        let split = |split: &Split| {
            json!({
                "name": split.name,
                "filepathTemplate": split.filepath_template,
                "numBytes": split.num_bytes.to_string(),
                "shardLengths": split.shard_lengths.iter().map(u64::to_string).collect::<Vec<_>>(),
            })
        };
        let mut info = json!({
            "name": self.name,
            "version": self.version,
            "fileFormat": "tfrecord",
            "splits": self.splits.iter().map(split).collect::<Vec<_>>(),
        });
        if let (Value::Object(info), false) = (&mut info, self.description.is_empty()) {
            info.insert("description".to_owned(), self.description.as_str().into());
        }
        text(&info)
    }
}

/// The content of `features.json`, with a line feed at its end. What `statistics` know is in no record missing is not
/// `optional`.
///
/// # Errors
/// Records that are not Examples.
pub fn features_json(mapping: &Mapping, statistics: Option<&Statistics>) -> Result<String> {
    features_json_with_images(mapping, statistics, &BTreeMap::new())
}

/// The same, where some columns of bytes are images: `Image`s, which TensorFlow Datasets decodes to three channels.
///
/// # Errors
/// As [`features_json`]; images in a column that is not one value of bytes in every record.
pub fn features_json_with_images(
    mapping: &Mapping,
    statistics: Option<&Statistics>,
    images: &BTreeMap<String, ImageFormat>,
) -> Result<String> {
    text(&features::features(mapping, statistics, images)?)
}

/// The label files: name and content, for each `ClassLabel` of `features.json`. A vocabulary with words that such a file
/// cannot hold, empty ones or with space around them, has none, and its labels are numbers.
///
/// # Errors
/// Records that are not Examples.
pub fn label_files(mapping: &Mapping, statistics: Option<&Statistics>) -> Result<Vec<(String, String)>> {
    features::label_files(mapping, statistics)
}

/// What the names of the shards of one split have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    before: String,
    after: String,
    total: usize,
    split: Option<String>,
}

/// Which shard a file is.
type Place = usize;

impl Pattern {
    /// Takes `train-00003-of-00016.tfrecord` apart.
    fn of(shard: &ShardFile) -> Result<(Self, Place)> {
        let unfit =
            |problem: &str| Error::from(TfdsProblem::Shard { path: shard.path.clone(), problem: problem.to_owned() });
        if shard.path.contains('/') {
            return Err(unfit("TensorFlow Datasets looks for shards in one directory"));
        }
        if shard.path.contains(['{', '}']) {
            return Err(unfit("a template of TensorFlow Datasets has no braces of its own"));
        }
        if let Some(extension @ ("gz" | "gzip" | "zlib")) = Path::new(&shard.path).extension().and_then(|e| e.to_str())
        {
            return Err(unfit(&format!("compressed files ({extension}) are not read by TensorFlow Datasets")));
        }
        let parse = || {
            let (front, back) = shard.path.rsplit_once("-of-")?;
            let digits = |text: &str, from_end: bool| match from_end {
                true => text.len() - text.bytes().rev().take_while(u8::is_ascii_digit).count(),
                false => text.bytes().take_while(u8::is_ascii_digit).count(),
            };
            let (before, index) = front.split_at_checked(digits(front, true))?;
            let (total, after) = back.split_at_checked(digits(back, false))?;
            let is_printed_so =
                index.len() == total.len() && total.len() == DIGITS.max(total.trim_start_matches('0').len());
            let (index, total): (usize, usize) = (index.parse().ok()?, total.parse().ok()?);
            (index < total && is_printed_so).then(|| (before.to_owned(), after.to_owned(), index, total))
        };
        let (before, after, index, total) =
            parse().ok_or_else(|| unfit("its name is not like part-00000-of-00016.tfrecord"))?;
        Ok((Self { before, after, total, split: shard.split.clone() }, index))
    }

    fn split(self, mut members: Vec<(Place, ShardFile)>) -> Result<Split> {
        members.sort_by_key(|(place, _)| *place);
        if !members.iter().map(|(place, _)| *place).eq(0..self.total) {
            let Self { before, after, total, .. } = self;
            return Err(TfdsProblem::MissingShards { before, after, total, found: members.len() }.into());
        }
        let name = self.split.clone().unwrap_or_else(|| split_of(&self.before));
        let payload = |shard: &ShardFile| {
            shard.framed_bytes.saturating_sub(shard.rows.saturating_mul((HEADER_LEN + FOOTER_LEN) as u64))
        };
        // The template that TensorFlow Datasets itself documents, where it fits.
        let before = match self.before.strip_suffix('-') {
            Some(prefix) if prefix == name => "{SPLIT}-".to_owned(),
            _ => self.before,
        };
        let after = match self.after.as_str() {
            ".tfrecord" => ".{FILEFORMAT}",
            after => after,
        };
        Ok(Split {
            filepath_template: format!("{before}{{SHARD_X_OF_Y}}{after}"),
            shard_lengths: members.iter().map(|(_, shard)| shard.rows).collect(),
            num_bytes: members.iter().map(|(_, shard)| payload(shard)).fold(0, u64::saturating_add),
            name,
        })
    }
}

/// `val` of `val-` and of `mnist-val.tfrecord-`.
fn split_of(before: &str) -> String {
    let stem = before.trim_end_matches(['-', '_', '.']);
    let stem = [".tfrecords", ".tfrecord"].iter().find_map(|ending| stem.strip_suffix(ending)).unwrap_or(stem);
    let word = stem.rsplit('-').next().unwrap_or_default();
    match NO_SPLITS.contains(&word) || !word.contains(char::is_alphanumeric) {
        true => DEFAULT_SPLIT.to_owned(),
        false => word.to_owned(),
    }
}

/// A name that TensorFlow Datasets takes.
fn dataset_name(name: &str) -> String {
    let name: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    match name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        true => name,
        false => format!("set_{name}"),
    }
}

/// Refuses files that TensorFlow Datasets does not read; `None` is that they differ.
pub(crate) fn expect_uncompressed(compression: Option<Compression>) -> Result<()> {
    match compression {
        Some(Compression::None) => Ok(()),
        found => Err(TfdsProblem::Compressed { found }.into()),
    }
}

fn text(value: &Value) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

/// An object of JSON.
type Object = Map<String, Value>;

#[cfg(test)]
mod tests;
