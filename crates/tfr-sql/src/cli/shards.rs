//! Rules between shard options that clap cannot express.

use clap::Arg;
use datafusion_tfrecord::{SplitOptions, WriteOptions};
use tfrecord_framing::{Compression, FramingConflict, RecordFormat};
use tfrecord_shards::SaveMode;

use super::Misuse;
use super::declared::{Declared, Mapping, Moving, OptionGroup as _, Writing};

/// Returns the ids of the options for TFRecord shards and their records. They require a target, which must not be a
/// table.
pub(super) fn of_shards() -> Vec<&'static str> {
    let written = Writing::ids().filter(|id| *id != "mode");
    written.chain(Mapping::ids()).chain(["maps", "map_file", "emit", "layout", "rejects", "max_rejects"]).collect()
}

/// Makes options for written rows require a target.
pub(super) fn writing_needs_a_target(option: Arg) -> Arg {
    let id = option.get_id().as_str();
    let is_kept = id == "keep_partition_columns";
    let is_written = id == "mode" || of_shards().contains(&id);
    let option = if is_written { option.requires("target") } else { option };
    if is_kept { option.requires("partition_by") } else { option }
}

/// Checks the options of a query.
pub(super) fn check(given: &Declared<Writing>) -> Result<(), Misuse> {
    let write = given.options();
    check_framing(given.has("level"), &write)?;
    if write.add_columns && !write.mode.keeps_set() {
        return Err(Misuse::missing("--add-columns needs --mode append or --mode overwrite-partitions"));
    }
    if write.mode == SaveMode::OverwritePartitions && write.partition_by.is_empty() {
        return Err(Misuse::missing(
            "--mode overwrite-partitions needs --partition-by, whose directories it replaces\n\n\
             hint: name the columns that the set is partitioned by, or replace all of it with --mode overwrite",
        ));
    }
    if given.has("split_by") && matches!(write.splits, Some(SplitOptions::Rows(_))) {
        return Err(Misuse::conflict("--split-by cannot be used with exact numbers of rows, which would divide keys"));
    }
    let split = write.split_shards.keys().next();
    match (&write.splits, split) {
        (None, Some(split)) => Err(Misuse::missing(format!(
            "--shards {split}=… needs --split\n\nhint: without splits give one number: --shards 16"
        ))),
        (Some(by), Some(_)) => match write.split_shards.keys().find(|split| !by.may_have(split)) {
            Some(unknown) => {
                let names = by.names().join(", ");
                Err(Misuse::value(format!("--shards: there is no split {unknown:?}\n\nhint: the splits are {names}")))
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Checks the options of a tool, which does not support splits.
pub(super) fn check_tool(given: &Declared<Moving>) -> Result<(), Misuse> {
    let write = given.options();
    if write.mode == SaveMode::OverwritePartitions {
        return Err(Misuse::value("--mode overwrite-partitions is for a query with --partition-by"));
    }
    match write.split_shards.keys().next() {
        Some(split) => Err(Misuse::value(format!("--shards {split}=… is for a query with --split"))),
        None => check_framing(given.has("level"), &write),
    }
}

/// Checks the format of shards, its compression and the level of that.
fn check_framing(has_level: bool, write: &WriteOptions) -> Result<(), Misuse> {
    if let Err(conflict) = write.framing() {
        let format = &write.record_format;
        return Err(match conflict {
            FramingConflict::Compression { compression, expected, .. } => Misuse::conflict(format!(
                "--compression {compression} cannot be used with --record-format {format}, which has {expected}"
            )),
            FramingConflict::GroupSize { .. } => Misuse::missing(
                "--group-size needs --record-format array_record: only its files have groups of records",
            ),
            FramingConflict::Level { format: RecordFormat::TfRecord, .. } => level_without_compression(),
            FramingConflict::Level { level, .. } => Misuse::conflict(format!(
                "--level {level} cannot be used with --record-format {format}: only gzip and zlib have levels"
            )),
            other => Misuse::conflict(other.to_string()),
        });
    }
    match has_level && write.compression == Compression::None {
        true => Err(level_without_compression()),
        false => Ok(()),
    }
}

fn level_without_compression() -> Misuse {
    Misuse::missing("--level needs --compression gzip or --compression zlib")
}
