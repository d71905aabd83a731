//! `describe` and `stats`: describe existing records.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use tfrecord_sidecars::{Emit, SidecarKind};

use super::display::ReportFormat;
use super::values;

const EXAMPLES: &str = "\
Examples:
  tfr-sql describe shards/
  tfr-sql describe spark-output/ --emit tfmd,stats --out described/";

const STATS_EXAMPLES: &str = "\
Examples:
  tfr-sql stats shards/
  tfr-sql stats spark-output/ --html stats.html";

/// `describe`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct DescribeArgs {
    /// A directory of TFRecord files
    ///
    /// In a set written by tfr-sql, the shards that its manifest lists are read. In any other directory, all files in
    /// it and below are read, except for hidden files and sidecars. The columns come from the manifest, from a
    /// schema.pbtxt in the directory, or from all records.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Write these files: tfds, tfmd, parse-fn, stats, index [default: tfmd,parse-fn,stats, and tfds if possible]
    ///
    /// As for --emit of a query. TensorFlow Datasets requires uncompressed files with names like part-00000-of-00016,
    /// all in one directory.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    emit: Vec<SidecarKind>,

    /// Write to this directory instead of next to the shards; created if missing
    ///
    /// Indexes cannot be written elsewhere.
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(values::out))]
    pub out: Option<PathBuf>,

    /// Replace existing files with these names that other tools wrote
    ///
    /// Files listed in a manifest are replaced without it.
    #[arg(long)]
    pub replace: bool,
}

impl DescribeArgs {
    /// Returns the requested sidecars, if any were requested by name.
    pub fn emit(&self) -> Option<Emit> {
        (!self.emit.is_empty()).then(|| self.emit.iter().copied().collect())
    }

    pub(super) fn check(&self) -> Result<(), super::Misuse> {
        match self.out.is_some() && self.emit.contains(&SidecarKind::Index) {
            true => Err(super::Misuse::conflict(
                "--emit index cannot be used with --out: an index lies beside its file\n\n\
                 hint: tfr-sql index writes indexes alone",
            )),
            false => Ok(()),
        }
    }
}

/// `stats`.
#[derive(Debug, Args)]
#[command(after_long_help = STATS_EXAMPLES)]
pub struct StatsArgs {
    /// A TFRecord file, or a directory of them
    ///
    /// See describe for which files are read, and where the columns come from.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Write a page for a browser, with histograms, to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the statistics for TensorFlow Data Validation to FILE
    #[arg(long, value_name = "FILE")]
    pub proto: Option<PathBuf>,

    /// Print the statistics as an object (json) on standard output
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Display")]
    pub report: Option<ReportFormat>,
}
