//! `schema`: the columns of a table.

use clap::Args;
use tfr_files::LocationText;
use tfrecord_sidecars::SchemaForm;

use super::declared::{Declared, Inference};
use super::stores::StoreArgs;
use super::values;

const EXAMPLES: &str = "\
Examples:
  tfr-sql schema shards/
  tfr-sql schema 'shards/train-*' --as python > features.py
  tfr-sql schema shards/ --as pbtxt --infer-files all --infer-records all
  tfr-sql schema copied.tfrecord --as ddl --option null=mask --option 'map=price: string'";

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
    pub inference: Declared<Inference>,

    #[command(flatten)]
    pub stores: StoreArgs,
}
