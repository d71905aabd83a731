//! The dialect of a CSV file.

use std::fmt;

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
    /// Whether the first record of each file names the columns.
    pub header: bool,
    /// Texts that stand for null; `None`: the empty text, and none at all with [`Types::String`].
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
    /// The delimiter for a file of this name.
    pub(super) fn delimiter_for(&self, file_name: &str) -> u8 {
        self.delimiter.unwrap_or_else(|| {
            let name = file_name.to_ascii_lowercase();
            let tabs = [".tsv", ".tab", ".tsv.", ".tab."];
            let tabbed =
                tabs[..2].iter().any(|end| name.ends_with(end)) || tabs[2..].iter().any(|part| name.contains(part));
            if tabbed { b'\t' } else { b',' }
        })
    }

    pub(super) fn reader(&self, file_name: &str) -> csv_core::Reader {
        let mut builder = csv_core::ReaderBuilder::new();
        builder.delimiter(self.delimiter_for(file_name)).escape(self.escape).comment(self.comment);
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
        self.nulls.clone().unwrap_or_else(|| match self.types {
            Types::Infer => vec![String::new()],
            Types::String => Vec::new(),
        })
    }
}

/// What types the columns of a CSV file have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Types {
    /// What the first rows look like.
    #[default]
    Infer,
    /// Text, cells exactly as in the file.
    String,
}

/// The encoding of a text file. A byte order mark at the start is never data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// UTF-16 with a byte order mark; without one, little endian.
    Utf16,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
    /// ISO 8859-1: every byte is the character of that number.
    Latin1,
}

impl Encoding {
    /// Reads a name as users write it; `None` for encodings that are not read.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().replace('_', "-").as_str() {
            "utf-8" | "utf8" | "utf-8-sig" | "ascii" | "us-ascii" => Self::Utf8,
            "utf-16" | "utf16" => Self::Utf16,
            "utf-16le" | "utf16le" | "utf-16-le" => Self::Utf16Le,
            "utf-16be" | "utf16be" | "utf-16-be" => Self::Utf16Be,
            "latin1" | "latin-1" | "iso-8859-1" | "iso8859-1" => Self::Latin1,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 | Self::Utf16Le | Self::Utf16Be => "UTF-16",
            Self::Latin1 => "Latin-1",
        }
    }
}

/// How a text file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, any number of members.
    Gzip,
    /// bzip2, any number of streams.
    Bzip2,
    /// xz, any number of streams.
    Xz,
    /// Zstandard, any number of frames.
    Zstd,
}

impl Compression {
    /// Reads a name or a file ending.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "none" | "uncompressed" => Self::None,
            "gzip" | "gz" => Self::Gzip,
            "bzip2" | "bz2" => Self::Bzip2,
            "xz" => Self::Xz,
            "zstd" | "zst" => Self::Zstd,
            _ => return None,
        })
    }

    /// Tells the compression from the first bytes; `None` if there is no magic number.
    pub fn detect(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Some(Self::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "not",
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        })
    }
}
