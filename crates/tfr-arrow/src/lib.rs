//! Arrow types and arrays, as the crates above need them. Knows no file, no engine and no TFRecord.
//!
//! | task | use |
//! |---|---|
//! | Look into nested types and arrays, or rebuild them | [`nested`] |
//! | Convert an array to another type exactly | [`convert`], [`common_type`] |
//! | Remove values stored under nulls | [`visible`] |
//! | Find values without a text form | [`text`] |
//! | Name a type in SQL | [`sql`] |
//! | Name the labels that integers number | [`labels`] |
//!
//! A layout of nested values that Arrow adds is added to [`nested`]: the other modules and crates use its functions.

pub mod common_type;
pub mod convert;
mod integers;
mod kinds;
pub mod labels;
pub mod nested;
pub mod sql;
pub mod text;
pub mod visible;

pub use integers::integers;
