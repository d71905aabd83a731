//! What a TFRecord data set says of itself, in the words of those who read it.
//!
//! TFRecord does not describe itself, and every consumer wants a description of its own. Given what the columns of a
//! table became ([`Mapping`](arrow_tfrecord::Mapping)), this crate writes them; and it reads those that others wrote.
//!
//! | you want | use |
//! |---|---|
//! | a table described for Arrow, SQL, TensorFlow, TensorFlow Metadata or TensorFlow Datasets | [`TableDescription`], [`SchemaForm`] |
//! | the columns that a `schema.pbtxt` tells of | [`tfmd::schema_from_pbtxt`] |
//! | what `tfds.builder_from_directory` looks for beside the shards | [`tfds`] |
//! | statistics of the features in one pass, as `stats.pb` and as a page | [`stats::Statistics`] |
//! | a set that `tf.data.Dataset.load` opens, with the types of its columns and without parsing | [`snapshot::Snapshot`] |
//! | all files that are to lie beside a set, by name | [`Emit`] |
//! | all of that for a directory that another tool wrote | [`describe`](mod@describe) |
//! | one record as text, without a schema | [`json_line`], [`textproto`] |
//!
//! ```
//! use std::sync::Arc;
//! use arrow_tfrecord::Mapping;
//! use tfrecord_sidecars::{SchemaForm, TableDescription, tfmd};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = tfmd::schema_from_pbtxt(r#"
//!     feature { name: "tags" type: BYTES annotation { tag: "utf8" } }
//! "#)?;
//! let mapping = Mapping::try_new(&Arc::new(schema), &Default::default())?;
//! let python = TableDescription::new(&mapping, "shards/").render(SchemaForm::Python)?;
//! assert!(python.contains(r#""tags": tf.io.RaggedFeature(tf.string),"#));
//! # Ok(())
//! # }
//! ```

mod columns;
pub mod describe;
mod emit;
mod error;
mod form;
mod record;
pub mod snapshot;
pub mod stats;
mod textproto;
pub mod tfds;
pub mod tfmd;

pub use emit::{Emit, EmittedSet, MODULE_NAME, ParseSidecarKindError, SidecarKind};
pub use error::{Error, ErrorKind, Result, TfdsProblem};
pub use form::{ParseSchemaFormError, SchemaForm, TableDescription, sql_type};
pub use record::{json_line, textproto};
