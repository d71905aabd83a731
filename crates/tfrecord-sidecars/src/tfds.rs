//! `dataset_info.json`, `features.json` and label files of TensorFlow Datasets. With these next to the shards,
//! `tfds.builder_from_directory(dir).as_dataset(split="train[10%:20%]")` reads a data set without further code.
//!
//! TensorFlow Datasets reads uncompressed files of Examples whose names contain `00000-of-00016`. Anything else is
//! rejected.
//!
//! | in the table | feature |
//! |---|---|
//! | one value | `Scalar`; for text `Text`; for the choice [`index`](arrow_tfrecord::Choice::Index) `ClassLabel` |
//! | a list | `Tensor` of one unknown dimension; for labels a `Sequence` |
//! | fixed-size lists, nested or not | `Tensor` of that shape |
//! | a struct | a dict |
//! | a list of structs, a map | a `Sequence` of a dict, read as a dict of lists |
//! | the list `steps` of structs with the flags `is_first` and `is_last`, as in RLDS | a `Dataset` of a dict: an episode |
//! | lists of lists | nested `Sequence`s, read as a `RaggedTensor` |
//! | bytes that are all PNG or all JPEG files by the statistics, one a record or one a step | `Image` |
//! | a null mask | a feature by itself |
//! | a nested column with a separator other than `/` | each of its features separately |
//!
//! A value that may be missing is `optional`. It reads null as the minimum of its type: 0 for unsigned integers, false,
//! no bytes, minus infinity for the `Float64` of a float. A value whose nulls are
//! [empty](arrow_tfrecord::NullPolicy::Empty) is a list. In lists null and empty are the same. A label that may be
//! missing is an integer, since a `ClassLabel` must be present. [Encoded](arrow_tfrecord::LossClass::Encoded) values
//! are read as stored.

mod features;
mod read;

use std::collections::BTreeMap;
use std::path::Path;

use arrow_tfrecord::Mapping;
use serde_json::{Map, Value, json};
use tfrecord_framing::{Compression, Container, FOOTER_LEN, HEADER_LEN, RecordFormat};
use tfrecord_shards::{Manifest, ShardEntry};

use crate::error::{Error, Result, TfdsProblem};
use crate::stats::Statistics;

pub use crate::images::ImageFormat;
pub use read::{label_file, readable_from_features, shard_lengths};

/// The name of the file with splits and shards.
pub const DATASET_INFO_NAME: &str = "dataset_info.json";

/// The name of the file with the features.
pub const FEATURES_NAME: &str = "features.json";

/// The split of shards without one.
const DEFAULT_SPLIT: &str = "train";

/// Prefixes of shard names that do not imply a split.
const NO_SPLITS: [&str; 4] = ["part", "data", "shard", "shards"];

/// The minimum number of digits of the numbers in shard names, as TensorFlow Datasets prints them. Source:
/// `_num_digits_needed` in `tensorflow_datasets/core/naming.py`.
const DIGITS: usize = 5;

/// A file of a shard set, as [`DatasetInfo`] needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardFile {
    /// Its path relative to the set's directory, with `/`.
    pub path: String,
    /// Its split, if known.
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

/// The contents of `dataset_info.json`.
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
    format: RecordFormat,
    splits: Vec<Split>,
}

/// A split of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Its name, by which `as_dataset(split=...)` finds it.
    pub name: String,
    /// The names of its shards, as a template of TensorFlow Datasets.
    pub filepath_template: String,
    /// The number of records of each shard, in order.
    pub shard_lengths: Vec<u64>,
    /// Bytes of the records without their frames.
    pub num_bytes: u64,
}

impl DatasetInfo {
    /// Describes a data set by its files. The split of a shard is the specified one, else the prefix of its name, or
    /// `train` if the prefix implies none. Files with `.array_record` in their names are ArrayRecord. The name is
    /// converted to one that TensorFlow Datasets accepts: a letter, then letters, digits and `_`.
    ///
    /// # Errors
    /// Fails on names without `00000-of-00016` or with different prefixes, files of two formats, missing shards, files in
    /// subdirectories, or no files.
    pub fn try_new(name: &str, shards: impl IntoIterator<Item = ShardFile>) -> Result<Self> {
        let mut groups: Vec<(Pattern, Vec<(ShardNumber, ShardFile)>)> = Vec::new();
        let mut format = None;
        for shard in shards {
            let found = format_of(&shard.path);
            if *format.get_or_insert(found) != found {
                let problem = "other shards are files of another format".to_owned();
                return Err(TfdsProblem::Shard { path: shard.path, problem }.into());
            }
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
        let (name, version) = (dataset_name(name), "1.0.0".to_owned());
        Ok(Self { name, version, description: String::new(), format: format.unwrap_or_default(), splits })
    }

    /// Describes a shard set by its manifest.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new). Also fails on compressed shards.
    pub fn of_manifest(name: &str, manifest: &Manifest) -> Result<Self> {
        Self::of_files(name, manifest.shards.iter().map(ShardFile::from), Some(manifest.container()))
    }

    /// Describes a data set by its files and how they contain their records, if that is known, whatever their names are.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new). Also fails on compressed shards.
    pub(crate) fn of_files(
        name: &str,
        files: impl IntoIterator<Item = ShardFile>,
        container: Option<Container>,
    ) -> Result<Self> {
        // ArrayRecord files are not compressed as a whole.
        expect_uncompressed(container.map(|container| container.compression().unwrap_or_default()))?;
        let info = Self::try_new(name, files)?;
        Ok(match container {
            Some(Container::ArrayRecord) => info.with_format(RecordFormat::ArrayRecord),
            Some(Container::TfRecord(_)) => info.with_format(RecordFormat::TfRecord),
            None => info,
        })
    }

    /// Sets the format of the files, if their names are those of another one.
    #[must_use]
    pub fn with_format(mut self, format: RecordFormat) -> Self {
        let by_name = std::mem::replace(&mut self.format, format);
        for template in self.splits.iter_mut().map(|split| &mut split.filepath_template) {
            if by_name != format
                && let Some(stem) = template.strip_suffix(FILE_FORMAT)
            {
                *template = format!("{stem}{}", by_name.extension());
            }
        }
        self
    }

    /// Sets the version: three numbers. The default is `1.0.0`.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the description for people.
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
    /// Fails on a version that is not three numbers.
    pub fn to_json(&self) -> Result<String> {
        let numbers: Vec<_> = self.version.split('.').collect();
        let is_version = numbers.len() == 3
            && numbers.iter().all(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
        if !is_version {
            return Err(TfdsProblem::Version { version: self.version.clone() }.into());
        }
        // Protobuf's JSON represents 64-bit numbers as strings.
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
            "fileFormat": self.format.to_string(),
            "splits": self.splits.iter().map(split).collect::<Vec<_>>(),
        });
        if let (Value::Object(info), false) = (&mut info, self.description.is_empty()) {
            info.insert("description".to_owned(), self.description.as_str().into());
        }
        text(&info)
    }
}

/// The content of `features.json`, with a line feed at its end. Features that no record lacks by `statistics` are not
/// `optional`.
///
/// # Errors
/// Fails on records that are not Examples.
pub fn features_json(mapping: &Mapping, statistics: Option<&Statistics>) -> Result<String> {
    features_json_with_images(mapping, statistics, &BTreeMap::new())
}

/// As [`features_json`], with some columns of bytes as `Image`s, which TensorFlow Datasets decodes to three channels.
///
/// # Errors
/// As [`features_json`]. Also fails if an image column is not one value of bytes in every record.
pub fn features_json_with_images(
    mapping: &Mapping,
    statistics: Option<&Statistics>,
    images: &BTreeMap<String, ImageFormat>,
) -> Result<String> {
    text(&features::features(mapping, statistics, images)?)
}

/// The names and contents of the label files, for each `ClassLabel` of `features.json`. A vocabulary with empty words,
/// or words with leading or trailing spaces, cannot be stored in a label file. Its labels are numbers.
///
/// # Errors
/// Fails on records that are not Examples.
pub fn label_files(mapping: &Mapping, statistics: Option<&Statistics>) -> Result<Vec<(String, String)>> {
    features::label_files(mapping, statistics)
}

/// The common parts of the shard names of one split.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pattern {
    before: String,
    after: String,
    total: usize,
    split: Option<String>,
}

/// The number of a shard.
type ShardNumber = usize;

/// The extension of a format in a template.
const FILE_FORMAT: &str = ".{FILEFORMAT}";

impl Pattern {
    /// Splits a name such as `train-00003-of-00016.tfrecord` into its parts.
    fn of(shard: &ShardFile) -> Result<(Self, ShardNumber)> {
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

    fn split(self, mut members: Vec<(ShardNumber, ShardFile)>) -> Result<Split> {
        members.sort_by_key(|(place, _)| *place);
        if !members.iter().map(|(place, _)| *place).eq(0..self.total) {
            let Self { before, after, total, .. } = self;
            return Err(TfdsProblem::MissingShards { before, after, total, found: members.len() }.into());
        }
        let name = self.split.clone().unwrap_or_else(|| split_of(&self.before));
        let payload = |shard: &ShardFile| {
            shard.framed_bytes.saturating_sub(shard.rows.saturating_mul((HEADER_LEN + FOOTER_LEN) as u64))
        };
        // The template that TensorFlow Datasets documents, if it fits.
        let before = match self.before.strip_suffix('-') {
            Some(prefix) if prefix == name => "{SPLIT}-".to_owned(),
            _ => self.before,
        };
        let after = match self.after.as_str() {
            ".tfrecord" | ".array_record" => FILE_FORMAT,
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

/// The format of a file, by its name.
fn format_of(path: &str) -> RecordFormat {
    let has = |format: RecordFormat| path.contains(format.extension());
    if has(RecordFormat::ArrayRecord) { RecordFormat::ArrayRecord } else { RecordFormat::TfRecord }
}

/// The split of a file by its name, if that is one of TensorFlow Datasets: `train` of
/// `mnist-train.tfrecord-00000-of-00010` and of `train-00000-of-00010.tfrecord`.
pub fn split_of_file(name: &str) -> Option<String> {
    let file = ShardFile { path: name.to_owned(), split: None, rows: 0, framed_bytes: 0 };
    Pattern::of(&file).ok().map(|(pattern, _)| split_of(&pattern.before))
}

/// `val` of `val-` and of `mnist-val.tfrecord-`.
fn split_of(before: &str) -> String {
    let stem = before.trim_end_matches(['-', '_', '.']);
    let stem = [".tfrecords", ".tfrecord", ".array_record"]
        .iter()
        .find_map(|ending| stem.strip_suffix(ending))
        .unwrap_or(stem);
    let word = stem.rsplit('-').next().unwrap_or_default();
    match NO_SPLITS.contains(&word) || !word.contains(char::is_alphanumeric) {
        true => DEFAULT_SPLIT.to_owned(),
        false => word.to_owned(),
    }
}

/// Converts to a name that TensorFlow Datasets accepts.
fn dataset_name(name: &str) -> String {
    let name: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect();
    match name.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        true => name,
        false => format!("set_{name}"),
    }
}

/// Rejects files that TensorFlow Datasets cannot read. `None` means that they differ.
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
