//! Which record goes where in a set: shuffled, in splits, in partition directories.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use clap::Args;
use datafusion_tfrecord::{DEFAULT_SEED, SplitOptions};
use tfrecord_shards::Splits;

use super::{Misuse, values};

/// Which record goes where.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct ArrangementArgs {
    /// Shuffle all rows, whether they fit into memory or not
    ///
    /// Every order is as likely as any other. The same rows and seed give the same shards, byte for byte, in whichever
    /// order, files and threads the rows come. What does not fit into --memory-limit waits in --temp-dir.
    #[arg(long)]
    shuffle: bool,

    /// Shuffle in the order of this number [default: 0]
    #[arg(long, value_name = "S", requires = "shuffle")]
    seed: Option<u64>,

    /// Divide the rows into splits: train=0.9,val=0.1
    ///
    /// By the hash of each row's key, so that no key is in two splits, and rows that are added later move none of the others.
    /// Without --split-by the whole record is the key. Shards start with the name of their split, and --shards is for each:
    /// --shards 16, or --shards train=256,val=16. In a query, tf_split('train=0.9,val=0.1', user_id) tells the same.
    #[arg(long = "split", value_name = "NAME=F,…", conflicts_with = "prefix")]
    splits: Option<Splits>,

    /// Keep rows that are equal in these columns in one split
    #[arg(long, value_name = "COL,…", requires = "splits", value_parser = values::columns)]
    split_by: Option<values::Columns>,

    /// Write a directory for each value of these columns: dt=2026-01-01/
    ///
    /// As Hive, Spark and Impala do. The columns are left out of the records, and found again in the paths when the set is
    /// read. Shards are cut in each directory for itself.
    #[arg(long, value_name = "COL,…", value_parser = values::columns)]
    partition_by: Option<values::Columns>,

    /// Keep the columns of --partition-by in the records, too
    #[arg(long, requires = "partition_by", hide_short_help = true)]
    keep_partition_columns: bool,
}

impl ArrangementArgs {
    /// The seed of the shuffle, if there is one.
    pub fn shuffle(&self) -> Option<u64> {
        self.shuffle.then(|| self.seed.unwrap_or(DEFAULT_SEED))
    }

    /// The splits, with the columns of their key as they were typed.
    pub fn splits(&self) -> Option<SplitOptions> {
        let splits = self.splits.clone()?;
        Some(SplitOptions { splits, by: self.split_by.clone().map_or_else(Vec::new, |columns| columns.0) })
    }

    /// The columns that name directories, as they were typed.
    pub fn partition_by(&self) -> &[String] {
        self.partition_by.as_ref().map_or(&[], |columns| columns.0.as_slice())
    }

    /// Whether these columns stay in the records.
    pub fn keeps_partition_columns(&self) -> bool {
        self.keep_partition_columns
    }

    /// Refuses numbers of shards of splits that there are not.
    pub(super) fn check(&self, split_shards: &BTreeMap<String, NonZeroUsize>) -> Result<(), Misuse> {
        let Some(splits) = &self.splits else {
            return match split_shards.keys().next() {
                Some(split) => Err(Misuse::missing(format!(
                    "--shards {split}=… needs --split\n\nhint: without splits give one number: --shards 16"
                ))),
                None => Ok(()),
            };
        };
        match split_shards.keys().find(|split| splits.position(split).is_none()) {
            Some(unknown) => {
                let names: Vec<_> = splits.iter().map(|(name, _)| name).collect();
                Err(Misuse::value(format!(
                    "--shards: there is no split {unknown:?}\n\nhint: the splits are {}",
                    names.join(", ")
                )))
            }
            None => Ok(()),
        }
    }
}
