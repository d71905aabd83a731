//! The main job: a query, what it reads, and where its rows go.

use std::collections::BTreeSet;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use arrow_tfrecord::{ColumnRule, NullPolicy, RecordType};
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use datafusion_tfrecord::parse_rule;
use datafusion_tfrecord::write::WriteTarget;
use tfr_formats::TableSpec;
use tfrecord_shards::SaveMode;

use super::arrangement::ArrangementArgs;
use super::display::ReportFormat;
use super::emit::EmitArgs;
use super::schema::InferenceArgs;
use super::shards::{OF_SHARDS, ShardArgs};
use super::stores::StoreArgs;
use super::target::Target;
use super::{Given, Misuse, values};

pub(super) const TABLE_HELP: &str = "\
Register an input under a name: NAME=URL[,key=value…]; repeatable

The URL is a path, a pattern of paths, or - for standard input, which is kept in --temp-dir meanwhile; s3://, gs://, az://, \
abfss://, hdfs:// and https:// lead elsewhere. A part with a comma is put in double quotes: --table 't=\"a,b.csv\",delimiter=;'. The keys, which CREATE EXTERNAL \
TABLE takes as OPTIONS too, but for path and format:

  path                one more location; repeatable
  format              parquet, csv, tsv, tfrecord, orc, avro, json, arrow, hive-text or libsvm
                      [default: told from the content]
  partitions          types of columns in the path, as Hive declares them: dt DATE
                      [default: BIGINT for whole numbers, else text]
  bare_files          true reads the files of a Delta, Iceberg, Hudi or other table
                      as they are, deleted rows too, with a warning; not with
                      --strict [default: false]
for CSV:
  delimiter           between cells: one character, tab or \\x01 [default: ,]
  quote               around cells: one character or none [default: \"]
  escape              takes the meaning from the next character inside quotes
  comment             starts a line that is skipped
  terminator          ends a record: one character [default: any line end]
  header              the first record names the columns: true or false [default: true]
  null                a cell with this text is null; repeatable [default: an empty
                      cell without quotes]
  encoding            utf-8, utf-16, utf-32, latin1, windows-1252, shift_jis, gbk or
                      another of the web [default: utf-8]
  compression         auto, none, gzip, bzip2, xz, zstd or zlib [default: auto]
  types               infer, or string for text as it stands [default: infer]
  infer_rows          records of each file that decide its types, or all
                      [default: 1000]
  newlines_in_values  false lets all cores read parts of one file [default: true]
  skip_lines          lines before the header of each file [default: 0]
  short_rows          null, or error, for records that lack cells at their end
                      [default: error]
  trim                true leaves out blanks around cells [default: false]
  record_limit        the longest record, up to 256MiB [default: 16MiB]
for JSON:
  encoding, compression, types, newlines_in_values as for CSV
  infer_rows          objects of each file that decide its columns, or all
                      [default: 10000]
for Hive text, also under Hive's names (field.delim and so on):
  delimiter           between cells: one character, \\t, \\001 or \\x01, or several
                      characters [default: \\001]
  collection_delimiter  between elements, entries and fields [default: \\002]
  map_key_delimiter   between a key and its value [default: \\003]
  escape              takes the meaning from the next character
  null                the text that stands for null [default: \\N]
  skip_header         lines at the start of each file that are no rows [default: 0]
  skip_footer         lines at its end that are no rows [default: 0]
  schema              the columns as Hive declares them: id BIGINT, tags ARRAY<STRING>
                      [default: texts _col0, _col1 and so on]
  encoding, compression as for CSV
  on_error            null, with a warning, or error for cells that do not fit
                      [default: null]
for Parquet, ORC, Avro, Arrow, CSV and JSON:
  names               insensitive: their case does not matter; the table has them in
                      lower case, or as declared [default: exact]
for Parquet, ORC, Avro and Arrow:
  types               types of some columns, as Hive declares them: x DOUBLE
                      [default: one that holds the values of all files]
for Parquet, ORC and Avro:
  calendar            of old dates in files that do not record theirs: proleptic,
                      hybrid, or hybrid:ZONE [default: auto; such dates are reported]
for Parquet:
  timestamps          of INT96: ns, us, or auto: us where a value is beyond ns
                      [default: auto]
  binary              columns whose text is read as bytes: a, b; repeatable
for ORC:
  timestamps          ns, us, or auto: us where a file says that it reaches beyond ns
                      [default: auto]
for libsvm:
  index_base          the number of the first feature, 0 or 1, or as-written
                      [default: as-written]
  features            one list of that many values, not indices and values
  multilabel          lines have several labels, or none: true or false
                      [default: false]
  qid                 lines have queries: true or false
                      [default: as the first lines show]
  encoding, compression as for CSV
and for TFRecord:
  schema              a schema.pbtxt with the columns [default: as in the manifest, in
                      one beside the files, or as the records tell]
  map                 'column: rule', how a column was written; repeatable
                      [default: as in the manifest, as are the next five]
  null                absent, unset, empty, error, mask or drop: what nulls became
  record_type         example, sequence-example, or bytes for records as they are
  sequence            columns that are sequences: a; repeatable
  separator           between the names of a column and of its part: /
  vocabulary          'column: cat, dog', the values of ranks; repeatable
  crc                 verify, or skip checksums [default: verify]
  compression         auto, none, gzip or zlib [default: auto]
  infer_files         files that tell the columns, evenly spaced, or all
                      [default: 256]
  infer_records       records of each such file, or all [default: 1000]
  fixed_size_lists    true makes a feature of always as many values a list of that
                      size";

/// A query, what it reads, and where its rows go.
#[derive(Debug, Args)]
#[group(skip)]
pub struct QueryArgs {
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
    pub inference: InferenceArgs,

    #[command(flatten)]
    pub output: Output,

    #[command(flatten)]
    pub mapping: MappingArgs,

    #[command(flatten)]
    pub stores: StoreArgs,

    #[command(flatten)]
    pub resources: Resources,

    #[command(flatten)]
    pub rows: RowArgs,
}

/// Where the records go and how they are cut into shards.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(skip)]
pub struct Output {
    /// Write here: shards to a directory or URL, or a table such as x.parquet
    ///
    /// A name that ends in .parquet, .csv, .json, .jsonl or .arrow is one such file (.gz after .csv, .json and .jsonl
    /// compresses it), and with a slash behind it a directory of them, written in parallel. Any other name is a directory
    /// of TFRecord shards. Without this option the rows are printed.
    ///
    /// In CSV an empty text is "" and a null is nothing, or "" too where it would be an empty line; lists, structs and maps
    /// are refused. In JSON what no number stands for is "NaN", "Infinity" or "-Infinity". Binary values are hexadecimal
    /// digits in both. In Parquet times in seconds become milliseconds.
    ///
    /// The output appears whole or not at all: what was written is published when the query has succeeded, shards together
    /// with _manifest.json and _SUCCESS.
    ///
    /// Shards also go to s3://, gs://, az:// and abfss://, as uploads that are completed at the end. Beyond a quarter of the
    /// memory, open uploads wait in --temp-dir, up to 8 MiB for each shard that is open. Let a lifecycle rule of the bucket
    /// abort uploads that a killed process has left. A table file goes there, too, from --temp-dir, when all of it is written.
    #[arg(long, value_name = "URL", value_parser = OsStringValueParser::new().try_map(values::target))]
    out: Option<WriteTarget>,

    /// What `out` names.
    #[arg(skip)]
    target: Option<Target>,

    #[command(flatten)]
    pub shards: ShardArgs,

    #[command(flatten)]
    pub arrangement: ArrangementArgs,

    #[command(flatten)]
    pub emit: EmitArgs,

    /// Plan only: print mapping, shards and an estimate, write nothing
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
    /// A rule is a choice, null=POLICY as with --null or null=default=VALUE, or both with a comma between: 'score: bits,
    /// null=default=0'. Choices: wrap (UInt64), bits, string, tensor (Float64), tensor (lists of one shape), string, unscaled
    /// (Decimal), string, seconds, millis, micros (dates and times), index (strings: the rank among the sorted distinct
    /// values, for which the query runs once more, or in the vocabulary that --map-file gives).
    ///
    /// A part of a nested column is named as its feature is: 'point/x: bits'. A name with a colon or a quote is put in
    /// double quotes: '"a:b": string'.
    #[arg(long = "map", value_name = "COL: RULE", value_parser = parse_rule)]
    pub maps: Vec<(String, ColumnRule)>,

    /// Read these options from a TOML file
    ///
    /// What the command line says goes before what the file says. Keys: record-type, null, separator, sequence, strict, and a
    /// table columns of rules: price = "string", label = { null = "default=other", vocabulary = ["cat", "other"] }.
    #[arg(long, value_name = "FILE")]
    pub map_file: Option<PathBuf>,

    /// Null values: absent (default), unset, empty, error, mask or drop
    ///
    /// absent: no feature; unset: a feature without a kind; empty: one without values; mask: further features say where nulls are, by name
    /// is_null; drop: as absent, and nulls inside lists are left out. A null inside a list has to be masked, dropped or given
    /// a value.
    #[arg(long = "null", value_name = "POLICY")]
    pub nulls: Option<NullPolicy>,

    /// What a record is: example (default), sequence-example or bytes
    ///
    /// In a sequence-example, lists of lists and of structs are feature lists; bytes takes a query of one column, each value
    /// of which is a record.
    #[arg(long, value_name = "TYPE")]
    pub record_type: Option<RecordType>,

    /// More lists whose elements are steps of a sequence-example
    ///
    /// Names stand with commas between: frames,audio. Lists of lists and of structs are sequences without being named.
    #[arg(long = "sequence", value_name = "COL,…", value_parser = values::columns, hide_short_help = true)]
    sequences: Vec<values::Columns>,

    /// What stands between the name of a column and of its part [default: /]
    #[arg(
        long,
        value_name = "TEXT",
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        hide_short_help = true
    )]
    pub separator: Option<String>,

    /// Refuse columns that would lose information
    #[arg(long)]
    pub strict: bool,
}

/// What the run may use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resources")]
#[group(skip)]
pub struct Resources {
    /// Threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub threads: Option<NonZeroUsize>,

    /// Memory for the query before it spills [default: 60% of memory]
    ///
    /// Sorts, sort-merge joins, grouped aggregations and exchanges spill to disk when they reach their share. Hash joins
    /// cannot: SET datafusion.optimizer.prefer_hash_join = false before the query makes big joins spill too. At least
    /// 8MiB; big sorts over several files want 32MiB for each thread. Batches are cut so that they stay within it, and single
    /// values that cannot are an error. The default is a share of the least of the machine's memory, what the control
    /// groups allow, and RLIMIT_AS.
    #[arg(long, value_name = "SIZE", value_parser = values::memory)]
    pub memory_limit: Option<NonZeroU64>,

    /// Existing directory to spill into [default: the system's]
    ///
    /// What is spilled is removed when the command ends; after it was killed, by the next one with this directory.
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,
}

/// What is printed on standard output.
#[derive(Debug, Args)]
#[command(next_help_heading = "Display")]
#[group(skip)]
pub struct RowArgs {
    /// table (default on a terminal), csv (default otherwise), json, jsonl or markdown
    #[arg(long, value_name = "FORMAT", conflicts_with = "target", hide_possible_values = true)]
    pub format: Option<RowFormat>,

    /// Print a machine-readable summary (json) on standard output
    #[arg(long, value_name = "FORMAT", requires = "out", conflicts_with = "dry_run", hide_possible_values = true)]
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

    pub(super) fn check(&mut self, given: &Given) -> Result<(), Misuse> {
        self.output.target = self.output.out.as_ref().map(Target::of).transpose()?;
        if let Some(Target::Table(table)) = &self.output.target
            && let Some(option) = given.first_of(&OF_SHARDS).or_else(|| given.first_of(&["dry_run"]))
        {
            return Err(Misuse::conflict(format!(
                "the argument '{option}' is for TFRecord shards and cannot be used with '--out {}', {table}",
                table.path.display()
            )));
        }
        if let Some(Target::Table(table)) = &self.output.target
            && self.output.shards.mode() == SaveMode::Append
        {
            return Err(Misuse::conflict(format!(
                "--mode append is for TFRecord shards and cannot be used with '--out {}', {table}\n\n\
                 hint: write it to a directory of its own, and read both with a pattern",
                table.path.display()
            )));
        }
        self.output.shards.check()?;
        self.output.emit.check_snapshot(given, &self.output.shards, self.mapping.nulls)?;
        self.output.emit.check(self.output.shards.compression, !self.output.arrangement.partition_by().is_empty())?;
        self.output.arrangement.check(&self.output.shards.split_shards())?;
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
    /// Where the rows go; they are printed if nowhere.
    pub fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }
}

impl MappingArgs {
    /// Columns that are sequences.
    pub fn sequences(&self) -> impl Iterator<Item = &String> {
        self.sequences.iter().flat_map(|columns| &columns.0)
    }

    /// Every name of a column, as it was typed.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.maps.iter().map(|(column, _)| column).chain(self.sequences())
    }
}

/// A name that occurs more than once.
fn repeated<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}
