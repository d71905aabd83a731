//! [`Stop`]: why the parser stops within a row.

use super::tape::TextPlace;
use crate::error::{Error, ErrorKind, FilePlace, Line, Within};

/// Maximum bytes of an object; a longer one is assumed to lack its end.
pub(super) const MAX_ROW_LEN: u64 = 256 << 20;

/// A result of the parser. The error is boxed, since results of this type are returned for each value.
pub(super) type Parsed<T> = Result<T, Box<Stop>>;

/// Why the parser stops within a row.
#[derive(Debug)]
pub(super) enum Stop {
    /// The text ends within the row.
    End { at: TextPlace, expected: &'static str },
    /// The text is not valid JSON.
    Syntax { at: TextPlace, expected: &'static str, found: String },
    /// A string is not valid UTF-8.
    Encoding { at: TextPlace },
    /// The key is not a column.
    UnknownKey { at: TextPlace, key: String },
    /// The key is a partition column.
    KeyInPath { at: TextPlace, key: String },
    /// The row, or its values on the tape, exceed their limit. `row` is the line in which it starts.
    TooLong { at: TextPlace, row: u64, len: u64 },
}

/// The text that a parser reads, for messages.
#[derive(Debug)]
pub(super) struct SourceText {
    pub(super) file: std::sync::Arc<str>,
    /// The byte from which lines are counted, if this is a part of the file.
    pub(super) after_byte: Option<u64>,
    /// Maximum bytes of a row within the memory limit, with those of its values on the tape.
    pub(super) row_bound: u64,
}

impl SourceText {
    pub(super) fn line(&self, number: u64) -> Line {
        Line { number, after_byte: self.after_byte }
    }

    fn place(&self, at: TextPlace) -> FilePlace {
        FilePlace::new(&self.file, Within::Character(self.line(at.line), at.character))
    }

    /// Converts a stop to an error that names the file.
    pub(super) fn error(&self, stop: Stop) -> Error {
        let kind = match stop {
            Stop::End { at, expected } => return self.unexpected(at, expected, "the end of the file"),
            Stop::Syntax { at, expected, found } => return self.unexpected(at, expected, &found),
            Stop::TooLong { at, len, .. } if len > MAX_ROW_LEN => {
                return self.unexpected(at, "its end within 256 MiB", "more");
            }
            Stop::TooLong { row, .. } => {
                ErrorKind::LongRecord { place: FilePlace::new(&self.file, self.line(row)), bytes: self.row_bound }
            }
            Stop::Encoding { at } => {
                let found_at = format!("{}, in the string at character {}", self.line(at.line), at.character);
                ErrorKind::Encoding { file: self.file.to_string(), found_at, encoding: "UTF-8" }
            }
            Stop::UnknownKey { at, key } => ErrorKind::JsonKey { place: self.place(at), key },
            Stop::KeyInPath { at, key } => ErrorKind::KeyInPath { place: self.place(at).column(&key) },
        };
        kind.into()
    }

    pub(super) fn unexpected(&self, at: TextPlace, expected: &str, found: &str) -> Error {
        let (expected, found) = (expected.to_owned(), found.to_owned());
        ErrorKind::JsonSyntax { place: self.place(at), expected, found }.into()
    }
}

/// Describes a byte for messages.
pub(super) fn describe(byte: u8) -> String {
    match byte {
        b'\n' | b'\r' => "the end of the line".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("byte 0x{byte:02x}"),
    }
}

/// Formats a value for messages, truncated if long.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
