//! Why a table cannot be opened or its text cannot be read.

mod line;

use arrow_schema::{ArrowError, DataType};
use datafusion_common::DataFusionError;

use crate::input_format::InputFormat;

pub use line::Line;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to understand, open or read an input.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

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
    /// No such option.
    #[error("unknown option {key:?}; known are {}", .known.join(", "))]
    UnknownOption {
        /// The key as the user wrote it.
        key: String,
        /// The options there are.
        known: Vec<&'static str>,
    },
    /// An option has a value it cannot have.
    #[error("option {key}={value:?}: expected {expected}")]
    OptionValue {
        /// The option.
        key: String,
        /// The value as the user wrote it.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// A type was declared for a column of the path that no directory has.
    #[error("no directory is named {column}=...; {}", in_path(found))]
    NotInPath {
        /// The column.
        column: String,
        /// The columns of the path.
        found: Vec<String>,
    },
    /// Two options that exclude each other.
    #[error("options {first:?} and {second:?} cannot be used together")]
    OptionsExclude {
        /// One.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// An option of one format was given for another.
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
    /// A format that is known by its first bytes but not read.
    #[error("{file}: reading {format} is not supported")]
    UnsupportedFormat {
        /// The file.
        file: String,
        /// Name of the format.
        format: &'static str,
    },
    /// The content is not of the format that the table is read as.
    #[error("{file}: the content is {found}, but the table is read as {expected}")]
    WrongFormat {
        /// The file.
        file: String,
        /// The format of the table.
        expected: &'static str,
        /// What the content is.
        found: String,
    },
    /// Files of one table are texts of different formats, by their names or by how they begin.
    #[error(
        "{file}: the {} says {found}, but the table is read as {format}, since {first} is",
        if *.by_name { "name" } else { "content" }
    )]
    SeveralFormats {
        /// The file.
        file: String,
        /// Its format.
        found: &'static str,
        /// Whether the name says so; the content if not.
        by_name: bool,
        /// The first file of the table.
        first: String,
        /// The format of the table.
        format: &'static str,
    },
    /// The name says one format and the content is another, and neither was asked for.
    #[error("{file}: the name says {named}, but the content is {found}")]
    Misnamed {
        /// The file.
        file: String,
        /// The format of the name.
        named: &'static str,
        /// What the content is.
        found: String,
    },
    /// A named Parquet file of 0 bytes.
    #[error("{file}: the file is empty (0 bytes)")]
    EmptyFile {
        /// The file.
        file: String,
    },
    /// A file with two columns of one name.
    #[error("{file}: two columns are named {column:?}, so neither can be asked for")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
    },
    /// A footer of Parquet or ORC that contradicts itself.
    #[error("{file}: the file is damaged: {reason}")]
    Footer {
        /// The file.
        file: String,
        /// The contradiction.
        reason: String,
    },
    /// A stripe of an ORC file that contradicts itself or its footer.
    #[error("{file}: stripe {stripe} at byte {offset}: the file is damaged: {reason}")]
    Stripe {
        /// The file.
        file: String,
        /// The stripe, counted from 0.
        stripe: usize,
        /// Where it begins.
        offset: u64,
        /// The contradiction.
        reason: String,
    },
    /// A stripe of an ORC file that cannot be decoded.
    #[error("{file}: stripe {stripe} at byte {offset}: cannot be decoded")]
    Undecoded {
        /// The file.
        file: String,
        /// The stripe, counted from 0.
        stripe: usize,
        /// Where it begins.
        offset: u64,
        /// What the decoder said.
        source: ArrowError,
    },
    /// A timestamp of an ORC or Parquet file that the type of its column cannot hold.
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
    /// A date of a calendar that nobody recorded, where the session accepts none.
    #[error("{file}: row {row}: column \"{column}\": {value} is one of the {what}")]
    DoubtfulDate {
        /// The file.
        file: String,
        /// The row, counted from 0.
        row: u64,
        /// The column.
        column: String,
        /// The date or timestamp as it was read.
        value: String,
        /// What is doubtful, and why.
        what: String,
    },
    /// A timestamp of a Parquet file that has more nanoseconds than a day.
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
    /// A text of a Parquet file that is not UTF-8.
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
        /// What the store or the decompressor said.
        source: std::io::Error,
    },
    /// Bytes that are not text in the encoding.
    #[error("{file}: {}not {encoding}", .place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default())]
    Encoding {
        /// The file.
        file: String,
        /// Line, and column where known.
        place: Option<String>,
        /// The encoding expected.
        encoding: &'static str,
    },
    /// A record with more or fewer cells than the table has columns.
    #[error("{file}: {line}: expected {expected} cells, found {}{found}", if *.more { "more than " } else { "" })]
    Ragged {
        /// The file.
        file: String,
        /// Where the record starts.
        line: Line,
        /// How many cells were found.
        found: usize,
        /// Whether counting stopped there.
        more: bool,
        /// How many columns there are.
        expected: usize,
    },
    /// A quoted cell does not end, or a record is absurdly long for want of its end.
    #[error("{file}: {line}: {reason}")]
    Quote {
        /// The file.
        file: String,
        /// Where the record starts.
        line: Line,
        /// What is wrong.
        reason: String,
    },
    /// A column of a type that the format does not have.
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
    /// A line that is no row.
    #[error("{file}: {line}{}: {reason}", .byte.map(|byte| format!(", byte {byte}")).unwrap_or_default())]
    Malformed {
        /// The file.
        file: String,
        /// The line.
        line: Line,
        /// Where in the line, counted from 1.
        byte: Option<usize>,
        /// What is wrong.
        reason: String,
    },
    /// A record that is longer than the memory limit lets it be.
    #[error("{file}: {line}: the record is longer than {bytes} bytes, a quarter of the memory limit")]
    LongRecord {
        /// The file.
        file: String,
        /// Where the record starts.
        line: Line,
        /// The most bytes that a record may have.
        bytes: u64,
    },
    /// A cell with a line end, though the user promised that there is none.
    #[error("{file}: {line}: a line end in a cell, although newlines_in_values=false")]
    LineEnd {
        /// The file.
        file: String,
        /// Where the record starts.
        line: Line,
    },
    /// A cell that is no value of its column's type.
    #[error("{file}: {line}: column \"{column}\": expected {expected}, found {cell:?}")]
    Cell {
        /// The file.
        file: String,
        /// Where the record starts.
        line: Line,
        /// The column.
        column: String,
        /// Its type.
        expected: DataType,
        /// The cell, cut if long.
        cell: String,
        /// Whether the user declared the type; if not, it was inferred.
        declared: bool,
    },
    /// A file that contradicts itself or is cut off.
    #[error("{file}: at byte {byte}: the file is damaged: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// Where what is damaged begins.
        byte: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A schema of an Avro file that is none, or has a record that holds itself.
    #[error("{file}: the schema in its header cannot be used: {reason}")]
    AvroSchema {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A codec of an Avro file that is not known.
    #[error(
        "{file}: its blocks are compressed with {codec:?}; known are null, deflate, snappy, bzip2, xz and zstandard"
    )]
    AvroCodec {
        /// The file.
        file: String,
        /// The name in the header.
        codec: String,
    },
    /// A record of an Avro file that is no value of the file's schema.
    #[error("{file}: record {record} of the block at byte {byte}: {reason}")]
    AvroRecord {
        /// The file.
        file: String,
        /// The record in its block, counted from 0.
        record: u64,
        /// Where its block begins.
        byte: u64,
        /// The column and what is found there.
        reason: String,
    },
    /// A message of an Arrow file or stream that cannot be decoded.
    #[error("{file}: at byte {byte}: the Arrow message cannot be decoded")]
    Message {
        /// The file.
        file: String,
        /// Where the message begins.
        byte: u64,
        /// What the decoder said.
        source: ArrowError,
    },
    /// Text that is no JSON, or not an object a row.
    #[error("{file}: {line}, character {character}: expected {expected}, found {found}")]
    JsonSyntax {
        /// The file.
        file: String,
        /// Where this stands.
        line: Line,
        /// The character in the line, counted from 1.
        character: u64,
        /// What may stand there.
        expected: String,
        /// What does.
        found: String,
    },
    /// A value that does not fit its column.
    #[error("{file}: {line}, character {character}: column \"{column}\": expected {expected}, found {found}")]
    JsonValue {
        /// The file.
        file: String,
        /// Where the value begins.
        line: Line,
        /// The character in the line, counted from 1.
        character: u64,
        /// The column, or the path to the part of one.
        column: String,
        /// Its type.
        expected: DataType,
        /// The value as JSON, cut if long.
        found: String,
        /// Whether the user declared the type; if not, it was inferred.
        declared: bool,
    },
    /// A key that none of the first objects has.
    #[error(
        "{file}: {line}, character {character}: key \"{column}\": the first objects, which tell the columns, have no such key"
    )]
    JsonKey {
        /// The file.
        file: String,
        /// Where the key stands.
        line: Line,
        /// The character in the line, counted from 1.
        character: u64,
        /// The key, or the path to it.
        column: String,
    },
    /// A key with the name of a column that the file's path has.
    #[error("{file}: {line}, character {character}: column \"{column}\" stands in the file and in its path")]
    KeyInPath {
        /// The file.
        file: String,
        /// Where the key stands.
        line: Line,
        /// The character in the line, counted from 1.
        character: u64,
        /// The key.
        column: String,
    },
    /// A declared column that the first objects do not have, but one that is written in another case.
    #[error("{file}: the objects have no key \"{column}\", but \"{key}\"")]
    KeyCase {
        /// The file.
        file: String,
        /// The declared column.
        column: String,
        /// The key that there is.
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
    /// No record to take the columns from.
    #[error("{file}: no columns: the file holds no record")]
    NoColumns {
        /// The file.
        file: String,
    },
    /// A value that is none of the type that the column has in other files, or was declared with.
    #[error("{file}: row {row}{}: column \"{column}\": {reason}", .after_byte.map(|byte| format!(" after byte {byte}")).unwrap_or_default())]
    Unfit {
        /// The file.
        file: String,
        /// The row, counted from 0.
        row: u64,
        /// The byte of the file from which rows were counted, if that is not the start.
        after_byte: Option<u64>,
        /// The column.
        column: String,
        /// What is wrong.
        reason: String,
    },
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
    /// What failed.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}
