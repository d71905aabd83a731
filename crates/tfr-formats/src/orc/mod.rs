//! Apache ORC.
//!
//! A scan knows of a file what its `tail` says, which is fetched once and checked. Of a
//! `stripe` only the streams of the wanted columns are fetched, each of their compression blocks and
//! the lengths of lists and texts are looked at, and what has passed is decoded by `orc-rust`.

mod bounds;
mod calendar;
mod clock;
mod codec;
mod format;
mod lengths;
mod nanos;
mod proto;
mod source;
mod stripe;
mod tail;
mod tails;
mod types;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion_datasource::file_format::FileFormat;
use tfr_files::FileNames;
use tfr_files::Findings;

use crate::calendar::CalendarOption;
use crate::names::ColumnNames;
use tfr_files::scan::ReaderFormat;

pub use types::TimestampUnit;

/// How ORC files are read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OrcOptions {
    /// The unit of timestamps; `None` is nanoseconds, but for columns of which a file says that they reach beyond.
    pub timestamps: Option<TimestampUnit>,
}

/// The format, for files that are named in messages as `names` says, with columns that are named by `columns`.
pub(crate) fn format(
    names: FileNames,
    options: &OrcOptions,
    calendar: CalendarOption,
    columns: ColumnNames,
    findings: Option<Arc<Findings>>,
) -> Arc<dyn FileFormat> {
    let tails = tails::Tails::new(names, options.timestamps, calendar, columns, findings);
    Arc::new(ReaderFormat::new(format::OrcFormat::new(tails)))
}
