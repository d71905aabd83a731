//! Arrow record batches as TFRecord records: `tf.train.Example`, `tf.train.SequenceExample`, the
//! `ExampleListWithContext` of TensorFlow Ranking, or plain bytes.
//!
//! [`Mapping`] is computed once from the schema. For every column it records the features, their kinds (one of
//! TensorFlow's three list types), and whether any information is lost. [`Encoder`] then converts record batches
//! directly to framed records, without building a message object for each row. [`Writer`] does both over a
//! [`std::io::Write`].
//!
//! [`Reader`] is the inverse: given the writer's schema and options, it restores the original columns.
//! [`SchemaInference`] infers a schema for records that came without one.
//!
//! | to | use |
//! |---|---|
//! | write record batches to a file | [`WriterBuilder`] and [`Writer`] |
//! | read record batches from a file | [`ReaderBuilder`] and [`Reader`] |
//! | decode bytes as they arrive | [`Decoder`] |
//! | read only the rows that pass a predicate, without decoding the rest | [`RowFilter`] |
//! | infer the schema of records of unknown origin | [`infer_schema`], [`SchemaInference`] |
//! | check whether columns exist in records at all | [`FeatureNames`] |
//! | inspect the values of features as written | [`BoundBatch::features`] |
//! | produce framed bytes, to send or shard yourself | [`Encoder`] and [`RecordBuffer`] |
//! | convert to and from unframed records in a binary column | [`Encoder::serialize`], [`RecordParser`] |
//! | inspect, show or reject the mapping of each column | [`Mapping`] |
//! | choose another encoding for a column or its nulls | [`MappingOptions`], [`ColumnRule`] |
//! | convert tensors as `tf.io.serialize_tensor` does | [`serialize_tensor`], [`parse_tensor`] |
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
//! A feature is a flat list, so a nested column becomes one feature per leaf of its type. Names follow TensorFlow
//! Datasets and can be read by `tf.io.RaggedFeature`:
//!
//! | column `c` | features |
//! |---|---|
//! | a struct, or a list of structs | `c/field` for each field |
//! | a map | `c/key`, `c/value` |
//! | lists of lists | `c/ragged_flat_values`, and the lengths of inner lists: `c/ragged_row_lengths_0`, `_1`, outermost first |
//! | fixed-size lists in lists, fixed-shape tensors | `c`, in row-major order |
//! | variable-shape tensors | `c`, `c/shape` |
//!
//! These types nest to any depth. [`ColumnMapping::parse_specs`] returns the feature spec for each. A null that cannot
//! be a missing feature, such as a null inside a list, needs a [`NullPolicy`].
//!
//! In SequenceExamples, lists of lists and lists of structs are feature lists with one feature per element (step). The
//! rules above then apply to each step as they otherwise do to the record.
//!
//! In an ExampleListWithContext, the elements of one list of structs are Examples, whose features are named as the
//! fields. Other columns are the features of the context.
//!
//! The crate is synchronous and independent of SQL, files and shards. `tfrecord-shards` and `datafusion-tfrecord` build
//! on it.

mod compact;
mod dtype;
mod error;
mod feature;
mod lists;
mod mapping;
mod options;
mod reader;
mod record_buffer;
mod tensor;
mod unframed;
mod vocabulary;
mod wire;
mod writer;

pub use compact::CompactForm;
pub use error::{Error, ErrorKind, Result};
pub use feature::{FeatureKind, FeatureMapping, FeatureRole, FeatureShape};
pub use mapping::{ByteBounds, ColumnMapping, LossClass, Mapping, ParseSpec, ReadAs};
pub use options::{Choice, ColumnRule, MappingOptions, NullPolicy, NullRule, ParseOptionError, RecordType};
pub use reader::{
    Decoder, FeatureNames, Reader, ReaderBuilder, RowFilter, SchemaInference, UnknownFeature, infer_schema,
    is_example_list,
};
pub use record_buffer::RecordBuffer;
pub use tensor::{parse_tensor, serialize_tensor};
pub use unframed::RecordParser;
pub use vocabulary::Vocabulary;
pub use writer::{BoundBatch, BoundFeature, Encoder, FeatureBytes, FeatureValues, Writer, WriterBuilder};
