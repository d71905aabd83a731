//! Reading: [`Decoder`] for bytes that arrive in pieces, [`Reader`] over any [`std::io::BufRead`], and
//! [`SchemaInference`] for records without a schema.
//!
//! Records are decoded in place, in blocks. [`locate`] scans each record of a block once and records the positions of
//! the requested features; [`steps`] does so for feature lists, and [`examples`] finds the Examples in a record that
//! contains several. [`mod@column`] then decodes one column at a time to the
//! three kinds of [`values`]. For a whole batch, [`restore`] and [`nest`] build the Arrow arrays, and [`assemble`]
//! those of columns with several features. [`batch`] works in stages: it decodes the columns of row filters first, to
//! determine which records become rows. [`past_damage`] finds records in damaged files.

mod assemble;
mod batch;
mod column;
mod decimal;
mod decoder;
mod duration;
mod entry;
mod example_list;
mod examples;
mod filter;
mod infer;
mod locate;
mod mismatch;
mod nest;
mod outline;
mod past_damage;
mod restore;
mod rows;
mod sieve;
mod source;
mod steps;
pub(crate) mod tensor;
mod unknown;
mod values;
pub(crate) mod wire;
mod years;

pub(crate) use batch::check_row_len;
pub(crate) use mismatch::Mismatch;
pub(crate) use rows::{Record, RowDecoder};

pub use decoder::Decoder;
pub use example_list::is_example_list;
pub use filter::RowFilter;
pub use infer::{SchemaInference, infer_schema};
pub use outline::FeatureNames;
pub use source::{Reader, ReaderBuilder};
pub use unknown::UnknownFeature;
