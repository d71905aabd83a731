//! The number of rows in a file that the metadata of its table records.

use crate::error::{Error, TableError};

/// The number of rows in a file that the metadata of its table records, as an extension of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordedRows(pub(crate) u64);

/// Compares the number of rows in a file with what the metadata of its table records, and with the position after the
/// last deleted row.
pub(crate) fn check_rows(
    file: &str,
    found: u64,
    recorded: Option<RecordedRows>,
    deleted_end: u64,
) -> Result<(), Error> {
    let recorded = match recorded {
        Some(RecordedRows(rows)) if rows != found => format!("{rows} rows"),
        _ if deleted_end > found => format!("a deleted row at position {}", deleted_end - 1),
        _ => return Ok(()),
    };
    Err(TableError::RowsDisagree { file: file.to_owned(), found, recorded }.into())
}
