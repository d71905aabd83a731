//! The properties of Hive tables, and what they mean for a reader.

use super::classes::Class;
use crate::error::HiveRefusal;
use crate::input_format::InputFormat;

/// Where a property is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PropertySource {
    /// It is one of the SerDe, for which it has a meaning.
    Serde,
    /// It is one of the table. Users and other systems keep anything there.
    Table,
}

/// What a property means for a reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// An option of the format.
    Option(&'static str, String),
    None,
    /// No reader has a property of this name.
    Unknown,
}

/// How a known property is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It is an option of this key.
    As(&'static str),
    /// Its value is a byte or a text, which is quoted as the option expects.
    Delimiter(&'static str),
    /// It is refused unless it is empty or `false`.
    Refused(Option<&'static str>),
    /// It is refused unless it has this value or is empty.
    Only(&'static str, Option<&'static str>),
    /// It has no meaning for a reader.
    None,
}

/// Which readers have a property.
type Readers = fn(Class) -> bool;

const TEXT: Readers = |class| class.is_text() || is_other(class);
/// The readers whose lines are cells.
const CELLS: Readers = |class| matches!(class, Class::Lazy | Class::MultiDelimit) || is_other(class);
const LAZY: Readers = |class| class == Class::Lazy || is_other(class);
const OPEN_CSV: Readers = |class| class == Class::OpenCsv;
const JSON: Readers = |class| class == Class::Json;
const ORC: Readers = |class| matches!(class, Class::Orc | Class::Named(InputFormat::Orc));
const PARQUET: Readers = |class| matches!(class, Class::Parquet | Class::Named(InputFormat::Parquet));
const AVRO: Readers = |class| matches!(class, Class::Avro | Class::Named(InputFormat::Avro));
const ALL: Readers = |_| true;

/// Whether a user has named a format that Hive does not have. An option that it does not have either is an error.
fn is_other(class: Class) -> bool {
    matches!(class, Class::Named(format) if !matches!(format, InputFormat::Orc | InputFormat::Parquet | InputFormat::Avro))
}

const TIMESTAMPS: Option<&str> = Some("timestamps are read as yyyy-MM-dd HH:mm:ss.fffffffff only");
const UTF_8: Option<&str> = Some("Hive's JsonSerDe reads UTF-8, whatever the property names");
const DEFAULTS: Option<&str> = Some("columns are those of the table, and values are never those of a schema");

/// The properties, each with the readers that have it. The first entry that fits counts.
const PROPERTIES: &[(&str, Readers, Use)] = &[
    ("field.delim", CELLS, Use::Delimiter("field.delim")),
    ("collection.delim", CELLS, Use::Delimiter("collection.delim")),
    // Hive itself misspelled this property for years.
    ("colelction.delim", CELLS, Use::Delimiter("colelction.delim")),
    ("mapkey.delim", CELLS, Use::Delimiter("mapkey.delim")),
    ("escape.delim", CELLS, Use::Delimiter("escape.delim")),
    ("line.delim", CELLS, Use::As("line.delim")),
    ("serialization.format", LAZY, Use::Delimiter("serialization.format")),
    ("serialization.format", ALL, Use::None),
    ("serialization.null.format", CELLS, Use::As("serialization.null.format")),
    ("skip.header.line.count", TEXT, Use::As("skip.header.line.count")),
    ("skip.footer.line.count", TEXT, Use::As("skip.footer.line.count")),
    ("serialization.encoding", JSON, Use::Only("UTF-8", UTF_8)),
    ("serialization.encoding", TEXT, Use::As("serialization.encoding")),
    ("serialization.last.column.takes.rest", CELLS, Use::Refused(None)),
    ("timestamp.formats", CELLS, Use::Refused(TIMESTAMPS)),
    ("timestamp.formats", JSON, Use::Refused(TIMESTAMPS)),
    ("separatorChar", OPEN_CSV, Use::Delimiter("separator_char")),
    ("quoteChar", OPEN_CSV, Use::Delimiter("quote_char")),
    ("escapeChar", OPEN_CSV, Use::Delimiter("escape_char")),
    ("json.binary.format", JSON, Use::As("json_binary")),
    ("json.stringify.complex.fields", JSON, Use::Only("true", None)),
    ("text.ignore.extra.fields", JSON, Use::Only("true", None)),
    ("text.null.empty.line", JSON, Use::Refused(None)),
    ("orc.force.positional.evolution", ORC, Use::As("by_position")),
    ("orc.force.positional.evolution.level", ORC, Use::Only("1", None)),
    ("orc.encrypt", ORC, Use::Refused(Some("its columns are encrypted"))),
    ("parquet.column.index.access", PARQUET, Use::Refused(Some("columns of Parquet are found by their names"))),
    ("avro.schema.literal", AVRO, Use::Refused(DEFAULTS)),
    ("avro.schema.url", AVRO, Use::Refused(DEFAULTS)),
    ("projection.enabled", ALL, Use::Refused(Some("its partitions are not listed anywhere"))),
];

/// Properties without a meaning for a reader: statistics, marks of writers, and settings of writers. A name that ends with
/// `*` is the start of others.
const HARMLESS: &[&str] = &[
    "EXTERNAL",
    "COLUMN_STATS_ACCURATE",
    "STATS_GENERATED*",
    "DO_NOT_UPDATE_STATS",
    "TRANSLATED_TO_EXTERNAL",
    "OBJCAPABILITIES",
    "auto.purge",
    "bucketing_version",
    "bucket_count",
    "columns",
    "columns.*",
    "column.name.delimiter",
    "comment",
    "classification",
    "compressionType",
    "discover.partitions",
    "external.table.purge",
    "file.inputformat",
    "file.outputformat",
    "hive.*",
    "immutable",
    "impala.*",
    "last_modified_by",
    "last_modified_time",
    "location",
    "name",
    "numFiles*",
    "numPartitions",
    "numRows",
    "numTotalRows",
    "owner",
    "partition.retention.period",
    "partition_columns*",
    "presto_*",
    "projection.*",
    "rawDataSize",
    "serialization.ddl",
    "serialization.lib",
    // It concerns writing: without an escape, readers do not know it.
    "serialization.escape.crlf",
    "spark.sql.*",
    "totalSize",
    "transactional",
    "transactional_properties",
    "transient_lastDdlTime",
    "trino_*",
    "typeOfData",
    "orc.bloom.filter.*",
    "orc.column.encoding.direct",
    "orc.compress*",
    "orc.create.index",
    "orc.row.index.stride",
    "orc.schema.evolution.case.sensitive",
    "orc.stripe.size",
    "parquet.block.size",
    "parquet.compression",
    "parquet.dictionary.page.size",
    "parquet.enable.dictionary",
    "parquet.page.size",
    "parquet.writer.version",
    "avro.codec",
    "avro.output.codec",
];

/// Properties that Spark keeps with those of the SerDe.
const OF_SPARK: [&str; 3] = ["path", "mergeSchema", "compression"];

/// Starts of the names of properties that readers have. Whatever is not known of them could change values.
const OF_READERS: [&str; 13] = [
    "avro.",
    "collection.",
    "csv.",
    "escape",
    "field.",
    "input.",
    "json.",
    "mapkey.",
    "orc.",
    "parquet.",
    "serialization.",
    "skip.",
    "text.",
];

/// Returns what a property means.
pub(super) fn meaning(class: Class, source: PropertySource, key: &str, value: &str) -> Result<Meaning, HiveRefusal> {
    let refused = |reason| HiveRefusal::Property { key: key.to_owned(), value: value.to_owned(), reason };
    let is_false = value.is_empty() || value.eq_ignore_ascii_case("false");
    // Names differ by case, in Hive, too.
    let found = PROPERTIES.iter().find(|(known, readers, _)| *known == key && readers(class));
    Ok(match found.map(|(_, _, found)| *found) {
        Some(Use::As(option)) => Meaning::Option(option, value.to_owned()),
        Some(Use::Delimiter(option)) => {
            Meaning::Option(option, quoted(class, key, value).ok_or_else(|| refused(None))?)
        }
        Some(Use::Refused(reason)) if !is_false => return Err(refused(reason)),
        Some(Use::Only(only, reason)) if !value.is_empty() && !only.eq_ignore_ascii_case(value) => {
            return Err(refused(reason));
        }
        Some(_) => Meaning::None,
        // Properties of other readers.
        None if PROPERTIES.iter().any(|(known, ..)| *known == key) || is_harmless(key) => Meaning::None,
        None if source == PropertySource::Serde && OF_SPARK.contains(&key) => Meaning::None,
        None if source == PropertySource::Serde || is_of_readers(key) => {
            return Err(HiveRefusal::UnknownProperty { key: key.to_owned() });
        }
        None => Meaning::Unknown,
    })
}

fn is_harmless(key: &str) -> bool {
    HARMLESS.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => key.starts_with(start),
        None => *known == key,
    })
}

fn is_of_readers(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    OF_READERS.iter().any(|start| key.starts_with(start))
}

/// Returns a delimiter as the options expect it: there a digit is the number of a byte, and `\` begins an escape. `None` if
/// an option cannot express it.
fn quoted(class: Class, key: &str, value: &str) -> Option<String> {
    let mut chars = value.chars();
    let first = match (class, chars.next(), chars.next()) {
        // Of OpenCSVSerde, only the first character counts.
        (Class::OpenCsv, first, _) => first?,
        (Class::MultiDelimit, Some(first), None) if key == "field.delim" => first,
        (Class::MultiDelimit, ..) if key == "field.delim" && value.parse::<i64>().is_ok() => return None,
        (Class::MultiDelimit, ..) if key == "field.delim" => return Some(value.replace('\\', "\\\\")),
        _ => return Some(value.to_owned()),
    };
    first.is_ascii().then(|| format!("\\x{:02x}", u32::from(first)))
}

/// Checks the options of all properties together.
pub(super) fn check_all(class: Class, options: &mut Vec<(&'static str, String)>) -> Result<(), HiveRefusal> {
    let value = |options: &[(&str, String)], wanted| {
        options.iter().find(|(key, _)| *key == wanted).map(|(_, value): &(&str, String)| value.clone())
    };
    let delimiter = value(options, "field.delim");
    // It counts only without the other.
    if delimiter.is_some() {
        options.retain(|(key, _)| *key != "serialization.format");
    }
    match class {
        Class::MultiDelimit if delimiter.is_none_or(|delimiter| delimiter.is_empty()) => {
            Err(HiveRefusal::MissingProperty { key: "field.delim" })
        }
        Class::Lazy => {
            // Hive takes the first of several characters.
            let delimiter = value(options, "field.delim").or_else(|| value(options, "serialization.format"));
            match delimiter.filter(|delimiter| is_several(delimiter)) {
                Some(value) => {
                    let reason = Some("LazySimpleSerDe takes one character");
                    Err(HiveRefusal::Property { key: "field.delim".to_owned(), value, reason })
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Whether a delimiter has several characters.
fn is_several(delimiter: &str) -> bool {
    let is_number = delimiter.starts_with('\\') || delimiter.parse::<i64>().is_ok();
    delimiter.chars().count() > 1 && !is_number
}
