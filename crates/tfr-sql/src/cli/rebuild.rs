//! `rebuild`: writes a shard set again from its manifest.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Args, CommandFactory as _};
use datafusion_tfrecord::write::WriteTarget;

use super::display::ReportFormat;
use super::hive::HiveArgs;
use super::stores::StoreArgs;
use super::tasks::TaskResources;
use super::{Cli, values};

const EXAMPLES: &str = "\
Example, in the directory where the set was written:
  tfr-sql rebuild train/ --out again/

Exit codes: 0 done, 1 the set differs, or an input has changed; 2, 130 and 143 as for queries.";

/// `rebuild`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct RebuildArgs {
    /// The directory of the set, or its _manifest.json, or a copy of that file
    ///
    /// Runs the query of the manifest again, with the recorded options, number of partitions and versions of tables. Publishes
    /// the new set only if each shard has the recorded checksum; otherwise the error names what differs. Relative paths of
    /// inputs start at the current directory.
    #[arg(value_name = "MANIFEST")]
    pub manifest: PathBuf,

    /// Write the set here: a directory or URL
    #[arg(long, value_name = "URL", value_parser = OsStringValueParser::new().try_map(values::target))]
    pub out: WriteTarget,

    /// Write the rows that do not fit to this directory, if the set was written with --rejects
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(values::target))]
    pub rejects: Option<WriteTarget>,

    #[command(flatten)]
    pub stores: StoreArgs,

    #[command(flatten)]
    pub hive: HiveArgs,

    #[command(flatten)]
    pub resources: TaskResources,

    /// Print a machine-readable summary (json) on standard output
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Display")]
    pub report: Option<ReportFormat>,
}

/// The options of a query that decide which bytes a set has. The manifest records these and --partitions, and `rebuild` accepts no
/// others from it.
pub(super) const DECIDING_OPTIONS: [&str; 27] = [
    "tables",
    "infer_files",
    "infer_records",
    "shards",
    "shard_size",
    "shard_rows",
    "hosts",
    "prefix",
    "record_format",
    "group_size",
    "compression",
    "level",
    "shuffle",
    "seed",
    "split",
    "split_by",
    "split_column",
    "partition_by",
    "keep_partition_columns",
    "emit",
    "layout",
    "maps",
    "null",
    "record_type",
    "sequence",
    "separator",
    "strict",
];

/// Returns the options among the arguments of a query that decide what is written, as arguments in the order of `--help`. The
/// manifest has those of `--map-file`. Returns `None` if they are not text.
pub fn deciding_options(arguments: &[OsString]) -> Option<Vec<String>> {
    let mut command = Cli::command().ignore_errors(true);
    let matches = command.try_get_matches_from_mut(arguments).ok()?;
    let is_given =
        |id: &str| matches.ids().any(|known| known == id) && matches.value_source(id) == Some(ValueSource::CommandLine);
    let mut found = Vec::new();
    for option in command.get_arguments().filter(|option| is_deciding(option) && is_given(option.get_id().as_str())) {
        let long = option.get_long()?;
        if is_flag(option) {
            found.push(format!("--{long}"));
            continue;
        }
        for value in matches.get_raw(option.get_id().as_str()).into_iter().flatten() {
            found.push(format!("--{long}={}", value.to_str()?));
        }
    }
    Some(found)
}

/// Returns the first of the recorded options that is none of [`deciding_options`] and not `--partitions`.
pub fn other_option(recorded: &[String]) -> Option<&String> {
    let command = Cli::command();
    let is_accepted = |argument: &&String| {
        let Some(option) = argument.strip_prefix("--") else { return false };
        let (long, value) = match option.split_once('=') {
            Some((long, value)) => (long, Some(value)),
            None => (option, None),
        };
        let known = command.get_arguments().find(|known| known.get_long() == Some(long));
        let is_recorded = |known: &Arg| is_deciding(known) || known.get_id() == "partitions";
        known.is_some_and(|known| is_recorded(known) && is_flag(known) == value.is_none())
    };
    recorded.iter().find(|argument| !is_accepted(argument))
}

fn is_deciding(option: &Arg) -> bool {
    DECIDING_OPTIONS.contains(&option.get_id().as_str())
}

fn is_flag(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::SetTrue)
}
