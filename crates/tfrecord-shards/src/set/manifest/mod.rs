//! [`Manifest`]: describes the contents of a set, its sources and how it was written.
//!
//! Its JSON is specified by `schemas/manifest.schema.json`. A minor version may add fields, and readers ignore unknown
//! fields.

mod appended;
mod checksum;
mod contradiction;
mod framing;
mod splits;

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
use tfrecord_framing::{Compression, Framing, RecordFormat};

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

use appended::is_zero;
use framing::is_default;

pub use appended::AppendedRun;
pub use framing::ChunkDescription;
pub use splits::SplitDescription;

/// Approximate distance of a shard's [`offsets`](ShardEntry::offsets) in framed bytes, 16 MiB; each is rounded up to
/// the next position where a reader can start. Large enough to be worth a thread, and few enough positions to list.
pub const OFFSET_INTERVAL: u64 = 16 << 20;

/// Key of the mapping options in [`SetDescription::options`].
pub(crate) const MAPPING_OPTION: &str = "mapping";

/// The tool that writes manifests. All crates of the project have one version.
const TOOL: &str = concat!("tfr-sql ", env!("CARGO_PKG_VERSION"));

/// The properties of a set that are known before its first row is written.
#[derive(Debug, Clone, PartialEq)]
pub struct SetDescription {
    /// Prefix of shard names: `part`, or the name of a split.
    pub prefix: String,
    /// The format of the shards, and their compression.
    pub framing: Framing,
    /// How rows are assigned to shards.
    pub sharding: Sharding,
    /// Names and directories of the shards.
    pub layout: SetLayout,
    /// The columns of the rows, if they are known.
    pub schema: Option<SchemaDescription>,
    /// The mapping of columns to features, if known.
    pub mapping: Option<Value>,
    /// The type of a record, if known.
    pub record_type: Option<RecordType>,
    /// The query, without secrets.
    pub query: Option<String>,
    /// The inputs, without secrets.
    pub inputs: Vec<String>,
    /// Other options of the user, without secrets. They include the mapping options.
    pub options: BTreeMap<String, Value>,
    /// Seed of the shuffle.
    pub seed: Option<u64>,
    /// Number of tasks that write their own shards. Equal rows in equally many partitions give equal bytes.
    pub write_partitions: u32,
    /// The splits, in the order of the set. Empty if the set is not split.
    pub splits: Vec<SplitDescription>,
    /// The columns whose values determine the split of a row. If empty, the whole record determines it.
    pub split_by: Vec<String>,
    /// The column whose values are the names of the splits, which then follow from the shards.
    pub split_column: Option<String>,
    /// The columns whose values determine the directory of a row, in the order of the directories. The records contain
    /// them only if `schema` does too.
    pub partition_columns: Option<SchemaDescription>,
    /// Whether an append may add columns to the set, which are null in its existing rows. Not recorded.
    pub add_columns: bool,
    /// Whether rows that are added to a set replace the partitions that they name. Not recorded.
    pub replace_partitions: bool,
    /// The number of damaged records of the inputs that were passed over.
    pub damaged_records: u64,
    /// The rows that did not fit, if such rows were rejected.
    pub rejects: Option<RejectedRows>,
}

/// The rows of a query that did not fit, and where they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RejectedRows {
    /// Number of rows.
    pub rows: u64,
    /// The table that contains them: a path or URL as named by the user, without secrets.
    pub table: String,
}

impl RejectedRows {
    /// Describes this number of rows in a table.
    pub fn new(rows: u64, table: String) -> Self {
        Self { rows, table }
    }
}

/// Names and directories of shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SetLayout {
    /// `part-00003-of-00016.tfrecord`, in the directories of their partition values.
    #[default]
    Shards,
    /// `1/00000003.shard/00000000.snapshot`, as `tf.data.Dataset.load` expects. Their records are tensors.
    Snapshot,
}

impl SetLayout {
    fn is_shards(&self) -> bool {
        *self == Self::Shards
    }

    /// Returns the path of a shard relative to the set's directory, if the layout determines it rather than the names.
    pub(crate) fn path(self, index: usize) -> Option<String> {
        (self == Self::Snapshot).then(|| format!("{SNAPSHOT_RUN}/{index:08}.shard/00000000.snapshot"))
    }
}

/// The directory of the shards of a [`Snapshot`](SetLayout::Snapshot), which TensorFlow calls a run.
pub const SNAPSHOT_RUN: &str = "1";

impl SetDescription {
    /// Describes a set of uncompressed shards named `part-...`, written in one partition, of rows with this mapping.
    ///
    /// # Errors
    /// If the schema of the rows cannot be encoded as Arrow IPC.
    pub fn new(mapping: &Mapping, options: &MappingOptions) -> Result<Self> {
        Ok(Self {
            schema: Some(SchemaDescription::try_new(mapping.schema())?),
            mapping: Some(serde_json::to_value(mapping)?),
            record_type: Some(options.record_type),
            options: BTreeMap::from([(MAPPING_OPTION.to_owned(), serde_json::to_value(options)?)]),
            ..Self::of_records()
        })
    }

    /// Describes a set of records without a known schema or mapping.
    pub fn of_records() -> Self {
        Self {
            prefix: "part".to_owned(),
            framing: Framing::default(),
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
            split_column: None,
            partition_columns: None,
            add_columns: false,
            replace_partitions: false,
            damaged_records: 0,
            rejects: None,
        }
    }
}

/// Totals over all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// Number of shards.
    pub shards: u64,
    /// Number of records.
    pub rows: u64,
    /// Length in bytes of the records with their frames, before compression.
    pub framed_bytes: u64,
    /// Length of the files in bytes.
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
#[non_exhaustive]
pub struct ShardEntry {
    /// Its path relative to the set's directory, with `/`.
    pub path: String,
    /// The split it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The partition values that its rows share. `None` is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Number of records.
    pub rows: u64,
    /// Length in bytes of the records with their frames, before compression.
    pub framed_bytes: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// CRC-32C of the file, not masked. Eight hexadecimal digits in JSON.
    #[serde(with = "scalar::hex")]
    pub crc32c: u32,
    /// Positions other than the start where a reader can start, in order: about one per [`OFFSET_INTERVAL`]. Empty for
    /// a shard that can only be read from its start, and in sets of format 1.0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<RecordOffset>,
}

impl From<&ShardEntry> for ShardFigures {
    fn from(shard: &ShardEntry) -> Self {
        let ShardEntry { rows, framed_bytes, file_bytes, crc32c, .. } = *shard;
        Self { rows, framed_bytes, file_bytes, crc32c }
    }
}

/// A position in a shard where a reader can start: the start of a record and, in a gzip file, of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordOffset {
    /// Number of records before it.
    pub record: u64,
    /// Length in bytes of the records before it with their frames, before compression.
    pub framed: u64,
    /// Offset in the file, in bytes. Equal to `framed` in an uncompressed file.
    pub file: u64,
}

/// A difference between a directory and its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disagreement {
    /// [`SUCCESS_NAME`] is missing.
    NoSuccess,
    /// A shard is missing.
    Missing {
        /// Its path relative to the set's directory.
        path: String,
    },
    /// A shard's length has changed.
    Size {
        /// Its path relative to the set's directory.
        path: String,
        /// Its length in the manifest, in bytes.
        expected: u64,
        /// Its length found, in bytes.
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

/// The contents of `_manifest.json`.
///
/// Equal inputs and options give equal manifests, except for [`run`](Self::run) and [`created`](Self::created), also
/// those of [appended runs](Self::appended), whose shard names contain the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Version of the manifest's format.
    pub format_version: FormatVersion,
    /// The tool that wrote the set, with its version.
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
    /// Other options of the user, without secrets.
    pub options: BTreeMap<String, Value>,
    /// Seed of the shuffle.
    pub seed: Option<u64>,
    /// Number of tasks that wrote their own shards.
    pub write_partitions: u32,
    /// How rows were assigned to shards.
    pub sharding: Sharding,
    /// Names and directories of the shards. Since format 1.4.
    #[serde(default, skip_serializing_if = "SetLayout::is_shards")]
    pub layout: SetLayout,
    /// The type of a record. Unknown for records copied from files without a manifest.
    pub record_type: Option<RecordType>,
    /// The format of the shards. Since format 1.6.
    #[serde(with = "scalar::text", default, skip_serializing_if = "is_default")]
    pub record_format: RecordFormat,
    /// The chunks of the shards, if their format has chunks. Since format 1.6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<ChunkDescription>,
    /// Compression of the shards as whole files. Chunks have one of their own.
    #[serde(with = "scalar::text")]
    pub compression: Compression,
    /// The columns of the rows, if they are known.
    pub schema: Option<SchemaDescription>,
    /// The mapping of columns to features, if known.
    pub mapping: Option<Value>,
    /// The splits, in order. Empty if the set is not split. Since format 1.3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitDescription>,
    /// The columns whose values determine the split of a row. If empty, the whole record determines it. Since format
    /// 1.3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub split_by: Vec<String>,
    /// The column whose values are the names of the splits. The records do not contain it. Since format 1.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split_column: Option<String>,
    /// The columns whose values determine the directory of a row, in the order of the directories. Since format 1.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_columns: Option<SchemaDescription>,
    /// The number of damaged records of the inputs that [`run`](Self::run) passed over. Since format 1.5.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged_records: u64,
    /// The rows that did not fit, if [`run`](Self::run) rejected such rows. Since format 1.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects: Option<RejectedRows>,
    /// The runs that appended shards to those of [`run`](Self::run), oldest first. Since format 1.3.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub appended: Vec<AppendedRun>,
    /// Totals over all shards.
    pub totals: Totals,
    /// The shards, in order: those of each run by partition directory, split and number.
    pub shards: Vec<ShardEntry>,
    /// Sidecars that describe the set to other readers. The set is complete without them. Since format 1.4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<SidecarEntry>,
    /// Files of ours from before the [last run](Self::last_run) that are not part of the set any more, by their paths relative
    /// to the set's directory. Some may still exist. Only where the manifest was the only file that was replaced atomically:
    /// in object stores, and in sets whose partitions or sidecars were replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
}

impl Manifest {
    /// Creates the manifest of a set of these shards, created now.
    pub(crate) fn new(description: SetDescription, shards: Vec<ShardEntry>, run: &RunId) -> Self {
        let mut manifest = Self {
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
            record_format: description.framing.format(),
            chunks: description.framing.chunks().map(Into::into),
            compression: description.framing.compression(),
            schema: description.schema,
            mapping: description.mapping,
            splits: description.splits,
            split_by: description.split_by,
            split_column: description.split_column,
            partition_columns: description.partition_columns,
            damaged_records: description.damaged_records,
            rejects: description.rejects,
            appended: Vec::new(),
            totals: Totals::of(&shards),
            shards,
            sidecars: Vec::new(),
            replaced: Vec::new(),
        };
        manifest.describe_splits();
        manifest
    }

    /// Returns the last run that changed the set: the one that wrote it or the last to append.
    pub fn last_run(&self) -> &str {
        self.appended.last().map_or(&self.run, |appended| &appended.run)
    }

    /// Returns every run that wrote shards of the set.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.run.as_str()).chain(self.appended.iter().map(|appended| appended.run.as_str()))
    }

    /// Reads the manifest of the set in `dir`. Use [`check`](crate::check) to find out whether the set is complete.
    ///
    /// # Errors
    /// If the manifest is missing, has an unsupported format, was changed after it was written
    /// ([`ErrorKind::ChangedManifest`]), or contradicts itself: totals that are not the sum of the shards, or paths
    /// outside of the directory.
    pub fn read(dir: impl AsRef<Path>) -> Result<Self> {
        Self::read_with(dir.as_ref(), Self::from_json)
    }

    /// Reads the manifest of the set in `dir`; `None` if there is none.
    ///
    /// # Errors
    /// Same as [`Self::read`], except for a missing manifest.
    pub fn find(dir: impl AsRef<Path>) -> Result<Option<Self>> {
        match Self::read(dir) {
            Err(error) if matches!(error.kind(), ErrorKind::NoManifest { .. }) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Reads the manifest of the set in `dir`, even if it was changed, which is returned as a finding.
    pub(crate) fn read_changed(dir: &Path) -> Result<(Self, Option<FindingKind>)> {
        Self::read_with(dir, Self::from_changed_json)
    }

    fn read_with<T>(dir: &Path, parse: impl FnOnce(&[u8], &Path) -> Result<T>) -> Result<T> {
        let path = dir.join(MANIFEST_NAME);
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(ErrorKind::NotAFile { path }.into());
        }
        match fs::read(&path) {
            Ok(json) => parse(&json, &path),
            // There is none beside a single file either.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(ErrorKind::NoManifest { path }.into())
            }
            Err(error) => Err(error).at("read", &path),
        }
    }

    /// Parses a manifest. `path` is its location in any store, for error messages.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn from_json(json: &[u8], path: &Path) -> Result<Self> {
        match Self::from_changed_json(json, path)? {
            (_, Some(FindingKind::ChangedManifest { expected, found })) => {
                Err(ErrorKind::ChangedManifest { path: path.to_owned(), expected, found }.into())
            }
            (manifest, _) => Ok(manifest),
        }
    }

    /// Parses a manifest, even if it was changed, which is returned as a finding.
    pub(crate) fn from_changed_json(json: &[u8], path: &Path) -> Result<(Self, Option<FindingKind>)> {
        #[derive(Deserialize)]
        struct Version {
            format_version: FormatVersion,
        }
        let syntax = |source| ErrorKind::ManifestSyntax { path: path.to_owned(), source };
        // The version first, because the rest of a newer manifest may have any structure.
        let Version { format_version: found } = serde_json::from_slice(json).map_err(syntax)?;
        if found.major != FORMAT_VERSION.major {
            return Err(ErrorKind::ManifestVersion { path: path.to_owned(), found }.into());
        }
        let manifest: Self = serde_json::from_slice(json).map_err(syntax)?;
        match manifest.contradiction() {
            Some(problem) => Err(ErrorKind::ManifestContent { path: path.to_owned(), problem }.into()),
            None => Ok((manifest, Self::changed(json))),
        }
    }

    /// Returns what is missing for a complete set, by names and lengths. `size_of` returns the length of a file by its
    /// path relative to the set's directory, or `None`. `success` is whether [`SUCCESS_NAME`] exists.
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

    /// Returns the first of the [`disagreements`](Self::disagreements), if any.
    pub fn disagreement(&self, size_of: impl Fn(&str) -> Option<u64>, success: bool) -> Option<Disagreement> {
        self.disagreements(size_of, success).into_iter().next()
    }

    /// Returns the schema of the rows, if it is known.
    ///
    /// # Errors
    /// If its IPC encoding is damaged.
    pub fn arrow_schema(&self) -> Result<Option<SchemaRef>> {
        self.schema.as_ref().map(SchemaDescription::to_schema).transpose()
    }

    /// Returns the mapping options; the defaults if the manifest records none.
    ///
    /// # Errors
    /// If a newer release wrote them.
    pub fn mapping_options(&self) -> Result<MappingOptions> {
        match self.options.get(MAPPING_OPTION) {
            Some(options) => Ok(MappingOptions::deserialize(options).map_err(ErrorKind::MappingOptions)?),
            None => Ok(MappingOptions::default()),
        }
    }

    /// Checks that the record format in the manifest can be read.
    ///
    /// # Errors
    /// As [`arrow_schema`](Self::arrow_schema) and [`mapping_options`](Self::mapping_options).
    pub(crate) fn check_form(&self) -> Result<()> {
        self.arrow_schema()?;
        self.mapping_options()?;
        Ok(())
    }

    /// Returns the paths of every file of the set, including the manifest and [`SUCCESS_NAME`].
    pub(crate) fn file_names(&self) -> BTreeSet<String> {
        let shards = self.shards.iter().map(|shard| shard.path.as_str());
        let sidecars = self.sidecars.iter().map(|sidecar| sidecar.path.as_str());
        shards.chain(sidecars).chain([MANIFEST_NAME, SUCCESS_NAME]).map(str::to_owned).collect()
    }

    /// Returns the paths of every file of the set, and of those that it has replaced.
    pub(crate) fn own_names(&self) -> BTreeSet<String> {
        let mut names = self.file_names();
        names.extend(self.replaced.iter().cloned());
        names
    }

    /// Returns the sidecars that an append makes outdated.
    pub fn describing_sidecars(&self) -> impl Iterator<Item = &str> {
        let shards = || self.shards.iter().map(|shard| shard.path.as_str());
        let describing = self.sidecars.iter().filter(move |sidecar| !sidecar.is_index_of(shards()));
        describing.map(|sidecar| sidecar.path.as_str())
    }

    /// Serializes the manifest as indented JSON, with a checksum of its content: `manifest_crc32c`, since format 1.5.
    ///
    /// # Errors
    /// Never in practice; every field can be represented in JSON.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        checksum::to_json(self)
    }

    /// Compares a manifest with its stored checksum, if it has one.
    fn changed(json: &[u8]) -> Option<FindingKind> {
        checksum::mismatch(json).map(|(expected, found)| FindingKind::ChangedManifest { expected, found })
    }

    /// Returns the mapping of columns to features, if the records have features and the manifest's columns can be read.
    pub(crate) fn to_mapping(&self) -> Option<Mapping> {
        let has_features = self.record_type.is_some_and(|record_type| record_type != RecordType::Bytes);
        if !has_features || self.layout != SetLayout::Shards {
            return None;
        }
        let (schema, options) = (self.arrow_schema().ok()??, self.mapping_options().ok()?);
        Mapping::try_new(&schema, &options.with_strict(false)).ok()
    }
}

#[cfg(test)]
mod tests;
