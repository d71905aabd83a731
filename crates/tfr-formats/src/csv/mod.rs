//! Delimited text: CSV, TSV and similar formats.
//!
//! Uses a reader of its own on the record splitter of arrow-csv and Arrow's parsers. The engine's CSV reader ignores
//! null texts in scans, cannot turn quoting off, and takes a byte order mark for part of the first column's name. It
//! also drops fractions of a second and times of day if inference saw none, and reads only the first member of some
//! compressed files.

mod decode;
mod exact;
mod format;
mod infer;
mod notation;
mod null_words;
mod options;
mod preamble;
mod quotes;
mod source;
mod trim;

pub(crate) use exact::{EXACT_DIGITS, holds, is_float};
pub(crate) use format::CsvFormat;
pub(crate) use infer::{CellType, is_in_float_range, parse_float};
pub(crate) use options::MAX_RECORD_LIMIT;
pub use options::{CsvOptions, Types};
