//! [`Error`]: what is wrong with a write before any row is read, or with what came of it; and what is wrong with files
//! that are read.

use std::fmt;
use std::io;

use arrow_schema::DataType;
use datafusion_common::DataFusionError;
use tfrecord_framing::Position;
use tfrecord_shards::Disagreement;

use crate::read::similar::listed;

/// What went wrong and, through [`Error::hint`], the way out. The engine carries it as
/// [`DataFusionError::External`].
pub struct Error(Box<ErrorKind>);

/// The kinds of [`Error`]. Errors of the mapping and of the shard set are those of [`arrow_tfrecord`] and
/// [`tfrecord_shards`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Ranges of rows for a number of shards, without the number of rows.
    #[error("an ordered query cannot be cut into {shards} shards: the number of its rows is not known beforehand")]
    UnknownRowCount {
        /// Shards that were asked for.
        shards: usize,
    },
    /// Another number of rows than was counted beforehand.
    #[error("expected {expected} rows, found {found}: the input changed between counting and writing")]
    RowCount {
        /// Rows that were counted.
        expected: u64,
        /// Rows that came.
        found: u64,
    },
    /// An option that there is not.
    #[error("unknown option {option:?}: the options are {}", known.join(", "))]
    UnknownOption {
        /// The option as it was written.
        option: String,
        /// The options that there are.
        known: Vec<String>,
    },
    /// An option with a value that it cannot have.
    #[error("option {option}: found {found:?}, expected {expected}")]
    InvalidOption {
        /// The option.
        option: String,
        /// Its value.
        found: String,
        /// What it can be.
        expected: String,
    },
    /// Options that contradict each other.
    #[error("options {first} and {second} exclude each other")]
    ConflictingOptions {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// A target in an object store that the session does not have.
    #[error("cannot write to {url}")]
    NoStore {
        /// The target.
        url: String,
        /// What the session says.
        source: DataFusionError,
    },
    /// A target in a store in which files would be seen before the set is whole.
    #[error("cannot write to {url}: there, shards would be seen before the set is whole")]
    NoUploads {
        /// The target.
        url: String,
    },
    /// An object store refused something.
    #[error("{file}: cannot {action}")]
    Store {
        /// What was to be done.
        action: &'static str,
        /// To which file or prefix.
        file: String,
        /// Why not.
        source: object_store::Error,
    },
    /// Something that can be said in SQL but not be done.
    #[error("{what} is not supported for TFRECORD")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// Records of sequences in a table of the engine's own, which learns nothing of them but a schema.
    #[error("the records are of type tf.train.SequenceExample, which the options have to say")]
    UnsaidSequences {
        /// The columns with an element for each step.
        sequences: Vec<String>,
    },
    /// A column to partition or to split by that there is not.
    #[error("no {role} column {column:?}: the columns are {}", listed(known))]
    NoColumn {
        /// What it was to be for.
        role: &'static str,
        /// The column.
        column: String,
        /// The columns that there are.
        known: Vec<String>,
    },
    /// A column to partition or to split by that is named twice, or that there is twice.
    #[error("{role} column {column:?} is there twice")]
    ColumnTwice {
        /// What it was to be for.
        role: &'static str,
        /// The column.
        column: String,
    },
    /// A column whose values cannot name directories.
    #[error("partition column {column:?}: values of type {data_type} cannot name directories")]
    PartitionType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A column that cannot be a key of splits.
    #[error("split column {column:?}")]
    SplitKeyType {
        /// The column.
        column: String,
        /// Why not.
        source: tfrecord_shards::KeyTypeError,
    },
    /// A set whose columns are all in its directories.
    #[error("no column is left for the records: all are in the names of directories: {}", listed(columns))]
    NoColumnsLeft {
        /// The partition columns.
        columns: Vec<String>,
    },
    /// A number of shards for a split that there is not.
    #[error("shards for split {split:?}: {}", splits_named(known))]
    NoSplit {
        /// The split.
        split: String,
        /// The splits that there are.
        known: Vec<String>,
    },
    /// What would tell of rows that nobody has looked at.
    #[error("{emit} cannot describe {out} by the rows that are added to it: {rows} are there already")]
    DescribesAppended {
        /// What was asked for.
        emit: String,
        /// The set.
        out: String,
        /// The rows that it has.
        rows: u64,
    },
    /// A saved dataset that there is not.
    #[error("a saved dataset of tf.data {problem}")]
    SnapshotOptions {
        /// What it does instead.
        problem: &'static str,
    },
    /// Sidecars of TensorFlow Datasets for shards in `key=value` directories.
    #[error("not for TensorFlow Datasets: it looks for shards in one directory")]
    TfdsInDirectories,
    /// Sidecars of TensorFlow Datasets for shards whose names do not have their number.
    #[error(
        "not for TensorFlow Datasets: it wants to see in the names of shards how many there are, which in an object store \
         must be known beforehand"
    )]
    TfdsUnnumbered,
    /// A write node without its committer.
    #[error("TfRecordWriteExec runs only below the TfRecordCommitExec that it was planned with")]
    NoCommit,
    /// A record that cannot be read as the columns of the table, or damage of a file.
    #[error("{file}: {error}")]
    Record {
        /// The file.
        file: String,
        /// What is wrong, and where in the file. What is below it is the source of this error.
        error: arrow_tfrecord::Error,
        /// Whether the types of the columns were inferred from some of the records.
        inferred: bool,
    },
    /// A record that does not fit those before it, or damage, where records are to tell the columns.
    #[error("{file}: {error}")]
    Inference {
        /// The file.
        file: String,
        /// What is wrong, and where in the file. What is below it is the source of this error.
        error: arrow_tfrecord::Error,
    },
    /// Columns that cannot be read from records.
    #[error("{error}")]
    Columns {
        /// Which and why. What is below it is the source of this error.
        error: arrow_tfrecord::Error,
    },
    /// Sound records that end elsewhere than they should.
    #[error("{file}: the records end before {found}, expected {expected}")]
    End {
        /// The file.
        file: String,
        /// Where they should, by the manifest or by what was found when the file was divided.
        expected: Position,
        /// Where they do.
        found: Position,
    },
    /// A set of shards of which something is missing.
    #[error("{directory}: the set of shards is not whole: {problem}")]
    IncompleteSet {
        /// Its directory.
        directory: String,
        /// What is missing.
        problem: Disagreement,
    },
    /// Two sets of one table whose columns stand in different forms.
    #[error("{second}: column {column:?} is not in the form that it has in {first}")]
    FormConflict {
        /// The column.
        column: String,
        /// The directory of one set.
        first: String,
        /// The directory of the other.
        second: String,
    },
    /// A file that belongs to no set of shards, in a table with files that do.
    #[error("{file} is no shard of the set in {directory}, whose manifest tells the types of its columns")]
    StrayFile {
        /// The file.
        file: String,
        /// The directory of the set.
        directory: String,
    },
    /// A column that is declared in another unit than the one in which it was written.
    #[error("{directory}: column {column:?}: declared as {declared}, but it was written as {written}")]
    DeclaredUnit {
        /// The directory of the set.
        directory: String,
        /// The column.
        column: String,
        /// The type that the manifest tells.
        written: DataType,
        /// The declared type.
        declared: DataType,
    },
    /// A declared column, or a field of a struct, that was not written.
    #[error("{directory}{}: no column {column:?} was written; there are {}", and_sets(*more), listed(known))]
    UnknownColumn {
        /// The directory of the set, or of the first.
        directory: String,
        /// How many more sets there are.
        more: usize,
        /// The column; of a field, the names of those around it before it, with points between.
        column: String,
        /// What was written beside it.
        known: Vec<String>,
    },
    /// A column that the first records have in another place than where it is looked for, and not there.
    #[error("{file}: column {column:?}: {data_type} is read from {expected}, but the records have {found}")]
    ElsewhereInRecords {
        /// The file, or the first one.
        file: String,
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// The feature or feature list that it is looked for in.
        expected: String,
        /// What the records have.
        found: String,
        /// What to do: a sentence without a full stop.
        way_out: String,
    },
    /// A manifest that cannot be read, beside files whose types nothing else tells.
    #[error("the manifest beside the files cannot be read, and the types of their columns stand in it")]
    UnreadableManifest {
        /// What is wrong with it.
        source: DataFusionError,
    },
    /// A `schema.pbtxt` that is not text.
    #[error("{file}: not UTF-8")]
    SchemaText {
        /// The file.
        file: String,
        /// Where it is not.
        source: std::str::Utf8Error,
    },
    /// A `schema.pbtxt` that tells no columns.
    #[error("{file}: not a schema of TensorFlow Metadata that can be read")]
    SchemaFile {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: tfrecord_sidecars::Error,
    },
    /// A job of the run panicked.
    #[error("{message}")]
    Panic {
        /// What it said.
        message: String,
    },
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            // Its text is part of this one's.
            ErrorKind::Record { error, .. } | ErrorKind::Inference { error, .. } | ErrorKind::Columns { error } => {
                error.source()
            }
            kind => kind.source(),
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

/// What a store refuses stays an I/O error: schedulers try those again.
impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Store { .. } => Self::IoError(io::Error::other(error)),
            _ => Self::External(Box::new(error)),
        }
    }
}

impl From<ErrorKind> for DataFusionError {
    fn from(kind: ErrorKind) -> Self {
        Error::from(kind).into()
    }
}

fn and_sets(more: usize) -> String {
    match more {
        0 => String::new(),
        1 => " and 1 more set".to_owned(),
        more => format!(" and {more} more sets"),
    }
}

fn splits_named(known: &[String]) -> String {
    if known.is_empty() { "there are no splits".to_owned() } else { format!("the splits are {}", listed(known)) }
}

/// An error of the mapping or the encoder, for the engine.
pub(crate) fn encode_error(error: arrow_tfrecord::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An error of the files beside the shards, for the engine.
pub(crate) fn sidecar_error(error: tfrecord_sidecars::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// An error of the shard set, for the engine. What the file system refuses stays an I/O error: schedulers try those
/// again.
pub(crate) fn shards_error(error: tfrecord_shards::Error) -> DataFusionError {
    use tfrecord_shards::ErrorKind;
    let refused = match error.kind() {
        ErrorKind::Io { source, .. } => Some(source.kind()),
        ErrorKind::Write(source) => Some(source.kind()),
        _ => None,
    };
    match refused {
        Some(kind) => DataFusionError::IoError(io::Error::new(kind, error)),
        None => DataFusionError::External(Box::new(error)),
    }
}

#[cfg(test)]
mod tests;
