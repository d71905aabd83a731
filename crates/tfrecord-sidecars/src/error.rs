//! [`Error`]: what can go wrong between a table and a description of it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use arrow_tfrecord::RecordType;
use prost_reflect::DescriptorError;
use prost_reflect::prost::DecodeError;
use prost_reflect::text_format::ParseError;
use tfrecord_framing::Compression;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and where.
pub struct Error(Box<ErrorKind>);

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A record is no `tf.train.Example` and no `tf.train.SequenceExample`.
    #[error("no tf.train.Example: at byte {at} of the record, {reason}")]
    Malformed {
        /// Where, from the record's first byte.
        at: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// A text is no schema of TensorFlow Metadata.
    #[error("line {line}, column {column}: no schema of TensorFlow Metadata")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong there.
        source: ParseError,
    },
    /// Messages within messages, more than any schema has.
    #[error(
        "line {line}, column {column}: no schema of TensorFlow Metadata, for more than {most} messages lie one in the other"
    )]
    TooDeep {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// How many may.
        most: usize,
    },
    /// A feature of a schema has no column.
    #[error("feature {feature:?}: {problem}")]
    Feature {
        /// Its name.
        feature: String,
        /// Why not.
        problem: String,
        /// What can be done.
        hint: String,
    },
    /// A form has no words for records of this type.
    #[error("records of type {found} have no such description")]
    RecordType {
        /// What they are.
        found: RecordType,
    },
    /// A set has no description that TensorFlow Datasets would take.
    #[error("not for TensorFlow Datasets: {0}")]
    Tfds(TfdsProblem),
    /// Records in a compressed file cannot be gone to.
    #[error("shards compressed with {compression} have no index")]
    CompressedIndex {
        /// How they are compressed.
        compression: Compression,
    },
    /// A table has no place in a saved dataset of tf.data.
    #[error("column {column:?}: {problem}")]
    Snapshot {
        /// The column.
        column: String,
        /// Why not.
        problem: String,
        /// What can be done.
        hint: String,
    },
    /// A null in a table that becomes a saved dataset of tf.data without masks.
    #[error("column {column:?}: row {row} is null, and a tensor has no null")]
    SnapshotNull {
        /// The column.
        column: String,
        /// The row, from 0.
        row: usize,
    },
    /// A file or directory could not be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something is wrong in a file.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What.
        source: Error,
    },
    /// A directory has no file of records.
    #[error("{}: no TFRecord file in it", dir.display())]
    NoFile {
        /// Which.
        dir: PathBuf,
    },
    /// A part of a set.
    #[error("not a whole set: {problem}")]
    NotWhole {
        /// What is missing.
        problem: String,
    },
    /// Statistics of other features were to be added.
    #[error("statistics of different features cannot be merged")]
    OtherFeatures,
    /// Records or batches cannot be read, or written.
    #[error(transparent)]
    Records(#[from] arrow_tfrecord::Error),
    /// The built-in descriptors are damaged.
    #[error("the descriptors of TensorFlow's messages are damaged")]
    Descriptors(#[from] DescriptorError),
    /// The built-in descriptors lack a message.
    #[error("the descriptors of TensorFlow's messages have no schema")]
    NoDescriptor,
    /// A message does not become another of the same type.
    #[error("a schema of TensorFlow Metadata cannot be decoded")]
    Decode(#[from] DecodeError),
    /// A schema has no form in a manifest.
    #[error(transparent)]
    Manifest(#[from] tfrecord_shards::Error),
    /// Something has no form in JSON.
    #[error("cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Why a set has no description that TensorFlow Datasets would take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TfdsProblem {
    /// No shard.
    #[error("there is no shard")]
    NoShard,
    /// A file that TensorFlow Datasets does not take for a shard.
    #[error("shard {path:?}: {problem}")]
    Shard {
        /// The file.
        path: String,
        /// Why not.
        problem: String,
    },
    /// Some of the shards that the names of the others count.
    #[error("of the {total} shards {before}..{after} there are {found}")]
    MissingShards {
        /// What the names begin with.
        before: String,
        /// What the names end with.
        after: String,
        /// How many shards they count.
        total: usize,
        /// How many there are.
        found: usize,
    },
    /// A split with shards of two names.
    #[error("split {split:?} has shards {first} and {second}")]
    TwoTemplates {
        /// The split.
        split: String,
        /// The template of some of its names.
        first: String,
        /// The template of others.
        second: String,
    },
    /// Compressed shards.
    #[error("{} are not read by TensorFlow Datasets", compressed(*.found))]
    Compressed {
        /// How they are compressed; none if they differ.
        found: Option<Compression>,
    },
    /// A version that is not three numbers.
    #[error("{version:?} is not a version of TensorFlow Datasets")]
    Version {
        /// The version.
        version: String,
    },
    /// A column to be read as images that does not hold one.
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
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }
}

impl Error {
    /// The same of a file.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        ErrorKind::File { path: path.to_owned(), source: self }.into()
    }
}

impl From<TfdsProblem> for ErrorKind {
    fn from(problem: TfdsProblem) -> Self {
        Self::Tfds(problem)
    }
}

impl<E: Into<ErrorKind>> From<E> for Error {
    fn from(kind: E) -> Self {
        Self(Box::new(kind.into()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
