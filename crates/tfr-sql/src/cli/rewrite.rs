//! `reshard` and `salvage`: write the records of files to new shards.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Arg, Args};

use super::declared::{Declared, Moving};
use super::display::ReportFormat;
use super::stores::StoreArgs;
use super::{Misuse, shards, values};

pub(super) const RESHARD_EXAMPLES: &str = "\
Examples:
  tfr-sql reshard shards/ --out train/ --shards 16
  tfr-sql reshard 'downloads/*.tfrecord' --out shards/ --shard-size 256MiB --compression gzip";

pub(super) const SALVAGE_EXAMPLES: &str = "\
Examples:
  tfr-sql salvage broken.tfrecord --out saved/
  tfr-sql salvage 'shards/*.tfrecord.gz' --out saved/ --compression gzip

Exit codes: 0 saved, whatever was lost, 1 nothing was written.";

/// The arguments of `reshard` and `salvage`. The help is that of `reshard`; [`help_of_salvage`] has the differences.
#[derive(Debug, Args)]
pub struct RewriteArgs {
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

impl RewriteArgs {
    pub(super) fn check(&self) -> Result<(), Misuse> {
        shards::check_tool(&self.shards)
    }
}

/// Replaces the help of the arguments that differ for `salvage`.
pub(super) fn help_of_salvage(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "paths" => arg.long_help(
            "Files, directories, patterns or URLs\n\nRecords of sets whose manifests record different types are mixed, \
             with a warning; the new set then has no types.",
        ),
        "out" => arg.help("Write the sound records as shards into this directory"),
        "report" => arg.help("Print a machine-readable summary (json) instead of a line for each finding"),
        _ => arg,
    }
}
