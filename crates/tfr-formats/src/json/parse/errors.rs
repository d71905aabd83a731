//! What is wrong with a text that is no JSON, or too long.

use super::{MAX_ROW_LEN, Parser};
use crate::error::{Error, ErrorKind};

impl Parser {
    pub(super) fn too_long(&self) -> Error {
        if self.row_len > MAX_ROW_LEN {
            return self.unexpected("its end within 256 MiB", "more");
        }
        let (file, line) = (self.file.to_string(), self.line_at(self.row_line));
        ErrorKind::LongRecord { file, line, bytes: self.row_bound }.into()
    }

    pub(super) fn unexpected(&self, expected: &str, found: &str) -> Error {
        self.unexpected_at(self.here(), expected, found)
    }

    pub(super) fn unexpected_at(&self, (line, character): (u64, u64), expected: &str, found: &str) -> Error {
        let (file, line) = (self.file.to_string(), self.line_at(line));
        ErrorKind::JsonSyntax { file, line, character, expected: expected.to_owned(), found: found.to_owned() }.into()
    }
}

/// A byte for messages.
pub(super) fn describe(byte: u8) -> String {
    match byte {
        b'\n' | b'\r' => "the end of the line".to_owned(),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("byte 0x{byte:02x}"),
    }
}
