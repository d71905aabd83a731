//! The command line: the options that a user can set.
//!
//! [`Cli`] is parsed by clap: a query with its options ([`QueryArgs`]), or one of the tools ([`Tool`]). Values have
//! the types of the library crates, so an invalid size, choice or level is rejected here, with exit code 2 and before
//! anything is opened. The libraries provide the defaults.

mod allow;
mod declared;
mod describe;
mod display;
mod emit;
mod generated;
mod hive;
mod index;
mod keys;
mod messages;
mod query;
mod rebuild;
mod records;
mod rewrite;
mod schema;
mod shards;
mod stores;
mod target;
mod tasks;
pub(crate) mod values;
mod verify;

use std::ffi::OsString;
use std::io;

use clap::error::{ContextKind, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgGroup, ArgMatches, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use datafusion::common::utils::datafusion_strsim::levenshtein;

use crate::version;

pub use allow::AllowArgs;
pub use declared::{Declared, Inference, Moving};
pub use describe::{DescribeArgs, StatsArgs};
pub use display::{Display, ReportFormat, When};
pub use generated::Generated;
pub use hive::HiveArgs;
pub use index::IndexArgs;
pub use messages::MessageTarget;
pub use query::{MappingArgs, QueryArgs, QuerySource, Resources, RowFormat};
pub use rebuild::{RebuildArgs, deciding_options, other_option};
pub use records::{CatArgs, HeadArgs, RecordForm, RecordSource};
pub use rewrite::RewriteArgs;
pub use schema::SchemaArgs;
pub use stores::StoreArgs;
pub use target::{TableFormat, TableTarget, Target};
pub use tasks::{AbandonArgs, CutArgs, FinishArgs, TaskArgs, TaskResources};
pub use values::is_remote;
pub use verify::VerifyArgs;

const EXAMPLES: &str = "\
Examples:
  Write the columns that a model needs, as shards of about 128 MiB each:
    tfr-sql \"SELECT user_id, label, clicks FROM 'events/*.parquet' WHERE dt >= '2026-01-01'\" \\
      --out shards/

  Take a query from a file, with a table of its own; keep all 64 bits of one column; see the plan
  of 16 gzip shards first:
    tfr-sql -f features.sql --table 'users=users.csv,delimiter=;' --map 'score: bits' \\
      --shards 16 --compression gzip --out train/ --dry-run

  Look at the data; without --out the rows are printed:
    tfr-sql \"SELECT label, count(*) AS n FROM 'shards/' GROUP BY label ORDER BY n\"

  Shuffled shards for training and validation, no user in both:
    tfr-sql \"SELECT * FROM 'events/'\" --out train/ --shuffle --seed 7 \\
      --split train=0.9,val=0.1 --split-by user_id --shards train=256,val=16

  And back: shards become a table:
    tfr-sql \"SELECT * FROM 'shards/'\" --out table.parquet

Exit codes: 0 done, 1 the query or the data failed, 2 usage, 124 --timeout, 130 interrupted, 143 terminated; of tasks: 75 try again.";

/// What a reader of the short help tries first.
const SHORT_EXAMPLES: &str = "\
tfr-sql \"SELECT label, clicks FROM 'events/*.parquet'\" --out shards/   from a table to shards
tfr-sql \"SELECT * FROM 'shards/'\" --out table.parquet                  and back";

/// Write the rows of a SQL query over tables of any format as TFRecord shards, or as a table
#[derive(Debug, Parser)]
#[command(
    name = "tfr-sql",
    version,
    long_version = version::long(),
    before_help = SHORT_EXAMPLES,
    after_long_help = EXAMPLES,
    group(ArgGroup::new("text").args(["query", "file"]).required(true)),
    group(ArgGroup::new("target").args(["out", "dry_run"]).multiple(true)),
    mut_args(shards::writing_needs_a_target),
    subcommand_negates_reqs = true,
    subcommand_help_heading = "Toolbox",
    subcommand_value_name = "TOOL",
    disable_help_subcommand = true,
    max_term_width = 100,
)]
pub struct Cli {
    #[command(subcommand)]
    pub tool: Option<Tool>,

    #[command(flatten)]
    pub query: QueryArgs,

    #[command(flatten)]
    pub display: Display,

    #[command(flatten)]
    pub allow: AllowArgs,
}

/// What the command does beside queries.
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// Print the first records of TFRecord files
    Head(HeadArgs),
    /// Print the records of TFRecord files
    Cat(CatArgs),
    /// Print the columns of a table, in one of several formats
    Schema(SchemaArgs),
    /// Check TFRecord files and shard sets for damage
    Verify(VerifyArgs),
    /// Save the sound records of damaged TFRecord files
    #[command(after_long_help = rewrite::SALVAGE_EXAMPLES, mut_args(rewrite::help_of_salvage))]
    Salvage(RewriteArgs),
    /// Move the records of TFRecord files to other shards, unchanged
    #[command(after_long_help = rewrite::RESHARD_EXAMPLES)]
    Reshard(RewriteArgs),
    /// Write a shard set again from its manifest, byte for byte
    Rebuild(Box<RebuildArgs>),
    /// Write the text index that NVIDIA DALI and others read next to each TFRecord file
    Index(IndexArgs),
    /// Write sidecar files for TFRecord files in a directory, whatever tool wrote them
    Describe(DescribeArgs),
    /// Print statistics of the features of TFRecord files
    Stats(StatsArgs),
    /// Write the rows of one partition of a plan, on any machine
    Task(TaskArgs),
    /// Decide where the shards of a plan begin, between its two steps of tasks
    Cut(CutArgs),
    /// Publish what the tasks of a plan have written
    Finish(FinishArgs),
    /// Remove what the tasks of a plan have written
    Abandon(AbandonArgs),
    /// Print what a bug report needs: versions, limits and names of settings, no secrets
    Doctor,
}

impl Cli {
    /// Parses the arguments and checks the rules that clap cannot express.
    /// `processes` are those of a build with clusters.
    pub fn parse(arguments: Vec<OsString>, processes: Option<&[Command]>) -> Result<Self, clap::Error> {
        match complete(Self::command(), processes).try_get_matches_from(&arguments) {
            Ok(mut matches) => Self::checked(&mut matches),
            Err(error) => Err(stray(&error, &arguments).unwrap_or(error)),
        }
    }

    /// Returns what `--generate` prints.
    pub fn generate(generated: Generated, processes: Option<&[Command]>) -> io::Result<Vec<u8>> {
        generated.text(complete(Self::command(), processes))
    }

    fn checked(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let given = Given::of(matches);
        let mut cli = Self::from_arg_matches_mut(matches).map_err(|error| error.format(&mut Self::command()))?;
        let checked = match &cli.tool {
            None => cli.query.check(&given),
            Some(tool) => given.refuse_with(tool).and_then(|()| tool.check()),
        };
        match checked {
            Ok(()) => Ok(cli),
            Err(Misuse { kind, message }) => Err(usage_of(cli.tool.as_ref()).error(kind, message)),
        }
    }
}

/// Adds what is no part of [`Cli`]: `--generate`, which [`Generated::of_arguments`] reads, and what only a build with
/// clusters has.
fn complete(command: Command, processes: Option<&[Command]>) -> Command {
    let command = command.arg(Generated::option());
    let Some(processes) = processes else { return command };
    command.mut_arg("cluster", |option| option.hide(false)).subcommands(processes)
}

impl Tool {
    fn name(&self) -> &'static str {
        match self {
            Self::Head(_) => "head",
            Self::Cat(_) => "cat",
            Self::Schema(_) => "schema",
            Self::Verify(_) => "verify",
            Self::Salvage(_) => "salvage",
            Self::Reshard(_) => "reshard",
            Self::Rebuild(_) => "rebuild",
            Self::Index(_) => "index",
            Self::Describe(_) => "describe",
            Self::Stats(_) => "stats",
            Self::Task(_) => "task",
            Self::Cut(_) => "cut",
            Self::Finish(_) => "finish",
            Self::Abandon(_) => "abandon",
            Self::Doctor => "doctor",
        }
    }

    fn check(&self) -> Result<(), Misuse> {
        match self {
            Self::Reshard(args) | Self::Salvage(args) => args.check(),
            Self::Describe(args) => args.check(),
            _ => Ok(()),
        }
    }
}

/// Returns the command whose usage an error shows.
fn usage_of(tool: Option<&Tool>) -> Command {
    let mut command = Cli::command();
    command.build();
    match tool.and_then(|tool| command.find_subcommand(tool.name())) {
        Some(tool) => tool.clone(),
        None => command,
    }
}

/// Returns the error for an argument after the query, which clap would take for a tool name.
fn stray(error: &clap::Error, arguments: &[OsString]) -> Option<clap::Error> {
    let argument = match error.kind() {
        ErrorKind::InvalidSubcommand => error.get(ContextKind::InvalidSubcommand)?.to_string(),
        ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg)?.to_string(),
        _ => return None,
    };
    if argument == "-o" {
        let message = "unexpected argument '-o'\n\nhint: did you mean --out?";
        return Some(usage_of(None).error(ErrorKind::UnknownArgument, message));
    }
    let read = Cli::command().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    let query = read.get_one::<String>("query")?;
    if argument.starts_with('-') {
        return None;
    }
    let hint = match similar_tool(query) {
        Some(tool) => format!("did you mean tfr-sql {tool}?"),
        None if is_word(query) => {
            format!("the tools are {}; a query is one argument, in quotes", tools().join(", "))
        }
        None => "the whole query is one argument: put it in quotes".to_owned(),
    };
    let message = format!("unexpected argument '{argument}' behind the query '{query}'\n\nhint: {hint}");
    Some(usage_of(None).error(ErrorKind::UnknownArgument, message))
}

/// Whether `text` may be the name of a tool: a word that does not begin a query.
fn is_word(text: &str) -> bool {
    let starts = ["select", "with", "from", "values", "show", "describe", "explain", "set", "create", "copy"];
    text.chars().all(char::is_alphanumeric) && !starts.contains(&text.to_lowercase().as_str())
}

fn tools() -> Vec<String> {
    Cli::command().get_subcommands().map(|tool| tool.get_name().to_owned()).collect()
}

/// Returns the tool name most similar to `word`.
pub fn similar_tool(word: &str) -> Option<String> {
    let word = word.to_lowercase();
    tools()
        .into_iter()
        .map(|name| (levenshtein(&word, &name), name))
        .filter(|(distance, name)| distance * 3 <= name.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Arguments that cannot be combined.
#[derive(Debug)]
struct Misuse {
    kind: ErrorKind,
    message: String,
}

impl Misuse {
    fn conflict(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::ArgumentConflict, message: message.into() }
    }

    fn missing(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::MissingRequiredArgument, message: message.into() }
    }

    fn value(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::ValueValidation, message: message.into() }
    }
}

/// The query options that were given, as opposed to those with defaults.
#[derive(Debug)]
struct Given(Vec<Arg>);

impl Given {
    fn of(matches: &ArgMatches) -> Self {
        let is_given = |option: &&Arg| {
            let id = option.get_id().as_str();
            // clap panics if asked for an id that it does not know.
            matches.ids().any(|known| known == id) && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        let mut command = Cli::command();
        command.build();
        Self(command.get_arguments().filter(is_given).filter(|option| !option.is_global_set()).cloned().collect())
    }

    /// Returns the first of these options that was given, as help shows it.
    fn first_of(&self, ids: &[&str]) -> Option<String> {
        self.0.iter().find(|option| ids.contains(&option.get_id().as_str())).map(Arg::to_string)
    }

    /// Rejects query options before a tool.
    fn refuse_with(&self, tool: &Tool) -> Result<(), Misuse> {
        match self.0.first() {
            Some(option) => Err(Misuse::conflict(format!(
                "'{option}' belongs to a query and cannot be used with the tool '{}'\n\n\
                 hint: options of a tool stand behind its name: tfr-sql {} --help lists them",
                tool.name(),
                tool.name()
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod python_options;
#[cfg(test)]
mod tests;
