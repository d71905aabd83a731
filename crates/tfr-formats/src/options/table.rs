//! The options of inputs, each once.

use std::sync::Arc;

use arrow_tfrecord::MappingOptions;
use datafusion_tfrecord::ReadOptions;
use datafusion_tfrecord::options::values::{boolean, bytes, number_or_all, one_of};
use datafusion_tfrecord::options::{MAPPING, OptionDeclaration, OptionText, READING};

use super::InputOptions;
use super::values::{
    byte, calendar, character, columns, compression, delimiter, encoding, lines, optional_byte, optional_character,
    timestamp_unit,
};
use crate::csv::{MAX_RECORD_LIMIT, Types};
use crate::detect::InputFormat;
use crate::hive_text::OnError;
use crate::libsvm::IndexBase;
use crate::names::NameMatching;

/// An option of inputs, and the formats that have it.
#[derive(Clone, Copy, Debug)]
pub struct InputOption {
    /// The formats that have it.
    pub formats: &'static [InputFormat],
    declared: Declared,
}

/// What the option is set on.
#[derive(Clone, Copy, Debug)]
enum Declared {
    Input(&'static OptionDeclaration<InputOptions>),
    Reading(&'static OptionDeclaration<ReadOptions>),
    Mapping(&'static OptionDeclaration<MappingOptions>),
}

impl InputOption {
    /// Its name and its help.
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

/// Returns the options of inputs, those of the same formats next to each other. A format has options of the same name once.
pub fn input_options() -> impl Iterator<Item = InputOption> {
    let own = OWN.iter().flat_map(|(formats, options)| {
        options.iter().map(|option| InputOption { formats, declared: Declared::Input(option) })
    });
    let mapping = MAPPING.iter().map(Declared::Mapping);
    let tfrecord = mapping.chain(READING.iter().map(Declared::Reading));
    own.chain(tfrecord.map(|declared| InputOption { formats: &[TfRecord], declared }))
}

/// The option of `--table` alone, whose value is a location.
pub const PATH: OptionText =
    OptionDeclaration::<()>::new("path", "URL", "one more location", |(), _| Ok(())).repeats().text;

use InputFormat::{Arrow, Avro, Csv, HiveText, Json, LibSvm, Orc, Parquet, TfRecord};

type Option = OptionDeclaration<InputOptions>;

static OWN: [(&[InputFormat], &[Option]); 12] = [
    (
        &[Parquet, Csv, TfRecord, Orc, Avro, Json, Arrow, HiveText, LibSvm],
        &[
            Option::new(
                "format",
                "FORMAT",
                "`parquet`, `csv`, `tsv`, `tfrecord`, `orc`, `avro`, `json`, `arrow`, `hive-text` or `libsvm`",
                |options, value| {
                    if value.eq_ignore_ascii_case("tsv") {
                        options.csv.delimiter.get_or_insert(b'\t');
                    }
                    let names: Vec<_> = InputFormat::NAMES.iter().map(|(name, _)| *name).collect();
                    let format = InputFormat::parse(value);
                    options.format = Some(format.ok_or_else(|| format!("one of {}", names.join(", ")))?);
                    Ok(())
                },
            )
            .default("detected"),
            Option::new(
                "partitions",
                "COLUMNS",
                "types of the columns in the path, as Hive declares them: `dt DATE`",
                |options, value| {
                    options.partitions = Some(Arc::new(columns(value)?.schema()));
                    Ok(())
                },
            )
            .default("`BIGINT` for whole numbers, else text"),
            Option::new(
                "bare_files",
                "",
                "`true` reads the files of a [table format](limits.md#directories-that-belong-to-a-table-format) as they are, \
                 deleted rows too, with a warning",
                |options, value| {
                    options.bare_files = boolean(value)?;
                    Ok(())
                },
            )
            .default("`false`"),
        ],
    ),
    (
        &[Csv],
        &[
            Option::new("delimiter", "CHAR", "between cells: one character, `tab` or `\\x01`", |options, value| {
                options.csv.delimiter = Some(character(value)?);
                Ok(())
            })
            .default("`,`"),
            Option::new("quote", "CHAR", "around cells: one character, or `none`", |options, value| {
                options.csv.quote = optional_character(value)?;
                Ok(())
            })
            .default("`\"`"),
            Option::new(
                "escape",
                "CHAR",
                "removes the meaning of the next character inside quotes",
                |options, value| {
                    options.csv.escape = optional_character(value)?;
                    Ok(())
                },
            ),
            Option::new("comment", "CHAR", "starts a line that is skipped", |options, value| {
                options.csv.comment = optional_character(value)?;
                Ok(())
            }),
            Option::new("terminator", "CHAR", "ends a record: one character", |options, value| {
                options.csv.terminator = Some(character(value)?);
                Ok(())
            })
            .default("any line end")
            .excludes(&["comment"]),
            Option::new("header", "", "whether the first record names the columns", |options, value| {
                options.csv.header = boolean(value)?;
                Ok(())
            })
            .aliases(&["has_header"])
            .default("`true`"),
            Option::new("null", "TEXT", "a cell with this text is null", |options, value| {
                options.csv.nulls.get_or_insert_default().push(value.to_owned());
                Ok(())
            })
            .aliases(&["null_value"])
            .default("an empty cell without quotes")
            .repeats(),
            Option::new("skip_lines", "N", "lines before the header of each file", |options, value| {
                options.csv.skip_lines = lines(value)?;
                Ok(())
            })
            .default("0"),
            Option::new(
                "short_rows",
                "WORD",
                "`null`, or `error`, for records that lack cells at their end",
                |options, value| {
                    options.csv.short_rows = one_of(value, &[("null", true), ("error", false)])?;
                    Ok(())
                },
            )
            .default("`error`"),
            Option::new("trim", "", "`true` removes blanks around cells", |options, value| {
                options.csv.trim = boolean(value)?;
                Ok(())
            })
            .default("`false`"),
            Option::new("record_limit", "SIZE", "the longest record, up to `256MiB`", |options, value| {
                let limit = bytes(value).ok().and_then(|limit| usize::try_from(limit.get()).ok());
                let limit = limit.filter(|limit| *limit <= MAX_RECORD_LIMIT);
                options.csv.record_limit = limit.ok_or("a size up to 256MiB, such as 64MiB")?;
                Ok(())
            })
            .default("`16MiB`"),
        ],
    ),
    (
        &[Csv, Json],
        &[
            Option::new("types", "WORD", "`infer`, or `string` for the text as it is", |options, value| {
                let types = one_of(value, &[("infer", Types::Infer), ("string", Types::String)])?;
                (options.csv.types, options.json.types) = (types, types);
                Ok(())
            })
            .default("`infer`"),
            Option::new(
                "infer_rows",
                "N",
                "records of each file that decide the types, or `all`",
                |options, value| {
                    let rows = number_or_all(value, 0)?.unwrap_or(usize::MAX);
                    (options.csv.infer_rows, options.json.infer_rows) = (rows, rows);
                    Ok(())
                },
            )
            .default("CSV 1000, JSON 10000"),
            Option::new(
                "newlines_in_values",
                "",
                "`false` lets all cores read parts of one file",
                |options, value| {
                    let newlines = boolean(value)?;
                    (options.csv.newlines_in_values, options.json.newlines_in_values) = (newlines, Some(newlines));
                    Ok(())
                },
            )
            .default("CSV `true`, JSON as the first objects show"),
        ],
    ),
    (
        &[Csv, Json, HiveText, LibSvm],
        &[
            Option::new(
                "encoding",
                "NAME",
                "`utf-8`, `utf-16`, `utf-32`, `latin1`, `windows-1252`, `shift_jis`, `gbk` or another encoding of the web",
                |options, value| {
                    let encoding = encoding(value)?;
                    options.csv.encoding = encoding;
                    options.json.encoding = encoding;
                    options.hive_text.encoding = encoding;
                    options.libsvm.encoding = encoding;
                    Ok(())
                },
            )
            .aliases(&["serialization.encoding"])
            .default("`utf-8`"),
            Option::new(
                "compression",
                "NAME",
                "`auto`, `none`, `gzip`, `bzip2`, `xz`, `zstd` or `zlib`",
                |options, value| {
                    let compression = compression(value)?;
                    options.csv.compression = compression;
                    options.json.compression = compression;
                    options.hive_text.compression = compression;
                    options.libsvm.compression = compression;
                    Ok(())
                },
            )
            .default("`auto`"),
        ],
    ),
    (
        &[HiveText],
        &[
            Option::new(
                "delimiter",
                "TEXT",
                "between cells: `\\t`, `\\001`, `\\x01`, or one or several characters",
                |options, value| {
                    options.hive_text.delimiter = delimiter(value)?;
                    Ok(())
                },
            )
            .aliases(&["field.delim", "serialization.format"])
            .default("`\\001`"),
            Option::new(
                "collection_delimiter",
                "CHAR",
                "between elements, entries and fields",
                |options, value| {
                    options.hive_text.collection_delimiter = byte(value)?;
                    Ok(())
                },
            )
            // Hive itself misspelled the property for years.
            .aliases(&["collection.delim", "colelction.delim"])
            .default("`\\002`"),
            Option::new("map_key_delimiter", "CHAR", "between a key and its value", |options, value| {
                options.hive_text.map_key_delimiter = byte(value)?;
                Ok(())
            })
            .aliases(&["mapkey.delim"])
            .default("`\\003`"),
            Option::new("escape", "CHAR", "removes the meaning of the next character", |options, value| {
                options.hive_text.escape = optional_byte(value)?;
                Ok(())
            })
            .aliases(&["escape.delim"]),
            Option::new("null", "TEXT", "the text that means null", |options, value| {
                value.clone_into(&mut options.hive_text.null);
                Ok(())
            })
            .aliases(&["null_value", "serialization.null.format"])
            .default("`\\N`"),
            Option::new(
                "skip_header",
                "N",
                "lines at the start of each file that are not rows",
                |options, value| {
                    options.hive_text.skip_header = lines(value)?;
                    Ok(())
                },
            )
            .aliases(&["skip.header.line.count"])
            .default("0"),
            Option::new(
                "skip_footer",
                "N",
                "lines at the end of each file that are not rows",
                |options, value| {
                    let footer = lines(value)?;
                    if footer > MAX_FOOTER {
                        return Err(format!("a number of lines, at most {MAX_FOOTER}"));
                    }
                    options.hive_text.skip_footer = footer;
                    Ok(())
                },
            )
            .aliases(&["skip.footer.line.count"])
            .default("0"),
            // Hive itself accepts nothing else.
            Option::new("line.delim", "CHAR", "", |_, value| match value {
                "\n" | "\\n" | "\\012" | "\\x0a" | "10" => Ok(()),
                _ => Err("\\n: lines end with LF, CR or CR LF".to_owned()),
            }),
            Option::new(
                "schema",
                "COLUMNS",
                "the columns as Hive declares them: `id BIGINT, tags ARRAY<STRING>`",
                |options, value| {
                    options.hive_text.columns = Some(columns(value)?);
                    Ok(())
                },
            )
            .default("texts `_col0`, `_col1` and so on"),
            Option::new(
                "on_error",
                "WORD",
                "`null`, with a warning, or `error`, for cells that do not fit",
                |options, value| {
                    options.hive_text.on_error = one_of(value, &[("null", OnError::Null), ("error", OnError::Error)])?;
                    Ok(())
                },
            )
            .default("`null`"),
        ],
    ),
    (
        &[Parquet, Orc, Avro, Arrow, Csv, Json],
        &[Option::new(
            "names",
            "WORD",
            "`insensitive`: the case of column names does not matter; the table has them in lower case, or as declared",
            |options, value| {
                options.names =
                    one_of(value, &[("exact", NameMatching::Exact), ("insensitive", NameMatching::Insensitive)])?;
                Ok(())
            },
        )
        .default("`exact`")],
    ),
    (
        &[Parquet, Orc, Avro, Arrow],
        &[Option::new(
            "types",
            "COLUMNS",
            "types of some columns, as Hive declares them: `x DOUBLE`",
            |options, value| {
                options.types = Some(Arc::new(columns(value)?.schema()));
                Ok(())
            },
        )
        .default("one that holds the values of all files")],
    ),
    (
        &[Parquet, Orc, Avro],
        &[Option::new(
            "calendar",
            "WORD",
            "of [old dates](calendars.md) in files that do not record theirs: `proleptic`, `hybrid` or `hybrid:ZONE`",
            |options, value| {
                options.calendar = calendar(value)?;
                Ok(())
            },
        )
        .default("`auto`")],
    ),
    (
        &[Parquet, Orc],
        &[Option::new(
            "timestamps",
            "UNIT",
            "`ns`, `us` or `auto`, which is `us` where values are beyond `ns` ([INT96](types.md#parquet), [ORC](types.md#orc))",
            |options, value| {
                let unit = timestamp_unit(value)?;
                (options.parquet.timestamps, options.orc.timestamps) = (unit, unit);
                Ok(())
            },
        )
        .default("`auto`")],
    ),
    (
        &[Parquet],
        &[Option::new("binary", "COL,…", "columns whose text is read as bytes: `a, b`", |options, value| {
            options.parquet.binary.extend(value.split(',').map(|column| column.trim().to_owned()));
            Ok(())
        })
        .repeats()],
    ),
    (
        &[LibSvm],
        &[
            Option::new(
                "index_base",
                "BASE",
                "the number of the first feature: `0`, `1` or `as-written`",
                |options, value| {
                    let bases = [("0", IndexBase::Zero), ("1", IndexBase::One), ("as-written", IndexBase::AsWritten)];
                    options.libsvm.index_base = one_of(value, &bases)?;
                    Ok(())
                },
            )
            .default("`as-written`"),
            Option::new(
                "features",
                "N",
                "one list of that many values (at most 16777216), instead of indices and values",
                |options, value| {
                    let count = value.parse().ok().filter(|count| (1..=MAX_FEATURES).contains(count));
                    let expected = || format!("the number of features, at most {MAX_FEATURES}");
                    options.libsvm.features = Some(count.ok_or_else(expected)?);
                    Ok(())
                },
            ),
            Option::new("multilabel", "", "whether lines have several labels, or none", |options, value| {
                options.libsvm.multilabel = boolean(value)?;
                Ok(())
            })
            .default("`false`"),
            Option::new("qid", "", "whether lines have queries", |options, value| {
                options.libsvm.qid = Some(boolean(value)?);
                Ok(())
            })
            .default("as the first lines show"),
        ],
    ),
    (
        &[TfRecord],
        &[Option::new("schema", "URL", "a `schema.pbtxt` with the columns", |options, value| {
            options.tfrecord.schema_file = Some(value.into());
            Ok(())
        })
        .default("as in the manifest, in a sidecar, or [as the records are](reading-tfrecord.md#where-the-columns-come-from)")],
    ),
];

/// Hive holds no more lines back (`hive.file.max.footer`).
const MAX_FOOTER: usize = 100;

/// A row of all of them has 128 MiB.
const MAX_FEATURES: usize = 1 << 24;
