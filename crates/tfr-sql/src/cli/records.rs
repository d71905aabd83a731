//! `head` and `cat`: records as text.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::stores::StoreArgs;

const HEAD_EXAMPLES: &str = "\
Examples:
  tfr-sql head shards/
  tfr-sql head -n 3 --as textproto 'shards/train-*.tfrecord.gz'";

const CAT_EXAMPLES: &str = "\
Examples:
  Every label of a set:
    tfr-sql cat shards/ | jq '.label[0]'

  The bytes of the first record:
    tfr-sql cat --as hex -n 1 part-00000-of-00004.tfrecord";

/// The records to print, and their format.
#[derive(Debug, Args)]
pub struct RecordSource {
    /// Files, directories, patterns or URLs; - is standard input
    ///
    /// In a directory written by tfr-sql, the shards that its manifest lists are read; in any other, all files that
    /// are not hidden, by name. Compression is detected from the content.
    #[arg(value_name = "FILES", required = true)]
    pub files: Vec<PathBuf>,

    /// Print as json (one object a line), textproto (as protobuf prints tf.train.Example) or hex
    ///
    /// In json every feature is a list: {"label": [1], "name": ["cat"]}. Bytes that are not UTF-8 are {"b64": "…"},
    /// NaN and infinities are strings, and a feature without a kind is null.
    #[arg(long = "as", value_name = "FORM", default_value = "json", hide_possible_values = true)]
    pub form: RecordForm,
}

/// `head`.
#[derive(Debug, Args)]
#[command(after_long_help = HEAD_EXAMPLES)]
pub struct HeadArgs {
    #[command(flatten)]
    pub source: RecordSource,

    /// Print this many records, of all files together
    #[arg(short = 'n', long = "records", value_name = "N", default_value_t = 10)]
    pub limit: u64,

    #[command(flatten)]
    pub stores: StoreArgs,
}

/// `cat`.
#[derive(Debug, Args)]
#[command(after_long_help = CAT_EXAMPLES)]
pub struct CatArgs {
    #[command(flatten)]
    pub source: RecordSource,

    /// Print this many records, of all files together [default: all]
    #[arg(short = 'n', long = "records", value_name = "N")]
    pub limit: Option<u64>,

    #[command(flatten)]
    pub stores: StoreArgs,
}

/// How a record is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordForm {
    /// An object on one line.
    Json,
    /// What protobuf prints, under a comment with the record's place.
    Textproto,
    /// The bytes, under a line with the record's place.
    Hex,
}
