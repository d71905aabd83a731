//! `rebuild`: writes a shard set again from its manifest.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory as _};
use datafusion_tfrecord::write::WriteTarget;

use super::display::ReportFormat;
use super::stores::StoreArgs;
use super::tasks::TaskResources;
use super::{Cli, values};

const EXAMPLES: &str = "\
Example, in the directory where the set was written:
  tfr-sql rebuild train/ --out again/

Exit codes: 0 done, 1 another set, or an input is gone; 2, 130 and 143 as for queries.";

/// `rebuild`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct RebuildArgs {
    /// The directory of the set, or its _manifest.json
    ///
    /// Runs the query of the manifest again, with its options, its number of partitions and its versions of tables. The new set is
    /// published if each of its shards has the checksum that the manifest records; otherwise the error names what differs.
    /// Relative paths of inputs are those below the current directory.
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
    pub resources: TaskResources,

    /// Print a machine-readable summary (json) on standard output
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Display")]
    pub report: Option<ReportFormat>,
}

/// Options of a query that do not decide which bytes a set has, or that `rebuild` has too.
const OTHER_OPTIONS: [&str; 20] = [
    "query",
    "file",
    "out",
    "mode",
    "add_columns",
    "rejects",
    "max_rejects",
    "dry_run",
    "plan",
    "cluster",
    "scratch",
    "map_file",
    "s3_endpoint",
    "threads",
    "partitions",
    "memory_limit",
    "temp_dir",
    "format",
    "report",
    "allow",
];

/// Returns the options among the arguments of a query that decide what is written, as arguments in the order of `--help`. The
/// manifest has those of `--map-file`.
pub fn deciding_options(arguments: &[OsString]) -> Vec<String> {
    let mut command = Cli::command().ignore_errors(true);
    let Ok(matches) = command.try_get_matches_from_mut(arguments) else { return Vec::new() };
    let is_given =
        |id: &str| matches.ids().any(|known| known == id) && matches.value_source(id) == Some(ValueSource::CommandLine);
    let options = command.get_arguments().filter(|option| {
        let id = option.get_id().as_str();
        is_given(id) && !option.is_global_set() && !OTHER_OPTIONS.contains(&id)
    });
    let mut found = Vec::new();
    for option in options {
        let Some(long) = option.get_long() else { continue };
        if matches!(option.get_action(), ArgAction::SetTrue) {
            found.push(format!("--{long}"));
            continue;
        }
        let values = matches.get_raw(option.get_id().as_str()).into_iter().flatten();
        found.extend(values.map(|value| format!("--{long}={}", value.to_string_lossy())));
    }
    found
}
