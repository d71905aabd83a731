//! Delimited text: CSV, TSV and their kin.
//!
//! Our own reader on the record splitter of arrow-csv and
//! Arrow's parsers, because the engine's CSV reader ignores null texts when it scans, cannot turn quoting off, takes
//! a byte order mark for a part of the first column's name, drops the fraction of a second and the time of a day where
//! inference saw none, and reads only the first member of some compressed files.

mod decode;
mod exact;
mod format;
mod infer;
mod null_words;
mod options;
mod preamble;
mod source;
mod trim;

pub(crate) use exact::{EXACT_DIGITS, holds, is_float};
pub(crate) use format::CsvFormat;
pub(crate) use infer::{CellType, is_in_float_range, parse_float};
pub(crate) use options::MAX_RECORD_LIMIT;
pub use options::{CsvOptions, Types};
