//! Describes where the columns of TFRecord files come from.

use datafusion_tfrecord::TfRecordFormat;
use datafusion_tfrecord::read::{ColumnOrigin, RecordForm};
use tfr_files::DirectoryTable;

use crate::printer::counted;

/// Where the user named the input, which determines how its options are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// A path in a query or an argument of a tool.
    Argument,
    /// `--table`.
    TableKey,
    /// `CREATE EXTERNAL TABLE`.
    SqlOption,
}

/// Returns the record format of the files, if they are TFRecord files.
pub fn records_form(table: &DirectoryTable) -> Option<&RecordForm> {
    table.format().downcast_ref::<TfRecordFormat>().map(TfRecordFormat::form)
}

/// Describes the source of the types.
pub fn types_source(form: Option<&RecordForm>) -> String {
    match form.map(|form| &form.origin) {
        Some(ColumnOrigin::Manifest) => "the manifest".to_owned(),
        Some(ColumnOrigin::SchemaFile { file }) => file.clone(),
        Some(origin @ ColumnOrigin::Records { files, .. }) => match sample(origin, Spelling::Argument) {
            Some((sample, way_out)) => format!("{sample}; {way_out}"),
            None => format!("records of {}", counted(*files as u64, "file")),
        },
        _ => "the files".to_owned(),
    }
}

/// Returns a note about a table whose columns were inferred from a sample of its records: other records may have more.
pub fn note(table: &DirectoryTable, name: &str, spelling: Spelling) -> Option<String> {
    let (sample, way_out) = sample(&records_form(table)?.origin, spelling)?;
    Some(format!("note: the columns of '{name}' are those of only {sample}; {way_out}"))
}

/// Returns the sample that the columns were inferred from, and the option to read all records.
fn sample(origin: &ColumnOrigin, spelling: Spelling) -> Option<(String, String)> {
    let ColumnOrigin::Records { probed_files, files, records, is_all: false } = origin else { return None };
    let (records, all_files) = (counted(*records, "record"), counted(*files as u64, "file"));
    let (sample, keys) = match probed_files < files {
        true => (format!("{records} in {probed_files} of {all_files}"), &["infer_files", "infer_records"][..]),
        false => (format!("{records} in {all_files}"), &["infer_records"][..]),
    };
    let all: Vec<_> = keys
        .iter()
        .map(|key| match spelling {
            Spelling::Argument => format!("--{} all", key.replace('_', "-")),
            Spelling::TableKey => format!("{key}=all"),
            Spelling::SqlOption => format!("{key} 'all'"),
        })
        .collect();
    let way_out = match spelling {
        Spelling::Argument => format!("{} inspects every record", all.join(" ")),
        Spelling::TableKey => format!("{} in --table inspects every record", all.join(",")),
        Spelling::SqlOption => format!("OPTIONS ({}) inspects every record", all.join(", ")),
    };
    Some((sample, way_out))
}
