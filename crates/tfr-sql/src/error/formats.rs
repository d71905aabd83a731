//! Hints for tables that cannot be opened, and for values that do not match the type of their column.

use arrow::datatypes::{DataType, TimeUnit};
use tfr_files::TableFormat;
use tfr_formats::{Error, ErrorKind, FilePlace, Line, TableError, UnsupportedFormat, Within};

use super::conversions::conversion;

/// Returns the options that choose a version of a table of the format, if the option is one of another format.
fn version_keys_of(key: &str, format: &str) -> Option<&'static str> {
    match (TableFormat::named(format)?, key) {
        (TableFormat::Delta, "snapshot" | "branch" | "tag") => Some("version=, timestamp="),
        (TableFormat::Iceberg, "version") => Some("snapshot=, timestamp=, branch=, tag="),
        _ => None,
    }
}

/// Returns a hint, if there is one.
pub fn hint(error: &Error) -> Option<String> {
    let column = error.kind().place().and_then(|place| place.column.as_deref()).unwrap_or_default();
    match error.kind() {
        ErrorKind::Spec { .. } => Some("--table NAME=URL[,format=csv][,key=value...]".to_owned()),
        ErrorKind::TableFormat { format, .. } => Some(super::table_formats::way_out_of(*format)),
        ErrorKind::WrongFormat { .. } => {
            Some("name the files of one format, as in 'dir/**/*.csv'; if all files have the same, specify it with format=".to_owned())
        }
        ErrorKind::NotCompressed { .. } => {
            Some("copy or write it again; for a file that has only the name, give compression=none".to_owned())
        }
        ErrorKind::OptionForOtherFormat { key, found, .. } if let Some(keys) = version_keys_of(key, found) => {
            Some(format!("a version of {found} is chosen by one of {keys}"))
        }
        ErrorKind::Table(TableError::ReplacedMeanwhile { .. }) => Some("run the query again".to_owned()),
        ErrorKind::Table(TableError::NotIceberg { .. }) => {
            Some("name the directory that contains metadata/, or a metadata file in it".to_owned())
        }
        ErrorKind::Table(TableError::IcebergMetadata { directory }) => {
            let above = directory.trim_end_matches('/').strip_suffix("metadata").filter(|above| !above.is_empty());
            Some(format!("name the directory above, which is the table: FROM '{}'", above.unwrap_or("./")))
        }
        ErrorKind::Table(TableError::TypeInFile {
            expected: DataType::Timestamp(_, None),
            found: DataType::Timestamp(_, Some(_)),
            ..
        }) => Some(
            "the file has instants and the table times without a zone, and nothing records which zone is meant: write \
             the file again with the type of the table"
                .to_owned(),
        ),
        ErrorKind::HiveTable(refusal) => super::hive::hint(refusal),
        ErrorKind::OptionForOtherFormat { key, .. } => {
            Some(format!("leave {key} out, or specify the format of the files with format="))
        }
        ErrorKind::Changed(changed) => super::files::hint(changed),
        ErrorKind::Misnamed { named, is_compressed: true, .. } => {
            Some(format!("unpack it: {named} files have their own compression, and are not read from another"))
        }
        ErrorKind::Misnamed { .. } => Some("specify it with format=".to_owned()),
        ErrorKind::SeveralFormats { .. } => {
            Some("name the files of one format, 'dir/**/*.csv', or specify the format of all of them with format=".to_owned())
        }
        ErrorKind::Encoding { encoding: "UTF-8", .. } => {
            Some("give encoding= as the file is written: windows-1252, utf-16, shift_jis, gbk, ...".to_owned())
        }
        ErrorKind::Ragged { .. } => Some(
            "check delimiter=, quote=, escape= and comment=; give skip_lines=N if lines stand before the header, or \
             short_rows=null if cells are missing at the end of records"
                .to_owned(),
        ),
        ErrorKind::Quote { .. } => Some(
            "give quote=none if quotes have no meaning in this file, or record_limit=256MiB if records are that long"
                .to_owned(),
        ),
        ErrorKind::UnsupportedFormat { format: UnsupportedFormat::CompressedText(_), .. } => {
            Some("unpack it, or write it with gzip, bzip2, xz, zstd or deflate".to_owned())
        }
        ErrorKind::UnsupportedFormat { format: UnsupportedFormat::CompressedRecords(_), .. } => {
            Some("unpack it, or write it with gzip or deflate, the compressions of TFRecord".to_owned())
        }
        ErrorKind::UnsupportedFormat { format: UnsupportedFormat::Binary, .. } => Some(
            "give encoding=utf-16 if that is what it is, or format=csv to read it as text nevertheless".to_owned(),
        ),
        ErrorKind::LongRecord { .. } => Some("raise --memory-limit".to_owned()),
        ErrorKind::LongBlock { .. } => {
            Some("raise --memory-limit: a block may take a quarter of it, and at most 1 GiB".to_owned())
        }
        ErrorKind::LineEnd { .. } => Some("leave newlines_in_values at true".to_owned()),
        ErrorKind::Cell { expected, cell: found, declared: true, .. }
        | ErrorKind::JsonValue { expected, found, declared: true, .. }
            if expected.is_floating() && is_whole(found) =>
        {
            Some(format!(
                "{expected} cannot represent this number: declare \"{column}\" as BIGINT or DECIMAL(38, 0), or as VARCHAR \
                 and CAST it in the query"
            ))
        }
        ErrorKind::Cell { declared: true, .. } => Some(format!(
            "declare \"{column}\" with a type that can represent every cell exactly, or as VARCHAR and CAST it in the query"
        )),
        ErrorKind::Cell { declared: false, .. } => Some(format!(
            "types are inferred from the first rows: read every column as text with types=string and CAST \"{column}\" in the query, or read more rows with infer_rows=all"
        )),
        ErrorKind::JsonSyntax {
            place: FilePlace { within: Within::Character(Line { after_byte: Some(_), .. }, _), .. },
            ..
        } => {
            Some("if objects span lines in this file, set newlines_in_values=true".to_owned())
        }
        ErrorKind::JsonValue { declared: true, .. } => Some(format!(
            "declare \"{column}\" with a type that can represent every value exactly, or as VARCHAR and CAST it in the query"
        )),
        ErrorKind::JsonValue { declared: false, .. } | ErrorKind::JsonKey { .. } => Some(
            "columns are inferred from the first objects: read more of them with infer_rows=all, or declare the columns with CREATE EXTERNAL TABLE".to_owned(),
        ),
        ErrorKind::KeyCase { key, .. } => {
            Some(format!("names without quotes are lower-cased: declare the column as \"{key}\", with the quotes"))
        }
        ErrorKind::MissingColumn { .. } => {
            Some("give header=false if the first line is data; declared columns are matched by name".to_owned())
        }
        ErrorKind::Timestamp { expected: DataType::Timestamp(TimeUnit::Nanosecond, _), .. } => {
            Some("nanoseconds reach from 1677 to 2262; read the table with timestamps=us".to_owned())
        }
        ErrorKind::PageChecksum { .. } => Some(
            "the file is damaged: copy it again from where it is whole; the option crc=skip reads its values as they are"
                .to_owned(),
        ),
        ErrorKind::NotText { .. } => Some(format!(
            "read the column as bytes: declare \"{column}\" as BYTEA with CREATE EXTERNAL TABLE, or give the option binary={column}"
        )),
        ErrorKind::Timestamp { expected: DataType::Interval(_), .. } => None,
        ErrorKind::Timestamp { expected: DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _), .. } => {
            Some(format!("declare \"{column}\" as TIMESTAMP(6) or TIMESTAMP(9), or leave the columns undeclared"))
        }
        ErrorKind::Timestamp { .. } => {
            Some("it is finer than a microsecond or beyond the year 294246; if no value of the column is before 1677 or after 2262, read the table with timestamps=ns; timestamps=cut cuts finer digits of ORC and of INT96 in Parquet off, with a warning".to_owned())
        }
        ErrorKind::DoubtfulDate { .. } => Some(
            "declare the calendar: --table NAME=PATH,calendar=proleptic or calendar=hybrid, or OPTIONS (calendar \
             'proleptic'); or run without --strict"
                .to_owned(),
        ),
        ErrorKind::Unfit { .. } => Some(format!(
            "give \"{column}\" a type that holds all values of the files, in the columns of CREATE EXTERNAL TABLE or with the \
             option types; STRING holds numbers and times, for a CAST in the query"
        )),
        ErrorKind::UnsupportedFormat { file, format: UnsupportedFormat::Named(name) } => {
            conversion(name).map(|conversion| format!("convert it: {}", conversion.replace("FILE", file)))
        }
        ErrorKind::Metastore(error) => super::metastore::hint(error),
        ErrorKind::NoColumns { .. } => Some("declare the columns with CREATE EXTERNAL TABLE".to_owned()),
        _ => None,
    }
}

/// Whether the text is a number without a decimal point or an exponent.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
