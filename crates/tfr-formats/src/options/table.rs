//! The declarations of all input options.

use std::sync::Arc;

use arrow_tfrecord::MappingOptions;
use datafusion_tfrecord::ReadOptions;
use datafusion_tfrecord::options::values::{boolean, bytes, number_or_all, one_of, set};
use datafusion_tfrecord::options::{MAPPING, OptionDeclaration, OptionText, READING};

use super::InputOptions;
use super::values::{
    byte, calendar, character, columns, compression, delimiter, encoding, lines, optional_byte, optional_character,
    timestamp_unit,
};
use crate::csv::{MAX_RECORD_LIMIT, Types};
use crate::delta::travel;
use crate::hive_acid::write_ids::WriteIds;
use crate::hive_text::{HiveSerde, JsonBinary, OnError};
use crate::input_format::InputFormat::{
    self, ArrayRecord, Arrow, Avro, Csv, Delta, HiveText, Iceberg, Json, LibSvm, Orc, Parquet, TfRecord,
};
use crate::libsvm::IndexBase;
use crate::names::NameMatching;

/// An input option and the formats that have it.
#[derive(Clone, Copy, Debug)]
pub struct InputOption {
    /// The formats that have it.
    pub formats: &'static [InputFormat],
    declared: Declared,
}

/// The options struct that an option is set on.
#[derive(Clone, Copy, Debug)]
enum Declared {
    Input(&'static OptionDeclaration<InputOptions>),
    Reading(&'static OptionDeclaration<ReadOptions>),
    Mapping(&'static OptionDeclaration<MappingOptions>),
}

impl Declared {
    /// Returns the formats of records that have an option. The chunks of ArrayRecord have compressions of their own, and
    /// their hashes are always checked.
    fn formats_of_records(self) -> &'static [InputFormat] {
        match self {
            Self::Reading(option) if ["compression", "crc"].contains(&option.text.key) => &[TfRecord],
            _ => &[TfRecord, ArrayRecord],
        }
    }
}

impl InputOption {
    /// Returns its name and help text.
    pub fn text(&self) -> OptionText {
        match self.declared {
            Declared::Input(option) => option.text,
            Declared::Reading(option) => option.text,
            Declared::Mapping(option) => OptionText { default: "as in the manifest", ..option.text },
        }
    }

    pub(super) fn set(&self, options: &mut InputOptions, value: &str) -> Result<(), String> {
        match self.declared {
            Declared::Input(option) => (option.set)(options, value),
            Declared::Reading(option) => (option.set)(&mut options.tfrecord, value),
            Declared::Mapping(option) => (option.set)(options.tfrecord.mapping.get_or_insert_default(), value),
        }
    }
}

/// Returns all input options, grouped by format. No format has two options of one name.
pub fn input_options() -> impl Iterator<Item = InputOption> {
    let own = OWN.iter().flat_map(|(formats, options)| {
        options.iter().map(|option| InputOption { formats, declared: Declared::Input(option) })
    });
    let mapping = MAPPING.iter().map(Declared::Mapping);
    let tfrecord = mapping.chain(READING.iter().map(Declared::Reading));
    own.chain(tfrecord.map(|declared| InputOption { formats: declared.formats_of_records(), declared }))
}

/// The option that only `--table` has; its value is a location.
pub const PATH: OptionText =
    OptionDeclaration::<()>::new("path", "URL", |(), _| Ok(())).help("one more location", "").repeats().text;

type Input = OptionDeclaration<InputOptions>;

static OWN: [(&[InputFormat], &[Input]); 20] = [
    (
        &[Parquet, Csv, TfRecord, ArrayRecord, Orc, Avro, Json, Arrow, HiveText, LibSvm, Delta, Iceberg],
        &[Input::new("format", "FORMAT", |options, value| {
            if value.eq_ignore_ascii_case("tsv") {
                options.csv.delimiter.get_or_insert(b'\t');
            }
            let names: Vec<_> = InputFormat::NAMES.iter().map(|(name, _)| *name).collect();
            let format = InputFormat::parse(value);
            options.format = Some(format.ok_or_else(|| format!("one of {}", names.join(", ")))?);
            Ok(())
        })
        .help(
            "`parquet`, `csv`, `tsv`, `tfrecord`, `array_record`, `orc`, `avro`, `json`, `arrow`, \
                 `hive-text`, `libsvm`, `delta` or `iceberg`",
            "detected",
        )],
    ),
    (
        &[Parquet, Csv, TfRecord, ArrayRecord, Orc, Avro, Json, Arrow, HiveText, LibSvm],
        &[
            Input::new("partitions", "COLUMNS", |options, value| {
                set(&mut options.partitions, columns(value).map(|columns| Some(Arc::new(columns.path_schema()))))
            })
            .help(
                "types of the columns in the path, as Hive declares them: `dt DATE`",
                "`BIGINT` for whole numbers, else text",
            ),
            Input::new("bare_files", "", |options, value| set(&mut options.bare_files, boolean(value))).help(
                "`true` reads the files of a [table \
                 format](limits.md#directories-that-belong-to-a-table-format) as they are, \
                 deleted rows too, with a warning",
                "`false`",
            ),
        ],
    ),
    (
        &[Csv],
        &[
            Input::new("delimiter", "CHAR", |options, value| {
                set(&mut options.csv.delimiter, character(value).map(Some))
            })
            .help("between cells: one character, `tab` or `\\x01`", "`,`"),
            Input::new("quote", "CHAR", |options, value| set(&mut options.csv.quote, optional_character(value)))
                .help("around cells: one character, or `none`", "`\"`"),
            Input::new("escape", "CHAR", |options, value| set(&mut options.csv.escape, optional_character(value)))
                .help("removes the meaning of the next character inside quotes", ""),
            Input::new("comment", "CHAR", |options, value| set(&mut options.csv.comment, optional_character(value)))
                .help("starts a line that is skipped", ""),
            Input::new("terminator", "CHAR", |options, value| {
                set(&mut options.csv.terminator, character(value).map(Some))
            })
            .help("ends a record: one character", "any line end")
            .excludes(&["comment"]),
            Input::new("header", "", |options, value| set(&mut options.csv.header, boolean(value)))
                .help("whether the first record names the columns", "`true`")
                .aliases(&["has_header"]),
            Input::new("decimal", "CHAR", |options, value| {
                set(&mut options.csv.decimal, one_of(value, &[(".", b'.'), (",", b',')]))
            })
            .help("the decimal separator: `.`, or `,` for numbers such as `1.234,56`", "`.`")
            .aliases(&["decimal_separator"]),
            Input::new("null", "TEXT", |options, value| {
                options.csv.nulls.get_or_insert_default().push(value.to_owned());
                Ok(())
            })
            .help("a cell with this text is null", "an empty cell without quotes")
            .aliases(&["null_value"])
            .repeats(),
            Input::new("skip_lines", "N", |options, value| set(&mut options.csv.skip_lines, lines(value)))
                .help("lines before the header of each file", "0"),
            Input::new("short_rows", "WORD", |options, value| {
                set(&mut options.csv.short_rows, one_of(value, &[("null", true), ("error", false)]))
            })
            .help("`null`, or `error`, for records that lack cells at their end", "`error`"),
            Input::new("trim", "", |options, value| set(&mut options.csv.trim, boolean(value)))
                .help("`true` removes blanks around cells", "`false`"),
            Input::new("record_limit", "SIZE", |options, value| {
                let limit = bytes(value).ok().and_then(|limit| usize::try_from(limit.get()).ok());
                let limit = limit.filter(|limit| *limit <= MAX_RECORD_LIMIT);
                options.csv.record_limit = limit.ok_or("a size up to 256MiB, such as 64MiB")?;
                Ok(())
            })
            .help("the longest record, up to `256MiB`", "`16MiB`"),
        ],
    ),
    (
        &[Csv, Json],
        &[
            Input::new("types", "WORD", |options, value| {
                let types = one_of(value, &[("infer", Types::Infer), ("string", Types::String)])?;
                (options.csv.types, options.json.types) = (types, types);
                Ok(())
            })
            .help("`infer`, or `string` for the text as it is", "`infer`"),
            Input::new("infer_rows", "N", |options, value| {
                let rows = number_or_all(value, 0)?.unwrap_or(usize::MAX);
                (options.csv.infer_rows, options.json.infer_rows) = (rows, rows);
                Ok(())
            })
            .help("records of each file that decide the types, or `all`", "CSV 1000, JSON 10000"),
            Input::new("newlines_in_values", "", |options, value| {
                let newlines = boolean(value)?;
                (options.csv.newlines_in_values, options.json.newlines_in_values) = (newlines, Some(newlines));
                Ok(())
            })
            .help("`false` lets all cores read parts of one file", "CSV `true`, JSON as the first objects show"),
        ],
    ),
    (
        &[Csv, Json, HiveText, LibSvm],
        &[
            Input::new("encoding", "NAME", |options, value| {
                let encoding = encoding(value)?;
                (options.csv.encoding, options.json.encoding) = (encoding, encoding);
                (options.hive_text.encoding, options.libsvm.encoding) = (encoding, encoding);
                Ok(())
            })
            .help(
                "`utf-8`, `utf-16`, `utf-32`, `latin1`, `windows-1252`, `shift_jis`, `gbk` or \
                 another encoding of the web",
                "`utf-8`",
            )
            .aliases(&["serialization.encoding"]),
            Input::new("compression", "NAME", |options, value| {
                let compression = compression(value)?;
                (options.csv.compression, options.json.compression) = (compression, compression);
                (options.hive_text.compression, options.libsvm.compression) = (compression, compression);
                Ok(())
            })
            .help("`auto`, `none`, `gzip`, `bzip2`, `xz`, `zstd` or `zlib`", "`auto`"),
        ],
    ),
    (
        &[HiveText],
        &[
            Input::new("delimiter", "TEXT", |options, value| set(&mut options.hive_text.delimiter, delimiter(value)))
                .help("between cells: `\\t`, `\\001`, `\\x01`, or one or several characters", "`\\001`")
                .aliases(&["field.delim", "serialization.format"]),
            Input::new("collection_delimiter", "CHAR", |options, value| {
                set(&mut options.hive_text.collection_delimiter, byte(value))
            })
            .help("between elements, entries and fields", "`\\002`")
            // Hive itself misspelled this property for years.
            .aliases(&["collection.delim", "colelction.delim"]),
            Input::new("map_key_delimiter", "CHAR", |options, value| {
                set(&mut options.hive_text.map_key_delimiter, byte(value))
            })
            .help("between a key and its value", "`\\003`")
            .aliases(&["mapkey.delim"]),
            Input::new("escape", "CHAR", |options, value| set(&mut options.hive_text.escape, optional_byte(value)))
                .help("removes the meaning of the next character", "")
                .aliases(&["escape.delim"]),
            Input::new("null", "TEXT", |options, value| {
                value.clone_into(&mut options.hive_text.null);
                Ok(())
            })
            .help("the text that means null", "`\\N`")
            .aliases(&["null_value", "serialization.null.format"]),
            Input::new("skip_header", "N", |options, value| set(&mut options.hive_text.skip_header, lines(value)))
                .help("lines at the start of each file that are not rows", "0")
                .aliases(&["skip.header.line.count"]),
            Input::new("skip_footer", "N", |options, value| {
                let footer = lines(value)?;
                if footer > MAX_FOOTER {
                    return Err(format!("a number of lines, at most {MAX_FOOTER}"));
                }
                options.hive_text.skip_footer = footer;
                Ok(())
            })
            .help("lines at the end of each file that are not rows", "0")
            .aliases(&["skip.footer.line.count"]),
            // Hive itself accepts nothing else.
            Input::new("line.delim", "CHAR", |_, value| match value {
                "\n" | "\\n" | "\\012" | "\\x0a" | "10" => Ok(()),
                _ => Err("\\n: lines end with LF, CR or CR LF".to_owned()),
            }),
            Input::new("on_error", "WORD", |options, value| {
                set(
                    &mut options.hive_text.on_error,
                    one_of(value, &[("null", OnError::Null), ("error", OnError::Error)]),
                )
            })
            .help("`null`, with a warning, or `error`, for cells that do not fit", "`null`"),
            Input::new("serde", "NAME", |options, value| {
                let names = [("lazy", HiveSerde::Lazy), ("opencsv", HiveSerde::OpenCsv), ("json", HiveSerde::Json)];
                set(&mut options.hive_text.serde, one_of(value, &names))
            })
            .help("what a line is: `lazy`, `opencsv` or `json` ([SerDes](inputs.md#serdes-of-hive))", "`lazy`"),
            Input::new("separator_char", "CHAR", |options, value| {
                set(&mut options.hive_text.open_csv.separator, byte(value))
            })
            .help("of `opencsv`: between cells", "`,`"),
            Input::new("quote_char", "CHAR", |options, value| {
                set(&mut options.hive_text.open_csv.quote, byte(value))
            })
            .help("of `opencsv`: around cells", "`\"`"),
            Input::new("escape_char", "CHAR", |options, value| {
                // Hive takes a quote here for its default.
                let escape = byte(value).map(|escape| if escape == b'"' { b'\\' } else { escape });
                set(&mut options.hive_text.open_csv.escape, escape)
            })
            .help("of `opencsv`: before a quote or itself", "`\\`"),
            Input::new("json_binary", "WORD", |options, value| {
                let words = [("base64", JsonBinary::Base64), ("rawstring", JsonBinary::RawString)];
                set(&mut options.hive_text.json_binary, one_of(value, &words))
            })
            .help("of `json`: bytes are `base64` or `rawstring`", "`base64`"),
        ],
    ),
    (
        &[HiveText, Parquet, Orc, Avro, Arrow],
        &[Input::new("schema", "COLUMNS", |options, value| {
            set(&mut options.hive_text.columns, columns(value).map(Some))
        })
        .help(
            "the columns as Hive declares them: `id BIGINT, tags ARRAY<STRING>`",
            "those of the files; of Hive text `_col0`, `_col1` and so on",
        )],
    ),
    (
        &[Parquet, Orc, Avro, Arrow, Csv, Json],
        &[Input::new("names", "WORD", |options, value| {
            set(
                &mut options.names,
                one_of(value, &[("exact", NameMatching::Exact), ("insensitive", NameMatching::Insensitive)]),
            )
        })
        .help(
            "`insensitive`: the case of column names does not matter; the table has them in \
                 lower case, or as declared",
            "`exact`",
        )],
    ),
    (
        &[Parquet, Orc, Avro, Arrow, TfRecord, ArrayRecord],
        &[Input::new("types", "COLUMNS", |options, value| {
            set(&mut options.types, columns(value).map(|columns| Some(Arc::new(columns.schema()))))
        })
        .help("types of some columns, as Hive declares them: `x DOUBLE`", "one that holds the values of all files")],
    ),
    (
        &[Parquet, Orc, Avro, Delta, Iceberg],
        &[Input::new("calendar", "WORD", |options, value| set(&mut options.calendar, calendar(value))).help(
            "of [old dates](calendars.md) in files that do not record theirs: `proleptic`, \
                 `hybrid` or `hybrid:ZONE`",
            "`auto`",
        )],
    ),
    (
        &[Parquet, Orc, Avro, HiveText],
        &[Input::new("write_ids", "IDS", |options, value| set(&mut options.write_ids, WriteIds::parse(value).map(Some)))
            .help(
                "the committed write ids of a [transactional table](hive-acid.md) of Hive: \
                 `TABLE:HIGHEST:LOWEST-OPEN:OPEN:ABORTED`",
                "",
            )
            .excludes(&["bare_files"])],
    ),
    (
        &[Parquet, Orc],
        &[Input::new("timestamps", "UNIT", |options, value| {
            let unit = timestamp_unit(value)?;
            (options.parquet.timestamps, options.orc.timestamps) = (unit, unit);
            Ok(())
        })
        .help(
            "`ns`, `us`, `cut`, which is `us` and cuts finer timestamps with a warning, or `auto`, which is `us` where \
                 values are beyond `ns` ([INT96](types.md#parquet), [ORC](types.md#orc))",
            "`auto`",
        )],
    ),
    (
        &[Orc],
        &[
            Input::new("by_position", "", |options, value| set(&mut options.orc.by_position, boolean(value)))
                .help("whether declared columns are found by their position, as in Hive, not by their name", "`false`")
                .aliases(&["orc.force.positional.evolution"]),
        ],
    ),
    (
        &[Parquet],
        &[
            Input::new("binary", "COL,…", |options, value| {
                options.parquet.binary.extend(value.split(',').map(|column| column.trim().to_owned()));
                Ok(())
            })
            .help("columns whose text is read as bytes: `a, b`", "")
            .repeats(),
            Input::new("crc", "WORD", |options, value| {
                set(&mut options.parquet.skip_crc, one_of(value, &[("verify", false), ("skip", true)]))
            })
            .help("`verify`, or `skip` checksums of pages", "`verify`"),
        ],
    ),
    (
        &[Delta],
        &[Input::new("version", "N", |options, value| {
            let version = value.parse().map_err(|_| "the number of a version")?;
            options.delta.version = Some(version);
            Ok(())
        })
        .help("the version of the table", "the newest")
        .excludes(&["timestamp"])],
    ),
    (
        &[Delta, Iceberg],
        &[Input::new("timestamp", "TIME", |options, value| {
            let time = travel::parse(value).ok_or("a time, such as 2026-01-31 or 2026-01-31T12:00:00Z")?;
            (options.delta.timestamp, options.iceberg.timestamp) = (Some(time), Some(time));
            Ok(())
        })
        .help("the version that was the newest at a time, in UTC unless it has a zone", "")],
    ),
    (
        &[Iceberg],
        &[
            Input::new("snapshot", "ID", |options, value| {
                let snapshot = value.parse().map_err(|_| "the id of a snapshot")?;
                options.iceberg.snapshot = Some(snapshot);
                Ok(())
            })
            .help("the snapshot of the table", "the newest")
            .excludes(&["timestamp", "branch", "tag"]),
            Input::new("branch", "NAME", |options, value| {
                options.iceberg.branch = Some(value.to_owned());
                Ok(())
            })
            .help("the branch whose newest snapshot is read", "`main`")
            .excludes(&["timestamp", "tag"]),
            Input::new("tag", "NAME", |options, value| {
                options.iceberg.tag = Some(value.to_owned());
                Ok(())
            })
            .help("the tag of the snapshot", "")
            .excludes(&["timestamp"]),
        ],
    ),
    (
        &[LibSvm],
        &[
            Input::new("index_base", "BASE", |options, value| {
                let bases = [("0", IndexBase::Zero), ("1", IndexBase::One), ("as-written", IndexBase::AsWritten)];
                options.libsvm.index_base = one_of(value, &bases)?;
                Ok(())
            })
            .help("the number of the first feature: `0`, `1` or `as-written`", "`as-written`"),
            Input::new("features", "N", |options, value| {
                let count = value.parse().ok().filter(|count| (1..=MAX_FEATURES).contains(count));
                let expected = || format!("the number of features, at most {MAX_FEATURES}");
                options.libsvm.features = Some(count.ok_or_else(expected)?);
                Ok(())
            })
            .help("one list of that many values (at most 16777216), instead of indices and values", ""),
            Input::new("multilabel", "", |options, value| set(&mut options.libsvm.multilabel, boolean(value)))
                .help("whether lines have several labels, or none", "`false`"),
            Input::new("qid", "", |options, value| set(&mut options.libsvm.qid, boolean(value).map(Some)))
                .help("whether lines have queries", "as the first lines show"),
        ],
    ),
    (
        &[TfRecord, ArrayRecord, Arrow],
        &[Input::new("split", "NAME", |options, value| {
            match value.trim() {
                "" => return Err("the name of a split".to_owned()),
                name => options.tfrecord.split = Some(name.to_owned()),
            }
            Ok(())
        })
        .help("the [split](reading-tfrecord.md#directories-of-tensorflow-datasets) to read, also of a [Hugging Face](inputs.md#hugging-face-data-sets) directory", "all")],
    ),
    (
        &[TfRecord, ArrayRecord],
        &[
            Input::new("schema", "URL", |options, value| {
                options.tfrecord.schema_file = Some(value.into());
                Ok(())
            })
            .help(
                "a `schema.pbtxt` with the columns",
                "as in the manifest, in a sidecar, or [as the records \
                 are](reading-tfrecord.md#where-the-columns-come-from)",
            ),
        ],
    ),
];

/// The limit of Hive (`hive.file.max.footer`).
const MAX_FOOTER: usize = 100;

/// A dense row with this many features has 128 MiB.
const MAX_FEATURES: usize = 1 << 24;
