//! The command line: what a user may ask for, and nothing else.
//!
//! [`Cli`] is parsed by clap; the values are already of the types that the crates below use, so a bad size, choice or
//! level is refused here, with exit code 2 and before anything is opened. Defaults are the library's.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use arrow::datatypes::Schema;
use arrow_tfrecord::{Choice, MappingOptions, NullPolicy};
use bytesize::ByteSize;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::error::ErrorKind;
use clap::{ArgAction, ArgGroup, Args, CommandFactory, Parser, ValueEnum};
use tfr_inputs::TableSpec;
use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{SaveMode, Sharding, check_prefix};
use url::Url;

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
    tfr-sql \"SELECT label, count(*) AS n FROM 'events/*.parquet' GROUP BY label ORDER BY n\"

Exit codes: 0 done, 1 the query or the data failed, 2 usage, 130 interrupted, 143 terminated.";

const TABLE_HELP: &str = "\
Register an input under a name: NAME=URL[,key=value…]; repeatable

A part with a comma is put in double quotes: --table 't=\"a,b.csv\",delimiter=;'. The keys, which CREATE EXTERNAL \
TABLE takes as OPTIONS too, but for path and format:

  path                one more location; repeatable
  format              parquet, csv or tsv [default: told from the content]
and for CSV:
  delimiter           between cells: one character, tab or \\x01 [default: ,]
  quote               around cells: one character or none [default: \"]
  escape              takes the meaning from the next character inside quotes
  comment             starts a line that is skipped
  terminator          ends a record: one character [default: any line end]
  header              the first record names the columns: true or false [default: true]
  null                a cell with this text is null; repeatable [default: the empty cell]
  encoding            utf-8, utf-16, utf-16le, utf-16be or latin1 [default: utf-8]
  compression         auto, none, gzip, bzip2, xz or zstd [default: auto]
  types               infer, or string for text as it stands [default: infer]
  infer_rows          records of each file that decide its types, or all [default: 1000]
  newlines_in_values  false lets all cores read parts of one file [default: true]";

/// Turn the rows of a SQL query over Parquet and CSV into TFRecord shards, or print them.
#[derive(Debug, Parser)]
#[command(
    name = "tfr-sql",
    version,
    after_long_help = EXAMPLES,
    group(ArgGroup::new("text").args(["query", "file"]).required(true)),
    group(ArgGroup::new("target").args(["out", "dry_run"]).multiple(true)),
    max_term_width = 100,
)]
pub struct Cli {
    /// SQL; quoted paths are tables: SELECT … FROM 'events/*.parquet'
    ///
    /// CREATE EXTERNAL TABLE and SET statements may stand before the query, separated by semicolons. A path in quotes
    /// is a file, a directory or a glob. Column names keep their case; a name that no column has exactly is taken
    /// whatever its case when only one column fits.
    #[arg(value_name = "QUERY")]
    query: Option<String>,

    /// Read the SQL from a file, or from standard input with -
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Register an input under a name: NAME=URL[,key=value…]; repeatable
    #[arg(long = "table", value_name = "NAME=URL[,…]", long_help = TABLE_HELP)]
    pub tables: Vec<TableSpec>,

    #[command(flatten)]
    pub output: Output,

    #[command(flatten)]
    pub mapping: MappingArgs,

    #[command(flatten)]
    pub resources: Resources,

    #[command(flatten)]
    pub display: Display,
}

/// Where the records go and how they are cut into shards.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct Output {
    /// Write shards into this directory; without it the rows are printed
    ///
    /// The directory appears whole or not at all: shards, _manifest.json and _SUCCESS are published together when the
    /// query has succeeded.
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(parse_out))]
    pub out: Option<PathBuf>,

    /// Write exactly N shards, balanced by rows
    #[arg(long, value_name = "N", requires = "target", group = "sharding", value_parser = parse_count)]
    shards: Option<NonZeroUsize>,

    /// Close a shard at this many bytes of records [default: 128MiB]
    #[arg(long, value_name = "SIZE", requires = "target", group = "sharding", value_parser = parse_size)]
    shard_size: Option<NonZeroU64>,

    /// Close a shard at this many rows
    #[arg(long, value_name = "N", requires = "target", group = "sharding", value_parser = parse_count)]
    shard_rows: Option<NonZeroUsize>,

    /// Name shards <PREFIX>-00003-of-00016.tfrecord
    #[arg(long, value_name = "PREFIX", requires = "target", default_value = "part", value_parser = parse_prefix)]
    pub prefix: String,

    /// none, gzip or zlib, by TensorFlow's names
    #[arg(long, value_name = "NAME", requires = "target", default_value = "none")]
    pub compression: Compression,

    /// Compression level, 0 to 9 [default: 6]
    #[arg(long, value_name = "LEVEL", requires = "target", value_parser = parse_level)]
    level: Option<Level>,

    /// On an earlier shard set: error or overwrite
    ///
    /// The earlier set is replaced only after the new one is complete. A directory that holds anything else is refused
    /// either way.
    #[arg(long, value_name = "MODE", requires = "target", default_value = "error", hide_possible_values = true)]
    mode: Mode,

    /// Plan only: print the mapping, the shards and an estimate, write nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// What a column becomes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Mapping")]
#[group(skip)]
pub struct MappingArgs {
    /// Choose how a column is written, e.g. 'price: string'; repeatable
    ///
    /// Choices: wrap (UInt64), bits, string, tensor (Float64), string, unscaled (Decimal), string, seconds, millis,
    /// micros (dates and times). A column name with a colon or a quote is put in double quotes: '"a:b": string'.
    #[arg(long = "map", value_name = "COL: CHOICE", requires = "target", value_parser = parse_map)]
    maps: Vec<(String, Choice)>,

    /// Null values: absent (no feature) or error
    #[arg(long = "null", value_name = "POLICY", requires = "target", default_value = "absent")]
    pub nulls: NullPolicy,

    /// Refuse columns that would lose information
    #[arg(long, requires = "target")]
    pub strict: bool,
}

/// What the run may use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resources")]
#[group(skip)]
pub struct Resources {
    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub threads: Option<NonZeroUsize>,

    /// Memory for the query before it spills [default: 60% of memory]
    ///
    /// Sorts, sort-merge joins, grouped aggregations and exchanges spill to disk when they reach their share. Hash joins
    /// cannot: SET datafusion.optimizer.prefer_hash_join = false before the query makes big joins spill too. At least
    /// 8MiB; big sorts over several files want 32MiB for each thread.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory_limit: Option<NonZeroU64>,

    /// Existing directory to spill into [default: the system's]
    ///
    /// What is spilled is removed when the command ends.
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,
}

/// What is said, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Display")]
#[group(skip)]
pub struct Display {
    /// table (default on a terminal), csv (default otherwise), json, jsonl or markdown
    #[arg(long, value_name = "FORMAT", conflicts_with = "target", hide_possible_values = true)]
    pub format: Option<RowFormat>,

    /// Print a machine-readable summary (json) on standard output
    #[arg(long, value_name = "FORMAT", requires = "out", conflicts_with = "dry_run", hide_possible_values = true)]
    pub report: Option<ReportFormat>,

    /// Show progress: auto (on a terminal), always or never
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub progress: When,

    /// Use colour: auto, always or never; NO_COLOR is honoured
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub color: When,

    /// Say nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say more: settings and plan; twice: what the engine logs
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
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
}

/// Form of the summary on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// The object that `schemas/report.schema.json` describes.
    Json,
}

/// What to do with an earlier shard set in the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Leave it and fail.
    Error,
    /// Replace it once the new set is complete.
    Overwrite,
}

/// Whether to do something that depends on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// When standard error is a terminal.
    Auto,
    /// Whatever standard error is.
    Always,
    /// Not at all.
    Never,
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

impl Cli {
    /// Parses the process's arguments and checks what clap's rules cannot express.
    pub fn from_process() -> Result<Self, clap::Error> {
        let cli = Self::try_parse()?;
        if let Some(out) = &cli.output.out {
            refuse_table_file(out)?;
        }
        if cli.output.level.is_some() && cli.output.compression == Compression::None {
            return Err(usage(
                ErrorKind::MissingRequiredArgument,
                "--level needs --compression gzip or --compression zlib",
            ));
        }
        if let Some(table) = repeated(cli.tables.iter().map(|table| &table.name)) {
            return Err(usage(ErrorKind::ArgumentConflict, format!("--table is given twice for {table}")));
        }
        if let Some(column) = repeated(cli.mapping.maps.iter().map(|(column, _)| column)) {
            return Err(usage(ErrorKind::ArgumentConflict, format!("--map is given twice for column {column:?}")));
        }
        Ok(cli)
    }

    /// The SQL text's source.
    pub fn query(&self) -> QuerySource {
        match (&self.query, &self.file) {
            (Some(query), _) => QuerySource::Argument(query.clone()),
            (None, Some(file)) if file.as_os_str() == "-" => QuerySource::Stdin,
            (None, file) => QuerySource::File(file.clone().unwrap_or_default()),
        }
    }
}

impl MappingArgs {
    /// The options in the mapping's own words. A column is found whatever its case when only one fits, as in SQL.
    pub fn options(&self, schema: &Schema) -> MappingOptions {
        let named = |name: &str| self.maps.iter().any(|(column, _)| column == name);
        let found = |typed: &str| {
            let exact = schema.fields().iter().any(|field| field.name() == typed);
            let mut fitting = schema
                .fields()
                .iter()
                .map(|field| field.name())
                .filter(|name| !exact && !named(name) && name.to_lowercase() == typed.to_lowercase());
            fitting.next().filter(|_| fitting.next().is_none()).map_or(typed, String::as_str).to_owned()
        };
        MappingOptions {
            nulls: self.nulls,
            choices: self.maps.iter().map(|(column, choice)| (found(column), *choice)).collect(),
            strict: self.strict,
            ..MappingOptions::default()
        }
    }
}

impl Output {
    /// How rows are cut into shards.
    pub fn sharding(&self) -> Sharding {
        match (self.shards, self.shard_size, self.shard_rows) {
            (Some(count), ..) => Sharding::Count(count),
            (_, Some(bytes), _) => Sharding::Bytes(bytes.get()),
            (.., Some(rows)) => Sharding::Rows(rows.get() as u64),
            _ => Sharding::default(),
        }
    }

    /// What to do with an earlier shard set.
    pub fn mode(&self) -> SaveMode {
        match self.mode {
            Mode::Error => SaveMode::Error,
            Mode::Overwrite => SaveMode::Overwrite,
        }
    }

    /// Compression level.
    pub fn level(&self) -> Level {
        self.level.unwrap_or_default()
    }
}

/// Extensions by which the output would be one table file and not a directory of shards.
const TABLE_EXTENSIONS: [(&str, &str); 10] = [
    ("parquet", "Parquet"),
    ("csv", "CSV"),
    ("tsv", "TSV"),
    ("json", "JSON"),
    ("jsonl", "JSON lines"),
    ("ndjson", "JSON lines"),
    ("avro", "Avro"),
    ("orc", "ORC"),
    ("arrow", "Arrow IPC"),
    ("tfrecord", "a single TFRecord file"),
];

/// `out` with a separator at its end is a directory whatever its name.
fn refuse_table_file(out: &Path) -> Result<(), clap::Error> {
    if out.as_os_str().as_encoded_bytes().ends_with(&[MAIN_SEPARATOR as u8]) {
        return Ok(());
    }
    let extension = out.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match TABLE_EXTENSIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(extension)) {
        Some((_, name)) => Err(usage(
            ErrorKind::ValueValidation,
            format!(
                "--out {}: writing {name} is not supported yet\n\n\
                 hint: give a directory: --out {}/",
                out.display(),
                out.with_extension("").display()
            ),
        )),
        None => Ok(()),
    }
}

/// A name that occurs more than once.
fn repeated<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

fn usage(kind: ErrorKind, message: impl std::fmt::Display) -> clap::Error {
    Cli::command().error(kind, message)
}

/// Parses `128MiB`, `1.5GB` or a plain number of bytes.
fn parse_size(text: &str) -> Result<NonZeroU64, String> {
    let size: ByteSize = text.parse().map_err(|_| "expected a size such as 512KiB, 128MiB or 4GB".to_owned())?;
    NonZeroU64::new(size.as_u64()).ok_or_else(|| "expected a size above zero".to_owned())
}

/// Least memory that a query starts with.
const MIN_MEMORY: u64 = 8 << 20;

fn parse_memory(text: &str) -> Result<NonZeroU64, String> {
    let size = parse_size(text)?;
    match size.get() < MIN_MEMORY {
        true => Err("expected 8MiB or more: rows are sorted and written some thousands at a time".to_owned()),
        false => Ok(size),
    }
}

fn parse_count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number, 1 or more".to_owned())
}

/// Takes a local path, or a `file://` URL for one.
fn parse_out(out: OsString) -> Result<PathBuf, String> {
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    match out.to_str().and_then(|text| text.split_once("://")) {
        Some(("file", path)) => {
            // Characters of the path, as where URLs name inputs.
            let escaped = path.replace('?', "%3F").replace('#', "%23");
            let url = Url::parse(&format!("file://{escaped}")).ok();
            url.and_then(|url| url.to_file_path().ok())
                .ok_or_else(|| "expected file:// and an absolute path".to_owned())
        }
        Some((scheme, _)) if is_scheme(scheme) => {
            Err(format!("writing to {scheme}:// is not supported: give a local directory"))
        }
        _ if out.is_empty() => Err("expected a directory".to_owned()),
        _ => Ok(out.into()),
    }
}

/// Shard names must be single names that readers' globs see and file systems take.
fn parse_prefix(text: &str) -> Result<String, String> {
    check_prefix(text)
        .map_err(|error| error.hint().map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}")))?;
    Ok(text.to_owned())
}

fn parse_level(text: &str) -> Result<Level, String> {
    let number: u32 = text.parse().map_err(|_| "expected a number from 0 to 9".to_owned())?;
    Level::try_from(number).map_err(|_| "expected a number from 0 to 9".to_owned())
}

/// Parses `column: choice` or `"column": choice`, where `""` stands for a quote inside quotes.
fn parse_map(text: &str) -> Result<(String, Choice), String> {
    let expected = || "expected 'column: choice', or '\"column\": choice' for a name with a colon".to_owned();
    let (column, choice) = match text.trim_start().strip_prefix('"') {
        Some(quoted) => unquote(quoted).ok_or_else(expected)?,
        None => text.split_once(':').map(|(column, rest)| (column.trim().to_owned(), rest)).ok_or_else(expected)?,
    };
    if column.is_empty() {
        return Err(expected());
    }
    let choice = choice.trim().parse::<Choice>().map_err(|error| error.to_string())?;
    Ok((column, choice))
}

/// Splits `na""me": rest` (the opening quote taken off) into the name and what follows the colon.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return Some((name, after.trim_start().strip_prefix(':')?)),
        }
    }
}

#[cfg(test)]
mod tests;
