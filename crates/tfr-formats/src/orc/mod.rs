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

use arrow_schema::{Schema, SchemaRef};
use datafusion_datasource::file_format::FileFormat;
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::{AcidColumns, Findings, unreadable_field};
use tfr_stores::FileNames;

use crate::calendar::CalendarOption;
use crate::error::Result;
use crate::names::ColumnNames;
use tfr_files::scan::ReaderFormat;

pub(crate) use types::CUT_TIMESTAMPS;
pub use types::TimestampUnit;
use types::TypeRules;

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

/// What the footer of a file of a transactional table of Hive has.
#[derive(Debug)]
pub(crate) struct AcidFooter {
    /// The columns of the table in it, with those that cannot be read marked.
    pub(crate) columns: SchemaRef,
    /// The number of rows, or of changes.
    pub(crate) rows: u64,
    /// The smallest and the largest value of each column that identifies rows, if the file records them. `None` in a file
    /// without these columns.
    pub(crate) row_ids: Option<Vec<Option<(i64, i64)>>>,
}

/// Reads the footer of a file, which messages call `name`.
///
/// # Errors
/// The file cannot be read, is not ORC, or is damaged.
pub(crate) async fn acid_footer(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    name: &str,
    options: &OrcOptions,
    calendar: &CalendarOption,
) -> Result<AcidFooter> {
    let rules = TypeRules { unit: options.timestamps, acid: AcidColumns::Row, ..TypeRules::default() };
    let tail = tail::Tail::fetch(store, meta, name, rules, calendar).await?;
    let field = |column: &types::OrcColumn| match &column.unreadable {
        Some(reason) => unreadable_field(&column.name, name, reason),
        None => column.field(),
    };
    let columns = Arc::new(Schema::new(tail.columns.iter().map(field).collect::<Vec<_>>()));
    Ok(AcidFooter { columns, rows: tail.rows, row_ids: tail.row_ids.clone() })
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
