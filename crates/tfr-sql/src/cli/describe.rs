//! `describe` and `stats`: describe existing records.

use std::path::PathBuf;

use clap::Args;
use tfrecord_sidecars::{Emit, SidecarKind};

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
    /// Of a set that tfr-sql has written the shards that its manifest lists; else all files in it and below but hidden
    /// ones and those that lie beside shards. The columns are those of the manifest, or of a schema.pbtxt in the
    /// directory, or as all records tell.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// What to write: tfds, tfmd, parse-fn, stats, index [default: tfmd,parse-fn,stats, and tfds if it can be]
    ///
    /// As --emit of a query. TensorFlow Datasets wants uncompressed files with names like part-00000-of-00016, all in
    /// one directory.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    emit: Vec<SidecarKind>,

    /// Write to this directory, which is made if need be, and not beside the shards
    ///
    /// Indexes cannot be written elsewhere.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Replace files of others that have such names
    ///
    /// What a manifest lists is replaced without it.
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
    /// What is read, and as which columns, is told at describe.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,

    /// Write a page for a browser, with histograms, to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}
