//! The dialect of a CSV file.

use crate::input_format::InputFormat;
use crate::text::{Compression, Encoding, TextLayout};

/// Default maximum length of a record in bytes: far more than a text cell needs, but small enough that a stray quote in
/// a large file is detected before the whole file is in memory.
pub(crate) const DEFAULT_RECORD_LIMIT: usize = 16 << 20;

/// Upper limit of the maximum record length in bytes: a batch keeps within 32-bit offsets.
pub(crate) const MAX_RECORD_LIMIT: usize = 256 << 20;

/// The dialect of a CSV file and the conversion of its cells to values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CsvOptions {
    /// The cell delimiter; `None`: a comma, or a tab if the file's extension is `.tsv` or `.tab`.
    pub delimiter: Option<u8>,
    /// The quote character; `None` disables quoting.
    pub quote: Option<u8>,
    /// Escapes the next character inside quotes.
    pub escape: Option<u8>,
    /// The first character of lines that are skipped.
    pub comment: Option<u8>,
    /// The record terminator; `None`: LF, CR LF or CR.
    pub terminator: Option<u8>,
    /// Number of lines to skip at the start of each file.
    pub skip_lines: usize,
    /// Whether records with fewer cells than columns are accepted; missing cells are null.
    pub short_rows: bool,
    /// Whether spaces and tabs around cells are removed.
    pub trim: bool,
    /// Maximum length of a record in bytes, at most 256 MiB. A longer record lacks its end because of a stray quote.
    pub record_limit: usize,
    /// Whether the first record of each file names the columns.
    pub header: bool,
    /// The decimal separator of numbers: a point or a comma. With a comma, points separate groups of digits.
    pub decimal: u8,
    /// Texts that represent null, the empty one only if unquoted; `None`: the empty text.
    pub nulls: Option<Vec<String>>,
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The compression; `None`: detected from the content of each file.
    pub compression: Option<Compression>,
    /// The types of the columns.
    pub types: Types,
    /// Number of records of each file from which types are inferred.
    pub infer_rows: usize,
    /// Whether a cell may contain a line end; if not, a file can be read in parts.
    pub newlines_in_values: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            quote: Some(b'"'),
            escape: None,
            comment: None,
            terminator: None,
            skip_lines: 0,
            short_rows: false,
            trim: false,
            record_limit: DEFAULT_RECORD_LIMIT,
            header: true,
            decimal: b'.',
            nulls: None,
            encoding: Encoding::Utf8,
            compression: None,
            types: Types::Infer,
            infer_rows: 1000,
            newlines_in_values: true,
        }
    }
}

impl CsvOptions {
    /// Returns the delimiter for a file of this name; `stated` is the one that the file itself specifies.
    pub(super) fn delimiter_for(&self, file_name: &str, stated: Option<u8>) -> u8 {
        self.delimiter.or(stated).unwrap_or_else(|| {
            let name = file_name.to_ascii_lowercase();
            let tabs = [".tsv", ".tab", ".tsv.", ".tab."];
            let tabbed =
                tabs[..2].iter().any(|end| name.ends_with(end)) || tabs[2..].iter().any(|part| name.contains(part));
            if tabbed { b'\t' } else { b',' }
        })
    }

    /// Returns the text properties of the files.
    pub(super) fn layout(&self) -> TextLayout {
        TextLayout {
            format: InputFormat::Csv,
            compression: self.compression,
            encoding: self.encoding,
            terminator: self.terminator.unwrap_or(b'\n'),
        }
    }

    pub(super) fn reader(&self, delimiter: u8) -> csv_core::Reader {
        let mut builder = csv_core::ReaderBuilder::new();
        builder.delimiter(delimiter).escape(self.escape).comment(self.comment);
        match self.quote {
            Some(quote) => builder.quote(quote),
            None => builder.quoting(false),
        };
        if let Some(terminator) = self.terminator {
            builder.terminator(csv_core::Terminator::Any(terminator));
        }
        builder.build()
    }

    /// Returns the texts that represent null.
    pub(super) fn null_texts(&self) -> Vec<String> {
        self.nulls.clone().unwrap_or_else(|| vec![String::new()])
    }
}

/// The types of the columns of a CSV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Types {
    /// Inferred from the first rows.
    #[default]
    Infer,
    /// Text as in the file, or null.
    String,
}
