//! The dialect of a CSV file.

use crate::input_format::InputFormat;
use crate::text::{Compression, Encoding, Layout};

/// The bytes that a record has at most, if nothing else is said: many times what a cell of text has, and little enough that
/// a stray quote in a large file is told before the file is in memory.
pub(crate) const DEFAULT_RECORD_LIMIT: usize = 16 << 20;

/// The most bytes that a record may be allowed: a batch keeps within 32-bit offsets.
pub(crate) const MAX_RECORD_LIMIT: usize = 256 << 20;

/// The dialect of a CSV file and how its cells become values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// Between cells; `None`: a comma, or a tab where the file's name ends in `.tsv` or `.tab`.
    pub delimiter: Option<u8>,
    /// Around cells; `None`: quotes have no meaning.
    pub quote: Option<u8>,
    /// Takes the meaning from the next character inside quotes.
    pub escape: Option<u8>,
    /// Starts a line that is skipped.
    pub comment: Option<u8>,
    /// Ends a record; `None`: LF, CR LF or CR.
    pub terminator: Option<u8>,
    /// How many lines at the start of each file stand before the first record.
    pub skip_lines: usize,
    /// Whether records with fewer cells than there are columns are taken; the cells that are missing are null.
    pub short_rows: bool,
    /// Whether spaces and tabs around cells are no part of them.
    pub trim: bool,
    /// The most bytes of a record: a longer one has lost its end to a stray quote. At most 256 MiB.
    pub record_limit: usize,
    /// Whether the first record of each file names the columns.
    pub header: bool,
    /// Texts that stand for null, the empty one only without quotes around it; `None`: the empty text.
    pub nulls: Option<Vec<String>>,
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The compression; `None`: told from the content of each file.
    pub compression: Option<Compression>,
    /// What types the columns have.
    pub types: Types,
    /// How many records of each file decide its types.
    pub infer_rows: usize,
    /// Whether a cell may hold a line end; if not, a file can be read in parts.
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
    /// The delimiter for a file of this name that says, or does not say, which it is.
    pub(super) fn delimiter_for(&self, file_name: &str, stated: Option<u8>) -> u8 {
        self.delimiter.or(stated).unwrap_or_else(|| {
            let name = file_name.to_ascii_lowercase();
            let tabs = [".tsv", ".tab", ".tsv.", ".tab."];
            let tabbed =
                tabs[..2].iter().any(|end| name.ends_with(end)) || tabs[2..].iter().any(|part| name.contains(part));
            if tabbed { b'\t' } else { b',' }
        })
    }

    /// How the files are text.
    pub(super) fn layout(&self) -> Layout {
        Layout {
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

    /// The texts that stand for null.
    pub(super) fn null_texts(&self) -> Vec<String> {
        self.nulls.clone().unwrap_or_else(|| vec![String::new()])
    }
}

/// What types the columns of a CSV file have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Types {
    /// What the first rows look like.
    #[default]
    Infer,
    /// Text as it stands in the file, or null.
    String,
}
