//! Options for reading the files of a table, as `key=value`. They are declared in `table`.

mod table;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use arrow_schema::SchemaRef;
use datafusion_tfrecord::ReadOptions;
use datafusion_tfrecord::options::OptionText;
use tfr_files::{TableFormat, TableVersion};

use crate::calendar::CalendarOption;
use crate::csv::CsvOptions;
use crate::delta::DeltaOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::hive_acid::write_ids::WriteIds;
use crate::hive_text::HiveTextOptions;
use crate::iceberg::IcebergOptions;
use crate::input_format::InputFormat;
use crate::json::JsonOptions;
use crate::libsvm::LibSvmOptions;
use crate::names::NameMatching;
use crate::orc::OrcOptions;
use crate::parquet::ParquetOptions;
use crate::text::Encoding;

pub use table::{InputOption, PATH, input_options};

/// Options for reading the files of a table.
///
/// [`input_options`] lists the keys of [`set`](Self::set); `docs/inputs.md` documents them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputOptions {
    /// The format; `None` to detect it from the content.
    pub format: Option<InputFormat>,
    /// The types of partition columns (`key=value` directories), by name.
    pub partitions: Option<SchemaRef>,
    /// The names of the columns in the path, of which those of the directories may differ by case.
    pub partition_names: Vec<String>,
    /// Whether a declared column that no file has is null, instead of an error.
    pub absent_is_null: bool,
    /// Whether files that belong to a [table format](tfr_files::TableFormat) are read as plain files.
    pub bare_files: bool,
    /// The dialect of CSV files.
    pub csv: CsvOptions,
    /// The dialect and the columns of Hive text files.
    pub hive_text: HiveTextOptions,
    /// Which version of a Delta table is read.
    pub delta: DeltaOptions,
    /// Which snapshot of an Iceberg table is read.
    pub iceberg: IcebergOptions,
    /// The committed write ids of a transactional table of Hive.
    pub write_ids: Option<WriteIds>,
    /// Options for JSON files.
    pub json: JsonOptions,
    /// Options for libsvm files.
    pub libsvm: LibSvmOptions,
    /// Whether column names are case-sensitive, in formats with named columns.
    pub names: NameMatching,
    /// The types of some columns, in self-describing formats.
    pub types: Option<SchemaRef>,
    /// The calendar of dates in Parquet, ORC and Avro files that do not record it.
    pub calendar: CalendarOption,
    /// Options for ORC files.
    pub orc: OrcOptions,
    /// Options for Parquet files.
    pub parquet: ParquetOptions,
    /// Options for TFRecord files.
    pub tfrecord: ReadOptions,
    /// The options given: for each key its last value and the formats that accept it.
    given: BTreeMap<String, (String, Vec<InputFormat>)>,
}

/// The versions of tables that `CREATE EXTERNAL TABLE` reads, by the names of the tables, whichever versions its options ask for.
/// Register it as an extension of the session's configuration.
#[derive(Debug)]
pub struct PinnedVersions(pub BTreeMap<String, TableVersion>);

impl InputOptions {
    /// Parses and sets one option, in every format that accepts it with this value.
    ///
    /// # Errors
    /// There is no such option, or the value is invalid.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let declared: Vec<_> = input_options().filter(|option| option.text().is_named(key)).collect();
        if declared.is_empty() {
            return Err(ErrorKind::UnknownOption { key: key.to_owned(), known: known_keys() }.into());
        }
        if key == "format"
            && InputFormat::parse(value).is_none()
            && let Some(format) = TableFormat::named(value)
        {
            return Err(ErrorKind::TableFormat { name: value.to_owned(), format }.into());
        }
        let (mut formats, mut refused) = (BTreeSet::new(), Vec::new());
        for option in declared {
            // A rejected value changes nothing.
            let mut tried = self.clone();
            let set = option.set(&mut tried, value).map_err(|expected| {
                let (key, value) = (option.text().key.to_owned(), value.to_owned());
                Error::from(ErrorKind::OptionValue { key, value, expected })
            });
            match set.and_then(|()| tried.check(option.formats)) {
                Ok(()) => {
                    *self = tried;
                    formats.extend(option.formats);
                }
                Err(error) => refused.push((self.format.is_none_or(|asked| option.formats.contains(&asked)), error)),
            }
        }
        let is_refused = self.format.is_some() && refused.iter().any(|(is_asked, _)| *is_asked);
        if formats.is_empty() || is_refused {
            // The error of the specified format is the most precise one.
            refused.sort_by_key(|(is_asked, _)| !is_asked);
            return refused.into_iter().next().map_or(Ok(()), |(_, error)| Err(error));
        }
        if key != "format" {
            self.given.insert(key.to_owned(), (value.to_owned(), formats.into_iter().collect()));
        }
        Ok(())
    }

    /// Reads this version of a table, whichever version was asked for.
    pub fn pin(&mut self, version: TableVersion) {
        match version.format {
            TableFormat::Delta => self.delta = DeltaOptions { version: version.number, timestamp: None },
            TableFormat::Iceberg => {
                let snapshot = version.number.and_then(|number| i64::try_from(number).ok());
                self.iceberg = IcebergOptions { snapshot, schema: version.schema, ..IcebergOptions::default() };
            }
            _ => {}
        }
    }

    /// Rejects options of these formats that exclude each other.
    fn check(&self, formats: &[InputFormat]) -> Result<()> {
        if self.write_ids.is_some() && self.bare_files {
            return Err(excluding("write_ids", "bare_files"));
        }
        let (csv, hive) = (&self.csv, &self.hive_text);
        // The record splitter would take the rest of the file for a comment.
        if formats.contains(&InputFormat::Csv) && csv.comment.is_some() && csv.terminator.is_some() {
            return Err(excluding("comment", "terminator"));
        }
        if formats.contains(&InputFormat::Delta) && self.delta.version.is_some() && self.delta.timestamp.is_some() {
            return Err(excluding("version", "timestamp"));
        }
        if formats.contains(&InputFormat::Iceberg)
            && let [first, second, ..] = self.iceberg.given().as_slice()
        {
            return Err(excluding(first, second));
        }
        let [separator, quote, escape] = [hive.open_csv.separator, hive.open_csv.quote, hive.open_csv.escape];
        let same = [
            (separator == quote, "separator_char", "quote_char"),
            (separator == escape, "separator_char", "escape_char"),
            (quote == escape && quote != 0, "quote_char", "escape_char"),
        ];
        if let Some((_, first, second)) = same.into_iter().find(|(is_same, ..)| *is_same) {
            return Err(excluding(first, second));
        }
        // In decoded UTF-8 such a byte is part of a character. A delimiter of several bytes is compared as UTF-8.
        let of_cells = <[u8; 1]>::try_from(hive.delimiter.as_slice()).ok().map(|[byte]| byte);
        let marks = [hive.collection_delimiter, hive.map_key_delimiter].into_iter().chain(hive.escape).chain(of_cells);
        let has_high = marks.into_iter().any(|mark| !mark.is_ascii());
        if formats.contains(&InputFormat::HiveText) && has_high && hive.encoding != Encoding::Utf8 {
            return Err(excluding("delimiter", "encoding"));
        }
        Ok(())
    }

    /// Returns the text format of a file that looks like `found`: `found` itself, or the only format that has all
    /// options given.
    pub(crate) fn text_format(&self, found: InputFormat) -> InputFormat {
        use InputFormat::{Csv, HiveText, Json, LibSvm};
        let mut suiting = [found, Csv, HiveText, Json, LibSvm].into_iter().filter(|of| self.foreign_to(*of).is_none());
        match (suiting.next(), suiting.next()) {
            (Some(only), None) => only,
            _ => found,
        }
    }

    /// Returns an option that was given but that `format` does not have, with the formats that have it.
    pub(crate) fn foreign_to(&self, format: InputFormat) -> Option<(&str, &[InputFormat])> {
        let (key, (_, formats)) = self.given.iter().find(|(_, (_, formats))| !formats.contains(&format))?;
        Some((key, formats))
    }

    /// Iterates over the options given, except `format`: the key, the last value, and the formats that accept it.
    pub fn given(&self) -> impl Iterator<Item = (&str, &str, &[InputFormat])> {
        self.given.iter().map(|(key, (value, formats))| (key.as_str(), value.as_str(), formats.as_slice()))
    }
}

fn excluding(first: &str, second: &str) -> Error {
    ErrorKind::Refused { problem: format!("options {first:?} and {second:?} cannot be used together") }.into()
}

/// Lists the keys of all formats without repetition.
fn known_keys() -> Vec<&'static str> {
    let mut keys = Vec::new();
    for text in input_options().map(|option| option.text()).filter(OptionText::is_listed) {
        if !keys.contains(&text.key) {
            keys.push(text.key);
        }
    }
    keys
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
    fn map_option_accumulates_columns() -> Result<()> {
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
    fn hive_text_options_reject_unsupported_values() {
        let refused = |pairs: &[(&str, &str)]| {
            let mut options = InputOptions::default();
            options.set("format", "hive-text").expect("a format");
            let errors = pairs.iter().filter_map(|(key, value)| options.set(key, value).err());
            errors.map(|error| error.to_string()).next()
        };
        for (pairs, message) in [
            (
                &[("schema", "a FOO")][..],
                "option schema=\"a FOO\": expected columns as Hive declares them, 'id BIGINT, tags ARRAY<STRING>': expected a type at \"FOO\"",
            ),
            (&[("skip_footer", "101")], "option skip_footer=\"101\": expected a number of lines, at most 100"),
            (
                &[("line.delim", "\\n"), ("line.delim", "|")],
                "option line.delim=\"|\": expected \\n: lines end with LF, CR or CR LF",
            ),
            (&[("on_error", "skip")], "option on_error=\"skip\": expected null or error"),
            (
                &[("delimiter", "\\xfe"), ("encoding", "latin1")],
                "options \"delimiter\" and \"encoding\" cannot be used together",
            ),
        ] {
            assert_eq!(refused(pairs).as_deref(), Some(message));
        }
    }
}
