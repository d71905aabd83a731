//! Errors of opening tables and reading their files.

mod file_place;
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

pub use file_place::{FilePlace, Within};
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
    /// Options exclude each other, or columns are declared that the files cannot have.
    #[error("{problem}")]
    Refused {
        /// What does not fit.
        problem: String,
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
    /// A file is empty, inconsistent, cut off or malformed, or has a value that no type can represent.
    #[error("{place}: {problem}")]
    Content {
        /// The position.
        place: FilePlace,
        /// The defect.
        problem: String,
    },
    /// A stripe of an ORC file or a message of an Arrow file or stream cannot be decoded.
    #[error("{place}: {problem}")]
    Undecoded {
        /// The position.
        place: FilePlace,
        /// What cannot be decoded.
        problem: &'static str,
        /// The decoder's error.
        source: ArrowError,
    },
    /// A timestamp of an ORC or Parquet file is out of range for its column's type.
    #[error("{place}: {value} does not fit into {expected}")]
    Timestamp {
        /// The row and the column.
        place: FilePlace,
        /// The timestamp.
        value: String,
        /// The type of the column.
        expected: DataType,
    },
    /// A date or timestamp in an unrecorded calendar, in a session that rejects these.
    #[error("{place}: {value} is one of the {what}")]
    DoubtfulDate {
        /// The row and the column.
        place: FilePlace,
        /// The date or timestamp as read.
        value: String,
        /// The ambiguity and its reason.
        what: String,
    },
    /// A text in a Parquet file is not UTF-8.
    #[error("{place}: the text is not UTF-8")]
    NotText {
        /// The row and the column.
        place: FilePlace,
    },
    /// A record has more or fewer cells than the table has columns.
    #[error("{place}: expected {expected} cells, found {}{found}", if *.more { "more than " } else { "" })]
    Ragged {
        /// The line.
        place: FilePlace,
        /// The number of cells found.
        found: usize,
        /// Whether counting stopped there.
        more: bool,
        /// The number of columns.
        expected: usize,
    },
    /// A quoted cell is not closed, or a record is too long, probably because its end is missing.
    #[error("{place}: {reason}")]
    Quote {
        /// The line.
        place: FilePlace,
        /// The defect.
        reason: String,
    },
    /// A record takes more memory than the limit allows.
    #[error("{place}: the record takes more than {bytes} bytes, a quarter of the memory limit")]
    LongRecord {
        /// The line.
        place: FilePlace,
        /// The maximum number of bytes.
        bytes: u64,
    },
    /// A cell contains a line end although `newlines_in_values` is false.
    #[error("{place}: a line end in a cell, although newlines_in_values=false")]
    LineEnd {
        /// The line.
        place: FilePlace,
    },
    /// A cell is not a valid value of its column's type.
    #[error("{place}: expected {expected}, found {cell:?}")]
    Cell {
        /// The line and the column.
        place: FilePlace,
        /// The column's type.
        expected: DataType,
        /// The cell, truncated if long.
        cell: String,
        /// Whether the type was declared by the user or inferred.
        declared: bool,
    },
    /// A text is not valid JSON, or not one object per row.
    #[error("{place}: expected {expected}, found {found}")]
    JsonSyntax {
        /// The character.
        place: FilePlace,
        /// What is accepted at this position.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A value does not fit its column.
    #[error("{place}: expected {expected}, found {found}")]
    JsonValue {
        /// The character and the column.
        place: FilePlace,
        /// The column's type.
        expected: DataType,
        /// The value as JSON, truncated if long.
        found: String,
        /// Whether the type was declared by the user or inferred.
        declared: bool,
    },
    /// A key that none of the first objects has.
    #[error("{place}: key \"{key}\": the first objects, which determine the columns, do not have this key")]
    JsonKey {
        /// The character.
        place: FilePlace,
        /// The key, or the path to it.
        key: String,
    },
    /// A key has the name of a partition column of the file's path.
    #[error("{place} is both in the file and in its path")]
    KeyInPath {
        /// The character and the key.
        place: FilePlace,
    },
    /// A value does not fit the type that the column was declared with, or has in other files.
    #[error("{place}: {reason}")]
    Unfit {
        /// The row and the column.
        place: FilePlace,
        /// The defect.
        reason: String,
    },
    /// A file has two columns of one name.
    #[error("{file}: two columns are named {column:?}, so neither can be selected")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
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
    #[error("{file}: {found_at}: not {encoding}")]
    Encoding {
        /// The file.
        file: String,
        /// The position, such as a line and a column.
        found_at: String,
        /// The encoding expected.
        encoding: &'static str,
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

impl ErrorKind {
    /// Returns the position in a file, if it is one of those that formats share.
    pub fn place(&self) -> Option<&FilePlace> {
        match self {
            Self::Content { place, .. }
            | Self::Undecoded { place, .. }
            | Self::Timestamp { place, .. }
            | Self::DoubtfulDate { place, .. }
            | Self::NotText { place }
            | Self::Ragged { place, .. }
            | Self::Quote { place, .. }
            | Self::LongRecord { place, .. }
            | Self::LineEnd { place }
            | Self::Cell { place, .. }
            | Self::JsonSyntax { place, .. }
            | Self::JsonValue { place, .. }
            | Self::JsonKey { place, .. }
            | Self::KeyInPath { place }
            | Self::Unfit { place, .. } => Some(place),
            _ => None,
        }
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
        Self::content(FilePlace::new(file, line), format!("it has more than {MAX_COLUMNS} columns"))
    }

    /// Returns the error of a declared partition column that no directory has.
    pub(crate) fn not_in_path(column: &str, found: &[&str]) -> Self {
        let directories = match found {
            [] => "there are no key=value directories".to_owned(),
            found => format!("the directories are those of {}", found.join(", ")),
        };
        ErrorKind::Refused { problem: format!("no directory is named {column}=...; {directories}") }.into()
    }

    /// Returns the error of a file that is malformed at a position.
    pub(crate) fn content(place: FilePlace, problem: impl Into<String>) -> Self {
        ErrorKind::Content { place, problem: problem.into() }.into()
    }

    /// Returns the error of a file that is empty.
    pub(crate) fn empty_file(file: &str) -> Self {
        Self::content(FilePlace::new(file, Within::File), "the file is empty (0 bytes)")
    }

    /// Returns the error of a file that is inconsistent or cut off.
    pub(crate) fn damaged(file: &str, within: Within, reason: &str) -> Self {
        Self::content(FilePlace::new(file, within), format!("the file is damaged: {reason}"))
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
