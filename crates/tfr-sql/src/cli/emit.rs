//! `--emit` and `--layout`: the sidecar files of the shards, and the layout of the output.

use arrow_tfrecord::NullPolicy;
use clap::{Args, ValueEnum};
use datafusion_tfrecord::WriteOptions;
use datafusion_tfrecord::write::{Emit, Layout, SidecarKind, SnapshotNulls};
use tfrecord_framing::{Compression, RecordFormat};
use tfrecord_shards::SaveMode;

use super::declared::{Declared, Mapping};
use super::shards::of_shards;
use super::{Given, Misuse};

/// The sidecar files to write.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct EmitArgs {
    /// Also write sidecar files: tfds, tfmd, parse-fn, stats, index
    ///
    /// Separate names with commas: tfds,index. tfds: dataset_info.json, features.json and label files, for
    /// tfds.builder_from_directory; a column with the map rule index is a class label. tfmd: schema.pbtxt, for TFX and
    /// TensorFlow Data Validation, with the types, presence, shapes and domains found in the rows. parse-fn:
    /// _parse_example.py, a module that reads the shards and requires only TensorFlow. stats: _stats.pb for TensorFlow
    /// Data Validation, and the page _stats.html. index: _<shard>.idx, with the offset of each record, for NVIDIA DALI
    /// and others.
    ///
    /// All files are made in the pass that writes the shards, and published with them. For TFRecord files, tfds and
    /// index require --compression none. For ArrayRecord files, tfds takes zstd too, and there is no index or parse-fn.
    /// After appending with --mode append, describe the whole set: tfr-sql describe DIR.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    emit: Vec<SidecarKind>,

    /// Write shards (default), or a snapshot for tf.data.Dataset.load
    ///
    /// A snapshot contains tensors instead of Examples: every column has its own type, the number of rows is recorded,
    /// and nothing needs parsing. Elements are dicts by column. Text is a string, a time the integer of its unit, a
    /// list a tensor with one unknown dimension, a struct a dict. A null is an error that names its column; with
    /// --null mask it is zero, and a column c/is_null marks it. Decimals, maps and lists of structs are rejected.
    /// --shards N sets the number of files that can be read in parallel [default: one for each thread; one for a query
    /// with ORDER BY]. With --compression gzip, load it with tf.data.Dataset.load(dir, compression="GZIP").
    #[arg(
        long,
        value_name = "LAYOUT",
        default_value = "shards",
        hide_short_help = true,
        hide_possible_values = true,
        hide_default_value = true
    )]
    layout: LayoutName,
}

/// The layout of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LayoutName {
    /// Shards of records.
    Shards,
    /// A saved dataset.
    Snapshot,
}

/// Shard options that also apply to a saved dataset.
const OF_SNAPSHOTS: [&str; 4] = ["shards", "compression", "null", "layout"];

impl EmitArgs {
    /// Returns the sidecar files to write.
    pub fn emit(&self) -> Emit {
        self.emit.iter().copied().collect()
    }

    /// Returns the layout of the output, with its representation of nulls.
    pub fn layout(&self, nulls: NullPolicy) -> Layout {
        match (self.layout, nulls) {
            (LayoutName::Shards, _) => Layout::Shards,
            (LayoutName::Snapshot, NullPolicy::Mask) => Layout::Snapshot(SnapshotNulls::Mask),
            (LayoutName::Snapshot, _) => Layout::Snapshot(SnapshotNulls::Refuse),
        }
    }

    /// Rejects options that do not apply to a saved dataset.
    pub(super) fn check_snapshot(
        &self,
        given: &Given,
        write: &WriteOptions,
        mapping: &Declared<Mapping>,
    ) -> Result<(), Misuse> {
        if self.layout == LayoutName::Shards {
            return Ok(());
        }
        let refuse = |what: &str| Err(Misuse::conflict(format!("{what} cannot be used with '--layout snapshot'")));
        let of_records = of_shards().into_iter().filter(|option| !OF_SNAPSHOTS.contains(option));
        let of_records: Vec<_> = of_records.chain(["dry_run"]).collect();
        if let Some(option) = given.first_of(&of_records) {
            return refuse(&format!("the argument '{option}' is for shards of records and"));
        }
        if !write.split_shards.is_empty() {
            return refuse("--shards NAME=N");
        }
        if write.compression == Compression::Zlib {
            return refuse("--compression zlib: tf.data.Dataset.load knows none or gzip; it");
        }
        if write.mode.keeps_set() {
            let replaces = write.mode == SaveMode::OverwritePartitions;
            return refuse(if replaces { "--mode overwrite-partitions" } else { "--mode append" });
        }
        match mapping.options().nulls {
            NullPolicy::Error | NullPolicy::Mask => Ok(()),
            _ if !mapping.has("null") => Ok(()),
            other => refuse(&format!("--null {other}: a tensor has no null; error and mask can be, it")),
        }
    }

    pub(super) fn check(&self, write: &WriteOptions) -> Result<(), Misuse> {
        let format = write.record_format;
        if let Some(kind) = self.emit.iter().find(|kind| format != RecordFormat::TfRecord && kind.needs_frames()) {
            let instead = match kind {
                SidecarKind::Index => "its files have an index themselves",
                _ => "the module reads TFRecord",
            };
            return Err(Misuse::conflict(format!(
                "--emit {kind} cannot be used with --record-format {format}: {instead}"
            )));
        }
        let of_plain_files = [SidecarKind::Tfds, SidecarKind::Index];
        if let Some(kind) = self.emit.iter().find(|kind| of_plain_files.contains(kind))
            && write.compression != Compression::None
        {
            return Err(Misuse::conflict(format!(
                "--emit {kind} cannot be used with --compression {}: its readers take no compressed shards",
                write.compression
            )));
        }
        if !write.partition_by.is_empty() && self.emit.contains(&SidecarKind::Tfds) {
            return Err(Misuse::conflict(
                "--emit tfds cannot be used with --partition-by: TensorFlow Datasets looks for shards in one directory",
            ));
        }
        Ok(())
    }
}
