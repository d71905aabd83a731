//! [`Error`]: what can go wrong between a batch and a published set.

mod at_path;

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use tfrecord_framing::{Compression, Damage};

use crate::set::difference::{FormDifference, ShardFigures};
use crate::set::format_version::FormatVersion;
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

pub(crate) use at_path::AtPath;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the makers of sidecars say when they cannot.
pub type SidecarsError = Box<dyn std::error::Error + Send + Sync>;

/// A failure to write, publish or read a shard set.
#[derive(Debug)]
pub struct Error(Box<ErrorKind>);

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file system refused something.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A shard's sink failed.
    #[error("cannot write a shard")]
    Write(#[from] io::Error),
    /// What was to be written is not records.
    #[error("cannot write a shard")]
    Framing(#[source] tfrecord_framing::Error),
    /// A file that is to be read is damaged.
    #[error("{}: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where. Its own source is the source of this error.
        error: tfrecord_framing::Error,
    },
    /// What is to be read is not whole.
    #[error("{0}")]
    NotWhole(Finding),
    /// What is to be read is neither file nor directory: a pipe, a device or a socket.
    #[error("{}: expected a file or a directory, found {}", path.display(), file_type(path))]
    NotAFile {
        /// What it is called.
        path: PathBuf,
    },
    /// The records of a file would be written twice.
    #[error("{}: named twice, or in a directory that is named too", path.display())]
    Twice {
        /// The file or directory.
        path: PathBuf,
    },
    /// Records would get into one set that do not have the same form.
    #[error("{}: {difference}", path.display())]
    MixedForms {
        /// A set, or a file that no manifest lists.
        path: PathBuf,
        /// What differs from another.
        difference: FormDifference,
    },
    /// Two files would have the same index.
    #[error("{}: would be the index of {} and of {}", path.display(), first.display(), second.display())]
    SameIndex {
        /// The index.
        path: PathBuf,
        /// A file.
        first: PathBuf,
        /// Another.
        second: PathBuf,
    },
    /// There is nothing to read.
    #[error("{}: no TFRecord files", path.display())]
    NoFiles {
        /// The first of the paths that were named.
        path: PathBuf,
    },
    /// Damaged files, of which nothing can be saved.
    #[error("{}: no sound record", path.display())]
    NothingSound {
        /// The first of the paths that were named.
        path: PathBuf,
        /// What is wrong with the files.
        findings: Vec<Finding>,
    },
    /// Records would get out of the directories, or the splits, that tell what they have in common.
    #[error("records of {first:?} and of {second:?} would be mixed")]
    MixedGroups {
        /// A split, or `key=value` directories.
        first: String,
        /// Others.
        second: String,
    },
    /// Compressed files have no index.
    #[error("{}: an index is for uncompressed files, found compression {compression}", path.display())]
    CompressedIndex {
        /// The file.
        path: PathBuf,
        /// Its compression.
        compression: Compression,
    },
    /// A batch could not be encoded, or its schema not be mapped.
    #[error(transparent)]
    Encode(#[from] arrow_tfrecord::Error),
    /// The threads could not be started.
    #[error("cannot start encoding threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),

    /// The target is not for sets: the root of the file system, say.
    #[error("{}: {what} is never written to", path.display())]
    Protected {
        /// The target.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The target is a file.
    #[error("{}: expected a directory, found a file", path.display())]
    NotADirectory {
        /// The target.
        path: PathBuf,
    },
    /// Something is there, and [`SaveMode::Error`](crate::SaveMode::Error) was asked for.
    #[error("{}: not empty, it holds {}", path.display(), found.join(", "))]
    NotEmpty {
        /// The target.
        path: PathBuf,
        /// Up to three things in it.
        found: Vec<String>,
    },
    /// The target of a table exists, and is not to be replaced.
    #[error("{}: is there already", path.display())]
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
    /// The target contains files that were not written by an earlier run.
    #[error("{}: not replaced, because it contains files written by other tools: {}", path.display(), files.join(", "))]
    ForeignFiles {
        /// The target.
        path: PathBuf,
        /// Up to three of the files.
        files: Vec<String>,
    },
    /// The target and an input lie one in the other.
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

    /// Another run was quicker to write to the same place: to an object store, or to a set that this one was to change.
    #[error("{}: another run has written here meanwhile", path.display())]
    Superseded {
        /// The target.
        path: PathBuf,
    },

    /// The set is there, but what was left to do has failed: to make its name durable, or to remove what it replaced.
    #[error("{}: written completely, but finishing up failed", path.display())]
    AfterCommit {
        /// The set.
        path: PathBuf,
        /// What failed.
        source: Box<Error>,
    },
    /// No directory can be named after a partition column.
    #[error("partition column {column:?} cannot name directories")]
    PartitionName {
        /// The column.
        column: String,
    },
    /// A file or directory would have a longer name than file systems take.
    #[error("{name:?} would be a name of {found} bytes, at most {limit} are possible")]
    LongName {
        /// How it begins.
        name: String,
        /// Bytes of it.
        found: usize,
        /// Bytes that it may have.
        limit: usize,
    },
    /// What is there cannot be added to.
    #[error("{}: not appended to: {why}", path.display())]
    NotAppendable {
        /// The target.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// What is to be added has not the form of what is there.
    #[error("{}: not appended to: {part} is {found}, in the set it is {expected}", path.display())]
    OtherForm {
        /// The set.
        path: PathBuf,
        /// What differs: `column "ts"`.
        part: String,
        /// What it is in the set.
        expected: String,
        /// What it is here.
        found: String,
    },
    /// The start of the shards' names will not do.
    #[error("prefix {prefix:?} cannot start the name of a shard")]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// A shard was asked for, or a set published, after the end of the run.
    #[error("the set is published or aborted already")]
    Ended,
    /// A writer was used after it had failed.
    #[error("there is no set to write: an earlier step has failed")]
    Failed,
    /// A long run was stopped, with [`Progress::stop`](crate::Progress::stop).
    #[error("stopped")]
    Stopped,
    /// More shards than can be numbered.
    #[error("more than {} shards", u32::MAX)]
    TooManyShards,
    /// A set was to be published while shards were still open.
    #[error("cannot publish: shards still being written: {count}")]
    OpenShards {
        /// How many.
        count: usize,
    },
    /// Two shards claim the same place.
    #[error("write partition {partition} has two shards numbered {sequence}")]
    ShardTwice {
        /// The write partition.
        partition: u32,
        /// The number.
        sequence: u32,
    },
    /// What is to lie beside the shards cannot be told of them.
    #[error("the set cannot be described")]
    Sidecars(#[source] SidecarsError),
    /// A shard is not as long as its writer said.
    #[error("{}: expected {expected} bytes, found {found}", path.display())]
    ShardLength {
        /// The shard.
        path: PathBuf,
        /// What its writer counted.
        expected: u64,
        /// What is on disk.
        found: u64,
    },

    /// What is to be sorted cannot be.
    #[error("cannot sort records: {problem}")]
    SortInput {
        /// What is wrong with it.
        problem: String,
    },
    /// A temporary file does not hold what was written to it.
    #[error("{}: a temporary file does not hold what was written to it: {problem}", path.display())]
    SpillDamaged {
        /// Where temporary files are.
        path: PathBuf,
        /// What differs.
        problem: String,
    },

    /// There is no manifest.
    #[error("{}: there is no manifest", path.display())]
    NoManifest {
        /// Where it should be.
        path: PathBuf,
    },
    /// A manifest is not what a manifest must be.
    #[error("{}: cannot be understood as a manifest", path.display())]
    ManifestSyntax {
        /// The manifest.
        path: PathBuf,
        /// Line and column, and what is wrong there.
        source: serde_json::Error,
    },
    /// A manifest of a newer kind.
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
        /// What is wrong.
        problem: String,
    },
    /// The manifest could not be written down.
    #[error("cannot write the manifest as JSON")]
    Json(#[from] serde_json::Error),
    /// What a manifest tells of the form of the records cannot be read.
    #[error("{}: cannot be understood as a manifest", path.display())]
    ManifestForm {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with its schema or its mapping.
        source: Box<Error>,
    },
    /// The options of a mapping, as a manifest tells them, are not those of this release.
    #[error("the manifest's mapping options cannot be understood")]
    MappingOptions(#[source] serde_json::Error),
    /// A schema has no IPC form, or its IPC form is damaged.
    #[error("the schema's IPC form cannot be written or read")]
    Schema(#[from] ArrowError),
    /// The schema in a manifest is not base64.
    #[error("the schema's IPC form is not base64")]
    Base64(#[from] base64::DecodeError),
}

impl From<tfrecord_framing::Error> for ErrorKind {
    fn from(error: tfrecord_framing::Error) -> Self {
        // A sink that fails does so whether a compressor is in between or not.
        match error.into_kind() {
            tfrecord_framing::ErrorKind::Io { source, .. } => Self::Write(source),
            kind => Self::Framing(kind.into()),
        }
    }
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// What went wrong, owned.
    pub fn into_kind(self) -> ErrorKind {
        *self.0
    }

    /// The same error, saying which shard it was whose sink failed, or which manifest has the schema or the mapping that
    /// cannot be read.
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

/// What is there that is neither file nor directory.
fn file_type(path: &Path) -> &'static str {
    match fs::metadata(path).map(|metadata| metadata.file_type()) {
        Ok(found) if found.is_fifo() => "a pipe",
        Ok(found) if found.is_socket() => "a socket",
        Ok(found) if found.is_char_device() || found.is_block_device() => "a device",
        _ => "something else",
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
            // What these hold is in their text.
            ErrorKind::Damaged { error, .. } => error.source(),
            kind => kind.source(),
        }
    }
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        Self::ExternalError(Box::new(error))
    }
}

impl<E: Into<ErrorKind>> From<E> for Error {
    fn from(kind: E) -> Self {
        Self(Box::new(kind.into()))
    }
}

/// Features that the text of a finding names.
const MOST_FEATURES: usize = 5;

/// One thing that is wrong with a file or a directory. Its text is one line:
/// `shards/a.tfrecord: record 3 at byte 64: truncated, 7 bytes lost`.
///
/// Bytes are those of the framed records: in a compressed file, those after decompression.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub kind: FindingKind,
}

/// The kinds of [`Finding`].
#[derive(Debug)]
#[non_exhaustive]
pub enum FindingKind {
    /// A stretch of the file holds no sound record.
    Damage(Damage),
    /// There is more damage than is kept for one file.
    MoreDamage {
        /// How many more stretches.
        stretches: u64,
        /// Bytes in them.
        bytes: u64,
    },
    /// The manifest, or else the file's name, tells another compression than the content, by which the file was read.
    WrongCompression {
        /// What the manifest or the name tells.
        expected: Compression,
        /// What the content tells.
        found: Compression,
    },
    /// A file, a directory or a manifest cannot be read.
    Unreadable(Error),
    /// The manifest tells other figures of a shard than were found. Told of a file without damage, or one that is
    /// longer or shorter than it was.
    Figures {
        /// What the manifest tells.
        expected: ShardFigures,
        /// What was found.
        found: ShardFigures,
    },
    /// The records do not have the form of those of another input; so the new set tells none.
    MixedForms(FormDifference),
    /// Records have features that are not those of the manifest's columns: it was changed, or the records are of another set.
    UnmappedFeatures {
        /// The features: `feature "x"`, `feature list "x"`.
        features: Vec<String>,
    },
    /// The manifest is not as it was written.
    ChangedManifest {
        /// The CRC-32C that it states.
        expected: u32,
        /// That of its content.
        found: u32,
    },
    /// A shard that the manifest lists is not there.
    MissingShard,
    /// The manifest does not list a shard that is there.
    UnlistedShard,
    /// A file beside the shards that the manifest lists is not there.
    MissingSidecar,
    /// A file beside the shards is not the one that the manifest lists.
    ChangedSidecar,
    /// A directory has a manifest and no `_SUCCESS`.
    NoSuccess,
    /// A run has not published the set that it was to write here; it was killed, or is still going on.
    Unpublished {
        /// The run.
        run: String,
    },
    /// What a killed run has left behind.
    Leftover {
        /// The run.
        run: String,
    },
}

impl Finding {
    /// Makes a finding about `path`.
    pub fn new(path: &Path, kind: FindingKind) -> Self {
        Self { path: path.to_owned(), kind }
    }

    /// Whether it may be that records are missing which no look at the files that are there can tell.
    pub(crate) fn is_gap(&self) -> bool {
        matches!(
            self.kind,
            FindingKind::Unreadable(_)
                | FindingKind::MissingShard
                | FindingKind::NoSuccess
                | FindingKind::Unpublished { .. }
        )
    }

    pub(crate) fn into_error(self) -> Error {
        match self.kind {
            FindingKind::Unreadable(error) => error,
            _ => ErrorKind::NotWhole(self).into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            // The error names the path itself.
            FindingKind::Unreadable(error) => error.fmt(f)?,
            kind => write!(f, "{}: {kind}", self.path.display())?,
        }
        let mut source = self.kind.error().and_then(std::error::Error::source);
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl FindingKind {
    fn error(&self) -> Option<&Error> {
        if let Self::Unreadable(error) = self { Some(error) } else { None }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damage(damage) => damage.fmt(f),
            Self::MoreDamage { stretches, bytes } => {
                write!(f, "damaged in {stretches} more places, {bytes} bytes lost there")
            }
            Self::WrongCompression { expected, found } => {
                write!(f, "expected compression {expected}, found {found}")
            }
            Self::Unreadable(error) => error.fmt(f),
            Self::Figures { expected, found } => expected.compare(found, f),
            Self::MixedForms(difference) => write!(f, "{difference}; the new set tells no types"),
            Self::UnmappedFeatures { features } => {
                let (shown, more) = features.split_at(features.len().min(MOST_FEATURES));
                let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
                let shown = shown.join(", ");
                write!(f, "its records have {shown}{more}, and no column of {MANIFEST_NAME} is read from there")
            }
            Self::ChangedManifest { expected, found } => {
                write!(
                    f,
                    "changed after it was written: it states the CRC-32C {expected:08x}, and that of its content is {found:08x}"
                )
            }
            Self::MissingShard => write!(f, "missing, though {MANIFEST_NAME} lists it"),
            Self::UnlistedShard => write!(f, "not of the set: {MANIFEST_NAME} does not list it"),
            Self::MissingSidecar => {
                write!(f, "missing, though {MANIFEST_NAME} lists it")
            }
            Self::ChangedSidecar => {
                write!(f, "not as {MANIFEST_NAME} tells: it may be of another set")
            }
            Self::NoSuccess => write!(f, "{SUCCESS_NAME} is missing"),
            Self::Unpublished { run } => write!(f, "run {run} has not published its shards"),
            Self::Leftover { run } => write!(f, "left behind by run {run}, which was killed"),
        }
    }
}

#[cfg(test)]
mod tests;
