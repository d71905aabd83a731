//! SQL functions for records, tensors, splits and images.
//!
//! | function | argument | result |
//! |---|---|---|
//! | `tf_example` | a struct | a serialized `tf.train.Example` |
//! | `tf_sequence_example` | a struct | a serialized `tf.train.SequenceExample` |
//! | `tf_parse`, `tf_parse_sequence_example` | one of these | a struct |
//! | `serialize_tensor` | a number, a string, a list | a serialized `TensorProto` |
//! | `parse_tensor` | one of these | a value or a list |
//! | `tf_split` | the key columns | the name of the key's split |
//! | `image_info`, `try_image_info` | the bytes of an image | its format, width, height and channels |
//!
//! All functions process whole batches. Constant arguments, such as rules and column declarations, are evaluated at
//! planning, which also reports their errors.
//!
//! ```
//! use datafusion::prelude::SessionContext;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::error::Result<()> {
//! let mut ctx = SessionContext::new();
//! datafusion_tfrecord::functions::register(&mut ctx)?;
//! let rows = ctx.sql("SELECT tf_parse(tf_example({label: 7, name: 'cat'}), 'label BIGINT') AS row").await?;
//! assert_eq!(rows.collect().await?[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```

mod argument;
mod error;
mod example;
mod image;
mod parse;
mod split;
mod tensor;

use std::sync::Arc;

use arrow_array::ArrayRef;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::registry::FunctionRegistry;
use datafusion_expr::{ColumnarValue, DocSection, ScalarUDF};

pub use error::{FunctionError, FunctionErrorKind};

/// The section of these functions in the documentation.
const SECTION: DocSection = DocSection { include: true, label: "TFRecord Functions", description: None };

/// Returns all functions.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(example::Example::default().into()),
        Arc::new(example::Example::of_sequences().into()),
        Arc::new(parse::Parse::default().into()),
        Arc::new(parse::Parse::of_sequences().into()),
        Arc::new(tensor::SerializeTensor::default().into()),
        Arc::new(tensor::ParseTensor::default().into()),
        Arc::new(split::Split::default().into()),
        Arc::new(image::ImageInfo::default().into()),
        Arc::new(image::ImageInfo::or_null().into()),
    ]
}

/// Registers all functions with a session.
///
/// # Errors
/// The registry does not accept functions.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for function in all() {
        registry.register_udf(function)?;
    }
    Ok(())
}

/// Wraps a function's result: a scalar if its first argument was one.
fn result(values: ArrayRef, is_scalar: bool) -> Result<ColumnarValue> {
    Ok(match is_scalar {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
        false => ColumnarValue::Array(values),
    })
}
