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
    /// Verifies the checksums of every record, and that each file ends at a record boundary. A directory written by
    /// tfr-sql is also compared with its manifest: files, sizes, rows and checksums, and unexpected files. A thread
    /// needs about twice the memory of the longest record: up to 4 GiB for a malicious compressed file.
    #[arg(value_name = "PATHS", required = true)]
    pub paths: Vec<PathBuf>,

    /// Remove the leftovers of killed runs of the named outputs
    ///
    /// They are removed before the check: staging directories next to and in the outputs, and shards that were about
    /// to be appended. Files of a set are not touched, nor is the staging of a run in progress. Outputs may be tables,
    /// such as x.parquet, which are not checked, and need not exist. In an object store, only uploads and reports of the
    /// tasks of a plan can be found.
    #[arg(long)]
    pub remove_leftovers: bool,

    /// Print a machine-readable result (json) instead of a line for each finding
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub report: Option<ReportFormat>,

    /// Use this many threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub threads: Option<NonZeroUsize>,

    #[command(flatten)]
    pub stores: StoreArgs,
}
