//! [`StoredOptions`]: write options for another process.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;

use arrow_tfrecord::MappingOptions;
use datafusion_common::{DataFusionError, Result};
use serde::{Deserialize, Serialize};
use tfrecord_framing::Level;
use tfrecord_shards::{SaveMode, Sharding};
use tfrecord_sidecars::SidecarKind;

use super::options::{Layout, SplitOptions, WriteOptions};
use super::target::WriteTarget;
use crate::error::ErrorKind;

/// [`WriteOptions`] that can be serialized, for [`plan_tasks`](super::plan_tasks) in another process. Threads are up to
/// each process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredOptions {
    out: String,
    mapping: MappingOptions,
    sharding: Sharding,
    split_shards: BTreeMap<String, NonZeroUsize>,
    shuffle: Option<u64>,
    splits: Option<StoredSplits>,
    partition_by: Vec<String>,
    keep_partition_columns: bool,
    prefix: String,
    compression: String,
    level: u32,
    mode: SaveMode,
    add_columns: bool,
    emit: Vec<String>,
    ordered: bool,
    expected_rows: Option<u64>,
    query: Option<String>,
    inputs: Vec<String>,
    recorded: BTreeMap<String, serde_json::Value>,
}

/// [`SplitOptions`] to be stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum StoredSplits {
    Hash { splits: String, by: Vec<String> },
    Rows(String),
    Column(String),
}

impl From<&SplitOptions> for StoredSplits {
    fn from(options: &SplitOptions) -> Self {
        match options {
            SplitOptions::Hash { splits, by } => Self::Hash { splits: splits.to_string(), by: by.clone() },
            SplitOptions::Rows(splits) => Self::Rows(splits.to_string()),
            SplitOptions::Column(column) => Self::Column(column.clone()),
        }
    }
}

impl StoredSplits {
    /// Returns the options; the error is the invalid text.
    fn options(&self) -> Result<SplitOptions, &String> {
        Ok(match self {
            Self::Hash { splits, by } => {
                SplitOptions::Hash { splits: splits.parse().map_err(|_| splits)?, by: by.clone() }
            }
            Self::Rows(splits) => SplitOptions::Rows(splits.parse().map_err(|_| splits)?),
            Self::Column(column) => SplitOptions::Column(column.clone()),
        })
    }
}

impl StoredOptions {
    /// Stores these options.
    ///
    /// # Errors
    /// The set is a saved dataset, which tasks do not write ([`ErrorKind::Tasks`]).
    pub fn new(options: &WriteOptions) -> Result<Self> {
        if options.layout != Layout::Shards {
            return Err(ErrorKind::Tasks { problem: "tasks do not write a saved dataset of tf.data".to_owned() }.into());
        }
        Ok(Self {
            out: options.out.to_string(),
            mapping: options.mapping.clone(),
            sharding: options.sharding,
            split_shards: options.split_shards.clone(),
            shuffle: options.shuffle,
            splits: options.splits.as_ref().map(Into::into),
            partition_by: options.partition_by.clone(),
            keep_partition_columns: options.keep_partition_columns,
            prefix: options.prefix.clone(),
            compression: options.compression.to_string(),
            level: options.level.get(),
            mode: options.mode,
            add_columns: options.add_columns,
            emit: options.emit.kinds().map(|kind| kind.to_string()).collect(),
            ordered: options.ordered,
            expected_rows: options.expected_rows,
            query: options.query.clone(),
            inputs: options.inputs.clone(),
            recorded: options.recorded.clone(),
        })
    }

    /// Returns the options.
    ///
    /// # Errors
    /// A value is not one of an option ([`ErrorKind::Tasks`]).
    pub fn options(&self) -> Result<WriteOptions> {
        let refused = |option: &'static str, value: &dyn fmt::Display| -> DataFusionError {
            let problem = format!("the stored option {option} has the invalid value {:?}", value.to_string());
            ErrorKind::Tasks { problem }.into()
        };
        let target = WriteTarget::parse(&self.out).map_err(|_| refused("out", &self.out))?;
        let kind = |kind: &String| kind.parse::<SidecarKind>().map_err(|_| refused("emit", kind));
        Ok(WriteOptions {
            mapping: self.mapping.clone(),
            sharding: self.sharding,
            split_shards: self.split_shards.clone(),
            shuffle: self.shuffle,
            splits: self
                .splits
                .as_ref()
                .map(StoredSplits::options)
                .transpose()
                .map_err(|text| refused("splits", text))?,
            partition_by: self.partition_by.clone(),
            keep_partition_columns: self.keep_partition_columns,
            prefix: self.prefix.clone(),
            compression: self.compression.parse().map_err(|_| refused("compression", &self.compression))?,
            level: Level::try_from(self.level).map_err(|_| refused("level", &self.level))?,
            mode: self.mode,
            add_columns: self.add_columns,
            emit: self.emit.iter().map(kind).collect::<Result<_>>()?,
            ordered: self.ordered,
            expected_rows: self.expected_rows,
            query: self.query.clone(),
            inputs: self.inputs.clone(),
            recorded: self.recorded.clone(),
            ..WriteOptions::new(target)
        })
    }
}
