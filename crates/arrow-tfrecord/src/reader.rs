//! Reading: [`Decoder`] for bytes that come in pieces, [`Reader`] over anything that is [`std::io::BufRead`], and
//! [`SchemaInference`] where nobody knows the schema.
//!
//! Records are decoded where they lie in what was read, in blocks. [`locate`] walks each record of a block once and
//! notes where the wanted features stand, [`steps`] where those of feature lists do; [`mod@column`] then decodes a column
//! at a time to the three kinds of [`values`], and for a whole batch [`restore`] and [`nest`] make the Arrow types of
//! them, [`assemble`] those of several features. [`batch`] does so in stages: first the columns that tell which records
//! become rows at all.

mod assemble;
mod batch;
mod column;
mod decimal;
mod decoder;
mod duration;
mod entry;
mod filter;
mod infer;
mod locate;
mod misfit;
mod nest;
mod outline;
mod restore;
mod rows;
mod sieve;
mod source;
mod steps;
pub(crate) mod tensor;
mod values;
pub(crate) mod wire;
mod years;

pub(crate) use batch::check_row_len;
pub(crate) use misfit::Misfit;
pub(crate) use rows::{Record, RowDecoder};

pub use decoder::Decoder;
pub use filter::RowFilter;
pub use infer::{SchemaInference, infer_schema};
pub use outline::FeatureNames;
pub use source::{Reader, ReaderBuilder};
