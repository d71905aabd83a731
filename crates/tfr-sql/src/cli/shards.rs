//! How records are cut into shards: options of a query and of `reshard`.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};

use clap::{Args, ValueEnum};
use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{SaveMode, Sharding};

use super::{Misuse, values};

/// Options that say how TFRecord shards and their records are written. They need a target, which must not be a table.
pub(super) const OF_SHARDS: [&str; 22] = [
    "shards",
    "shard_size",
    "shard_rows",
    "hosts",
    "shuffle",
    "seed",
    "splits",
    "split_by",
    "partition_by",
    "keep_partition_columns",
    "prefix",
    "compression",
    "level",
    "maps",
    "map_file",
    "nulls",
    "record_type",
    "sequences",
    "separator",
    "strict",
    "emit",
    "layout",
];

/// How records are cut into shards.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct ShardArgs {
    /// Write exactly N shards, balanced by rows
    #[arg(long, value_name = "N", group = "sharding", value_parser = values::shard_counts)]
    shards: Option<values::ShardCounts>,

    /// Close a shard at this many bytes of records [default: 128MiB]
    #[arg(long, value_name = "SIZE", group = "sharding", value_parser = values::size)]
    shard_size: Option<NonZeroU64>,

    /// Close a shard at this many rows
    #[arg(long, value_name = "N", group = "sharding", value_parser = values::count)]
    shard_rows: Option<NonZeroUsize>,

    /// Cut shards for N hosts that read them: 10 a host, none under 100 MiB
    ///
    /// The rule of thumb of TensorFlow's guides. Records of less than 100 MiB altogether become one shard.
    #[arg(long, value_name = "N", group = "sharding", value_parser = values::count, hide_short_help = true)]
    hosts: Option<NonZeroUsize>,

    /// Name shards <PREFIX>-00003-of-00016.tfrecord
    #[arg(long, value_name = "PREFIX", default_value = "part", value_parser = values::prefix, hide_short_help = true)]
    pub prefix: String,

    /// none, gzip or zlib, by TensorFlow's names
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub compression: Compression,

    /// Compression level, 0 to 9 [default: 6]
    #[arg(long, value_name = "LEVEL", value_parser = values::level, hide_short_help = true)]
    level: Option<Level>,

    #[command(flatten)]
    mode: ModeArg,
}

/// What becomes of an earlier output.
#[derive(Debug, Args)]
#[group(skip)]
pub struct ModeArg {
    /// On an earlier output: error (default), overwrite, append or ignore
    ///
    /// overwrite replaces what is there, once the new output is complete. append adds shards to the set that is there, if
    /// columns, mapping and compression are the same. ignore does nothing if anything is there, and says so. A directory
    /// that holds anything but an output of tfr-sql is never written to.
    #[arg(long, value_name = "MODE", default_value = "error", hide_possible_values = true, hide_default_value = true)]
    mode: Mode,
}

/// What to do with an earlier output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Leave it and fail.
    Error,
    /// Replace it once the new one is complete.
    Overwrite,
    /// Add to it.
    Append,
    /// Leave it, and do nothing.
    Ignore,
}

impl ModeArg {
    /// What to do with an earlier output.
    pub fn mode(&self) -> SaveMode {
        match self.mode {
            Mode::Error => SaveMode::Error,
            Mode::Overwrite => SaveMode::Overwrite,
            Mode::Append => SaveMode::Append,
            Mode::Ignore => SaveMode::Ignore,
        }
    }
}

impl ShardArgs {
    /// How rows are cut into shards.
    pub fn sharding(&self) -> Sharding {
        match (&self.shards, self.shard_size, self.shard_rows, self.hosts) {
            (Some(values::ShardCounts::Each(count)), ..) => Sharding::Count(*count),
            (_, Some(bytes), ..) => Sharding::Bytes(bytes.get()),
            (_, _, Some(rows), _) => Sharding::Rows(rows.get() as u64),
            (.., Some(hosts)) => Sharding::Hosts(hosts),
            _ => Sharding::default(),
        }
    }

    /// Splits with a number of shards of their own.
    pub fn split_shards(&self) -> BTreeMap<String, NonZeroUsize> {
        match &self.shards {
            Some(values::ShardCounts::Splits(shards)) => shards.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// What to do with an earlier output.
    pub fn mode(&self) -> SaveMode {
        self.mode.mode()
    }

    /// Compression level.
    pub fn level(&self) -> Level {
        self.level.unwrap_or_default()
    }

    pub(super) fn check(&self) -> Result<(), Misuse> {
        match self.level.is_some() && self.compression == Compression::None {
            true => Err(Misuse::missing("--level needs --compression gzip or --compression zlib")),
            false => Ok(()),
        }
    }

    /// The same for a tool, which knows no splits.
    pub(super) fn check_tool(&self) -> Result<(), Misuse> {
        match self.split_shards().keys().next() {
            Some(split) => Err(Misuse::value(format!("--shards {split}=… is for a query with --split"))),
            None => self.check(),
        }
    }
}
