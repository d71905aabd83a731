//! Errors of opening tables and reading their files.

mod hive;
mod line;
mod metastore;
mod table;

use arrow_schema::{ArrowError, DataType};
use datafusion_common::DataFusionError;
use datafusion_tfrecord::similar;
use tfr_files::TableFormat;

use crate::foreign::UnsupportedFormat;
use crate::input_format::InputFormat;
use crate::names::MAX_COLUMNS;

pub use hive::HiveRefusal;
pub use line::Line;
pub use metastore::MetastoreError;
pub use table::TableError;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

tfrecord_framing::boxed_error! {
    /// A failure to parse, open or read an input.
    pub struct Error(Box<ErrorKind>);
}

/// What failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A table specification is not `NAME=URL[,key=value...]`.
    #[error("table {spec:?}: {reason}")]
    Spec {
        /// The specification as the user wrote it.
        spec: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Unknown option.
    #[error("unknown option {key:?}; {}", expected(key, known))]
    UnknownOption {
        /// The key as the user wrote it.
        key: String,
        /// The known options.
        known: Vec<&'static str>,
    },
    /// An option has an invalid value.
    #[error("option {key}={value:?}: expected {expected}")]
    OptionValue {
        /// The option.
        key: String,
        /// The value as the user wrote it.
        value: String,
        /// The accepted values.
        expected: String,
    },
    /// A table format was named that is not read.
    #[error("option format={name:?}: {} is not read", .format.table())]
    TableFormat {
        /// The name as the user wrote it.
        name: String,
        /// The format.
        format: TableFormat,
    },
    /// A type was declared for a partition column that no directory has.
    #[error("no directory is named {column}=...; {}", in_path(found))]
    NotInPath {
        /// The column.
        column: String,
        /// The partition columns.
        found: Vec<String>,
    },
    /// Two options that exclude each other.
    #[error("options {first:?} and {second:?} cannot be used together")]
    OptionsExclude {
        /// The first option.
        first: &'static str,
        /// The second option.
        second: &'static str,
    },
    /// An option was given for a format that does not have it.
    #[error("{file}: option {key:?} is for {}, but this is {found}", names(formats))]
    OptionForOtherFormat {
        /// The file or table.
        file: String,
        /// The option.
        key: String,
        /// The formats that have it.
        formats: Vec<InputFormat>,
        /// The format found.
        found: &'static str,
    },
    /// A format that is detected by its first bytes but not supported.
    #[error("{file}: reading {format} is not supported")]
    UnsupportedFormat {
        /// The file.
        file: String,
        /// The format.
        format: UnsupportedFormat,
    },
    /// The content is not of the table's format.
    #[error("{file}: the content is {found}, but the table is read as {expected}")]
    WrongFormat {
        /// The file.
        file: String,
        /// The format of the table.
        expected: &'static str,
        /// The format of the content.
        found: String,
    },
    /// A file is not compressed as its name says: it is cut off, damaged, or has a wrong name.
    #[error("{file}: expected a file compressed with {codec}, as its name says, found {found}")]
    NotCompressed {
        /// The file.
        file: String,
        /// The compression.
        codec: &'static str,
        /// The content.
        found: String,
    },
    /// Files of one table have different text formats, by their names or by their first bytes.
    #[error(
        "{file}: the {} says {found}, but the table is read as {format}, since {first} is",
        if *.by_name { "name" } else { "content" }
    )]
    SeveralFormats {
        /// The file.
        file: String,
        /// Its format.
        found: &'static str,
        /// Whether the format follows from the name; otherwise, from the content.
        by_name: bool,
        /// The first file of the table.
        first: String,
        /// The format of the table.
        format: &'static str,
    },
    /// Name and content imply different formats, and none was specified.
    #[error("{file}: the name says {named}, but the content is {found}")]
    Misnamed {
        /// The file.
        file: String,
        /// The format that the name implies.
        named: &'static str,
        /// The format of the content.
        found: String,
        /// Whether the content is compressed as a whole.
        is_compressed: bool,
    },
    /// A Parquet file of 0 bytes that was named explicitly.
    #[error("{file}: the file is empty (0 bytes)")]
    EmptyFile {
        /// The file.
        file: String,
    },
    /// A file has two columns of one name.
    #[error("{file}: two columns are named {column:?}, so neither can be selected")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
    },
    /// A stripe of an ORC file cannot be decoded.
    #[error("{file}: stripe {stripe} at byte {offset}: cannot be decoded")]
    Undecoded {
        /// The file.
        file: String,
        /// The stripe, counted from 0.
        stripe: usize,
        /// The byte at which it begins.
        offset: u64,
        /// The decoder's error.
        source: ArrowError,
    },
    /// A timestamp of an ORC or Parquet file is out of range for its column's type.
    #[error("{file}: {}column \"{column}\": {value} does not fit into {expected}", .row.map(|row| format!("row {row}: ")).unwrap_or_default())]
    Timestamp {
        /// The file.
        file: String,
        /// The row, counted from 0.
        row: Option<u64>,
        /// The column.
        column: String,
        /// The timestamp.
        value: String,
        /// The type of the column.
        expected: DataType,
    },
    /// A date or timestamp in an unrecorded calendar, in a session that rejects these.
    #[error("{file}: row {row}: column \"{column}\": {value} is one of the {what}")]
    DoubtfulDate {
        /// The file.
        file: String,
        /// The row, counted from 0.
        row: u64,
        /// The column.
        column: String,
        /// The date or timestamp as read.
        value: String,
        /// The ambiguity and its reason.
        what: String,
    },
    /// A timestamp of a Parquet file has more nanoseconds than a day.
    #[error("{file}: row {row}: column \"{column}\": {value}, of which a day has 86400000000000")]
    Int96 {
        /// The file.
        file: String,
        /// The row, counted from 0.
        row: u64,
        /// The column.
        column: String,
        /// The timestamp.
        value: String,
    },
    /// A page of a Parquet file has another checksum than its header specifies.
    #[error(
        "{file}: row group {row_group}, column \"{column}\": the page at byte {byte} has the checksum {found:#010x}, \
         expected {expected:#010x}"
    )]
    PageChecksum {
        /// The file.
        file: String,
        /// The row group, counted from 0.
        row_group: usize,
        /// The column, or the path to the part of one.
        column: String,
        /// The position of the page in the file.
        byte: u64,
        /// The checksum of the page.
        found: u32,
        /// The checksum in its header.
        expected: u32,
    },
    /// A text in a Parquet file is not UTF-8.
    #[error("{file}: row {row}: column \"{column}\": the text is not UTF-8")]
    NotText {
        /// The file.
        file: String,
        /// The row, counted from 0.
        row: u64,
        /// The column.
        column: String,
    },
    /// The file cannot be fetched or decompressed.
    #[error("{file}: cannot be read")]
    Read {
        /// The file.
        file: String,
        /// The error of the store or the decompressor.
        source: std::io::Error,
    },
    /// The file has changed since it was listed.
    #[error(transparent)]
    Changed(tfr_files::Error),
    /// The bytes are not text in the expected encoding.
    #[error("{file}: {}not {encoding}", .place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default())]
    Encoding {
        /// The file.
        file: String,
        /// The line, and the column if known.
        place: Option<String>,
        /// The encoding expected.
        encoding: &'static str,
    },
    /// A record has more or fewer cells than the table has columns.
    #[error("{file}: {line}: expected {expected} cells, found {}{found}", if *.more { "more than " } else { "" })]
    Ragged {
        /// The file.
        file: String,
        /// The line in which the record starts.
        line: Line,
        /// The number of cells found.
        found: usize,
        /// Whether counting stopped there.
        more: bool,
        /// The number of columns.
        expected: usize,
    },
    /// A quoted cell is not closed, or a record is too long, probably because its end is missing.
    #[error("{file}: {line}: {reason}")]
    Quote {
        /// The file.
        file: String,
        /// The line in which the record starts.
        line: Line,
        /// The defect.
        reason: String,
    },
    /// A column is declared with a type that the format does not have.
    #[error("{file}: column \"{column}\" is declared as {data_type}, which {format} does not hold")]
    NoSuchType {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Its declared type.
        data_type: DataType,
        /// The format.
        format: &'static str,
    },
    /// A line is not a valid row, or a record has more columns than a table can have.
    #[error("{file}: {line}{}: {reason}", .byte.map(|byte| format!(", byte {byte}")).unwrap_or_default())]
    Malformed {
        /// The file.
        file: String,
        /// The line, or the one in which the record starts.
        line: Line,
        /// The byte in the line, counted from 1.
        byte: Option<usize>,
        /// The defect.
        reason: String,
    },
    /// A record takes more memory than the limit allows.
    #[error("{file}: {line}: the record takes more than {bytes} bytes, a quarter of the memory limit")]
    LongRecord {
        /// The file.
        file: String,
        /// The line in which the record starts.
        line: Line,
        /// The maximum number of bytes.
        bytes: u64,
    },
    /// A block of Avro is longer than the memory limit allows.
    #[error("{file}: byte {byte}: the block has more than {bytes} bytes when decompressed")]
    LongBlock {
        /// The file.
        file: String,
        /// The offset of the block.
        byte: u64,
        /// The maximum length of a block in bytes.
        bytes: u64,
    },
    /// A cell contains a line end although `newlines_in_values` is false.
    #[error("{file}: {line}: a line end in a cell, although newlines_in_values=false")]
    LineEnd {
        /// The file.
        file: String,
        /// The line in which the record starts.
        line: Line,
    },
    /// A cell is not a valid value of its column's type.
    #[error("{file}: {line}: column \"{column}\": expected {expected}, found {cell:?}")]
    Cell {
        /// The file.
        file: String,
        /// The line in which the record starts.
        line: Line,
        /// The column.
        column: String,
        /// Its type.
        expected: DataType,
        /// The cell, truncated if long.
        cell: String,
        /// Whether the type was declared by the user or inferred.
        declared: bool,
    },
    /// A file is inconsistent or cut off.
    #[error("{file}: {}the file is damaged: {reason}", damaged_part(*.stripe, *.byte))]
    Damaged {
        /// The file.
        file: String,
        /// The damaged stripe of an ORC file, counted from 0.
        stripe: Option<usize>,
        /// The byte at which the damaged part begins. `None` for the footer.
        byte: Option<u64>,
        /// The defect.
        reason: String,
    },
    /// The schema of an Avro file is invalid, or a record type contains itself.
    #[error("{file}: the schema in its header cannot be used: {reason}")]
    AvroSchema {
        /// The file.
        file: String,
        /// The defect.
        reason: String,
    },
    /// An Avro file uses an unknown codec.
    #[error(
        "{file}: unsupported compression of its blocks: {codec:?}, expected null, deflate, snappy, bzip2, xz or zstandard"
    )]
    AvroCodec {
        /// The file.
        file: String,
        /// The name in the header.
        codec: String,
    },
    /// A record of an Avro file is not a valid value of the file's schema.
    #[error("{file}: record {record} of the block at byte {byte}: {reason}")]
    AvroRecord {
        /// The file.
        file: String,
        /// The record in its block, counted from 0.
        record: u64,
        /// The byte at which the block begins.
        byte: u64,
        /// The column and the value found.
        reason: String,
    },
    /// A message of an Arrow file or stream cannot be decoded.
    #[error("{file}: at byte {byte}: the Arrow message cannot be decoded")]
    Message {
        /// The file.
        file: String,
        /// The byte at which the message begins.
        byte: u64,
        /// The decoder's error.
        source: ArrowError,
    },
    /// A text is not valid JSON, or not one object per row.
    #[error("{file}: {line}, character {character}: expected {expected}, found {found}")]
    JsonSyntax {
        /// The file.
        file: String,
        /// The line of the error.
        line: Line,
        /// The character in the line, counted from 1.
        character: u64,
        /// What is accepted at this position.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A value does not fit its column.
    #[error("{file}: {line}, character {character}: column \"{column}\": expected {expected}, found {found}")]
    JsonValue {
        /// The file.
        file: String,
        /// The line in which the value begins.
        line: Line,
        /// The character in the line, counted from 1.
        character: u64,
        /// The column, or the path to a nested field.
        column: String,
        /// Its type.
        expected: DataType,
        /// The value as JSON, truncated if long.
        found: String,
        /// Whether the type was declared by the user or inferred.
        declared: bool,
    },
    /// A key that none of the first objects has.
    #[error(
        "{file}: {line}, character {character}: key \"{column}\": the first objects, which determine the columns, do not have this key"
    )]
    JsonKey {
        /// The file.
        file: String,
        /// The line of the key.
        line: Line,
        /// The character in the line, counted from 1.
        character: u64,
        /// The key, or the path to it.
        column: String,
    },
    /// A key has the name of a partition column of the file's path.
    #[error("{file}: {line}, character {character}: column \"{column}\" is both in the file and in its path")]
    KeyInPath {
        /// The file.
        file: String,
        /// The line of the key.
        line: Line,
        /// The character in the line, counted from 1.
        character: u64,
        /// The key.
        column: String,
    },
    /// The first objects lack a declared column, but have a key that differs only in case.
    #[error("{file}: the objects have no key \"{column}\", but \"{key}\"")]
    KeyCase {
        /// The file.
        file: String,
        /// The declared column.
        column: String,
        /// The key that exists.
        key: String,
    },
    /// The header lacks a column of the table.
    #[error("{file}: the header has no column \"{column}\"; it has {}", .header.join(", "))]
    MissingColumn {
        /// The file.
        file: String,
        /// The declared column.
        column: String,
        /// The names in the header.
        header: Vec<String>,
    },
    /// There is no record to infer the columns from.
    #[error("{file}: no columns: the file contains no record")]
    NoColumns {
        /// The file.
        file: String,
    },
    /// A value does not fit the type that the column was declared with, or has in other files.
    #[error("{file}: row {row}{}: column \"{column}\": {reason}", .after_byte.map(|byte| format!(" after byte {byte}")).unwrap_or_default())]
    Unfit {
        /// The file.
        file: String,
        /// The row, counted from 0.
        row: u64,
        /// The byte from which rows are counted, if not the start of the file.
        after_byte: Option<u64>,
        /// The column.
        column: String,
        /// The defect.
        reason: String,
    },
    /// A table whose metadata determines its files cannot be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A Hive Metastore, or one of its tables, cannot be read.
    #[error(transparent)]
    Metastore(#[from] MetastoreError),
    /// A Hive table cannot be read, by its classes and properties.
    #[error(transparent)]
    HiveTable(#[from] HiveRefusal),
}

fn damaged_part(stripe: Option<usize>, byte: Option<u64>) -> String {
    let stripe = stripe.map(|stripe| format!("stripe {stripe} ")).unwrap_or_default();
    byte.map(|byte| format!("{stripe}at byte {byte}: ")).unwrap_or_default()
}

fn in_path(found: &[String]) -> String {
    match found.is_empty() {
        true => "there are no key=value directories".to_owned(),
        false => format!("the directories are those of {}", found.join(", ")),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn names(formats: &[InputFormat]) -> String {
    let names: Vec<_> = formats.iter().map(|format| format.name()).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.join(""),
    }
}

impl Error {
    /// Returns the error of a record with more columns than a table can have.
    pub(crate) fn too_many_columns(file: &str, line: Line) -> Self {
        let reason = format!("it has more than {MAX_COLUMNS} columns");
        ErrorKind::Malformed { file: file.to_owned(), line, byte: None, reason }.into()
    }

    /// Returns the error of a file that cannot be fetched or decompressed.
    pub(crate) fn read(file: &str, source: std::io::Error) -> Self {
        match tfr_files::Error::change_in(&source) {
            Some(changed) => ErrorKind::Changed(changed).into(),
            None => ErrorKind::Read { file: file.to_owned(), source }.into(),
        }
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

/// Names the option that may be meant, or all of them.
fn expected(key: &str, known: &[&str]) -> String {
    match similar(key, known.iter().copied()) {
        Some(similar) => format!("did you mean {similar}?"),
        None => format!("expected one of {}", known.join(", ")),
    }
}
