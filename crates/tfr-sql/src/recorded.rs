//! The details of a query that the manifest records in addition to its text: the preceding statements, and how tables
//! are read.

use std::ffi::OsString;
use std::num::NonZeroUsize;

use arrow_tfrecord::MappingOptions;
use datafusion::sql::parser::Statement;
use datafusion_tfrecord::ReadOptions;
use serde_json::{Map, Value, json};
use tfr_files::{DirectoryTable, TableVersion};
use tfr_formats::{InputFormat, TableSpec};
use tfr_stores::LocationText;
use tfrecord_framing::Container;

use crate::cli::deciding_options;
use crate::secrets::Secrets;

/// Returns a statement as text. Of its `OPTIONS`, only the names are included, because values may be secrets.
pub fn statement(statement: &Statement) -> String {
    let text = statement.to_string();
    let secrets = Secrets::default();
    secrets.add_sql(&text);
    let text = secrets.hide(&text).into_owned();
    match statement {
        Statement::CreateExternalTable(table) if !table.options.is_empty() => {
            let names: Vec<_> = table.options.iter().map(|(name, _)| name.as_str()).collect();
            format!("{} OPTIONS ({})", text.trim_end(), names.join(", "))
        }
        _ => text,
    }
}

/// The key of the query and its options, as arguments.
pub const ARGUMENTS: &str = "arguments";

/// Returns the query and its options that decide what is written, without secrets; null if the options are not text.
pub fn arguments(arguments: &[OsString], text: &str, partitions: NonZeroUsize) -> Value {
    let secrets = Secrets::in_arguments(arguments);
    secrets.add_sql(text);
    let Some(options) = deciding_options(arguments) else { return Value::Null };
    let options = options.into_iter().chain([format!("--partitions={partitions}")]);
    std::iter::once(text.to_owned()).chain(options).map(|argument| json!(secrets.hide(&argument))).collect()
}

/// Returns the name of a table, and the number and size of its files if its format has no versions.
pub fn files(name: &str, table: &DirectoryTable) -> Option<(String, Value)> {
    let listing = table.listing();
    if listing.version().is_some() {
        return None;
    }
    let bytes: u64 = listing.files().iter().map(|file| file.size).sum();
    Some((name.to_owned(), count(listing.files().len(), bytes)))
}

/// Returns the number and size of files.
pub fn count(files: usize, bytes: u64) -> Value {
    json!({ "files": files, "bytes": bytes })
}

/// Returns the name and the version of a table whose format has versions, so that another run can read the same rows.
pub fn version(name: &str, table: &DirectoryTable) -> Option<(String, Value)> {
    let TableVersion { format, number, schema } = table.listing().version()?;
    let mut version =
        Map::from_iter([("format".to_owned(), json!(format.name())), ("version".to_owned(), json!(number))]);
    version.extend(schema.map(|schema| ("schema".to_owned(), json!(schema))));
    Some((name.to_owned(), Value::Object(version)))
}

/// Returns the locations and the dialect of a table: the options of `--table` that differ from their defaults.
pub fn table(spec: &TableSpec) -> Value {
    let (csv, usual) = (&spec.options.csv, tfr_formats::csv::CsvOptions::default());
    let (records, default) = (&spec.options.tfrecord, ReadOptions::default());
    let character = |byte: Option<u8>| byte.map_or_else(|| json!("none"), |byte| json!(char::from(byte).to_string()));
    let word = |value: &dyn std::fmt::Debug| json!(format!("{value:?}").to_lowercase());
    let compression = match (csv.compression, records.container.and_then(Container::compression)) {
        (_, Some(known)) => json!(known.to_string()),
        (known, None) => known.map_or(Value::Null, |known| word(&known)),
    };
    let count = |count: Option<usize>| count.map_or_else(|| json!("all"), |count| json!(count));
    let mapping = records.mapping.clone().unwrap_or_default();
    let usual_mapping = MappingOptions::default();
    let rules: Vec<_> = mapping
        .choices
        .iter()
        .map(|(column, choice)| format!("{column}: {choice}"))
        .chain(mapping.column_nulls.iter().map(|(column, nulls)| format!("{column}: null={nulls}")))
        .collect();
    let columns = spec.options.types.as_ref().and_then(|_| spec.options.given().find(|(key, ..)| *key == "types"));
    let columns = columns.map(|(_, text, _)| text);
    let given = [
        (
            "format",
            spec.options.format.is_some(),
            json!(spec.options.format.map(|format| format.name().to_lowercase())),
        ),
        ("bare_files", spec.options.bare_files, json!(true)),
        ("delimiter", csv.delimiter != usual.delimiter, character(csv.delimiter)),
        ("quote", csv.quote != usual.quote, character(csv.quote)),
        ("escape", csv.escape != usual.escape, character(csv.escape)),
        ("comment", csv.comment != usual.comment, character(csv.comment)),
        ("terminator", csv.terminator != usual.terminator, character(csv.terminator)),
        ("header", csv.header != usual.header, json!(csv.header)),
        ("null", csv.nulls != usual.nulls, json!(csv.nulls)),
        ("encoding", csv.encoding != usual.encoding, json!(csv.encoding.to_string())),
        ("compression", compression != Value::Null, compression),
        ("types", csv.types != usual.types, word(&csv.types)),
        ("types", columns.is_some(), json!(columns)),
        ("infer_rows", csv.infer_rows != usual.infer_rows, json!(csv.infer_rows)),
        ("newlines_in_values", csv.newlines_in_values != usual.newlines_in_values, json!(csv.newlines_in_values)),
        ("skip_lines", csv.skip_lines != usual.skip_lines, json!(csv.skip_lines)),
        ("short_rows", csv.short_rows != usual.short_rows, json!("null")),
        ("trim", csv.trim != usual.trim, json!(csv.trim)),
        ("record_limit", csv.record_limit != usual.record_limit, json!(csv.record_limit)),
        ("split", records.split.is_some(), json!(records.split)),
        ("schema", records.schema_file.is_some(), json!(records.schema_file.as_ref().map(LocationText::to_string))),
        ("map", !rules.is_empty(), json!(rules)),
        ("record_type", mapping.record_type != usual_mapping.record_type, json!(mapping.record_type)),
        ("sequence", !mapping.sequences.is_empty(), json!(mapping.sequences)),
        ("separator", mapping.separator != usual_mapping.separator, json!(mapping.separator)),
        ("vocabulary", !mapping.vocabularies.is_empty(), json!(mapping.vocabularies)),
        ("crc", records.crc != default.crc, word(&records.crc)),
        ("damaged", records.skips_damaged, json!("skip")),
        ("infer_files", records.infer_files != default.infer_files, count(records.infer_files)),
        ("infer_records", records.infer_records != default.infer_records, count(records.infer_records)),
        ("fixed_size_lists", records.fixed_size_lists != default.fixed_size_lists, json!(records.fixed_size_lists)),
    ];
    let mut table = Map::from_iter([(
        "path".to_owned(),
        json!(spec.locations.iter().map(LocationText::to_string).collect::<Vec<_>>()),
    )]);
    table.extend(given.into_iter().filter(|(_, differs, _)| *differs).map(|(key, _, value)| (key.to_owned(), value)));
    // Options specific to other formats, as given.
    let is_above = |format: &InputFormat| matches!(format, InputFormat::Csv | InputFormat::TfRecord);
    let others = spec.options.given().filter(|(_, _, formats)| !formats.iter().any(is_above));
    table.extend(others.map(|(key, value, _)| (key.to_owned(), json!(value))));
    Value::Object(table)
}
