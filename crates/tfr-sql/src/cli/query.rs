//! The main job: a query, its inputs, and the output for its rows.

use std::collections::BTreeSet;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use arrow_tfrecord::ColumnRule;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use datafusion_tfrecord::options::parse_rule;
use datafusion_tfrecord::write::WriteTarget;
use tfr_formats::TableSpec;
use tfrecord_shards::SaveMode;

use super::declared::{Declared, Inference, Mapping, Writing};
use super::display::ReportFormat;
use super::emit::EmitArgs;
use super::hive::HiveArgs;
use super::keys::table_help;
use super::shards::{self, of_shards};
use super::stores::StoreArgs;
use super::target::{TableTarget, Target};
use super::{Given, Misuse, values};
use crate::rebuilt::Rebuilt;

/// A query, what it reads, and where its rows go.
#[derive(Debug, Args)]
#[group(skip)]
pub struct QueryArgs {
    /// SQL; quoted paths are tables: SELECT … FROM 'events/*.parquet'
    ///
    /// CREATE EXTERNAL TABLE and SET statements may precede the query, separated by semicolons. A path in quotes is a
    /// file, a directory or a glob. Column names keep their case. A name without an exact match also matches in
    /// another case, if only one column fits.
    #[arg(value_name = "QUERY")]
    query: Option<String>,

    /// Read the SQL from a file, or from standard input with -
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Register an input under a name: NAME=URL[,key=value…]; repeatable
    #[arg(long = "table", value_name = "NAME=URL[,…]", long_help = table_help(), value_parser = values::table)]
    pub tables: Vec<TableSpec>,

    #[command(flatten)]
    pub inference: Declared<Inference>,

    #[command(flatten)]
    pub output: Output,

    #[command(flatten)]
    pub mapping: MappingArgs,

    #[command(flatten)]
    pub stores: StoreArgs,

    #[command(flatten)]
    pub hive: HiveArgs,

    #[command(flatten)]
    pub resources: Resources,

    #[command(flatten)]
    pub rows: RowArgs,

    /// What is taken from a manifest, if its set is written again.
    #[arg(skip)]
    pub rebuilt: Option<Rebuilt>,
}

/// Where the records are written and how they are split into shards.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct Output {
    /// Write here: shards to a directory or URL, or a table such as x.parquet
    ///
    /// A name that ends in .parquet, .csv, .json, .jsonl or .arrow is a single file (.gz after .csv, .json and .jsonl
    /// compresses it). With a trailing slash it is a directory of such files, written in parallel. Any other name is a
    /// directory of TFRecord shards. Without this option the rows are printed.
    ///
    /// In CSV an empty text is "" and a null is an empty cell, or "" too where the line would be empty; lists, structs
    /// and maps are rejected. In JSON, numbers that it cannot represent are "NaN", "Infinity" or "-Infinity". Binary
    /// values are hexadecimal digits in both. In Parquet, times in seconds become milliseconds.
    ///
    /// Output is written completely or not at all: it is published when the query has succeeded, shards together with
    /// _manifest.json and _SUCCESS.
    ///
    /// Shards can also be written to s3://, gs://, az:// and abfss://, as uploads that are completed at the end.
    /// Beyond a quarter of the memory, open uploads are buffered in --temp-dir, up to 8 MiB for each open shard. Set a
    /// lifecycle rule for the bucket to abort the uploads of killed processes. In hdfs://, a set is written beside the
    /// target and renamed. A table file can be written to all of them: it is uploaded from --temp-dir when complete.
    #[arg(long, value_name = "URL", value_parser = OsStringValueParser::new().try_map(values::target))]
    out: Option<WriteTarget>,

    /// The target that `out` names.
    #[arg(skip)]
    target: Option<Target>,

    #[command(flatten)]
    pub writing: Declared<Writing>,

    #[command(flatten)]
    pub emit: EmitArgs,

    /// Write rows that do not fit to this directory, as a Parquet table
    ///
    /// A row does not fit if one of its values has no place in its feature: an integer that is too large, a null where
    /// none may be, a text that is not in the vocabulary. Without this option it ends the run. The table has the row's
    /// own columns and, before these, _reject_column, _reject_reason, _reject_partition and _reject_row. It appears
    /// together with the set, with or without rows.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["plan", "cluster"],
        value_parser = OsStringValueParser::new().try_map(values::target),
        hide_short_help = true
    )]
    pub rejects: Option<WriteTarget>,

    /// Fail if more than this many rows do not fit [default: 0]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub max_rejects: Option<u64>,

    /// Print the mapping, the shards and an estimate; write nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Write a plan for several machines to this file, and no rows
    ///
    /// Each of --partitions is then a task, which 'tfr-sql task FILE --index I' runs on any machine that has the inputs,
    /// this directory and the output under the same paths or URLs. 'tfr-sql finish FILE' publishes the set, which is the one that
    /// a single machine writes with as many partitions.
    #[arg(long, value_name = "FILE", requires = "out", conflicts_with_all = ["dry_run", "report"])]
    pub plan: Option<PathBuf>,

    /// Run the query on the cluster of this scheduler
    ///
    /// Its executors must see the inputs, and a local output, under the same paths as this machine. The set is the one that
    /// a single machine writes with as many --partitions [default there: one for each 512 MiB of input].
    #[arg(long, value_name = "HOST:PORT", requires = "out", conflicts_with_all = ["dry_run", "plan"], hide = true)]
    pub cluster: Option<String>,

    /// Let the tasks of the plan keep sorted rows in this existing directory [default: next to the shards]
    ///
    /// All machines must see it under the same path. It is required if the output is in an object store and the tasks
    /// sort their rows, as for --shuffle, --split, --partition-by, --hosts and --shards.
    #[arg(long, value_name = "DIR", requires = "out", hide_short_help = true)]
    pub scratch: Option<PathBuf>,
}

/// How columns are encoded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Mapping")]
#[group(skip)]
pub struct MappingArgs {
    /// Choose how a column is written, e.g. 'price: string'; repeatable
    ///
    /// A rule is a choice, null=POLICY as with --null or null=default=VALUE, or both separated by a comma: 'score:
    /// bits, null=default=0'. Choices: wrap (UInt64), bits, string, tensor (Float64), tensor (lists of one shape),
    /// string, unscaled (Decimal), string, seconds, millis, micros (dates and times), index (strings: the rank among
    /// the sorted distinct values, for which the query runs once more, or in the vocabulary of --map-file).
    ///
    /// A part of a nested column has the name of its feature: 'point/x: bits'. Put a name with a colon or a quote in
    /// double quotes: '"a:b": string'.
    #[arg(long = "map", value_name = "COL: RULE", value_parser = parse_rule)]
    pub maps: Vec<(String, ColumnRule)>,

    /// Read these options from a TOML file
    ///
    /// Options on the command line take precedence over the file. Keys: record-type, null, separator, sequence,
    /// strict, and a table columns of rules: price = "string", label = { null = "default=other", vocabulary = ["cat",
    /// "other"] }.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub map_file: Option<PathBuf>,

    #[command(flatten)]
    pub declared: Declared<Mapping>,
}

/// The resources that the run may use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resources")]
#[group(skip)]
pub struct Resources {
    /// Use this many threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub threads: Option<NonZeroUsize>,

    /// Divide the query into this many partitions [default: the number of threads]
    ///
    /// Each partition is a stream of rows that runs beside the others. Equal input, query, options and partitions give
    /// equal bytes, so set this to get the same output on machines with different numbers of cores.
    #[arg(long, value_name = "N", value_parser = values::count, hide_short_help = true)]
    pub partitions: Option<NonZeroUsize>,

    /// Limit the memory of the query before it spills [default: 60% of memory]
    ///
    /// Sorts, sort-merge joins, grouped aggregations and exchanges spill to disk when they reach their share. Hash
    /// joins cannot: SET datafusion.optimizer.prefer_hash_join = false before the query makes big joins spill too. At
    /// least 8MiB; big sorts over several files require 32MiB for each thread. Batches are split to stay within the
    /// limit; a single value that exceeds it is an error. The default is a share of the smallest of the machine's
    /// memory, the limits of the control groups, and RLIMIT_AS.
    #[arg(long, value_name = "SIZE", value_parser = values::memory)]
    pub memory_limit: Option<NonZeroU64>,

    /// Spill into this existing directory [default: the system's]
    ///
    /// Spilled files are removed when the command ends. After it was killed, the next command with this directory
    /// removes them.
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub temp_dir: Option<PathBuf>,
}

/// What is printed on standard output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Display")]
#[group(skip)]
pub struct RowArgs {
    /// Print as table, csv, json, jsonl, markdown or arrow
    ///
    /// The default is table on a terminal, and csv otherwise. arrow is an IPC stream for programs. It ends with its
    /// end-of-stream marker only if the query has succeeded.
    #[arg(long, value_name = "FORMAT", conflicts_with = "target", hide_possible_values = true)]
    pub format: Option<RowFormat>,

    /// Print a machine-readable summary (json) on standard output
    #[arg(long, value_name = "FORMAT", requires = "target", hide_possible_values = true, hide_short_help = true)]
    pub report: Option<ReportFormat>,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// Aligned columns between lines, for a person.
    Table,
    /// Comma-separated values with a header line.
    Csv,
    /// One array of objects.
    Json,
    /// One object a line.
    Jsonl,
    /// A table in Markdown.
    Markdown,
    /// An Arrow IPC stream.
    Arrow,
}

/// Where the SQL text comes from.
#[derive(Debug)]
pub enum QuerySource {
    /// The positional argument.
    Argument(String),
    /// `-f -`.
    Stdin,
    /// `-f FILE`.
    File(PathBuf),
}

impl QueryArgs {
    /// The SQL text's source.
    pub fn source(&self) -> QuerySource {
        match (&self.query, &self.file) {
            (Some(query), _) => QuerySource::Argument(query.clone()),
            (None, Some(file)) if file.as_os_str() == "-" => QuerySource::Stdin,
            (None, file) => QuerySource::File(file.clone().unwrap_or_default()),
        }
    }

    /// Writes shards to `out`, whatever its name.
    pub fn write_shards_to(&mut self, out: WriteTarget) {
        self.output.target = Some(Target::Shards(out.clone()));
        self.output.out = Some(out);
    }

    pub(super) fn check(&mut self, given: &Given) -> Result<(), Misuse> {
        let write = self.output.writing.options();
        self.output.target = self.output.out.as_ref().map(Target::of).transpose()?;
        if let Some(Target::Table(table)) = &self.output.target
            && let Some(option) =
                given.first_of(&of_shards()).or_else(|| given.first_of(&["dry_run", "plan", "cluster"]))
        {
            return Err(Misuse::conflict(format!(
                "the argument '{option}' is for TFRecord shards and cannot be used with '--out {}', {table}",
                table.path.display()
            )));
        }
        if let Some(Target::Table(table)) = &self.output.target
            && write.mode.keeps_set()
        {
            let mode = if write.mode == SaveMode::Append { "append" } else { "overwrite-partitions" };
            return Err(Misuse::conflict(format!(
                "--mode {mode} is for TFRecord shards and cannot be used with '--out {}', {table}\n\n\
                 hint: write it to a directory of its own, and read both with a pattern",
                table.path.display()
            )));
        }
        if self.output.scratch.is_some() && self.output.plan.is_none() && self.output.cluster.is_none() {
            return Err(Misuse::conflict("--scratch is for the tasks of --plan, which is not given".to_owned()));
        }
        self.output.check_rejects()?;
        self.output.emit.check_snapshot(given, &write, &self.mapping.declared)?;
        self.output.emit.check(&write)?;
        shards::check(&self.output.writing)?;
        if let Some(table) = repeated(self.tables.iter().map(|table| &table.name)) {
            return Err(Misuse::conflict(format!("--table is given twice for {table}")));
        }
        if let Some(column) = repeated(self.mapping.maps.iter().map(|(column, _)| column)) {
            return Err(Misuse::conflict(format!("--map is given twice for column {column:?}")));
        }
        Ok(())
    }
}

impl Output {
    fn check_rejects(&self) -> Result<(), Misuse> {
        match &self.rejects {
            None if self.max_rejects.is_some_and(|most| most > 0) => {
                Err(Misuse::missing("--max-rejects needs --rejects, the directory for the rows that do not fit"))
            }
            Some(WriteTarget::Store(location)) => {
                Err(Misuse::value(format!("--rejects {location}: expected a local directory")))
            }
            Some(WriteTarget::Local(path)) => match TableTarget::of(path) {
                Some(table) if !table.is_directory => {
                    let path = path.display();
                    Err(Misuse::value(format!(
                        "--rejects {path}: expected a directory, found the name of {table}\n\n\
                         hint: {path}/ is a directory"
                    )))
                }
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Returns the output target, or `None` if the rows are printed.
    pub fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }
}

/// Returns a name that occurs more than once.
fn repeated<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}
