//! [`Error`]: reports an invalid write before any row is read, a write that failed, or files that cannot be read.

use std::io;

use arrow_schema::DataType;
use arrow_tfrecord::RecordType;
use datafusion_common::DataFusionError;
use tfrecord_framing::{FramingConflict, Position};
use tfrecord_shards::{Disagreement, MissingParts};

use crate::read::similar::listed;

tfrecord_framing::boxed_error! {
    /// An error. The engine carries it as [`DataFusionError::External`].
    pub struct Error(Box<ErrorKind>) includes Record, Inference, Columns;
}

/// The kinds of [`Error`]. Errors of the mapping and of the shard set are those of [`arrow_tfrecord`] and
/// [`tfrecord_shards`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Ranges of rows were requested for a number of shards, but the number of rows is unknown.
    #[error("an ordered query cannot be cut into {shards} shards: the number of its rows is not known in advance")]
    UnknownRowCount {
        /// Number of shards requested.
        shards: usize,
    },
    /// The number of rows differs from the number counted beforehand.
    #[error("expected {expected} rows, found {found}: the input changed between counting and writing")]
    RowCount {
        /// Number of rows counted.
        expected: u64,
        /// Number of rows read.
        found: u64,
    },
    /// More rows do not fit than may be rejected.
    #[error("{}, and at most {most} may be rejected", unfit_rows(*rejected))]
    TooManyRejects {
        /// Number of rows that may be rejected.
        most: u64,
        /// Number of rows found that do not fit. There may be more.
        rejected: u64,
        /// The error of the first of them.
        source: DataFusionError,
    },
    /// A column of the rows has the name of a column that the table of rejected rows adds.
    #[error("column {column:?}: the table of rejected rows has a column of this name for its own use")]
    RejectColumn {
        /// The column.
        column: String,
    },
    /// Options that are unknown, invalid or exclude each other, or that the rows, the files or a run by tasks do not fit.
    #[error("{problem}")]
    Refused {
        /// What does not fit.
        problem: String,
    },
    /// The target is in an object store that is not registered with the session.
    #[error("cannot write to {url}")]
    NoStore {
        /// The target.
        url: String,
        /// The session's error.
        source: DataFusionError,
    },
    /// The target's store would show files before the set is complete.
    #[error("cannot write to {url}: readers would see shards before the set is complete")]
    NoUploads {
        /// The target.
        url: String,
    },
    /// An operation on an object store failed.
    #[error("{file}: cannot {action}")]
    Store {
        /// The operation.
        action: &'static str,
        /// The file or prefix.
        file: String,
        /// The store's error.
        source: object_store::Error,
    },
    /// SQL accepts this, but the format does not support it.
    #[error("{what} is not supported for TFRECORD")]
    Unsupported {
        /// The requested feature.
        what: &'static str,
        /// The alternative.
        instead: &'static str,
    },
    /// The records are not Examples, but the table was created by the engine, which learns only a schema from inference.
    #[error("the records are of type {record_type}, which the options must specify")]
    UndeclaredRecordType {
        /// The type of the records.
        record_type: RecordType,
        /// The columns with one element per step.
        sequences: Vec<String>,
    },
    /// Records are of another type than the options or the manifest specify.
    #[error("{file}: the records are of type {found}, expected {expected}")]
    OtherRecordType {
        /// The file with the first records.
        file: String,
        /// The type that the options or the manifest specify.
        expected: RecordType,
        /// The type of the records.
        found: RecordType,
    },
    /// A column to partition or split by, one whose type is declared, or that of examples does not exist.
    #[error("no {role} column {column:?}: the columns are {}", listed(known))]
    NoColumn {
        /// The column's role.
        role: &'static str,
        /// The column.
        column: String,
        /// The available columns.
        known: Vec<String>,
    },
    /// A column to partition or split by is named twice, or occurs twice in the input.
    #[error("{role} column {column:?} occurs twice")]
    ColumnTwice {
        /// The column's role.
        role: &'static str,
        /// The column.
        column: String,
    },
    /// The values of a partition column cannot name directories.
    #[error("partition column {column:?}: values of type {data_type} cannot name directories")]
    PartitionType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A column cannot be used as a split key.
    #[error("split column {column:?}")]
    SplitKeyType {
        /// The column.
        column: String,
        /// The reason.
        source: tfrecord_shards::KeyTypeError,
    },
    /// The values of a split column cannot be names.
    #[error("split column {column:?}: values of type {data_type} cannot name splits")]
    SplitColumnType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A value of a split column is not the name of a split.
    #[error("row {row}: split column {column:?}: {problem}")]
    SplitValue {
        /// The row, from 0.
        row: u64,
        /// The column.
        column: String,
        /// What is wrong with the value.
        problem: String,
    },
    /// The names of two splits differ only in case, which some file systems ignore.
    #[error("splits {first:?} and {second:?} differ only in case")]
    SplitCase {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// Splits of exact numbers of rows are not possible here.
    #[error("splits {splits}: {conflict}")]
    RowSplits {
        /// The splits.
        splits: String,
        /// What does not fit.
        conflict: RowSplitsConflict,
    },
    /// Splits of exact numbers of rows do not fit the number of rows.
    #[error(transparent)]
    RowSplitSizes {
        /// The numbers.
        source: tfrecord_shards::RowSplitsError,
    },
    /// Every column is in the names of directories or shards, so that no column is left for the records.
    #[error("no column is left for the records: all are in the names of directories: {}", listed(columns))]
    NoColumnsLeft {
        /// The columns.
        columns: Vec<String>,
    },
    /// The requested file would describe a whole set, but only the appended rows have been seen.
    #[error("{emit} cannot describe {out} by the rows that are added to it: {rows} are there already")]
    DescribesAppended {
        /// The requested option.
        emit: String,
        /// The set.
        out: String,
        /// The number of rows already in the set.
        rows: u64,
    },
    /// The record format does not have the compression or the group size.
    #[error(transparent)]
    Framing(#[from] FramingConflict),
    /// TensorFlow Datasets does not read shards in `key=value` directories.
    #[error("not for TensorFlow Datasets: it looks for shards in one directory")]
    TfdsInDirectories,
    /// TensorFlow Datasets requires the number of shards in their names.
    #[error(
        "not for TensorFlow Datasets: it wants to see in the names of shards how many there are, which in an object store \
         must be known beforehand"
    )]
    TfdsUnnumbered,
    /// Tasks sort rows for a set in an object store, and no directory is given for these rows.
    #[error("tasks have to sort the rows of this set, and an object store has no place for sorted rows")]
    NoScratch,
    /// Rows of a write partition cannot be written. Row numbers count from the first row of the partition.
    #[error("write partition {partition} of {partitions}, which counts its own rows")]
    PartitionRows {
        /// The partition.
        partition: u32,
        /// The number of partitions.
        partitions: usize,
        /// The error of a row.
        source: DataFusionError,
    },
    /// A record cannot be read as the columns of the table, or the file is damaged.
    #[error("{file}: {error}")]
    Record {
        /// The file.
        file: String,
        /// The error and its position in the file. Its own source becomes the source of this error.
        error: arrow_tfrecord::Error,
        /// Whether the types of the columns were inferred from some of the records.
        inferred: bool,
    },
    /// A record has a feature that is no column, and the session rejects what would be lost.
    #[error("{file}: record {record}: the feature {feature:?} is no column, because the inspected records lack it")]
    UnknownFeature {
        /// The file.
        file: String,
        /// The record, from 0.
        record: u64,
        /// The name of the feature.
        feature: String,
    },
    /// During inference, a record conflicts with those before it, or the file is damaged.
    #[error("{file}: {error}")]
    Inference {
        /// The file.
        file: String,
        /// The error and its position in the file. Its own source becomes the source of this error.
        error: arrow_tfrecord::Error,
    },
    /// Columns cannot be read from records.
    #[error("{error}")]
    Columns {
        /// The column and the reason. Its own source becomes the source of this error.
        error: arrow_tfrecord::Error,
    },
    /// The records are valid but end at an unexpected position.
    #[error("{file}: the records end before {found}, expected {expected}")]
    End {
        /// The file.
        file: String,
        /// The expected end, from the manifest or from the scan that split the file.
        expected: Position,
        /// The actual end.
        found: Position,
    },
    /// A shard set is incomplete.
    #[error("{directory}: the shard set is not complete: {problem}")]
    IncompleteSet {
        /// Its directory.
        directory: String,
        /// What is missing or differs.
        problem: Disagreement,
    },
    /// Files are missing in a directory, as the names of the others record.
    #[error("{missing}")]
    MissingParts {
        /// What is missing.
        missing: MissingParts,
    },
    /// Damaged records are to be skipped, but the session refuses doubtful input.
    #[error("damaged records cannot be skipped where doubtful input is refused")]
    SkipsDamagedStrictly,
    /// A file has the name of a compressed one, and is empty.
    #[error("{file}: expected a compressed file or one of ArrayRecord, found an empty one")]
    EmptyCompressed {
        /// The file.
        file: String,
    },
    /// Two sets of one table store a column in different record formats.
    #[error("{second}: column {column:?} has another form than in {first}")]
    FormConflict {
        /// The column.
        column: String,
        /// The directory of one set.
        first: String,
        /// The directory of the other.
        second: String,
    },
    /// A file that belongs to no shard set, in a table with files that do.
    #[error("{file} is not a shard of the set in {directory}, whose manifest records the types of its columns")]
    StrayFile {
        /// The file.
        file: String,
        /// The directory of the set.
        directory: String,
    },
    /// A column is declared in a different unit than it was written in.
    #[error("{directory}: column {column:?}: declared as {declared}, but it was written as {written}")]
    DeclaredUnit {
        /// The directory of the set.
        directory: String,
        /// The column.
        column: String,
        /// The type in the manifest.
        written: DataType,
        /// The declared type.
        declared: DataType,
    },
    /// A declared column, or a field of a struct, was not written.
    #[error("{directory}{}: no column {column:?} was written; the columns are {}", and_sets(*more), listed(known))]
    UnknownColumn {
        /// The directory of the set, or of the first.
        directory: String,
        /// Number of further sets.
        more: usize,
        /// The column. A field is preceded by the names of its parents, separated by dots.
        column: String,
        /// The columns or fields that were written.
        known: Vec<String>,
    },
    /// The first records store a column in another place than the one it is read from.
    #[error("{file}: column {column:?}: {data_type} is read from {expected}, but the records have {found}")]
    ElsewhereInRecords {
        /// The file, or the first one.
        file: String,
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// The feature or feature list it is read from.
        expected: String,
        /// The features that the records contain.
        found: String,
        /// The remedy: a sentence without a full stop.
        way_out: String,
    },
    /// The manifest cannot be read, and no other source specifies the types of the files.
    #[error("the manifest next to the files, which records the types of their columns, cannot be read")]
    UnreadableManifest {
        /// The reason.
        source: DataFusionError,
    },
    /// A set is not the one that its manifest describes, so it was not published.
    #[error(
        "nothing was written, because the set would differ from its manifest: {shard}: expected {expected}, found {found}"
    )]
    NotRebuilt {
        /// The first shard that differs.
        shard: String,
        /// Its figures in the manifest.
        expected: String,
        /// Its figures now.
        found: String,
        /// What wrote the manifest.
        tool: String,
    },
    /// A `schema.pbtxt` or `features.json` is not text.
    #[error("{file}: not UTF-8")]
    SchemaText {
        /// The file.
        file: String,
        /// Position of the invalid bytes.
        source: std::str::Utf8Error,
    },
    /// A `schema.pbtxt` or `features.json` does not describe columns.
    #[error("{file}: no description of columns that can be read")]
    SchemaFile {
        /// The file.
        file: String,
        /// The reason.
        source: tfrecord_sidecars::Error,
    },
    /// A job of the run panicked.
    #[error("{message}")]
    Panic {
        /// The panic's message.
        message: String,
    },
}

/// Errors of a store stay I/O errors: schedulers retry those.
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

fn unfit_rows(rows: u64) -> String {
    match rows {
        1 => "1 row does not fit".to_owned(),
        rows => format!("at least {rows} rows do not fit"),
    }
}

/// Why splits of exact numbers of rows are not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowSplitsConflict {
    /// The rows are not shuffled.
    #[error("exact numbers of rows are cut from shuffled rows, and these are not shuffled")]
    Unshuffled,
    /// The rows go to partition directories.
    #[error("exact numbers of rows cannot be cut in partition directories")]
    Directories,
    /// The rows are appended.
    #[error("exact numbers of rows cannot be cut from rows that are appended to a set")]
    Append,
}

/// Returns the error of options, or of rows or files that do not fit them.
pub(crate) fn refused(problem: impl Into<String>) -> ErrorKind {
    ErrorKind::Refused { problem: problem.into() }
}

/// Returns the error of a number of shards for a split that does not exist.
pub(crate) fn unknown_split(split: &str, known: &[String]) -> ErrorKind {
    let splits = match known {
        [] => "there are no splits".to_owned(),
        known => format!("the splits are {}", listed(known)),
    };
    refused(format!("shards for split {split:?}: {splits}"))
}

/// Converts an error of the mapping or the encoder.
pub(crate) fn encode_error(error: arrow_tfrecord::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Converts an error of the sidecar files.
pub(crate) fn sidecar_error(error: tfrecord_sidecars::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Converts an error of the shard set. Errors of the file system stay I/O errors: schedulers retry those.
pub(crate) fn shards_error(error: tfrecord_shards::Error) -> DataFusionError {
    use tfrecord_shards::ErrorKind;
    let error = match error.into_kind() {
        ErrorKind::Outside(error) => {
            return error.downcast().map_or_else(DataFusionError::External, |error: Box<DataFusionError>| *error);
        }
        kind => tfrecord_shards::Error::from(kind),
    };
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

/// Converts an error to one of the shard set, which [`shards_error`] converts back.
pub(crate) fn outside_error(error: DataFusionError) -> tfrecord_shards::Error {
    tfrecord_shards::ErrorKind::Outside(Box::new(error)).into()
}

#[cfg(test)]
mod tests;
