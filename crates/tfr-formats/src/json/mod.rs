//! JSON: one object per line, concatenated objects in any layout, or the elements of one array.
//!
//! Uses a reader of its own. The engine's truncates fractions if inference saw integers, misreads numbers that are out
//! of range, drops keys that inference did not see, and reports no lines.
//!
//! `NaN`, `Infinity` and `-Infinity`, which are not valid JSON, are read as numbers, as Python's `json` writes them.
//!
//! An absent key is null. If an object repeats a key, the last value counts. Values of several types are text, with
//! those that are not strings as JSON. Numbers beyond 64 bits and objects that never have a key are also text.

mod cursor;
mod decode;
mod format;
mod infer;
mod keys;
mod line;
mod number;
mod options;
mod parse;
mod row_end;
mod rows;
mod source;
mod stop;
mod tape;

use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion_common::Result;
use datafusion_datasource::file_format::FileFormat;
use datafusion_session::Session;
use tfr_files::{DirectoryTable, Listing};
use tfr_stores::FileNames;

use format::JsonFormat;
pub(crate) use line::LineParser;
pub use options::JsonOptions;
pub(crate) use tape::{Node, NodeKind, Tape};

use crate::error::{Error, ErrorKind};
use crate::names::ColumnNames;
use tfr_files::scan::ReaderFormat;

/// Opens the files of a listing as a table, with the declared columns or those of their first objects.
pub(crate) async fn open(
    session: &dyn Session,
    listing: Listing,
    options: &JsonOptions,
    columns: ColumnNames,
    declared: Option<SchemaRef>,
) -> Result<(DirectoryTable, bool)> {
    let mut format =
        JsonFormat::new(options.clone(), listing.names().clone(), columns).with_declared(declared.is_some());
    let probes = format.probe(session, listing.store(), listing.files()).await?;
    let path = listing.partitions().fields();
    for (probe, file) in probes.iter().zip(listing.file_names()) {
        if let Some(field) = path.iter().find(|field| probe.members.names().any(|name| name == field.name())) {
            let column = field.name().clone();
            return Err(tfr_files::Error::from(tfr_files::ErrorKind::ColumnInPath { file, column }).into());
        }
    }
    let names: Vec<Vec<&str>> = probes.iter().map(|probe| probe.members.names().collect()).collect();
    let file_name = |index: usize| listing.names().name(&listing.files()[index].location);
    tfr_files::warn_of_names_by_case(&names, file_name);
    let newlines_in_values =
        options.newlines_in_values.unwrap_or_else(|| probes.iter().any(|probe| !probe.has_row_a_line));
    format = format.with_newlines_in_values(newlines_in_values);
    let found = format.columns(probes);
    let schema = match declared {
        Some(declared) => {
            check_case(&declared, &found, &listing)?;
            declared
        }
        None => found,
    };
    let table = DirectoryTable::with_schema(listing, Arc::new(ReaderFormat::new(format)), &schema);
    Ok((table, newlines_in_values))
}

/// Returns the format of files that another process has read.
pub(crate) fn planned(
    options: &JsonOptions,
    names: FileNames,
    columns: ColumnNames,
    is_declared: bool,
    newlines_in_values: bool,
) -> Arc<dyn FileFormat> {
    let format = JsonFormat::new(options.clone(), names, columns)
        .with_declared(is_declared)
        .with_newlines_in_values(newlines_in_values);
    Arc::new(ReaderFormat::new(format))
}

/// Rejects a declared column that would be null throughout because the key's case differs.
fn check_case(declared: &SchemaRef, found: &SchemaRef, listing: &Listing) -> Result<(), Error> {
    let partitions = listing.partitions().fields();
    for field in declared.fields() {
        let column = field.name();
        let in_path = partitions.iter().any(|partition| partition.name() == column);
        if in_path || found.column_with_name(column).is_some() {
            continue;
        }
        if let Some(other) = found.fields().iter().find(|other| other.name().eq_ignore_ascii_case(column)) {
            let file = listing.file_names().next().unwrap_or_default();
            return Err(ErrorKind::KeyCase { file, column: column.clone(), key: other.name().clone() }.into());
        }
    }
    Ok(())
}
