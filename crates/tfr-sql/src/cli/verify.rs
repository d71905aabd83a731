//! `verify`: checks files and shard sets for damage.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use super::display::ReportFormat;
use super::stores::StoreArgs;
use super::values;

const EXAMPLES: &str = "\
Examples:
  tfr-sql verify shards/
  tfr-sql verify --remove-leftovers shards/
  tfr-sql verify --report json 'downloads/*.tfrecord.gz'

Exit codes: 0 all is whole, 1 something is wrong or could not be read.";

/// `verify`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Files, directories, patterns or URLs
    ///
    /// Every checksum of every record is checked, and that files end where a record ends. A directory that tfr-sql has
    /// written is held against its manifest too: files, sizes, rows and checksums, and what else is there. A
    /// thread needs about twice the memory of the longest record: up to 4 GiB, if a small compressed file is a trap.
    #[arg(value_name = "PATHS", required = true)]
    pub paths: Vec<PathBuf>,

    /// Remove what killed runs have left of the outputs that are named
    ///
    /// Before they are checked: staging directories beside and in them, and shards that were about to be appended.
    /// Nothing of a set is touched, nor what a run that is going on has staged. Outputs may be tables, such as
    /// x.parquet, which are not checked, and need not be there.
    #[arg(long)]
    pub remove_leftovers: bool,

    /// Print a machine-readable result (json) instead of a line for each damage
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub report: Option<ReportFormat>,

    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub threads: Option<NonZeroUsize>,

    #[command(flatten)]
    pub stores: StoreArgs,
}
