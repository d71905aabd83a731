//! Errors of listing, planning and reading tables of files.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;

use arrow_schema::DataType;
use datafusion_common::DataFusionError;
use tfr_stores::Change;

use crate::listing::table_format::Owner;

/// Result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

tfrecord_framing::boxed_error! {
    /// An error of listing, planning or reading the files of a table. It names the location or the file.
    pub struct Error(Box<ErrorKind>);
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A location is not usable, may not be opened, or its store fails.
    #[error(transparent)]
    Place(#[from] tfr_stores::Error),
    /// The session has no object store for the URL.
    #[error("{location}: its store cannot be opened")]
    Store {
        /// The location as the user wrote it.
        location: String,
        /// The error of the session's store registry.
        source: DataFusionError,
    },
    /// The location does not exist.
    #[error("{location}: no such file or directory")]
    NotFound {
        /// The location as the user wrote it.
        location: String,
    },
    /// The directory or the pattern contains no file to read.
    #[error("{location}: {}{skipped}", if *.pattern { "no file matches" } else { "no file to read in this directory" })]
    Empty {
        /// The location as the user wrote it.
        location: String,
        /// Whether the location is a pattern.
        pattern: bool,
        /// The skipped names.
        skipped: Skipped,
    },
    /// Two locations of one table contain the same file, whose rows would count twice.
    #[error(
        "{file}: the table has it twice: it is in {first} and {}",
        if .first == .second { "again in the same location" } else { .second }
    )]
    FileTwice {
        /// The file.
        file: String,
        /// The first location, as the user wrote it.
        first: String,
        /// The second location, as the user wrote it.
        second: String,
    },
    /// The files belong to a table of a table format, so they need not all be rows.
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
    /// The file was named explicitly and is empty.
    #[error("{file}: the file is empty (0 bytes)")]
    EmptyFile {
        /// The file.
        file: String,
    },
    /// The store failed to list the location.
    #[error("{location}: cannot be listed")]
    List {
        /// The location or directory.
        location: String,
        /// The store's error.
        source: object_store::Error,
    },
    /// Two files have different types for a column.
    #[error(
        "{file}: column \"{column}\": found {found}, but {first_file} has {expected}{}",
        part.as_ref().map(|part| format!(" ({part})")).unwrap_or_default()
    )]
    SchemaConflict {
        /// The column.
        column: String,
        /// The file that determined the type.
        first_file: String,
        /// The type in that file.
        expected: DataType,
        /// The file that differs.
        file: String,
        /// Its type.
        found: DataType,
        /// How to declare the column in SQL so that the values of every file can be converted.
        declarable: Option<String>,
        /// The part of the column that differs, unless it is the whole column.
        part: Option<String>,
    },
    /// A declared struct has a field that is in no file.
    #[error("column \"{column}\": no file has its declared field {part:?}")]
    UnknownPart {
        /// The column.
        column: String,
        /// The path of the field.
        part: String,
    },
    /// The table's type cannot represent a value.
    #[error(
        "{file}: {}column \"{column}\": the {found} value {value} is not exact as {expected}",
        row.map(|row| format!("row {row}: ")).unwrap_or_default()
    )]
    UnfitValue {
        /// The file.
        file: String,
        /// The row in the file, from 0, if known.
        row: Option<u64>,
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// The type of the value in the file.
        found: DataType,
        /// The table's type.
        expected: DataType,
    },
    /// An expression of the query failed while the scan of a file computed it.
    #[error("an expression of the query failed on a value of {file}")]
    Expression {
        /// The file.
        file: String,
        /// The error.
        source: DataFusionError,
    },
    /// A column name occurs twice in one file.
    #[error("{file}: column \"{column}\" occurs more than once")]
    DuplicateColumn {
        /// The file.
        file: String,
        /// The column.
        column: String,
    },
    /// The value of a partition directory does not have the type that the manifest specifies.
    #[error("{file}: partition {column}={value} is not of type {data_type}, which the manifest records")]
    PartitionNotAsWritten {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// The type of the column.
        data_type: DataType,
        /// The error.
        source: DataFusionError,
    },
    /// Two files are in directories with different partition keys.
    #[error("{file}: partition directories [{found}], but {first_file} has [{expected}]")]
    PartitionMismatch {
        /// The first file of the table.
        first_file: String,
        /// Its partition keys.
        expected: String,
        /// The file that differs.
        file: String,
        /// Its partition keys.
        found: String,
    },
    /// The value of a `key=value` directory does not have the declared type.
    #[error("{file}: directory \"{column}={value}\": {value:?} is not a value of the declared type {declared}")]
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
    /// A column of the path is declared with a type that directory names cannot represent.
    #[error("column \"{column}\" of the path: declared as {declared}, which a directory name cannot represent")]
    PartitionType {
        /// The column.
        column: String,
        /// The declared type.
        declared: DataType,
    },
    /// A column is both in the file and in a `key=value` directory above it.
    #[error("{file}: column \"{column}\" is both in the file and in its path")]
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
    /// A column is declared with a type that cannot represent every value of the type in the file.
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
        /// How to declare it in SQL so that the values of every file are representable.
        declarable: Option<String>,
        /// Whether other files have another type.
        files_differ: bool,
    },
    /// The query selects a column whose type is not supported.
    #[error("{file}: column \"{column}\": {reason} is not supported")]
    UnreadableColumn {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// A description of the type.
        reason: String,
        /// All columns of the table that cannot be read.
        unreadable: Vec<String>,
    },
    /// The file is damaged, has another format, or could not be fetched.
    #[error("{file}: cannot be read")]
    Read {
        /// The file.
        file: String,
        /// The reader's error.
        source: DataFusionError,
    },
    /// The format's reader panicked while reading the file.
    #[error("{file}: cannot be read: the reader failed on malformed content ({message})")]
    Panicked {
        /// The file.
        file: String,
        /// The panic's message.
        message: String,
    },
    /// The file has changed since it was listed.
    #[error("{file}: the file changed while it was read: {change}")]
    Changed {
        /// The file.
        file: String,
        /// The difference from the listed version.
        change: Change,
    },
    /// A symbolic link that should be read has no target.
    #[error("{file}: the symbolic link has no target: {} does not exist", .target.display())]
    DanglingLink {
        /// The link.
        file: String,
        /// Its target, as the link has it.
        target: PathBuf,
    },
    /// A file of a directory has a name that is not supported.
    #[error("{}: the name has a control character or is not UTF-8", .file.escape_debug())]
    FileName {
        /// The file, with replacement characters for what is not UTF-8.
        file: String,
    },
    /// A file of a directory cannot be examined, so that it is unknown whether it has rows.
    #[error("{file}: cannot be examined")]
    Examine {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is longer than a value can be, or than the memory limit allows.
    #[error("{file}: {size} bytes, but a value can have at most {most}")]
    FileTooLong {
        /// The file.
        file: String,
        /// Its length in bytes.
        size: u64,
        /// The maximum length in bytes.
        most: u64,
    },
    /// A directory contains `_temporary`, where jobs of Hadoop and Spark stage their files, and no `_SUCCESS`.
    #[error("{directory}: it contains _temporary and no _SUCCESS: the job that writes it is running, or has failed")]
    Unfinished {
        /// The directory.
        directory: String,
    },
    /// The session was stopped.
    #[error("stopped while files were listed")]
    Stopped,
    /// An expression of the query fails on a file's row.
    #[error("{file}: the query fails over this file")]
    Row {
        /// The file.
        file: String,
        /// The error.
        source: DataFusionError,
    },
}

/// Names that were skipped, for the message of [`ErrorKind::Empty`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// The first few names, with reasons.
    pub(crate) names: Vec<(String, SkipReason)>,
    /// Number of skipped names.
    pub(crate) total: usize,
    /// All distinct reasons.
    pub(crate) reasons: Vec<SkipReason>,
}

/// Why a name is skipped when a directory is read as a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The name starts with `.` or `_`, as those of files and directories without data do in the Hadoop ecosystem.
    Hidden,
    /// A `.crc` checksum file.
    Checksum,
    /// A file of 0 bytes.
    EmptyFile,
    /// A sidecar file that describes the records: a note, `features.json`, `schema.pbtxt`, an index.
    Description,
    /// A symbolic link to a parent directory.
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
    /// Whether nothing was skipped.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Whether empty files were skipped, and otherwise only hidden and checksum files. A job without rows leaves such
    /// a directory.
    pub fn is_without_rows(&self) -> bool {
        self.reasons.contains(&SkipReason::EmptyFile) && self.has_no_rows()
    }

    /// Whether nothing was skipped but empty, hidden and checksum files.
    pub fn has_no_rows(&self) -> bool {
        let is_harmless =
            |reason: &SkipReason| matches!(reason, SkipReason::EmptyFile | SkipReason::Hidden | SkipReason::Checksum);
        self.reasons.iter().all(is_harmless)
    }

    /// Maximum number of names in the message.
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
    /// Returns the error that a file has changed, if it is among `error` and its sources. Readers take such a failure
    /// for damage.
    pub fn change_in(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(Self(kind)) = error.downcast_ref()
                && let ErrorKind::Changed { file, change } = kind.as_ref()
            {
                return Some(ErrorKind::Changed { file: file.clone(), change: change.clone() }.into());
            }
            next = match error.downcast_ref::<std::io::Error>() {
                Some(io) => io.get_ref().map(|inner| inner as _),
                None => error.source(),
            };
        }
        None
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}
