//! `schema`: the columns of a table, and how many records are looked at to tell them.

use clap::Args;
use tfr_files::LocationText;
use tfrecord_sidecars::SchemaForm;

use super::stores::StoreArgs;
use super::values::{self, Sample};

const EXAMPLES: &str = "\
Examples:
  tfr-sql schema shards/
  tfr-sql schema 'shards/train-*' --as python > features.py
  tfr-sql schema shards/ --as pbtxt --infer-files all --infer-records all
  tfr-sql schema copied.tfrecord --as ddl --option null=mask --option 'map=price: string'";

/// How types are told from records.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
#[group(skip)]
pub struct InferenceArgs {
    /// TFRecord files that tell the columns of a table: N or all [default: 256]
    ///
    /// Where neither a manifest nor a schema.pbtxt tells them. Of more files a sample is looked into, evenly spaced.
    /// --table has this as the key infer_files.
    #[arg(long, value_name = "N", value_parser = values::sample, hide_short_help = true)]
    pub infer_files: Option<Sample>,

    /// Records of each that are looked at for it: N or all [default: 1000]
    ///
    /// --table has this as the key infer_records.
    #[arg(long, value_name = "N", value_parser = values::sample, hide_short_help = true)]
    pub infer_records: Option<Sample>,
}

/// `schema`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct SchemaArgs {
    /// A file, a directory or a pattern, as in a query
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<LocationText>,

    /// arrow, ddl, pbtxt, features.json, python or json
    ///
    /// arrow: a column a line with its Arrow type. ddl: CREATE EXTERNAL TABLE. pbtxt: a schema of TensorFlow Metadata.
    /// features.json: as TensorFlow Datasets has it. python: a feature description for tf.io.parse_example. json: the
    /// schema and the mapping as a manifest holds them.
    #[arg(long = "as", value_name = "FORM", default_value = "arrow")]
    pub form: SchemaForm,

    /// How the files are to be read, as behind the URL of --table: a key, = and its value; repeatable
    ///
    /// Those of the mapping hold for files that no manifest tells of, and a statement of --as ddl says them again.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub options: Vec<(String, String)>,

    #[command(flatten)]
    pub inference: InferenceArgs,

    #[command(flatten)]
    pub stores: StoreArgs,
}
