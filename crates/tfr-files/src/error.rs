//! Why a table of files cannot be listed, planned or read.

use std::fmt;

use arrow_schema::DataType;
use datafusion_common::DataFusionError;

use crate::listing::table_format::Owner;

/// Result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to list, plan or read the files of a table. It names the location or the file.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
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
    /// Whether nothing was passed over.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

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
