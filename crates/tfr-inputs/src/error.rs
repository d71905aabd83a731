//! Why a table cannot be opened or its text cannot be read.

use std::fmt;

use arrow_schema::DataType;
use datafusion_common::DataFusionError;

use crate::detect::InputFormat;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to understand, open or read an input.
#[derive(Debug)]
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
        known: &'static [&'static str],
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
        formats: &'static [InputFormat],
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
    /// A Parquet file with two columns of one name.
    #[error("{file}: two columns are named {column:?}, so neither can be asked for")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The name.
        column: String,
    },
    /// A Parquet footer that contradicts itself.
    #[error("{file}: the file is damaged: {reason}")]
    Footer {
        /// The file.
        file: String,
        /// The contradiction.
        reason: String,
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
}

fn names(formats: &[InputFormat]) -> String {
    let names: Vec<_> = formats.iter().map(|format| format.name()).collect();
    names.join(" and ")
}

/// Where in a text file a record starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub number: u64,
    /// The byte of the file from which lines were counted, if that is not the start.
    pub after_byte: Option<u64>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.number)?;
        match self.after_byte {
            Some(byte) => write!(f, " after byte {byte}"),
            None => Ok(()),
        }
    }
}

impl Error {
    /// What failed.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The way out, where there is one to name.
    pub fn hint(&self) -> Option<String> {
        match self.kind() {
            ErrorKind::Spec { .. } => Some("--table NAME=URL[,format=csv][,key=value...]".to_owned()),
            ErrorKind::WrongFormat { .. } => {
                Some("give the format= that the file has, or name the files of one format: 'dir/**/*.csv'".to_owned())
            }
            ErrorKind::Misnamed { .. } => {
                Some("say which it is with format=parquet, format=csv or format=tfrecord".to_owned())
            }
            ErrorKind::Encoding { encoding: "UTF-8", .. } => {
                Some("give encoding=latin1 or encoding=utf-16 if the file is in one of these".to_owned())
            }
            ErrorKind::Ragged { .. } => Some(
                "check delimiter=, quote=, escape= and comment=; every record needs a cell for every column".to_owned(),
            ),
            ErrorKind::Quote { .. } => Some("give quote=none if quotes have no meaning in this file".to_owned()),
            ErrorKind::LineEnd { .. } => Some("leave newlines_in_values at true".to_owned()),
            ErrorKind::Cell { column, declared: true, .. } => Some(format!(
                "declare \"{column}\" with a type that holds every cell as it is written, or as VARCHAR and CAST it in the query"
            )),
            ErrorKind::Cell { column, declared: false, .. } => Some(format!(
                "types are inferred from the first rows: read every column as text with types=string and CAST \"{column}\" in the query, or read more rows with infer_rows=all"
            )),
            ErrorKind::MissingColumn { .. } => {
                Some("give header=false if the first line is data; declared columns are matched by name".to_owned())
            }
            ErrorKind::NoColumns { .. } => Some("declare the columns with CREATE EXTERNAL TABLE".to_owned()),
            _ => None,
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}
