//! `schema`: the columns of a table.

use clap::Args;
use tfr_stores::LocationText;
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

    /// Print as arrow, ddl, pbtxt, features.json, python or json
    ///
    /// arrow: a line for each column with its Arrow type. ddl: CREATE EXTERNAL TABLE. pbtxt: a schema of TensorFlow
    /// Metadata. features.json: the format of TensorFlow Datasets. python: a feature description for
    /// tf.io.parse_example. json: the schema and the mapping, as in a manifest.
    #[arg(long = "as", value_name = "FORM", default_value = "arrow")]
    pub form: SchemaForm,

    /// Set how the files are read, with a key of --table: KEY=VALUE; repeatable
    ///
    /// Mapping keys apply to files without a manifest, and are repeated in the statement of --as ddl.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub options: Vec<(String, String)>,

    #[command(flatten)]
    pub inference: Declared<Inference>,

    #[command(flatten)]
    pub stores: StoreArgs,
}
