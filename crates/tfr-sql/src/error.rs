//! Errors: [`Error`] for errors of the command itself, [`Explanation`] for the text of any error chain.

mod cluster;
mod columns;
mod conversions;
mod details;
mod explanation;
mod files;
mod foreign;
mod formats;
mod framing;
mod hive;
mod metastore;
mod planner;
mod rebuild;
mod shards;
mod sidecars;
mod stores;
mod syntax;
mod table_formats;
mod tables;
mod task;
mod text;

pub use formats::hint as format_hint;
pub use rebuild::RebuildProblem;
pub use shards::finding_hint;

use std::any::Any;
use std::error::Error as StdError;
use std::fmt::Display;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use arrow::datatypes::{DataType, FieldRef};
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use tfr_files::{Owner, TableFormat};
use tfr_stores::LocationText;
use tfrecord_framing::Position;

use text::{cast_to, listed, one_of_union, quoted, with_type};

use crate::cli::similar_tool;
use crate::exit::ExitStatus;

pub use cluster::{ClusterError, RemoteError, Retry};
pub use details::{ErrorClass, ErrorDetails};
pub use explanation::Explanation;
pub use task::{TaskError, may_go_away};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the command.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The query failed, or its data is invalid.
    #[error(transparent)]
    Engine(#[from] DataFusionError),
    /// The mapping of the query's columns.
    #[error(transparent)]
    Mapping(#[from] arrow_tfrecord::Error),
    /// A shard set cannot be written or read.
    #[error(transparent)]
    Shards(#[from] tfrecord_shards::Error),
    /// A table description or a record as text.
    #[error(transparent)]
    Sidecar(#[from] tfrecord_sidecars::Error),
    /// A plan for tasks cannot be made or carried out.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A set cannot be written again from its manifest.
    #[error("cannot rebuild the set: {0}")]
    Rebuild(#[from] RebuildProblem),
    /// A cluster cannot run the query.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// `--cluster`, in a command that knows no cluster.
    #[error("this build of tfr-sql has no --cluster")]
    NoCluster,
    /// A task failed for a reason that may go away.
    #[error(transparent)]
    TryAgain(Box<Error>),
    /// The run was not done in time.
    #[error("stopped: the time of --timeout has passed")]
    TimedOut,
    /// A file that the command itself reads cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file; `standard input` for `-`.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An invalid mapping file.
    #[error("{}: line {line}: {found}: {reason}", path.display())]
    MapFile {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The text of the line, which contains the key.
        found: String,
        /// The defect.
        reason: String,
    },
    /// The text contains no statement.
    #[error("the SQL text is empty")]
    EmptyQuery,
    /// One word, where a query was expected.
    #[error("not a query: {0}")]
    Word(String),
    /// Column names that are reserved words of SQL.
    #[error("{source}")]
    ReservedWords {
        /// The words as typed.
        words: Vec<String>,
        /// The parser's error.
        source: DataFusionError,
    },
    /// A keyword of SQL that is spelled in another way, or whose second word is missing.
    #[error("{source}")]
    Keyword {
        /// What makes a query of the text.
        keyword: &'static str,
        /// The parser's error.
        source: DataFusionError,
    },
    /// A statement before the query that is not allowed, or that sets more than any machine has.
    #[error("{0}")]
    Preamble(String),
    /// The rejected rows would be in the set, or the set among them.
    #[error("{}: the rejected rows and the shards, {}, cannot be in each other's directory", rejects.display(), out.display())]
    RejectsOverlap {
        /// The directory for the rejected rows.
        rejects: PathBuf,
        /// The directory of the set.
        out: PathBuf,
    },
    /// A table in an unsupported format.
    #[error("CREATE EXTERNAL TABLE: unsupported format: {0}")]
    UnsupportedFormat(String),
    /// The last statement yields no rows.
    #[error("the last statement must be a query, found: {0}")]
    NotAQuery(String),
    /// A table name that is neither registered nor quoted.
    #[error("no table named {name}")]
    UnknownTable {
        /// The name as typed.
        name: String,
        /// The most similar registered name.
        similar: Option<String>,
        /// All registered names.
        known: Vec<String>,
    },
    /// A dotted name that matches no table: most likely an unquoted path.
    #[error("no table named {name}")]
    UnquotedPath {
        /// The name as typed.
        name: String,
    },
    /// A table of a metastore, and no metastore.
    #[error("no table named {table}: no metastore is named")]
    NoMetastore {
        /// The name as typed.
        table: String,
    },
    /// A setting that an option controls, or that reproducible output depends on.
    #[error("SET {name} is not supported")]
    FixedSetting {
        /// The setting.
        name: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// Two columns would have the same name, and the query leaves at least one of them unnamed.
    #[error("two columns would be named {0:?}")]
    AmbiguousName(String),
    /// An ordered query that must be counted first but may return different rows the second time.
    #[error(
        "cannot cut the rows into {shards} ordered shards: they are counted first, and their number may differ each time"
    )]
    VaryingRows {
        /// The requested number of shards.
        shards: NonZeroUsize,
    },
    /// An entry of `--allow` is no path or URL.
    #[error("{from} cannot be used")]
    Allow {
        /// The option or the variable.
        from: &'static str,
        /// What is wrong with it.
        source: tfr_stores::Error,
    },
    /// The directory for temporary files is outside of `--allow`.
    #[error("{}: not allowed for temporary files", path.display())]
    SpillOutside {
        /// The directory.
        path: PathBuf,
    },
    /// The output is allowed, but not the directory in which it is prepared.
    #[error("{}: not allowed as an output: it is prepared in its parent directory, which is not allowed", path.display())]
    OutputParent {
        /// The output.
        path: PathBuf,
    },
    /// A file or a URL.
    #[error(transparent)]
    Files(#[from] tfr_files::Error),
    /// A setting, in a run with `--allow`.
    #[error("SET {name}: not allowed together with --allow")]
    LockedSetting {
        /// The setting.
        name: String,
        /// Those that can be set.
        open: &'static [&'static str],
    },
    /// The spill directory cannot be created.
    #[error("{}: cannot be used to spill into", path.display())]
    SpillDirectory {
        /// Its parent directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A pipe has two files behind each other. The format is read from the end, where the last one lists its own rows.
    #[error("{input}: two {format} files behind each other, expected one")]
    TwoFiles {
        /// The pipe.
        input: String,
        /// The format.
        format: &'static str,
    },
    /// Rows cannot be spilled, or cannot be read again.
    #[error("{}: cannot {action} spilled rows", directory.display())]
    Spill {
        /// The directory for temporary files.
        directory: PathBuf,
        /// `write` or `read`.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Spilled rows are not those that were written.
    #[error("{}: spilled rows are damaged: {problem}", directory.display())]
    SpillDamaged {
        /// The directory for temporary files.
        directory: PathBuf,
        /// What was found and expected.
        problem: String,
    },
    /// Spilled rows would need more space than allowed.
    #[error("{}: spilled rows take more than {limit} bytes, which is the limit", directory.display())]
    SpillLimit {
        /// The directory for temporary files.
        directory: PathBuf,
        /// The most bytes at a time.
        limit: u64,
    },
    /// The copy of standard input or of a pipe cannot be written, or is not what was written.
    #[error("{}: {} cannot be copied here", path.display(), input.display())]
    SpoolInput {
        /// The pipe, or `standard input`.
        input: PathBuf,
        /// The copy.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The query reads the files of a table format directly, which --strict does not allow.
    #[error("{}: the files of {} are read as they are, which --strict does not allow", owner.directory, owner.format.table())]
    BareFilesStrict {
        /// The table.
        owner: Owner,
    },
    /// Standard input or a pipe ended before its first byte.
    #[error("{}: empty, so it is not a table", input.display())]
    EmptyPipe {
        /// The pipe, or `standard input`.
        input: PathBuf,
    },
    /// Both the query text and a table are read from standard input.
    #[error("standard input is both the query, by --file -, and a table, by the path -")]
    StandardInputTwice,
    /// Threads or the signal handler cannot be started.
    #[error("cannot start {what}")]
    Start {
        /// The component that did not start.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// The default of `--memory-limit` depends on the memory size, which cannot be determined.
    #[error("cannot determine the size of the memory")]
    UnknownMemory(#[source] sysinfo::Error),
    /// A bug.
    #[error("internal error: {0}")]
    Panic(String),
    /// An invalid file pattern.
    #[error("{pattern}: not a pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The defect.
        reason: &'static str,
    },
    /// A tool that writes next to its input files was given a URL.
    #[error("{url}: this is possible only for local files")]
    RemoteInput {
        /// The URL.
        url: LocationText,
    },
    /// A sidecar's name is taken by a file that another tool wrote.
    #[error("{}: already exists, and was not written by tfr-sql", path.display())]
    SidecarThere {
        /// The file.
        path: PathBuf,
    },
    /// A table that is declared in Hive's words cannot be read.
    #[error("{table}: {error}")]
    HiveTable {
        /// Its name.
        table: String,
        /// The error.
        error: tfr_formats::Error,
    },
    /// `ROW FORMAT` and `OPTIONS` specify the same option.
    #[error("option {key:?} is specified twice, or by both a clause of Hive and OPTIONS")]
    RowFormatTwice {
        /// The option.
        key: &'static str,
    },
    /// A pattern that matches no files.
    #[error("{pattern}: no file matches")]
    NoMatch {
        /// The pattern.
        pattern: String,
    },
    /// A TFRecord file is damaged or cannot be read.
    #[error("{}: {error}", path.display())]
    Records {
        /// The file; `standard input` for `-`.
        path: PathBuf,
        /// The defect and its position. It is part of the text, so it is not a source.
        error: tfrecord_framing::Error,
    },
    /// A record is not a valid `tf.train.Example`.
    #[error("{}: {position}: {error}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The record.
        position: Position,
        /// The defect. It is part of the text, so it is not a source.
        error: tfrecord_sidecars::Error,
    },
    /// Columns of types that CSV cannot represent.
    #[error("{}: a CSV cell holds one value, found {}", path.display(), listed(columns.iter().map(with_type)))]
    NestedInCsv {
        /// The target.
        path: PathBuf,
        /// The columns.
        columns: Vec<FieldRef>,
    },
    /// A column of a type that Parquet does not support.
    #[error("{}: column {:?}: Parquet has no type for {}", path.display(), column.name(), column.data_type())]
    NotInParquet {
        /// The target.
        path: PathBuf,
        /// The column.
        column: FieldRef,
    },
    /// Columns that readers of the table could not distinguish.
    #[error("{}: two columns are named {column:?}", path.display())]
    TwoColumns {
        /// The target.
        path: PathBuf,
        /// Their name.
        column: String,
    },
    /// A table without columns, in a format that stores only values.
    #[error("{}: the query has no columns, and a file of this format needs at least one", path.display())]
    NoColumns {
        /// The target.
        path: PathBuf,
    },
    /// A file of a table, or one in addition to the main output, cannot be written.
    #[error("{}: cannot be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause: an I/O error, or a type that the format does not support.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Rows that cannot be represented in the requested format.
    #[error("cannot print the rows")]
    Format(#[source] ArrowError),
    /// An Arrow stream, which is not text, was to be printed on a terminal.
    #[error("--format arrow is for programs, and standard output is a terminal")]
    ArrowOnTerminal,
    /// Writing to standard output failed.
    #[error("cannot write to standard output")]
    Stdout(#[source] io::Error),
}

impl From<tfr_stores::Error> for Error {
    fn from(error: tfr_stores::Error) -> Self {
        Self::Files(error.into())
    }
}

impl Error {
    /// Whether the reader of standard output closed the pipe, which is not a failure.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Whether the arguments caused the error, rather than the query or the data.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::EmptyQuery
                | Self::Word { .. }
                | Self::SpillDirectory { .. }
                | Self::SpillOutside { .. }
                | Self::Allow { .. }
                | Self::Start { .. }
                | Self::StandardInputTwice
                | Self::ArrowOnTerminal
                | Self::NoCluster
                | Self::Cluster(
                    ClusterError::Address { .. } | ClusterError::Certificates { .. } | ClusterError::Refused { .. }
                )
                | Self::Pattern { .. }
                | Self::RemoteInput { .. }
                | Self::MapFile { .. }
        )
    }

    /// Returns the exit status.
    pub fn status(&self) -> ExitStatus {
        match self {
            Self::TryAgain(_) => ExitStatus::TryAgain,
            Self::Cluster(error) if error.is_transient() => ExitStatus::TryAgain,
            Self::TimedOut => ExitStatus::TimedOut,
            error if error.is_usage() => ExitStatus::Usage,
            _ => ExitStatus::Failed,
        }
    }

    /// The error of a task that ended early.
    pub fn stopped(error: impl Display) -> Self {
        Self::Panic(error.to_string())
    }

    /// Returns the message of a panic.
    pub fn panic(panic: &(dyn Any + Send)) -> Self {
        let message =
            panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panic(message.unwrap_or("no message").to_owned())
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Task(error) => error.hint().map(str::to_owned),
            Self::Rebuild(error) => error.hint(),
            Self::Cluster(ClusterError::Unreachable { .. }) => {
                Some("start one with tfr-sql scheduler, and its workers with tfr-sql executor".to_owned())
            }
            Self::Cluster(ClusterError::Refused { .. }) => Some(
                "set TFR_CLUSTER_CA, TFR_CLUSTER_CERT and TFR_CLUSTER_KEY as the scheduler has them, or nowhere"
                    .to_owned(),
            ),
            Self::Cluster(ClusterError::NoExecutors { .. }) => {
                Some("run the query again when executors are there".to_owned())
            }
            Self::Cluster(ClusterError::Lost { .. }) => Some("run the query again".to_owned()),
            Self::NoCluster => Some("build the command of crates/tfr-cluster".to_owned()),
            Self::TryAgain(error) => error.hint(),
            Self::Panic(_) => Some("this is a bug; please report it with what -v prints".to_owned()),
            Self::UnknownMemory(_) => Some("set a limit with --memory-limit".to_owned()),
            Self::EmptyQuery => Some("try tfr-sql \"SELECT * FROM 'table.parquet'\"".to_owned()),
            Self::RejectsOverlap { .. } => Some("name a directory next to the shards with --rejects".to_owned()),
            Self::Word(word) => match similar_tool(word) {
                Some(tool) => Some(format!("did you mean the tool? specify what to work on: {tool} PATH")),
                None => Some(format!("put the path into a query: tfr-sql \"SELECT * FROM '{word}'\"")),
            },
            Self::ReservedWords { words, .. } => {
                let quoted: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
                Some(format!("put a column whose name is a keyword of SQL in double quotes: {}", quoted.join(", ")))
            }
            Self::Keyword { keyword, .. } => Some(format!("did you mean {keyword}?")),
            Self::UnsupportedFormat(name) => Some(match TableFormat::named(name) {
                Some(format) => table_formats::way_out_of(format),
                None => format!("the formats are STORED AS {}", tfr_formats::STORED_AS.join(", ")),
            }),
            Self::EmptyPipe { .. } => Some(
                "did the program that writes it fail? In bash, set -o pipefail makes such a failure that of the whole \
                 command"
                    .to_owned(),
            ),
            Self::NestedInCsv { columns, .. } => Some(match columns.as_slice() {
                [column] if one_of_union(column).is_some() => {
                    format!("write .json or .jsonl instead, or {}", one_of_union(column).unwrap_or_default())
                }
                _ => {
                    "write .json, .jsonl or .parquet instead, or select text: array_to_string(tags, ';') AS tags for a \
                      list"
                        .to_owned()
                }
            }),
            Self::NotInParquet { column, .. } => Some(match column.data_type() {
                DataType::Interval(_) => cast_to(column, "VARCHAR"),
                DataType::FixedSizeBinary(_) => cast_to(column, "BYTEA"),
                DataType::Union(..) => {
                    format!("write .arrow or .jsonl instead, or {}", one_of_union(column).unwrap_or_default())
                }
                _ => "write .arrow or .jsonl instead, or leave it out".to_owned(),
            }),
            Self::NoColumns { .. } => Some("write .arrow or .jsonl instead, or select a column".to_owned()),
            Self::TwoColumns { column, .. } => Some(format!("rename one of them: ... AS {column}_2")),
            Self::Record { error, .. } => sidecars::hint(error),
            Self::NotAQuery(statement) if statement.starts_with("COPY") => {
                Some("give the inner query and --out DIR".to_owned())
            }
            Self::NoMetastore { .. } => Some("name it: --hive-metastore thrift://host:9083".to_owned()),
            Self::UnquotedPath { name } => Some(format!("put a path in single quotes: FROM '{name}'")),
            Self::AmbiguousName(name) => Some(format!("name one of them: {name} AS ...")),
            Self::FixedSetting { instead, .. } => Some((*instead).to_owned()),
            Self::VaryingRows { .. } => Some(
                "cut them with --shard-size or --shard-rows, or take random() and the like out of what selects rows"
                    .to_owned(),
            ),
            Self::SidecarThere { .. } => {
                Some("write to another directory with --out, or in its place with --replace".to_owned())
            }
            Self::HiveTable { error, .. } => formats::hint(error),
            Self::RowFormatTwice { .. } => Some("specify it once".to_owned()),
            Self::RemoteInput { .. } => {
                Some("copy the file or directory here, and name the copy; copy the written sidecars back".to_owned())
            }
            Self::TwoFiles { .. } => Some("name the files, or their directory, instead of a pipe".to_owned()),
            Self::SpoolInput { .. } => Some("name a directory with room for it with --temp-dir".to_owned()),
            Self::BareFilesStrict { .. } => {
                Some("leave out --strict, or pipe the rows of the table from its own library".to_owned())
            }
            Self::StandardInputTwice => Some("write the query to a file and name that with --file".to_owned()),
            Self::ArrowOnTerminal => Some(
                "redirect it to a file or a pipe: --format arrow > rows.arrows; or print another format".to_owned(),
            ),
            Self::Spill { .. } => Some("free space there, or name another directory with --temp-dir".to_owned()),
            Self::SpillDamaged { .. } => {
                Some("free space there, or name a directory on another disk with --temp-dir".to_owned())
            }
            Self::SpillLimit { .. } => {
                Some("raise datafusion.runtime.max_temp_directory_size with SET, before the query".to_owned())
            }
            Self::SpillOutside { .. } => {
                Some("name a directory with --temp-dir that is within what --allow and TFR_SQL_ALLOW name".to_owned())
            }
            Self::OutputParent { .. } => Some("allow the directory that contains the output".to_owned()),
            Self::LockedSetting { open, .. } => Some(format!("these can be set: {}", open.join(", "))),
            Self::SpillDirectory { .. } => Some("name a directory that can be written to with --temp-dir".to_owned()),
            Self::UnknownTable { similar: Some(similar), .. } => Some(format!("did you mean {similar}?")),
            Self::UnknownTable { known, .. } if known.is_empty() => Some(
                "put a path in quotes, as in FROM 'events/*.parquet', or register it with --table NAME=PATH".to_owned(),
            ),
            Self::UnknownTable { known, .. } => {
                Some(format!("the tables are {}; a path is put in quotes", listed(known.iter().cloned())))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
