//! Why a table of files cannot be listed, planned or read.

use std::fmt;

use arrow_schema::DataType;
use datafusion_common::DataFusionError;

use crate::listing::table_format::Owner;

/// Result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to list, plan or read the files of a table. It names the location or the file.
#[derive(Debug)]
pub struct Error(Box<ErrorKind>);

/// What failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is neither a path nor a URL.
    #[error("{}: not a usable path: {reason}", if .location.is_empty() { "''" } else { .location })]
    Location {
        /// The location as the user wrote it.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The session has no object store for the URL.
    #[error("{location}: its store cannot be opened")]
    Store {
        /// The location as the user wrote it.
        location: String,
        /// What the session's registry of stores said.
        source: DataFusionError,
    },
    /// Nothing is there.
    #[error("{location}: no such file or directory")]
    NotFound {
        /// The location as the user wrote it.
        location: String,
    },
    /// The directory or the pattern yields no file.
    #[error("{location}: {}{skipped}", if *.pattern { "nothing matches" } else { "no file to read in this directory" })]
    Empty {
        /// The location as the user wrote it.
        location: String,
        /// Whether the location is a pattern.
        pattern: bool,
        /// What was there and passed over.
        skipped: Skipped,
    },
    /// Two locations of one table yield the same file, so that its rows would count twice.
    #[error(
        "{file}: the table has it twice: it is in {first} and {}",
        if .first == .second { "again in the same location" } else { .second }
    )]
    FileTwice {
        /// The file.
        file: String,
        /// The first location, as the user wrote it.
        first: String,
        /// The other one.
        second: String,
    },
    /// The files belong to a table of a table format, so that not all of them need be rows.
    #[error(
        "{location}: refusing to read {} as bare files: {} has {}",
        .owner.format.table(),
        .owner.directory,
        .owner.marker
    )]
    OwnedByTable {
        /// The location as the user wrote it.
        location: String,
        /// The table.
        owner: Owner,
    },
    /// The file was named and holds no byte.
    #[error("{file}: the file is empty (0 bytes)")]
    EmptyFile {
        /// The file.
        file: String,
    },
    /// The store refused.
    #[error("{location}: cannot be listed")]
    List {
        /// The location or directory.
        location: String,
        /// The store's own error.
        source: object_store::Error,
    },
    /// Two files disagree about a column.
    #[error(
        "{file}: column \"{column}\": found {found}, but {first_file} has {expected}{}",
        part.as_ref().map(|part| format!(" ({part})")).unwrap_or_default()
    )]
    SchemaConflict {
        /// The column.
        column: String,
        /// The file that settled the type.
        first_file: String,
        /// The type there.
        expected: DataType,
        /// The file that disagrees.
        file: String,
        /// The type found in it.
        found: DataType,
        /// How the column can be declared in SQL so that the values of every file can be converted.
        declarable: Option<String>,
        /// Which part of the column the files disagree about, if it is not all of it.
        part: Option<String>,
    },
    /// A declared struct has a field that no file has.
    #[error("column \"{column}\": no file has its declared field {part:?}")]
    UnknownPart {
        /// The column.
        column: String,
        /// The field, with the fields around it.
        part: String,
    },
    /// A value that the type of the table's column cannot hold.
    #[error(
        "{file}: {}column \"{column}\": the {found} value {value} is not exact as {expected}",
        row.map(|row| format!("row {row}: ")).unwrap_or_default()
    )]
    UnfitValue {
        /// The file.
        file: String,
        /// The row in the file, from 0, if it is known.
        row: Option<u64>,
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// The type of the value in the file.
        found: DataType,
        /// The type that the table has for it.
        expected: DataType,
    },
    /// An expression of the query failed while the scan of a file computed it.
    #[error("an expression of the query failed on a value of {file}")]
    Expression {
        /// The file.
        file: String,
        /// The failure.
        source: DataFusionError,
    },
    /// A column name stands twice in one file.
    #[error("{file}: column \"{column}\" occurs more than once")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The column.
        column: String,
    },
    /// A partition directory with a value that its column cannot have.
    #[error("{file}: partition {column}={value} is not of type {data_type}, as the manifest has it")]
    PartitionNotAsWritten {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// The type of the column.
        data_type: DataType,
        /// What is wrong with the value.
        source: DataFusionError,
    },
    /// Two files lie under different `key=value` directories.
    #[error("{file}: partition directories [{found}], but {first_file} has [{expected}]")]
    PartitionMismatch {
        /// The first file of the table.
        first_file: String,
        /// Its partition keys.
        expected: String,
        /// The file that disagrees.
        file: String,
        /// Its partition keys.
        found: String,
    },
    /// A `key=value` directory has a value that the declared type of its column has not.
    #[error("{file}: directory \"{column}={value}\": {value:?} is no value of the declared type {declared}")]
    PartitionValue {
        /// A file in the directory.
        file: String,
        /// The column.
        column: String,
        /// Its value, decoded.
        value: String,
        /// The declared type.
        declared: DataType,
    },
    /// A column of the path is declared with a type whose values are no names of directories.
    #[error("column \"{column}\" of the path: declared as {declared}, which no directory name can hold")]
    PartitionType {
        /// The column.
        column: String,
        /// The declared type.
        declared: DataType,
    },
    /// The file has a column that a `key=value` directory above it has too.
    #[error("{file}: column \"{column}\" stands in the file and in its path")]
    ColumnInPath {
        /// The file.
        file: String,
        /// The column.
        column: String,
    },
    /// The file lacks a declared column.
    #[error("{file}: the file has no column \"{column}\" of type {declared}; it has {}", .found.join(", "))]
    MissingColumn {
        /// The file.
        file: String,
        /// The declared column.
        column: String,
        /// Its declared type.
        declared: DataType,
        /// The columns of the file.
        found: Vec<String>,
    },
    /// A column is declared with a type that does not hold every value of the type in the file.
    #[error("{file}: column \"{column}\": declared as {declared}, but the file has {found}")]
    DeclaredType {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// The declared type.
        declared: DataType,
        /// The type in the file.
        found: DataType,
        /// How it can be declared in SQL so that it holds what every file has.
        declarable: Option<String>,
        /// Whether other files have another type.
        files_differ: bool,
    },
    /// The query selects a column of a type that is not read.
    #[error("{file}: column \"{column}\": {reason} is not supported")]
    UnreadableColumn {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// The type in words.
        reason: String,
        /// All columns of the table that cannot be read.
        unreadable: Vec<String>,
    },
    /// A pipe, a device or a socket.
    #[error("{file}: not a regular file")]
    NotAFile {
        /// The path.
        file: String,
    },
    /// The file is damaged, is something else, or could not be fetched.
    #[error("{file}: cannot be read")]
    Read {
        /// The file.
        file: String,
        /// What the reader said.
        source: DataFusionError,
    },
    /// The reader of the format panicked over the file.
    #[error("{file}: cannot be read: the reader failed on malformed content ({message})")]
    Panicked {
        /// The file.
        file: String,
        /// The panic's message.
        message: String,
    },
    /// A file that is not the one that was planned to be read.
    #[error("{file}: the file changed while it was read")]
    Changed {
        /// The file.
        file: String,
        /// What the store says.
        #[source]
        source: Option<object_store::Error>,
    },
    /// A file that is longer than a value can be.
    #[error("{file}: {size} bytes, and a value has at most {}", i32::MAX)]
    FileTooLong {
        /// The file.
        file: String,
        /// Its length in bytes.
        size: u64,
    },
    /// The session was told to end.
    #[error("stopped while files were listed")]
    Stopped,
    /// A row of a file over which an expression of the query fails.
    #[error("{file}: the query fails over this file")]
    Row {
        /// The file.
        file: String,
        /// How it fails.
        source: DataFusionError,
    },
}

/// Names that were present but passed over, for the message of [`ErrorKind::Empty`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Names with the reason, the first few.
    pub(crate) names: Vec<(String, SkipReason)>,
    /// How many there were in all.
    pub(crate) total: usize,
    /// All reasons there were, each once.
    pub(crate) reasons: Vec<SkipReason>,
}

/// Why a name is passed over when a directory is read as a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It starts with `.` or `_`, as the files and directories that are no data do in Hadoop's world.
    Hidden,
    /// A `.crc` checksum file.
    Checksum,
    /// A file of 0 bytes.
    EmptyFile,
    /// A file that describes the records beside it: a note, `features.json`, `schema.pbtxt`, an index.
    Description,
    /// A link to a directory on the way to it.
    Loop,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hidden => "hidden",
            Self::Checksum => "checksum",
            Self::EmptyFile => "0 bytes",
            Self::Description => "describes records",
            Self::Loop => "a link back",
        })
    }
}

impl Skipped {
    /// Whether files without a byte were passed over, and else only what is hidden or a checksum: a directory as it is left
    /// by a job that had no rows.
    pub fn is_without_rows(&self) -> bool {
        let is_harmless =
            |reason: &SkipReason| matches!(reason, SkipReason::EmptyFile | SkipReason::Hidden | SkipReason::Checksum);
        self.reasons.contains(&SkipReason::EmptyFile) && self.reasons.iter().all(is_harmless)
    }

    /// How many names the message carries.
    const SHOWN: usize = 5;

    pub(crate) fn push(&mut self, name: String, reason: SkipReason) {
        self.total += 1;
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
        if self.names.len() < Self::SHOWN {
            self.names.push((name, reason));
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(((first, reason), rest)) = self.names.split_first() else { return Ok(()) };
        write!(f, "; passed over: {first} ({reason})")?;
        for (name, reason) in rest {
            write!(f, ", {name} ({reason})")?;
        }
        match self.total - self.names.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
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
            ErrorKind::Changed { .. } => Some("run it again when nothing writes to the file".to_owned()),
            ErrorKind::FileTooLong { .. } => Some("leave it out: WHERE size < 2147483648".to_owned()),
            ErrorKind::Empty { skipped, .. } if skipped.total > 0 => {
                Some("name a file itself to read it although it is hidden".to_owned())
            }
            ErrorKind::FileTwice { .. } => {
                Some("name each file once; UNION ALL of two tables reads rows twice".to_owned())
            }
            ErrorKind::SchemaConflict { column, declarable: Some(sql), .. } => Some(declare(column, sql)),
            ErrorKind::SchemaConflict { column, declarable: None, .. } => Some(two_tables(column)),
            ErrorKind::UnfitValue { column, .. } => Some(format!(
                "give \"{column}\" a type that holds all values of the files, in the columns of CREATE EXTERNAL TABLE or \
                 with the option types"
            )),
            ErrorKind::PartitionMismatch { .. } => {
                Some("name one level of the directory, or a pattern such as 'dir/key=*/*'".to_owned())
            }
            ErrorKind::PartitionValue { column, .. } => {
                Some(format!("rename the directory, or declare \"{column}\" as text and CAST it in the query"))
            }
            ErrorKind::PartitionType { column, .. } => {
                Some(format!("declare \"{column}\" as text, a number, a truth value, a date or a timestamp"))
            }
            ErrorKind::ColumnInPath { .. } => Some(
                "name each key=value directory as a location of its own to read the column of the file, or rename it in \
                 one of the two"
                    .to_owned(),
            ),
            ErrorKind::MissingColumn { column, found, .. }
                if found.iter().any(|found| found.to_lowercase() == column.to_lowercase()) =>
            {
                Some("a name is matched as it is spelled: the option names=insensitive ignores the case".to_owned())
            }
            ErrorKind::MissingColumn { .. } => {
                Some("declare only columns that some file has, or none at all: a name is matched as it is spelled".to_owned())
            }
            ErrorKind::DeclaredType { column, declarable, files_differ, .. } => {
                Some(match (declarable, files_differ) {
                    (Some(sql), true) => {
                        format!("declare \"{column}\" as {sql}, to which every file can be converted, and CAST it in the query")
                    }
                    (Some(sql), false) => format!(
                        "leave the columns undeclared, or declare \"{column}\" as {sql}, and CAST it in the query"
                    ),
                    (None, true) => two_tables(column),
                    (None, false) => format!("leave the columns undeclared, and CAST \"{column}\" in the query"),
                })
            }
            ErrorKind::UnreadableColumn { unreadable, .. } => {
                let names: Vec<_> = unreadable.iter().map(|name| quoted(name)).collect();
                Some(format!("leave it out: SELECT * EXCLUDE ({}), or select the columns by name", names.join(", ")))
            }
            ErrorKind::NotAFile { .. } => Some("write its content to a file and name that".to_owned()),
            _ => None,
        }
    }
}

/// The way out where the values of every file can be converted to one declared type.
fn declare(column: &str, sql: &str) -> String {
    let then = match sql {
        "VARCHAR" => format!(", and CAST(\"{column}\" AS ...) in the query"),
        _ => "; a value that is not exact in it is an error".to_owned(),
    };
    // The option takes types as Hive writes them.
    let in_hive = match sql {
        "VARCHAR" => Some("STRING"),
        "BYTEA" => Some("BINARY"),
        _ if matches!(sql, "DOUBLE" | "BIGINT" | "DATE") || sql.starts_with("DECIMAL(") => Some(sql),
        _ => None,
    };
    match in_hive {
        Some(in_hive) => {
            let is_word = column.chars().all(|c| c.is_alphanumeric() || c == '_');
            let name = if is_word { column.to_owned() } else { format!("`{}`", column.replace('`', "``")) };
            let part = format!("types={name} {in_hive}");
            let part = if part.contains(',') { format!("\"{part}\"") } else { part };
            format!("give the column one type: --table 't=...,{part}'{then}")
        }
        None => format!(
            "declare the columns, this one with a type for all files: CREATE EXTERNAL TABLE t (\"{column}\" {sql}, ...) \
             STORED AS ... LOCATION '...'{then}"
        ),
    }
}

/// A name as SQL reads it back: in quotes unless it is in lower case without special characters.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    match starts && name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// The way out where files have types of a column that nothing holds together.
fn two_tables(column: &str) -> String {
    format!(
        "register the files of each type as a table of their own, by a pattern, and join them with UNION ALL: SELECT \
         CAST(\"{column}\" AS ...) ..."
    )
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
