//! Arrow record batches as TFRecord records: `tf.train.Example`, `tf.train.SequenceExample`, or plain bytes.
//!
//! [`Mapping`] decides once, from the schema, what every column becomes: which feature, which of the three kinds of
//! list that TensorFlow has, and whether anything is lost on the way. [`Encoder`] then turns record batches straight
//! into framed records, without building a message object for any row. [`Writer`] does both over a [`std::io::Write`].
//!
//! The way back is [`Reader`]: given the schema and the options of the writer, the columns come back as they were.
//! [`SchemaInference`] finds a schema for records that came without one.
//!
//! | you want | use |
//! |---|---|
//! | a file of records from record batches | [`WriterBuilder`] and [`Writer`] |
//! | record batches from a file of records | [`ReaderBuilder`] and [`Reader`] |
//! | the same from bytes as they come | [`Decoder`] |
//! | only the rows that pass a test, the rest not decoded | [`RowFilter`] |
//! | the schema of records of unknown origin | [`infer_schema`], [`SchemaInference`] |
//! | to know whether columns are in some records at all | [`FeatureNames`] |
//! | the values of features as they are written | [`BoundBatch::features`] |
//! | framed bytes, to send or shard yourself | [`Encoder`] and [`RecordBuffer`] |
//! | records without frames, as a column of bytes | [`Encoder::serialize`], [`RecordParser`] |
//! | to know, show or refuse what happens to each column | [`Mapping`] |
//! | another form for a column, or for its nulls | [`MappingOptions`], [`ColumnRule`] |
//! | tensors as `tf.io.serialize_tensor` writes them | [`serialize_tensor`], [`parse_tensor`] |
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{ArrayRef, Float32Array, Int64Array, RecordBatch, RecordBatchWriter, StringArray};
//! use arrow_tfrecord::WriterBuilder;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let batch = RecordBatch::try_from_iter([
//!     ("id", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef),
//!     ("price", Arc::new(Float32Array::from(vec![Some(9.5), None]))),
//!     ("label", Arc::new(StringArray::from(vec!["cat", "dog"]))),
//! ])?;
//! let mut writer = WriterBuilder::new(batch.schema()).build(Vec::new())?;
//! writer.write(&batch)?;
//! let file: Vec<u8> = writer.finish()?;
//! assert_eq!(file.len(), 66 + 51); // the null price is absent from the second record
//! # Ok(())
//! # }
//! ```
//!
//! # Nested columns
//!
//! A feature is a flat list, so a nested column is a feature for every leaf of its type, under names that TensorFlow
//! Datasets uses and `tf.io.RaggedFeature` reads:
//!
//! | column `c` | features |
//! |---|---|
//! | a struct, or a list of structs | `c/field` for each field |
//! | a map | `c/key`, `c/value` |
//! | lists in lists | `c/ragged_flat_values`, and the lengths of inner lists: `c/ragged_row_lengths_0`, `_1`, from the outside in |
//! | lists of a fixed size in lists, tensors of a fixed shape | `c`, row by row |
//! | tensors of any shape | `c`, `c/shape` |
//!
//! All of these go into each other, to any depth. [`ColumnMapping::parse_specs`] tells how each is read. A null that is
//! not a missing feature, inside a list for one, has to be given a place by a [`NullPolicy`].
//!
//! In records of sequences, lists of lists and of structs are feature lists with a feature for each element, which is to
//! its parts what elsewhere the record is.
//!
//! The crate is synchronous and knows nothing of SQL, files or shards; `tfrecord-shards` and `datafusion-tfrecord`
//! stand on it.

mod compact;
mod dtype;
mod error;
mod feature;
mod integers;
mod lists;
mod mapping;
mod options;
mod reader;
mod record_buffer;
mod tensor;
pub mod text;
mod unframed;
mod vocabulary;
mod wire;
mod writer;

pub use compact::CompactForm;
pub use error::{Error, ErrorKind, Result};
pub use feature::{FeatureKind, FeatureMapping, FeatureRole, FeatureShape};
pub use mapping::{ColumnMapping, LossClass, Mapping};
pub use options::{Choice, ColumnRule, MappingOptions, NullPolicy, NullRule, ParseOptionError, RecordType};
pub use reader::{Decoder, FeatureNames, Reader, ReaderBuilder, RowFilter, SchemaInference, infer_schema};
pub use record_buffer::RecordBuffer;
pub use tensor::{parse_tensor, serialize_tensor};
pub use unframed::RecordParser;
pub use vocabulary::Vocabulary;
pub use writer::{BoundBatch, BoundFeature, Encoder, FeatureBytes, FeatureValues, Writer, WriterBuilder};
