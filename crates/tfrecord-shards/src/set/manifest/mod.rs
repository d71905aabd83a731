//! [`Manifest`]: what a set holds, where it came from, and how it was made.
//!
//! Its JSON is described by `schemas/manifest.schema.json`. Fields may be added in a minor version, and readers pass
//! over what they do not know.

mod checksum;
mod contradiction;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use arrow_schema::SchemaRef;
use arrow_tfrecord::{Mapping, MappingOptions, RecordType};
use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tfrecord_framing::Compression;

use crate::error::FindingKind;
use crate::error::{AtPath, ErrorKind, Result};
use crate::set::difference::ShardFigures;
use crate::set::format_version::{FORMAT_VERSION, FormatVersion};
use crate::set::names::RunId;
use crate::set::scalar;
use crate::set::schema::SchemaDescription;
use crate::set::sidecar::SidecarEntry;
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};
use crate::write::sharding::Sharding;

/// Framed bytes, 16 MiB, from one of a shard's [`offsets`](ShardEntry::offsets) to the next, about: the next place
/// where a reader can begin is taken. Enough work to be worth a thread, and few enough places to list.
pub const OFFSET_INTERVAL: u64 = 16 << 20;

/// Where [`SetDescription::options`] has the options of the mapping.
pub(crate) const MAPPING_OPTION: &str = "mapping";

/// What writes manifests: all crates of the project have one version.
const TOOL: &str = concat!("tfr-sql ", env!("CARGO_PKG_VERSION"));

/// What is known of a set before its first row is written.
#[derive(Debug, Clone, PartialEq)]
pub struct SetDescription {
    /// What shard names start with: `part`, or the name of a split.
    pub prefix: String,
    /// How shards are compressed.
    pub compression: Compression,
    /// How rows are spread over shards.
    pub sharding: Sharding,
    /// How shards are called, and where they lie.
    pub layout: SetLayout,
    /// The columns of the rows, if they are known.
    pub schema: Option<SchemaDescription>,
    /// What the columns become, if that is known.
    pub mapping: Option<Value>,
    /// What one record is, if that is known.
    pub record_type: Option<RecordType>,
    /// The query, without secrets.
    pub query: Option<String>,
    /// The inputs, without secrets.
    pub inputs: Vec<String>,
    /// What else the user chose, without secrets. The options of the mapping are among it.
    pub options: BTreeMap<String, Value>,
    /// Seed of the shuffle.
    pub seed: Option<u64>,
    /// How many tasks wrote shards of their own. The same rows over as many partitions give the same bytes.
    pub write_partitions: u32,
    /// The splits, in the order that they have in the set. None if the set is not split.
    pub splits: Vec<SplitDescription>,
    /// The columns whose values tell the split of a row; none if the whole record does.
    pub split_by: Vec<String>,
    /// The columns whose values tell the directory of a row, in the order of the directories. They are in the records
    /// only if `schema` has them too.
    pub partition_columns: Option<SchemaDescription>,
}

/// How shards are called, and where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SetLayout {
    /// `part-00003-of-00016.tfrecord`, in the directories of their partition values.
    #[default]
    Shards,
    /// `1/00000003.shard/00000000.snapshot`, as `tf.data.Dataset.load` looks for them. Their records are tensors.
    Snapshot,
}

impl SetLayout {
    fn is_shards(&self) -> bool {
        *self == Self::Shards
    }

    /// The path of a shard, from the set's directory, if the layout tells it and not names do.
    pub(crate) fn path(self, index: usize) -> Option<String> {
        (self == Self::Snapshot).then(|| format!("{SNAPSHOT_RUN}/{index:08}.shard/00000000.snapshot"))
    }
}

/// The directory of the shards of a [`Snapshot`](SetLayout::Snapshot): what it calls a run.
pub const SNAPSHOT_RUN: &str = "1";

/// One of the splits of a set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitDescription {
    /// Its name, which the names of its shards start with.
    pub name: String,
    /// The part of all rows that is to be in it, about.
    pub fraction: f64,
}

impl SetDescription {
    /// A set of uncompressed shards named `part-...`, written in one partition, of rows mapped this way.
    ///
    /// # Errors
    /// When the schema of the rows has no IPC form.
    pub fn new(mapping: &Mapping, options: &MappingOptions) -> Result<Self> {
        Ok(Self {
            schema: Some(SchemaDescription::try_new(mapping.schema())?),
            mapping: Some(serde_json::to_value(mapping)?),
            record_type: Some(options.record_type),
            options: BTreeMap::from([(MAPPING_OPTION.to_owned(), serde_json::to_value(options)?)]),
            ..Self::of_records()
        })
    }

    /// The same of records of which nothing is known.
    pub fn of_records() -> Self {
        Self {
            prefix: "part".to_owned(),
            compression: Compression::None,
            sharding: Sharding::default(),
            layout: SetLayout::default(),
            schema: None,
            mapping: None,
            record_type: None,
            query: None,
            inputs: Vec::new(),
            options: BTreeMap::new(),
            seed: None,
            write_partitions: 1,
            splits: Vec::new(),
            split_by: Vec::new(),
            partition_columns: None,
        }
    }
}

/// What the shards add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Number of shards.
    pub shards: u64,
    /// Number of records.
    pub rows: u64,
    /// Bytes of the records with their frames, before compression.
    pub framed_bytes: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shards, rows, framed_bytes, file_bytes } = self;
        write!(f, "{rows} rows in {shards} shards of {file_bytes} bytes, {framed_bytes} before compression")
    }
}

impl Totals {
    fn of(shards: &[ShardEntry]) -> Self {
        let add = |field: fn(&ShardEntry) -> u64| shards.iter().map(field).fold(0, u64::saturating_add);
        Self {
            shards: shards.len() as u64,
            rows: add(|shard| shard.rows),
            framed_bytes: add(|shard| shard.framed_bytes),
            file_bytes: add(|shard| shard.file_bytes),
        }
    }
}

/// One shard of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// Its path from the set's directory, with `/`.
    pub path: String,
    /// The split that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The values of the partition columns that its rows have in common. `None` is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Number of records.
    pub rows: u64,
    /// Bytes of the records with their frames, before compression.
    pub framed_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// CRC-32C of the file, not masked. Eight hexadecimal digits in JSON.
    #[serde(with = "scalar::hex")]
    pub crc32c: u32,
    /// Places where a reader can begin, beside the start of the file, in order: about one for every
    /// [`OFFSET_INTERVAL`]. A shard that can only be read from its start has none, as have sets of format 1.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<RecordOffset>,
}

impl From<&ShardEntry> for ShardFigures {
    fn from(shard: &ShardEntry) -> Self {
        let ShardEntry { rows, framed_bytes, file_bytes, crc32c, .. } = *shard;
        Self { rows, framed_bytes, file_bytes, crc32c }
    }
}

/// A place in a shard where a reader can begin: the start of a record and, in a gzip file, of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordOffset {
    /// The record that starts there: the number of records before.
    pub record: u64,
    /// Bytes of the records before with their frames, before compression.
    pub framed: u64,
    /// Bytes of the file before. In an uncompressed one, as many as `framed`.
    pub file: u64,
}

/// How a directory differs from what its manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disagreement {
    /// There is no [`SUCCESS_NAME`].
    NoSuccess,
    /// A shard is not there.
    Missing {
        /// Its path from the set's directory.
        path: String,
    },
    /// A shard is longer or shorter than it was.
    Size {
        /// Its path from the set's directory.
        path: String,
        /// The bytes that it had.
        expected: u64,
        /// The bytes that it has.
        found: u64,
    },
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuccess => write!(f, "{SUCCESS_NAME} is missing"),
            Self::Missing { path } => write!(f, "{path} is missing"),
            Self::Size { path, expected, found } => write!(f, "{path}: expected {expected} bytes, found {found}"),
        }
    }
}

/// What `_manifest.json` says about a set.
///
/// Equal inputs and options give equal manifests but for [`run`](Self::run) and [`created`](Self::created), which runs that
/// [have appended](Self::appended) tell of themselves, too, and of which the names of their shards have the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of the manifest.
    pub format_version: FormatVersion,
    /// What wrote the set, and its version.
    pub tool: String,
    /// The run that wrote it. Ours are [`RunId`]s.
    pub run: String,
    /// When it was published.
    #[serde(with = "scalar::rfc3339")]
    pub created: DateTime<Utc>,
    /// The query, without secrets.
    pub query: Option<String>,
    /// The inputs, without secrets.
    pub inputs: Vec<String>,
    /// What else the user chose, without secrets.
    pub options: BTreeMap<String, Value>,
    /// Seed of the shuffle.
    pub seed: Option<u64>,
    /// How many tasks wrote shards of their own.
    pub write_partitions: u32,
    /// How rows were spread over shards.
    pub sharding: Sharding,
    /// How shards are called, and where they lie. Since format 1.4.
    #[serde(default, skip_serializing_if = "SetLayout::is_shards")]
    pub layout: SetLayout,
    /// What one record is. Not known of records that were taken over from files without a manifest.
    pub record_type: Option<RecordType>,
    /// How shards are compressed.
    #[serde(with = "scalar::text")]
    pub compression: Compression,
    /// The columns of the rows, if they are known.
    pub schema: Option<SchemaDescription>,
    /// What the columns became, if that is known.
    pub mapping: Option<Value>,
    /// The splits, in order. None if the set is not split. Since format 1.3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitDescription>,
    /// The columns whose values tell the split of a row; none if the whole record does. Since format 1.3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split_by: Vec<String>,
    /// The columns whose values tell the directory of a row, in the order of the directories. Since format 1.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_columns: Option<SchemaDescription>,
    /// The runs that have added shards to those of [`run`](Self::run), oldest first. Since format 1.3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub appended: Vec<AppendedRun>,
    /// What the shards add up to.
    pub totals: Totals,
    /// The shards, in order: those of each run by partition directory, split and number.
    pub shards: Vec<ShardEntry>,
    /// Files beside the shards that tell other readers of the set. It is whole without them. Since format 1.4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<SidecarEntry>,
    /// Files, by their paths from the set's directory, that were there before this set and are ours to remove: as good as
    /// gone, but some may still be there. Only in object stores, where the manifest alone changes at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
}

/// A run that has added shards to a set, and what it was told where that may differ from run to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppendedRun {
    /// The run. The names of its shards tell it.
    pub run: String,
    /// When its shards became part of the set.
    #[serde(with = "scalar::rfc3339")]
    pub created: DateTime<Utc>,
    /// What wrote them, and its version.
    pub tool: String,
    /// The query, without secrets.
    pub query: Option<String>,
    /// The inputs, without secrets.
    pub inputs: Vec<String>,
    /// What else the user chose, without secrets.
    pub options: BTreeMap<String, Value>,
    /// Seed of the shuffle.
    pub seed: Option<u64>,
    /// How many tasks wrote shards of their own.
    pub write_partitions: u32,
    /// How rows were spread over shards.
    pub sharding: Sharding,
    /// How many shards it has added.
    pub shards: u64,
}

impl Manifest {
    /// The manifest of a set of these shards, created now.
    pub(crate) fn new(description: SetDescription, shards: Vec<ShardEntry>, run: &RunId) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            tool: TOOL.to_owned(),
            run: run.to_string(),
            created: Utc::now().trunc_subsecs(3),
            query: description.query,
            inputs: description.inputs,
            options: description.options,
            seed: description.seed,
            write_partitions: description.write_partitions,
            sharding: description.sharding,
            layout: description.layout,
            record_type: description.record_type,
            compression: description.compression,
            schema: description.schema,
            mapping: description.mapping,
            splits: description.splits,
            split_by: description.split_by,
            partition_columns: description.partition_columns,
            appended: Vec::new(),
            totals: Totals::of(&shards),
            shards,
            sidecars: Vec::new(),
            replaced: Vec::new(),
        }
    }

    /// The manifest of this set and of more shards, added now. That they are of its form, and the run is another than
    /// those before, [`check_append`](Self::check_append) tells.
    pub(crate) fn with_appended(&self, description: SetDescription, shards: Vec<ShardEntry>, run: &RunId) -> Self {
        let mut manifest = self.clone();
        manifest.format_version = FORMAT_VERSION;
        manifest.appended.push(AppendedRun {
            run: run.to_string(),
            created: Utc::now().trunc_subsecs(3),
            tool: TOOL.to_owned(),
            query: description.query,
            inputs: description.inputs,
            options: description.options,
            seed: description.seed,
            write_partitions: description.write_partitions,
            sharding: description.sharding,
            shards: shards.len() as u64,
        });
        // What told of the set as it was would be wrong.
        let standing = || self.shards.iter().map(|shard| shard.path.as_str());
        manifest.sidecars.retain(|sidecar| sidecar.is_index_of(standing()));
        manifest.shards.extend(shards);
        manifest.totals = Totals::of(&manifest.shards);
        manifest
    }

    /// The run that has changed the set last: the one that wrote it, or that has appended to it.
    pub fn last_run(&self) -> &str {
        self.appended.last().map_or(&self.run, |appended| &appended.run)
    }

    /// Every run that has written shards of the set.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.run.as_str()).chain(self.appended.iter().map(|appended| appended.run.as_str()))
    }

    /// Reads the manifest of the set in `dir`. Whether the set is whole, [`check`](crate::check) tells.
    ///
    /// # Errors
    /// When there is none, or none that this version of the crate understands, or when it contradicts itself: totals
    /// that are not the sum of the shards, or paths that lead out of the directory.
    pub fn read(dir: impl AsRef<Path>) -> Result<Self> {
        let path = dir.as_ref().join(MANIFEST_NAME);
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(ErrorKind::NotAFile { path }.into());
        }
        match fs::read(&path) {
            Ok(json) => Self::from_json(&json, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ErrorKind::NoManifest { path }.into()),
            Err(error) => Err(error).at("read", &path),
        }
    }

    /// Reads the manifest in `dir`, if there is one.
    pub(crate) fn read_if_any(dir: &Path) -> Result<Option<Self>> {
        match Self::read(dir) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) if matches!(error.kind(), ErrorKind::NoManifest { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a manifest that lies at `path`, in whatever store.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_json(json: &[u8], path: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        struct Version {
            format_version: FormatVersion,
        }
        let syntax = |source| ErrorKind::ManifestSyntax { path: path.to_owned(), source };
        // The version first: the rest of a newer manifest may look like anything.
        let Version { format_version: found } = serde_json::from_slice(json).map_err(syntax)?;
        if found.major != FORMAT_VERSION.major {
            return Err(ErrorKind::ManifestVersion { path: path.to_owned(), found }.into());
        }
        let manifest: Self = serde_json::from_slice(json).map_err(syntax)?;
        match manifest.contradiction() {
            Some(problem) => Err(ErrorKind::ManifestContent { path: path.to_owned(), problem }.into()),
            None => Ok(manifest),
        }
    }

    /// What is missing for a whole set, as far as names and sizes tell: `size_of` gives the size of a file, by its path
    /// from the set's directory, if there is one; `success` is whether there is a [`SUCCESS_NAME`].
    ///
    /// ```
    /// # fn show(manifest: &tfrecord_shards::Manifest) {
    /// // Nothing is there.
    /// let missing = manifest.disagreements(|_path| None, false);
    /// assert_eq!(missing.len(), manifest.shards.len() + 1);
    /// assert_eq!(missing[0].to_string(), "_SUCCESS is missing");
    /// # }
    /// ```
    pub fn disagreements(&self, size_of: impl Fn(&str) -> Option<u64>, success: bool) -> Vec<Disagreement> {
        let no_success = (!success).then_some(Disagreement::NoSuccess);
        let shards = self.shards.iter().filter_map(|ShardEntry { path, file_bytes, .. }| match size_of(path) {
            Some(found) if found == *file_bytes => None,
            Some(found) => Some(Disagreement::Size { path: path.clone(), expected: *file_bytes, found }),
            None => Some(Disagreement::Missing { path: path.clone() }),
        });
        no_success.into_iter().chain(shards).collect()
    }

    /// The first of the [`disagreements`](Self::disagreements), if there is one.
    pub fn disagreement(&self, size_of: impl Fn(&str) -> Option<u64>, success: bool) -> Option<Disagreement> {
        self.disagreements(size_of, success).into_iter().next()
    }

    /// The schema of the rows, if it is known.
    ///
    /// # Errors
    /// When its IPC form is damaged.
    pub fn arrow_schema(&self) -> Result<Option<SchemaRef>> {
        self.schema.as_ref().map(SchemaDescription::to_schema).transpose()
    }

    /// The options of the mapping; the default ones where the manifest tells none.
    ///
    /// # Errors
    /// When they are of a newer release.
    pub fn mapping_options(&self) -> Result<MappingOptions> {
        match self.options.get(MAPPING_OPTION) {
            Some(options) => Ok(MappingOptions::deserialize(options).map_err(ErrorKind::MappingOptions)?),
            None => Ok(MappingOptions::default()),
        }
    }

    /// Whether what it tells of the form of its records can be read.
    ///
    /// # Errors
    /// As [`arrow_schema`](Self::arrow_schema) and [`mapping_options`](Self::mapping_options).
    pub(crate) fn check_form(&self) -> Result<()> {
        self.arrow_schema()?;
        self.mapping_options()?;
        Ok(())
    }

    /// The paths of every file of the set, its marks included.
    pub(crate) fn file_names(&self) -> BTreeSet<String> {
        let shards = self.shards.iter().map(|shard| shard.path.as_str());
        let sidecars = self.sidecars.iter().map(|sidecar| sidecar.path.as_str());
        shards.chain(sidecars).chain([MANIFEST_NAME, SUCCESS_NAME]).map(str::to_owned).collect()
    }

    /// The files beside the shards that this manifest lists and the one of the grown set does not.
    pub fn stale_beside(&self, grown: &Self) -> Vec<String> {
        let is_kept = |path: &String| grown.sidecars.iter().any(|kept| kept.path == *path);
        self.sidecars.iter().map(|sidecar| sidecar.path.clone()).filter(|path| !is_kept(path)).collect()
    }

    /// The files beside the shards that would have to be written again if rows were added.
    pub fn describing_sidecars(&self) -> impl Iterator<Item = &str> {
        let shards = || self.shards.iter().map(|shard| shard.path.as_str());
        let describing = self.sidecars.iter().filter(move |sidecar| !sidecar.is_index_of(shards()));
        describing.map(|sidecar| sidecar.path.as_str())
    }

    /// As JSON, for people to read too, with a checksum of all of it: `manifest_crc32c`, since format 1.5.
    ///
    /// # Errors
    /// Never in practice; JSON has a form for every field.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        checksum::to_json(self)
    }

    /// Compares a manifest with the checksum that it states of itself, if it states one.
    pub(crate) fn changed(json: &[u8]) -> Option<FindingKind> {
        checksum::mismatch(json).map(|(expected, found)| FindingKind::ChangedManifest { expected, found })
    }

    /// How the columns stand in the records, if these have features and the manifest specifies their columns in a form that
    /// can be read.
    pub(crate) fn to_mapping(&self) -> Option<Mapping> {
        let has_features = matches!(self.record_type, Some(RecordType::Example | RecordType::SequenceExample));
        if !has_features || self.layout != SetLayout::Shards {
            return None;
        }
        let (schema, options) = (self.arrow_schema().ok()??, self.mapping_options().ok()?);
        Mapping::try_new(&schema, &options.with_strict(false)).ok()
    }
}

#[cfg(test)]
mod tests;
