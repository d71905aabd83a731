//! Writing: [`Encoder`] for framed bytes, [`Writer`] over any [`std::io::Write`].

mod bind;
mod column;
mod convert;
mod encoder;
mod feature;
mod row_errors;
mod shred;
mod sink;
pub(crate) mod tensor;
mod values;

pub(crate) use convert::default_values;

pub use encoder::{BoundBatch, Encoder};
pub use feature::{BoundFeature, FeatureBytes, FeatureValues};
pub use sink::{Writer, WriterBuilder};
