//! How to read the files of a table, as `key=value`.

use crate::csv::{Compression, CsvOptions, Encoding, Types};
use crate::detect::InputFormat;
use crate::error::{ErrorKind, Result};

/// How to read the files of a table.
///
/// | key | meaning (default) |
/// |---|---|
/// | `format` | `parquet`, `csv` or `tsv` (told from the content) |
/// | `delimiter` | one ASCII character, `tab` or `\t` (`,`; tab for `.tsv` and `.tab` files) |
/// | `quote` | one ASCII character or `none` (`"`); inside quotes it is doubled, and text behind a closing one belongs to the cell: `"p"q` is `pq` |
/// | `escape` | one ASCII character that takes the meaning from the next one inside quotes (none) |
/// | `comment` | lines that start with this character are skipped (none) |
/// | `terminator` | one ASCII character that ends a record (LF, CR LF or CR) |
/// | `header` | `true` or `false`: whether the first record of each file names the columns (`true`) |
/// | `null` | a cell with this text is null; may be repeated (the empty cell; with `types=string` none) |
/// | `encoding` | `utf-8`, `utf-16`, `utf-16le`, `utf-16be` or `latin1` (`utf-8`); a byte order mark is no data |
/// | `compression` | `auto`, `none`, `gzip`, `bzip2`, `xz` or `zstd` (told from the content) |
/// | `types` | `infer`, or `string`: every column is text, cells exactly as in the file (`infer`) |
/// | `infer_rows` | how many records of each file decide its types, or `all` (1000) |
/// | `newlines_in_values` | `false` promises that no cell holds a line end, so that a large file is read in parts by all cores (`true`) |
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputOptions {
    /// The format, if it is not to be told from the content.
    pub format: Option<InputFormat>,
    /// The dialect of CSV files.
    pub csv: CsvOptions,
    /// The CSV options that were given, to refuse them for another format.
    pub(crate) csv_keys: Vec<String>,
}

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
];

impl InputOptions {
    /// Sets one option from its text.
    ///
    /// # Errors
    /// There is no such option, or it cannot have this value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let csv = &mut self.csv;
        match key {
            "format" => {
                if value.eq_ignore_ascii_case("tsv") {
                    csv.delimiter.get_or_insert(b'\t');
                }
                self.format =
                    Some(InputFormat::parse(value).ok_or_else(|| invalid("format", value, "parquet, csv or tsv"))?);
                return Ok(());
            }
            "delimiter" => csv.delimiter = Some(byte("delimiter", value)?),
            "quote" => csv.quote = optional_byte("quote", value)?,
            "escape" => csv.escape = optional_byte("escape", value)?,
            "comment" => csv.comment = optional_byte("comment", value)?,
            "terminator" => csv.terminator = Some(byte("terminator", value)?),
            "header" | "has_header" => csv.header = boolean("header", value)?,
            "null" | "null_value" => csv.nulls.get_or_insert_default().push(value.to_owned()),
            "encoding" => {
                csv.encoding = Encoding::parse(value)
                    .ok_or_else(|| invalid("encoding", value, "utf-8, utf-16, utf-16le, utf-16be or latin1"))?;
            }
            "compression" => {
                csv.compression = match value.to_ascii_lowercase().as_str() {
                    "auto" => None,
                    name => Some(
                        Compression::parse(name)
                            .ok_or_else(|| invalid("compression", value, "auto, none, gzip, bzip2, xz or zstd"))?,
                    ),
                }
            }
            "types" => {
                csv.types = match value {
                    "infer" => Types::Infer,
                    "string" => Types::String,
                    _ => return Err(invalid("types", value, "infer or string").into()),
                }
            }
            "infer_rows" => {
                csv.infer_rows = match value {
                    "all" => usize::MAX,
                    _ => value.parse().map_err(|_| invalid("infer_rows", value, "a number of rows or all"))?,
                }
            }
            "newlines_in_values" => csv.newlines_in_values = boolean("newlines_in_values", value)?,
            _ => return Err(ErrorKind::UnknownOption { key: key.to_owned(), known: KEYS }.into()),
        }
        // The record splitter would take the rest of the file for a comment.
        if csv.comment.is_some() && csv.terminator.is_some() {
            return Err(ErrorKind::OptionsExclude { first: "comment", second: "terminator" }.into());
        }
        self.csv_keys.push(key.to_owned());
        Ok(())
    }
}

fn invalid(key: &'static str, value: &str, expected: &str) -> ErrorKind {
    ErrorKind::OptionValue { key, value: value.to_owned(), expected: expected.to_owned() }
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
    fn every_key_that_is_listed_is_known() {
        for key in KEYS {
            let error = InputOptions::default().set(key, "\u{1F980}").err();
            let unknown = error.is_some_and(|error| matches!(error.kind(), ErrorKind::UnknownOption { .. }));
            assert!(!unknown, "{key}");
        }
    }
}
