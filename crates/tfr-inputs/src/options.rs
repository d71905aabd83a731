//! How to read the files of a table, as `key=value`.

use std::collections::BTreeMap;

use datafusion_tfrecord::{ReadOptions, set_mapping_option};

use crate::csv::{Compression, CsvOptions, Encoding, Types};
use crate::detect::InputFormat;
use crate::error::{ErrorKind, Result};

/// How to read the files of a table.
///
/// | key | meaning (default) |
/// |---|---|
/// | `format` | `parquet`, `csv`, `tsv` or `tfrecord` (told from the content) |
/// | `compression` | CSV: `auto`, `none`, `gzip`, `bzip2`, `xz` or `zstd`; TFRecord: `auto`, `none`, `gzip` or `zlib` (told from the content) |
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
/// | `null` | a cell with this text is null; may be repeated (the empty cell; with `types=string` none) |
/// | `encoding` | `utf-8`, `utf-16`, `utf-16le`, `utf-16be` or `latin1` (`utf-8`); a byte order mark is no data |
/// | `types` | `infer`, or `string`: every column is text, cells exactly as in the file (`infer`) |
/// | `infer_rows` | how many records of each file decide its types, or `all` (1000) |
/// | `newlines_in_values` | `false` promises that no cell holds a line end, so that a large file is read in parts by all cores (`true`) |
///
/// TFRecord:
///
/// | key | meaning (default) |
/// |---|---|
/// | `schema` | a `schema.pbtxt` with the columns: a path or URL (the manifest, or one beside the files, or the records) |
/// | `map` | `column: rule`, how a column was written; may be repeated, or hold several, with commas (as in the manifest) |
/// | `null` | `absent`, `unset`, `empty`, `error`, `mask` or `drop`: what nulls were written as (as in the manifest) |
/// | `record_type` | `example`, `sequence-example`, whose columns have to be declared, or `bytes`: one column `record` (as in the manifest) |
/// | `sequence` | columns whose elements are steps of a sequence: `a, b`; may be repeated (as in the manifest) |
/// | `separator` | what stands between the names of a column and of its part (as in the manifest) |
/// | `crc` | `verify` or `skip`: whether checksums are checked (`verify`) |
/// | `infer_files` | how many files tell the columns, evenly spaced, or `all` (256) |
/// | `infer_records` | how many records of each file tell the columns, or `all` (1000) |
/// | `fixed_size_lists` | `true`: a feature that always has the same number of values is a list of that size (`false`) |
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputOptions {
    /// The format, if it is not to be told from the content.
    pub format: Option<InputFormat>,
    /// The dialect of CSV files.
    pub csv: CsvOptions,
    /// How TFRecord files are read.
    pub tfrecord: ReadOptions,
    /// The options that were given and the formats that have them, to refuse them for others.
    given: BTreeMap<String, &'static [InputFormat]>,
}

const CSV: &[InputFormat] = &[InputFormat::Csv];
const TFRECORD: &[InputFormat] = &[InputFormat::TfRecord];
const BOTH: &[InputFormat] = &[InputFormat::Csv, InputFormat::TfRecord];

const KEYS: &[&str] = &[
    "format",
    "delimiter",
    "quote",
    "escape",
    "comment",
    "terminator",
    "header",
    "null",
    "encoding",
    "compression",
    "types",
    "infer_rows",
    "newlines_in_values",
    "schema",
    "map",
    "record_type",
    "sequence",
    "separator",
    "crc",
    "infer_files",
    "infer_records",
    "fixed_size_lists",
];

impl InputOptions {
    /// Sets one option from its text.
    ///
    /// # Errors
    /// There is no such option, or it cannot have this value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let formats = match key {
            "format" => {
                if value.eq_ignore_ascii_case("tsv") {
                    self.csv.delimiter.get_or_insert(b'\t');
                }
                let format = InputFormat::parse(value);
                self.format = Some(format.ok_or_else(|| invalid(key, value, "parquet, csv, tsv or tfrecord"))?);
                return Ok(());
            }
            "compression" => self.set_compression(value)?,
            "null" | "null_value" => self.set_null(value)?,
            key if set_csv(&mut self.csv, key, value)? => CSV,
            key if set_tfrecord(&mut self.tfrecord, key, value)? => TFRECORD,
            _ => return Err(ErrorKind::UnknownOption { key: key.to_owned(), known: KEYS }.into()),
        };
        self.given.insert(key.to_owned(), formats);
        Ok(())
    }

    /// An option that was given and that files of this format do not have, and the formats that have it.
    pub(crate) fn foreign_to(&self, format: InputFormat) -> Option<(&str, &'static [InputFormat])> {
        let (key, formats) = self.given.iter().find(|(_, formats)| !formats.contains(&format))?;
        Some((key, formats))
    }

    /// Sets the text of a null cell and, if the value is one, the policy of the mapping; returns the formats that have it.
    fn set_null(&mut self, value: &str) -> Result<&'static [InputFormat]> {
        self.csv.nulls.get_or_insert_default().push(value.to_owned());
        Ok(if set_mapping(&mut self.tfrecord, "null", value).is_ok() { BOTH } else { CSV })
    }

    /// Sets the compression in the formats that have it, and returns these.
    fn set_compression(&mut self, value: &str) -> Result<&'static [InputFormat]> {
        let name = value.to_ascii_lowercase();
        if name == "auto" {
            (self.csv.compression, self.tfrecord.compression) = (None, None);
            return Ok(BOTH);
        }
        // The engine's word for it.
        let name = if name == "uncompressed" { "none".to_owned() } else { name };
        let (csv, tfrecord) = (Compression::parse(&name), name.parse().ok());
        (self.csv.compression, self.tfrecord.compression) = (csv, tfrecord);
        match (csv, tfrecord) {
            (Some(_), Some(_)) => Ok(BOTH),
            (Some(_), None) => Ok(CSV),
            (None, Some(_)) => Ok(TFRECORD),
            (None, None) => Err(invalid("compression", value, "auto, none, gzip, bzip2, xz, zstd or zlib").into()),
        }
    }
}

/// Sets an option of CSV, if it is one.
fn set_csv(csv: &mut CsvOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "delimiter" => csv.delimiter = Some(byte("delimiter", value)?),
        "quote" => csv.quote = optional_byte("quote", value)?,
        "escape" => csv.escape = optional_byte("escape", value)?,
        "comment" => csv.comment = optional_byte("comment", value)?,
        "terminator" => csv.terminator = Some(byte("terminator", value)?),
        "header" | "has_header" => csv.header = boolean("header", value)?,
        "encoding" => {
            csv.encoding = Encoding::parse(value)
                .ok_or_else(|| invalid("encoding", value, "utf-8, utf-16, utf-16le, utf-16be or latin1"))?;
        }
        "types" => {
            csv.types = match value {
                "infer" => Types::Infer,
                "string" => Types::String,
                _ => return Err(invalid("types", value, "infer or string").into()),
            }
        }
        "infer_rows" => {
            csv.infer_rows = number_or_all("infer_rows", value, "a number of rows or all")?.unwrap_or(usize::MAX);
        }
        "newlines_in_values" => csv.newlines_in_values = boolean("newlines_in_values", value)?,
        _ => return Ok(false),
    }
    // The record splitter would take the rest of the file for a comment.
    if csv.comment.is_some() && csv.terminator.is_some() {
        return Err(ErrorKind::OptionsExclude { first: "comment", second: "terminator" }.into());
    }
    Ok(true)
}

/// Sets an option of TFRecord, if it is one.
fn set_tfrecord(tfrecord: &mut ReadOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "schema" => tfrecord.schema_file = Some(value.to_owned()),
        "crc" => tfrecord.crc = value.parse().map_err(|_| invalid("crc", value, "verify or skip"))?,
        "infer_files" => tfrecord.infer_files = number_or_all("infer_files", value, "a number of files or all")?,
        "infer_records" => {
            tfrecord.infer_records = number_or_all("infer_records", value, "a number of records or all")?;
        }
        "fixed_size_lists" => tfrecord.fixed_size_lists = boolean("fixed_size_lists", value)?,
        _ => return set_mapping(tfrecord, key, value),
    }
    Ok(true)
}

/// Sets an option of the mapping, if it is one.
fn set_mapping(tfrecord: &mut ReadOptions, key: &str, value: &str) -> Result<bool> {
    let mut mapping = tfrecord.mapping.clone().unwrap_or_default();
    let is_known = set_mapping_option(&mut mapping, key, value).map_err(|expected| invalid(key, value, &expected))?;
    if is_known {
        tfrecord.mapping = Some(mapping);
    }
    Ok(is_known)
}

fn invalid(key: &str, value: &str, expected: &str) -> ErrorKind {
    ErrorKind::OptionValue { key: key.to_owned(), value: value.to_owned(), expected: expected.to_owned() }
}

/// `None` is all.
fn number_or_all(key: &str, value: &str, expected: &str) -> Result<Option<usize>> {
    match value {
        "all" => Ok(None),
        _ => value.parse().map(Some).map_err(|_| invalid(key, value, expected).into()),
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
            [("gzip", true, true), ("auto", true, true), ("zlib", false, true), ("zstd", true, false)]
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
        for key in KEYS {
            let error = InputOptions::default().set(key, "\u{1F980}").err();
            let unknown = error.is_some_and(|error| matches!(error.kind(), ErrorKind::UnknownOption { .. }));
            assert!(!unknown, "{key}");
        }
    }
}
