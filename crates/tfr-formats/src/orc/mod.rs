//! Apache ORC.
//!
//! A scan uses a file's `tail`, which is fetched once and checked. Of a `stripe` only the streams of the requested
//! columns are fetched. All of their compression blocks and the lengths of lists and texts are checked, and then
//! `orc-rust` decodes them.

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

/// Options for ORC files.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct OrcOptions {
    /// The unit of timestamps; `None`: nanoseconds, except for columns whose file statistics exceed their range.
    pub timestamps: Option<TimestampUnit>,
    /// Whether declared columns are found by their position, as in Hive, not by their name. Fields of structs are found by
    /// name in any case.
    pub by_position: bool,
}

/// Returns the format; `names` determines the files' names in messages, `columns` the table's column names.
pub(crate) fn format(
    names: FileNames,
    options: &OrcOptions,
    calendar: CalendarOption,
    columns: ColumnNames,
    findings: Option<Arc<Findings>>,
) -> Arc<dyn FileFormat> {
    let tails = tails::Tails::new(names, options.timestamps, options.by_position, calendar, columns, findings);
    Arc::new(ReaderFormat::new(format::OrcFormat::new(tails)))
}
