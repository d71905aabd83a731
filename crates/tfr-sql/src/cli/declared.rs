//! [`Declared`]: command-line arguments for the options that the libraries declare.

use std::fmt;

use arrow_tfrecord::MappingOptions;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use datafusion_tfrecord::options::{MAPPING, OptionDeclaration, OptionText, READING, STRICT, WRITING, plain};
use datafusion_tfrecord::{ReadOptions, WriteOptions};

/// A group of declared options, and the help heading that lists them.
pub trait OptionGroup {
    /// The struct that the options set.
    type Options: 'static;

    /// The heading in help.
    const HEADING: &'static str;

    /// Returns the options, in the order in which they are set and listed.
    fn options() -> Vec<&'static OptionDeclaration<Self::Options>>;

    /// Returns the struct before any option is set.
    fn unset() -> Self::Options;

    /// Returns the argument ids.
    fn ids() -> impl Iterator<Item = &'static str> {
        Self::options().into_iter().map(|option| option.text.key)
    }
}

/// How a query writes shards.
pub enum Writing {}

/// How a tool writes the records of existing shards.
pub enum Moving {}

/// How columns are encoded.
pub enum Mapping {}

/// How the columns of shards are determined.
pub enum Inference {}

impl OptionGroup for Writing {
    type Options = WriteOptions;
    const HEADING: &'static str = "Output";

    fn options() -> Vec<&'static OptionDeclaration<WriteOptions>> {
        // The command counts rows itself.
        WRITING.iter().filter(|option| option.text.key != "expected_rows").collect()
    }

    fn unset() -> WriteOptions {
        WriteOptions::new(std::path::PathBuf::new())
    }
}

impl OptionGroup for Moving {
    type Options = WriteOptions;
    const HEADING: &'static str = Writing::HEADING;

    fn options() -> Vec<&'static OptionDeclaration<WriteOptions>> {
        const KEYS: [&str; 10] = [
            "shards",
            "shard_size",
            "shard_rows",
            "hosts",
            "prefix",
            "record_format",
            "group_size",
            "compression",
            "level",
            "mode",
        ];
        WRITING.iter().filter(|option| KEYS.contains(&option.text.key)).collect()
    }

    fn unset() -> WriteOptions {
        Writing::unset()
    }
}

impl OptionGroup for Mapping {
    type Options = MappingOptions;
    const HEADING: &'static str = "Mapping";

    fn options() -> Vec<&'static OptionDeclaration<MappingOptions>> {
        // Each --map has the rule for one column, which may contain commas and semicolons. Vocabularies are set in
        // --map-file.
        let declared = MAPPING.iter().filter(|option| !matches!(option.text.key, "map" | "vocabulary"));
        declared.chain([&STRICT]).collect()
    }

    fn unset() -> MappingOptions {
        MappingOptions::default()
    }
}

impl OptionGroup for Inference {
    type Options = ReadOptions;
    const HEADING: &'static str = "Reading";

    fn options() -> Vec<&'static OptionDeclaration<ReadOptions>> {
        READING.iter().filter(|option| option.text.key.starts_with("infer_")).collect()
    }

    fn unset() -> ReadOptions {
        ReadOptions::default()
    }
}

/// The options of a table that the user gave.
pub struct Declared<T: OptionGroup>(Vec<(&'static OptionDeclaration<T::Options>, String)>);

impl<T: OptionGroup> Declared<T> {
    /// Applies them to `options`.
    pub fn apply(&self, options: &mut T::Options) {
        for (option, value) in &self.0 {
            // The value has already been parsed.
            let _ = (option.set)(options, value);
        }
    }

    /// Returns the options, with defaults for those not given.
    pub fn options(&self) -> T::Options {
        let mut options = T::unset();
        self.apply(&mut options);
        options
    }

    /// Whether an option was given.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(option, _)| option.text.key == key)
    }
}

impl<T: OptionGroup> fmt::Debug for Declared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(option, value)| (option.text.key, value))).finish()
    }
}

impl<T: OptionGroup> FromArgMatches for Declared<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for option in T::options() {
            let key = option.text.key;
            if option.text.value.is_empty() {
                given.extend(matches.get_flag(key).then(|| (option, "true".to_owned())));
            } else {
                let values = matches.get_many::<String>(key).into_iter().flatten();
                given.extend(values.map(|value| (option, value.clone())));
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: OptionGroup> Args for Declared<T> {
    fn augment_args(command: Command) -> Command {
        let ids: Vec<_> = T::ids().collect();
        command.args(T::options().into_iter().map(|option| argument::<T>(option, &ids)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns the argument for an option. `ids` are the ids of all arguments.
fn argument<T: OptionGroup>(option: &'static OptionDeclaration<T::Options>, ids: &[&'static str]) -> Arg {
    let OptionText { key, value, help, default, needs, excludes, repeats, .. } = option.text;
    let mut help = capitalized(&plain(help));
    if !default.is_empty() {
        help += &format!(" [default: {}]", plain(default));
    }
    let aliases = ALIASES.iter().filter(|(_, of)| *of == key).map(|(alias, _)| *alias);
    let mut argument = Arg::new(key).long(key.replace('_', "-")).help_heading(T::HEADING).help(help.clone());
    argument = argument.aliases(aliases.collect::<Vec<_>>());
    if let Some((_, more)) = MORE.iter().find(|(of, _)| *of == key) {
        argument = argument.long_help(format!("{help}\n\n{more}"));
    }
    argument = match value {
        "" => argument.action(ArgAction::SetTrue),
        _ => {
            let set = option.set;
            let parse = move |text: &str| match set(&mut T::unset(), text) {
                Ok(()) => Ok(text.to_owned()),
                Err(expected) => Err(format!("expected {expected}")),
            };
            let action = if repeats { ArgAction::Append } else { ArgAction::Set };
            argument.value_name(value).value_parser(parse).action(action)
        }
    };
    if !needs.is_empty() {
        argument = argument.requires(needs);
    }
    let excluded = excludes.iter().copied().filter(|id| ids.contains(id));
    argument.conflicts_with_all(excluded.collect::<Vec<_>>()).hide_short_help(RARE.contains(&key))
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), chars.as_str()))
}

/// Names of options that users of spark-tfrecord know, and ours for each.
const ALIASES: [(&str, &str); 1] = [("codec", "compression")];

/// Options that the short help omits.
const RARE: [&str; 16] = [
    "record_format",
    "group_size",
    "add_columns",
    "hosts",
    "prefix",
    "level",
    "keep_partition_columns",
    "sequence",
    "separator",
    "infer_files",
    "infer_records",
    "seed",
    "shard_rows",
    "split_by",
    "split_column",
    "record_type",
];

/// Paragraphs that the long help adds.
const MORE: [(&str, &str); 14] = [
    (
        "hosts",
        "This follows the guideline in TensorFlow's guides. Records of less than 100 MiB in total become one shard.",
    ),
    (
        "record_format",
        "array_record is the format that grain and TensorFlow Datasets read by number, for a global shuffle: each file ends \
         in an index of its records. The records, their order and their shards are the same in both formats. Files end in \
         .array_record.",
    ),
    (
        "group_size",
        "1 is best for reading single records in any order. More than 1 makes smaller files, above all with --compression \
         zstd, and is for reading in order.",
    ),
    (
        "compression",
        "The name of the files ends in .gz for gzip and in .deflate for zlib, which is what Hadoop and Spark call it. Their \
         names are accepted too: --codec, deflate, GzipCodec, org.apache.hadoop.io.compress.DefaultCodec. With \
         --record-format array_record: none, or zstd, which compresses each chunk.",
    ),
    (
        "mode",
        "overwrite replaces the existing output, once the new output is complete. append adds shards to an existing \
         set with the same columns, mapping and compression. overwrite-partitions, of a query with --partition-by, \
         replaces the directories of such a set that the rows name, and keeps the others. ignore writes nothing if output exists, and reports \
         that. A directory with other files than an output of tfr-sql is neither replaced nor appended to. errorifexists \
         is another name of error.",
    ),
    (
        "shuffle",
        "Every order is equally likely. The same rows and seed give the same shards, byte for byte, whatever the \
         order, files and threads of the input. Rows that do not fit into --memory-limit spill to --temp-dir.",
    ),
    (
        "split",
        "Rows are assigned by a hash of their key, so that no key is in two splits, and rows added later do not move \
         others. Without --split-by the whole record is the key. Shard names start with the split, and --shards \
         applies to each split: --shards 16, or --shards train=256,val=16. In a query, \
         tf_split('train=0.9,val=0.1', user_id) returns the same.\n\nWith --shuffle, --split train=800rows,val=200rows cuts \
         exact numbers of rows from the shuffled rows, and --split train=rest,val=200rows gives one split all others. \
         Adding rows then moves others, equal rows may be in two splits, and the set cannot be appended to.",
    ),
    ("split_column", "Each value of the column is the name of a split. The column is left out of the records."),
    (
        "partition_by",
        "The layout is that of Hive, Spark and Impala. The columns are left out of the records, and read from the \
         paths instead. Each directory has its own shards.",
    ),
    (
        "null",
        "absent: no feature; unset: a feature without a kind; empty: one without values; mask: additional features \
         named is_null mark nulls; drop: as absent, and nulls inside lists are left out. A null inside a list must \
         be masked, dropped or given a value.",
    ),
    (
        "record_type",
        "In a sequence-example, lists of lists and of structs are feature lists. elwc is the ExampleListWithContext of \
         TensorFlow Ranking: its examples are the elements of a list of structs. bytes takes a query of one column, each \
         value of which is a record. spark-tfrecord's names are accepted too: Example, SequenceExample and ByteArray.",
    ),
    ("sequence", "Separate names with commas: frames,audio. Lists of lists and of structs are always sequences."),
    (
        "infer_files",
        "Used where neither a manifest nor a schema.pbtxt records the columns. If there are more files, an evenly \
         spaced sample is read. --table has the key infer_files for this.",
    ),
    ("infer_records", "--table has the key infer_records for this."),
];
