//! `index`: records the offset of each record, for random access.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tfrecord_shards::IndexName;

use super::values;

const EXAMPLES: &str = "\
Examples:
  tfr-sql index shards/
  tfr-sql index --name tfindex 'shards/*.tfrecord'";

/// `index`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct IndexArgs {
    /// Files, directories or patterns
    ///
    /// An index has a line for each record: its byte offset, and its length including the frame. Compressed files
    /// cannot be indexed and are rejected.
    #[arg(value_name = "PATHS", required = true)]
    pub paths: Vec<PathBuf>,

    /// Name the index files: idx (_a.tfrecord.idx, for NVIDIA DALI) or tfindex (a.tfindex)
    #[arg(long, value_name = "NAME", default_value = "idx", hide_possible_values = true)]
    name: Name,

    /// Use this many threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub threads: Option<NonZeroUsize>,
}

/// What an index is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// `_a.tfrecord.idx`.
    Idx,
    /// `a.tfindex`.
    Tfindex,
}

impl IndexArgs {
    /// Returns the naming scheme of the index files.
    pub fn name(&self) -> IndexName {
        match self.name {
            Name::Idx => IndexName::Idx,
            Name::Tfindex => IndexName::TfIndex,
        }
    }
}
