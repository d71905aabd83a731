//! Writing: [`Encoder`] for framed bytes, [`Writer`] over anything that is [`std::io::Write`].

mod bind;
mod column;
mod convert;
mod encoder;
mod feature;
pub(crate) mod shred;
mod sink;
pub(crate) mod tensor;

pub(crate) use convert::{default_values, integers};

pub use encoder::{BoundBatch, Encoder};
pub use feature::{BoundFeature, FeatureBytes, FeatureValues};
pub use sink::{Writer, WriterBuilder};
