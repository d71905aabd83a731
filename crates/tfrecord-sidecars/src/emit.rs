//! [`Emit`]: the selected sidecar files of a shard set, and their contents.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use arrow_tfrecord::Mapping;
use tfrecord_framing::{Compression, Container, Framing, RecordFormat};
use tfrecord_shards::Sidecar;

use crate::describe::SCHEMA_NAME;
use crate::error::{ErrorKind, Result};
use crate::form::{SchemaForm, TableDescription, name_of};
use crate::stats::{Detail, PAGE_NAME, STATS_NAME, Statistics, Vocabularies};
use crate::tfds::{self, DATASET_INFO_NAME, DatasetInfo, FEATURES_NAME, ShardFile, expect_uncompressed};

/// The name of the Python module next to the shards. No reader prescribes it, so it starts with `_`, which readers of a
/// directory skip: Spark reads every other file as records.
pub const MODULE_NAME: &str = "_parse_example.py";

/// The kinds of sidecar files, by their readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SidecarKind {
    /// `dataset_info.json`, `features.json` and label files, for TensorFlow Datasets: see [`tfds`].
    Tfds,
    /// `schema.pbtxt`, for TFX and TensorFlow Data Validation: see [`tfmd`](crate::tfmd).
    Tfmd,
    /// `_parse_example.py`, for TensorFlow alone: see [`SchemaForm::Python`].
    ParseFn,
    /// `_stats.pb` for TensorFlow Data Validation and `_stats.html` for people: see [`stats`](crate::stats).
    Stats,
    /// `_<shard>.idx`, for NVIDIA DALI and other readers with random access. Written with the shards, not here.
    Index,
}

impl SidecarKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::Tfds, Self::Tfmd, Self::ParseFn, Self::Stats, Self::Index];

    fn word(self) -> &'static str {
        match self {
            Self::Tfds => "tfds",
            Self::Tfmd => "tfmd",
            Self::ParseFn => "parse-fn",
            Self::Stats => "stats",
            Self::Index => "index",
        }
    }

    /// Whether its files describe the frames of TFRecord, or read them.
    pub fn needs_frames(self) -> bool {
        matches!(self, Self::ParseFn | Self::Index)
    }

    /// The names of its files, except those that depend on the rows or the shards: label files and indexes.
    pub fn file_names(self) -> &'static [&'static str] {
        match self {
            Self::Tfds => &[DATASET_INFO_NAME, FEATURES_NAME],
            Self::Tfmd => &[SCHEMA_NAME],
            Self::ParseFn => &[MODULE_NAME],
            Self::Stats => &[STATS_NAME, PAGE_NAME],
            Self::Index => &[],
        }
    }
}

impl fmt::Display for SidecarKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The error for a string that is not a valid [`SidecarKind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown sidecar {found:?}: expected {}", SidecarKind::ALL.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", "))]
pub struct ParseSidecarKindError {
    found: String,
}

impl FromStr for SidecarKind {
    type Err = ParseSidecarKindError;

    fn from_str(word: &str) -> Result<Self, ParseSidecarKindError> {
        let kind = Self::ALL.iter().copied().find(|kind| kind.word() == word);
        kind.ok_or_else(|| ParseSidecarKindError { found: word.to_owned() })
    }
}

/// The sidecar files to write.
///
/// ```
/// use tfrecord_sidecars::{Emit, SidecarKind};
/// use tfrecord_sidecars::stats::Detail;
///
/// let emit: Emit = ["index".parse()?, "tfds".parse()?].into_iter().collect();
/// assert!(emit.has(SidecarKind::Index) && !emit.has(SidecarKind::Stats));
/// assert_eq!(emit.detail(), Some(Detail::Presence));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Emit(BTreeSet<SidecarKind>);

impl FromIterator<SidecarKind> for Emit {
    fn from_iter<T: IntoIterator<Item = SidecarKind>>(kinds: T) -> Self {
        Self(kinds.into_iter().collect())
    }
}

impl fmt::Display for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(","))
    }
}

/// A shard set whose shards have been written.
#[derive(Debug)]
pub struct EmittedSet<'a> {
    /// Its location, as the user wrote it. The last component is its name.
    pub location: String,
    /// The mapping of its columns.
    pub mapping: &'a Mapping,
    /// Statistics of all records.
    pub statistics: Option<&'a Statistics>,
    /// Its shards.
    pub files: Vec<ShardFile>,
    /// How they contain their records, if it is the same for all.
    pub container: Option<Container>,
}

impl Emit {
    /// Whether files of this kind are selected.
    pub fn has(&self, kind: SidecarKind) -> bool {
        self.0.contains(&kind)
    }

    /// The kinds, in order.
    pub fn kinds(&self) -> impl Iterator<Item = SidecarKind> {
        self.0.iter().copied()
    }

    /// Whether no kind is selected.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any selected kind describes the whole set, and so becomes outdated when shards are appended.
    pub fn describes(&self) -> bool {
        self.kinds().any(|kind| kind != SidecarKind::Index)
    }

    /// The detail of statistics that the selected kinds need. `None` if they only need the positions of records.
    pub fn detail(&self) -> Option<Detail> {
        match self.has(SidecarKind::Stats) || self.has(SidecarKind::Tfmd) {
            true => Some(Detail::Values),
            false => self.describes().then_some(Detail::Presence),
        }
    }

    /// Rejects kinds that do not support this mapping, format or compression, before any record is written.
    ///
    /// # Errors
    /// Fails on a record type that a format cannot describe, or on shards for a reader that does not support their
    /// format or compression.
    pub fn check(&self, mapping: &Mapping, framing: impl Into<Framing>) -> Result<()> {
        let framing = framing.into();
        let compression = framing.compression();
        if let (RecordFormat::ArrayRecord, Some(kind)) =
            (framing.format(), self.kinds().find(|kind| kind.needs_frames()))
        {
            return Err(ErrorKind::OtherFormat { kind: kind.to_string(), format: framing.format() }.into());
        }
        if self.has(SidecarKind::Tfds) {
            expect_uncompressed(Some(compression))?;
            tfds::features_json(mapping, None)?;
        }
        if self.has(SidecarKind::Index) && compression != Compression::None {
            return Err(ErrorKind::CompressedIndex { compression }.into());
        }
        let table = TableDescription::new(mapping, "");
        for (kind, form) in [(SidecarKind::Tfmd, SchemaForm::Pbtxt), (SidecarKind::ParseFn, SchemaForm::Python)] {
            if self.has(kind) {
                table.render(form)?;
            }
        }
        Ok(())
    }

    /// Returns the files, except indexes.
    ///
    /// # Errors
    /// As [`check`](Self::check). Also fails on shard names that TensorFlow Datasets does not accept, or missing
    /// statistics.
    pub fn files(&self, set: &EmittedSet<'_>) -> Result<Vec<Sidecar>> {
        let name = name_of(&set.location);
        let mut sidecars = Vec::new();
        let mut add = |path: &str, content: Vec<u8>| sidecars.push(Sidecar { path: path.to_owned(), content });
        let table = TableDescription::new(set.mapping, set.location.clone());
        let table = match set.statistics {
            Some(statistics) => table.with_statistics(statistics),
            None => table,
        };
        let table = match set.container {
            Some(container) => table.with_container(container),
            None => table,
        };
        if self.has(SidecarKind::Tfds) {
            let info = DatasetInfo::of_files(&name, set.files.iter().cloned(), set.container)?;
            add(DATASET_INFO_NAME, info.to_json()?.into());
            add(FEATURES_NAME, table.render(SchemaForm::FeaturesJson)?.into());
            for (path, labels) in tfds::label_files(set.mapping, set.statistics)? {
                add(&path, labels.into());
            }
        }
        if self.has(SidecarKind::Tfmd) {
            add(SCHEMA_NAME, table.render(SchemaForm::Pbtxt)?.into());
        }
        if self.has(SidecarKind::ParseFn) {
            add(MODULE_NAME, table.render(SchemaForm::Python)?.into());
        }
        if let (true, Some(statistics)) = (self.has(SidecarKind::Stats), set.statistics) {
            add(STATS_NAME, statistics.to_proto(&name));
            add(PAGE_NAME, statistics.to_html(&name, &Vocabularies::new(set.mapping)).into());
        }
        Ok(sidecars)
    }
}
