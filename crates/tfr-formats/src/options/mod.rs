//! How to read the files of a table, as `key=value`. What a format has of its own is in a file of its name.

mod calendar;
mod csv;
mod hive_text;
mod json;
mod libsvm;
mod names;
mod orc;
mod parquet;
mod tfrecord;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use datafusion_tfrecord::ReadOptions;

use crate::calendar::CalendarOption;
use crate::csv::CsvOptions;
use crate::error::{ErrorKind, Result};
use crate::hive_text::{HiveColumns, HiveTextOptions};
use crate::input_format::InputFormat;
use crate::json::JsonOptions;
use crate::libsvm::LibSvmOptions;
use crate::names::NameMatching;
use crate::orc::{OrcOptions, TimestampUnit};
use crate::parquet::ParquetOptions;
use crate::text::{Compression, Encoding};

/// How to read the files of a table.
///
/// | key | meaning (default) |
/// |---|---|
/// | `format` | `parquet`, `csv`, `tsv`, `tfrecord`, `orc`, `avro`, `json`, `arrow`, `hive-text` or `libsvm` (told from the content) |
/// | `partitions` | the types of columns that stand in the path, in Hive's DDL: `dt DATE, hour SMALLINT` (`BIGINT` where all values are whole numbers, else text) |
/// | `bare_files` | `true`: files that belong to a table of a table format, such as Delta Lake, are read as they are, with a warning: rows that the table no longer has may be among them (`false`) |
/// | `compression` | texts: `auto`, `none`, `gzip`, `bzip2`, `xz`, `zstd` or `zlib` (Hadoop's `deflate`); TFRecord: `auto`, `none`, `gzip` or `zlib` (told from the content) |
///
/// CSV:
///
/// | key | meaning (default) |
/// |---|---|
/// | `delimiter` | one ASCII character, `tab` or `\t` (`,`; tab for `.tsv` and `.tab` files) |
/// | `quote` | one ASCII character or `none` (`"`); inside quotes it is doubled, and text behind a closing one belongs to the cell: `"p"q` is `pq` |
/// | `escape` | one ASCII character that takes the meaning from the next one inside quotes (none) |
/// | `comment` | lines that start with this character are skipped (none) |
/// | `terminator` | one ASCII character that ends a record (LF, CR LF or CR) |
/// | `header` | `true` or `false`: whether the first record of each file names the columns (`true`) |
/// | `null` | a cell with this text is null; may be repeated; an empty one only without quotes, as `""` is an empty text, though no number (the empty cell) |
/// | `encoding` | `utf-8`, `utf-16`, `utf-32` (these also with `le` or `be`), `latin1`, or another one of the Encoding Standard: `windows-1252`, `shift_jis`, `gbk`, ... (`utf-8`); a byte order mark is no data |
/// | `types` | `infer`, or `string`: every column is text as it stands in the file, or null (`infer`) |
/// | `infer_rows` | how many records of each file decide its types, or `all` (1000) |
/// | `newlines_in_values` | `false` promises that no cell holds a line end, so that a large file is read in parts by all cores (`true`) |
/// | `skip_lines` | how many lines at the start of each file stand before the header (0) |
/// | `short_rows` | `null`: cells that a record lacks at its end are null; or `error` (`error`) |
/// | `trim` | `true`: spaces and tabs around cells, and around the quotes of cells, are no part of them (`false`) |
/// | `record_limit` | the most bytes of a record, which bounds the memory that a quote without an end takes: up to `256MiB` (`16MiB`) |
///
/// A first line `sep=;`, as Excel writes it, is no record, and names the delimiter unless the option does.
///
/// JSON, an object a line, or any number of objects behind each other, or one array of objects; `NaN`, `Infinity` and `-Infinity`
/// are numbers, as Python writes them:
///
/// | key | meaning (default) |
/// |---|---|
/// | `encoding` | as of CSV (`utf-8`) |
/// | `types` | `infer`, or `string`: every column is text, values that are no strings as their JSON (`infer`) |
/// | `infer_rows` | how many objects of each file decide its columns and their types, or `all` (10000) |
/// | `newlines_in_values` | `false` promises that every object has a line of its own, so that a large file is read in parts by all cores (as the first objects show) |
///
/// Hive text, also under the names that Hive has for them (`field.delim`, `serialization.null.format`,
/// `skip.header.line.count` and so on):
///
/// | key | meaning (default) |
/// |---|---|
/// | `delimiter` | between cells: one character, `\t`, `\001`, `\x01`, or several characters as for Hive's MultiDelimitSerDe (`\001`) |
/// | `collection_delimiter` | between elements, entries and fields of a cell (`\002`) |
/// | `map_key_delimiter` | between a key and its value (`\003`); deeper levels have `\004` and on, as in Hive |
/// | `escape` | one character that takes the meaning from the next one (none) |
/// | `null` | the text that stands for null (`\N`) |
/// | `skip_header`, `skip_footer` | how many lines at the start and at the end of each file are no rows (0) |
/// | `schema` | the columns in Hive's DDL, `id BIGINT, tags ARRAY<STRING>`; `timestamp` has microseconds, `timestamp(9)` nanoseconds, and a union is a struct of `tag`, `field0`, `field1`, ... (texts `_col0`, `_col1`, ..., as many as the first 1000 lines have) |
/// | `encoding` | as of CSV (`utf-8`) |
/// | `on_error` | `null`: cells are read as Hive reads them, null where they are no value of their type, with a warning; or `error` (`null`) |
///
/// libsvm:
///
/// | key | meaning (default) |
/// |---|---|
/// | `index_base` | `1` or `0`: the number of the first feature, which becomes 0; or `as-written` (`as-written`) |
/// | `features` | how many features there are: one column `features`, a list of that many values, stands for `indices` and `values` (none); needs `index_base=0` or `1` |
/// | `multilabel` | `true`: a column `labels`, a list, as lines have several labels or none (`false`) |
/// | `qid` | `true` or `false`: whether there is a column of queries (as the first 1000 lines of each file show) |
/// | `encoding` | as of CSV (`utf-8`) |
///
/// Parquet, ORC, Avro, Arrow, CSV and JSON:
///
/// | key | meaning (default) |
/// |---|---|
/// | `names` | `insensitive`: the case of column names does not matter; the table has them in lower case, or as declared (`exact`) |
///
/// Parquet, ORC and Avro:
///
/// | key | meaning (default) |
/// |---|---|
/// | `calendar` | of dates before 1582-10-15 in files that do not record their calendar: `proleptic`, `hybrid`, or `hybrid:ZONE` with the time zone of the writer (`auto`: as the format's own reader takes them; such dates are reported) |
///
/// Parquet, ORC, Avro and Arrow:
///
/// | key | meaning (default) |
/// |---|---|
/// | `types` | the types of some columns, in Hive's DDL: `id BIGINT, price DECIMAL(10,2)`; a value that is not exact in its type is an error (one that holds the values of all files) |
///
///
/// Parquet:
///
/// | key | meaning (default) |
/// |---|---|
/// | `timestamps` | for INT96: `ns`, `us`, or `auto`: nanoseconds, but microseconds for columns with values beyond 1677 or 2262, which are read once to find out (`auto`) |
/// | `binary` | columns whose text is read as bytes, since it is not UTF-8: `a, b`; may be repeated (none) |
///
/// ORC:
///
/// | key | meaning (default) |
/// |---|---|
/// | `timestamps` | `ns`, `us`, or `auto`: nanoseconds, but microseconds for columns of which a file says that they reach beyond 1677 or 2262; files that differ in it need one of the two (`auto`) |
///
/// TFRecord:
///
/// | key | meaning (default) |
/// |---|---|
/// | `schema` | a `schema.pbtxt` with the columns: a path or URL (the manifest, or one beside the files, or the records) |
/// | `map` | `column: rule`, how a column was written; may be repeated, or hold several, with commas (as in the manifest) |
/// | `null` | `absent`, `unset`, `empty`, `error`, `mask` or `drop`: what nulls were written as (as in the manifest) |
/// | `record_type` | `example`, `sequence-example`, or `bytes`: one column `record` (as in the manifest, or as the records are) |
/// | `sequence` | columns whose elements are steps of a sequence: `a, b`; may be repeated (as in the manifest) |
/// | `separator` | what stands between the names of a column and of its part (as in the manifest) |
/// | `vocabulary` | the values of columns that were written as ranks: `label: cat, dog; kind: a, b`; may be repeated (as in the manifest) |
/// | `crc` | `verify` or `skip`: whether checksums are checked (`verify`) |
/// | `infer_files` | how many files tell the columns, evenly spaced, or `all` (256) |
/// | `infer_records` | how many records of each file tell the columns, or `all` (1000) |
/// | `fixed_size_lists` | `true`: a feature that always has the same number of values is a list of that size (`false`) |
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputOptions {
    /// The format, if it is not to be told from the content.
    pub format: Option<InputFormat>,
    /// The types of columns of `key=value` directories, by name.
    pub partitions: Option<SchemaRef>,
    /// Whether files that belong to a table of a [table format](tfr_files::TableFormat) are read as they
    /// are.
    pub bare_files: bool,
    /// The dialect of CSV files.
    pub csv: CsvOptions,
    /// The dialect of Hive text files, and what their columns are.
    pub hive_text: HiveTextOptions,
    /// How JSON files are written.
    pub json: JsonOptions,
    /// How libsvm files are written.
    pub libsvm: LibSvmOptions,
    /// Whether the case of column names matters, in formats whose columns have names.
    pub names: NameMatching,
    /// The types of some columns, in the formats that say themselves which columns they have.
    pub types: Option<SchemaRef>,
    /// The calendar of dates in Parquet, ORC and Avro files that do not record theirs.
    pub calendar: CalendarOption,
    /// How ORC files are read.
    pub orc: OrcOptions,
    /// How Parquet files are read.
    pub parquet: ParquetOptions,
    /// How TFRecord files are read.
    pub tfrecord: ReadOptions,
    /// The options that were given, the value of each that was last, and the formats that have them.
    given: BTreeMap<String, (String, Vec<InputFormat>)>,
}

impl InputOptions {
    /// Sets one option from its text, in every format that has it with this value.
    ///
    /// # Errors
    /// There is no such option, or it cannot have this value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        if key == "format" {
            if value.eq_ignore_ascii_case("tsv") {
                self.csv.delimiter.get_or_insert(b'\t');
            }
            let names: Vec<_> = InputFormat::NAMES.iter().map(|(name, _)| *name).collect();
            let format = InputFormat::parse(value);
            self.format = Some(format.ok_or_else(|| invalid(key, value, &format!("one of {}", names.join(", "))))?);
            return Ok(());
        }
        if matches!(key, "partitions" | "bare_files") {
            match key {
                "partitions" => self.partitions = Some(Arc::new(HiveColumns::parse(key, value)?.schema())),
                _ => self.bare_files = boolean("bare_files", value)?,
            }
            let all = InputFormat::NAMES.iter().map(|(_, format)| *format);
            self.given.insert(key.to_owned(), (value.to_owned(), all.collect()));
            return Ok(());
        }
        let tried = [
            (InputFormat::Csv, csv::set(&mut self.csv, key, value)),
            (InputFormat::HiveText, hive_text::set(&mut self.hive_text, key, value)),
            (InputFormat::Json, json::set(&mut self.json, key, value)),
            (InputFormat::LibSvm, libsvm::set(&mut self.libsvm, key, value)),
            (InputFormat::Parquet, names::set(&mut self.names, key, value)),
            (InputFormat::Parquet, parquet::set(&mut self.parquet, key, value)),
            (InputFormat::Orc, names::set(&mut self.names, key, value)),
            (InputFormat::Avro, names::set(&mut self.names, key, value)),
            (InputFormat::Arrow, names::set(&mut self.names, key, value)),
            (InputFormat::Csv, names::set(&mut self.names, key, value)),
            (InputFormat::Json, names::set(&mut self.names, key, value)),
            (InputFormat::Parquet, types::set(&mut self.types, key, value)),
            (InputFormat::Orc, types::set(&mut self.types, key, value)),
            (InputFormat::Avro, types::set(&mut self.types, key, value)),
            (InputFormat::Arrow, types::set(&mut self.types, key, value)),
            (InputFormat::Parquet, calendar::set(&mut self.calendar, key, value)),
            (InputFormat::Orc, calendar::set(&mut self.calendar, key, value)),
            (InputFormat::Avro, calendar::set(&mut self.calendar, key, value)),
            (InputFormat::Orc, orc::set(&mut self.orc, key, value)),
            (InputFormat::TfRecord, tfrecord::set(&mut self.tfrecord, key, value)),
        ];
        let has = |format: &InputFormat| tried.iter().any(|(tried, set)| tried == format && matches!(set, Ok(true)));
        // A format stands for itself and for what it shares with others.
        let formats: BTreeSet<_> = tried.iter().map(|(format, _)| *format).filter(has).collect();
        let formats: Vec<_> = formats.into_iter().collect();
        let is_refused = tried.iter().any(|(format, set)| self.format == Some(*format) && set.is_err());
        if formats.is_empty() || is_refused {
            let unknown = || ErrorKind::UnknownOption { key: key.to_owned(), known: known_keys() };
            // The format that was asked for knows best what the value may be.
            let (asked, others): (Vec<_>, Vec<_>) =
                tried.into_iter().partition(|(format, _)| self.format.is_none_or(|asked| asked == *format));
            let refusal = asked.into_iter().chain(others).find_map(|(_, set)| set.err());
            return Err(refusal.unwrap_or_else(|| unknown().into()));
        }
        self.given.insert(key.to_owned(), (value.to_owned(), formats));
        Ok(())
    }

    /// The sort of a text that looks like `found`: the only one that has all options that were given, if `found` has not.
    pub(crate) fn text_format(&self, found: InputFormat) -> InputFormat {
        use InputFormat::{Csv, HiveText, Json, LibSvm};
        let mut suiting = [found, Csv, HiveText, Json, LibSvm].into_iter().filter(|of| self.foreign_to(*of).is_none());
        match (suiting.next(), suiting.next()) {
            (Some(only), None) => only,
            _ => found,
        }
    }

    /// An option that was given and that files of this format do not have, and the formats that have it.
    pub(crate) fn foreign_to(&self, format: InputFormat) -> Option<(&str, &[InputFormat])> {
        let (key, (_, formats)) = self.given.iter().find(|(_, (_, formats))| !formats.contains(&format))?;
        Some((key, formats))
    }

    /// The options that were given, but for `format`: the key, the last value, and the formats that have it so.
    pub fn given(&self) -> impl Iterator<Item = (&str, &str, &[InputFormat])> {
        self.given.iter().map(|(key, (value, formats))| (key.as_str(), value.as_str(), formats.as_slice()))
    }
}

/// The keys of all formats, each once.
fn known_keys() -> Vec<&'static str> {
    let mut keys = vec!["format", "partitions"];
    for key in [
        csv::KEYS,
        hive_text::KEYS,
        libsvm::KEYS,
        json::KEYS,
        names::KEYS,
        types::KEYS,
        calendar::KEYS,
        orc::KEYS,
        parquet::KEYS,
        tfrecord::KEYS,
    ]
    .concat()
    {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.push("bare_files");
    keys
}

fn invalid(key: &str, value: &str, expected: &str) -> ErrorKind {
    ErrorKind::OptionValue { key: key.to_owned(), value: value.to_owned(), expected: expected.to_owned() }
}

/// `None` is to tell it from the content.
fn compression(value: &str) -> Result<Option<Compression>> {
    match value.to_ascii_lowercase().as_str() {
        "auto" => Ok(None),
        name => match Compression::parse(name) {
            Some(compression) => Ok(Some(compression)),
            None => Err(invalid("compression", value, "auto, none, gzip, bzip2, xz, zstd or zlib").into()),
        },
    }
}

fn encoding(value: &str) -> Result<Encoding> {
    Encoding::parse(value).ok_or_else(|| invalid("encoding", value, Encoding::EXPECTED).into())
}

/// `None` is all.
fn number_or_all(key: &str, value: &str, expected: &str) -> Result<Option<usize>> {
    match value {
        "all" => Ok(None),
        _ => value.parse().map(Some).map_err(|_| invalid(key, value, expected).into()),
    }
}

/// `None` is to decide it by the values.
fn timestamp_unit(value: &str) -> Result<Option<TimestampUnit>> {
    match value.to_ascii_lowercase().as_str() {
        "auto" => Ok(None),
        "ns" => Ok(Some(TimestampUnit::Nanosecond)),
        "us" => Ok(Some(TimestampUnit::Microsecond)),
        _ => Err(invalid("timestamps", value, "auto, ns or us").into()),
    }
}

fn boolean(key: &'static str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(invalid(key, value, "true or false").into()),
    }
}

fn byte(key: &'static str, value: &str) -> Result<u8> {
    let byte = match value {
        "tab" | "\\t" => b'\t',
        "\\n" => b'\n',
        "\\r" => b'\r',
        "\\0" => 0,
        _ => match value.strip_prefix("\\x").map(|hex| u8::from_str_radix(hex, 16)) {
            Some(Ok(byte)) => byte,
            _ => match value.as_bytes() {
                [byte] => *byte,
                _ => return Err(invalid(key, value, "one ASCII character, \\t or \\x01").into()),
            },
        },
    };
    // A byte of a longer UTF-8 sequence would cut characters apart.
    match byte.is_ascii() {
        true => Ok(byte),
        false => Err(invalid(key, value, "one ASCII character, \\t or \\x01").into()),
    }
}

fn optional_byte(key: &'static str, value: &str) -> Result<Option<u8>> {
    match value {
        "" | "none" => Ok(None),
        _ => byte(key, value).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_have_names() -> Result<()> {
        let mut options = InputOptions::default();
        for (text, byte) in [("tab", b'\t'), ("\\t", b'\t'), ("\t", b'\t'), ("\\x01", 1), ("|", b'|')] {
            options.set("delimiter", text)?;
            assert_eq!(options.csv.delimiter, Some(byte));
        }
        options.set("quote", "none")?;
        assert_eq!(options.csv.quote, None);
        let message = options.set("delimiter", "é").expect_err("not ASCII").to_string();
        assert_eq!(message, "option delimiter=\"é\": expected one ASCII character, \\t or \\x01");
        Ok(())
    }

    #[test]
    fn a_compression_may_be_one_of_some_formats() -> Result<()> {
        use InputFormat::{Csv, Parquet, TfRecord};
        for (value, csv, tfrecord) in
            [("gzip", true, true), ("auto", true, true), ("zlib", true, true), ("zstd", true, false)]
        {
            let mut options = InputOptions::default();
            options.set("compression", value)?;
            let suits = [Csv, TfRecord, Parquet].map(|format| options.foreign_to(format).is_none());
            assert_eq!(suits, [csv, tfrecord, false], "{value}");
        }
        assert!(InputOptions::default().set("compression", "lzma").is_err());
        Ok(())
    }

    #[test]
    fn formats_that_share_an_option_are_listed_once() -> Result<()> {
        use InputFormat::{Arrow, Avro, Csv, Json, Orc, Parquet, TfRecord};
        let mut options = InputOptions::default();
        options.set("names", "insensitive")?;
        let formats: Vec<_> = options.given().flat_map(|(_, _, formats)| formats.to_vec()).collect();
        assert_eq!(formats, [Parquet, Csv, Orc, Avro, Json, Arrow]);
        assert!(options.foreign_to(TfRecord).is_some());
        let mut options = InputOptions::default();
        options.set("types", "x DOUBLE")?;
        assert!(options.foreign_to(Csv).is_some() && options.foreign_to(Parquet).is_none());
        options.set("types", "string")?;
        assert!(options.foreign_to(Parquet).is_some() && options.foreign_to(Csv).is_none());
        Ok(())
    }

    #[test]
    fn forms_of_columns_add_up() -> Result<()> {
        let mut options = InputOptions::default();
        options.set("map", "price: string, id: wrap")?;
        options.set("map", "\"a, b\": bits")?;
        let mapping = options.tfrecord.mapping.unwrap_or_default();
        let choices: Vec<_> = mapping.choices.iter().map(|(column, choice)| format!("{column}: {choice}")).collect();
        assert_eq!(choices, ["a, b: bits", "id: wrap", "price: string"]);
        let message = InputOptions::default().set("map", "price").expect_err("no choice").to_string();
        assert!(message.starts_with("option map=\"price\": expected 'column: rule, ...'"), "{message}");
        Ok(())
    }

    #[test]
    fn every_key_that_is_listed_is_known() {
        for key in known_keys() {
            let error = InputOptions::default().set(key, "\u{1F980}").err();
            let unknown = error.is_some_and(|error| matches!(error.kind(), ErrorKind::UnknownOption { .. }));
            assert!(!unknown, "{key}");
        }
    }
}
