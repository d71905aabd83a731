//! [`Error`]: errors of writing and reading descriptions of tables.

use std::io;
use std::path::{Path, PathBuf};

use arrow_tfrecord::RecordType;
use prost_reflect::DescriptorError;
use prost_reflect::prost::DecodeError;
use prost_reflect::text_format::ParseError;
use tfrecord_framing::{Compression, RecordFormat};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

tfrecord_framing::boxed_error! {
    /// An error with its location.
    pub struct Error(Box<ErrorKind>);
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A record is neither a `tf.train.Example` nor a `tf.train.SequenceExample`.
    #[error("not a tf.train.Example: at byte {at} of the record, {reason}")]
    Malformed {
        /// The byte offset in the record.
        at: usize,
        /// The defect.
        reason: &'static str,
    },
    /// A text is not a valid schema of TensorFlow Metadata.
    #[error("line {line}, column {column}: not a schema of TensorFlow Metadata")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The defect.
        source: ParseError,
    },
    /// A `features.json` or `dataset_info.json` of TensorFlow Datasets is not JSON.
    #[error("not JSON")]
    FeaturesJson {
        /// The parser's error, with line and column.
        source: serde_json::Error,
    },
    /// A `features.json` does not contain features in the form of TensorFlow Datasets.
    #[error("{problem}")]
    NotFeatures {
        /// The reason.
        problem: &'static str,
    },
    /// A feature of a schema cannot become a column.
    #[error("feature {feature:?}: {problem}")]
    Feature {
        /// Its name.
        feature: String,
        /// The reason.
        problem: String,
        /// What the user can do.
        hint: String,
    },
    /// A format cannot describe records of this type.
    #[error("records of type {found} have no such description")]
    RecordType {
        /// The type of the records.
        found: RecordType,
    },
    /// A data set cannot be described for TensorFlow Datasets.
    #[error("not for TensorFlow Datasets: {0}")]
    Tfds(TfdsProblem),
    /// Compressed files do not support random access to records.
    #[error("shards compressed with {compression} have no index")]
    CompressedIndex {
        /// Their compression.
        compression: Compression,
    },
    /// A kind of sidecar files is for shards of another format.
    #[error("{kind} is not for shards of record format {format}")]
    OtherFormat {
        /// The name of the kind.
        kind: String,
        /// The format of the shards.
        format: RecordFormat,
    },
    /// A table cannot be written as a saved dataset of tf.data.
    #[error("column {column:?}: {problem}")]
    Snapshot {
        /// The column.
        column: String,
        /// The reason.
        problem: String,
        /// What the user can do.
        hint: String,
    },
    /// A null in a table that is written as a saved dataset of tf.data without masks.
    #[error("column {column:?}: row {row} is null, which a tensor cannot represent")]
    SnapshotNull {
        /// The column.
        column: String,
        /// The row, from 0.
        row: usize,
    },
    /// A file or directory could not be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// An error in a file.
    #[error("{}", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The error.
        source: Error,
    },
    /// A directory contains no TFRecord file.
    #[error("{}: contains no TFRecord file", dir.display())]
    NoFile {
        /// The path.
        dir: PathBuf,
    },
    /// A shard set is incomplete.
    #[error("not a complete set: {problem}")]
    NotWhole {
        /// What is missing.
        problem: String,
    },
    /// A schema that is nested too deeply or whose description is missing, or statistics of other features.
    #[error("{problem}")]
    Refused {
        /// The reason.
        problem: String,
    },
    /// Bytes are not those of statistics of this release.
    #[error("statistics of a part of the rows cannot be read: {0}")]
    StoredStatistics(#[source] postcard::Error),
    /// Records or batches cannot be read or written.
    #[error(transparent)]
    Records(#[from] arrow_tfrecord::Error),
    /// The built-in descriptors are damaged.
    #[error("the descriptors of TensorFlow's messages are damaged")]
    Descriptors(#[from] DescriptorError),
    /// A message cannot be converted to another representation of its type.
    #[error("a schema of TensorFlow Metadata cannot be decoded")]
    Decode(#[from] DecodeError),
    /// A schema cannot be represented in a manifest.
    #[error(transparent)]
    Manifest(#[from] tfrecord_shards::Error),
    /// A value cannot be represented in JSON.
    #[error("cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Why a data set cannot be described for TensorFlow Datasets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TfdsProblem {
    /// The set has no shards.
    #[error("there is no shard")]
    NoShard,
    /// A file that TensorFlow Datasets does not accept as a shard.
    #[error("shard {path:?}: {problem}")]
    Shard {
        /// The file.
        path: String,
        /// The reason.
        problem: String,
    },
    /// Shards are missing, by the total in the names of the others.
    #[error("expected {total} shards {before}..{after}, found {found}")]
    MissingShards {
        /// The prefix of the names.
        before: String,
        /// The suffix of the names.
        after: String,
        /// The total number of shards in the names.
        total: usize,
        /// The number of shards found.
        found: usize,
    },
    /// A split whose shards have different name templates.
    #[error("split {split:?} has shards {first} and {second}")]
    TwoTemplates {
        /// The split.
        split: String,
        /// The template of some shards.
        first: String,
        /// The template of others.
        second: String,
    },
    /// Compressed shards.
    #[error("{} are not read by TensorFlow Datasets", compressed(*.found))]
    Compressed {
        /// Their compression. `None` if they differ.
        found: Option<Compression>,
    },
    /// A version that is not three numbers.
    #[error("{version:?} is not a version of TensorFlow Datasets")]
    Version {
        /// The version.
        version: String,
    },
    /// A column selected as images that is not one value of bytes in every record.
    #[error("column {column:?} cannot be read as images: it is not one value of bytes in every record")]
    NotImages {
        /// The column.
        column: String,
    },
}

fn compressed(found: Option<Compression>) -> String {
    found.map_or_else(|| "compressed shards".to_owned(), |compression| format!("shards compressed with {compression}"))
}

impl Error {
    /// Adds the path of the file to the error.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        ErrorKind::File { path: path.to_owned(), source: self }.into()
    }
}

impl From<TfdsProblem> for ErrorKind {
    fn from(problem: TfdsProblem) -> Self {
        Self::Tfds(problem)
    }
}
