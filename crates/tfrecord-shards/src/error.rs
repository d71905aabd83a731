//! [`Error`]: the failures between a record batch and a published set.

mod at_path;
mod attempt;
mod finding;

use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use tfrecord_framing::Container;

use crate::set::difference::FormDifference;
use crate::set::format_version::FormatVersion;

pub(crate) use at_path::{AtPath, file_type};
pub use attempt::AttemptError;
pub use finding::{Finding, FindingKind};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a sidecar producer.
pub type SidecarsError = Box<dyn std::error::Error + Send + Sync>;

tfrecord_framing::boxed_error! {
    /// A failure to write, publish or read a shard set.
    pub struct Error(Box<ErrorKind>) includes Damaged;
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An operation of the file system failed.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// The attempted operation.
        action: &'static str,
        /// The file or directory it was applied to.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A shard's sink failed.
    #[error("cannot write a shard")]
    Write(#[from] io::Error),
    /// The bytes to write are not framed records.
    #[error("cannot write a shard")]
    Framing(#[source] tfrecord_framing::Error),
    /// An input file is damaged.
    #[error("{}: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage and its position. Its own source is the source of this error.
        error: tfrecord_framing::Error,
    },
    /// An input is incomplete.
    #[error("{0}")]
    NotWhole(Finding),
    /// An input is neither a file nor a directory: a pipe, a device or a socket.
    #[error("{}: expected a file or a directory, found {}", path.display(), file_type(path))]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The records of a file would be written twice.
    #[error("{}: listed twice, or in a directory that is listed too", path.display())]
    Twice {
        /// The file or directory.
        path: PathBuf,
    },
    /// The inputs contain records of different record formats, which cannot share a set.
    #[error("{}: {difference}", path.display())]
    MixedForms {
        /// A set, or a file that no manifest lists.
        path: PathBuf,
        /// How it differs from another input.
        difference: FormDifference,
    },
    /// Two files would have the same index path.
    #[error("{}: would be the index of {} and of {}", path.display(), first.display(), second.display())]
    SameIndex {
        /// The index path.
        path: PathBuf,
        /// The first file.
        first: PathBuf,
        /// The second file.
        second: PathBuf,
    },
    /// The inputs contain no files.
    #[error("{}: no TFRecord files", path.display())]
    NoFiles {
        /// The first of the given paths.
        path: PathBuf,
    },
    /// Every input file is damaged and none contains an intact record.
    #[error("{}: no intact record", path.display())]
    NothingSound {
        /// The first of the given paths.
        path: PathBuf,
        /// The defects of the files.
        findings: Vec<Finding>,
    },
    /// Records would lose the `key=value` directories or splits that record what they have in common.
    #[error("records of {first:?} and of {second:?} would be mixed")]
    MixedGroups {
        /// A split, or `key=value` directories.
        first: String,
        /// Another split, or other directories.
        second: String,
    },
    /// An index was requested for a file that is compressed or of another format.
    #[error("{}: an index is for uncompressed files, found {}", path.display(), in_words(*container))]
    CompressedIndex {
        /// The file.
        path: PathBuf,
        /// How it contains its records.
        container: Container,
    },
    /// A batch could not be encoded, or its schema could not be mapped.
    #[error(transparent)]
    Encode(#[from] arrow_tfrecord::Error),
    /// The thread pool could not be started.
    #[error("cannot start encoding threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),

    /// The target must not hold a set, for example the root of the file system.
    #[error("{}: {what} is never written to", path.display())]
    Protected {
        /// The target.
        path: PathBuf,
        /// Why it is protected.
        what: &'static str,
    },
    /// The target is a file.
    #[error("{}: expected a directory, found a file", path.display())]
    NotADirectory {
        /// The target.
        path: PathBuf,
    },
    /// The target is not empty, and the mode is [`SaveMode::Error`](crate::SaveMode::Error).
    #[error("{}: not empty: it contains {}", path.display(), found.join(", "))]
    NotEmpty {
        /// The target.
        path: PathBuf,
        /// Up to three of its entries.
        found: Vec<String>,
    },
    /// The target of a table exists, and is not to be replaced.
    #[error("{}: already exists", path.display())]
    AlreadyThere {
        /// The target.
        path: PathBuf,
    },
    /// The target of a table is a file instead of a directory, or the other way round.
    #[error("{}: expected {expected}, found {found}", path.display())]
    OtherKind {
        /// The target.
        path: PathBuf,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// The target contains files that were not written by an earlier run, so it is neither replaced nor appended to.
    #[error(
        "{}: neither replaced nor appended to, because it contains files written by other tools: {}",
        path.display(),
        files.join(", ")
    )]
    ForeignFiles {
        /// The target.
        path: PathBuf,
        /// Up to three of the files, hidden ones last.
        files: Vec<String>,
    },
    /// The target contains an input, or an input contains the target.
    #[error("{}: overlaps with input {}", path.display(), input.display())]
    Overlap {
        /// The target.
        path: PathBuf,
        /// The input.
        input: PathBuf,
    },
    /// Another run is writing in the target.
    #[error("{}: run {run} is writing here", path.display())]
    Busy {
        /// The target.
        path: PathBuf,
        /// The other run.
        run: String,
    },

    /// Another run committed first: to the same object store path, or to the set that this run was to change.
    #[error("{}: another run wrote here in the meantime", path.display())]
    Superseded {
        /// The target.
        path: PathBuf,
    },

    /// A partition column's name cannot be used as a directory name.
    #[error("partition column {column:?} cannot name directories")]
    PartitionName {
        /// The column.
        column: String,
    },
    /// The name of a file or directory would exceed the limit of file systems.
    #[error("{name:?} would be a name of {found} bytes, the limit is {limit}")]
    LongName {
        /// The start of the name.
        name: String,
        /// Its length in bytes.
        found: usize,
        /// The longest length allowed, in bytes.
        limit: usize,
    },
    /// The target's contents cannot be appended to.
    #[error("{}: not appended to: {why}", path.display())]
    NotAppendable {
        /// The target.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The existing set was made of files without a manifest, so its columns are not known.
    #[error("{}: not appended to: its manifest records no columns, since it was made of files without one", path.display())]
    UnknownForm {
        /// The set.
        path: PathBuf,
    },
    /// The rows to append have another record format than the existing set.
    #[error("{}: not appended to: {part} is {found}, in the set it is {expected}", path.display())]
    OtherForm {
        /// The set.
        path: PathBuf,
        /// The part that differs: `column "ts"`.
        part: String,
        /// Its value in the set.
        expected: String,
        /// Its value in the rows to append.
        found: String,
    },
    /// The rows are to replace partitions, and have other partition columns than the existing set.
    #[error("{}: none of its partitions is replaced: partitioning is {found}, in the set it is {expected}", path.display())]
    OtherPartitions {
        /// The set.
        path: PathBuf,
        /// The partition columns of the set.
        expected: String,
        /// The partition columns of the rows.
        found: String,
    },
    /// The rows are to replace partitions, and have no partition columns.
    #[error("rows without partition columns cannot replace partitions")]
    NoPartitionColumns,
    /// The rows to append have columns that the existing set does not have.
    #[error("{}: not appended to: the set does not have {}", path.display(), named(columns))]
    NewColumns {
        /// The set.
        path: PathBuf,
        /// The columns, in the order of the rows.
        columns: Vec<String>,
    },
    /// The prefix of the shards' names is invalid.
    #[error("prefix {prefix:?} cannot start the name of a shard")]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// A shard was requested, or a set published, after the end of the run.
    #[error("the set has already been published or aborted")]
    Ended,
    /// A writer was used after a failure.
    #[error("the set cannot be written, because an earlier step failed")]
    Failed,
    /// A long operation was stopped with [`Progress::stop`](crate::Progress::stop).
    #[error("stopped")]
    Stopped,
    /// The number of shards exceeds the range of shard numbers.
    #[error("more than {} shards", u32::MAX)]
    TooManyShards,
    /// Publishing was requested while shards were still open.
    #[error("cannot publish: shards still being written: {count}")]
    OpenShards {
        /// The number of open shards.
        count: usize,
    },
    /// Two shards have the same partition and number.
    #[error("write partition {partition} has two shards numbered {sequence}")]
    ShardTwice {
        /// The write partition.
        partition: u32,
        /// The number within the partition.
        sequence: u32,
    },
    /// What tasks in other processes have staged cannot be published.
    #[error(transparent)]
    Attempt(#[from] AttemptError),
    /// The sidecars could not be produced.
    #[error("the set cannot be described")]
    Sidecars(#[source] SidecarsError),
    /// A [set](crate::SetCommit) outside of this crate failed.
    #[error(transparent)]
    Outside(Box<dyn std::error::Error + Send + Sync>),
    /// A shard's length differs from the one its writer recorded.
    #[error("{}: expected {expected} bytes, found {found}", path.display())]
    ShardLength {
        /// The shard.
        path: PathBuf,
        /// The length its writer recorded.
        expected: u64,
        /// The length on disk.
        found: u64,
    },

    /// A file has the name of a compressed one, or is listed as one, and is empty: it was cut off.
    #[error("{}: expected a compressed file or one of ArrayRecord, found an empty one", path.display())]
    EmptyCompressed {
        /// The file.
        path: PathBuf,
    },
    /// The sort input is invalid.
    #[error("cannot sort records: {problem}")]
    SortInput {
        /// The defect.
        problem: String,
    },
    /// The description of a sort in several processes is damaged, or was written by another version.
    #[error("the description of a sort in several processes cannot be read: {0}")]
    SharedSort(#[source] postcard::Error),
    /// A temporary file does not contain what was written to it.
    #[error("{}: a temporary file does not contain what was written to it: {problem}", path.display())]
    SpillDamaged {
        /// The directory of temporary files.
        path: PathBuf,
        /// The difference.
        problem: String,
    },

    /// There is no manifest.
    #[error("{}: there is no manifest", path.display())]
    NoManifest {
        /// Its expected path.
        path: PathBuf,
    },
    /// A manifest was changed after it was written.
    #[error("{}: {}", path.display(), finding::changed(*expected, *found))]
    ChangedManifest {
        /// The manifest.
        path: PathBuf,
        /// The CRC-32C recorded in it.
        expected: u32,
        /// The CRC-32C of its content.
        found: u32,
    },
    /// A target is in a directory that holds a shard set.
    #[error("{}: it is inside of the shard set {}", path.display(), set.display())]
    InsideSet {
        /// The target.
        path: PathBuf,
        /// The set.
        set: PathBuf,
    },
    /// A manifest is not valid JSON of a manifest.
    #[error("{}: not a valid manifest", path.display())]
    ManifestSyntax {
        /// The manifest.
        path: PathBuf,
        /// The defect, with its line and column.
        source: serde_json::Error,
    },
    /// A manifest has a newer, unsupported version.
    #[error("{}: expected format version {}.x, found {found}", path.display(), crate::FORMAT_VERSION.major)]
    ManifestVersion {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: FormatVersion,
    },
    /// A manifest contradicts itself.
    #[error("{}: {problem}", path.display())]
    ManifestContent {
        /// The manifest.
        path: PathBuf,
        /// The contradiction.
        problem: String,
    },
    /// The manifest could not be serialized.
    #[error("cannot write the manifest as JSON")]
    Json(#[from] serde_json::Error),
    /// The schema or the mapping in a manifest cannot be read.
    #[error("{}: not a valid manifest", path.display())]
    ManifestForm {
        /// The manifest.
        path: PathBuf,
        /// The defect of the schema or the mapping.
        source: Box<Error>,
    },
    /// The mapping options in a manifest are not valid in this release.
    #[error("the manifest's mapping options are not valid")]
    MappingOptions(#[source] serde_json::Error),
    /// A schema cannot be encoded as Arrow IPC, or its IPC encoding is damaged.
    #[error("the schema's IPC form cannot be written or read")]
    Schema(#[from] ArrowError),
    /// The schema in a manifest is not base64.
    #[error("the schema's IPC form is not base64")]
    Base64(#[from] base64::DecodeError),
}

/// Names columns in a message.
fn named(columns: &[String]) -> String {
    let names: Vec<_> = columns.iter().map(|column| format!("{column:?}")).collect();
    format!("the column{} {}", if columns.len() == 1 { "" } else { "s" }, names.join(", "))
}

impl From<tfrecord_framing::Error> for ErrorKind {
    fn from(error: tfrecord_framing::Error) -> Self {
        // A sink's error is reported as such whether or not a compressor is in between.
        match error.into_kind() {
            tfrecord_framing::ErrorKind::Io { source, .. } => Self::Write(source),
            kind => Self::Framing(kind.into()),
        }
    }
}

impl Error {
    /// Returns the message with those of its sources, for the log.
    pub(crate) fn with_sources(&self) -> String {
        let sources = std::iter::successors(std::error::Error::source(self), |source| source.source());
        sources.fold(self.to_string(), |text, source| format!("{text}: {source}"))
    }

    /// Adds a path to the error: the shard whose sink failed, or the manifest whose schema or mapping cannot be read.
    #[must_use]
    pub fn with_path(self, path: &Path) -> Self {
        match *self.0 {
            ErrorKind::Write(source) => ErrorKind::Io { action: "write", path: path.to_owned(), source }.into(),
            kind @ (ErrorKind::Schema(_) | ErrorKind::Base64(_) | ErrorKind::MappingOptions(_)) => {
                ErrorKind::ManifestForm { path: path.to_owned(), source: Box::new(kind.into()) }.into()
            }
            kind => kind.into(),
        }
    }
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        Self::ExternalError(Box::new(error))
    }
}

/// Names the compression of a TFRecord file, or another format.
fn in_words(container: Container) -> String {
    container.compression().map_or_else(|| container.to_string(), |compression| format!("compression {compression}"))
}

#[cfg(test)]
mod tests;
