//! [`Trim`]: removes blanks around cells.

use bytes::Bytes;

use super::options::CsvOptions;

/// Removes spaces and tabs around cells and around their quotes. Inside quotes they stay.
pub(super) struct Trim {
    quote: Option<u8>,
    escape: Option<u8>,
    comment: Option<u8>,
    terminator: Option<u8>,
    delimiter: u8,
    state: TrimState,
    /// Blanks that belong to the cell if anything but its end follows.
    blanks: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrimState {
    LineStart,
    Comment,
    CellStart,
    Bare,
    Quoted,
    Escaped,
    /// After a quote that closes the cell, unless another one follows.
    Closed,
}

impl Trim {
    /// Creates a filter for a text that begins with a record.
    pub(super) fn new(options: &CsvOptions, delimiter: u8) -> Self {
        let CsvOptions { quote, escape, comment, terminator, .. } = *options;
        Self { quote, escape, comment, terminator, delimiter, state: TrimState::LineStart, blanks: Vec::new() }
    }

    /// Returns the next piece of the text without the blanks.
    pub(super) fn piece(&mut self, piece: &[u8]) -> Bytes {
        let mut kept = Vec::with_capacity(piece.len() + self.blanks.len());
        for byte in piece {
            self.byte(*byte, &mut kept);
        }
        kept.into()
    }

    fn byte(&mut self, byte: u8, kept: &mut Vec<u8>) {
        use TrimState::{Bare, CellStart, Closed, Comment, Escaped, LineStart, Quoted};
        let is_quote = Some(byte) == self.quote;
        let is_blank = matches!(byte, b' ' | b'\t') && byte != self.delimiter && Some(byte) != self.terminator;
        let ends_line = match self.terminator {
            Some(terminator) => byte == terminator,
            None => matches!(byte, b'\r' | b'\n'),
        };
        let next = match self.state {
            // The record splitter ends a comment at LF, too.
            Comment if byte == b'\n' => LineStart,
            Comment => Comment,
            Quoted if Some(byte) == self.escape => Escaped,
            Quoted if is_quote => Closed,
            Quoted | Escaped => Quoted,
            Closed if is_quote && self.blanks.is_empty() => Quoted,
            LineStart | CellStart if is_blank => return,
            Bare | Closed if is_blank => return self.blanks.push(byte),
            LineStart if Some(byte) == self.comment => Comment,
            LineStart | CellStart if is_quote => Quoted,
            _ if ends_line || byte == self.delimiter => {
                self.blanks.clear();
                if ends_line { LineStart } else { CellStart }
            }
            _ => Bare,
        };
        kept.append(&mut self.blanks);
        kept.push(byte);
        self.state = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of Python's csv module with `skipinitialspace`, and of `strip()` after unquoted cells.
    #[test]
    fn csv_trim_removes_blanks_around_cells() {
        let options = CsvOptions { comment: Some(b'#'), escape: Some(b'\\'), ..CsvOptions::default() };
        for (text, expected) in [
            (" a , b c\t,d \r\n  1,2 ,3", "a,b c,d\r\n1,2,3"),
            (" \" x, \" , \"say \"\"a\"\" \" \n", "\" x, \",\"say \"\"a\"\" \"\n"),
            ("\"a\\\" \" ,b\n", "\"a\\\" \",b\n"),
            ("\"a\" b ,c\n", "\"a\" b,c\n"),
            ("# it  is , so \n a\n", "# it  is , so \na\n"),
            (" , \t,\n  \n", ",,\n\n"),
        ] {
            for size in 1..=text.len() {
                let mut trim = Trim::new(&options, b',');
                let pieces: Vec<_> = text.as_bytes().chunks(size).map(|piece| trim.piece(piece)).collect();
                assert_eq!(String::from_utf8(pieces.concat()).expect("UTF-8"), expected, "{text:?}");
            }
        }
        let tabs = Trim::new(&options, b'\t').piece(b" a\t b \t\tc \n");
        assert_eq!(tabs.as_ref(), b"a\tb\t\tc\n");
    }
}
