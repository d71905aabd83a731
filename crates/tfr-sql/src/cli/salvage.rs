//! `salvage`: saves the sound records of damaged files.

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
  tfr-sql salvage broken.tfrecord --out saved/
  tfr-sql salvage 'shards/*.tfrecord.gz' --out saved/ --compression gzip

Exit codes: 0 saved, whatever was lost, 1 nothing was written.";

/// `salvage`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct SalvageArgs {
    /// Files, directories, patterns or URLs
    ///
    /// Records of sets whose manifests record different types are mixed, with a warning; the new set then has no
    /// types.
    #[arg(value_name = "PATHS", required = true)]
    pub paths: Vec<PathBuf>,

    /// Write the sound records as shards into this directory
    #[arg(long, value_name = "DIR", help_heading = "Output", required = true,
        value_parser = OsStringValueParser::new().try_map(values::out))]
    pub out: PathBuf,

    #[command(flatten)]
    pub shards: Declared<Moving>,

    /// Use this many threads [default: all cores]
    #[arg(long, value_name = "N", help_heading = "Resources", value_parser = values::count)]
    pub threads: Option<NonZeroUsize>,

    /// Print a machine-readable summary (json) instead of a line for each finding
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Display")]
    pub report: Option<ReportFormat>,

    #[command(flatten)]
    pub stores: StoreArgs,
}

impl SalvageArgs {
    pub(super) fn check(&self) -> Result<(), Misuse> {
        shards::check_tool(&self.shards)
    }
}
