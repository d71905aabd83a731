//! Descriptions of TFRecord data sets, in the formats of their readers.
//!
//! TFRecord is not self-describing, and every consumer expects a description in its own format. Given the
//! [`Mapping`](arrow_tfrecord::Mapping) of a table, this crate writes these descriptions. It also reads those written
//! by other tools.
//!
//! | to | use |
//! |---|---|
//! | describe a table for Arrow, SQL, TensorFlow, TensorFlow Metadata or TensorFlow Datasets | [`TableDescription`], [`SchemaForm`] |
//! | read the columns of a `schema.pbtxt` | [`tfmd::schema_from_pbtxt`] |
//! | write the files that `tfds.builder_from_directory` expects next to the shards | [`tfds`] |
//! | compute statistics of the features in one pass, as `stats.pb` and as an HTML page | [`stats::Statistics`] |
//! | write a data set that `tf.data.Dataset.load` opens, with native types and without parsing | [`snapshot::Snapshot`] |
//! | write all sidecar files of a shard set, by name | [`Emit`] |
//! | do the same for a directory written by another tool | [`describe`](mod@describe) |
//! | print one record as text, without a schema | [`json_line`], [`textproto`] |
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
mod images;
mod record;
pub mod snapshot;
pub mod stats;
mod textproto;
pub mod tfds;
pub mod tfmd;

pub use emit::{Emit, EmittedSet, MODULE_NAME, ParseSidecarKindError, SidecarKind};
pub use error::{Error, ErrorKind, Result, TfdsProblem};
pub use form::{ParseSchemaFormError, SchemaForm, TableDescription};
pub use record::{json_line, textproto};
