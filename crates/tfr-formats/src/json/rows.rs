//! [`JsonObjects`]: reads rows from pieces of a text.
//!
//! A row that is completely in a piece is parsed there. Otherwise its bytes are collected until [`RowEnd`] finds its
//! end, and then parsed. So the parser's state need not survive the end of a piece.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use tfr_files::memory::ReadBounds;

use super::keys::Keys;
use super::parse::Parser;
use super::row_end::RowEnd;
use super::stop::{MAX_ROW_LEN, Parsed, SourceText, Stop, describe};
use super::tape::{Tape, TextPlace};
use crate::error::{Error, Result};
use crate::text::TextStream;

/// Text bytes and values at which a tape counts as full. Its offsets are 32-bit, and one more record may follow.
const MAX_TAPE_LEN: usize = 32 << 20;
const MAX_TAPE_VALUES: usize = 4 << 20;

/// What may come next between rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Row,
    /// A row in a file that is one array; `comma` if one was read.
    Element {
        comma: bool,
    },
    /// A comma or the end of the array that makes up the file.
    Comma,
    /// Nothing: the array has ended.
    End,
}

/// Reads objects: concatenated, or as the elements of one array.
pub(super) struct JsonObjects {
    pub(super) parser: Parser,
    next: Next,
    /// The start of a row whose end is in a later piece, and the search for that end.
    cut: Vec<u8>,
    end: RowEnd,
    /// The place after the rows and blanks that were read.
    place: TextPlace,
    /// Bytes of text at which a batch ends.
    batch_len: usize,
    rows_read: u64,
    /// Whether the file is one array.
    is_array: bool,
    /// Whether some row is not on a line of its own.
    spans_lines: bool,
    /// The line in which the last row starts.
    row_line: u64,
}

impl JsonObjects {
    /// Creates a reader for a text that starts at `after_byte` of the file, if it is only a part. `keys` are given if
    /// the columns are known.
    pub(super) fn new(file: Arc<str>, keys: Option<Arc<Keys>>, after_byte: Option<u64>) -> Self {
        Self {
            parser: Parser::new(SourceText { file, after_byte, row_bound: u64::MAX }, keys),
            next: Next::Row,
            cut: Vec::new(),
            end: RowEnd::default(),
            place: TextPlace { line: 1, character: 1 },
            batch_len: MAX_TAPE_LEN,
            rows_read: 0,
            is_array: false,
            spans_lines: false,
            row_line: 0,
        }
    }

    /// Limits batches and rows to the session's bounds.
    pub(super) fn within(mut self, bounds: ReadBounds) -> Self {
        self.batch_len = bounds.batch.min(MAX_TAPE_LEN);
        self.parser.source.row_bound = bounds.record() as u64;
        self
    }

    /// Returns the buffered rows.
    pub(super) fn tape(&self) -> &Tape {
        &self.parser.tape
    }

    /// Discards the buffered rows.
    pub(super) fn clear(&mut self) {
        self.parser.tape.clear();
        self.parser.tape_line = self.place.line;
    }

    /// Whether at least `rows` rows are buffered, or enough text for a batch.
    pub(super) fn is_full(&self, rows: usize) -> bool {
        let tape = self.tape();
        let values = self.batch_len.div_ceil(MAX_TAPE_LEN / MAX_TAPE_VALUES);
        let is_long = tape.text.len() >= self.batch_len || tape.nodes.len() >= values;
        self.cut.is_empty() && (tape.rows.len() >= rows || is_long)
    }

    /// Whether every row read so far is on a line of its own.
    pub(super) fn has_row_a_line(&self) -> bool {
        !self.spans_lines && !self.is_array
    }

    /// Returns the next piece of the text, or `None` after a complete row at its end.
    pub(super) async fn next_piece(&mut self, text: &mut TextStream) -> Result<Option<Bytes>> {
        match text.try_next().await {
            Ok(None) => self.finish().map(|()| None),
            // An error in the row that was not complete yet comes first.
            Err(error) => Err(self.error_in_cut_row().unwrap_or(error)),
            piece => piece,
        }
    }

    /// Reads until `rows` rows are buffered; returns the number of bytes read.
    pub(super) fn read(&mut self, input: &[u8], rows: usize) -> Result<usize> {
        let mut at = if self.cut.is_empty() { 0 } else { self.read_cut_row(input)? };
        // Validated behind the cut row, since it may end within a character before.
        let (start, valid) = (at, valid_start(&input[at..]));
        while let Some(byte) = input.get(at)
            && self.cut.is_empty()
            && !self.is_full(rows)
        {
            at += match self.next {
                Next::Row | Next::Element { .. } if *byte == b'{' => {
                    self.read_row(&input[at..], valid.get(at - start..).unwrap_or_default())?
                }
                _ => self.skip(*byte)?,
            };
        }
        Ok(at)
    }

    /// Signals the end of the text.
    fn finish(&mut self) -> Result<()> {
        if !self.cut.is_empty() {
            let row = std::mem::take(&mut self.cut);
            self.parse(&row, valid_start(&row)).map_err(|stop| self.parser.source.error(*stop))?;
        }
        match self.next {
            Next::Row | Next::End => Ok(()),
            _ => Err(self.parser.source.unexpected(self.place, self.expected(), "the end of the file")),
        }
    }

    /// Reads a row, or its start if it is longer than the text.
    fn read_row(&mut self, text: &[u8], valid: &str) -> Result<usize> {
        match self.parse(text, valid) {
            Ok(len) => Ok(len),
            Err(stop) if matches!(*stop, Stop::End { .. }) => {
                self.end = RowEnd::default();
                self.read_cut_row(text)
            }
            Err(stop) => Err(self.parser.source.error(*stop)),
        }
    }

    /// Reads the next piece of a row that is in several. It is parsed if it is complete, or longer than the limit.
    fn read_cut_row(&mut self, piece: &[u8]) -> Result<usize> {
        let end = self.end.find(piece);
        let len = end.unwrap_or(piece.len());
        self.cut.extend_from_slice(&piece[..len]);
        if end.is_some() || self.cut.len() as u64 > MAX_ROW_LEN.min(self.parser.source.row_bound) {
            let row = std::mem::take(&mut self.cut);
            self.parse(&row, valid_start(&row)).map_err(|stop| self.parser.source.error(*stop))?;
        }
        Ok(len)
    }

    /// Returns the error in the start of the row that was not complete yet, if any.
    fn error_in_cut_row(&mut self) -> Option<Error> {
        let row = std::mem::take(&mut self.cut);
        if row.is_empty() {
            return None;
        }
        let stop = self.parse(&row, valid_start(&row)).err()?;
        (!matches!(*stop, Stop::End { .. })).then(|| self.parser.source.error(*stop))
    }

    fn parse(&mut self, text: &[u8], valid: &str) -> Parsed<usize> {
        let line = self.place.line;
        let (len, place) = self.parser.parse(text, valid, self.place)?;
        self.spans_lines |= std::mem::replace(&mut self.row_line, line) == line || place.line != line;
        self.place = place;
        self.rows_read += 1;
        self.next = if self.is_array { Next::Comma } else { Next::Row };
        Ok(len)
    }

    /// Skips a byte between rows.
    fn skip(&mut self, byte: u8) -> Result<usize> {
        match (self.next, byte) {
            (_, b' ' | b'\t' | b'\n' | b'\r') => {}
            (Next::Row, b'[') if self.rows_read == 0 && self.parser.source.after_byte.is_none() => {
                self.is_array = true;
                self.next = Next::Element { comma: false };
            }
            (Next::Element { comma: false } | Next::Comma, b']') => self.next = Next::End,
            (Next::Comma, b',') => self.next = Next::Element { comma: true },
            _ => return Err(self.parser.source.unexpected(self.place, self.expected(), &describe(byte))),
        }
        self.place = match byte {
            b'\n' => TextPlace { line: self.place.line + 1, character: 1 },
            _ => TextPlace { character: self.place.character + 1, ..self.place },
        };
        Ok(1)
    }

    /// Describes the accepted input between rows, for messages.
    fn expected(&self) -> &'static str {
        match self.next {
            Next::Row if self.rows_read == 0 => "an object, or an array of objects",
            Next::Row | Next::Element { comma: true } => "an object",
            Next::Element { comma: false } => "an object or ]",
            Next::Comma => ", or ]",
            Next::End => "nothing behind the array",
        }
    }
}

/// Returns the start of a text that is valid UTF-8. The parser rejects the rest when it reaches it.
fn valid_start(text: &[u8]) -> &str {
    match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
