//! `reshard`: moves records to other shards.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};

use super::declared::{Declared, Moving};
use super::display::ReportFormat;
use super::stores::StoreArgs;
use super::{Misuse, shards, values};

const EXAMPLES: &str = "\
Examples:
  tfr-sql reshard shards/ --out train/ --shards 16
  tfr-sql reshard 'downloads/*.tfrecord' --out shards/ --shard-size 256MiB --compression gzip";

/// `reshard`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct ReshardArgs {
    /// Files, directories, patterns or URLs
    ///
    /// Records are moved unchanged. Their checksums are verified, but they are not decoded, so they may contain
    /// anything. Sets are rejected if their manifests record different types, as are files without a manifest together
    /// with such a set.
    #[arg(value_name = "PATHS", required = true)]
    pub paths: Vec<PathBuf>,

    /// Write the shards into this directory
    #[arg(long, value_name = "DIR", help_heading = "Output", required = true,
        value_parser = OsStringValueParser::new().try_map(values::out))]
    pub out: PathBuf,

    #[command(flatten)]
    pub shards: Declared<Moving>,

    /// Use this many threads [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Resources", value_parser = values::count)]
    pub threads: Option<NonZeroUsize>,

    /// Print a machine-readable summary (json) on standard output
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Display")]
    pub report: Option<ReportFormat>,

    #[command(flatten)]
    pub stores: StoreArgs,
}

impl ReshardArgs {
    pub(super) fn check(&self) -> Result<(), Misuse> {
        shards::check_tool(&self.shards)
    }
}
